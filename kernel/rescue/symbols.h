/* The image's own function names. tools/make/symbols.py writes the table between two links. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ascending addresses of 32 bits (the image lies below 4 GiB), and the names in the same order, a NUL behind each.
 * Generated: symbols_empty.c and symbols_full.c in build/kernel/. */
extern const uint32_t symbol_addresses[];
extern const size_t symbol_count;
extern const char symbol_names[];

enum { SYMBOL_TEXT_BYTES_MAX = 96 };

/* Returns true for an address in the image's executable part. */
bool symbol_is_text(uint64_t address);

/* SYMBOL_RETURN is looked up one byte lower, at the call: behind a call that never returns the next function may
 * begin. */
enum symbol_use { SYMBOL_EXACT, SYMBOL_RETURN };

/* Writes "matcher_push+0x1c", or "?" for an address that is not text. */
void symbol_format(char *out, size_t out_bytes, uint64_t address, enum symbol_use use);
