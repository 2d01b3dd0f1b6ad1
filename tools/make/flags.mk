# Compiler flags of the three builds. No -march=native anywhere: variants for AVX2 and AVX-512 are files of their own
# (app/*_avx2.c, app/*_avx512.c), chosen at run time.
ifeq ($(origin CC),default)
CC := gcc
endif
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Werror
COMMON := -std=gnu11 -g -I. -I$(BUILD)/gen -MMD -MP $(WARN) -fno-strict-aliasing -fno-common

# -fbuiltin after -ffreestanding: the loads and stores of bytes.h must stay single instructions, not calls of memcpy.
KERNEL_CFLAGS := $(COMMON) -O2 -ffreestanding -fbuiltin -fno-pic -fno-pie -mno-red-zone -fno-stack-protector \
	-fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none -DPEREGRINE_KERNEL=1
# No vectors out of straight code: the kernel's build has none, and GCC 12 loads constants for them from memory.
HOST_CFLAGS := $(COMMON) -O2 -fno-omit-frame-pointer -fno-tree-slp-vectorize
TEST_CFLAGS := $(COMMON) -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# Per-file additions, the same in every build. CFLAGS_EXTRA is set per target by fragments (net/lwip/lwip.mk).
cflags_of = $(if $(findstring matcher_scalar.,$1),-mgeneral-regs-only,)$(if $(findstring _avx512.,$1),-mavx512f -mavx512bw -mavx512vl -mavx512dq -mbmi2 -mprefer-vector-width=512,$(if $(findstring _avx2.,$1),-mavx2 -mbmi2,)) $(CFLAGS_EXTRA)
