/* Finds the function of an address by walking the names. Reads no debug information. */
#include "kernel/rescue/symbols.h"

#include "base/assert.h"
#include "base/format.h"

enum { MORE = 0x80 }; /* the high bit of a byte */

extern const char image_begin[], text_end[]; /* image/linker.ld */

bool symbol_is_text(uint64_t address) { return address >= (uintptr_t)image_begin && address < (uintptr_t)text_end; }

/* A place in the table, and the function in front of it. */
struct walk {
    const uint8_t *next;
    uint64_t address;
    char name[SYMBOL_NAME_BYTES_MAX + 1];
};

/* Takes the next function of the table if it begins at or below `limit`. */
static bool walk_on(struct walk *walk, uint64_t limit)
{
    const uint8_t *at = walk->next;
    uint64_t distance = 0;
    if (at >= symbol_table + symbol_table_bytes)
        return false;
    for (unsigned shift = 0;; shift += 7) {
        distance |= (uint64_t)(*at & ~MORE) << shift;
        if ((*at++ & MORE) == 0)
            break;
    }
    if (walk->address + distance > limit)
        return false;
    walk->address += distance;
    size_t length = *at++;
    do {
        ASSERT(length < SYMBOL_NAME_BYTES_MAX);
        walk->name[length++] = (char)(*at & ~MORE);
    } while ((*at++ & MORE) == 0);
    walk->name[length] = '\0';
    walk->next = at;
    return true;
}

void symbol_format(char *out, size_t out_bytes, uint64_t address, enum symbol_use use)
{
    struct walk walk = { .next = symbol_table, .address = (uintptr_t)image_begin };
    uint64_t within = use == SYMBOL_RETURN ? address - 1 : address;
    if (!symbol_is_text(within) || !walk_on(&walk, within)) {
        format(out, out_bytes, "?");
        return;
    }
    while (walk_on(&walk, within)) {
    }
    ASSERT(walk.address <= within);
    format(out, out_bytes, "%s+0x%lx", walk.name, address - walk.address);
}
