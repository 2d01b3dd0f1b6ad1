/* udp_fast_receive against the layers. The same random frame is taken twice from the same memory, once with the fast
 * path and once by the layers alone. The datagram and all memory must be the same afterwards. Half of the frames are
 * usual datagrams; the others differ from those somewhere. SEED=n replays. */
#include "net/ip/udp_wire.h"
#include "net/stack_state.h"
#include "tests/lib/packet.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

enum { OURS = 0x0a00020f, PEER = 0x0a000202, MASK = 0xffffff00, PORT = 4000, FRAMES = 10000, S = 1000000000 };
#define GROUP   UINT32_C(0xef810203) /* 239.129.2.3: its Ethernet address lacks the bit of 128 */
#define STRANGE UINT32_C(0xef010203) /* a group with the same Ethernet address */
static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 1 }, peer_mac[6] = { 2, 0, 0, 0, 0, 2 };
static const uint8_t group_mac[6] = { 1, 0, 0x5e, 1, 2, 3 }, all_mac[6] = { 255, 255, 255, 255, 255, 255 };

enum { MEMORY_BYTES = 512 * 1024 };
static _Alignas(NET_STACK_ALIGN) uint8_t memory[MEMORY_BYTES], before[MEMORY_BYTES], fast[MEMORY_BYTES];
static size_t stack_bytes;
static struct net_stack *stack;

static bool one_in(uint32_t n) { return random_below(n) == 0; }

/* ---- A device without a buffer: refusals are counted, and nothing leaves ---- */

static bool rx_borrow(struct netdev *netdev, struct frame *frame)
{
    (void)netdev, (void)frame;
    return false;
}

static struct tx_buffer *tx_acquire(struct netdev *netdev)
{
    (void)netdev;
    return NULL;
}

static void poll(struct netdev *netdev) { (void)netdev; }

static const struct netdev_ops ops = { .rx_borrow = rx_borrow, .tx_acquire = tx_acquire, .poll = poll };
static struct netdev device = { .ops = &ops, .mtu_bytes = 1500, .link_up = true };

/* Begins a stack: with an address for good, for some time, or (0) as yet without one. */
static void begin(uint32_t address, uint32_t lease_seconds)
{
    struct net_config config = {
        .capacity = { 1, 1, 1, 1, 1, 64, 64, 0 },
        .device = &device,
        .address = address,
        .mask = MASK,
        .lease_seconds = lease_seconds,
        .lease_server = lease_seconds != 0 ? PEER : 0,
    };
    tcp_policy_default(&config.policy);
    memcpy(device.mac, our_mac, sizeof our_mac);
    stack_bytes = net_stack_bytes(&config.capacity);
    assert_true(stack_bytes <= sizeof memory);
    stack = net_stack_init(memory, sizeof memory, &config, S, NULL);
    assert_non_null(stack);
    net_idle(stack, S);
    assert_true(udp_bind(&stack->ip, PORT) && udp_bind(&stack->ip, PORT + 1));
    assert_true(igmp_join(&stack->ip, GROUP));
}

/* ---- Frames ---- */

static uint32_t address_any(void)
{
    const uint32_t of[] = { PEER, OURS, GROUP, STRANGE, 0, 0xffffffff, 0x0a0002ff, 0x0a000200, 0x7f000001, 0xc6336401 };
    return of[random_below(ARRAY_COUNT(of))];
}

/* Writes a usual datagram. Returns the frame's length, with padding. */
static uint32_t datagram_usual(uint8_t *frame)
{
    uint8_t payload[8 + 64] = { 0 };
    struct udp_wire *wire = (struct udp_wire *)payload;
    uint32_t bytes = (uint32_t)random_below(65);
    bool to_group = one_in(2);
    store_be16(&wire->source_port, 123);
    store_be16(&wire->destination_port, (uint16_t)(PORT + random_below(2)));
    store_be16(&wire->bytes, (uint16_t)(8 + bytes));
    random_fill(payload + 8, bytes);
    packet_ethernet(frame, to_group ? group_mac : our_mac, peer_mac, ETHERNET_TYPE_IPV4);
    bytes = 14 + packet_around(frame + 14, IPV4_PROTOCOL_UDP, PEER, to_group ? GROUP : OURS, payload, 8 + bytes);
    if (one_in(4))
        store_be16(frame + 14 + 20 + 6, 0);
    return bytes + (one_in(4) ? (uint32_t)random_below(30) : 0);
}

/* Changes something. Returns the new length. */
static uint32_t change(uint8_t *frame, uint32_t bytes)
{
    uint8_t *packet = frame + 14;
    const uint8_t *const macs[] = { our_mac, peer_mac, group_mac, all_mac };
    bool sum = !one_in(4);
    switch (random_below(9)) {
    case 0:
        memcpy(frame, macs[random_below(ARRAY_COUNT(macs))], 6);
        break;
    case 1:
        store_be32(packet + (one_in(2) ? 12 : 16), address_any());
        break;
    case 2: /* the tail is cut off */
        return (uint32_t)random_below(bytes + 1);
    case 3: { /* a length, a little off; or two that fit together */
        uint8_t *length = packet + (one_in(2) ? 2 : 24);
        store_be16(length, (uint16_t)(one_in(3) ? random_below(30) : load_be16(length) + random_below(60) - 30));
        if (one_in(3))
            store_be16(packet + 24, (uint16_t)(load_be16(packet + 2) - 20));
    } break;
    case 4: /* fragments, and bits around them */
        store_be16(packet + 6, (uint16_t)(UINT32_C(1) << random_below(16)));
        break;
    case 5:
        store_be16(packet + 22, one_in(2) ? DHCP_CLIENT_PORT : (uint16_t)random_next());
        break;
    case 6: /* any bit of the heads */
        frame[random_below(42)] ^= (uint8_t)(1u << random_below(8));
        break;
    case 7: /* a tag */
        memmove(frame + 16, frame + 12, bytes - 12);
        store_be16(frame + 12, 0x8100);
        store_be16(frame + 14, one_in(2) ? 0 : 5);
        return bytes + 4;
    default: /* an option */
        memmove(packet + 24, packet + 20, bytes - 34);
        packet[0] = 0x46;
        memset(packet + 20, one_in(4) ? 131 : 1, 4);
        store_be16(packet + 2, (uint16_t)(load_be16(packet + 2) + 4));
        bytes += 4;
        break;
    }
    if (sum)
        packet_sum(packet, bytes - 14);
    return bytes;
}

/* ---- Both ways ---- */

/* Takes a frame. Returns true if a datagram came of it, which `*out` then is. Leaves no trace of it in the memory. */
static bool take(void (*input)(struct net_stack *, const struct frame *, uint64_t), const struct frame *frame,
                 struct udp_datagram *out)
{
    struct frame copy = *frame;
    input(stack, &copy, 2 * (uint64_t)S);
    bool ready = stack->datagram_ready;
    *out = stack->datagram;
    stack->datagram_ready = false;
    memset(&stack->datagram, 0, sizeof stack->datagram);
    return ready;
}

static void datagrams_equal(const struct udp_datagram *a, const struct udp_datagram *b)
{
    assert_int_equal(a->source, b->source);
    assert_int_equal(a->destination, b->destination);
    assert_int_equal(a->source_port, b->source_port);
    assert_int_equal(a->destination_port, b->destination_port);
    assert_int_equal(a->payload.count, b->payload.count);
    assert_ptr_equal(a->payload.data, b->payload.data);
}

/* Takes random frames, each from the memory that the layers left of the one before. Returns the count of datagrams. */
static uint32_t play(void)
{
    static uint8_t original[256], bytes_of_frame[256];
    uint32_t datagrams = 0;
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct udp_datagram by_fast, by_layers;
        struct frame frame = { .checksum_good = one_in(4) };
        memset(original, 0, sizeof original);
        frame.bytes = datagram_usual(original);
        for (int changes = (int)random_below(3); changes > 0 && frame.bytes > 60; changes--)
            frame.bytes = change(original, frame.bytes);
        frame.data = bytes_of_frame + sizeof bytes_of_frame - frame.bytes; /* the sanitizer guards the end */
        memcpy(before, memory, stack_bytes);

        memcpy(frame.data, original, frame.bytes);
        bool ready = take(net_input_frame, &frame, &by_fast);
        memcpy(fast, memory, stack_bytes);

        memcpy(memory, before, stack_bytes);
        memcpy(frame.data, original, frame.bytes);
        assert_int_equal(take(net_input_frame_long, &frame, &by_layers), ready);
        assert_true(memcmp(fast, memory, stack_bytes) == 0);
        datagrams += ready;
        if (ready)
            datagrams_equal(&by_fast, &by_layers);
    }
    return datagrams;
}

TEST(the_fast_path_takes_what_the_layers_take)
{
    random_seed(1);
    begin(OURS, 0);
    uint32_t datagrams = play();
    assert_in_range(datagrams, FRAMES / 2, FRAMES * 9 / 10);
    assert_true(stack->ip.counters.udp_rx_drop_length != 0 && stack->ip.counters.udp_rx_drop_bad_checksum != 0
                && stack->ip.counters.ipv4_rx_drop_source != 0 && stack->ip.counters.udp_rx_drop_no_port != 0
                && stack->ip.counters.ethernet_rx_drop_group != 0 && stack->ip.counters.ipv4_rx_drop_not_ours != 0);
}

TEST(the_fast_path_leaves_dhcp_to_the_layers)
{
    random_seed(2);
    begin(OURS, 600);
    assert_true(play() >= FRAMES / 2);
    begin(0, 0);
    assert_true(play() >= FRAMES / 4); /* to the group; the other address is not ours yet */
}

TEST(the_usual_datagram_is_taken_at_once)
{
    uint8_t bytes_of_frame[256], *packet = bytes_of_frame + 14;
    struct udp_datagram datagram;
    random_seed(3);
    begin(OURS, 0);
    for (int i = 0; i < 100; i++) {
        struct frame frame = { .data = bytes_of_frame, .checksum_good = one_in(2) };
        frame.bytes = datagram_usual(bytes_of_frame);
        packet[1] = (uint8_t)random_next(); /* type of service */
        packet[6] = one_in(2) ? IPV4_DONT_FRAGMENT >> 8 : 0;
        packet_sum(packet, frame.bytes - 14);
        packet[26] ^= frame.checksum_good; /* the device vouches for a sum that is only begun */
        if (one_in(4))
            store_be16(packet + 26, 0);
        assert_true(udp_fast_receive(&stack->ip, &frame, S, &datagram));
    }
    assert_int_equal(stack->ip.counters.udp_rx_datagrams, 100);
}

/* A caller of net_input may look at the datagram after several frames. */
TEST(a_datagram_stays_until_the_next_one)
{
    uint8_t bytes_of_frame[256], other[60] = { 0 };
    struct frame frame = { .data = bytes_of_frame }, without_datagram = { .data = other, .bytes = sizeof other };
    random_seed(4);
    begin(OURS, 0);
    frame.bytes = datagram_usual(bytes_of_frame);
    net_input_frame(stack, &frame, S);
    net_input_frame(stack, &without_datagram, S);
    assert_true(stack->datagram_ready);
    store_be16(bytes_of_frame + 36, PORT + 2); /* nobody has bound it */
    store_be16(bytes_of_frame + 40, 0);
    net_input_frame(stack, &frame, S);
    assert_false(stack->datagram_ready);
}
