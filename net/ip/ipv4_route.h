/* Our end of an IPv4 link: its address, and routes. RFC 1122 §3.2.1.3, §3.3.1. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct net_ip;

enum {
    IPV4_MTU_BYTES_MIN = 68,   /* RFC 791 §3.2: every link takes this much */
    IPV4_ROUTE_COUNT_MAX = 10, /* the own subnet, the default, and 8 of DHCP option 121 */
};

#define IPV4_ADDRESS_BROADCAST UINT32_C(0xffffffff)

static inline bool ipv4_address_is_loopback(uint32_t a) { return a >> 24 == 127; }
/* RFC 1122 §3.2.1.3: 0.x is "this network", 240.x and above are reserved and limited broadcast. */
static inline bool ipv4_address_is_unicast(uint32_t a)
{
    return a >> 24 != 0 && !ipv4_address_is_loopback(a) && a >> 28 < 0xe;
}

static inline bool ipv4_address_is_group(uint32_t a) { return a >> 28 == 0xe; } /* RFC 1112 §4 */

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

/* Sets the address and the route to the own subnet; ipv4_route_add adds the others. */
void ipv4_interface_set(struct net_ip *ip, uint32_t address, uint32_t mask, uint16_t mtu_bytes);
void ipv4_route_add(struct net_ip *ip, uint32_t destination, uint32_t mask, uint32_t gateway);

/* Finds the neighbour that a packet for `destination` goes to next. False: there is no route. */
bool ipv4_next_hop(const struct net_ip *ip, uint32_t destination, uint32_t *next_hop);
