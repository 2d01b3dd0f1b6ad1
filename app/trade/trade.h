/* The trading program: market data in, orders out. Joins the parts of this folder, see README.md. Knows the transport
 * and the service; knows no device, no clock, no operating system. There is one, in static memory. */
#pragma once

#include <stdint.h>

#include "app/program.h"
#include "base/bytes.h"

/* Empties the books and binds the ports. NULL, or a message. */
const char *trade_init(const struct program_machine *machine, uint64_t now_ns);

/* Obeys a word of the control channel: `stop` holds all orders back and cancels those that are open, `start` ends that.
 * `leave` is a stop before the end: it is refused, by a line for each open order, until none is open. NULL, or a
 * message. */
const char *trade_set(struct bytes word);

/* Takes events for 20 us at most, then does the timers and the idle work. */
enum program_verdict trade_turn(uint64_t now_ns);
uint64_t trade_next_deadline_ns(uint64_t now_ns);

/* Asserts the invariants of all parts but the book, whose check is slow. */
void trade_check(void);
