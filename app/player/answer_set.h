/* The answers that were given before: each value is there at most once.
 *
 * An answer has no leading zero, so its digits are its value. The set knows it by its number of digits and by 256 bits
 * of a keyed universal hash of them. For two different answers of the same length the hashes agree with a chance of
 * 2^-128 over the key, whoever chose the digits. Static memory; the oldest is forgotten first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

enum {
    /* Hours of the answers that the contest plants, some one a second. When a modulus is so small that every burst
     * holds thousands, 10 to 60 bursts' worth. */
    ANSWER_SET_ANSWER_COUNT = 1 << 17,
};

/* Forgets everything; derives the hash's keys from `secret`, fresh random bytes. */
void answer_set_init(const uint8_t secret[32]);

/* Returns true if an answer is certainly not there, in some nanoseconds: one cache line and the keys'. After false,
 * answer_set_insert knows. */
bool answer_set_is_new(const uint8_t *digits, size_t count);

/* Inserts an answer of 1 to MATCHER_N_DIGITS_MAX digits. False if it is there already. */
bool answer_set_insert(const uint8_t *digits, size_t count);

/* Fetches the keys and the filter, which answer_set_is_new reads, into the caches. */
void answer_set_warm(void);

/* Returns the number of entries in use. An answer that was inserted again has two until the older one is forgotten. */
uint64_t answer_set_used_count(void);

/* Asserts the set's invariant. */
void answer_set_check(void);

/* `entered` answers are new, `repeated` ones were there, `forgotten` ones made room. */
#define ANSWER_SET_COUNTERS(X) X(COUNT, entered), X(COUNT, repeated), X(COUNT, forgotten)
extern struct answer_set_counters {
    uint64_t ANSWER_SET_COUNTERS(COUNTER_MEMBER);
} answer_set_counters;
extern const struct counter_group answer_set_counter_group;
