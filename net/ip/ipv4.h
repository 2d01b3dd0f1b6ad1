/* IPv4 for a host: addresses, routes, checks on what arrives, headers on what leaves, reassembly. RFC 791, RFC 1122.
 *
 * Knows no transport; net/stack.c hands on what is left of a datagram. Everything host order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ip/ethernet.h"
#include "net/ip/ipv4_wire.h"
#include "net/netdev.h"

struct net_ip;

enum {
    IPV4_MTU_BYTES_MIN = 68,   /* RFC 791 §3.2: every link takes this much */
    IPV4_ROUTE_COUNT_MAX = 10, /* the own subnet, the default, and 8 of DHCP option 121 */

    /* RFC 791 §3.2 asks for datagrams of 576 bytes; the largest ping needs more. Four datagrams of the longest kind
     * have room at once. */
    IPV4_REASSEMBLY_COUNT = 4,
    /* Fragments that are copied: so many at once, and in the long run. A flood of them must not cost more than one of
     * any other frames; two of the longest datagrams need 90. */
    IPV4_FRAGMENTS_BURST = 256,
    IPV4_FRAGMENTS_PER_S = 500,
    IPV4_REASSEMBLY_UNIT_COUNT = 65536 / IPV4_FRAGMENT_UNIT_BYTES,
};
#define IPV4_REASSEMBLY_NS     UINT64_C(30000000000) /* RFC 1122 §3.3.2 asks 60 to 120 s; Linux, and here: 30 s */

#define IPV4_ADDRESS_BROADCAST UINT32_C(0xffffffff)

static inline bool ipv4_address_is_loopback(uint32_t a) { return a >> 24 == 127; }
/* RFC 1122 §3.2.1.3: 0.x is "this network", 240.x and above are reserved and limited broadcast. */
static inline bool ipv4_address_is_unicast(uint32_t a)
{
    return a >> 24 != 0 && !ipv4_address_is_loopback(a) && a >> 28 < 0xe;
}

/* A route: destinations with `mask` equal to `destination` go to `gateway`, or directly if it is 0. */
struct ipv4_route {
    uint32_t destination, mask, gateway;
};

/* Our end of the link. */
struct ipv4_interface {
    bool up;
    uint32_t address, mask;
    uint16_t mtu_bytes;
    uint32_t route_count;
    struct ipv4_route routes[IPV4_ROUTE_COUNT_MAX];
};

/* A datagram being put together. Its payload lies where it belongs; a bit per 8 bytes says what has come. */
struct ipv4_reassembly {
    bool used;
    uint16_t id;
    uint8_t protocol;
    uint32_t source, destination;
    uint32_t payload_bytes; /* 0: the last fragment has not come */
    uint32_t unit_count;    /* units that have come */
    uint32_t unit_end;      /* one past the highest of them */
    uint64_t ends_ns;
    uint8_t head_bytes; /* 0: the first fragment has not come */
    uint8_t codepoints; /* a bit for each ECN codepoint that has come */
    uint64_t arrived[IPV4_REASSEMBLY_UNIT_COUNT / 64];
    /* The first fragment's header is put right before the payload, for ICMP errors that quote it. */
    _Alignas(16) uint8_t bytes[IPV4_HEADER_BYTES_MAX + 4 + 65536];
};

/* A received datagram, whole. */
struct ipv4_packet {
    const uint8_t *header; /* the header and what follows it lie in one piece */
    uint32_t header_bytes;
    uint8_t *payload;
    uint32_t payload_bytes;
    uint32_t source, destination;
    const uint8_t *link_source; /* the MAC address that the frame came from; NULL: given up by the reassembly's timer */
    uint8_t protocol, tos;
    bool broadcast;     /* to more than us: by its IP or its Ethernet address */
    bool checksum_good; /* the device vouches for the transport's checksum */
    bool reassembled;
};

/* Sets the address and the routes to the own subnet; ipv4_route_add adds others (false: no room). */
void ipv4_interface_set(struct net_ip *ip, uint32_t address, uint32_t mask, uint16_t mtu_bytes);
bool ipv4_route_add(struct net_ip *ip, uint32_t destination, uint32_t mask, uint32_t gateway);

/* Finds the neighbour that a packet for `destination` goes to next. False: there is no route. */
bool ipv4_next_hop(const struct net_ip *ip, uint32_t destination, uint32_t *next_hop);

/* Returns true if an address means everyone on our link. */
bool ipv4_is_broadcast(const struct net_ip *ip, uint32_t address);

/* Checks a received frame's payload and describes it. False: dropped and counted, or kept for reassembly.
 * The frame may hold padding behind the datagram. */
bool ipv4_accept(struct net_ip *ip, const struct ethernet_frame *frame, bool checksum_good, uint64_t now_ns,
                 struct ipv4_packet *packet);

/* A buffer for a datagram of our own; its payload goes to buffer->data + IPV4_PAYLOAD_OFFSET. NULL: none free. */
enum { IPV4_PAYLOAD_OFFSET = sizeof(struct ethernet_wire) + sizeof(struct ipv4_wire) };
struct tx_buffer *ipv4_output_begin(struct net_ip *ip);

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

/* Gives up reassemblies whose time is over. */
void ipv4_reassembly_poll(struct net_ip *ip, uint64_t now_ns);
uint64_t ipv4_reassembly_next_deadline_ns(const struct net_ip *ip);

/* Asserts what holds of all reassemblies between two calls. */
void ipv4_reassembly_check(const struct net_ip *ip);

/* Takes a fragment (net/ip/reassembly.c); true if the datagram is now whole and `packet` describes it, valid until the
 * next call. */
bool ipv4_reassembly_accept(struct net_ip *ip, struct ipv4_packet *packet, uint16_t id, uint16_t flags_offset,
                            uint64_t now_ns);
