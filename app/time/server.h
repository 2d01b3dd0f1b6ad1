/* The server: RFC 5905 §8 in server mode. A request in, a reply of 48 bytes out, or nothing; no state for a client but
 * its rate. Knows no socket: the caller sends. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/time/clock.h"
#include "app/time/reference.h"
#include "base/counters.h"
#include "net/transport.h"

struct ntp_server_config {
    bool refuse_private;
    int8_t precision; /* log2 of seconds, of a reading of the clock */
};

void ntp_server_init(const struct ntp_server_config *config);

/* Takes a datagram to our port, that was seen at `seen_ns` of the machine's clock. Returns true with a reply that lacks
 * its transmit stamp, which is no longer than the request; false with the reason counted. */
bool ntp_server_reply(const struct transport_event *event, uint64_t seen_ns, const struct ntp_clock *clock,
                      const struct ntp_reference *reference, uint8_t reply[NTP_PACKET_BYTES]);

/* `requests` are answered with the time; `leaks` are those of them above the rate. The caller counts `send_failed`. */
#define NTP_SERVER_COUNTERS(X)                                                                                         \
    X(COUNT, requests), X(COUNT, requests_v1), X(COUNT, requests_v2), X(COUNT, requests_v3), X(COUNT, requests_v4),    \
        X(COUNT, kisses), X(DROP_FRAME, drop_length), X(DROP_FRAME, drop_version), X(DROP_FRAME, drop_mode),           \
        X(DROP_FRAME, drop_source), X(DROP_FRAME, drop_private), X(DROP_FRAME, drop_rate), X(COUNT, leaks),            \
        X(COUNT, send_failed)
extern struct ntp_server_counters {
    uint64_t NTP_SERVER_COUNTERS(COUNTER_MEMBER);
} ntp_server_counters;
extern const struct counter_group ntp_server_counter_group;
