/* drivers/console/uart.c: the registers that it sets, and the bytes that it writes into a FIFO of 16. */
#include "drivers/console/uart.h"
#include "tests/lib/fake_ports.h"
#include "tests/lib/test.h"

enum { COM1 = 0x3f8, LINE_CONTROL = COM1 + 3, LINE_STATUS = COM1 + 5, SCRATCH = COM1 + 7, FIFO_EMPTY = 0x20 };

static char sent[64];
static size_t sent_bytes;
static uint8_t divisor;

/* Notes the bytes that leave, and those that set the speed. */
static void note(uint16_t port, uint32_t bytes, uint32_t value)
{
    assert_int_equal(bytes, 1);
    if (port != COM1)
        return;
    if (fake_ports[LINE_CONTROL] & 0x80)
        divisor = (uint8_t)value;
    else
        sent[sent_bytes++] = (char)value;
}

BEFORE_EACH()
{
    fake_ports_reset(0);
    fake_ports_written = note;
    fake_ports[LINE_STATUS] = FIFO_EMPTY;
    sent_bytes = 0;
    memset(sent, 0, sizeof sent);
}

static uint32_t absent(uint16_t port, uint32_t bytes, uint32_t kept)
{
    (void)port;
    (void)bytes;
    (void)kept;
    return 0xff;
}

TEST(uart_init_without_port_is_refused)
{
    fake_ports_read = absent;
    assert_false(uart_init());
    assert_int_equal(sent_bytes, 0);
}

TEST(uart_init_sets_115200_8n1_without_interrupts)
{
    assert_true(uart_init());
    assert_int_equal(divisor, 1);
    assert_int_equal(fake_ports[COM1 + 1], 0);
    assert_int_equal(fake_ports[LINE_CONTROL], 0x03);
    assert_int_equal(fake_ports[SCRATCH], 0x5a);
    assert_int_equal(sent_bytes, 0);
}

TEST(uart_write_takes_nothing_while_the_fifo_is_not_empty)
{
    fake_ports[LINE_STATUS] = 0;
    assert_int_equal(uart_write("text", 4), 0);
    assert_int_equal(sent_bytes, 0);
}

TEST(uart_write_takes_a_slice_and_ends_lines_with_cr_lf)
{
    assert_int_equal(uart_write("abcdef", 6), UART_SLICE_BYTES);
    assert_string_equal(sent, "abcd");
    assert_int_equal(uart_write("ef\nx", 4), 3);
    assert_string_equal(sent, "abcdef\r\n");
    assert_int_equal(uart_write("xyz\n", 4), 3); /* CR and LF do not fit: they wait together */
    assert_int_equal(uart_write("\n", 1), 1);
    assert_string_equal(sent, "abcdef\r\nxyz\r\n");
}
