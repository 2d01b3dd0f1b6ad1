/* A 16550 serial port at COM1, polled, transmit only. Texas Instruments PC16550D data sheet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* 115200 baud, 8N1. False when there is no port. */
bool uart_init(void);

/* A log_sink: takes at most UART_SLICE_BYTES, and those only when the FIFO (of 16) is empty. Under a hypervisor each
 * byte is an exit, so the slice is the time for which the loop is deaf. */
enum { UART_SLICE_BYTES = 4 };
size_t uart_write(const char *text, size_t bytes);
