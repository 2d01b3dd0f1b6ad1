/* SipHash-2-4: a keyed hash of short inputs that cannot be predicted without the key.
 * J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", 2012. For initial sequence numbers (RFC 6528),
 * ports (RFC 6056), transaction ids and challenges; commands are authenticated by HMAC. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k0, k1;
};

/* Makes a key of random bytes, such as those of `struct program_machine`. */
struct siphash_key siphash_key_from(const uint8_t bytes[16]);

/* Returns the hash of some bytes. */
uint64_t siphash(struct siphash_key key, const void *data, size_t bytes);
