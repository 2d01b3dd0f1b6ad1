/* Our address, routes and MTU: from the settings, or from DHCP (net/dhcp.h), as long as the link is up. RFC 2131, RFC
 * 3442 (option 121; /32 leases whose gateway lies outside any subnet). */
#include "net/stack_state.h"
#include "net/tcp_internal.h"

enum { TOLD_MTU_BYTES_MIN = 576 };      /* every IPv4 host takes that much (RFC 791 §3.1); less is a mistake, or worse */

/* ---- Put on, taken off ---- */

static void address_set(struct net_stack *stack, uint32_t address, uint32_t mask, uint32_t gateway, uint16_t mtu_told)
{
    struct net_address *a = &stack->address;
    uint16_t mtu_bytes = stack->device->mtu_bytes;
    if (a->mtu_bytes_set != 0)
        mtu_bytes = (uint16_t)min_size(mtu_bytes, a->mtu_bytes_set);
    else if (mtu_told >= TOLD_MTU_BYTES_MIN)
        mtu_bytes = (uint16_t)min_size(mtu_bytes, mtu_told);
    ipv4_interface_set(stack, address, mask, mtu_bytes);
    a->gateway = gateway;
    if (gateway != 0)
        ipv4_route_add(stack, 0, 0, gateway);
}

/* The neighbours of a new address: the gateway is asked at once, so that it is known before a connection wants it. */
static void neighbours_meet(struct net_stack *stack, uint64_t now_ns)
{
    const struct net_address *a = &stack->address;
    arp_flush(stack);
    if (a->gateway != 0 && a->gateway_mac_set) {
        arp_set_static(stack, a->gateway, a->gateway_mac, now_ns);
        return;
    }
    arp_announce(stack);
    if (a->gateway != 0)
        arp_lookup(stack, a->gateway, now_ns);
}

static void address_drop(struct net_stack *stack)
{
    tcp_address_lost(stack);
    arp_flush(stack);
    stack->interface.up = false;
    stack->interface.address = 0;
}

/* ---- DHCP ---- */

static void lease_take(struct net_stack *stack, const struct dhcp_lease *lease, uint64_t now_ns)
{
    bool same = stack->interface.up && stack->interface.address == lease->address;
    if (!same && stack->interface.up)
        address_drop(stack);
    address_set(stack, lease->address, lease->mask, lease->gateway, lease->mtu_bytes);
    for (size_t i = 0; i < lease->route_count; i++)
        ipv4_route_add(stack, lease->routes[i].network, lease->routes[i].mask, lease->routes[i].gateway);
    if (!same)
        neighbours_meet(stack, now_ns);
}

static void dhcp_message_send(struct net_stack *stack, uint64_t now_ns)
{
    uint8_t message[DHCP_OUTPUT_BYTES_MAX];
    uint32_t source, destination;
    size_t bytes = dhcp_output(&stack->address.dhcp, message, &source, &destination, now_ns);
    if (bytes != 0)                     /* not sent: as if lost on the way, it will be sent again */
        udp_send_from(stack, source, DHCP_CLIENT_PORT, destination, DHCP_SERVER_PORT, message, bytes, now_ns);
}

static void dhcp_begin(struct net_stack *stack, uint64_t now_ns)
{
    const struct siphash_key key = { secret_random(&stack->secret), secret_random(&stack->secret) };
    dhcp_start(&stack->address.dhcp, stack->device->mac, key, now_ns);
}

bool net_address_datagram(struct net_stack *stack, const struct udp_datagram *datagram, uint64_t now_ns)
{
    if (!stack->address.from_dhcp || datagram->destination_port != DHCP_CLIENT_PORT)
        return false;
    if (datagram->source_port == DHCP_SERVER_PORT)
        dhcp_input(&stack->address.dhcp, datagram->data, datagram->bytes, now_ns);
    return true;
}

/* ---- The link, and the whole ---- */

static void link_came(struct net_stack *stack, uint64_t now_ns)
{
    struct net_address *a = &stack->address;
    if (!a->from_dhcp) {
        if (!stack->interface.up)
            address_set(stack, a->address_set, a->mask_set, a->gateway_set, 0);
        neighbours_meet(stack, now_ns);
    } else if (dhcp_lease(&a->dhcp) == NULL) {
        dhcp_begin(stack, now_ns);
    } else {
        neighbours_meet(stack, now_ns);
    }
}

void net_address_init(struct net_stack *stack, const struct net_config *config, uint64_t now_ns)
{
    static const uint8_t unset[NETDEV_MAC_BYTES];
    struct net_address *a = &stack->address;
    a->mtu_bytes_set = config->mtu_bytes;
    a->gateway_mac_set = memcmp(config->gateway_mac, unset, NETDEV_MAC_BYTES) != 0;
    memcpy(a->gateway_mac, config->gateway_mac, NETDEV_MAC_BYTES);
    a->from_dhcp = config->address == 0;
    a->address_set = config->address;
    a->mask_set = config->mask;
    a->gateway_set = config->gateway;
    if (a->from_dhcp)
        udp_bind(stack, DHCP_CLIENT_PORT);
    a->link_was_up = stack->device->link_up;
    if (a->link_was_up)
        link_came(stack, now_ns);
}

void net_address_tend(struct net_stack *stack, uint64_t now_ns)
{
    struct net_address *a = &stack->address;
    bool link_up = stack->device->link_up;
    if (link_up && !a->link_was_up)
        link_came(stack, now_ns);
    a->link_was_up = link_up;
    if (!a->from_dhcp || !link_up)
        return;
    if (now_ns >= dhcp_wake_ns(&a->dhcp))
        dhcp_message_send(stack, now_ns);
    if (a->dhcp.lease_serial == a->lease_serial_seen)
        return;
    a->lease_serial_seen = a->dhcp.lease_serial;
    const struct dhcp_lease *lease = dhcp_lease(&a->dhcp);
    if (lease != NULL)
        lease_take(stack, lease, now_ns);
    else
        address_drop(stack);
}

uint64_t net_address_wake_ns(const struct net_stack *stack)
{
    const struct net_address *a = &stack->address;
    return a->from_dhcp && stack->device->link_up ? dhcp_wake_ns(&a->dhcp) : UINT64_MAX;
}

const char *net_address_waiting_for(const struct net_stack *stack)
{
    const struct net_address *a = &stack->address;
    if (!stack->device->link_up)
        return "link";
    return a->from_dhcp && !stack->interface.up ? dhcp_waiting_for(&a->dhcp) : "";
}
