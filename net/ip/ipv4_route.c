/* Our end of the link: its address, and the routes. RFC 1122 §3.2.1.3, §3.3.1. */
#include "net/ip/ipv4_route.h"

#include "net/ip/ip.h"

void ipv4_interface_set(struct net_ip *ip, uint32_t address, uint32_t mask, uint16_t mtu_bytes)
{
    ip->interface = (struct ipv4_interface){
        .up = address != 0,
        .address = address,
        .mask = mask,
        .mtu_bytes = mtu_bytes,
    };
    if (address != 0)
        ipv4_route_add(ip, address & mask, mask, 0);
    ASSERT(ip->interface.route_count == (address != 0));
}

void ipv4_route_add(struct net_ip *ip, uint32_t destination, uint32_t mask, uint32_t gateway)
{
    struct ipv4_interface *interface = &ip->interface;
    ASSERT(interface->route_count < IPV4_ROUTE_COUNT_MAX);
    interface->routes[interface->route_count++] = (struct ipv4_route){ destination & mask, mask, gateway };
}

bool ipv4_next_hop(const struct net_ip *ip, uint32_t destination, uint32_t *next_hop)
{
    const struct ipv4_interface *interface = &ip->interface;
    const struct ipv4_route *best = NULL;
    ASSERT(interface->route_count <= IPV4_ROUTE_COUNT_MAX);
    if (!interface->up)
        return false;
    for (uint32_t i = 0; i < interface->route_count; i++) {
        const struct ipv4_route *route = &interface->routes[i];
        if ((destination & route->mask) == route->destination && (best == NULL || route->mask > best->mask))
            best = route; /* the longest prefix: masks are contiguous */
    }
    if (best == NULL)
        return false;
    *next_hop = best->gateway != 0 ? best->gateway : destination;
    return true;
}
