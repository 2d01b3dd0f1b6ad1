/* Base64, RFC 4648 §4, as the variants do it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct base64_ops {
    const char *name;
    /* Writes four characters for each three bytes. `data` is read, and `out` written, for these alone. */
    void (*encode)(uint8_t *out, const uint8_t *data, size_t triples);
};

extern const struct base64_ops digest_base64_scalar, digest_base64_avx2, digest_base64_avx512;
/* Every variant that is built, ended by NULL; the scalar one comes first. */
extern const struct base64_ops *const digest_base64_all[];

/* RFC 4648 §4, table 1. */
extern const char digest_base64_alphabet[64 + 1];
