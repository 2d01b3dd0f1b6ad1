/* All connections of the service, and whose turn it is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/transport.h"

enum {
    SERVER_CONNECTION_COUNT = 256,
    SERVER_REFUSAL_COUNT = 8, /* beside these: connections that get a refusal alone */
};

/* Listens. Returns false if the port cannot be had. */
bool server_init(uint16_t port);

/* Takes an event of the transport. Returns false if it is not of a connection of the service. */
bool server_event(const struct transport_event *event, uint64_t now_ns);

/* Works for at most 50 us. */
void server_work(uint64_t now_ns);

/* Asserts the invariant of all connections: takes longer than a turn. */
void server_check(void);

/* Returns when server_work next has something to do if no event comes; UINT64_MAX: never. */
uint64_t server_next_deadline_ns(uint64_t now_ns);
