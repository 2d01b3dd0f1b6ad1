/* The consoles: sinks of the log that cost exits to the hypervisor. On the loop's CPU a character at a time, or, from
 * console_hand_over on, on a worker, which gets whole lines through a ring for each console.
 *
 * A machine in trouble takes them back: console_take_back writes what the rings still hold, and from then on every line
 * comes out before log_line returns. */
#pragma once

#include <stdbool.h>

#include "base/log.h"

enum { CONSOLE_COUNT_MAX = 2 }; /* the serial line and the screen */

/* Adds a console to the log. */
void console_add(log_sink *write);

/* Makes a worker write from now on: console_poll is among its work. */
void console_hand_over(uint32_t worker);

/* Writes, on that worker, a piece of a line for each console. Returns false when there was nothing. */
bool console_poll(void);

/* Gives the consoles back to the first CPU, on which it runs, and ends the deferring of the log. Does so once; may be
 * called again, and when they never were handed over. */
void console_take_back(void);
