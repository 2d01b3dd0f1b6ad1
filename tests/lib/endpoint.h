/* One endpoint of a game: a stack and the application on it. The stack is ours (net/stack.h, a new one for each game)
 * or lwIP (by net/transport.h, one for the whole program).
 *
 * Each connection of a game has a port of its own, by which both endpoints know the connection. Its two streams are
 * functions of the offset, so that every byte received is checked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/stack.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/recording.h"

enum {
    ENDPOINT_CONNECTION_COUNT_MAX = 4,
    ENDPOINT_PORT_FIRST = 7000,
    ENDPOINT_CROSSING_PORT_FIRST = 6000, /* endpoint 0's ports of connections that both endpoints open */
    ENDPOINT_ADDRESS_FIRST = 0x0a000001, /* 10.0.0.1 and 10.0.0.2 */
};

/* The behaviour of the application on one half of a connection. */
struct half_plan {
    uint64_t send_bytes;
    const struct recording *recording; /* NULL, or bursts that are written one by one with their pauses */
    uint32_t write_bytes_max, read_bytes_max;
    uint64_t write_pause_ns, read_pause_ns; /* between two calls that moved bytes; reads: our stack only */
    uint64_t abort_after_bytes;             /* sent and received together; UINT64_MAX: never */
    uint64_t close_after_bytes;             /* likewise: closes without reading the rest. Our stack only */
};

enum half_state { HALF_WAITING, HALF_OPEN, HALF_DONE };

struct half {
    enum half_state state;
    int id;
    struct half_plan plan;
    uint64_t written, read;
    uint64_t burst_end; /* recording: the bytes up to the end of the burst under way */
    size_t burst;
    bool shut, peer_shut; /* FIN asked for; FIN seen */
    bool broken;          /* ended by an error, or by its own plan before the end */
    int reason;           /* for the end, in the stack's own numbers; 0 */
    uint64_t write_next_ns, read_next_ns;
    uint64_t done_ns;
};

struct endpoint {
    bool lwip;
    uint32_t index; /* 0 connects, 1 listens */
    uint32_t connection_count;
    struct netdev_memory device;
    struct net_stack *stack; /* NULL: lwip */
    int listeners[ENDPOINT_CONNECTION_COUNT_MAX];
    struct half halves[ENDPOINT_CONNECTION_COUNT_MAX];
};

/* Returns byte `offset` of the stream that endpoint `from` sends on connection `connection`. */
uint8_t endpoint_stream_byte(uint32_t from, uint32_t connection, uint64_t offset);

/* Opens an endpoint with a new stack of ours, or with lwIP. Only our stack uses `policy`. */
void endpoint_open(struct endpoint *endpoint, uint32_t index, bool lwip, const struct tcp_policy *policy, uint64_t seed,
                   uint64_t now_ns);
/* Starts the connections. Bit i of `crossing`: both endpoints open connection i, none listens. Our stack only. */
void endpoint_start(struct endpoint *endpoint, uint32_t connection_count, uint32_t crossing, uint64_t now_ns);
void endpoint_close(struct endpoint *endpoint);

/* Sets the peer's MAC, so that there is no ARP. Our stack only. */
void endpoint_neighbour_fix(struct endpoint *endpoint, uint64_t now_ns);
/* Lets ARP ask for the peer's MAC again, as when the link comes back. Our stack only. */
void endpoint_neighbour_renew(struct endpoint *endpoint, uint64_t now_ns);

/* Runs the stack and its applications for this moment. Returns true if bytes or states moved. */
bool endpoint_turn(struct endpoint *endpoint, uint64_t now_ns);

/* Returns the time of the next work if no frame arrives. */
uint64_t endpoint_next_deadline_ns(const struct endpoint *endpoint, uint64_t now_ns);

/* Ends one half at once. */
void endpoint_abort(struct endpoint *endpoint, uint32_t connection, uint64_t now_ns);

/* Returns NULL if the stack holds nothing after every half is done and all timers have run, else a description of the
 * remainder. */
const char *endpoint_leftover(const struct endpoint *endpoint);
