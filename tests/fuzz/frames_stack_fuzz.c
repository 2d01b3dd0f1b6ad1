/* Fuzzes a whole stack: a script of frames, of calls of the application, and of time, over a device in memory.
 *
 * Each step is one byte of kind and its arguments. Frames have right addresses, lengths and checksums, so that they
 * pass the first checks, except in a raw step. TCP segments are placed relative to the stack's last segment, so that
 * they hit its windows. The stack lives as long as the process.
 *
 * At the beginning of each script the link goes down and comes back, so that the peer's MAC is not known. The script's
 * first byte decides if ARP answers at once or in a later step. At the end connections are aborted, and the stack must
 * have released all frames of the device. */
#include "net/ip/checksum.h"
#include "net/transport_path.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/packet.h"
#include "tests/lib/random.h"

enum { OURS = 0x0a090002, PEER = 0x0a090001, PORT_FIRST = 7000, PORT_COUNT = 4, LISTEN_PORT = 80, UDP_PORT = 4000 };
enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum step { RAW, IPV4, SEGMENT, DATAGRAM, ARP, CONNECT, SEND, CLOSE, ABORT, TIME, HANDSHAKE, DATA, LINK, STEP_COUNT };

static const uint8_t our_mac[6] = { 0x52, 0x54, 0, 0x12, 0x34, 0x56 }, peer_mac[6] = { 2, 0, 0, 0, 0, 1 };
static struct netdev_memory wire;
static uint64_t now_ns;

/* The peer's knowledge of each connection, by the peer's port, from the frames of the stack. */
static struct {
    bool known;
    uint16_t port;     /* the stack's */
    uint32_t seq, ack; /* the number that the stack expects, and its last byte sent */
} flows[PORT_COUNT];

/* ---- The script ---- */

struct script {
    const uint8_t *at, *end;
};

static uint32_t byte(struct script *s) { return s->at < s->end ? *s->at++ : 0; }
static uint32_t word(struct script *s)
{
    uint32_t high = byte(s);
    return high << 8 | byte(s);
}
static int32_t small(struct script *s) { return (int16_t)word(s); }

static uint32_t take(struct script *s, uint8_t *out, uint32_t wanted)
{
    uint32_t count = (uint32_t)min_size(wanted, (size_t)(s->end - s->at));
    memcpy(out, s->at, count);
    s->at += count;
    return count;
}

/* ---- Frames to the stack ---- */

/* Feeds an IPv4 packet around `bytes` at frame + 34, with right checksums. */
static void feed_ipv4(uint8_t *frame, uint8_t protocol, uint16_t fragment, uint32_t bytes)
{
    packet_ethernet(frame, our_mac, peer_mac, ETHERNET_TYPE_IPV4);
    packet_ipv4(frame + 14, protocol, PEER, OURS, bytes);
    store_be16(frame + 14 + 6, fragment);
    packet_sum(frame + 14, 20 + bytes);
    netdev_memory_feed(&wire, frame, 34 + bytes, false);
}

static void feed_segment(uint16_t source, uint16_t port, uint32_t seq, uint32_t ack, uint8_t flags, uint16_t window,
                         struct script *options, uint32_t option_bytes, uint32_t data_bytes)
{
    static uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    uint8_t *tcp = frame + 34;
    memset(tcp, 0, 60);
    store_be16(tcp, source);
    store_be16(tcp + 2, port);
    store_be32(tcp + 4, seq);
    store_be32(tcp + 8, ack);
    store_be16(tcp + 14, window);
    option_bytes = take(options, tcp + 20, option_bytes);
    uint32_t header_bytes = 20 + (option_bytes + 3) / 4 * 4;
    store_be16(tcp + 12, (uint16_t)(header_bytes << 10 | flags));
    data_bytes = take(options, tcp + header_bytes, min_u32(data_bytes, 1480 - header_bytes));
    feed_ipv4(frame, 6, 0, header_bytes + data_bytes);
}

/* Feeds the peer's ARP request for the stack's address, with one byte replaced. The request carries the peer's
 * address. */
static void feed_arp(uint32_t at, uint8_t value, uint32_t bytes)
{
    static const uint8_t request[28] = { 0,  1, 8, 0, 6, 4, 0, 1, 2, 0, 0,  0, 0, 1,
                                         10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2 };
    static uint8_t frame[42];
    packet_ethernet(frame, our_mac, peer_mac, ETHERNET_TYPE_ARP);
    memcpy(frame + 14, request, sizeof request);
    frame[14 + at % 28] = value;
    netdev_memory_feed(&wire, frame, bytes, false);
}

/* ---- Frames from the stack ---- */

/* Checks that a frame of the stack is well-formed, and learns the state of its connection. */
static void frame_check(const uint8_t *frame, uint32_t bytes)
{
    ASSERT(memcmp(frame + 6, our_mac, 6) == 0);
    if (load_be16(frame + 12) != 0x0800)
        return;
    const uint8_t *ip = frame + 14;
    uint32_t total = load_be16(ip + 2);
    ASSERT(ip[0] == 0x45 && total + 14 <= bytes);
    ASSERT(checksum_finish(checksum_sum(0, ip, 20)) == 0);
    if (ip[9] != 6 || (load_be16(ip + 6) & 0x3fff) != 0)
        return;
    const uint8_t *tcp = ip + 20;
    uint32_t tcp_bytes = total - 20, header_bytes = tcp[12] >> 4 << 2;
    uint32_t pseudo = checksum_pseudo_ipv4(load_be32(ip + 12), load_be32(ip + 16), 6, (uint16_t)tcp_bytes);
    ASSERT(checksum_finish(checksum_sum(pseudo, tcp, tcp_bytes)) == 0);
    ASSERT(header_bytes >= 20 && header_bytes <= tcp_bytes);
    uint32_t flow = (uint32_t)load_be16(tcp + 2) - PORT_FIRST;
    if (flow >= PORT_COUNT || (tcp[13] & RST))
        return;
    flows[flow].known = true;
    flows[flow].port = load_be16(tcp);
    flows[flow].seq = load_be32(tcp + 8);
    flows[flow].ack = load_be32(tcp + 4) + (tcp_bytes - header_bytes) + ((tcp[13] & (SYN | FIN)) != 0);
}

static void stack_run(void)
{
    static uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    struct transport_event event;
    volatile uint8_t sum = 0;
    for (int i = 0; i < 1000 && transport_poll(now_ns, &event); i++)
        for (uint32_t k = 0; k < event.payload.count; k++)
            sum = (uint8_t)(sum + event.payload.data[k]); /* reads each borrowed byte, for the sanitizer */
    transport_idle(now_ns);
    for (uint32_t bytes; (bytes = netdev_memory_take(&wire, frame)) != 0;)
        frame_check(frame, bytes);
}

static void link_flap(void)
{
    wire.device.link_up = false;
    stack_run();
    wire.device.link_up = true;
    stack_run();
}

static void step_do(struct script *s)
{
    static uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    enum step kind = byte(s) % STEP_COUNT;
    uint32_t flow = byte(s) % PORT_COUNT;
    int id = (int)(flow * 2);
    switch (kind) {
    case RAW: {
        uint32_t bytes = take(s, frame, word(s) % (NETDEV_FRAME_BYTES_MAX + 1));
        netdev_memory_feed(&wire, frame, bytes, false);
        break;
    }
    case IPV4: {
        uint8_t protocol = (uint8_t)byte(s);
        uint16_t fragment = (uint16_t)word(s);
        feed_ipv4(frame, protocol, fragment, take(s, frame + 34, word(s) % 1481));
        break;
    }
    case SEGMENT: {
        uint8_t flags = (uint8_t)byte(s);
        uint32_t seq = flows[flow].seq + (uint32_t)small(s), ack = flows[flow].ack + (uint32_t)small(s);
        uint16_t window = (uint16_t)word(s);
        uint32_t option_bytes = byte(s) % 41, data_bytes = word(s) % 1461;
        uint16_t port = byte(s) % 8 == 0 ? LISTEN_PORT : flows[flow].port;
        feed_segment((uint16_t)(PORT_FIRST + flow), port, seq, ack, flags, window, s, option_bytes, data_bytes);
        break;
    }
    case DATAGRAM: {
        store_be16(frame + 34, (uint16_t)word(s));
        store_be16(frame + 36, byte(s) % 2 ? UDP_PORT : (uint16_t)word(s));
        uint32_t bytes = take(s, frame + 42, word(s) % 1473);
        store_be16(frame + 38, byte(s) % 4 ? (uint16_t)(8 + bytes) : (uint16_t)word(s));
        feed_ipv4(frame, 17, 0, 8 + bytes);
        break;
    }
    case ARP: {
        uint32_t at = byte(s);
        uint8_t value = (uint8_t)byte(s);
        feed_arp(at, value, byte(s) % 4 ? 42 : byte(s) % 43);
        break;
    }
    case CONNECT:
        flows[flow].known = false;
        transport_connect(PEER, (uint16_t)(PORT_FIRST + flow), now_ns);
        break;
    case SEND: {
        uint32_t from = word(s) % 1400, bytes = 1 + word(s) % (1400 - from);
        if (transport_message(id) != NULL)
            transport_send(id, from, bytes, now_ns);
        break;
    }
    case CLOSE:
        transport_close(id, now_ns);
        break;
    case ABORT:
        transport_abort(id, now_ns);
        break;
    case TIME:
        now_ns += (uint64_t)word(s) * 1000000;
        break;
    case HANDSHAKE: /* a valid SYN-ACK */
        flows[flow].seq = 1000;
        feed_segment((uint16_t)(PORT_FIRST + flow), flows[flow].port, 1000, flows[flow].ack, SYN | ACK, 0xffff, s,
                     byte(s) % 2 ? 0 : byte(s) % 41, 0);
        break;
    case DATA: /* in order */
        feed_segment((uint16_t)(PORT_FIRST + flow), flows[flow].port, flows[flow].seq, flows[flow].ack, ACK, 0xffff, s,
                     0, byte(s));
        break;
    case LINK:
        link_flap();
        break;
    case STEP_COUNT:
        break;
    }
    stack_run();
}

/* ---- The whole ---- */

static void start_once(void)
{
    static bool started;
    if (started)
        return;
    started = true;
    netdev_memory_init(&wire, our_mac, false);
    wire.pool.rx_stays = !transport_alters_frames();
    struct transport_config config = {
        .device = &wire.device,
        .address = OURS,
        .mask = 0xffffff00,
        .gateway = PEER,
    };
    random_secret(7, config.secret, sizeof config.secret);
    ASSERT(transport_init(&config, now_ns));
    ASSERT(transport_listen(LISTEN_PORT));
    ASSERT(transport_udp_bind(UDP_PORT));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start_once();
    struct script script = { data, data + size };
    link_flap();
    if (byte(&script) % 2 == 0) {
        feed_arp(0, 0, 42);
        stack_run();
    }
    for (int i = 0; i < 200 && script.at < script.end; i++)
        step_do(&script);
    for (int id = 0; id < TRANSPORT_CONNECTION_COUNT_MAX; id++)
        transport_abort(id, now_ns);
    /* Reassembly gives up after some 15 s, and then holds no frame of this script. */
    for (int i = 0; i < 70; i++) {
        now_ns += 1000000000;
        stack_run();
    }
    ASSERT(wire.pool.rx_out_count == 0);
    ASSERT(frame_pool_tx_held_count(&wire.pool) == 0);
    return 0;
}
