/* The image's own function names. tools/make/symbols.py writes the table between two links. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol {
    uint32_t address;           /* the image lies below 4 GiB */
    uint32_t name;              /* where it begins in symbol_names */
};

/* Ascending. Generated: symbols_empty.c and symbols_full.c in build/kernel/. */
extern const struct symbol symbol_table[];
extern const size_t symbol_count;
extern const char symbol_names[];

enum { SYMBOL_TEXT_BYTES_MAX = 96 };

/* In the image's executable part? */
bool symbol_is_text(uint64_t address);

/* "matcher_push+0x1c", or "?" for what is not text. A return address is looked up one byte lower, where the call was:
 * behind a call that never returns the next function may begin. */
enum symbol_use { SYMBOL_EXACT, SYMBOL_RETURN };
void symbol_format(char *out, size_t out_bytes, uint64_t address, enum symbol_use use);
