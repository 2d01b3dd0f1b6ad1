/* NABHash, 128 bits, not cryptographic, as the variants do it: README.md has the definition. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct nabhash_ops {
    const char *name;
    /* Takes whole blocks into the four lanes. */
    void (*blocks)(uint8_t lanes[64], const uint8_t *data, size_t count);
    /* Joins the lanes, which have the length in them, into the first one. */
    void (*join)(uint8_t lanes[64]);
};

extern const struct nabhash_ops digest_nabhash_scalar, digest_nabhash_aesni, digest_nabhash_vaes;
/* Every variant that is built, ended by NULL; the scalar one comes first. */
extern const struct nabhash_ops *const digest_nabhash_all[];
