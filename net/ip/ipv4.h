/* Received IPv4 datagrams. RFC 791, RFC 1122. Our own: ipv4_output.h; addresses and routes: ipv4_route.h.
 *
 * Knows no transport: net/stack.c hands the payload of a datagram on. Everything host order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ip/ethernet.h"
#include "net/ip/ipv4_wire.h"
#include "net/netdev.h"

struct net_ip;

/* A received datagram, whole. */
struct ipv4_packet {
    const uint8_t *header; /* the header and what follows it lie in one piece */
    uint32_t header_bytes;
    const uint8_t *payload;
    uint32_t payload_bytes;
    uint32_t source, destination;
    const uint8_t *link_source; /* the frame's source MAC address; NULL: given up by the reassembly's timer */
    uint8_t protocol, tos;
    bool broadcast;     /* to others too: by its IP or its Ethernet address */
    bool checksum_good; /* the device vouches for the transport's checksum */
    bool reassembled;
};

/* Checks a received frame's payload and describes it. False: dropped and counted, or kept for reassembly.
 * The frame may hold padding after the datagram. */
bool ipv4_accept(struct net_ip *ip, const struct ethernet_frame *frame, bool checksum_good, uint64_t now_ns,
                 struct ipv4_packet *packet);
