/* UDP: datagrams to and from a few ports. RFC 768, RFC 1122 §4.1. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/ip/ipv4.h"
#include "net/netdev.h"

struct net_ip;

enum {
    UDP_PORT_COUNT_MAX = 8, /* GG, syslog's source, DHCP, statistics, and as many to spare */
};

struct udp {
    uint16_t ports[UDP_PORT_COUNT_MAX];
    uint32_t port_count;
    /* The ends of the latest datagram, latest_source 0: none since the owner's last idle work. An answer goes the same
     * way back within ARP_FRESH_NS, and needs no ARP. All other datagrams are requests of ours. */
    uint32_t latest_source;
    uint16_t latest_source_port, latest_port;
    uint8_t latest_mac[NETDEV_MAC_BYTES];
    uint64_t latest_ns;
};

/* A received datagram. Its bytes lie in the frame, or in reassembly memory, and are gone with the next input. */
struct udp_datagram {
    uint32_t source, destination;
    uint16_t source_port, destination_port;
    struct bytes payload;
};

/* Receives datagrams to a port. False: the table is full, or the port is 0 or bound already. */
bool udp_bind(struct net_ip *ip, uint16_t port);

/* Sends one datagram (copied). False: no route, no buffer, or too long for one frame. */
bool udp_send(struct net_ip *ip, uint16_t from_port, uint32_t address, uint16_t port, const void *data, size_t bytes,
              uint64_t now_ns);

/* Sends from a given address, for DHCP: it has none yet. */
bool udp_send_from(struct net_ip *ip, uint32_t source, uint16_t from_port, uint32_t address, uint16_t port,
                   const void *data, size_t bytes, uint64_t now_ns);

/* Takes the usual datagram: no VLAN tag, IPv4 without options, in one piece, to us or to a group that we receive, for a
 * bound port. Nothing follows the datagram except padding. Returns false if the frame is anything else or has a fault;
 * then nothing has changed. The layers take that frame one after the other (net_input_frame_long), and count the
 * fault. */
bool udp_fast_receive(struct net_ip *ip, const struct frame *frame, uint64_t now_ns, struct udp_datagram *datagram);

/* Checks a datagram; true if it is for a bound port. */
bool udp_accept(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns, struct udp_datagram *datagram);
