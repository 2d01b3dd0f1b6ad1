#include "net/own/twin.h"

#include "net/ip/arp_wire.h"
#include "net/ip/checksum.h"
#include "net/ip/udp_wire.h"
#include "net/stack_state.h"
#include "net/tcp/sockets.h"
#include "net/tcp/table.h"
#include "net/tcp/wire.h"

enum {
    /* RFC 5737: 192.0.2.0/24 is nobody's. */
    ADDRESS = 0xc0000202,
    PEER_ADDRESS = 0xc0000201,
    MASK = 0xffffff00,
    PEER_ISS = 0x10203040,
    PEER_WINDOW = 65000,
    ICMP_BYTES = 56, /* ping's */

    CONNECTIONS = 1,
    SEGMENTS = 16,
    RECEIVE_BYTES = 64 * 1024, /* the policy's */
    SEND_BYTES = 4 * 1024,
    TX_BUFFERS = SEGMENTS,
    BUFFER_BYTES = 1600, /* an odd number of cache lines, as the driver's */
    FRAME_OFFSET = 18,   /* netdev.h: 2 past a multiple of 16 */
    L4_OFFSET = sizeof(struct ethernet_wire) + sizeof(struct ipv4_wire),

    STACK_BYTES = NET_ALIGNED(sizeof(struct net_stack))
                  + TCP_BYTES(CONNECTIONS, 1, 1, 1, SEGMENTS, RECEIVE_BYTES, SEND_BYTES) + ARP_BYTES(CONNECTIONS),
};
static_assert(FRAME_OFFSET + NETDEV_FRAME_BYTES_MAX <= BUFFER_BYTES, "a whole frame");

static struct {
    struct netdev device;
    struct net_stack *stack;
    uint16_t peer_port;   /* a new connection has another one */
    uint32_t frame_bytes; /* the frame in the receive ring; 0: none */
    struct tx_buffer tx_buffers[TX_BUFFERS];
    _Alignas(NET_STACK_ALIGN) uint8_t rx_memory[BUFFER_BYTES];
    _Alignas(NET_STACK_ALIGN) uint8_t tx_memory[TX_BUFFERS][BUFFER_BYTES];
    _Alignas(NET_STACK_ALIGN) uint8_t stack_memory[STACK_BYTES];
} twin;

/* ---- The device ---- */

static bool rx_borrow(struct netdev *device, struct frame *frame)
{
    (void)device;
    *frame = (struct frame){ .data = twin.rx_memory + FRAME_OFFSET, .bytes = twin.frame_bytes };
    twin.frame_bytes = 0;
    return frame->bytes != 0;
}

static void rx_release(struct netdev *device, const struct frame *frame) { (void)device, (void)frame; }

static struct tx_buffer *tx_acquire(struct netdev *device)
{
    (void)device;
    for (uint16_t i = 0; i < TX_BUFFERS; i++) {
        struct tx_buffer *buffer = &twin.tx_buffers[i];
        if (buffer->holders != 0)
            continue;
        *buffer = (struct tx_buffer){ twin.tx_memory[i] + FRAME_OFFSET, i, TX_HELD_BY_STACK };
        return buffer;
    }
    return NULL;
}

/* Sends nothing, and is done with the frame at once. */
static bool tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                       uint16_t csum_offset)
{
    (void)device, (void)csum_start, (void)csum_offset;
    ASSERT(buffer->holders == TX_HELD_BY_STACK && bytes <= NETDEV_FRAME_BYTES_MAX);
    return true;
}

static void tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    (void)device;
    buffer->holders = 0;
}

static void poll(struct netdev *device) { (void)device; }

static const struct netdev_ops ops = {
    .rx_borrow = rx_borrow,
    .rx_release = rx_release,
    .tx_acquire = tx_acquire,
    .tx_publish = tx_publish,
    .tx_release = tx_release,
    .poll = poll,
};

void twin_init(const struct net_config *like, uint64_t now_ns)
{
    struct net_config config = *like;
    config.capacity = (struct net_capacity){ CONNECTIONS, 1, 1, 1, SEGMENTS, RECEIVE_BYTES, SEND_BYTES, 0 };
    config.device = &twin.device;
    config.address = ADDRESS;
    config.mask = MASK;
    config.gateway = config.lease_seconds = 0;
    twin.device = (struct netdev){ .ops = &ops, .mtu_bytes = 1500, .link_up = true, .point_to_point = true };
    memset(twin.tx_buffers, 0, sizeof twin.tx_buffers);
    twin.frame_bytes = 0;
    twin.stack = net_stack_init(twin.stack_memory, sizeof twin.stack_memory, &config, now_ns, NULL);
    ASSERT(twin.stack != NULL);
    arp_set_known(&twin.stack->ip, PEER_ADDRESS, twin.device.mac, now_ns);
}

/* ---- Frames ---- */

/* Writes the head of a frame. Returns the place after it. All Ethernet addresses are 0. */
static void *frame_begin(uint16_t type)
{
    struct ethernet_wire *ethernet = (struct ethernet_wire *)(twin.rx_memory + FRAME_OFFSET);
    ASSERT(twin.frame_bytes == 0);
    store_be16(&ethernet->type, type);
    return ethernet + 1;
}

static void *l4(void) { return twin.rx_memory + FRAME_OFFSET + L4_OFFSET; }

/* Puts an IPv4 packet, whose payload stands in its place, into the ring. Its checksum stands at `checksum_at`. */
static void ipv4_receive(uint8_t protocol, uint32_t bytes, size_t checksum_at)
{
    const struct ipv4_output output = {
        .source = PEER_ADDRESS, .destination = ADDRESS, .protocol = protocol, .flags_offset = IPV4_DONT_FRAGMENT
    };
    uint32_t sum = 0;
    ASSERT(bytes <= NETDEV_FRAME_BYTES_MAX - L4_OFFSET);
    if (protocol != IPV4_PROTOCOL_ICMP)
        sum = checksum_pseudo_ipv4(PEER_ADDRESS, ADDRESS, protocol, (uint16_t)bytes);
    store_be16((uint8_t *)l4() + checksum_at, checksum_finish(checksum_sum(sum, l4(), bytes)));
    ipv4_header_write(frame_begin(ETHERNET_TYPE_IPV4), &output, bytes);
    twin.frame_bytes = L4_OFFSET + bytes;
}

static void arp_receive(void)
{
    struct arp_wire *arp = frame_begin(ETHERNET_TYPE_ARP);
    *arp = (struct arp_wire){ .hardware_bytes = NETDEV_MAC_BYTES, .protocol_bytes = 4 };
    store_be16(&arp->hardware_type, ARP_HARDWARE_ETHERNET);
    store_be16(&arp->protocol_type, ETHERNET_TYPE_IPV4);
    store_be16(&arp->operation, ARP_OPERATION_REQUEST);
    store_be32(&arp->sender_address, PEER_ADDRESS);
    store_be32(&arp->target_address, ADDRESS);
    twin.frame_bytes = sizeof(struct ethernet_wire) + sizeof *arp;
}

/* Receives an echo request. The bound on replies is for strangers: the twin's bucket is always full. */
static void icmp_receive(void)
{
    struct icmp_wire *icmp = l4();
    *icmp = (struct icmp_wire){ .type = ICMP_ECHO };
    memset(icmp + 1, 0, ICMP_BYTES);
    twin.stack->ip.icmp.full_ns = 0;
    ipv4_receive(IPV4_PROTOCOL_ICMP, sizeof *icmp + ICMP_BYTES, offsetof(struct icmp_wire, checksum));
}

static void datagram_receive(uint16_t port, struct bytes payload)
{
    struct udp_wire *udp = l4();
    const uint32_t bytes = (uint32_t)(sizeof *udp + payload.count);
    twin.stack->ip.udp.ports[0] = port;
    twin.stack->ip.udp.port_count = 1;
    *udp = (struct udp_wire){ 0 };
    store_be16(&udp->source_port, TRANSPORT_REHEARSAL_PEER_PORT);
    store_be16(&udp->destination_port, port);
    store_be16(&udp->bytes, (uint16_t)bytes);
    memcpy(udp + 1, payload.data, payload.count);
    ipv4_receive(IPV4_PROTOCOL_UDP, bytes, offsetof(struct udp_wire, checksum));
}

/* Receives the next segment of the peer, which acknowledges all. */
static void segment_receive(const struct tcp_connection *c, uint8_t flags, struct bytes payload)
{
    const bool is_syn = (flags & TCP_SYN) != 0;
    struct tcp_wire *tcp = l4();
    uint8_t *at = (uint8_t *)(tcp + 1);
    if (is_syn) {
        store_be32(at, TCP_OPTION_MSS << 24 | TCP_OPTION_MSS_BYTES << 16 | 1460);
        at += TCP_OPTION_MSS_BYTES;
    }
    const uint32_t head_bytes = (uint32_t)(at - (uint8_t *)tcp), bytes = head_bytes + (uint32_t)payload.count;
    *tcp = (struct tcp_wire){ .offset = (uint8_t)(head_bytes / 4 << 4), .flags = flags };
    store_be16(&tcp->source_port, c->peer_port);
    store_be16(&tcp->destination_port, c->port);
    store_be32(&tcp->seq, is_syn ? PEER_ISS : c->rcv_nxt);
    store_be32(&tcp->ack, is_syn ? c->iss + 1 : c->snd_nxt);
    store_be16(&tcp->window, PEER_WINDOW);
    if (payload.count > 0)
        memcpy(at, payload.data, payload.count);
    ipv4_receive(IPV4_PROTOCOL_TCP, bytes, offsetof(struct tcp_wire, checksum));
}

/* ---- The connection ---- */

/* Returns the connection if it is open, to this port, and quiet; else NULL. */
static struct tcp_connection *connection_to(uint16_t port)
{
    struct tcp_connection *c = tcp_connection_of(twin.stack, TWIN_CONNECTION);
    bool fits = c != NULL && c->state == TCP_ESTABLISHED && c->port == port && c->snd_una == c->snd_end;
    return fits ? c : NULL;
}

/* Opens the connection to a port, in place of the one before. NULL: not now. */
static struct tcp_connection *connection_open(uint16_t port, uint64_t now_ns)
{
    struct net_stack *stack = twin.stack;
    if (tcp_connection_of(stack, TWIN_CONNECTION) != NULL)
        tcp_abort(stack, TWIN_CONNECTION, now_ns);
    twin.peer_port = (uint16_t)max_size(twin.peer_port + 1u, TRANSPORT_REHEARSAL_PEER_PORT);
    if (tcp_connect(stack, PEER_ADDRESS, twin.peer_port, port, NULL, now_ns) != TWIN_CONNECTION)
        return NULL;
    segment_receive(tcp_connection_of(stack, TWIN_CONNECTION), TCP_SYN | TCP_ACK, (struct bytes){ NULL, 0 });
    net_input(stack, now_ns);
    net_idle(stack, now_ns);
    struct tcp_connection *c = connection_to(port);
    if (c != NULL)
        c->zero_copy = true;
    return c;
}

struct net_stack *twin_receive(const struct transport_rehearsal *frame, const struct netdev *device, uint64_t now_ns)
{
    struct tcp_connection *c;
    twin.device.tx_checksum = device->tx_checksum;
    twin.frame_bytes = 0;
    switch (frame->kind) {
    case TRANSPORT_REHEARSAL_ARP:
        arp_receive();
        break;
    case TRANSPORT_REHEARSAL_ICMP:
        icmp_receive();
        break;
    case TRANSPORT_REHEARSAL_DATAGRAM:
        datagram_receive(frame->port, frame->payload);
        break;
    case TRANSPORT_REHEARSAL_SEGMENT:
        c = connection_to(frame->port);
        if (c == NULL)
            c = connection_open(frame->port, now_ns);
        if (c == NULL)
            return NULL;
        segment_receive(c, TCP_ACK | TCP_PSH, frame->payload);
        break;
    }
    ASSERT(twin.frame_bytes > 0);
    return twin.stack;
}

void twin_acknowledge(void)
{
    const struct tcp_connection *c = tcp_connection_of(twin.stack, TWIN_CONNECTION);
    if (c != NULL && c->state == TCP_ESTABLISHED && c->snd_una != c->snd_nxt && twin.frame_bytes == 0)
        segment_receive(c, TCP_ACK, (struct bytes){ NULL, 0 });
}
