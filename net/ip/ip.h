/* The IP layer of a stack as one object: a device, an address on it, neighbours, reassembly, ICMP, IGMP, UDP. No
 * TCP. */
#pragma once

#include "base/assert.h"
#include "base/bytes.h"
#include "net/counters.h"
#include "net/ip/address.h"
#include "net/ip/arp.h"
#include "net/ip/ethernet.h"
#include "net/ip/icmp.h"
#include "net/ip/icmp_wire.h"
#include "net/ip/igmp.h"
#include "net/ip/ipv4.h"
#include "net/ip/ipv4_output.h"
#include "net/ip/ipv4_route.h"
#include "net/ip/reassembly.h"
#include "net/ip/udp.h"
#include "net/netdev.h"
#include "net/secret.h"

/* A build for coverage-guided fuzzing skips checksums, so that mutations reach the code after the checks. */
#ifndef NET_SKIP_CHECKSUMS
#define NET_SKIP_CHECKSUMS 0
#endif

struct net_ip {
    struct netdev *device;
    struct ipv4_interface interface;
    uint16_t ipv4_id; /* the next datagram's that may be fragmented */
    struct net_address address;
    struct secret secret;
    struct arp arp;
    struct udp udp;
    struct icmp icmp;
    struct igmp igmp;
    struct net_counters counters;
    uint64_t fragments_full_ns; /* the token bucket of fragments: net/ip/reassembly.c */
    struct ipv4_reassembly reassembly[IPV4_REASSEMBLY_COUNT];
};

#define IP_COUNT(ip, name) ((void)(ip)->counters.name++)

/* Returns true if an address means everyone on our link. RFC 1122 §3.2.1.3; RFC 3021: a /31 has no broadcast address,
 * and a /32 no neighbours. */
static inline bool ipv4_is_broadcast(const struct net_ip *ip, uint32_t address)
{
    const struct ipv4_interface *interface = &ip->interface;
    if (address == IPV4_ADDRESS_BROADCAST)
        return true;
    if (!interface->up || ~interface->mask <= 1)
        return false;
    uint32_t host = address & ~interface->mask;
    return (address & interface->mask) == (interface->address & interface->mask)
           && (host == ~interface->mask || host == 0); /* all ones, and the old form, all zeros */
}

/* Returns true if datagrams to a group are received: net/ip/igmp.h. `mask` has the bits that count: all of the address,
 * or those that an Ethernet address has. */
static inline bool ipv4_receives_group(const struct net_ip *ip, uint32_t group, uint32_t mask)
{
    const struct igmp *igmp = &ip->igmp;
    ASSERT(igmp->received_count <= ARRAY_COUNT(igmp->received));
    for (uint32_t i = 0; i < igmp->received_count; i++)
        if (((igmp->received[i] ^ group) & mask) == 0)
            return true;
    return false;
}
