# The image: build/peregrine.elf, and the ISO around it.

# What the transport interface is implemented by. The shared files serve both stacks.
NET_SHARED := $(wildcard net/http.c net/dhcp.c net/checksum.c net/siphash.c)
NET_OWN := $(filter-out $(NET_SHARED),$(wildcard net/*.c))
-include net/lwip/lwip.mk
NET_SOURCES_own := $(NET_SHARED) $(NET_OWN)
NET_SOURCES_lwip := $(NET_SHARED) $(LWIP_SOURCES)
NET_SOURCES := $(NET_SOURCES_$(STACK))
ifeq ($(and $(filter own lwip,$(STACK)),$(filter 1,$(words $(STACK)))),)
$(error STACK=$(STACK): there is no such stack; use own or lwip)
endif

KERNEL_SOURCES := $(wildcard kernel/*.c kernel/base/*.c drivers/*.c app/*.c)
KERNEL_OBJECTS := $(patsubst %.asm,$(BUILD)/kernel/%.o,$(filter-out boot/linux.asm,$(wildcard boot/*.asm))) $(BUILD)/kernel/font.o \
	$(patsubst %.c,$(BUILD)/kernel/%.o,$(KERNEL_SOURCES) $(NET_SOURCES))

$(BUILD)/kernel/%.o: %.asm
	@mkdir -p $(@D)
	nasm -f elf64 -g -F dwarf -I. -MD $(@:.o=.d) -o $@ $<

$(BUILD)/kernel/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(KERNEL_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

# No SIMD: some KVMs emulate every instruction of the kernel, and know general registers and plain 16-byte moves only.
# Left out: the matcher's vector variants, which are chosen by CPUID or by a setting, and what needs doubles, which runs
# only where a setting asks for it.
APP_PLAIN := $(filter-out app/span_chance.c $(wildcard app/*_avx*.c),$(wildcard app/*.c))
$(BUILD)/kernel/kernel/%.o $(BUILD)/kernel/drivers/%.o $(BUILD)/kernel/net/%.o $(BUILD)/kernel/$(LWIP)/%.o \
		$(APP_PLAIN:%.c=$(BUILD)/kernel/%.o): KERNEL_CFLAGS += -mgeneral-regs-only

# Other flags, other objects.
$(KERNEL_OBJECTS): tools/make/flags.mk tools/make/image.mk

# Every function that fails on purpose stands in the backtrace.
$(patsubst %.c,$(BUILD)/kernel/%.o,$(wildcard kernel/selftest*.c)): KERNEL_CFLAGS += -fno-optimize-sibling-calls

# memcpy and its kin must not be turned into calls of themselves, nor into more than plain moves.
$(BUILD)/kernel/kernel/libc.o: KERNEL_CFLAGS := $(KERNEL_CFLAGS) -fno-builtin -fno-tree-loop-distribute-patterns \
	-fno-tree-vectorize -fno-tree-slp-vectorize

# Another stack in the same build directory: the archive is made anew.
$(BUILD)/kernel/stack-$(STACK):
	@mkdir -p $(@D) && rm -f $(@D)/stack-* && touch $@

# Through an archive: what kernel/main.c does not reach is not in the image.
$(BUILD)/kernel/libkernel.a: $(KERNEL_OBJECTS) $(BUILD)/kernel/stack-$(STACK)
	@rm -f $@
	ar rcs $@ $(KERNEL_OBJECTS)

LINK = ld --build-id=sha1 -z max-page-size=4096 -z noexecstack --fatal-warnings -T boot/linker.ld -o $@ \
	$(BUILD)/kernel/boot/header.o $(BUILD)/kernel/boot/entry.o $(filter %.o,$^) $(BUILD)/kernel/libkernel.a
IMAGE_PARTS := $(BUILD)/kernel/libkernel.a boot/linker.ld

# Linked twice, for the backtrace: first with an empty table of symbols, then with the table of the first. The table is
# read-only data behind the text, so it moves no function; `cmp` holds that to be true.
$(BUILD)/peregrine.elf: $(BUILD)/kernel/symbols_full.o $(IMAGE_PARTS)
	$(LINK)
	@cmp <(nm $(BUILD)/kernel/pass1.elf | grep -i ' [tw] ') <(nm $@ | grep -i ' [tw] ') || { rm $@; false; }
$(BUILD)/kernel/pass1.elf: $(BUILD)/kernel/symbols_empty.o $(IMAGE_PARTS)
	$(LINK)
$(BUILD)/kernel/symbols_full.c: $(BUILD)/kernel/pass1.elf
	nm $< | tools/make/symbols.py >$@
$(BUILD)/kernel/symbols_empty.c: tools/make/symbols.py
	@mkdir -p $(@D)
	tools/make/symbols.py </dev/null >$@
$(BUILD)/kernel/symbols_%.o: $(BUILD)/kernel/symbols_%.c
	$(CC) $(KERNEL_CFLAGS) -c -o $@ $<

# The same image for the Linux boot protocol.
symbol = 0x$$(nm $(BUILD)/peregrine.elf | sed -n 's/ . $1$$//p')
$(BUILD)/peregrine.bzImage: boot/linux.asm $(BUILD)/peregrine.elf
	objcopy -O binary $(BUILD)/peregrine.elf $(BUILD)/kernel/flat.bin
	nasm -f bin -DIMAGE_BYTES=$$(stat -c %s $(BUILD)/kernel/flat.bin) -DENTRY=$(call symbol,linux_entry) \
		-DINIT_BYTES=$$(($(call symbol,image_end) - $(call symbol,image_begin))) -o $(BUILD)/kernel/setup.bin $<
	cat $(BUILD)/kernel/setup.bin $(BUILD)/kernel/flat.bin >$@
CHECK_NEEDS += $(BUILD)/peregrine.bzImage

# The console font, from a package that making the ISO needs anyway.
FONT ?= /usr/share/grub/ascii.pf2
$(BUILD)/kernel/font.c: tools/make/font.py $(FONT)
	@mkdir -p $(@D)
	tools/make/font.py $(FONT) >$@
$(BUILD)/kernel/font.o: $(BUILD)/kernel/font.c
	$(CC) $(KERNEL_CFLAGS) -c -o $@ $<

# The ISO boots on BIOS and on UEFI. CMDLINE="feed=... submit=..." are the settings of its entry; MODULE=FILE adds a
# settings file that the kernel reads as if it stood behind them. ISO=FILE names the result.
ISO ?= $(BUILD)/peregrine.iso
CMDLINE ?=
MODULE ?=
iso: export SETTINGS := $(value CMDLINE)
iso: $(BUILD)/peregrine.elf
	tools/make/iso.sh $< $(ISO) "$$SETTINGS" $(MODULE)

-include $(KERNEL_OBJECTS:.o=.d)
