/* Two stacks and the network between them, in memory and virtual time. The test may lose, delay or change each
 * packet. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/library/netdev_ip.h"
#include "net/stack.h"
#include "net/tcp/sockets.h"

enum { PAIR_PACKETS_MAX = 4096, PAIR_ADDRESS_A = 0x0a000001, PAIR_ADDRESS_B = 0x0a000002 };

#define PAIR_MS UINT64_C(1000000)
#define PAIR_S  UINT64_C(1000000000)

struct pair_packet {
    uint64_t arrives_ns;
    uint64_t order;
    int to; /* 0: a, 1: b */
    uint32_t bytes;
    uint8_t data[1600];
};

struct pair {
    struct net_stack *stack[2];
    struct netdev_ip device[2];
    uint64_t now_ns;
    uint64_t delay_ns; /* one way */
    uint64_t order;
    uint32_t sent_count[2]; /* packets each has sent */
    /* Returns false to lose a packet. May change the packet and its arrival. `index` counts the packets of `from` from
     * 0. */
    bool (*network)(struct pair *pair, int from, uint32_t index, struct pair_packet *packet);
    uint64_t random;
    void *user;
    size_t flying_count;
    struct pair_packet *flying;
};

/* Opens two stacks with room for a few connections and buffers of 64 KiB. A policy of NULL is the default. */
void pair_open(struct pair *pair, const struct tcp_policy *policy_a, const struct tcp_policy *policy_b);
void pair_close(struct pair *pair);

/* Plays one turn: delivers the packets that arrive now, does idle work, and puts sent packets on their way. */
void pair_turn(struct pair *pair);

/* Moves time to the next event, at most to `until_ns`. Returns false if there is no event before. */
bool pair_step(struct pair *pair, uint64_t until_ns);

void pair_run(struct pair *pair, uint64_t for_ns);

/* Connects a to b's `port`, accepts, and returns both connections. */
void pair_connect(struct pair *pair, uint16_t port, int *a, int *b);

/* The fields of a packet that tests read. */
struct pair_tcp {
    uint32_t seq, ack;
    uint8_t flags;
    uint16_t window;
    uint32_t bytes;
    const uint8_t *payload;
    const uint8_t *options;
    uint32_t option_bytes;
};
bool pair_tcp_of(const struct pair_packet *packet, struct pair_tcp *tcp);
