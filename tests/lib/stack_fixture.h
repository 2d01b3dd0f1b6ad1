/* One stack over a device in memory, for unit programs of net/ip: time is virtual, frames are given and taken one by
 * one. BEFORE_EACH of the program calls stack_begin; after each test the stack is checked and freed. */
#pragma once

#include "net/stack_state.h"
#include "net/tcp/sockets.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/packet.h"
#include "tests/lib/stack_create.h"
#include "tests/lib/test.h"

#define S UINT64_C(1000000000)
enum { ADDRESS = 0x0a000001, NEIGHBOUR = 0x0a000007, MASK = 0xffffff00 };
static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 1 }, their_mac[6] = { 2, 0, 0, 0, 0, 9 };
static const uint8_t everyone[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

static struct netdev_memory device;
static struct net_stack *stack;
static uint64_t now_ns;
static uint8_t sent[NETDEV_FRAME_BYTES_MAX]; /* the stack's frame that was taken last */
static const uint8_t *tags;                  /* stand before the type of each frame that is given */
static uint32_t tags_bytes;

/* Makes the device, and returns the configuration of a stack on it. */
static inline struct net_config stack_config(uint32_t address, uint32_t mask, uint32_t gateway)
{
    struct net_config config = { .capacity = { 8, 2, 8, 8, 64, 65536, 65536, 0 }, .device = &device.device };
    config.address = address;
    config.mask = mask;
    config.gateway = gateway;
    tcp_policy_default(&config.policy);
    netdev_memory_init(&device, our_mac, false);
    tags_bytes = 0;
    return config;
}

static inline void stack_begin(struct net_config config)
{
    stack = stack_create(&config, now_ns = 1000 * S, NULL);
    assert_non_null(stack);
}

AFTER_EACH()
{
    net_stack_check(stack);
    free(stack);
}

static inline void turn(void)
{
    net_input(stack, now_ns);
    net_idle(stack, now_ns);
}

static inline void time_pass(uint64_t ns)
{
    now_ns += ns;
    turn();
}

/* Takes the stack's next frame into `sent`, and returns its length; 0: none. */
static inline uint32_t frame_take(void) { return netdev_memory_take(&device, sent); }

/* Takes the stack's next frame of an EtherType. Returns false if there is none. */
static inline bool take(uint16_t type)
{
    while (frame_take() != 0)
        if (load_be16(sent + 12) == type)
            return true;
    return false;
}

static inline void drain(void)
{
    while (frame_take() != 0) {
    }
}

static inline void frame_give(const uint8_t from[6], const uint8_t to[6], uint16_t type, const void *payload,
                              uint32_t bytes)
{
    uint8_t frame[NETDEV_FRAME_BYTES_MAX + 12];
    packet_ethernet(frame, to, from, type);
    if (tags_bytes != 0)
        memcpy(frame + 12, tags, tags_bytes);
    store_be16(frame + 12 + tags_bytes, type);
    memcpy(frame + 14 + tags_bytes, payload, bytes);
    assert_true(netdev_memory_feed(&device, frame, 14 + tags_bytes + bytes, false));
    turn();
}

static inline void arp_give(uint16_t operation, uint32_t sender, uint32_t target, const uint8_t mac[6])
{
    struct arp_wire arp = packet_arp(operation, mac, sender, target);
    frame_give(mac, operation == ARP_OPERATION_REQUEST ? everyone : our_mac, ETHERNET_TYPE_ARP, &arp, sizeof arp);
}

/* Gives a segment of a peer's port to a port of ours. */
static inline void segment_give(const uint8_t mac[6], uint32_t source, uint16_t source_port, uint16_t port,
                                uint8_t flags, uint32_t seq, uint32_t ack)
{
    static const uint8_t mss[] = { 2, 4, 1460 >> 8, 1460 & 0xff };
    uint8_t packet[sizeof(struct ipv4_wire) + sizeof(struct tcp_wire) + sizeof mss];
    struct packet_tcp segment = { .source = source, .destination = ADDRESS, .seq = seq, .ack = ack, .options = mss };
    segment.source_port = source_port;
    segment.destination_port = port;
    segment.window = 4000;
    segment.flags = flags;
    segment.option_bytes = (flags & TCP_SYN) != 0 ? sizeof mss : 0;
    frame_give(mac, our_mac, ETHERNET_TYPE_IPV4, packet, packet_tcp(packet, &segment));
}
