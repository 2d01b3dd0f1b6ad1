/* The parts of a stack. For the stack's own files; its users see net/stack.h. */
#pragma once

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/ip.h"
#include "net/stack.h"
#include "net/tcp/connection.h"

/* Payload that the application borrows from the received frame, or from a datagram that came in fragments: at most one
 * at a time. Longer payload goes through the receive ring. */
enum { NET_BORROWED_BYTES_MAX = 8 * 1024 };
struct net_borrowed {
    int connection; /* -1: none */
    struct bytes payload;
};

struct net_stack {
    struct net_borrowed borrowed;
    bool datagram_ready;          /* net_input_frame has left a datagram in `datagram` */
    bool fast_off;                /* for tests: every segment takes the slow path */
    uint32_t fast_received_count; /* to be added to the counters by tcp_fast_count */
    struct net_ip ip;
    _Alignas(NET_STACK_ALIGN) struct tcp tcp;
    struct udp_datagram datagram;
    /* The counts of changes of neighbours and routes, and of lost addresses, that TCP knows of: net/stack.c. */
    uint32_t next_hop_changes_seen, addresses_lost_seen;
    uint64_t now_ns; /* the latest call's time: a later call asserts that time goes on */
};

/* The memory of ARP's table; it follows TCP's. */
#define ARP_BYTES(connections) NET_ALIGNED(ARP_ENTRY_COUNT(connections) * sizeof(struct arp_entry))

#define NET_COUNT(stack, name) IP_COUNT(&(stack)->ip, name)

/* Takes one frame. Its bytes must stay until `borrowed` and `datagram` have been used. */
void net_input_frame(struct net_stack *stack, const struct frame *frame, uint64_t now_ns);
/* Asserts the invariant of every part. For tests, which call this function between any two steps. */
void net_stack_check(const struct net_stack *stack);

/* Takes an ARP packet (the bytes after the Ethernet header), and reports the changes to TCP. */
void net_input_arp(struct net_stack *stack, const uint8_t *data, uint32_t bytes, uint64_t now_ns);
/* Takes a frame that net_fast_receive (net/fast.h) has not taken. */
void net_input_frame_long(struct net_stack *stack, const struct frame *frame, uint64_t now_ns);
