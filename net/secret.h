/* What the stack draws from its one secret: sequence numbers, ports, timestamp offsets, and plain random numbers.
 *
 * The secret is fresh at each start (32 bytes given by the owner), so two boots differ and nothing seen on the wire
 * foretells the next value. Knows no connection and no clock. */
#pragma once

#include <stdint.h>

#include "net/siphash.h"

struct secret {
    struct siphash_key tuple_key;       /* of everything that depends on the addresses and ports */
    struct siphash_key stream_key;      /* of plain random numbers */
    uint64_t drawn_count;
};

/* The ends of a connection, host order. */
struct secret_tuple {
    uint32_t address, peer_address;
    uint16_t port, peer_port;
};

void secret_init(struct secret *secret, const uint8_t bytes[32]);

/* RFC 6528 §3: ISN = M + F(tuple, secret), M ticking every 4 us. */
uint32_t secret_isn(const struct secret *secret, const struct secret_tuple *tuple, uint64_t now_ns);

/* RFC 7323 §5.4, §7.1: where the timestamp clock of a connection begins. The same for the same ends, so that the next
 * connection between them can take the place of a TIME-WAIT (RFC 6191). */
uint32_t secret_timestamp_offset(const struct secret *secret, const struct secret_tuple *tuple);

/* RFC 4987 §3.6: what only we can have said of this SYN. */
uint32_t secret_cookie(const struct secret *secret, const struct secret_tuple *tuple, uint32_t irs, uint64_t said);

/* RFC 6056: the number-th port to try for this destination, counted from 0. A keyed permutation, so that ports look
 * random from outside and yet none comes back before all SECRET_PORT_COUNT have been used: a 4-tuple rests even if its
 * TIME-WAIT had to be given up. */
enum { SECRET_PORT_COUNT = 32768 };
uint16_t secret_port(const struct secret *secret, uint32_t address, uint32_t peer_address, uint16_t peer_port,
                     uint16_t number);

uint64_t secret_random(struct secret *secret);
