/* The I/O ports of a unit test: bytes that keep the written values. A test changes the bytes, or sets functions for
 * reads and writes. */
#pragma once

#include <stdint.h>

enum { FAKE_PORT_COUNT = 1 << 16 };
extern uint8_t fake_ports[FAKE_PORT_COUNT + 4]; /* an access at the last port may go beyond it */

/* Returns the value of a read of `bytes` bytes; `kept` is the value in fake_ports. If NULL, reads return `kept`. */
extern uint32_t (*fake_ports_read)(uint16_t port, uint32_t bytes, uint32_t kept);

/* Is called after each write to fake_ports. May be NULL. */
extern void (*fake_ports_written)(uint16_t port, uint32_t bytes, uint32_t value);

/* Fills fake_ports with `value`, and forgets both functions. Absent ports read 0xff. */
void fake_ports_reset(uint8_t value);
