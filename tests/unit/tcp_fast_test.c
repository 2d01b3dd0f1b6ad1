/* net/tcp/fast.c against the general path. The same random step runs twice from the same memory, once with the fast
 * path and once without. All memory must be the same afterwards: every connection, ring, counter and transmitted byte.
 *
 * Most segments are the predicted one; some differ in one field. SEED=n replays. */
#include "net/ip/checksum.h"
#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/fast.h"
#include "net/tcp/frame.h"
#include "net/tcp/message.h"
#include "net/tcp/path.h"
#include "net/tcp/rtt.h"
#include "net/tcp/sockets.h"
#include "net/tcp/table.h"
#include "tests/lib/packet.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

enum {
    OURS = 0x0a00020f,
    PEER = 0x0a000202,
    EPISODES = 80,
    STEPS = 120,
    TX_BUFFERS = 16,
    TX_FRAMES = 64,
};
static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 1 }, gateway_mac[6] = { 2, 0, 0, 0, 0, 2 };

/* All memory that a step may change, in one object. */
static struct world {
    struct netdev device; /* first: the functions of netdev_ops cast back */
    uint8_t rx_frame[2048];
    struct {
        struct tx_buffer buffer;
        uint8_t bytes[1600];
    } tx[TX_BUFFERS];
    uint32_t sent_count, acquire_fails, publish_fails; /* calls that will fail */
    struct {
        uint8_t data[1600];
        uint32_t bytes;
        uint16_t csum_start;
    } sent[TX_FRAMES];
    uint64_t now_ns;
    int id;
    struct net_borrowed borrowed; /* the bytes handed on by the last step */
    bool result;                  /* the result of its call */
    _Alignas(NET_STACK_ALIGN) uint8_t memory[512 * 1024];
} world, before, fast;

static struct net_stack *const stack = (struct net_stack *)world.memory;
static uint64_t seed;
static uint64_t segments_count, segments_fast_count, messages_count, messages_fast_count;

static uint32_t below(uint32_t limit) { return (uint32_t)random_below(limit); }
static bool one_in(uint32_t n) { return below(n) == 0; }

/* ---- A device that keeps transmitted buffers until the next poll ---- */

static bool rx_borrow(struct netdev *device, struct frame *frame)
{
    (void)device, (void)frame;
    return false;
}
static void rx_release(struct netdev *device, const struct frame *frame) { (void)device, (void)frame; }

static struct tx_buffer *tx_acquire(struct netdev *device)
{
    (void)device;
    if (world.acquire_fails != 0) {
        world.acquire_fails--;
        return NULL;
    }
    for (uint16_t i = 0; i < TX_BUFFERS; i++) {
        if (world.tx[i].buffer.holders != 0)
            continue;
        world.tx[i].buffer = (struct tx_buffer){ world.tx[i].bytes + 18, i, TX_HELD_BY_STACK };
        return &world.tx[i].buffer;
    }
    return NULL;
}

static bool tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                       uint16_t csum_offset)
{
    (void)device, (void)csum_offset;
    if (world.publish_fails != 0) {
        world.publish_fails--;
        return false;
    }
    assert_true(world.sent_count < TX_FRAMES && buffer->holders == TX_HELD_BY_STACK && bytes <= 1514);
    buffer->holders |= TX_HELD_BY_DEVICE;
    memcpy(world.sent[world.sent_count].data, buffer->data, bytes);
    world.sent[world.sent_count].csum_start = csum_start;
    world.sent[world.sent_count++].bytes = bytes;
    return true;
}

static void tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    (void)device;
    assert_true((buffer->holders & TX_HELD_BY_STACK) != 0);
    buffer->holders &= (uint8_t)~TX_HELD_BY_STACK;
}

static void poll(struct netdev *device)
{
    (void)device;
    for (int i = 0; i < TX_BUFFERS; i++)
        world.tx[i].buffer.holders &= (uint8_t)~TX_HELD_BY_DEVICE;
    world.sent_count = 0;
}

static const struct netdev_ops ops = {
    .rx_borrow = rx_borrow,
    .rx_release = rx_release,
    .tx_acquire = tx_acquire,
    .tx_publish = tx_publish,
    .tx_release = tx_release,
    .poll = poll,
};

static struct tcp_connection *connection(void) { return &stack->tcp.connections[world.id]; }

/* ---- Segments ---- */

struct segment {
    uint32_t seq, ack, timestamp, timestamp_echo, bytes, option_bytes;
    uint8_t flags;
    uint16_t window;
    uint8_t options[40];
};

static uint32_t segment_write(uint8_t *at, const struct segment *s, uint16_t port, uint16_t peer_port)
{
    struct tcp_head_wire *head = (struct tcp_head_wire *)at;
    uint32_t tcp_bytes = TCP_HEADER_BYTES_MIN + s->option_bytes + s->bytes;
    memset(at, 0, sizeof *head);
    packet_ethernet(at, our_mac, gateway_mac, ETHERNET_TYPE_IPV4);
    packet_ipv4((uint8_t *)&head->ipv4, IPV4_PROTOCOL_TCP, PEER, OURS, tcp_bytes);
    head->ipv4.tos = (uint8_t)(one_in(10) ? below(256) : 4 * below(64));
    head->ipv4.ttl = (uint8_t)(1 + below(255));
    store_be16(&head->ipv4.id, (uint16_t)random_next());
    store_be16(&head->ipv4.flags_offset, one_in(3) ? 0 : IPV4_DONT_FRAGMENT);
    store_be16(&head->tcp.source_port, peer_port);
    store_be16(&head->tcp.destination_port, port);
    store_be32(&head->tcp.seq, s->seq);
    store_be32(&head->tcp.ack, s->ack);
    head->tcp.offset = (uint8_t)((TCP_HEADER_BYTES_MIN + s->option_bytes) / 4 << 4);
    head->tcp.flags = s->flags;
    store_be16(&head->tcp.window, s->window);
    memcpy(&head->timestamps, s->options, s->option_bytes);
    for (uint32_t i = 0; i < s->bytes; i++)
        at[54 + s->option_bytes + i] = (uint8_t)random_next();
    return 34 + tcp_bytes;
}

/* Computes both checksums again after a change. */
static void segment_sum(uint8_t *at, uint32_t frame_bytes)
{
    struct tcp_head_wire *head = (struct tcp_head_wire *)at;
    uint32_t total = load_be16(&head->ipv4.total_bytes);
    uint32_t tcp_bytes = total >= 20 && total + 14 <= frame_bytes ? total - 20 : frame_bytes - 34;
    head->ipv4.checksum = head->tcp.checksum = 0;
    store_be16(&head->ipv4.checksum, checksum_finish(checksum_sum(0, &head->ipv4, sizeof head->ipv4)));
    uint32_t sum = checksum_pseudo_ipv4(load_be32(&head->ipv4.source), load_be32(&head->ipv4.destination),
                                        IPV4_PROTOCOL_TCP, (uint16_t)tcp_bytes);
    store_be16(&head->tcp.checksum, checksum_finish(checksum_sum(sum, &head->tcp, tcp_bytes)));
}

static void options_stamp(struct segment *s)
{
    store_be32(s->options, TCP_TIMESTAMPS_ALIGNED_WORD);
    store_be32(s->options + 4, s->timestamp);
    store_be32(s->options + 8, s->timestamp_echo);
    s->option_bytes = TCP_TIMESTAMPS_ALIGNED_BYTES;
}

static bool window_closed, acks_lost;

/* Draws the predicted segment, with a deviation now and then. */
static struct segment segment_draw(const struct tcp_connection *c)
{
    struct segment s = {
        .seq = c->rcv_nxt,
        .ack = c->snd_nxt,
        .flags = TCP_ACK | (one_in(2) ? TCP_PSH : 0),
        .window = (uint16_t)(window_closed ? below(2) : 1000 + below(64000)),
        .bytes = one_in(3) ? below(1449) : 1 + below(300),
        .timestamp = c->ts_recent + below(3),
        .timestamp_echo = tcp_timestamp_clock(world.now_ns, c->timestamp_offset),
    };
    if (c->timestamps_on)
        options_stamp(&s);
    if (acks_lost)
        s.ack = c->snd_una;
    switch (below(60)) { /* the deviations */
    case 0:
        s.seq -= 1 + below(400);
        break;
    case 1:
        s.seq += 1 + below(400);
        break;
    case 2:
        s.ack = c->snd_una;
        break;
    case 3:
        s.ack = c->snd_una - 1 - below(3000);
        break;
    case 4:
        s.ack = c->snd_nxt + 1 + below(3000);
        break;
    case 5:
        s.window = 0;
        break;
    case 6:
        s.flags ^= (uint8_t)(1u << below(8));
        break;
    case 7:
        s.bytes = 0;
        break;
    case 8:
        s.timestamp -= 1 + below(5);
        if (s.option_bytes != 0)
            options_stamp(&s);
        break;
    case 9:
        if (s.option_bytes != 0)
            s.option_bytes = 0;
        else
            options_stamp(&s);
        break;
    case 10:
        memset(s.options, TCP_OPTION_NOP, s.option_bytes = 4 * below(10));
        break;
    case 12:
        s.seq += 1 + below(60), s.bytes = below(20), s.flags |= TCP_FIN;
        break;
    case 11: /* SACK blocks after the timestamps */
        store_be32(s.options + s.option_bytes, 0x0101050a);
        store_be32(s.options + s.option_bytes + 4, c->snd_una + below(200));
        store_be32(s.options + s.option_bytes + 8, c->snd_una + 200 + below(300));
        s.option_bytes += 12;
        break;
    default:
        break;
    }
    return s;
}

/* Disturbs the frame before the checksums are computed. */
static uint32_t frame_disturb(uint8_t *at, uint32_t bytes)
{
    switch (below(80)) {
    case 0:
        at[below(54)] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        store_be16(at + 16, (uint16_t)(load_be16(at + 16) + below(80) - 40));
        break;
    case 2:
        store_be16(at + 20, (uint16_t)random_next());
        break;
    case 3:
        at[46] = (uint8_t)random_next();
        break;
    case 4:
        return bytes + below(40); /* padding */
    case 5:
        return below(bytes); /* cut short */
    default:
        break;
    }
    return bytes;
}

/* Puts VLAN tags into a frame: mostly one of VLAN 0, which both ways take off. Returns the frame's bytes. */
static uint32_t frame_tag(uint8_t *at, uint32_t bytes)
{
    for (uint32_t count = one_in(8) ? 2 + below(2) : 1; count > 0 && bytes >= 14; count--) {
        memmove(at + 16, at + 12, bytes - 12);
        store_be16(at + 12, one_in(4) ? 0x88a8 : 0x8100);
        store_be16(at + 14, (uint16_t)(below(16) << 12 | (one_in(20) ? below(0x1000) : 0)));
        bytes += 4;
    }
    return bytes;
}

/* ---- Steps, each a function of the world alone ---- */

static struct frame frame_in_hand;

static void step_segment(void)
{
    net_input_frame(stack, &frame_in_hand, world.now_ns);
    world.borrowed = stack->borrowed;
    stack->borrowed.connection = -1;
    stack->datagram_ready = false;
}

static uint32_t message_from, message_bytes;

static void step_message(void)
{
    struct tcp_connection *c = connection();
    world.result = tcp_message_send(stack, c, message_from, message_bytes, world.now_ns);
}

static uint64_t rx_fast(void) { return stack->ip.counters.tcp_rx_fast; }
static uint64_t tx_fast(void) { return stack->ip.counters.tcp_tx_fast; }

/* Takes a step with the fast path and without. The world continues with the result of the general path. */
static void both_ways(void (*step)(void))
{
    memcpy(&before, &world, sizeof world);
    stack->fast_off = false;
    uint64_t rx_before = rx_fast(), tx_before = tx_fast();
    step();
    tcp_fast_count(stack);
    segments_fast_count += rx_fast() - rx_before;
    messages_fast_count += tx_fast() - tx_before;
    stack->ip.counters.tcp_rx_fast = rx_before;
    stack->ip.counters.tcp_tx_fast = tx_before;
    stack->fast_off = true;
    memcpy(&fast, &world, sizeof world);

    memcpy(&world, &before, sizeof world);
    stack->fast_off = true;
    step();
    tcp_fast_count(stack);
    tcp_check(stack);
    const uint8_t *a = (const uint8_t *)&fast, *b = (const uint8_t *)&world;
    if (memcmp(a, b, sizeof world) == 0)
        return;
    size_t at = 0;
    while (a[at] == b[at])
        at++;
    size_t in_stack = at - offsetof(struct world, memory);
    size_t in_connection = in_stack - (size_t)((uint8_t *)connection() - world.memory);
    fail_msg("SEED=%llu: byte %zu differs (of the stack %zu, of the connection %zu): fast %02x, long way %02x",
             (unsigned long long)seed, at, in_stack, in_connection, a[at], b[at]);
}

/* ---- Episodes ---- */

/* The application's side of net/transport.h: a preparation holds until a message has been taken, and a message that is
 * refused leaves the area as it was. */
static struct {
    bool prepared, refused;
    uint32_t from, bytes; /* prepared */
} application;

static void episode_begin(void)
{
    memset(&world, 0, sizeof world);
    application.prepared = application.refused = false;
    world.now_ns = 1000000000 + random_next() % 1000000000;
    world.device = (struct netdev){ .ops = &ops, .mtu_bytes = 1500, .link_up = true, .tx_checksum = one_in(2) };
    memcpy(world.device.mac, our_mac, 6);
    struct net_config config = {
        .capacity = { 4, 1, 4, 4, 8, 4096, 4096, 0 },
        .device = &world.device,
        .address = OURS,
        .mask = 0xffffffff,
        .gateway = 0x0a000201,
        .mtu_bytes = 1500,
    };
    memcpy(config.gateway_mac, gateway_mac, 6);
    tcp_policy_default(&config.policy);
    config.policy.ack = one_in(2) ? TCP_ACK_QUICK : TCP_ACK_DELAYED;
    config.policy.nodelay = true;
    config.policy.timestamps = one_in(2);
    config.policy.sack = one_in(2);
    config.policy.keepalive = one_in(4);
    config.policy.keepalive_idle_us = 1000000;
    config.policy.keepalive_interval_us = 500000;
    config.policy.receive_buffer_bytes = 500 + below(3500);
    assert_non_null(net_stack_init(world.memory, sizeof world.memory, &config, world.now_ns, NULL));

    for (uint32_t others = below(3); others > 0; others--)
        tcp_connect(stack, PEER, (uint16_t)(1000 + others), 0, NULL, world.now_ns);
    world.id = tcp_connect(stack, PEER, 10001, 0, NULL, world.now_ns);
    assert_true(world.id >= 0);
    struct tcp_connection *c = connection();
    struct segment syn = { .seq = (uint32_t)random_next(),
                           .ack = c->iss + 1,
                           .flags = TCP_SYN | TCP_ACK | (one_in(6) ? TCP_ECE : 0),
                           .window = 60000 };
    if (one_in(2))
        syn.seq = (uint32_t)-below(3000); /* wraps soon */
    if (config.policy.timestamps)
        options_stamp(&syn);
    if (config.policy.sack) {
        store_be32(syn.options + syn.option_bytes, 0x01010402);
        syn.option_bytes += 4;
    }
    uint32_t bytes = segment_write(world.rx_frame, &syn, c->port, c->peer_port);
    segment_sum(world.rx_frame, bytes);
    frame_in_hand = (struct frame){ .data = world.rx_frame, .bytes = bytes };
    step_segment();
    assert_int_equal(c->state, TCP_ESTABLISHED);
    c->zero_copy = one_in(2);
    net_idle(stack, world.now_ns);
}

static void segment_arrives(void)
{
    const struct tcp_connection *c = connection();
    struct segment s = segment_draw(c);
    uint32_t bytes = segment_write(world.rx_frame, &s, c->port, c->peer_port);
    uint32_t frame_bytes = frame_disturb(world.rx_frame, bytes);
    segment_sum(world.rx_frame, bytes);
    if (one_in(80))
        world.rx_frame[below(bytes)] ^= (uint8_t)(1u << below(8));
    if (one_in(8))
        frame_bytes = frame_tag(world.rx_frame, frame_bytes);
    frame_in_hand = (struct frame){ .data = world.rx_frame, .bytes = frame_bytes, .checksum_good = one_in(2) };
    segments_count++;
    both_ways(step_segment);
}

/* Writes another message, and prepares one again if the bytes before it or its own have changed. */
static void message_write(uint8_t *area)
{
    message_from = one_in(5) ? below(100) : 0;
    message_bytes = 1 + below(one_in(10) ? 1300 : 300);
    for (uint32_t i = 0; i < message_bytes; i++)
        area[message_from + i] = (uint8_t)random_next();
    if (one_in(4) && (!application.prepared || message_from >= application.from + application.bytes))
        return;
    application.prepared = true; /* a message may turn out shorter than was prepared, or begin elsewhere */
    application.from = one_in(10) ? below(100) : message_from;
    application.bytes = below(one_in(10) ? 300 : message_bytes + 1);
    tcp_fast_prepare(stack, connection(), application.from, application.bytes);
}

static void message_leaves(void)
{
    static uint8_t written[1400];
    uint8_t *area = tcp_message(stack, connection());
    if (area == NULL)
        return;
    if (!application.refused || one_in(2))
        message_write(area);
    if (one_in(20))
        tcp_frame_head_prepare(stack, connection(), world.now_ns);
    if (one_in(20))
        world.publish_fails = 1;
    memcpy(written, area, sizeof written);
    messages_count++;
    both_ways(step_message);
    application.refused = !world.result;
    application.prepared = application.prepared && !world.result;
    uint32_t stacks_bytes = application.prepared ? application.from : 0;
    if (application.refused)
        assert_memory_equal(area + stacks_bytes, written + stacks_bytes, sizeof written - stacks_bytes);
}

static void application_reads(void)
{
    const uint8_t *data;
    int64_t bytes = tcp_read_in_place(stack, world.id, &data);
    if (bytes > 0)
        tcp_read_done(stack, world.id, below((uint32_t)bytes + 1), world.now_ns);
}

BEFORE_ALL()
{
    random_seed(20220311);
    seed = random_state;
}

TEST(fast_and_long_way_agree)
{
    for (int episode = 0; episode < EPISODES; episode++) {
        episode_begin();
        for (int i = 0; i < STEPS && tcp_connection_of(stack, world.id) != NULL; i++) {
            world.now_ns += one_in(50) ? random_next() % 3000000000 : random_next() % 1000000;
            if (one_in(window_closed ? 5 : 60))
                window_closed = !window_closed;
            if (one_in(acks_lost ? 20 : 100))
                acks_lost = !acks_lost;
            if (one_in(100))
                connection()->congestion.cwnd = below(3000);
            if (one_in(200)) {
                stack->ip.interface.mtu_bytes = (uint16_t)(300 + below(1201));
                tcp_next_hops_changed(stack, world.now_ns);
            }
            if (connection()->state != TCP_CLOSED)
                segment_arrives();
            if (one_in(2))
                application_reads();
            if (one_in(20))
                world.acquire_fails = below(3);
            if (one_in(acks_lost ? 1 : 5))
                message_leaves();
            if (one_in(300))
                tcp_shutdown(stack, world.id, world.now_ns);
            if (one_in(window_closed ? 3 : 40)
                && tcp_write(stack, world.id, "0123456789", 1 + below(10), world.now_ns) < 0)
                continue;
            if (!one_in(3) || world.sent_count > TX_FRAMES / 2)
                net_idle(stack, world.now_ns);
        }
    }
    print_message("%llu segments, %llu of them predicted; %llu messages, %llu of them prepared\n",
                  (unsigned long long)segments_count, (unsigned long long)segments_fast_count,
                  (unsigned long long)messages_count, (unsigned long long)messages_fast_count);
    assert_true(segments_fast_count > segments_count / 10);
    assert_true(messages_fast_count > messages_count / 10);
}
