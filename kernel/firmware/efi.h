/* UEFI's list of tables, which stays in memory after the firmware has handed the machine over. Runs no firmware. UEFI
 * Specification 2.10 §4.3, §4.6. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The loader's word about UEFI. Each address may lie anywhere. */
struct efi_handover {
    uint64_t system_table; /* 0: no UEFI, or not reported */
    bool is_64;            /* pointers have 8 bytes, else 4 */
    /* Linux moves the system table's pointers to addresses of its own, and reports the physical one to a kernel that it
     * starts by kexec. 0: the system table's own pointer counts. */
    uint64_t configuration_tables;
};

/* Returns the address of the configuration table with this GUID, of EFI_GUID_BYTES; 0: none. Maps what it reads, before
 * the seal. */
uint64_t efi_find_table(const struct efi_handover *efi, const char *guid);
