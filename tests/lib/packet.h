/* Packets of a peer, for all tests that play one. Nothing of net/ writes them, only the checksums' arithmetic. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "net/ip/arp_wire.h"
#include "net/ip/checksum.h"
#include "net/ip/ethernet_wire.h"
#include "net/ip/ipv4_wire.h"
#include "net/tcp/wire.h"

/* The fields of a segment and of its IPv4 header. */
struct packet_tcp {
    uint32_t source, destination, seq, ack;
    uint16_t source_port, destination_port, window;
    uint8_t flags;
    const void *options, *payload;
    uint32_t option_bytes, bytes;
};

/* Writes an Ethernet header; the packet begins at `frame` + 14. */
static inline void packet_ethernet(uint8_t *frame, const uint8_t to[6], const uint8_t from[6], uint16_t type)
{
    memcpy(frame, to, 6);
    memcpy(frame + 6, from, 6);
    store_be16(frame + 12, type);
}

static inline struct arp_wire packet_arp(uint16_t operation, const uint8_t sender_mac[6], uint32_t sender,
                                         uint32_t target)
{
    struct arp_wire arp = { .hardware_bytes = 6, .protocol_bytes = 4 };
    store_be16(&arp.hardware_type, ARP_HARDWARE_ETHERNET);
    store_be16(&arp.protocol_type, ETHERNET_TYPE_IPV4);
    store_be16(&arp.operation, operation);
    memcpy(arp.sender_mac, sender_mac, 6);
    store_be32(&arp.sender_address, sender);
    store_be32(&arp.target_address, target);
    return arp;
}

/* Makes the checksums of a packet right: IPv4's, and those of ICMP, TCP and UDP, as far as the headers lead to them. A
 * fragment has no checksum of its own after the header. */
static inline void packet_sum(uint8_t *packet, uint32_t bytes)
{
    uint32_t header_bytes = (packet[0] & 0xfu) * 4, total = load_be16(packet + 2);
    if (header_bytes < 20 || header_bytes > bytes)
        header_bytes = 20;
    store_be16(packet + 10, 0);
    store_be16(packet + 10, checksum_finish(checksum_sum(0, packet, header_bytes)));
    uint8_t *payload = packet + header_bytes, protocol = packet[9];
    uint32_t at = protocol == IPV4_PROTOCOL_TCP ? 16 : protocol == IPV4_PROTOCOL_UDP ? 6 : 2;
    if ((protocol != IPV4_PROTOCOL_TCP && protocol != IPV4_PROTOCOL_UDP && protocol != IPV4_PROTOCOL_ICMP)
        || (load_be16(packet + 6) & (IPV4_MORE_FRAGMENTS | IPV4_OFFSET_MASK)) != 0 || total > bytes
        || total < header_bytes + at + 2)
        return;
    uint32_t sum = 0;
    if (protocol != IPV4_PROTOCOL_ICMP)
        sum = checksum_pseudo_ipv4(load_be32(packet + 12), load_be32(packet + 16), protocol,
                                   (uint16_t)(total - header_bytes));
    store_be16(payload + at, 0);
    store_be16(payload + at, checksum_finish(checksum_sum(sum, payload, total - header_bytes)));
}

/* Writes an IPv4 header before a payload of `bytes`. Returns the packet's length. */
static inline uint32_t packet_ipv4(uint8_t *packet, uint8_t protocol, uint32_t source, uint32_t destination,
                                   uint32_t bytes)
{
    struct ipv4_wire *ipv4 = (struct ipv4_wire *)packet;
    *ipv4 = (struct ipv4_wire){ .version_ihl = 0x45, .ttl = 64, .protocol = protocol };
    store_be16(&ipv4->total_bytes, (uint16_t)(sizeof *ipv4 + bytes));
    store_be32(&ipv4->source, source);
    store_be32(&ipv4->destination, destination);
    store_be16(&ipv4->checksum, checksum_finish(checksum_sum(0, ipv4, sizeof *ipv4)));
    return (uint32_t)sizeof *ipv4 + bytes;
}

/* Writes a whole packet around a payload, whose checksum it makes right. Returns its length. */
static inline uint32_t packet_around(uint8_t *packet, uint8_t protocol, uint32_t source, uint32_t destination,
                                     const void *payload, uint32_t bytes)
{
    memcpy(packet + sizeof(struct ipv4_wire), payload, bytes);
    uint32_t total = packet_ipv4(packet, protocol, source, destination, bytes);
    packet_sum(packet, total);
    return total;
}

/* Writes a whole packet with a segment. Returns its length. */
static inline uint32_t packet_tcp(uint8_t *packet, const struct packet_tcp *s)
{
    struct tcp_wire *tcp = (struct tcp_wire *)(packet + sizeof(struct ipv4_wire));
    uint32_t header_bytes = (uint32_t)sizeof *tcp + s->option_bytes;
    *tcp = (struct tcp_wire){ .offset = (uint8_t)(header_bytes / 4 << 4), .flags = s->flags };
    store_be16(&tcp->source_port, s->source_port);
    store_be16(&tcp->destination_port, s->destination_port);
    store_be32(&tcp->seq, s->seq);
    store_be32(&tcp->ack, s->ack);
    store_be16(&tcp->window, s->window);
    if (s->option_bytes != 0)
        memcpy(tcp + 1, s->options, s->option_bytes);
    if (s->bytes != 0)
        memcpy((uint8_t *)tcp + header_bytes, s->payload, s->bytes);
    uint32_t bytes = packet_ipv4(packet, IPV4_PROTOCOL_TCP, s->source, s->destination, header_bytes + s->bytes);
    packet_sum(packet, bytes);
    return bytes;
}
