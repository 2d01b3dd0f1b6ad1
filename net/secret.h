/* Draws from the stack's one secret: sequence numbers, ports, timestamp offsets, and plain random numbers.
 *
 * The secret is fresh at each start (32 bytes given by the owner), so two boots differ and nothing seen on the wire
 * foretells the next value. Knows no connection and no clock. */
#pragma once

#include <stdint.h>

#include "base/siphash.h"

struct secret {
    struct siphash_key tuple_key;  /* for everything that depends on the addresses and ports */
    struct siphash_key stream_key; /* for plain random numbers */
    uint64_t drawn_count;
};

/* The ends of a connection, host order. */
struct secret_tuple {
    uint32_t address, peer_address;
    uint16_t port, peer_port;
};

void secret_init(struct secret *secret, const uint8_t bytes[32]);

/* RFC 6528 §3: Returns the initial sequence number, M + F(tuple, secret), M ticking every 4 us. */
uint32_t secret_isn(const struct secret *secret, const struct secret_tuple *tuple, uint64_t now_ns);

/* RFC 7323 §5.4, §7.1: Returns the start of a connection's timestamp clock. The same endpoints get the same start, so
 * the next connection between them can replace a TIME-WAIT (RFC 6191). */
uint32_t secret_timestamp_offset(const struct secret *secret, const struct secret_tuple *tuple);

/* RFC 4987 §3.6: Returns the proof in a SYN cookie: a value that only this stack can compute. `fields` holds the
 * cookie's readable fields (time, SACK, MSS). */
uint32_t secret_cookie(const struct secret *secret, const struct secret_tuple *tuple, uint32_t irs, uint64_t fields);

/* RFC 6056: Returns the number-th port to try for this destination, counted from 0. A keyed permutation makes ports
 * look random from outside, yet no port returns before all SECRET_PORT_COUNT have been used. A 4-tuple rests even if
 * its TIME-WAIT had to be given up. */
enum { SECRET_PORT_COUNT = 32768 };
uint16_t secret_port(const struct secret *secret, uint32_t address, uint32_t peer_address, uint16_t peer_port,
                     uint16_t number);

uint64_t secret_random(struct secret *secret);
