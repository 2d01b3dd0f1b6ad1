#!/usr/bin/python3
"""Writes drivers/console/font.h's table from a GRUB font file (PFF2) of 8x16 glyphs.

The one used, /usr/share/grub/ascii.pf2 of package grub-common, is GNU Unifont (GPL 2 or later with the font embedding
exception, or SIL OFL 1.1). It is read at build time; no glyph is in this tree.
"""
import struct
import sys

FIRST, LAST, HEIGHT = 0x20, 0x7e, 16

data = open(sys.argv[1], "rb").read()
sections, at = {}, 0
while at + 8 <= len(data):
    name, size = data[at:at + 4], struct.unpack_from(">I", data, at + 4)[0]
    sections[name] = data[at + 8:at + 8 + size]
    if name == b"DATA":
        break
    at += 8 + size
assert sections[b"FILE"] == b"PFF2", "not a GRUB font"
ascent = struct.unpack(">H", sections[b"ASCE"])[0]

glyphs = {}
for entry in range(0, len(sections[b"CHIX"]), 9):
    code, _, offset = struct.unpack_from(">IBI", sections[b"CHIX"], entry)
    if not FIRST <= code <= LAST:
        continue
    width, height, left, bottom, _ = struct.unpack_from(">HHhhH", data, offset)
    bits = int.from_bytes(data[offset + 10:offset + 10 + (width * height + 7) // 8], "big")
    bits >>= -(width * height) % 8              # rows are packed without padding, the last byte is filled up
    rows = [0] * HEIGHT
    for row in range(height):
        line = bits >> (height - 1 - row) * width & ((1 << width) - 1)
        rows[ascent - bottom - height + row] = line << (8 - width - left)
    glyphs[code] = rows

print('#include "drivers/console/font.h"\n')
print("const uint8_t font_glyphs[FONT_GLYPH_COUNT][FONT_HEIGHT] = {")
for code in range(FIRST, LAST + 1):
    print("    { " + ", ".join(f"0x{row:02x}" for row in glyphs[code]) + f" }},    /* {code:#x} */")
print("};")
