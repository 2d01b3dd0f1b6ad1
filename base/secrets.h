/* Keys and passwords by their bytes, so that the way home can wipe every copy. Knows no memory but what it is given. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    SECRETS_BYTES_MIN = 4,   /* shorter ones are found everywhere */
    SECRETS_BYTES_MAX = 160, /* the longest key in hexadecimal, and the longest password percent-encoded */
    SECRETS_NOTED_MAX = 12,
    SECRETS_HELD_MAX = 12,
};

/* Notes a secret, of which secrets_wipe wipes each copy. One that is noted already, or has an impossible length, is
 * passed over; so is one for which there is no room. */
void secrets_note(const void *bytes, size_t count);

/* Names memory that holds secrets and nothing that the way home needs; it stays the caller's. secrets_forget wipes all
 * of it. */
void secrets_hold(void *at, size_t bytes);

/* Wipes the noted secrets that begin in [from, to) and end at or before `end`, except in this module's own memory. */
void secrets_wipe(uint8_t *from, uint8_t *to, const uint8_t *end);

/* Wipes the memory that is held, and this module's own. */
void secrets_forget(void);
