# The image, and the ISO around it. Each program has an image of its own: build/peregrine.elf is the player's,
# build/NAME/peregrine.elf that of any other.
image_folder = $(BUILD)$(if $(filter-out player,$1),/$1)
IMAGE := $(call image_folder,$(PROGRAM))

# The compiled files. All programs' images, and that of the other stack in its build directory, are linked of the same.
OBJECTS ?= $(BUILD)/kernel

# The implementations of the transport interface. The shared files serve both stacks.
CAPTURE_SOURCES := $(wildcard net/capture/*.c)
NET_SHARED := $(wildcard net/http/*.c) $(CAPTURE_SOURCES) net/settings.c net/ip/dhcp.c net/ip/vlan.c net/ip/checksum.c \
	net/transport_path.c
NET_OWN := $(filter-out $(NET_SHARED),$(wildcard net/*.c net/ip/*.c net/own/*.c net/tcp/*.c))
-include net/lwip/lwip.mk
NET_SOURCES_own := $(NET_SHARED) $(NET_OWN)
NET_SOURCES_lwip := $(NET_SHARED) $(LWIP_SOURCES)
NET_SOURCES := $(NET_SOURCES_$(STACK))
FAKE_TRANSPORT := tests/lib/fake_transport.c net/transport_path.c
ifeq ($(and $(filter own lwip,$(STACK)),$(filter 1,$(words $(STACK)))),)
$(error STACK=$(STACK): there is no such stack; use own or lwip)
endif

KERNEL_SOURCES := $(wildcard image/*.c kernel/*.c kernel/*/*.c base/*.c drivers/*/*.c) $(APP_SOURCES)
KERNEL_OBJECTS := $(patsubst %,$(OBJECTS)/boot/%.o,entry header worker traps) \
	$(OBJECTS)/font.o $(patsubst %.c,$(OBJECTS)/%.o,$(KERNEL_SOURCES) $(NET_SOURCES))

# Without lines for gdb: nasm's would hold the path of this folder, and the image's build id with it.
$(OBJECTS)/%.o: %.asm
	@mkdir -p $(@D)
	nasm -f elf64 -I. -MD $(@:.o=.d) -o $@ $<

$(OBJECTS)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(KERNEL_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

# No SIMD: some KVMs emulate every instruction of the kernel, and know general registers and plain 16-byte moves only.
# Left out: the vector variants of matcher and digest, which are chosen by CPUID or by a setting.
APP_PLAIN := $(filter-out app/matcher/avx% %_avx2.c %_avx512.c %_shani.c %_aesni.c %_vaes.c, \
	$(wildcard base/*.c app/*/*.c) $(APP_SOURCES))
$(OBJECTS)/image/%.o $(OBJECTS)/kernel/%.o $(OBJECTS)/drivers/%.o $(OBJECTS)/net/%.o \
	$(OBJECTS)/$(LWIP)/%.o $(APP_PLAIN:%.c=$(OBJECTS)/%.o): KERNEL_CFLAGS += -mgeneral-regs-only

# Every file is compiled for size, a new one too, except these. A file that says HOT or fetches hot lines
# (base/hot_section.h) is compiled for speed; so are rooms that compute or measure, and three files that work by the
# byte.
# The selftests, which fail on purpose, and lwIP keep -O2.
OUR_SOURCES := $(filter-out net/lwip/%,$(wildcard image/*.c kernel/*.c kernel/*/*.c base/*.c drivers/*/*.c net/*.c \
	net/*/*.c app/*/*.c))
FAST_SOURCES := $(shell grep -lE '\<HOT\>|"base/hot_section.h"' $(OUR_SOURCES)) \
	$(filter-out %/settings.c,$(wildcard $(patsubst %,app/%/*.c,digest matcher survey time))) \
	base/siphash.c kernel/libc.c net/capture/capture.c $(wildcard kernel/rescue/selftest*.c)
$(patsubst %.c,$(OBJECTS)/%.o,$(filter-out $(FAST_SOURCES),$(OUR_SOURCES))): KERNEL_CFLAGS += -Os

# Other flags, other objects.
$(KERNEL_OBJECTS) $(IMAGE)/kernel/symbols_empty.o $(IMAGE)/kernel/symbols_full.o: tools/workshop/make/flags.mk \
	tools/workshop/make/image.mk

# Every function that fails on purpose stands in the backtrace.
$(patsubst %.c,$(OBJECTS)/%.o,$(wildcard kernel/rescue/selftest*.c)): KERNEL_CFLAGS += -fno-optimize-sibling-calls

# memcpy and its kin must not be turned into calls of themselves, nor into more than plain moves. Clang's -fno-builtin
# includes the word that only GCC knows.
$(OBJECTS)/kernel/libc.o: KERNEL_CFLAGS := $(KERNEL_CFLAGS) -fno-builtin -fno-tree-vectorize -fno-tree-slp-vectorize \
	$(if $(findstring clang,$(CC)),,-fno-tree-loop-distribute-patterns)

# Another stack in the same folder: the archive is made again.
$(IMAGE)/kernel/parts-$(STACK):
	@mkdir -p $(@D) && rm -f $(@D)/parts-* && touch $@

# Through archives: code that image/main.c does not reach is not in the image. The machine's archive is searched first,
# so its variables lie below those of app and net: a machine with less RAM than the image needs can still say so.
APP_OBJECTS := $(filter $(OBJECTS)/app/% $(OBJECTS)/net/% $(OBJECTS)/$(LWIP)/%,$(KERNEL_OBJECTS))
$(IMAGE)/kernel/libkernel.a: $(filter-out $(APP_OBJECTS),$(KERNEL_OBJECTS))
	@rm -f $@
	ar qcs $@ $^
$(IMAGE)/kernel/libapp.a: $(APP_OBJECTS) $(IMAGE)/kernel/parts-$(STACK)
	@rm -f $@
	ar qcs $@ $(APP_OBJECTS)

# --nmagic: no loader maps pages of the file, so its segments need no padding to pages.
LINK = ld --build-id=sha1 --gc-sections --nmagic -z noexecstack --fatal-warnings -T image/linker.ld -o $@ \
	$(OBJECTS)/boot/header.o $(OBJECTS)/boot/entry.o $(filter %.o,$^) \
	--start-group $(IMAGE)/kernel/libkernel.a $(IMAGE)/kernel/libapp.a --end-group
IMAGE_PARTS := $(IMAGE)/kernel/libkernel.a $(IMAGE)/kernel/libapp.a image/linker.ld

# Linked twice, for the backtrace: first with an empty table of symbols, then with the table of the first. The table is
# read-only data after the text, so it moves no function; `cmp` holds that to be true.
#
# peregrine.debug is for gdb and for the names of addresses; peregrine.elf is the same without names and lines.
$(IMAGE)/peregrine.elf: $(IMAGE)/peregrine.debug
	strip -o $@ $<
$(IMAGE)/peregrine.debug: $(IMAGE)/kernel/symbols_full.o $(IMAGE_PARTS)
	$(LINK)
	@cmp <(nm $(IMAGE)/kernel/pass1.elf | grep -i ' [tw] ') <(nm $@ | grep -i ' [tw] ') || { rm $@; false; }
$(IMAGE)/kernel/pass1.elf: $(IMAGE)/kernel/symbols_empty.o $(IMAGE_PARTS)
	$(LINK)
$(IMAGE)/kernel/symbols_full.c: $(IMAGE)/kernel/pass1.elf
	nm $< | tools/workshop/make/symbols.py >$@
$(IMAGE)/kernel/symbols_empty.c: tools/workshop/make/symbols.py
	@mkdir -p $(@D)
	tools/workshop/make/symbols.py </dev/null >$@
$(IMAGE)/kernel/symbols_%.o: $(IMAGE)/kernel/symbols_%.c
	$(CC) $(KERNEL_CFLAGS) -c -o $@ $<

# The image for the Linux boot protocol, whose header counts it in units of 16 bytes.
symbol = 0x$$(nm $(IMAGE)/peregrine.debug | sed -n 's/ . $1$$//p')
$(IMAGE)/peregrine.bzImage: boot/linux.asm boot/x86_spec.asm $(IMAGE)/peregrine.elf
	objcopy -O binary $(IMAGE)/peregrine.elf $(IMAGE)/kernel/flat.bin
	nasm -f bin -I. -DIMAGE_BYTES=$$(stat -c %s $(IMAGE)/kernel/flat.bin) -DENTRY=$(call symbol,linux_entry) \
		-DINIT_BYTES=$$(($(call symbol,image_end) - $(call symbol,image_begin))) -o $(IMAGE)/kernel/setup.bin $<
	cat $(IMAGE)/kernel/setup.bin $(IMAGE)/kernel/flat.bin >$@
	truncate --size=%16 $@

# The console font, from a package that making the ISO needs anyway.
FONT ?= /usr/share/grub/ascii.pf2
$(OBJECTS)/font.c: tools/workshop/make/font.py $(FONT)
	@mkdir -p $(@D)
	tools/workshop/make/font.py $(FONT) >$@
$(OBJECTS)/font.o: $(OBJECTS)/font.c
	$(CC) $(KERNEL_CFLAGS) -c -o $@ $<

# The ISO boots on BIOS and on UEFI. MODULE=FILE is a settings file, CMDLINE="feed=... submit=..." are settings on the
# command line of its entry; the kernel reads both. The program's own parser refuses here what the kernel would refuse.
# ISO=FILE names the result.
ISO ?= $(IMAGE)/peregrine.iso
CMDLINE ?=
MODULE ?=
iso: export SETTINGS := $(value CMDLINE)
iso: export MODULE := $(value MODULE)
iso: $(IMAGE)/peregrine.elf ## build/peregrine.iso, or ISO=FILE; CMDLINE= and MODULE=FILE are its settings
	@[ -z "$$MODULE" ] || [ -r "$$MODULE" ] || { echo "iso: MODULE=$$MODULE: there is no such file" >&2; exit 1; }
	$(if $(filter player,$(PROGRAM)),@[ -n "$$SETTINGS$$MODULE" ] || \
		echo 'iso: without settings the kernel cannot play: make iso MODULE=FILE (docs/settings.md)')
	@[ -z "$$SETTINGS$$MODULE" ] || \
		{ printf '%s\n' "$$SETTINGS"; cat -- "$${MODULE:-/dev/null}"; } | $(call check_settings,$(PROGRAM)) "make iso"
	tools/workshop/make/iso.sh $< "$(ISO)" "$$SETTINGS" $${MODULE:+"$$MODULE"}

-include $(KERNEL_OBJECTS:.o=.d)
