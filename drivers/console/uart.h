/* A 16550 serial port at COM1, polled, transmit only. Texas Instruments PC16550D data sheet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Sets 115200 baud, 8N1. Returns false when there is no port. */
bool uart_init(void);

/* The most bytes of one call. Under a hypervisor each byte is an exit, during which the loop does not poll. */
enum { UART_SLICE_BYTES = 4 };

/* Writes what the FIFO (of 16) takes when it is empty, and returns how many bytes. A log_sink. */
size_t uart_write(const char *text, size_t bytes);
