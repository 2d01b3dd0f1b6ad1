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
