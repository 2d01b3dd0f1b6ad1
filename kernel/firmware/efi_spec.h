/* UEFI Specification 2.10 §4.3 and §4.6: the system table and its configuration tables. */
#pragma once

enum {
    EFI_SIGNATURE_BYTES = 8, /* "IBI SYST" */
    EFI_HEADER_BYTES = 24,
    /* Then fields of a pointer's size follow, by number. FirmwareRevision, of 4 bytes, takes one as well. */
    EFI_POINTER_TABLE_COUNT = 10,
    EFI_POINTER_TABLES = 11,
    EFI_POINTERS = 12,

    EFI_GUID_BYTES = 16, /* the first field of a configuration table; the address follows */
};

/* §4.6.1.1, as the bytes lie in memory */
#define EFI_ACPI_20_TABLE_GUID "\x71\xe8\x68\x88\xf1\xe4\xd3\x11\xbc\x22\x00\x80\xc7\x3c\x88\x81"
#define EFI_ACPI_TABLE_GUID    "\x30\x2d\x9d\xeb\x88\x2d\xd3\x11\x9a\x16\x00\x90\x27\x3f\xc1\x4d"
