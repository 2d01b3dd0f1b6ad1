/* HMAC with SHA-256 (RFC 2104, FIPS 198-1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

/* A key, hashed up to where the message begins, so that a message costs two blocks less. */
struct hmac_key {
    struct sha256 inner, outer;
};

/* Makes a key of `bytes` bytes, which are not needed afterwards. */
void hmac_key_set(struct hmac_key *key, const void *secret, size_t bytes);

/* Begins a message: sha256_add to it, then hmac_end writes its code. `hmac` does all of it for one piece. */
void hmac_begin(const struct hmac_key *key, struct sha256 *message);
void hmac_end(const struct hmac_key *key, struct sha256 *message, uint8_t mac[SHA256_BYTES]);
void hmac(const struct hmac_key *key, const void *data, size_t bytes, uint8_t mac[SHA256_BYTES]);

/* Compares in a time that does not depend on where they differ. */
bool bytes_equal_constant_time(const void *a, const void *b, size_t bytes);
