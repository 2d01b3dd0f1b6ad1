#include "kernel/symbols.h"

#include "kernel/base/log.h"

extern const char image_begin[], text_end[];        /* boot/linker.ld */

bool symbol_is_text(uint64_t address)
{
    return address >= (uintptr_t)image_begin && address < (uintptr_t)text_end;
}

void symbol_format(char *out, size_t out_bytes, uint64_t address, enum symbol_use use)
{
    uint64_t within = use == SYMBOL_RETURN ? address - 1 : address;
    if (!symbol_is_text(within) || symbol_count == 0 || within < symbol_table[0].address) {
        format(out, out_bytes, "?");
        return;
    }
    size_t low = 0, high = symbol_count;        /* table[low].address <= within < table[high].address */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (symbol_table[middle].address <= within) {
            low = middle;
        } else {
            high = middle;
        }
    }
    format(out, out_bytes, "%s+0x%lx", symbol_names + symbol_table[low].name, address - symbol_table[low].address);
}
