/* Reads the configuration tables. Believes neither an address nor a count. */
#include "kernel/firmware/efi.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "kernel/firmware/efi_spec.h"
#include "kernel/memory/memory.h"

enum { CONFIGURATION_TABLE_COUNT_MAX = 1024 }; /* firmware of real machines has 10 to 30 */

uint64_t efi_find_table(const struct efi_handover *efi, const char *guid)
{
    ASSERT(efi != NULL && guid != NULL);
    const size_t pointer_bytes = efi->is_64 ? 8 : 4;
    const size_t entry_bytes = EFI_GUID_BYTES + pointer_bytes;
    const uint8_t *system = memory_map_table(efi->system_table, EFI_HEADER_BYTES + EFI_POINTERS * pointer_bytes);
    if (system == NULL || memcmp(system, "IBI SYST", EFI_SIGNATURE_BYTES) != 0)
        return 0;
    uint64_t count = 0, at = 0;
    memcpy(&count, system + EFI_HEADER_BYTES + EFI_POINTER_TABLE_COUNT * pointer_bytes, pointer_bytes);
    memcpy(&at, system + EFI_HEADER_BYTES + EFI_POINTER_TABLES * pointer_bytes, pointer_bytes);
    count = min_u64(count, CONFIGURATION_TABLE_COUNT_MAX);
    const uint8_t *tables = memory_map_table(efi->configuration_tables != 0 ? efi->configuration_tables : at,
                                             (size_t)count * entry_bytes);
    for (size_t i = 0; tables != NULL && i < count; i++) {
        if (memcmp(tables + i * entry_bytes, guid, EFI_GUID_BYTES) == 0) {
            uint64_t table = 0;
            memcpy(&table, tables + i * entry_bytes + EFI_GUID_BYTES, pointer_bytes);
            return table;
        }
    }
    return 0;
}
