# The image: build/peregrine.elf, and the ISO around it.

# What the transport interface is implemented by. The shared files serve both stacks.
NET_SHARED := $(wildcard net/http.c net/dhcp.c net/checksum.c net/siphash.c)
NET_OWN := $(filter-out $(NET_SHARED),$(wildcard net/*.c))
-include net/lwip/lwip.mk
NET_SOURCES_own := $(NET_SHARED) $(NET_OWN)
NET_SOURCES_lwip := $(NET_SHARED) $(LWIP_SOURCES)
NET_SOURCES := $(NET_SOURCES_$(STACK))
ifeq ($(filter own lwip,$(STACK)),)
$(error STACK=$(STACK): there is no such stack; use own or lwip)
endif

KERNEL_SOURCES := $(wildcard kernel/*.c kernel/base/*.c drivers/*.c app/*.c)
KERNEL_OBJECTS := $(patsubst %.asm,$(BUILD)/kernel/%.o,$(wildcard boot/*.asm)) \
	$(patsubst %.c,$(BUILD)/kernel/%.o,$(KERNEL_SOURCES) $(NET_SOURCES))

$(BUILD)/kernel/%.o: %.asm
	@mkdir -p $(@D)
	nasm -f elf64 -g -F dwarf -I. -MD $(@:.o=.d) -o $@ $<

$(BUILD)/kernel/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(KERNEL_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

# memcpy and its kin must not be turned into calls of themselves.
$(BUILD)/kernel/kernel/libc.o: KERNEL_CFLAGS += -fno-builtin -fno-tree-loop-distribute-patterns

# Through an archive: what kernel/main.c does not reach is not in the image.
$(BUILD)/kernel/libkernel.a: $(KERNEL_OBJECTS)
	@rm -f $@
	ar rcs $@ $^

LINK := ld -z max-page-size=4096 -z noexecstack --fatal-warnings -T boot/linker.ld
$(BUILD)/peregrine.elf: $(BUILD)/kernel/libkernel.a boot/linker.ld
	$(LINK) -o $@ $(BUILD)/kernel/boot/header.o $(BUILD)/kernel/boot/entry.o $<

# The ISO boots on BIOS and on UEFI. CMDLINE="feed=... submit=..." are the settings of its entry; MODULE=FILE adds a
# settings file that the kernel reads as if it stood behind them. ISO=FILE names the result.
ISO ?= $(BUILD)/peregrine.iso
CMDLINE ?=
MODULE ?=
ISO_TREE := $(ISO).tree
iso: $(BUILD)/peregrine.elf
	@rm -rf $(ISO_TREE) && mkdir -p $(ISO_TREE)/boot/grub
	@cp $(BUILD)/peregrine.elf $(ISO_TREE)/boot/
	@$(if $(MODULE),cp $(MODULE) $(ISO_TREE)/boot/settings,true)
	@{ echo 'set timeout=0'; echo 'insmod all_video'; \
	   echo 'menuentry peregrine {'; \
	   echo '  multiboot2 /boot/peregrine.elf $(CMDLINE)'; \
	   $(if $(MODULE),echo '  module2 /boot/settings settings';) \
	   echo '}'; } > $(ISO_TREE)/boot/grub/grub.cfg
	grub-mkrescue -o $(ISO) $(ISO_TREE) >$(ISO).log 2>&1 || { cat $(ISO).log; false; }

-include $(KERNEL_OBJECTS:.o=.d)
