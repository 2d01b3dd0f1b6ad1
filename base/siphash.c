/* SipHash-2-4, after the paper's §2. Names are the paper's. */
#include "base/siphash.h"

#include "base/assert.h"
#include "base/bytes.h"

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

static void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13);
    s->v1 ^= s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16);
    s->v3 ^= s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21);
    s->v3 ^= s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17);
    s->v1 ^= s->v2;
    s->v2 = rotate(s->v2, 32);
}

static void compress(struct sip *s, uint64_t m)
{
    s->v3 ^= m;
    sip_round(s);
    sip_round(s);
    s->v0 ^= m;
}

struct siphash_key siphash_key_from(const uint8_t bytes[16])
{
    return (struct siphash_key){ .k0 = load_le64(bytes), .k1 = load_le64(bytes + 8) };
}

uint64_t siphash(struct siphash_key key, const void *data, size_t bytes)
{
    struct sip s = {
        .v0 = key.k0 ^ 0x736f6d6570736575,
        .v1 = key.k1 ^ 0x646f72616e646f6d,
        .v2 = key.k0 ^ 0x6c7967656e657261,
        .v3 = key.k1 ^ 0x7465646279746573,
    };
    ASSERT(data != NULL || bytes == 0);
    const uint8_t *at = data;
    size_t left = bytes;
    for (; left >= 8; at += 8, left -= 8)
        compress(&s, load_le64(at));

    /* The last word: the rest, and the length modulo 256 on top. */
    uint64_t last = (uint64_t)bytes << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)at[i] << (8 * i);
    ASSERT(left < 8);
    compress(&s, last);

    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
