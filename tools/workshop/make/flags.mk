# Compiler flags of the three builds. No -march=native anywhere: variants for AVX2 and AVX-512 are files of their own
# (avx2.c, avx512.c), chosen at run time.
ifeq ($(origin CC),default)
CC := gcc
endif
# WERROR=1 makes errors of warnings: .ci/run sets it. A newer compiler with further warnings stops nobody else.
# A call of what no header declares is an error everywhere: older compilers would leave it to the linker.
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
	-Werror=implicit-function-declaration \
	$(if $(filter 1,$(WERROR)),-Werror)
# Below outside/ stands a program from elsewhere: program.mk.
COMMON := -std=gnu11 -g -I. -I$(BUILD)/gen -I$(BUILD)/outside -MMD -MP $(WARN) -fno-strict-aliasing -fno-common

# -ffile-prefix-map: the image is the same to the byte in whatever folder it is built.
# -fbuiltin after -ffreestanding: the loads and stores of bytes.h must stay single instructions, not calls of memcpy.
KERNEL_CFLAGS := $(COMMON) -O2 -ffreestanding -fbuiltin -fno-pic -fno-pie -mno-red-zone -fno-stack-protector \
	-fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none -ffunction-sections \
	-fdata-sections -ffile-prefix-map='$(subst ','\'',$(CURDIR))=.' -DPEREGRINE_KERNEL=1
# No vectors out of straight code: the kernel's build has none, and GCC 12 loads constants for them from memory.
HOST_CFLAGS := $(COMMON) -O2 -fno-omit-frame-pointer -fno-tree-slp-vectorize
# The many test programs are linked by gold where it is there, in a third of the time; Clang's ASan does not suit gold.
LINKER := $(if $(findstring clang,$(CC)),,$(if $(shell command -v ld.gold),-fuse-ld=gold))
# COVERAGE=1 counts lines instead of looking for faults; tools/workshop/coverage.py builds so, in a tree of its own.
ifdef COVERAGE
CC := gcc --coverage -fprofile-update=atomic
TEST_LINK :=
TEST_LINK := $(LINKER)
TEST_CFLAGS := $(COMMON) -O0
HOST_CFLAGS := $(TEST_CFLAGS)
else
SANITIZE := -fsanitize=address,undefined
TEST_LINK := $(SANITIZE) $(LINKER)
# Lines for the sanitizers' reports, which compile in three quarters of the time; TEST_DEBUG=-g for a debugger.
TEST_DEBUG ?= -g1
TEST_CFLAGS := $(COMMON) $(TEST_DEBUG) -Og $(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# The product, without the port of lwIP, whose macros convert as they please.
STRICT := -Wconversion -Wsign-conversion -Wcast-qual -Wswitch-enum
STRICT_FOLDERS := image/% base/% kernel/% drivers/% net/% app/% host/%
is_strict = $(filter $(STRICT_FOLDERS),$(filter-out net/lwip/%,$1))

# The one place where make reads the version; a further version compiles base/version.c again.
VERSION := $(file <VERSION)
$(patsubst %,$(BUILD)/%/base/version.o,kernel host pic test fuzz): VERSION

# The vector instructions of a file, by the end of its name.
CFLAGS_AVX512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mbmi2 -mprefer-vector-width=512
vectors_of = $(if $(findstring avx512.,$1),$(CFLAGS_AVX512) $(if $(findstring base64,$1),-mavx512vbmi)) \
	$(if $(findstring _vaes.,$1),$(CFLAGS_AVX512) -mvaes -maes) $(if $(findstring avx2.,$1),-mavx2 -mbmi2) \
	$(if $(findstring _shani.,$1),-msha -msse4.1) $(if $(findstring _aesni.,$1),-maes -msse4.1)

# Per-file additions, the same in every build. CFLAGS_EXTRA is set per target by fragments (net/lwip/lwip.mk).
cflags_of = $(if $(call is_strict,$1),$(STRICT)) $(if $(findstring matcher/scalar.,$1),-mgeneral-regs-only) \
	$(if $(filter base/version.c,$1),-DPEREGRINE_VERSION='"$(VERSION)"') $(vectors_of) $(CFLAGS_EXTRA)
