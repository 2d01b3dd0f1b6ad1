/* The stack as a whole: memory, the way of a frame inward, and idle work. */
#include "net/stack.h"

#include "net/stack_state.h"
#include "net/tcp_internal.h"

static uint64_t min_ns(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- Memory: one piece, cut once ---- */

size_t net_stack_bytes(const struct net_capacity *capacity)
{
    return NET_ALIGNED(sizeof(struct net_stack)) + tcp_bytes(capacity);
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
    stack->device = config->device;
    stack->now_ns = now_ns;
    stack->lent.connection = -1;
    secret_init(&stack->secret, config->secret);
    stack->ipv4_id = (uint16_t)secret_random(&stack->secret);
    tcp_init(stack, config, (uint8_t *)memory + NET_ALIGNED(sizeof *stack));

    net_address_init(stack, config, now_ns);
    return stack;
}

/* ---- Inward ---- */

static bool ethernet_is_for_us(struct net_stack *stack, const struct ethernet_wire *ethernet, bool *broadcast)
{
    *broadcast = (ethernet->destination[0] & ETHERNET_GROUP_BIT_MASK) != 0;
    return *broadcast || memcmp(ethernet->destination, stack->device->mac, NETDEV_MAC_BYTES) == 0;
}

static void ipv4_input(struct net_stack *stack, uint8_t *data, uint32_t bytes, bool broadcast, bool checksum_good,
                       uint64_t now_ns)
{
    struct ipv4_packet packet;
    if (!ipv4_accept(stack, data, bytes, broadcast, checksum_good, now_ns, &packet))
        return;
    if (packet.protocol == IPV4_PROTOCOL_TCP) {
        tcp_input(stack, &packet, now_ns);
    } else if (packet.protocol == IPV4_PROTOCOL_UDP) {
        stack->datagram_ready = udp_accept(stack, &packet, now_ns, &stack->datagram)
            && !net_address_datagram(stack, &stack->datagram, now_ns);
    } else if (packet.protocol == IPV4_PROTOCOL_ICMP) {
        icmp_input(stack, &packet, now_ns);
    } else {
        NET_COUNT(stack, ipv4_rx_drop_protocol);        /* RFC 1122 §3.2.2.1 */
        icmp_error_send(stack, &packet, ICMP_UNREACHABLE, ICMP_CODE_PROTOCOL_UNREACHABLE, now_ns);
    }
}

void net_input_frame(struct net_stack *stack, const struct frame *frame, uint64_t now_ns)
{
    if (!tcp_fast_receive(stack, frame, now_ns))
        net_input_frame_long(stack, frame, now_ns);
}

void net_input_frame_long(struct net_stack *stack, const struct frame *frame, uint64_t now_ns)
{
    const struct ethernet_wire *ethernet = (const struct ethernet_wire *)frame->data;
    bool broadcast;
    NET_COUNT(stack, ethernet_rx_frames);
    if (frame->bytes < sizeof *ethernet) {
        NET_COUNT(stack, ethernet_rx_drop_short);
        return;
    }
    if (!ethernet_is_for_us(stack, ethernet, &broadcast)) {
        NET_COUNT(stack, ethernet_rx_drop_not_ours);
        return;
    }
    uint8_t *payload = frame->data + sizeof *ethernet;
    uint32_t payload_bytes = frame->bytes - (uint32_t)sizeof *ethernet;
    switch (load_be16(&ethernet->type)) {
    case ETHERNET_TYPE_IPV4:
        ipv4_input(stack, payload, payload_bytes, broadcast, frame->checksum_good, now_ns);
        break;
    case ETHERNET_TYPE_ARP:
        arp_input(stack, payload, payload_bytes, now_ns);
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
    for (; count < NET_INPUT_FRAMES_MAX && stack->device->ops->rx_borrow(stack->device, &frame); count++) {
        net_input_frame(stack, &frame, now_ns);
        ASSERT(stack->lent.connection < 0);             /* only net/transport_own.c asks for payload in place */
        stack->device->ops->rx_release(stack->device, &frame);
    }
    return count;
}

/* ---- Outward ---- */

bool net_frame_publish(struct net_stack *stack, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                       uint16_t csum_offset)
{
    struct netdev *device = stack->device;
    bool published = device->ops->tx_publish(device, buffer, bytes, csum_start, csum_offset);
    if (published)
        NET_COUNT(stack, ethernet_tx_frames);
    else
        NET_COUNT(stack, ethernet_tx_ring_full);
    device->ops->tx_release(device, buffer);
    return published;
}

/* ---- Idle ---- */

void net_idle(struct net_stack *stack, uint64_t now_ns)
{
    ASSERT(now_ns >= stack->now_ns);
    stack->now_ns = now_ns;
    tcp_fast_count(stack);
    stack->device->ops->tend(stack->device);
    tcp_tend(stack, now_ns);
    net_address_tend(stack, now_ns);
    arp_tend(stack, now_ns);
    ipv4_reassembly_tend(stack, now_ns);
}

uint64_t net_wake_ns(const struct net_stack *stack)
{
    return min_ns(min_ns(tcp_wake_ns(stack), net_address_wake_ns(stack)),
                  min_ns(arp_wake_ns(stack), ipv4_reassembly_wake_ns(stack)));
}
