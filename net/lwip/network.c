/* The machine's place in the network: link, address, routes, DHCP. The address comes from the configuration or from
 * net/ip/dhcp.h. DHCP messages go through an lwIP UDP pcb. */
#include "net/lwip/port.h"

#include "lwip/etharp.h"
#include "lwip/igmp.h"
#include "lwip/prot/iana.h"
#include "lwip/udp.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "net/ip/dhcp.h"
#include "net/lwip/hooks.h"

enum {
    /* RFC 791 §3.1: every IPv4 host takes 576 bytes. A smaller MTU is a mistake or an attack. */
    MTU_BYTES_MIN = 576,
};

static struct transport_config config;
static struct transport_network network;
static struct netdev *device;
static struct dhcp dhcp;
static struct udp_pcb *dhcp_pcb;
static uint32_t lease_seen; /* the lease_serial that is in force */
static struct dhcp_route routes[DHCP_ROUTE_COUNT_MAX];
static size_t route_count;
static bool all_on_link;     /* the default route has no gateway */
static uint64_t dhcp_now_ns; /* the time of the latest network_poll, for dhcp_received */

/* Returns true if a DHCP server lends us the address: the one that we ask for, or the one that is handed over. */
static bool by_dhcp(void) { return config.address == 0 || config.lease_seconds != 0; }

/* ---- Routes ---- */

/* Returns the next hop towards an address, host order: the address itself if it is on the link, 0 if there is no route.
 * The longest match wins. The interface's own network counts as a route, the default gateway as the shortest. */
static uint32_t next_hop(uint32_t address)
{
    uint32_t hop = all_on_link ? address : network.gateway, mask = 0;
    ASSERT(route_count <= DHCP_ROUTE_COUNT_MAX);
    if ((address & network.mask) == (network.address & network.mask) && network.mask != 0) {
        hop = address;
        mask = network.mask;
    }
    for (size_t i = 0; i < route_count; i++)
        if ((address & routes[i].mask) == routes[i].network && routes[i].mask >= mask) {
            hop = routes[i].gateway != 0 ? routes[i].gateway : address;
            mask = routes[i].mask;
        }
    return hop;
}

const ip4_addr_t *lwip_port_next_hop(struct netif *netif, const ip4_addr_t *destination)
{
    static ip4_addr_t hop;
    (void)netif;
    ip4_addr_set_u32(&hop, lwip_htonl(next_hop(lwip_ntohl(ip4_addr_get_u32(destination)))));
    return ip4_addr_isany_val(hop) ? NULL : &hop;
}

bool network_has_route(uint32_t address) { return network.up && next_hop(address) != 0; }

bool network_has_neighbour(uint32_t address)
{
    ip4_addr_t hop = { lwip_htonl(next_hop(address)) };
    struct eth_addr *mac;
    const ip4_addr_t *known;
    return etharp_find_addr(&interface, &hop, &mac, &known) >= 0;
}

/* ---- Addresses ---- */

/* Enters the latest address of the gateway of gwmac= as if the gateway had answered: lwIP's own static entries hold for
 * good, whatever the gateway says later. */
static void gateway_enter(void)
{
    struct pbuf *p = pbuf_alloc(PBUF_RAW, SIZEOF_ETHARP_HDR, PBUF_RAM);
    if (p == NULL)
        return; /* the gateway is asked */
    struct etharp_hdr *answer = p->payload;
    uint32_t gateway = lwip_htonl(config.gateway), address = lwip_htonl(network.address);
    *answer = (struct etharp_hdr){
        .hwtype = PP_HTONS(LWIP_IANA_HWTYPE_ETHERNET),
        .proto = PP_HTONS(ETHTYPE_IP),
        .hwlen = NETDEV_MAC_BYTES,
        .protolen = sizeof(ip4_addr_t),
        .opcode = PP_HTONS(ARP_REPLY),
    };
    memcpy(answer->shwaddr.addr, config.gateway_mac, NETDEV_MAC_BYTES);
    memcpy(&answer->sipaddr, &gateway, sizeof gateway);
    memcpy(answer->dhwaddr.addr, device->mac, NETDEV_MAC_BYTES);
    memcpy(&answer->dipaddr, &address, sizeof address);
    /* Enters no broadcast address, for which lwIP takes the odd address of two. */
    etharp_input(p, &interface);
}

void network_keep_gateway(void)
{
    static const uint8_t none[NETDEV_MAC_BYTES];
    ip4_addr_t gateway = { lwip_htonl(network.gateway) };
    struct eth_addr *mac;
    const ip4_addr_t *known;
    if (network.address == 0 || network.gateway == 0 || network.gateway != config.gateway
        || memcmp(config.gateway_mac, none, sizeof none) == 0)
        return;
    if (etharp_find_addr(&interface, &gateway, &mac, &known) >= 0)
        memcpy(config.gateway_mac, mac->addr, NETDEV_MAC_BYTES);
    else
        gateway_enter();
}

static void network_configure(uint32_t address, uint32_t mask, uint32_t gateway, uint16_t mtu_bytes)
{
    network.address = address;
    network.mask = mask;
    network.gateway = gateway;
    network.mtu_bytes = device->mtu_bytes;
    if (config.mtu_bytes != 0)
        mtu_bytes = config.mtu_bytes;
    if (mtu_bytes >= MTU_BYTES_MIN)
        network.mtu_bytes = (uint16_t)min_size(mtu_bytes, device->mtu_bytes);
    else if (mtu_bytes != 0)
        port_counters.network_drop_bad_mtu++;
    ASSERT(network.mtu_bytes <= device->mtu_bytes);
    interface_set_mtu(network.mtu_bytes);

    ip4_addr_t a = { lwip_htonl(address) }, m = { lwip_htonl(mask) }, g = { lwip_htonl(gateway) };
    netif_set_addr(&interface, &a, &m, &g); /* announces a new address by ARP; aborts connections of the old address */

    network_keep_gateway();
}

/* Returns the prefix length of a mask of leading ones. A popcount would call libgcc, which the kernel does not link. */
static int mask_bits(uint32_t mask) { return mask == 0 ? 0 : 32 - __builtin_ctz(mask); }

static void lease_apply(const struct dhcp_lease *lease)
{
    ASSERT(lease->route_count <= DHCP_ROUTE_COUNT_MAX);
    ASSERT(by_dhcp());
    memcpy(routes, lease->routes, sizeof routes);
    route_count = lease->route_count;
    all_on_link = lease->all_on_link;
    network.from_dhcp = true;
    network.lease_ends_ns = lease->ends_ns == UINT64_MAX ? 0 : lease->ends_ns;
    network_configure(lease->address, lease->mask, lease->gateway, lease->mtu_bytes);
    log_line("net: %pI4h/%d gw %pI4h mtu %u by DHCP from %pI4h", &lease->address, mask_bits(lease->mask),
             &lease->gateway, (unsigned)network.mtu_bytes, &lease->server);
}

static void lease_drop(void)
{
    route_count = 0;
    all_on_link = false;
    network.lease_ends_ns = 0;
    network_configure(0, 0, 0, 0);
    log_line("net: the DHCP lease is lost");
}

/* ---- DHCP over lwIP ---- */

static void dhcp_received(void *unused, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *from, u16_t port)
{
    /* A reassembled message in one piece. A longer one is cut here and refused later. */
    static uint8_t whole[1472];
    (void)unused, (void)port; /* RFC 2131 §4.1 fixes the destination port alone */
    ASSERT(pcb == dhcp_pcb);
    uint16_t bytes = pbuf_copy_partial(p, whole, sizeof whole, 0);
    dhcp_input(&dhcp, whole, bytes, lwip_ntohl(ip4_addr_get_u32(ip_2_ip4(from))), dhcp_now_ns);
    pbuf_free(p);
}

static void dhcp_send(uint64_t now_ns)
{
    uint8_t message[DHCP_OUTPUT_BYTES_MAX];
    uint32_t source, destination;
    size_t bytes = dhcp_output(&dhcp, message, &source, &destination, now_ns);
    ASSERT(bytes <= sizeof message);
    if (bytes == 0)
        return;
    struct pbuf *p = pbuf_alloc(PBUF_TRANSPORT, (u16_t)bytes, PBUF_RAM);
    if (p == NULL)
        return; /* the message counts as lost: DHCP sends again */
    pbuf_take(p, message, (u16_t)bytes);
    ip_addr_t from = IPADDR4_INIT(lwip_htonl(source)), to = IPADDR4_INIT(lwip_htonl(destination));
    udp_sendto_if_src(dhcp_pcb, p, &to, DHCP_SERVER_PORT, &interface, &from);
    pbuf_free(p);
}

static void dhcp_poll(uint64_t now_ns)
{
    ASSERT(by_dhcp());
    if (now_ns >= dhcp_next_deadline_ns(&dhcp))
        dhcp_send(now_ns);
    if (dhcp.lease_serial == lease_seen)
        return;
    lease_seen = dhcp.lease_serial;
    const struct dhcp_lease *lease = dhcp_lease(&dhcp);
    if (lease != NULL)
        lease_apply(lease);
    else if (network.address != 0)
        lease_drop();
}

/* ---- The whole ---- */

static bool is_usable(uint32_t address) { return address >> 24 != 0 && address >> 24 != 127 && address >> 28 < 14; }

static bool config_is_usable(void)
{
    ASSERT(config.mask != 0);
    if (config.address == 0)
        return true;
    if (!is_usable(config.address)) {
        log_line("net: %pI4h cannot be a machine's address", &config.address);
        return false;
    }
    if ((~config.mask & (~config.mask + 1)) != 0) {
        log_line("net: %pI4h is no network mask", &config.mask);
        return false;
    }
    if (config.gateway != 0 && !is_usable(config.gateway)) {
        log_line("net: %pI4h cannot be a gateway's address", &config.gateway);
        return false;
    }
    return true;
}

static void link_poll(uint64_t now_ns)
{
    if (device->link_up == (bool)netif_is_link_up(&interface))
        return;
    log_line("net: link %s", device->link_up ? "up" : "down");
    const struct dhcp_lease *lease = by_dhcp() ? dhcp_lease(&dhcp) : NULL;
    if (device->link_up && lease != NULL && network.address != 0 && now_ns >= lease->ends_ns)
        lease_drop(); /* lwIP would announce the address, which may be another host's now */
    interface_set_link(device->link_up);
    memcpy(dhcp.mac, device->mac, sizeof dhcp.mac); /* the card may be another one */
    if (groups_joined())
        groups_filter_set();
    ASSERT(device->link_up == (bool)netif_is_link_up(&interface));
    if (!device->link_up)
        return;
    if (!by_dhcp())
        network_configure(config.address, config.mask, config.gateway, 0);
    else if (lease == NULL)
        dhcp_start(&dhcp, device->mac, config.dhcp_identity, hooks_key(), now_ns);
}

/* Begins with the lease that the configuration hands over. */
static void dhcp_hand_over(uint64_t now_ns)
{
    const struct dhcp_lease lease = {
        .address = config.address,
        .mask = config.mask,
        .gateway = config.gateway,
        .server = config.lease_server,
    };
    dhcp_resume(&dhcp, device->mac, config.dhcp_identity, hooks_key(), &lease, config.lease_seconds, now_ns);
}

bool network_init(const struct transport_config *given, uint64_t now_ns)
{
    ASSERT(given->device != NULL);
    config = *given;
    device = config.device;
    if (config.mask == 0)
        config.mask = 0xffffffff; /* nothing but the gateway is on the link */
    network = (struct transport_network){ .waiting_for = "link", .mtu_bytes = device->mtu_bytes };
    if (!config_is_usable())
        return false;
    interface_init(device);
    if (by_dhcp()) {
        dhcp_pcb = udp_new();
        ASSERT(dhcp_pcb != NULL);
        udp_bind(dhcp_pcb, IP4_ADDR_ANY, DHCP_CLIENT_PORT);
        udp_recv(dhcp_pcb, dhcp_received, NULL);
        if (config.address != 0)
            dhcp_hand_over(now_ns);
    }
    network_poll(now_ns);
    return true;
}

void network_poll(uint64_t now_ns)
{
    dhcp_now_ns = now_ns;
    link_poll(now_ns);
    bool link = netif_is_link_up(&interface);
    if (by_dhcp() && link)
        dhcp_poll(now_ns);
    network.up = link && network.address != 0;
    if (device->announce && network.up) {
        etharp_gratuitous(&interface);
        igmp_report_groups(&interface);
    }
    device->announce = false; /* lwIP announces an address that is yet to come */
    network.heard_count = port_counters.rx_frames;
    network.arp_count = port_counters.rx_arp_answers;
    network.waiting_for = !link ? "link" : network.up ? "" : dhcp_waiting_for(&dhcp);
    ASSERT(network.waiting_for != NULL);
}

bool transport_ask_neighbour(void)
{
    const struct dhcp_lease *lease = network.from_dhcp ? dhcp_lease(&dhcp) : NULL;
    uint32_t neighbour = network.gateway;
    if (neighbour == 0 && lease != NULL && next_hop(lease->server) == lease->server)
        neighbour = lease->server;
    ip4_addr_t address = { lwip_htonl(neighbour) };
    return network.up && neighbour != 0 && etharp_request(&interface, &address) == ERR_OK;
}

uint64_t network_next_deadline_ns(void)
{
    return by_dhcp() && netif_is_link_up(&interface) ? dhcp_next_deadline_ns(&dhcp) : UINT64_MAX;
}

const struct transport_network *transport_network(void) { return &network; }
