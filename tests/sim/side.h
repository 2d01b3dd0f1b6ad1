/* One end of a game: a stack and the application on it. Ours (net/stack.h, made anew for each game) or lwIP (behind
 * net/transport.h, one for the whole program).
 *
 * Each connection of a game has a port of its own, so that both ends know which it is. Its two streams are functions
 * of the offset, so that every byte received is checked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "host/netdev_memory.h"
#include "net/stack.h"

enum {
    SIDE_CONNECTION_COUNT_MAX = 4,
    SIDE_PORT_FIRST = 7000,
    SIDE_ADDRESS_FIRST = 0x0a000001,            /* 10.0.0.1 and 10.0.0.2 */
};

/* What the application of one half of a connection does. */
struct half_plan {
    uint64_t send_bytes;
    uint32_t write_bytes_max, read_bytes_max;
    uint64_t write_pause_ns, read_pause_ns;     /* between two calls that moved bytes; read: ours only */
    uint64_t abort_after_bytes;                 /* sent and received together; UINT64_MAX: never */
    uint64_t close_after_bytes;                 /* likewise: closes without reading the rest. ours only */
};

enum half_state { HALF_WAITING, HALF_OPEN, HALF_DONE };

struct half {
    enum half_state state;
    int id;
    struct half_plan plan;
    uint64_t written, read;
    bool shut, peer_shut;                       /* FIN asked for; FIN seen */
    bool broken;                                /* ended by an error, or by its own plan before the end */
    int reason;                                 /* why, in the stack's own numbers; 0 */
    uint64_t write_next_ns, read_next_ns;
    uint64_t done_ns;
};

struct side {
    bool lwip;
    uint32_t index;                             /* 0 connects, 1 listens */
    uint32_t connection_count;
    struct netdev_memory device;
    struct net_stack *stack;                    /* NULL: lwip */
    uint8_t *memory;
    int listeners[SIDE_CONNECTION_COUNT_MAX];
    struct half halves[SIDE_CONNECTION_COUNT_MAX];
};

/* Byte `offset` of the stream that side `from` sends on connection `connection`. */
uint8_t side_stream_byte(uint32_t from, uint32_t connection, uint64_t offset);

/* A fresh stack of ours, or lwIP again. `policy` is used by ours only. */
void side_open(struct side *side, uint32_t index, bool lwip, const struct tcp_policy *policy, uint64_t seed,
               uint64_t now_ns);
void side_start(struct side *side, uint32_t connection_count, uint64_t now_ns);
void side_close(struct side *side);

/* Stack and applications do what there is to do now. True when bytes or states moved. */
bool side_turn(struct side *side, uint64_t now_ns);

/* When there is something to do next if no frame arrives. */
uint64_t side_wake_ns(const struct side *side, uint64_t now_ns);

/* Ends one half at once. */
void side_abort(struct side *side, uint32_t connection, uint64_t now_ns);

/* What must be so once every half is done and all timers have run; NULL, or what is not. */
const char *side_leftover(const struct side *side);
