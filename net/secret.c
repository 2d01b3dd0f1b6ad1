/* Numbers that an outsider cannot guess. RFC 6528, RFC 6056, RFC 7323 §5.4. */
#include "net/secret.h"

#include "base/assert.h"

/* Keeps the hashes of one purpose apart from those of another. */
enum secret_purpose { PURPOSE_ISN = 1, PURPOSE_TIMESTAMP, PURPOSE_PORT, PURPOSE_COOKIE };

void secret_init(struct secret *secret, const uint8_t bytes[32])
{
    *secret = (struct secret){
        .tuple_key = siphash_key_from(bytes),
        .stream_key = siphash_key_from(bytes + 16),
    };
}

static uint64_t secret_of(const struct secret *secret, enum secret_purpose purpose, uint64_t a, uint64_t b)
{
    const uint64_t words[] = { a, b, purpose };
    return siphash(secret->tuple_key, words, sizeof words);
}

static uint32_t secret_of_tuple(const struct secret *secret, enum secret_purpose purpose,
                                const struct secret_tuple *tuple)
{
    uint64_t addresses = (uint64_t)tuple->address << 32 | tuple->peer_address;
    uint64_t ports = (uint64_t)tuple->port << 16 | tuple->peer_port;
    return (uint32_t)secret_of(secret, purpose, addresses, ports);
}

uint32_t secret_isn(const struct secret *secret, const struct secret_tuple *tuple, uint64_t now_ns)
{
    uint32_t clock = (uint32_t)(now_ns / 4000); /* RFC 9293 §3.4.1: a tick every 4 us */
    return clock + secret_of_tuple(secret, PURPOSE_ISN, tuple);
}

uint32_t secret_timestamp_offset(const struct secret *secret, const struct secret_tuple *tuple)
{
    return secret_of_tuple(secret, PURPOSE_TIMESTAMP, tuple);
}

uint32_t secret_cookie(const struct secret *secret, const struct secret_tuple *tuple, uint32_t irs, uint64_t fields)
{
    const uint64_t words[] = {
        (uint64_t)tuple->address << 32 | tuple->peer_address,
        (uint64_t)irs << 32 | (uint32_t)tuple->port << 16 | tuple->peer_port,
        fields << 8 | PURPOSE_COOKIE,
    };
    return (uint32_t)siphash(secret->tuple_key, words, sizeof words);
}

/* Permutes 0..32767 by a Feistel network over 16 bits: four rounds, keyed by the destination. A result above 15 bits
 * goes through the network again (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, cycle walking). */
uint16_t secret_port(const struct secret *secret, uint32_t address, uint32_t peer_address, uint16_t peer_port,
                     uint16_t number)
{
    uint64_t addresses = (uint64_t)address << 32 | peer_address;
    uint16_t value = number % SECRET_PORT_COUNT;
    do {
        uint8_t left = (uint8_t)(value >> 8), right = (uint8_t)value;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t inner = (uint64_t)peer_port << 16 | round << 8 | right;
            uint8_t next = left ^ (uint8_t)secret_of(secret, PURPOSE_PORT, addresses, inner);
            left = right;
            right = next;
        }
        value = (uint16_t)(left << 8 | right);
    } while (value >= SECRET_PORT_COUNT);
    return value;
}

uint64_t secret_random(struct secret *secret)
{
    uint64_t word = secret->drawn_count++;
    return siphash(secret->stream_key, &word, sizeof word);
}
