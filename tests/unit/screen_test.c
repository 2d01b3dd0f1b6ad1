/* drivers/console/screen.c: VGA text and framebuffers as memory, and the screens that it refuses. */
#include "tests/lib/fake_ports.h"

/* The state of the one screen starts again with each test. */
#include "drivers/console/screen.c"
#include "tests/lib/test.h"

enum { GRAPHICS_VALUE = 0x3cf, CURSOR_INDEX = 0x3d4, COLUMNS = 80, ROWS = 25 };

/* '!' is a frame around its cell; all others are empty. */
const uint8_t font_glyphs[FONT_GLYPH_COUNT][FONT_HEIGHT] = {
    ['!' - FONT_FIRST] = { 0xff, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81,
                           0xff },
    ['?' - FONT_FIRST] = { 0x80 },
};

static uint16_t text[ROWS][COLUMNS];
static uint8_t pixels[3 * FONT_HEIGHT][4 * FONT_WIDTH * 4];
static bool pixels_out_of_reach;

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    assert_int_equal(physical, 0xb8000);
    assert_int_equal(bytes, sizeof text);
    return text;
}

volatile void *memory_map_framebuffer(uint64_t physical, size_t bytes)
{
    assert_true(physical == 0xfd000000);
    assert_true(bytes <= sizeof pixels);
    return pixels_out_of_reach ? NULL : pixels;
}

BEFORE_EACH()
{
    memset(&screen, 0, sizeof screen);
    memset(text, 0xaa, sizeof text);
    memset(pixels, 0xaa, sizeof pixels);
    pixels_out_of_reach = false;
    fake_ports_reset(0);
    fake_ports[GRAPHICS_VALUE] = 0x0e; /* text at 0xb8000 */
}

static void write_all(const char *line)
{
    for (size_t bytes = strlen(line), taken; bytes != 0; bytes -= taken, line += taken) {
        taken = screen_write(line, bytes);
        assert_true(taken <= SCREEN_SLICE_CHARACTERS);
    }
}

static void expect_row(uint32_t row, const char *expected)
{
    for (uint32_t column = 0; column < COLUMNS; column++) {
        char character = column < strlen(expected) ? expected[column] : ' ';
        assert_int_equal(text[row][column], 0x0700 | (uint8_t)character);
    }
}

static const struct boot_framebuffer vga = { .kind = SCREEN_UNKNOWN };

TEST(machine_without_vga_text_has_no_screen)
{
    fake_ports[GRAPHICS_VALUE] = 0xff;
    assert_false(screen_init(&vga));
    fake_ports[GRAPHICS_VALUE] = 0x04; /* at 0xa0000 */
    assert_false(screen_init(&vga));
    assert_false(screen_init(&(struct boot_framebuffer){ .kind = SCREEN_NONE }));
    assert_string_equal(screen_name(), "no screen");
}

TEST(vga_text_is_cleared_and_its_cursor_hidden)
{
    assert_true(screen_init(&(struct boot_framebuffer){ .kind = SCREEN_TEXT }));
    assert_string_equal(screen_name(), "VGA text 80x25");
    for (uint32_t row = 0; row < ROWS; row++)
        expect_row(row, "");
    assert_int_equal(fake_ports[CURSOR_INDEX], 0x0a);
    assert_int_equal(fake_ports[CURSOR_INDEX + 1] & 0x20, 0x20);
}

TEST(lines_fill_the_screen_and_begin_again_at_the_top_above_an_empty_row)
{
    assert_true(screen_init(&vga));
    write_all("first\nsecond\n");
    expect_row(0, "first");
    expect_row(1, "second");
    for (uint32_t row = 2; row < ROWS; row++)
        write_all("more\n");
    expect_row(0, "");
    expect_row(1, "second");
    write_all("x\n");
    expect_row(0, "x");
    expect_row(1, "");
    expect_row(2, "more");
    write_all("y");
    expect_row(1, "y");
    expect_row(2, "more");
    write_all("\n");
    expect_row(2, "");
}

TEST(long_line_goes_on_in_the_next_row)
{
    assert_true(screen_init(&vga));
    char line[COLUMNS + 3];
    memset(line, 'a', sizeof line);
    memcpy(line + COLUMNS, "b\n", sizeof "b\n");
    write_all(line);
    assert_int_equal(text[0][COLUMNS - 1], 0x0700 | 'a');
    expect_row(1, "b");
}

static struct boot_framebuffer framebuffer_of(uint8_t pixel_bits)
{
    return (struct boot_framebuffer){
        .kind = SCREEN_RGB,
        .base = 0xfd000000,
        .pitch_bytes = sizeof pixels[0],
        .width = 3 * FONT_WIDTH + 1,
        .height = sizeof pixels / sizeof pixels[0],
        .pixel_bits = pixel_bits,
    };
}

TEST(framebuffer_of_any_depth_shows_the_glyph)
{
    static const struct {
        uint8_t bits;
        const char *name;
    } depths[] = { { 15, "framebuffer 25x48x15" }, { 24, "framebuffer 25x48x24" }, { 32, "framebuffer 25x48x32" } };
    for (size_t i = 0; i < ARRAY_COUNT(depths); i++) {
        test_before_each();
        uint32_t pixel_bytes = (depths[i].bits + 7u) / 8;
        struct boot_framebuffer framebuffer = framebuffer_of(depths[i].bits);
        assert_true(screen_init(&framebuffer));
        assert_string_equal(screen_name(), depths[i].name);
        write_all(" !");
        for (uint32_t y = 0; y < FONT_HEIGHT; y++)
            for (uint32_t x = 0; x < 3 * FONT_WIDTH * pixel_bytes; x++) {
                uint32_t in_cell = x / pixel_bytes - FONT_WIDTH;
                bool edge = in_cell < FONT_WIDTH
                            && (y == 0 || y == FONT_HEIGHT - 1 || in_cell == 0 || in_cell == FONT_WIDTH - 1);
                assert_int_equal(pixels[y][x], edge ? 0xff : 0);
            }
        assert_int_equal(pixels[0][3 * FONT_WIDTH * pixel_bytes], 0xaa); /* right of the last column */
    }
}

TEST(character_without_glyph_is_a_question_mark)
{
    struct boot_framebuffer framebuffer = framebuffer_of(32);
    assert_true(screen_init(&framebuffer));
    write_all("\x7f");
    assert_int_equal(pixels[0][0], 0xff);
    assert_int_equal(pixels[0][4], 0);
}

TEST(impossible_framebuffer_is_refused)
{
    struct boot_framebuffer bad[] = { framebuffer_of(8),  framebuffer_of(40), framebuffer_of(32), framebuffer_of(32),
                                      framebuffer_of(32), framebuffer_of(32), framebuffer_of(32), framebuffer_of(32) };
    bad[2].width = FONT_WIDTH - 1;
    bad[3].height = 2 * FONT_HEIGHT - 1;
    bad[4].pitch_bytes = bad[4].width * 4 - 1;
    bad[5].height = 16385;
    bad[6].width = 16385;
    bad[6].pitch_bytes = 4 * 16385;
    bad[7].pitch_bytes = 2 * 16384 * 4 + 1;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_false(screen_init(&bad[i]));
    pixels_out_of_reach = true;
    struct boot_framebuffer framebuffer = framebuffer_of(32);
    assert_false(screen_init(&framebuffer));
    assert_string_equal(screen_name(), "no screen");
}
