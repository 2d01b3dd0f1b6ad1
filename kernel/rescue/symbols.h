/* The image's own function names. tools/workshop/make/symbols.py writes the table between two links. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The functions by ascending addresses. Each is three things:
 *   - its distance from the one before, or from image_begin: seven bits a byte, the lowest first, the high bit set in
 *     all bytes but the last;
 *   - a byte, the count of characters that its name shares with the name before;
 *   - the other characters, one or more, the high bit set in the last.
 * Neighbours are of one file and share their prefix. Generated: symbols_empty.c and symbols_full.c in build/kernel/. */
extern const uint8_t symbol_table[];
extern const size_t symbol_table_bytes;

enum { SYMBOL_NAME_BYTES_MAX = 63, SYMBOL_TEXT_BYTES_MAX = 96 };

/* Returns true for an address in the image's executable part. */
bool symbol_is_text(uint64_t address);

/* SYMBOL_RETURN is looked up one byte lower, at the call: after a call that never returns the next function may
 * begin. */
enum symbol_use { SYMBOL_EXACT, SYMBOL_RETURN };

/* Writes "matcher_push+0x1c", or "?" for an address that is not text. */
void symbol_format(char *out, size_t out_bytes, uint64_t address, enum symbol_use use);
