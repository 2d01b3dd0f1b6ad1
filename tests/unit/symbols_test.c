/* kernel/rescue/symbols.c reads the table that tests/tools/test_symbols.py has tools/workshop/make/symbols.py write. */
#include "kernel/rescue/symbols.h"
#include "tests/lib/test.h"

enum { IMAGE_BYTES = 0x10000 };
const char image_begin[IMAGE_BYTES] = { 1 };
__asm__(".globl text_end\n\t.set text_end, image_begin + 0x10000");

/* `start` at 0x10, `startle` at 0x20, `star` at 0x1b0 and `matcher_push` at 0x41b0 after image_begin. */
#define LAST(c) ((c) | 0x80)
const uint8_t symbol_table[] = {
    0x10, 0,    's', 't', 'a', 'r', LAST('t'), 0x10, 5,   'l', LAST('e'), 0x90, 0x03, 3,   LAST('r'), 0x80,
    0x80, 0x01, 0,   'm', 'a', 't', 'c',       'h',  'e', 'r', '_',       'p',  'u',  's', LAST('h'), 0,
};
const size_t symbol_table_bytes = sizeof symbol_table - 1;

static void expect(uint64_t offset, enum symbol_use use, const char *expected)
{
    char text[SYMBOL_TEXT_BYTES_MAX];
    symbol_format(text, sizeof text, (uintptr_t)image_begin + offset, use);
    assert_string_equal(text, expected);
}

TEST(addresses_are_named_by_the_function_before_them)
{
    expect(0x10, SYMBOL_EXACT, "start+0x0");
    expect(0x1f, SYMBOL_EXACT, "start+0xf");
    expect(0x20, SYMBOL_EXACT, "startle+0x0");
    expect(0x20, SYMBOL_RETURN, "start+0x10"); /* after a call that never returns */
    expect(0x1af, SYMBOL_EXACT, "startle+0x18f");
    expect(0x1b0, SYMBOL_EXACT, "star+0x0");
    expect(0x41af, SYMBOL_EXACT, "star+0x3fff");
    expect(0x41b0, SYMBOL_EXACT, "matcher_push+0x0");
    expect(0xffff, SYMBOL_EXACT, "matcher_push+0xbe4f");
}

TEST(addresses_outside_all_functions_have_no_name)
{
    expect(0xf, SYMBOL_EXACT, "?");
    expect(0x10, SYMBOL_RETURN, "?");
    expect(IMAGE_BYTES, SYMBOL_EXACT, "?");
    expect((uint64_t)-1, SYMBOL_EXACT, "?");
}
