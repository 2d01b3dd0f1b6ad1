/* Xen public/arch-x86/hvm/start_info.h: the structure that the PVH entry point finds at EBX. Version 1. */
#pragma once

#include <assert.h>
#include <stdint.h>

enum {
    XEN_HVM_START_MAGIC_VALUE = 0x336ec578,
    HVM_MEMMAP_VERSION = 1, /* from this version on there is a memory map */
};

struct hvm_start_info {
    uint32_t magic, version, flags, nr_modules;
    uint64_t modlist_paddr, cmdline_paddr, rsdp_paddr;
    uint64_t memmap_paddr; /* version 1 and later */
    uint32_t memmap_entries, reserved;
};
static_assert(sizeof(struct hvm_start_info) == 56, "");

struct hvm_modlist_entry {
    uint64_t paddr, size, cmdline_paddr, reserved;
};

struct hvm_memmap_table_entry {
    uint64_t addr, size;
    uint32_t type, reserved;
};
static_assert(sizeof(struct hvm_memmap_table_entry) == 24, "");
