/* Drives COM1 by ports. Knows no log. */
#include "drivers/console/uart.h"

#include <stdint.h>

#include "base/assert.h"
#include "kernel/cpu/ports.h"

enum {
    UART_BASE = 0x3f8,

    /* PC16550D, "Registers" */
    UART_THR = 0, /* transmit holding; with DLAB: divisor low */
    UART_IER = 1, /* interrupt enable; with DLAB: divisor high */
    UART_FCR = 2,
    UART_LCR = 3,
    UART_MCR = 4,
    UART_LSR = 5,
    UART_SCR = 7,
    UART_SCR_PATTERN = 0x5a,

    UART_FCR_ENABLE_AND_CLEAR = 0x07,
    UART_LCR_DLAB = 0x80,
    UART_LCR_8N1 = 0x03,
    UART_MCR_DTR_RTS = 0x03,
    UART_LSR_THRE = 0x20, /* with FIFOs: the transmit FIFO is empty */

    UART_DIVISOR_115200 = 1,
};

static void uart_set(uint16_t reg, uint8_t value) { port_out8(UART_BASE + reg, value); }

bool uart_init(void)
{
    uart_set(UART_SCR, UART_SCR_PATTERN); /* a register that only remembers: absent ports read 0xff */
    if (port_in8(UART_BASE + UART_SCR) != UART_SCR_PATTERN)
        return false;
    uart_set(UART_IER, 0);
    uart_set(UART_LCR, UART_LCR_DLAB);
    uart_set(UART_THR, UART_DIVISOR_115200);
    uart_set(UART_IER, 0);
    uart_set(UART_LCR, UART_LCR_8N1);
    uart_set(UART_FCR, UART_FCR_ENABLE_AND_CLEAR);
    uart_set(UART_MCR, UART_MCR_DTR_RTS);
    return true;
}

size_t uart_write(const char *text, size_t bytes)
{
    if ((port_in8(UART_BASE + UART_LSR) & UART_LSR_THRE) == 0)
        return 0;
    size_t taken = 0;
    for (size_t room = UART_SLICE_BYTES; taken < bytes; taken++) {
        size_t needs = text[taken] == '\n' ? 2 : 1;
        if (room < needs)
            break;
        if (needs == 2)
            uart_set(UART_THR, '\r');
        uart_set(UART_THR, (uint8_t)text[taken]);
        room -= needs;
    }
    ASSERT(taken <= bytes);
    return taken;
}
