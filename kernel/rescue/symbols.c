/* Finds the function of an address by walking the names. Reads no debug information. */
#include "kernel/rescue/symbols.h"

#include <string.h>

#include "base/assert.h"
#include "base/format.h"

extern const char image_begin[], text_end[]; /* image/linker.ld */

bool symbol_is_text(uint64_t address) { return address >= (uintptr_t)image_begin && address < (uintptr_t)text_end; }

void symbol_format(char *out, size_t out_bytes, uint64_t address, enum symbol_use use)
{
    uint64_t within = use == SYMBOL_RETURN ? address - 1 : address;
    if (!symbol_is_text(within) || symbol_count == 0 || within < symbol_addresses[0]) {
        format(out, out_bytes, "?");
        return;
    }
    size_t i = 0;
    const char *name = symbol_names;
    for (; i + 1 < symbol_count && symbol_addresses[i + 1] <= within; i++)
        name += strlen(name) + 1;
    ASSERT(symbol_addresses[i] <= within && i < symbol_count);
    format(out, out_bytes, "%s+0x%lx", name, address - symbol_addresses[i]);
}
