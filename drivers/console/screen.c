/* Draws characters on VGA text or a framebuffer, and clears the next row before it leaves a row. */
#include "drivers/console/screen.h"

#include <stdint.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "drivers/console/font.h"
#include "kernel/cpu/ports.h"
#include "kernel/memory/memory.h"

enum {
    /* IBM VGA: graphics controller and CRT controller, index and data port */
    VGA_GRAPHICS_INDEX = 0x3ce,
    VGA_GRAPHICS_MISCELLANEOUS = 6,
    VGA_MISCELLANEOUS_MAP_MASK = 0x0c, /* the addresses at which the memory answers; both bits set: 0xb8000 */
    VGA_MISCELLANEOUS_GRAPHICS = 0x01,
    VGA_CRTC_INDEX = 0x3d4,
    VGA_CRTC_CURSOR_START = 0x0a,
    VGA_CURSOR_OFF = 0x20,

    VGA_TEXT_BASE = 0xb8000,
    VGA_TEXT_COLUMNS = 80,
    VGA_TEXT_ROWS = 25,
    VGA_GREY_ON_BLACK = 0x0700,

    ROWS_MIN = 2,                   /* a line, and the empty row that follows it */
    FRAMEBUFFER_PIXELS_MAX = 16384, /* a side; larger ones count as none */
};

static struct {
    uint32_t columns, rows; /* in characters; 0: no screen */
    uint32_t column, row;   /* the place of the next character */
    uint32_t blank;         /* cells of the next row still to be blanked, from the right */

    volatile uint8_t *base;
    uint32_t pitch_bytes, pixel_bytes; /* pixel_bytes 0: VGA text */
    char name[48];
} screen;

static void cell_put(uint32_t column, uint32_t row, char character)
{
    ASSERT(column < screen.columns && row < screen.rows);
    uint8_t c = (uint8_t)character;
    if (screen.pixel_bytes == 0) {
        ((volatile uint16_t *)screen.base)[row * screen.columns + column] = VGA_GREY_ON_BLACK | c;
        return;
    }
    const uint8_t *glyph = font_glyphs[c - FONT_FIRST < FONT_GLYPH_COUNT ? c - FONT_FIRST : '?' - FONT_FIRST];
    for (uint32_t y = 0; y < FONT_HEIGHT; y++) {
        volatile uint8_t *line = screen.base + (size_t)(row * FONT_HEIGHT + y) * screen.pitch_bytes
                                 + column * FONT_WIDTH * screen.pixel_bytes;
        for (uint32_t x = 0; x < FONT_WIDTH; x++) {
            bool set = glyph[y] & 0x80 >> x; /* white and black are the same in every pixel format */
            if (screen.pixel_bytes == 4) {
                ((volatile uint32_t *)line)[x] = set ? 0xffffffff : 0;
                continue;
            }
            for (uint32_t i = 0; i < screen.pixel_bytes; i++)
                line[x * screen.pixel_bytes + i] = set ? 0xff : 0;
        }
    }
}

static uint32_t next_row(void)
{
    ASSERT(screen.rows != 0);
    return (screen.row + 1) % screen.rows;
}

size_t screen_write(const char *text, size_t bytes)
{
    ASSERT(screen.columns != 0);
    size_t taken = 0;
    for (uint32_t cells = 0; cells < SCREEN_SLICE_CHARACTERS && taken < bytes; cells++) {
        if (text[taken] != '\n' && screen.column < screen.columns) {
            cell_put(screen.column++, screen.row, text[taken++]);
        } else if (screen.blank != 0) {
            cell_put(--screen.blank, next_row(), ' ');
        } else {
            taken += text[taken] == '\n';
            screen.row = next_row();
            screen.column = 0;
            screen.blank = screen.columns;
        }
    }
    return taken;
}

/* ---- init ---- */

/* Returns true if the graphics controller shows text at 0xb8000. Without one the port reads all ones. */
static bool vga_shows_text(void)
{
    port_out8(VGA_GRAPHICS_INDEX, VGA_GRAPHICS_MISCELLANEOUS);
    uint8_t value = port_in8(VGA_GRAPHICS_INDEX + 1);
    return (value & (VGA_MISCELLANEOUS_MAP_MASK | VGA_MISCELLANEOUS_GRAPHICS)) == VGA_MISCELLANEOUS_MAP_MASK;
}

static bool vga_text_init(void)
{
    ASSERT(screen.columns == 0);
    if (!vga_shows_text())
        return false;
    port_out8(VGA_CRTC_INDEX, VGA_CRTC_CURSOR_START);
    port_out8(VGA_CRTC_INDEX + 1, VGA_CURSOR_OFF);
    screen.base = memory_map_device(VGA_TEXT_BASE, VGA_TEXT_COLUMNS * VGA_TEXT_ROWS * 2);
    screen.columns = VGA_TEXT_COLUMNS;
    screen.rows = VGA_TEXT_ROWS;
    format(screen.name, sizeof screen.name, "VGA text %ux%u", screen.columns, screen.rows);
    return true;
}

static bool framebuffer_init(const struct boot_framebuffer *from)
{
    ASSERT(screen.columns == 0);
    uint32_t pixel_bytes = (from->pixel_bits + 7u) / 8;
    if (pixel_bytes < 2 || pixel_bytes > 4 || from->width < FONT_WIDTH || from->height < ROWS_MIN * FONT_HEIGHT
        || from->width > FRAMEBUFFER_PIXELS_MAX || from->height > FRAMEBUFFER_PIXELS_MAX
        || from->pitch_bytes < from->width * pixel_bytes || from->pitch_bytes > 2 * FRAMEBUFFER_PIXELS_MAX * 4)
        return false;
    screen.base = memory_map_framebuffer(from->base, (size_t)from->pitch_bytes * from->height);
    if (screen.base == NULL)
        return false;
    screen.pitch_bytes = from->pitch_bytes;
    screen.pixel_bytes = pixel_bytes;
    screen.columns = from->width / FONT_WIDTH;
    screen.rows = from->height / FONT_HEIGHT;
    format(screen.name, sizeof screen.name, "framebuffer %ux%ux%u", from->width, from->height, from->pixel_bits);
    return true;
}

bool screen_init(const struct boot_framebuffer *framebuffer)
{
    switch (framebuffer->kind) {
    case SCREEN_RGB:
        if (!framebuffer_init(framebuffer))
            return false;
        break;
    case SCREEN_TEXT:
    case SCREEN_UNKNOWN:
        if (!vga_text_init())
            return false;
        break;
    case SCREEN_NONE:
        return false;
    }
    ASSERT(screen.rows != 0 && screen.columns != 0);
    for (uint32_t row = 0; row < screen.rows; row++)
        for (uint32_t column = 0; column < screen.columns; column++)
            cell_put(column, row, ' ');
    return true;
}

const char *screen_name(void) { return screen.columns != 0 ? screen.name : "no screen"; }
