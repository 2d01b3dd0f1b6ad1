# The image: build/peregrine.elf, and the ISO around it.

# What the transport interface is implemented by. The shared files serve both stacks.
NET_SHARED := $(wildcard net/http.c net/dhcp.c net/checksum.c)
NET_OWN := $(filter-out $(NET_SHARED),$(wildcard net/*.c))
-include net/lwip/lwip.mk
NET_SOURCES_own := $(NET_SHARED) $(NET_OWN)
NET_SOURCES_lwip := $(NET_SHARED) $(LWIP_SOURCES)
NET_SOURCES := $(NET_SOURCES_$(STACK))
ifeq ($(NET_SOURCES),)
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

-include $(KERNEL_OBJECTS:.o=.d)
