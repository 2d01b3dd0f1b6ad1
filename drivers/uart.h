/* A 16550 serial port at COM1, polled, transmit only. Texas Instruments PC16550D data sheet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* 115200 baud, 8N1. False when there is no port. */
bool uart_init(void);

/* A log_sink: fills the FIFO when it is empty, otherwise takes nothing. */
size_t uart_write(const char *text, size_t bytes);
