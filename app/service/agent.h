/* HAProxy's agent check (its configuration manual 2.6, section 5.2, "agent-check"). Whoever connects to agent.port=
 * gets one line such as "up ready 75%", and the connection ends. HAProxy multiplies the server's weight by the
 * percentage, and ends the state that another agent has set. Off unless agent.port= is set; anybody who reaches the
 * port may ask. Knows no program: the measure is program.free_percent. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/time.h"
#include "net/transport.h"

enum { AGENT_CONNECTION_COUNT_MAX = 4 }; /* that have their line and have not ended */
#define AGENT_PATIENCE_NS NS_PER_S       /* a peer that does not close its side is reset */

/* Begins, after transport_init. `port` 0: off. `free_percent` is called for each line. Returns false if the port cannot
 * be had. */
bool agent_init(uint16_t port, uint32_t (*free_percent)(void));

/* Takes the events of its own connections, and ignores all others. */
void agent_event(const struct transport_event *event, uint64_t now_ns);

/* Resets the peers that do not close. Called each millisecond or less often. */
void agent_poll(uint64_t now_ns);

/* Asserts the invariant of all connections. */
void agent_check(void);

extern const struct counter_group agent_counter_group;
