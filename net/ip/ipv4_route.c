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

bool ipv4_route_add(struct net_ip *ip, uint32_t destination, uint32_t mask, uint32_t gateway)
{
    struct ipv4_interface *interface = &ip->interface;
    ASSERT(interface->route_count <= IPV4_ROUTE_COUNT_MAX);
    if (interface->route_count == IPV4_ROUTE_COUNT_MAX)
        return false;
    interface->routes[interface->route_count++] = (struct ipv4_route){ destination & mask, mask, gateway };
    return true;
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

/* RFC 1122 §3.2.1.3; RFC 3021: a /31 has no broadcast address, and a /32 no neighbours. */
bool ipv4_is_broadcast(const struct net_ip *ip, uint32_t address)
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

bool ipv4_receives_group(const struct net_ip *ip, uint32_t group, uint32_t mask)
{
    const struct igmp *igmp = &ip->igmp;
    ASSERT(igmp->received_count <= ARRAY_COUNT(igmp->received));
    for (uint32_t i = 0; i < igmp->received_count; i++)
        if (((igmp->received[i] ^ group) & mask) == 0)
            return true;
    return false;
}
