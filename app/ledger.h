/* Which answers were given before: each value at most once.
 *
 * An answer has no leading zero, so its digits are its value. It is known by its number of digits and 256 bits of a
 * keyed universal hash of them: for two different answers of the same length both halves agree with a chance of
 * 2^-128 over the key (see ledger.c), whoever chose the digits. Static memory; the oldest is forgotten first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/base/counters.h"

enum {
    /* Hours of planted answers; 10 to 60 bursts' worth when a constant is so small that every burst holds thousands. */
    LEDGER_ANSWER_COUNT = 1 << 17,
};

/* Forgets everything; draws the keys from fresh random bytes. */
void ledger_init(const uint8_t secret[32]);

/* Whether an answer is certainly not there. Some nanoseconds, one cache line and the keys'; false means that ledger_enter
 * must be asked. */
bool ledger_lacks(const uint8_t *digits, size_t count);

/* Enters an answer of 1 to MATCHER_N_DIGITS_MAX digits. False if it is there already. */
bool ledger_enter(const uint8_t *digits, size_t count);

struct ledger_counters {
    uint64_t entered, repeated;
    uint64_t forgotten;             /* entries that made room */
};
extern struct ledger_counters ledger_counters;
extern const struct counter_group ledger_counter_group;
