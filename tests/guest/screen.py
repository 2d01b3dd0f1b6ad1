"""Reads a guest's screen as text: VGA text memory, or a framebuffer drawn with the kernel's font."""
import re

from workshop.vm import qemu

VGA_TEXT = 0xB8000
COLUMNS, ROWS = 80, 25


def text_screen(guest, path):
    """Returns the rows of the VGA text screen."""
    guest.qmp("pmemsave", val=VGA_TEXT, size=COLUMNS * ROWS * 2, filename=str(path))
    cells = path.read_bytes()[::2].decode("latin-1")
    return [cells[i:i + COLUMNS].rstrip() for i in range(0, len(cells), COLUMNS)]


def font():
    """Returns a map of glyph (16 row bytes) to character, from the table that was built into the image."""
    rows = re.findall(r"\{ ((?:0x[0-9a-f]{2}(?:, )?){16}) \},", (qemu.BUILD / "kernel/font.c").read_text())
    return {bytes(int(byte, 16) for byte in row.split(", ")): chr(0x20 + i) for i, row in enumerate(rows)}


def framebuffer_screen(guest, path):
    """Returns the rows of a framebuffer, cell by cell; an unknown glyph is U+FFFD."""
    _, width, height, pixels = read_ppm(guest.screendump(path))
    glyphs = font()
    lines = []
    for top in range(0, height - 15, 16):
        line = ""
        for left in range(0, width - 7, 8):
            cell = bytes(
                sum((pixels[((top + y) * width + left + x) * 3] > 127) << (7 - x) for x in range(8)) for y in range(16))
            line += glyphs.get(cell, "\ufffd")
        lines.append(line.rstrip())
    return lines


def read_ppm(path):
    data = path.read_bytes()
    magic, width, height, depth = data.split(maxsplit=4)[:4]
    assert (magic, depth) == (b"P6", b"255")
    return magic, int(width), int(height), data[-int(width) * int(height) * 3:]
