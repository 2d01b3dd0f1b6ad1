/* Our address, routes and MTU: from the settings, or from DHCP (net/ip/dhcp.h), as long as the link is up. RFC 2131,
 * RFC 3442 (option 121; /32 leases whose gateway lies outside any subnet). */
#include "net/ip/address.h"

#include "net/ip/ip.h"

/* RFC 791 §3.1: Every IPv4 host takes datagrams of 576 bytes. A smaller MTU from a server is a mistake or an
 * attack. */
enum { DHCP_MTU_BYTES_MIN = 576 };

/* ---- Put on, taken off ---- */

static void address_set(struct net_ip *ip, uint32_t address, uint32_t mask, uint32_t gateway, uint16_t dhcp_mtu_bytes)
{
    ASSERT(address != 0);
    struct net_address *a = &ip->address;
    uint16_t mtu_bytes = ip->device->mtu_bytes;
    if (a->config.mtu_bytes != 0)
        mtu_bytes = (uint16_t)max_size(min_size(mtu_bytes, a->config.mtu_bytes), IPV4_MTU_BYTES_MIN);
    else if (dhcp_mtu_bytes >= DHCP_MTU_BYTES_MIN)
        mtu_bytes = (uint16_t)min_size(mtu_bytes, dhcp_mtu_bytes);
    ipv4_interface_set(ip, address, mask, mtu_bytes);
    a->gateway = gateway;
    if (gateway != 0)
        ipv4_route_add(ip, 0, 0, gateway);
}

/* Asks the gateway of a new address at once, so that it is known before a connection wants it. Groups are reported
 * again: the switch at the other end of a new link does not know them. */
static void neighbours_meet(struct net_ip *ip, uint64_t now_ns)
{
    const struct net_address *a = &ip->address;
    ip->igmp.announce = true;
    bool given = a->gateway_mac_set && a->gateway == a->config.gateway; /* a new lease may have another */
    if (a->gateway != 0 && given && arp_known(ip, a->gateway) == NULL)
        arp_set_known(ip, a->gateway, a->config.gateway_mac, now_ns);
    if (ip->device->point_to_point)
        return;
    arp_announce(ip);
    if (a->gateway != 0)
        arp_lookup(ip, a->gateway, true, now_ns);
}

static void address_drop(struct net_ip *ip)
{
    ip->address.lost_count++;
    arp_flush(ip);
    ip->interface.up = false;
    ip->interface.address = 0;
}

/* ---- DHCP ---- */

static void lease_take(struct net_ip *ip, const struct dhcp_lease *lease, uint64_t now_ns)
{
    ASSERT(lease->route_count <= DHCP_ROUTE_COUNT_MAX);
    const struct ipv4_interface before = ip->interface;
    bool same = before.up && before.address == lease->address;
    if (!same && before.up)
        address_drop(ip);
    address_set(ip, lease->address, lease->mask, lease->gateway, lease->mtu_bytes);
    if (lease->all_on_link)
        ipv4_route_add(ip, 0, 0, 0);
    for (size_t i = 0; i < lease->route_count; i++)
        ipv4_route_add(ip, lease->routes[i].network, lease->routes[i].mask, lease->routes[i].gateway);
    ASSERT(ip->interface.up);
    bool rerouted = memcmp(before.routes, ip->interface.routes, sizeof before.routes) != 0;
    if (!same || rerouted)
        neighbours_meet(ip, now_ns);
    ip->address.renewed_count += same && (rerouted || before.mtu_bytes != ip->interface.mtu_bytes);
}

static void dhcp_message_send(struct net_ip *ip, uint64_t now_ns)
{
    uint8_t message[DHCP_OUTPUT_BYTES_MAX];
    uint32_t source, destination;
    size_t bytes = dhcp_output(&ip->address.dhcp, message, &source, &destination, now_ns);
    dhcp_check(&ip->address.dhcp);
    ASSERT(bytes <= sizeof message);
    /* A message that cannot leave now counts as lost on the way: DHCP sends the message again. */
    if (bytes != 0)
        udp_send_from(ip, source, DHCP_CLIENT_PORT, destination, DHCP_SERVER_PORT, message, bytes, now_ns);
}

static void dhcp_begin(struct net_ip *ip, uint64_t now_ns)
{
    const struct siphash_key key = { secret_random(&ip->secret), secret_random(&ip->secret) };
    dhcp_start(&ip->address.dhcp, ip->device->mac, ip->address.config.dhcp_identity, key, now_ns);
}

/* Begins with the lease that the settings hand over. */
static void dhcp_hand_over(struct net_ip *ip, uint64_t now_ns)
{
    const struct net_address_config *config = &ip->address.config;
    const struct siphash_key key = { secret_random(&ip->secret), secret_random(&ip->secret) };
    const struct dhcp_lease lease = {
        .address = config->address,
        .mask = config->mask,
        .gateway = config->gateway,
        .server = config->lease_server,
    };
    dhcp_resume(&ip->address.dhcp, ip->device->mac, config->dhcp_identity, key, &lease, config->lease_seconds, now_ns);
}

bool net_address_datagram(struct net_ip *ip, const struct udp_datagram *datagram, uint64_t now_ns)
{
    if (!ip->address.from_dhcp || datagram->destination_port != DHCP_CLIENT_PORT)
        return false;
    /* RFC 2131 §4.1 fixes the destination port alone: some servers and relays answer from another port than 67. */
    dhcp_input(&ip->address.dhcp, datagram->payload.data, (uint32_t)datagram->payload.count, datagram->source, now_ns);
    dhcp_check(&ip->address.dhcp);
    return true;
}

/* ---- The link, and the whole ---- */

static void link_came(struct net_ip *ip, uint64_t now_ns)
{
    struct net_address *a = &ip->address;
    ASSERT(ip->device->link_up);
    memcpy(a->dhcp.mac, ip->device->mac, sizeof a->dhcp.mac); /* the card may be another one */
    arp_renew(ip, now_ns);
    if (!a->from_dhcp) {
        if (!ip->interface.up)
            address_set(ip, a->config.address, a->config.mask, a->config.gateway, 0);
        neighbours_meet(ip, now_ns);
        return;
    }
    const struct dhcp_lease *lease = dhcp_lease(&a->dhcp);
    if (lease == NULL)
        dhcp_begin(ip, now_ns);
    else if (ip->interface.up && now_ns < lease->ends_ns)
        neighbours_meet(ip, now_ns);
    /* Else the lease has not been taken yet, and lease_take meets the neighbours; or it has ended without a link. Then
     * the address may be another host's now, and is not announced. */
}

void net_address_init(struct net_ip *ip, const struct net_address_config *config, uint64_t now_ns)
{
    static const uint8_t unset[NETDEV_MAC_BYTES];
    struct net_address *a = &ip->address;
    a->config = *config;
    a->gateway_mac_set = memcmp(config->gateway_mac, unset, NETDEV_MAC_BYTES) != 0;
    a->from_dhcp = config->address == 0 || config->lease_seconds != 0;
    if (a->from_dhcp)
        udp_bind(ip, DHCP_CLIENT_PORT);
    if (config->address != 0 && a->from_dhcp)
        dhcp_hand_over(ip, now_ns);
    a->link_was_up = ip->device->link_up;
    if (a->link_was_up)
        link_came(ip, now_ns);
}

void net_address_poll(struct net_ip *ip, uint64_t now_ns)
{
    struct net_address *a = &ip->address;
    bool link_up = ip->device->link_up;
    if (link_up && !a->link_was_up)
        link_came(ip, now_ns);
    a->link_was_up = link_up;
    if (ip->device->announce && ip->interface.up) {
        arp_announce(ip);
        ip->igmp.announce = true;
    }
    ip->device->announce = false; /* an address that is yet to come is announced then */
    if (!a->from_dhcp || !link_up)
        return;
    if (now_ns >= dhcp_next_deadline_ns(&a->dhcp))
        dhcp_message_send(ip, now_ns);
    if (a->dhcp.lease_serial == a->lease_serial_seen)
        return;
    a->lease_serial_seen = a->dhcp.lease_serial;
    const struct dhcp_lease *lease = dhcp_lease(&a->dhcp);
    if (lease != NULL)
        lease_take(ip, lease, now_ns);
    else
        address_drop(ip);
}

uint64_t net_address_next_deadline_ns(const struct net_ip *ip)
{
    const struct net_address *a = &ip->address;
    return a->from_dhcp && ip->device->link_up ? dhcp_next_deadline_ns(&a->dhcp) : UINT64_MAX;
}

const char *net_address_waiting_for(const struct net_ip *ip)
{
    const struct net_address *a = &ip->address;
    if (!ip->device->link_up)
        return "link";
    return a->from_dhcp && !ip->interface.up ? dhcp_waiting_for(&a->dhcp) : "";
}
