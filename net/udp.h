/* UDP: datagrams to and from a few ports. RFC 768, RFC 1122 §4.1. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ipv4.h"

struct net_stack;

enum {
    UDP_PORT_COUNT_MAX = 8,             /* GG, syslog's source, DHCP, statistics, and as many to spare */
};

struct udp {
    uint16_t ports[UDP_PORT_COUNT_MAX];
    uint32_t port_count;
};

/* A received datagram. Its bytes lie in the frame, or in reassembly memory, and are gone with the next input. */
struct udp_datagram {
    uint32_t source, destination;
    uint16_t source_port, destination_port;
    const uint8_t *data;
    uint32_t bytes;
};

/* Receives datagrams to a port. False: the table is full, or the port is 0. */
bool udp_bind(struct net_stack *stack, uint16_t port);

/* Sends one datagram (copied). False: no route, no buffer, or too long for one frame. */
bool udp_send(struct net_stack *stack, uint16_t from_port, uint32_t address, uint16_t port, const void *data,
              size_t bytes, uint64_t now_ns);

/* The same from a given address, for DHCP: it has none yet. */
bool udp_send_from(struct net_stack *stack, uint32_t source, uint16_t from_port, uint32_t address, uint16_t port,
                   const void *data, size_t bytes, uint64_t now_ns);

/* Checks a datagram; true if it is for a bound port. */
bool udp_accept(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns,
                struct udp_datagram *datagram);
