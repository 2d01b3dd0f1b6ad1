/* The stack as a whole: memory, the way of a frame inward, and idle work. */
#include "net/stack.h"

#include "base/time.h"
#include "net/fast.h"
#include "net/ip/vlan.h"
#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/input.h"
#include "net/tcp/path.h"
#include "net/tcp/table.h"
#include "net/tcp/timer.h"

/* ---- Memory: one piece, cut once ---- */

size_t net_stack_bytes(const struct net_capacity *capacity)
{
    return NET_ALIGNED(sizeof(struct net_stack)) + tcp_bytes(capacity) + ARP_BYTES(capacity->connection_count);
}

static bool power_of_two(uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

static const char *net_config_fault(const struct net_config *config, size_t memory_bytes)
{
    const struct net_capacity *capacity = &config->capacity;
    if (config->device == NULL)
        return "no device";
    if (capacity->connection_count == 0 || capacity->connection_count > 1024 || capacity->listener_count == 0
        || capacity->listener_count > 64 || capacity->half_open_count == 0 || capacity->time_wait_count == 0)
        return "a capacity is 0 or too large";
    if (!power_of_two(capacity->segment_count) || !power_of_two(capacity->receive_bytes)
        || !power_of_two(capacity->send_bytes) || capacity->receive_bytes > UINT32_C(1) << 30
        || capacity->send_bytes > UINT32_C(1) << 30)
        return "a capacity is not a power of two, or too large";
    if (memory_bytes < net_stack_bytes(capacity))
        return "too little memory";
    if (config->address != 0 && !ipv4_address_is_unicast(config->address))
        return "the address is not one a host can have";
    if (config->address != 0 && (~config->mask & (~config->mask + 1)) != 0)
        return "the mask is no network mask";
    if (config->gateway != 0 && !ipv4_address_is_unicast(config->gateway))
        return "the gateway's address is not one a host can have";
    return NULL;
}

struct net_stack *net_stack_init(void *memory, size_t memory_bytes, const struct net_config *config, uint64_t now_ns,
                                 const char **why)
{
    const char *fault = net_config_fault(config, memory_bytes);
    if (fault != NULL) {
        if (why != NULL)
            *why = fault;
        return NULL;
    }
    ASSERT((uintptr_t)memory % NET_STACK_ALIGN == 0);
    struct net_stack *stack = memory;
    memset(stack, 0, sizeof *stack);
    stack->ip.device = config->device;
    stack->now_ns = now_ns;
    stack->borrowed.connection = -1;
    secret_init(&stack->ip.secret, config->secret);
    stack->ip.ipv4_id = (uint16_t)secret_random(&stack->ip.secret);
    uint8_t *tables = (uint8_t *)memory + NET_ALIGNED(sizeof *stack);
    tcp_init(stack, config, tables);
    arp_init(&stack->ip, (void *)(tables + tcp_bytes(&config->capacity)),
             ARP_ENTRY_COUNT(config->capacity.connection_count));

    struct net_address_config address = {
        .address = config->address,
        .mask = config->mask,
        .gateway = config->gateway,
        .lease_seconds = config->lease_seconds,
        .lease_server = config->lease_server,
        .dhcp_identity = config->dhcp_identity,
        .mtu_bytes = config->mtu_bytes,
    };
    memcpy(address.gateway_mac, config->gateway_mac, sizeof address.gateway_mac);
    net_address_init(&stack->ip, &address, now_ns);
    net_stack_check(stack);
    return stack;
}

/* ---- Between the layers ---- */

/* Reports lost addresses, and changed neighbours, routes and MTUs, to TCP. The IP layer, which knows no TCP, counts
 * them. */
static void tcp_bring_up_to_date(struct net_stack *stack, uint64_t now_ns)
{
    if (stack->addresses_lost_seen != stack->ip.address.lost_count) {
        stack->addresses_lost_seen = stack->ip.address.lost_count;
        tcp_address_lost(stack);
    }
    uint32_t changes = stack->ip.arp.change_count + stack->ip.address.renewed_count;
    if (stack->next_hop_changes_seen != changes) {
        stack->next_hop_changes_seen = changes;
        tcp_next_hops_changed(stack, now_ns);
    }
}

/* ---- Inward ---- */

void net_input_arp(struct net_stack *stack, const uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    arp_input(&stack->ip, data, bytes, now_ns);
    tcp_bring_up_to_date(stack, now_ns);
}

static void icmp_input(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns)
{
    struct icmp_error error;
    if (icmp_accept(&stack->ip, packet, now_ns, &error) && error.protocol == IPV4_PROTOCOL_TCP)
        tcp_icmp_error(stack, &error, now_ns);
}

static void ipv4_input(struct net_stack *stack, const struct ethernet_frame *frame, bool checksum_good, uint64_t now_ns)
{
    struct net_ip *ip = &stack->ip;
    struct ipv4_packet packet;
    if (!ipv4_accept(ip, frame, checksum_good, now_ns, &packet))
        return;
    if (packet.protocol == IPV4_PROTOCOL_TCP) {
        tcp_input(stack, &packet, now_ns);
    } else if (packet.protocol == IPV4_PROTOCOL_UDP) {
        stack->datagram_ready = udp_accept(ip, &packet, now_ns, &stack->datagram)
                                && !net_address_datagram(ip, &stack->datagram, now_ns);
    } else if (packet.protocol == IPV4_PROTOCOL_ICMP) {
        icmp_input(stack, &packet, now_ns);
    } else if (packet.protocol == IPV4_PROTOCOL_IGMP && ip->igmp.operations != NULL) {
        ip->igmp.operations->accept(ip, &packet, now_ns);
    } else {
        NET_COUNT(stack, ipv4_rx_drop_protocol); /* RFC 1122 §3.2.2.1 */
        icmp_error_send(ip, &packet, ICMP_UNREACHABLE, ICMP_CODE_PROTOCOL_UNREACHABLE, now_ns);
    }
}

void net_input_frame(struct net_stack *stack, const struct frame *frame, uint64_t now_ns)
{
    if (!net_fast_receive(stack, frame, now_ns))
        net_input_frame_long(stack, frame, now_ns);
}

void net_input_frame_long(struct net_stack *stack, const struct frame *frame, uint64_t now_ns)
{
    struct ethernet_frame ethernet;
    struct frame untagged = *frame;
    if (!vlan_strip(&untagged)) {
        NET_COUNT(stack, ethernet_rx_frames);
        NET_COUNT(stack, ethernet_rx_drop_vlan);
        return;
    }
    bool tagged = untagged.data != frame->data;
    if ((tagged && net_fast_receive(stack, &untagged, now_ns)) || !ethernet_accept(&stack->ip, &untagged, &ethernet))
        return;
    switch (ethernet.type) {
    case ETHERNET_TYPE_IPV4:
        ipv4_input(stack, &ethernet, frame->checksum_good, now_ns);
        break;
    case ETHERNET_TYPE_ARP:
        net_input_arp(stack, ethernet.payload, ethernet.payload_bytes, now_ns);
        break;
    default:
        NET_COUNT(stack, ethernet_rx_drop_type);
        break;
    }
}

size_t net_input(struct net_stack *stack, uint64_t now_ns)
{
    size_t count = 0;
    struct frame frame;
    for (; count < NET_INPUT_FRAMES_MAX && stack->ip.device->ops->rx_borrow(stack->ip.device, &frame); count++) {
        net_input_frame(stack, &frame, now_ns);
        ASSERT(stack->borrowed.connection < 0); /* only net/own/transport.c asks for payload in place */
        stack->ip.device->ops->rx_release(stack->ip.device, &frame);
    }
    return count;
}

/* ---- Idle ---- */

void net_idle(struct net_stack *stack, uint64_t now_ns)
{
    ASSERT(now_ns >= stack->now_ns);
    stack->now_ns = now_ns;
    tcp_fast_count(stack);
    stack->ip.device->ops->poll(stack->ip.device);
    tcp_poll(stack, now_ns);
    net_address_poll(&stack->ip, now_ns);
    tcp_bring_up_to_date(stack, now_ns);
    arp_poll(&stack->ip, now_ns);
    tcp_bring_up_to_date(stack, now_ns);
    ipv4_reassembly_poll(&stack->ip, now_ns);
    if (stack->ip.igmp.operations != NULL)
        stack->ip.igmp.operations->poll(&stack->ip, now_ns);
}

uint64_t net_next_deadline_ns(const struct net_stack *stack)
{
    const struct net_ip *ip = &stack->ip;
    bool reports = ip->igmp.operations != NULL && ip->interface.up;
    uint64_t deadline_ns = min_ns(tcp_next_deadline_ns(stack), reports ? ip->igmp.due_ns : UINT64_MAX);
    deadline_ns = min_ns(deadline_ns, min_ns(arp_next_deadline_ns(ip), ipv4_reassembly_next_deadline_ns(ip)));
    return min_ns(deadline_ns, net_address_next_deadline_ns(ip));
}

/* ---- What must hold ---- */

void net_stack_check(const struct net_stack *stack)
{
    ASSERT(stack->ip.device != NULL);
    ASSERT(stack->ip.udp.port_count <= UDP_PORT_COUNT_MAX);
    ASSERT(stack->borrowed.connection < (int)stack->tcp.capacity.connection_count);
    ASSERT(stack->ip.interface.route_count <= IPV4_ROUTE_COUNT_MAX);
    ASSERT(!stack->ip.interface.up || ipv4_address_is_unicast(stack->ip.interface.address));
    arp_check(&stack->ip);
    dhcp_check(&stack->ip.address.dhcp);
    ipv4_reassembly_check(&stack->ip);
    tcp_check(stack);
}
