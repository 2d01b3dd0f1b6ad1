/* The output of a replay: lines of JSON on standard output, as they happen. Prices are in units of 0.0001, times in
 * nanoseconds of the recording's clock. Knows the messages of OUCH 5.0. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Begins. `wall_ns_at_0` is the recording's time at the program's time 0. */
void report_init(uint64_t wall_ns_at_0);

/* Reports a message of the program, `ns` nanoseconds of this machine after the packet that it follows from; 0: it
 * follows from none. */
void report_request(struct bytes message, uint64_t ns, uint64_t now_ns);
/* Reports a message of the exchange. */
void report_response(struct bytes message, uint64_t now_ns);

/* Reports how far the replay has come. */
void report_progress(uint64_t now_ns);
/* Reports the day's profit, at most once in a second of the recording unless `is_last`. */
void report_profit(int64_t profit, uint64_t now_ns, bool is_last);
