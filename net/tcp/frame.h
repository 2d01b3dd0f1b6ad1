/* Segments onto the wire: those of an open connection, and single replies. */
#pragma once

#include "net/tcp/connection.h"

struct tcp_frame {
    uint32_t seq;
    uint8_t flags;
    const struct tcp_segment *segment; /* the segment that holds the payload; NULL: none */
    uint32_t skip, bytes;              /* the part of the segment's payload */
    bool again;                        /* sent before: routers must not mark the packet (RFC 3168 §6.1.5) */
};

/* Sends a segment in a buffer of its own, or leaves it to ARP. Returns false if there was no buffer, or no room in the
 * ring: the segment has not left. */
bool tcp_frame_send(struct net_stack *stack, struct tcp_connection *c, const struct tcp_frame *frame, uint64_t now_ns);
/* Sends the payload that lies in `buffer` at `payload`, and writes its head before it. The stack keeps its hold.
 * Returns false if the neighbour is not known, the device holds the buffer, or the ring is full. */
bool tcp_frame_send_held(struct net_stack *stack, struct tcp_connection *c, struct tx_buffer *buffer, uint8_t *payload,
                         uint32_t bytes, uint32_t seq, uint8_t flags, bool again, uint64_t now_ns);
/* Makes the head and looks up the neighbour. No other function does either, so a known neighbour implies a head.
 * Makes neither in SYN-SENT. */
void tcp_frame_head_prepare(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
void tcp_frame_sent(struct tcp_connection *c, uint64_t now_ns); /* an ACK of rcv_nxt has left */
/* Checks the invariant of the head. */
void tcp_frame_check(const struct tcp_connection *c);
/* Returns true if the connection's packets leave without "don't fragment". */
static inline bool tcp_may_be_cut(const struct tcp_connection *c) { return !c->policy.path_mtu || c->fragment_ok; }

/* ---- Replies without a connection ---- */

/* A segment outside any connection's window: RST, and ACKs of TIME-WAIT and of half-open connections. */
struct tcp_reply {
    uint32_t address, peer_address;
    uint16_t port, peer_port;
    uint32_t seq, ack;
    uint8_t flags;
    uint8_t ttl, tos; /* ttl 0: the default */
    bool initiated;   /* see struct ipv4_output */
    const uint8_t *link_destination;
    uint16_t window;
    uint32_t option_bytes;
    uint8_t options[TCP_OPTION_BYTES_MAX];
};

/* Returns false if the reply was dropped: no buffer, no route, or no room. */
bool tcp_reply_send(struct net_stack *stack, const struct tcp_reply *reply, uint64_t now_ns);
void tcp_reply_add_timestamps(struct tcp_reply *reply, uint32_t value, uint32_t echo);
/* Answers a segment that finds no connection with RST. */
void tcp_reply_reset(struct net_stack *stack, const struct tcp_received *r, uint64_t now_ns);
/* Sends the RST of a connection that is given up. */
void tcp_reset_send(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns);
