/* What a stack is made of. For the stack's own files; its users see net/stack.h. */
#pragma once

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "net/arp.h"
#include "net/dhcp.h"
#include "net/icmp.h"
#include "net/icmp_wire.h"
#include "net/ipv4.h"
#include "net/net_counters.h"
#include "net/secret.h"
#include "net/stack.h"
#include "net/tcp_connection.h"
#include "net/udp.h"

/* A build for coverage-guided fuzzing skips checksums, so that mutations reach what is behind them. */
#ifndef NET_SKIP_CHECKSUMS
#define NET_SKIP_CHECKSUMS 0
#endif

/* Where the address comes from. */
struct net_address {
    bool from_dhcp;
    bool link_was_up;
    bool gateway_mac_set;
    uint8_t gateway_mac[NETDEV_MAC_BYTES];
    uint16_t mtu_bytes_set;         /* from the settings; 0: none */
    uint32_t address_set, mask_set, gateway_set;
    uint32_t gateway;               /* the default one in force; 0: none */
    uint32_t lease_serial_seen;
    struct dhcp dhcp;
};

/* Payload on its way to the application where it lies in the frame: at most one at a time. */
struct net_lent {
    int connection;                 /* -1: none */
    const uint8_t *data;
    uint32_t bytes;
};

struct net_stack {
    struct netdev *device;
    struct net_lent lent;
    bool datagram_ready;            /* net_input_one has left one */
    bool fast_off;                  /* tests: every segment goes the long way */
    uint32_t fast_received_count;   /* not yet in the counters: tcp_fast_count */
    struct ipv4_interface interface;
    _Alignas(NET_STACK_ALIGN) struct tcp tcp;
    struct net_address address;
    struct udp_datagram datagram;
    uint16_t ipv4_id;               /* of datagrams that may be fragmented */
    struct secret secret;
    struct arp arp;
    struct udp udp;
    struct icmp icmp;
    struct net_counters counters;
    uint64_t now_ns;                /* of the latest call, to assert that time does not run back */
    struct ipv4_reassembly reassembly[IPV4_REASSEMBLY_COUNT];
};

#define NET_COUNT(stack, name) ((void)(stack)->counters.name++)

/* Takes one frame. Its bytes must stay until what it lent or left (lent, datagram) has been used. */
void net_input_frame(struct net_stack *stack, const struct frame *frame, uint64_t now_ns);
/* The same for a frame that tcp_fast_receive has not taken. */
void net_input_frame_long(struct net_stack *stack, const struct frame *frame, uint64_t now_ns);

/* address.c */
void net_address_init(struct net_stack *stack, const struct net_config *config, uint64_t now_ns);
bool net_address_datagram(struct net_stack *stack, const struct udp_datagram *datagram, uint64_t now_ns);
void net_address_tend(struct net_stack *stack, uint64_t now_ns);
uint64_t net_address_wake_ns(const struct net_stack *stack);
const char *net_address_waiting_for(const struct net_stack *stack);

/* Sends a whole frame and ends the stack's hold on its buffer, sent or not. False: dropped and counted. */
bool net_frame_publish(struct net_stack *stack, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                       uint16_t csum_offset);
