/* Round trips of UDP datagrams to a host that sends them back (RFC 862): one on its way at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/settings.h"
#include "net/transport.h"

enum {
    SURVEY_ECHO_BYTES = 64,
    SURVEY_ECHO_LOST_MS = 500, /* a datagram that takes longer is lost */
};

struct survey_echo_config {
    struct endpoint to;
    uint16_t port; /* ours */
    uint64_t (*now_ns)(void);
};

/* Binds our port. Returns false if it cannot be had. */
bool survey_echo_init(const struct survey_echo_config *config);

/* Begins a row of round trips. The next datagram leaves `pause_ns` after the last one has come back. */
void survey_echo_begin(uint64_t pause_ns, uint64_t now_ns);

/* Sends the next datagram, if it is time. Call once a turn. */
void survey_echo_poll(uint64_t now_ns);

/* Takes a datagram to our port that was seen at `now_ns`. Returns the time since its own was sent; 0: it is no reply to
 * the one that is on its way. */
uint64_t survey_echo_datagram(const struct transport_event *event, uint64_t now_ns);

/* Returns when survey_echo_poll next has something to do. */
uint64_t survey_echo_next_deadline_ns(void);

#define SURVEY_ECHO_COUNTERS(X) X(COUNT, sent), X(COUNT, answered), X(COUNT, lost), X(COUNT, foreign)
extern struct survey_echo_counters {
    uint64_t SURVEY_ECHO_COUNTERS(COUNTER_MEMBER);
} survey_echo_counters;
extern const struct counter_group survey_echo_counter_group;
