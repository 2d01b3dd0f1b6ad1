/* An 8x16 font for printable ASCII. tools/workshop/make/font.py writes the table at build time from GRUB's copy of GNU
 * Unifont (package grub-common). */
#pragma once

#include <stdint.h>

enum {
    FONT_FIRST = 0x20,
    FONT_GLYPH_COUNT = 0x7f - FONT_FIRST,
    FONT_WIDTH = 8,
    FONT_HEIGHT = 16,
};

/* A byte a row, top row first, most significant bit left. */
extern const uint8_t font_glyphs[FONT_GLYPH_COUNT][FONT_HEIGHT];
