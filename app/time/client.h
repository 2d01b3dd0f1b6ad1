/* The client of the server that `peer=` names: asks, checks what comes back, and lets it discipline our clock. RFC 5905
 * §8 and §9 in client mode; RFC 9109 for the port.
 *
 * A question tells nothing but its version and mode. Its transmit stamp is random: whoever does not see the question
 * cannot answer it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/time/clock.h"
#include "app/time/discipline.h"
#include "app/time/reference.h"
#include "base/counters.h"
#include "base/siphash.h"
#include "net/transport.h"

struct ntp_client_config {
    uint32_t address;
    uint16_t port;
    uint64_t poll_ns;
    struct siphash_key key;   /* fresh: ports and transmit stamps follow from it */
    uint64_t (*now_ns)(void); /* the machine's clock */
};

/* Begins, and binds a random port. Returns false if none can be had. */
bool ntp_client_init(const struct ntp_client_config *config, uint64_t now_ns);

/* Returns our port; 0: there is no client. */
uint16_t ntp_client_port(void);

/* Asks, if it is time to. */
void ntp_client_poll(uint64_t now_ns);

/* Returns when ntp_client_poll has something to do; UINT64_MAX: never. */
uint64_t ntp_client_next_deadline_ns(void);

/* Takes a datagram to our port, seen at `seen_ns`. Moves the clock, and says in `reference` how good it is now. */
void ntp_client_datagram(const struct transport_event *event, uint64_t seen_ns, struct ntp_clock *clock,
                         struct ntp_reference *reference);

#define NTP_CLIENT_COUNTERS(X)                                                                                         \
    X(COUNT, requests), X(COUNT, replies), X(COUNT, unanswered), X(COUNT, send_failed), X(COUNT, kisses),              \
        X(COUNT, unsynchronised), X(DROP_FRAME, drop_stranger), X(DROP_FRAME, drop_length),                            \
        X(DROP_FRAME, drop_version), X(DROP_FRAME, drop_mode), X(DROP_FRAME, drop_origin), X(DROP_FRAME, drop_stamps), \
        X(COUNT, steps)
extern struct ntp_client_counters {
    uint64_t NTP_CLIENT_COUNTERS(COUNTER_MEMBER);
} ntp_client_counters;
extern const struct counter_group ntp_client_counter_group;

/* Values that also go down. In each pair of opposites one value is 0. */
#define NTP_CLIENT_LEVELS(X)                                                                                           \
    X(LEVEL, peer_ahead_ns), X(LEVEL, peer_behind_ns), X(LEVEL, machine_slow_ppb), X(LEVEL, machine_fast_ppb),         \
        X(LEVEL, delay_ns), X(LEVEL, jitter_ns)
struct ntp_client_levels {
    uint64_t NTP_CLIENT_LEVELS(COUNTER_MEMBER);
};
extern const struct counter_group ntp_client_level_group;
