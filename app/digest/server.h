/* All connections of the service, and whose turn it is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/transport.h"

enum {
    SERVER_CONNECTION_COUNT = 256,
    SERVER_REFUSAL_COUNT = 8, /* beside these, for refusals; one that stays gives up its place */
};

/* Listens. Returns false if the port cannot be had. */
bool digest_server_init(uint16_t port);

/* Takes an event of the transport. Returns false if it is not of a connection of the service. */
bool digest_server_event(const struct transport_event *event, uint64_t now_ns);

/* Works for at most 50 us. */
void digest_server_work(uint64_t now_ns);

/* Fetches into the caches what the next request of the latest client touches. Idle work. */
void digest_server_warm(void);

/* Asserts the invariant of all connections: takes longer than a turn. */
void digest_server_check(void);

/* Returns when digest_server_work next has something to do if no event comes; UINT64_MAX: never. */
uint64_t digest_server_next_deadline_ns(uint64_t now_ns);
