/* IPv4 datagrams of our own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/ip/ethernet_wire.h"
#include "net/ip/ipv4_wire.h"
#include "net/netdev.h"

struct net_ip;

/* The place of a datagram's payload, from the data of ethernet_send_begin's buffer. */
enum { IPV4_PAYLOAD_OFFSET = sizeof(struct ethernet_wire) + sizeof(struct ipv4_wire) };

/* Puts Ethernet and IPv4 headers before the payload and sends it, by way of ARP if need be. The buffer is given
 * away. False: no route or no room; dropped and counted. */
struct ipv4_output {
    uint32_t source, destination; /* source 0: 0.0.0.0 while there is no address, else ours */
    uint8_t protocol;
    uint8_t tos;
    uint8_t ttl; /* 0: the default */
    uint16_t id;
    uint16_t flags_offset; /* IPV4_DONT_FRAGMENT, or a fragment's place */
    bool initiated;        /* we chose the receiver: net/ip/arp.h */
    /* The MAC address that the answered packet came from. A stranger on the link is answered there, and takes no entry
     * of the ARP table. NULL: ARP is asked. */
    const uint8_t *link_destination;
    /* In ipv4_output_copy, up to 8 bytes that leave in place of the payload's first ones. */
    struct bytes head;
};
bool ipv4_output_send(struct net_ip *ip, struct tx_buffer *buffer, const struct ipv4_output *output,
                      uint32_t payload_bytes, uint64_t now_ns);

/* Returns the payload bytes of the longest datagram that leaves in one piece. */
uint32_t ipv4_payload_room(const struct net_ip *ip);

/* Fills in a header without options. */
void ipv4_header_write(struct ipv4_wire *header, const struct ipv4_output *output, uint32_t payload_bytes);

/* Sends a payload of any length, in as many fragments as it needs. False: not all of it could be sent. */
bool ipv4_output_copy(struct net_ip *ip, const struct ipv4_output *output, const uint8_t *payload,
                      uint32_t payload_bytes, uint64_t now_ns);
