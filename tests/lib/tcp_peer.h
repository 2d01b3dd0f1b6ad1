/* One of our stacks and a peer made of single segments, in virtual time. The tests of TCP's rules are written with it.
 *
 * Sequence numbers are relative on both sides: 0 is the SYN, 1 the first byte. Segments leave the stack after each
 * input and each step of time; the test takes them one by one, in order. A failed check prints the expected and the
 * actual value with the line of the test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/library/netdev_ip.h"
#include "net/stack.h"
#include "net/tcp/sockets.h"
#include "net/tcp/wire.h"

enum {
    PEER_STACK_ADDRESS = 0x0a000001, /* 10.0.0.1, the stack's */
    PEER_ADDRESS = 0x0a000102,       /* 10.0.1.2, through the gateway */
    PEER_GATEWAY = 0x0a0000fe,
    PEER_PORT = 7,
    PEER_STACK_PORT = 80,      /* the port of the stack's listener */
    PEER_CONNECTION_COUNT = 8, /* the stack's; clearing their buffers takes most of a test's time */
    PEER_ISS = 0xfffff000,     /* the peer's: wraps soon */
};

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)
#define SA (TCP_SYN | TCP_ACK)
#define PA (TCP_PSH | TCP_ACK)
#define FA (TCP_FIN | TCP_ACK)
#define A  TCP_ACK

/* A segment of the stack, as seen on the wire. */
struct seen {
    uint64_t at_ns;
    uint32_t seq, ack; /* relative */
    uint8_t flags;
    uint16_t window;
    uint32_t bytes;
    uint8_t data[1600];
    bool dont_fragment;
    uint16_t mss; /* 0: no option */
    int scale;    /* -1: no option */
    bool sack_permitted, timestamps;
    uint32_t timestamp, timestamp_echo;
    uint32_t sack_count;
    struct {
        uint32_t left, right;
    } sack[4];
    uint8_t options[40];
    uint32_t option_bytes;
    uint16_t port, peer_port;
};

struct peer {
    struct net_stack *stack;
    struct netdev_ip device;
    uint64_t now_ns, begin_ns;
    int id, listener;
    uint16_t stack_port; /* the port of the connection in hand */
    uint16_t peer_port;
    uint32_t stack_iss;                 /* learned from its SYN */
    uint16_t window;                    /* the window that peer_send puts in */
    bool timestamps;                    /* peer_send adds the option: */
    uint32_t timestamp, timestamp_echo; /* with these values; the echo is the newest value seen */
    bool idle_later;                    /* peer_step does no idle work: the application calls first */
    bool payload_any;                   /* payload of the stack is not compared with the pattern */
    uint8_t gateway_mac[6];             /* the destination that every frame must have */
    uint64_t checked_ns;                /* the time of the segment taken last */
    uint32_t queue_first, queue_count;
    struct seen queue[4096];
};

static inline struct tcp_policy peer_policy_default(void)
{
    struct tcp_policy policy;
    tcp_policy_default(&policy);
    return policy;
}

/* Begins a test: makes the stack. A policy of NULL is the default. Buffers are 64 KiB at most. */
void peer_begin(struct peer *p, const struct tcp_policy *policy);
void peer_begin_with(struct peer *p, const struct tcp_policy *policy, uint32_t mask, bool arp);
void peer_end(struct peer *p); /* checks that everything has been given back */

/* The options that the peer offers in its SYN, and that the stack must answer with. */
struct offer {
    uint16_t mss; /* 0: no option */
    int scale;    /* -1: no option */
    bool sack, timestamps;
};
#define OFFER_PLAIN ((struct offer){ 1460, -1, false, false })
#define OFFER_ALL   ((struct offer){ 1460, 7, true, true })
#define OFFER_SACK  ((struct offer){ 1460, -1, true, false })

/* Plays the handshake, which the stack (connect) or the peer (accept) begins. The connection is in p->id. */
void peer_connect(struct peer *p, struct offer offer);
void peer_connect_after(struct peer *p, struct offer offer,
                        uint64_t rtt_ns); /* the round trip that our stack measures */
void peer_accept(struct peer *p, struct offer offer);

/* Sends a segment from the peer. `data` NULL: `bytes` of the pattern. */
void peer_send(struct peer *p, uint8_t flags, uint32_t seq, uint32_t ack, const void *data, uint32_t bytes);
void peer_send_options(struct peer *p, uint8_t flags, uint32_t seq, uint32_t ack, const void *data, uint32_t bytes,
                       const void *options, uint32_t option_bytes);
struct block {
    uint32_t left, right;
};
void peer_send_sack(struct peer *p, uint32_t seq, uint32_t ack, const struct block *blocks, uint32_t count);
void peer_send_packet(struct peer *p, const void *packet, uint32_t bytes); /* IP and all */
/* Makes the stack believe that a neighbour's old MAC was asked and did not answer, as if the neighbour had moved. */
void neighbour_mark_old_address_silent(struct net_stack *stack, uint32_t address);

/* Sends the gateway's ARP reply, with a MAC that ends with `last`. Packets that waited for the reply leave. */
void peer_send_arp_reply(struct peer *p, uint8_t last);

/* Sends an ICMP error that quotes a segment of the stack: 8 bytes of its header, `seq` relative. */
void peer_send_icmp(struct peer *p, uint8_t type, uint8_t code, uint16_t mtu, uint32_t seq);
uint8_t peer_pattern(uint32_t seq);       /* the peer's byte at this relative sequence */
uint8_t peer_stack_pattern(uint32_t seq); /* the stack's byte, with which its payload is compared */

void peer_step(struct peer *p);              /* input, idle, collect */
void peer_pass(struct peer *p, uint64_t ns); /* time, timer by timer */
/* Lets time pass until a segment leaves, at most `ns`. The segment stays in the queue. Returns false if none left. */
bool peer_wait(struct peer *p, uint64_t ns);

void peer_write(struct peer *p, uint32_t bytes);              /* the stack's application writes; all must fit */
void peer_read(struct peer *p, uint32_t seq, uint32_t bytes); /* the application reads the pattern from seq on */

bool peer_take(struct peer *p, struct seen *s); /* the next segment; false: none waits */
void peer_drain(struct peer *p);                /* passes over those that wait */
struct seen *peer_expect_at(struct peer *p, uint8_t flags, uint32_t seq, uint32_t ack, uint32_t bytes, const char *file,
                            int line);
void peer_expect_none_at(struct peer *p, const char *file, int line);
void peer_expect_state_at(struct peer *p, enum tcp_state state, const char *file, int line);
void peer_check_number_at(const char *what, uint64_t got, uint64_t least, uint64_t most, const char *file, int line);

/* Checks the next segment (`ack` only if the segment has ACK) and returns the segment, valid until the next call. */
#define EXPECT(p, flags, seq, ack, bytes)      peer_expect_at(p, flags, seq, ack, bytes, __FILE__, __LINE__)
#define EXPECT_NONE(p)                         peer_expect_none_at(p, __FILE__, __LINE__)
#define EXPECT_STATE(p, state)                 peer_expect_state_at(p, state, __FILE__, __LINE__)
#define EXPECT_BETWEEN(what, got, least, most) peer_check_number_at(what, got, least, most, __FILE__, __LINE__)
#define EXPECT_NUMBER(what, got, wanted)       peer_check_number_at(what, got, wanted, wanted, __FILE__, __LINE__)
/* Checks the time since the segment taken last. */
#define EXPECT_AFTER(p, seen, ns)                                                                                      \
    EXPECT_BETWEEN("ns since the segment before", (seen)->at_ns - (p)->checked_ns, (ns)-1000, (ns) + 1000)
