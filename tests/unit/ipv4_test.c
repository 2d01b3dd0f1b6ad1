/* IPv4 and its neighbours: fragments, echoes, routes, ARP. */
#include "tests/lib/stack_fixture.h"

enum { GATEWAY = 0x0a0000fe, FAR = 0xc6336401 };

static const uint8_t *begin_gateway_mac;
static uint16_t begin_mtu_bytes;

static void begin_at(uint32_t address, uint32_t mask, uint32_t gateway)
{
    struct net_config config = stack_config(address, mask, gateway);
    if (begin_gateway_mac != NULL)
        memcpy(config.gateway_mac, begin_gateway_mac, 6);
    if (begin_mtu_bytes != 0)
        device.device.mtu_bytes = begin_mtu_bytes;
    stack_begin(config);
}

BEFORE_EACH() { begin_at(ADDRESS, MASK, GATEWAY); }

/* Takes the next ARP packet that the stack sent; NULL: none. */
static const struct arp_wire *arp_taken(void)
{
    return take(ETHERNET_TYPE_ARP) ? (const struct arp_wire *)(sent + 14) : NULL;
}

/* Expects that the next ARP packet is a request for this address, sent to this MAC. */
static void expect_request(const uint8_t to[6], uint32_t target)
{
    const struct arp_wire *arp = arp_taken();
    assert_non_null(arp);
    assert_int_equal(load_be16(&arp->operation), ARP_OPERATION_REQUEST);
    assert_memory_equal(sent, to, 6);
    assert_memory_equal(arp->sender_mac, our_mac, 6);
    assert_int_equal(load_be32(&arp->sender_address), ADDRESS);
    assert_int_equal(load_be32(&arp->target_address), target);
}

/* Expects that the next frame is an IPv4 packet, sent to this MAC. */
static void expect_packet(const uint8_t to[6])
{
    assert_int_not_equal(frame_take(), 0);
    assert_int_equal(load_be16(sent + 12), ETHERNET_TYPE_IPV4);
    assert_memory_equal(sent, to, 6);
}

/* Sends a datagram back to port 5000 from port 4000. */
static void datagram_send(uint32_t destination)
{
    assert_true(udp_send(&stack->ip, 4000, destination, 5000, "x", 1, now_ns));
}

/* Gives a datagram from port 5000 to port 4000. */
static void datagram_give(uint32_t source, const uint8_t mac[6])
{
    uint8_t packet[29] = { 0 };
    const struct ipv4_output output = { .source = source, .destination = ADDRESS, .protocol = IPV4_PROTOCOL_UDP };
    ipv4_header_write((struct ipv4_wire *)packet, &output, 9);
    store_be16(packet + 20, 5000);
    store_be16(packet + 22, 4000);
    store_be16(packet + 24, 9);
    frame_give(mac, our_mac, ETHERNET_TYPE_IPV4, packet, sizeof packet);
}

/* ---- Fragments ---- */

struct piece {
    uint32_t offset, bytes;
    bool more;
};

static void fragment_give(uint16_t id, const uint8_t *datagram, struct piece piece, uint8_t protocol)
{
    uint8_t packet[1500];
    const struct ipv4_output output = {
        .source = NEIGHBOUR,
        .destination = ADDRESS,
        .protocol = protocol,
        .id = id,
        .flags_offset = (uint16_t)(piece.offset / 8 | (piece.more ? IPV4_MORE_FRAGMENTS : 0)),
    };
    ipv4_header_write((struct ipv4_wire *)packet, &output, piece.bytes);
    memcpy(packet + 20, datagram + piece.offset, piece.bytes);
    frame_give(their_mac, our_mac, ETHERNET_TYPE_IPV4, packet, 20 + piece.bytes);
}

static uint8_t datagram[65536 + 2048]; /* 65535 bytes at most, and room for fragments beyond */

static void datagram_fill(uint32_t bytes)
{
    for (uint32_t i = 0; i < sizeof datagram; i++)
        datagram[i] = (uint8_t)(i * 13 + (i >> 8));
    memset(datagram, 0, 8);
    store_be16(datagram, 5000);
    store_be16(datagram + 2, 4000);
    store_be16(datagram + 4, (uint16_t)bytes);
}

static void expect_datagram(uint32_t bytes)
{
    assert_true(stack->datagram_ready);
    assert_int_equal(stack->datagram.payload.count, bytes - 8);
    assert_memory_equal(stack->datagram.payload.data, datagram + 8, bytes - 8);
    stack->datagram_ready = false;
}

TEST(fragments_in_any_order_become_the_datagram)
{
    static const struct piece pieces[4] = {
        { 0, 800, true }, { 800, 1200, true }, { 2000, 8, true }, { 2008, 501, false }
    };
    udp_bind(&stack->ip, 4000);
    datagram_fill(2509);
    for (uint16_t order = 0; order < 24; order++) {
        unsigned left[4] = { 0, 1, 2, 3 }, rest = order;
        for (unsigned i = 4; i > 0; i--) {
            unsigned pick = left[rest % i];
            left[rest % i] = left[i - 1];
            rest /= i;
            assert_false(stack->datagram_ready);
            fragment_give(order, datagram, pieces[pick], 17);
            fragment_give(order, datagram, i > 1 ? pieces[pick] : (struct piece){ 0, 8, true }, 17); /* repeated */
        }
        expect_datagram(2509);
    }
}

TEST(a_port_is_bound_once)
{
    assert_true(udp_bind(&stack->ip, 4000));
    assert_false(udp_bind(&stack->ip, 4000));
    assert_false(udp_bind(&stack->ip, 0));
    assert_true(udp_bind(&stack->ip, 4001));
}

TEST(longest_datagram_is_put_together)
{
    udp_bind(&stack->ip, 4000);
    datagram_fill(65515);
    for (uint32_t at = 0; at < 65515; at += 1480)
        fragment_give(9, datagram, (struct piece){ at, at + 1480 < 65515 ? 1480 : 65515 - at, at + 1480 < 65515 }, 17);
    expect_datagram(65515);
}

TEST(segment_in_fragments_is_taken)
{
    int listener = tcp_listen(stack, 80, 1, NULL);
    uint8_t segment[24] = { 0, 99, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, TCP_SYN, 4, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4 };
    uint32_t sum = checksum_pseudo_ipv4(NEIGHBOUR, ADDRESS, 6, 24);
    store_be16(segment + 16, checksum_finish(checksum_sum(sum, segment, 24)));
    fragment_give(1, segment, (struct piece){ 8, 16, false }, 6); /* the header itself is cut */
    assert_int_equal(stack->tcp.half_open_used, 0);
    fragment_give(1, segment, (struct piece){ 0, 8, true }, 6);
    assert_int_equal(stack->tcp.half_open_used, 1);
    tcp_unlisten(stack, listener, now_ns);
}

/* Takes two fragments of 8 bytes with these ECN codepoints. Returns the datagram's codepoint; -1: dropped. */
static int codepoint_of(uint16_t id, uint8_t first, uint8_t last)
{
    uint8_t packet[28] = { 0 };
    struct ipv4_packet whole;
    const uint8_t codepoints[] = { first, last };
    for (uint16_t i = 0; i < 2; i++) {
        const struct ipv4_output output = {
            .source = NEIGHBOUR,
            .destination = ADDRESS,
            .protocol = 17,
            .tos = codepoints[i],
            .id = id,
            .flags_offset = i == 0 ? IPV4_MORE_FRAGMENTS : 1,
        };
        ipv4_header_write((struct ipv4_wire *)packet, &output, 8);
        const struct ethernet_frame frame = { .source = their_mac, .payload = packet, .payload_bytes = sizeof packet };
        if (ipv4_accept(&stack->ip, &frame, false, now_ns, &whole))
            return whole.tos & IPV4_ECN_MASK;
    }
    return -1;
}

/* RFC 3168 §5.3. */
TEST(mark_of_one_fragment_is_the_datagrams)
{
    enum { NO = IPV4_ECN_INCAPABLE, ECT = IPV4_ECN_CAPABLE, CE = IPV4_ECN_CONGESTED };
    assert_int_equal(codepoint_of(1, NO, NO), NO);
    assert_int_equal(codepoint_of(2, ECT, ECT), ECT);
    assert_int_equal(codepoint_of(3, CE, ECT), CE);
    assert_int_equal(codepoint_of(4, ECT, CE), CE);
    assert_int_equal(codepoint_of(5, CE, NO), -1); /* no router marks a part of such a datagram */
    assert_int_equal(codepoint_of(6, NO, CE), -1);
    assert_int_equal(stack->ip.counters.ipv4_rx_drop_fragment_mark, 2);
}

/* Sends overlaps, two ends, bytes beyond the end, ping of death, zero length, odd length: the datagram is dropped. */
TEST(contradicting_fragments_cost_the_datagram)
{
    static const struct piece attacks[][3] = {
        { { 0, 800, true }, { 400, 800, true }, { 800, 100, false } }, /* teardrop */
        { { 0, 800, true }, { 792, 16, true }, { 808, 100, false } },
        { { 800, 100, false }, { 0, 808, true }, { 0, 0, true } },    /* over the head of the last */
        { { 800, 100, false }, { 8, 792, false }, { 0, 800, true } }, /* two ends */
        { { 800, 100, false }, { 1600, 8, true }, { 0, 800, true } }, /* beyond the end */
        { { 1600, 8, true }, { 800, 100, false }, { 0, 800, true } },
    };
    udp_bind(&stack->ip, 4000);
    datagram_fill(900);
    for (uint16_t i = 0; i < ARRAY_COUNT(attacks); i++) {
        uint64_t before = stack->ip.counters.ipv4_rx_drop_fragment_overlap;
        for (int k = 0; k < 3; k++)
            fragment_give((uint16_t)(100 + i), datagram, attacks[i][k], 17);
        assert_false(stack->datagram_ready);
        assert_true(stack->ip.counters.ipv4_rx_drop_fragment_overlap > before);
    }
    uint64_t before = stack->ip.counters.ipv4_rx_drop_fragment_bounds;
    fragment_give(200, datagram, (struct piece){ 65528, 1000, true }, 17);
    fragment_give(200, datagram, (struct piece){ 65512, 8, false }, 17);
    fragment_give(200, datagram, (struct piece){ 0, 0, true }, 17);
    fragment_give(200, datagram, (struct piece){ 0, 801, true }, 17);
    assert_int_equal(stack->ip.counters.ipv4_rx_drop_fragment_bounds - before, 4);
}

TEST(fragments_of_same_place_with_other_bytes_are_refused)
{
    udp_bind(&stack->ip, 4000);
    datagram_fill(900);
    fragment_give(7, datagram, (struct piece){ 0, 800, true }, 17);
    uint8_t other[900];
    memcpy(other, datagram, 900);
    other[500] ^= 1;
    fragment_give(7, other, (struct piece){ 0, 800, true }, 17);
    fragment_give(7, datagram, (struct piece){ 800, 100, false }, 17);
    assert_false(stack->datagram_ready);
}

TEST(unfinished_datagrams_are_bounded_in_number_and_time)
{
    udp_bind(&stack->ip, 4000);
    datagram_fill(900);
    for (uint16_t i = 0; i < 10000; i++, now_ns += S / IPV4_FRAGMENTS_PER_S)
        fragment_give(i, datagram, (struct piece){ 0, 800, true }, 17);
    assert_int_equal(stack->ip.counters.ipv4_rx_drop_fragment_full, 10000 - 4);
    for (uint16_t i = 9998; i < 10000; i++) {
        fragment_give(i, datagram, (struct piece){ 800, 100, false }, 17);
        expect_datagram(900);
    }
    assert_int_equal(stack->ip.counters.ipv4_rx_reassembled, 2);
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac); /* so that the report can leave */
    drain();
    time_pass(31 * S);
    assert_int_equal(stack->ip.counters.ipv4_rx_drop_fragment_timeout, 2);
    assert_int_equal(stack->ip.counters.icmp_tx_errors, 2); /* RFC 1122 §3.3.2 */
    fragment_give(9997, datagram, (struct piece){ 800, 100, false }, 17);
    assert_false(stack->datagram_ready);
}

TEST(flood_of_fragments_is_dropped_before_it_is_copied)
{
    datagram_fill(900);
    for (uint16_t i = 0; i < 10000; i++)
        fragment_give(i, datagram, (struct piece){ 0, 800, true }, 17);
    assert_int_equal(stack->ip.counters.ipv4_rx_drop_fragment_full, IPV4_FRAGMENTS_BURST - 4);
    assert_int_equal(stack->ip.counters.ipv4_rx_drop_fragment_rate, 10000 - IPV4_FRAGMENTS_BURST);
    udp_bind(&stack->ip, 4000);
    now_ns += S; /* afterwards fragments are datagrams again */
    fragment_give(10001, datagram, (struct piece){ 0, 800, true }, 17);
    fragment_give(10001, datagram, (struct piece){ 800, 100, false }, 17);
    expect_datagram(900);
}

/* RFC 792, RFC 1122 §3.2.2: the first fragment, all of it if there is room. */
TEST(expired_datagram_is_quoted)
{
    datagram_fill(900);
    fragment_give(7, datagram, (struct piece){ 0, 16, true }, 17);
    fragment_give(7, datagram, (struct piece){ 24, 100, false }, 17);
    time_pass(31 * S);
    arp_give(2, NEIGHBOUR, ADDRESS, their_mac); /* now the report can leave */
    size_t bytes = frame_take();
    while (bytes == 14 + sizeof(struct arp_wire))
        bytes = frame_take();
    assert_int_equal(bytes, 14 + 20 + 8 + 20 + 16);
    assert_int_equal(sent[34], ICMP_TIME_EXCEEDED);
    assert_memory_equal(sent + 34 + 8 + 20, datagram, 16);
}

static void begin_over_a_narrow_device(void)
{
    begin_mtu_bytes = 101;
    begin_at(ADDRESS, MASK, GATEWAY);
    begin_mtu_bytes = 0;
}

/* virtio 1.2 §5.1.4.2: no frame is larger than the device's MTU. */
TEST_AFTER(begin_over_a_narrow_device, error_fits_a_narrow_device)
{
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    drain();
    datagram_fill(80);
    fragment_give(1, datagram, (struct piece){ 0, 80, false }, 99); /* the protocol is unknown */
    assert_int_equal(frame_take(), 14 + 101);
    assert_int_equal(sent[34], ICMP_UNREACHABLE);
    assert_memory_equal(sent + 34 + 8 + 20, datagram, 101 - 20 - 8 - 20);
    assert_int_equal(checksum_finish(checksum_sum(0, sent + 34, 81)), 0);
}

/* RFC 1812 §4.3.2.3: as much of the datagram as fits 576 bytes, header included. */
TEST(error_quotes_528_bytes_after_the_header_at_most)
{
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    drain();
    for (uint32_t bytes = 527; bytes <= 529; bytes++) {
        fragment_give(1, datagram, (struct piece){ 0, bytes, false }, 99);
        assert_int_equal(frame_take(), 14 + 20 + 8 + 20 + min_u32(bytes, 528));
    }
}

/* ---- Echoes ---- */

/* Makes an echo request of `bytes` bytes in `datagram`. */
static void echo_fill(uint32_t bytes, uint16_t sequence)
{
    datagram_fill(0);
    memset(datagram, 0, 8);
    datagram[0] = ICMP_ECHO;
    store_be16(datagram + 4, 77);
    store_be16(datagram + 6, sequence);
    store_be16(datagram + 2, checksum_finish(checksum_sum(0, datagram, bytes)));
}

/* Fills the MTU by a reply whose length is no multiple of a fragment's unit, and sends one byte more. */
TEST_AFTER(begin_over_a_narrow_device, echo_of_exactly_the_mtu_leaves_in_one_piece)
{
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    drain();
    for (uint32_t bytes = 81; bytes <= 82; bytes++) {
        echo_fill(bytes, 0);
        fragment_give(1, datagram, (struct piece){ 0, bytes, false }, 1);
        assert_int_equal(frame_take(), bytes == 81 ? 14 + 101 : 14 + 100);
        assert_int_equal(frame_take(), bytes == 81 ? 0 : 14 + 20 + 2);
    }
}

TEST(echo_of_any_size_comes_back_whole)
{
    static const uint32_t sizes[] = { 8, 9, 64, 1480, 1481, 2960, 3000, 65515 };
    static uint8_t whole[65536];
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    drain();
    for (uint16_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        echo_fill(sizes[i], i);
        for (uint32_t at = 0; at < sizes[i]; at += 1480)
            fragment_give(i, datagram, (struct piece){ at, min_u32(1480, sizes[i] - at), at + 1480 < sizes[i] }, 1);
        uint32_t got = 0, end_bytes = 0, frames = 0;
        for (; frame_take() != 0; frames++) {
            const struct ipv4_wire *ip = (const struct ipv4_wire *)(sent + 14);
            uint32_t offset = (load_be16(&ip->flags_offset) & IPV4_OFFSET_MASK) * 8u;
            uint32_t bytes = load_be16(&ip->total_bytes) - 20u;
            assert_memory_equal(sent, their_mac, 6);
            assert_int_equal(load_be32(&ip->destination), NEIGHBOUR);
            memcpy(whole + offset, sent + 34, bytes);
            got += bytes;
            if ((load_be16(&ip->flags_offset) & IPV4_MORE_FRAGMENTS) == 0)
                end_bytes = offset + bytes;
        }
        assert_int_equal(got, sizes[i]);
        assert_int_equal(frames, (sizes[i] + 1479) / 1480);
        assert_int_equal(end_bytes, sizes[i]);
        assert_int_equal(whole[0], ICMP_ECHO_REPLY);
        assert_int_equal(checksum_finish(checksum_sum(0, whole, sizes[i])), 0);
        assert_memory_equal(whole + 4, datagram + 4, sizes[i] - 4);
    }
}

/* RFC 1349 §5.1. */
TEST(echo_keeps_its_type_of_service)
{
    uint8_t packet[28], request[8] = { ICMP_ECHO };
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    drain();
    packet_around(packet, IPV4_PROTOCOL_ICMP, NEIGHBOUR, ADDRESS, request, sizeof request);
    packet[1] = 0x14;
    packet_sum(packet, sizeof packet);
    frame_give(their_mac, our_mac, ETHERNET_TYPE_IPV4, packet, sizeof packet);
    assert_int_not_equal(frame_take(), 0);
    assert_int_equal(((const struct ipv4_wire *)(sent + 14))->tos, 0x14);
}

/* ---- Routes ---- */

TEST(longest_prefix_wins)
{
    uint32_t hop;
    ipv4_route_add(&stack->ip, 0xc6336400, 0xffffff00, 0x0a000009); /* 198.51.100.0/24 */
    ipv4_route_add(&stack->ip, 0xc6336401, 0xffffffff, 0);          /* one of them on the link */
    static const struct {
        uint32_t destination, hop;
    } table[] = {
        { NEIGHBOUR, NEIGHBOUR },
        { 0x08080808, GATEWAY },
        { 0xc6336402, 0x0a000009 },
        { 0xc6336401, 0xc6336401 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        assert_true(ipv4_next_hop(&stack->ip, table[i].destination, &hop));
        assert_int_equal(hop, table[i].hop);
    }
}

TEST(address_without_neighbours_uses_its_gateway)
{
    uint32_t hop;
    free(stack);
    begin_at(ADDRESS, 0xffffffff, GATEWAY);
    assert_true(ipv4_next_hop(&stack->ip, NEIGHBOUR, &hop));
    assert_int_equal(hop, GATEWAY);
    assert_false(ipv4_is_broadcast(&stack->ip, ADDRESS));
    free(stack);
    begin_at(ADDRESS, 0xffffff00, 0);
    assert_false(ipv4_next_hop(&stack->ip, FAR, &hop) || udp_send(&stack->ip, 1, FAR, 2, "x", 1, now_ns));
    assert_int_equal(stack->ip.counters.ipv4_tx_drop_no_route, 1);
}

/* ---- ARP ---- */

TEST(gateway_is_asked_for_before_it_is_needed)
{
    expect_request(everyone, ADDRESS); /* the announcement */
    expect_request(everyone, GATEWAY);
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    assert_memory_equal(arp_lookup(&stack->ip, GATEWAY, true, now_ns), their_mac, 6);
}

TEST(packets_wait_for_the_answer)
{
    drain();
    for (int i = 0; i < 20; i++)
        udp_send(&stack->ip, 1, NEIGHBOUR, 2, "x", 1, now_ns);
    assert_int_equal(stack->ip.arp.held_count, ARP_HELD_STRANGERS_MAX);
    assert_int_equal(stack->ip.counters.arp_tx_drop_held_full, 20 - ARP_HELD_STRANGERS_MAX);
    for (int i = 0; i < 8; i++) /* connection requests have the other places */
        assert_true(tcp_connect(stack, NEIGHBOUR, 80, 0, NULL, now_ns) >= 0);
    assert_int_equal(stack->ip.arp.held_count, ARP_HELD_COUNT_MAX);
    assert_non_null(arp_taken());
    assert_null(arp_taken()); /* one request, not sixteen */
    arp_give(2, NEIGHBOUR, ADDRESS, their_mac);
    for (int i = 0; i < ARP_HELD_COUNT_MAX; i++) {
        uint32_t bytes = frame_take();
        assert_true(i < ARP_HELD_STRANGERS_MAX ? bytes == 14 + 20 + 8 + 1 : bytes > 14 + 40);
        assert_memory_equal(sent, their_mac, 6);
    }
    assert_int_equal(stack->ip.arp.held_count, 0);
}

TEST(neighbour_is_asked_three_times_and_given_up)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    drain();
    udp_send(&stack->ip, 1, NEIGHBOUR, 2, "x", 1, now_ns);
    for (int i = 0; i < 3; i++) {
        expect_request(everyone, NEIGHBOUR);
        assert_null(arp_taken());
        time_pass(S);
    }
    assert_int_equal(stack->ip.arp.held_count, 0);
    assert_int_equal(stack->ip.counters.arp_tx_drop_unanswered, 1);
    assert_null(arp_taken());
    for (int i = 0; i < 1000; i++, now_ns += S / 2000) { /* at most one request a second */
        udp_send(&stack->ip, 1, NEIGHBOUR, 2, "x", 1, now_ns);
        turn();
    }
    assert_null(arp_taken());
    assert_int_equal(stack->ip.arp.held_count, ARP_HELD_STRANGERS_MAX); /* the rest waits for the next request */
    time_pass(S / 2);
    assert_non_null(arp_taken());
    assert_null(arp_taken());
}

/* RFC 1122 §2.3.2.1: Sends a unicast request to a neighbour in use. The entry stays in use until the reply comes. */
TEST(gateway_is_kept_fresh)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    drain();
    for (int i = 0; i < 5; i++) {
        time_pass(ARP_FRESH_NS);
        expect_request(their_mac, GATEWAY);
        assert_non_null(arp_lookup(&stack->ip, GATEWAY, true, now_ns));
        arp_give(2, GATEWAY, ADDRESS, their_mac);
    }
    now_ns += ARP_FRESH_NS;
    for (int i = 0; i < 10; i++) { /* the gateway does not answer any more, but may still forward */
        turn();
        now_ns += S;
        assert_non_null(arp_lookup(&stack->ip, GATEWAY, true, now_ns));
    }
}

static const uint8_t new_mac[6] = { 2, 0, 0, 0, 0, 0x77 };

TEST(new_mac_of_an_unused_neighbour_is_taken_at_once)
{
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    now_ns += ARP_FRESH_NS;
    arp_give(1, NEIGHBOUR, NEIGHBOUR, new_mac); /* an announcement by the neighbour itself */
    assert_memory_equal(arp_known(&stack->ip, NEIGHBOUR), new_mac, 6);
    assert_int_equal(stack->ip.counters.arp_address_changed, 1);
    arp_give(2, NEIGHBOUR + 1, ADDRESS, their_mac); /* nobody asked */
    assert_int_equal(stack->ip.counters.arp_rx_drop_unasked, 1);
    assert_int_equal(stack->ip.counters.arp_rx_replies, 1);
    assert_null(arp_known(&stack->ip, NEIGHBOUR + 1));
}

/* Sends one forged packet, or many; the neighbour still answers at its old address. */
static void gateway_is_claimed(void)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    int id = tcp_connect(stack, FAR, 80, 0, NULL, now_ns);
    for (int i = 0; i < 5; i++) {
        now_ns += 2 * S;
        drain();
        for (int k = 0; k < 100; k++)
            arp_give(1 + k % 2, GATEWAY, ADDRESS, new_mac);
        const struct arp_wire *arp;
        unsigned requests = 0;
        while ((arp = arp_taken()) != NULL) {
            if (load_be16(&arp->operation) != ARP_OPERATION_REQUEST)
                continue;
            assert_memory_equal(sent, their_mac, 6);
            assert_int_equal(load_be32(&arp->target_address), GATEWAY);
            requests++;
        }
        assert_int_equal(requests, 1);
        assert_memory_equal(arp_known(&stack->ip, GATEWAY), their_mac, 6);
        arp_give(2, GATEWAY, ADDRESS, their_mac); /* the gateway answers */
    }
    assert_int_equal(stack->ip.counters.arp_address_changed, 0);
    assert_int_equal(stack->ip.counters.arp_address_doubted, 5 * 100);
    tcp_abort(stack, id, now_ns);
}

TEST(neighbour_in_use_that_seems_to_move_is_asked_at_its_old_mac) { gateway_is_claimed(); }

static void begin_with_gateway_mac(const uint8_t mac[6])
{
    begin_gateway_mac = mac;
    begin_at(ADDRESS, MASK, GATEWAY);
    begin_gateway_mac = NULL;
}
static void begin_with_their_mac(void) { begin_with_gateway_mac(their_mac); }
static void begin_with_new_mac(void) { begin_with_gateway_mac(new_mac); }

TEST_AFTER(begin_with_their_mac, gateway_mac_that_is_claimed_is_asked_at_its_old_mac) { gateway_is_claimed(); }

TEST(neighbour_that_has_moved_is_found_in_a_second)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    now_ns += 2 * S;
    drain();
    arp_give(1, GATEWAY, GATEWAY, new_mac); /* the gateway's announcement */
    expect_request(their_mac, GATEWAY);     /* asked there, and silent */
    time_pass(S);
    expect_request(everyone, GATEWAY);
    arp_give(2, GATEWAY, ADDRESS, new_mac);
    assert_memory_equal(arp_known(&stack->ip, GATEWAY), new_mac, 6);
    assert_int_equal(stack->ip.counters.arp_address_changed, 1);
}

/* Sets a wrong gwmac=. The stack uses that MAC, asks there at once, then broadcasts, and uses the reply. */
TEST_AFTER(begin_with_new_mac, wrong_gateway_mac_is_replaced)
{
    assert_memory_equal(arp_known(&stack->ip, GATEWAY), new_mac, 6);
    turn();
    expect_request(everyone, ADDRESS); /* our announcement */
    expect_request(new_mac, GATEWAY);
    for (int i = 0; i < 100; i++)
        arp_give(2, GATEWAY, ADDRESS, their_mac); /* the old address has a second to answer */
    assert_memory_equal(arp_known(&stack->ip, GATEWAY), new_mac, 6);
    assert_null(arp_taken());
    time_pass(S);
    expect_request(everyone, GATEWAY);
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    assert_memory_equal(arp_known(&stack->ip, GATEWAY), their_mac, 6);
}

/* Lets a gateway whose MAC was handed over answer for a minute, then moves it. The move is announced, or a datagram
 * comes from the new MAC, or neither. No connection is open. A new link afterwards keeps the new MAC. */
TEST_AFTER(begin_with_new_mac, gateway_that_fails_over_is_found)
{
    enum { ANNOUNCED, DATAGRAM, NEITHER };
    static const unsigned seconds_max[] = { 2, 2, ARP_FRESH_NS / S + 2 };
    const uint8_t *macs[] = { new_mac, their_mac };
    udp_bind(&stack->ip, 4000);
    for (unsigned how = ANNOUNCED; how <= NEITHER; how++) {
        const uint8_t *old = macs[how % 2], *new = macs[(how + 1) % 2];
        unsigned seconds = 0;
        for (int i = 0; i < 60; i++) {
            time_pass(S);
            const struct arp_wire *arp = arp_taken();
            if (arp != NULL && memcmp(sent, old, 6) == 0)
                arp_give(2, GATEWAY, ADDRESS, old);
        }
        drain();
        assert_memory_equal(arp_known(&stack->ip, GATEWAY), old, 6);
        if (how == ANNOUNCED)
            arp_give(1, GATEWAY, GATEWAY, new);
        for (; memcmp(arp_known(&stack->ip, GATEWAY), new, 6) != 0; seconds++) {
            assert_true(seconds < seconds_max[how]);
            if (how == DATAGRAM) {
                datagram_give(FAR, new);
                datagram_send(FAR);
            }
            time_pass(S);
            for (const struct arp_wire *arp; (arp = arp_taken()) != NULL;)
                if (memcmp(sent, everyone, 6) == 0 && load_be32(&arp->target_address) == GATEWAY)
                    arp_give(2, GATEWAY, ADDRESS, new);
        }
        device.device.link_up = false;
        turn();
        device.device.link_up = true;
        turn();
        assert_memory_equal(arp_known(&stack->ip, GATEWAY), new, 6);
        arp_give(2, GATEWAY, ADDRESS, new);
    }
    assert_int_equal(stack->ip.counters.arp_address_changed, 3);
}

/* Keeps the MAC of a gateway that forwards but answers no request, and of one that answers. */
TEST_AFTER(begin_with_new_mac, right_gateway_mac_stays)
{
    for (int answers = 0; answers < 2; answers++) {
        drain();
        int id = tcp_connect(stack, FAR, 80, 0, NULL, now_ns);
        for (int i = 0; i < 20; i++) {
            time_pass(S / 2);
            if (answers && arp_taken() != NULL)
                arp_give(2, GATEWAY, ADDRESS, new_mac);
            assert_memory_equal(arp_known(&stack->ip, GATEWAY), new_mac, 6);
        }
        tcp_abort(stack, id, now_ns);
    }
}

static void tcp_give(uint32_t source, uint8_t flags, uint16_t port, const uint8_t mac[6])
{
    segment_give(mac, source, 1000, port, flags, 0, 0);
}

/* Exchanges the network card of a neighbour with a connection while the link is down. */
TEST(neighbour_that_moves_without_a_link_is_found)
{
    const struct arp_wire *arp;
    int listener = tcp_listen(stack, 80, 1, NULL);
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    tcp_give(NEIGHBOUR, TCP_SYN, 80, their_mac);
    segment_give(their_mac, NEIGHBOUR, 1000, 80, TCP_ACK, 1, stack->tcp.half_open[0].iss + 1);
    int id = tcp_accept(stack, listener);
    assert_true(id >= 0);
    device.device.link_up = false;
    turn();
    now_ns += 60 * S;
    device.device.link_up = true;
    drain();
    turn();
    while ((arp = arp_taken()) != NULL && load_be32(&arp->target_address) != NEIGHBOUR) {
    }
    assert_non_null(arp);
    assert_memory_equal(sent, everyone, 6);
    arp_give(2, NEIGHBOUR, ADDRESS, new_mac);
    drain();
    assert_int_equal(tcp_write(stack, id, "x", 1, now_ns), 1);
    expect_packet(new_mac);
    tcp_abort(stack, id, now_ns);
    tcp_unlisten(stack, listener, now_ns);
}

/* Lets a link come back on which no neighbour answers ARP. The known addresses stay in use. */
TEST(neighbour_that_answers_no_arp_on_a_new_link_is_used_on)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    int id = tcp_connect(stack, FAR, 80, 0, NULL, now_ns);
    device.device.link_up = false;
    turn();
    device.device.link_up = true;
    for (int i = 0; i < 10; i++) {
        turn();
        now_ns += S;
    }
    assert_non_null(arp_known(&stack->ip, GATEWAY));
    assert_memory_equal(arp_known(&stack->ip, GATEWAY), their_mac, 6);
    tcp_abort(stack, id, now_ns);
}

TEST(requests_are_answered)
{
    drain();
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    const struct arp_wire *arp = arp_taken();
    assert_int_equal(load_be16(&arp->operation), ARP_OPERATION_REPLY);
    assert_memory_equal(sent, their_mac, 6);
    assert_memory_equal(arp->sender_mac, our_mac, 6);
    assert_int_equal(load_be32(&arp->sender_address), ADDRESS);
    arp_give(1, NEIGHBOUR, NEIGHBOUR + 1, their_mac);
    assert_null(arp_taken());
    arp_give(1, 0, ADDRESS, their_mac); /* RFC 5227 probe: answered, not stored */
    assert_non_null(arp_taken());
    assert_int_equal(stack->ip.counters.arp_rx_requests, 3);
}

TEST(strangers_do_not_evict_the_gateway)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    int id = tcp_connect(stack, FAR, 80, 0, NULL, now_ns);
    for (uint32_t i = 0; i < 10000; i++) {
        now_ns += 1000000;
        arp_give(1, 0x0a000002 + i % 200, ADDRESS, their_mac);
        drain();
    }
    assert_non_null(arp_lookup(&stack->ip, GATEWAY, true, now_ns));
    tcp_abort(stack, id, now_ns);
}

/* Answers a stranger whose hardware address is not known. */
static void answer_send(uint32_t address)
{
    const struct ipv4_output output = { .source = ADDRESS, .destination = address, .protocol = IPV4_PROTOCOL_UDP };
    ipv4_output_copy(&stack->ip, &output, (const uint8_t *)"answer", 6, now_ns);
}

/* Sends packets for many missing neighbours. The gateway's entry stays, and a live neighbour still gets an entry. */
TEST(requests_do_not_evict_the_gateway)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    for (uint32_t i = 0; i < 100; i++) {
        now_ns += 1000000;
        answer_send(0x0a000064 + i);
        drain();
    }
    assert_non_null(arp_known(&stack->ip, GATEWAY));
    assert_null(arp_lookup(&stack->ip, NEIGHBOUR + 1, false, now_ns));
    assert_int_equal(stack->ip.counters.arp_table_full, 100 - (stack->ip.arp.entry_count - 1) + 1);
    arp_give(1, NEIGHBOUR, ADDRESS, their_mac);
    assert_non_null(arp_known(&stack->ip, NEIGHBOUR));
    for (int i = 0; i < 4; i++) {
        time_pass(S);
        drain();
    }
    assert_int_equal(stack->ip.arp.held_count, 0);
}

/* Answers a stranger on the link at the MAC address that the packet came from. */
TEST(strangers_are_answered_without_arp)
{
    uint8_t mac[6] = { 2, 0, 0, 0, 1, 0 };
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    drain();
    assert_true(tcp_listen(stack, 80, 4, NULL) >= 0);
    for (uint32_t i = 0; i < 100; i++) {
        now_ns += 10000000;
        mac[5] = (uint8_t)i;
        tcp_give(0x0a000064 + i, TCP_SYN, i % 2 == 0 ? 80 : 81, mac); /* SYN,ACK and RST */
        assert_int_equal(frame_take() >= 54, true);
        assert_memory_equal(sent, mac, 6);
        assert_int_equal(sent[47], i % 2 == 0 ? TCP_SYN | TCP_ACK : TCP_RST | TCP_ACK);
        assert_int_equal(frame_take(), 0);
        assert_null(arp_known(&stack->ip, 0x0a000064 + i));
        assert_false(arp_has_failed(&stack->ip, 0x0a000064 + i));
    }
    assert_int_equal(stack->ip.counters.arp_table_full, 0);
    mac[0] |= 1; /* no answer to a group */
    tcp_give(NEIGHBOUR, TCP_SYN, 81, mac);
    while (frame_take() != 0)
        assert_memory_not_equal(sent, mac, 6);
}

/* Answers a datagram without ARP. Later the sender may have moved, so that ARP is asked. */
TEST(datagram_is_answered_without_arp_while_it_is_fresh)
{
    udp_bind(&stack->ip, 4000);
    datagram_give(NEIGHBOUR, their_mac);
    drain();
    now_ns += ARP_FRESH_NS - 1;
    datagram_send(NEIGHBOUR);
    expect_packet(their_mac);
    now_ns++;
    datagram_send(NEIGHBOUR);
    assert_non_null(arp_taken());
    arp_give(2, NEIGHBOUR, ADDRESS, new_mac);
    expect_packet(new_mac);
}

/* Sends to a server on the link, as syslog does. A neighbour tries to get the requests without an ARP packet about the
 * server. Strangers' ARP requests take the other entries. Datagrams in the server's name come from his own
 * address. With `first` the first datagram comes before our first request. */
static void server_is_impersonated(bool first)
{
    udp_bind(&stack->ip, 4000);
    if (first)
        datagram_give(NEIGHBOUR, new_mac);
    stack->ip.udp.latest_source = 0;
    drain();
    datagram_send(NEIGHBOUR);
    datagram_give(NEIGHBOUR, new_mac);
    datagram_send(NEIGHBOUR); /* taken for an answer, and waits too */
    expect_request(everyone, NEIGHBOUR);
    assert_int_equal(frame_take(), 0);
    arp_give(2, NEIGHBOUR, ADDRESS, their_mac);
    drain();
    for (int round = 0; round < 30; round++) { /* 12 minutes of forged datagrams: longer than an entry is kept */
        now_ns += 25 * S;
        for (uint32_t i = 0; i < 1000; i++)
            arp_give(1, 0x0a000001 + i % 250, ADDRESS, new_mac);
        datagram_give(NEIGHBOUR, new_mac);
        drain();
        datagram_send(NEIGHBOUR);
        while (frame_take() != 0)
            if (load_be16(sent + 12) == ETHERNET_TYPE_IPV4)
                assert_memory_equal(sent, their_mac, 6);
        arp_give(2, NEIGHBOUR, ADDRESS, their_mac); /* the server answers ARP */
    }
}

TEST(server_that_we_ask_is_not_impersonated_by_datagrams) { server_is_impersonated(false); }
TEST(server_that_we_ask_is_not_impersonated_before_the_first_request) { server_is_impersonated(true); }

/* Only the way back is an answer. Another port at either end makes the datagram a request of ours, and so does an event
 * that is over. */
TEST(datagram_that_goes_another_way_than_back_is_a_request)
{
    static const struct {
        uint16_t from_port, to_port;
        bool later, request;
    } rows[] = {
        { 4000, 5000, false, false }, { 4000, 514, false, true }, { 514, 5000, false, true }, { 4000, 5000, true, true }
    };
    udp_bind(&stack->ip, 4000);
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        datagram_give(NEIGHBOUR + i, their_mac);
        if (rows[i].later)
            stack->ip.udp.latest_source = 0;
        assert_true(udp_send(&stack->ip, rows[i].from_port, NEIGHBOUR + i, rows[i].to_port, "x", 1, now_ns));
        assert_int_equal(arp_is_chosen(&stack->ip, NEIGHBOUR + i, now_ns), rows[i].request);
    }
}

/* Takes a datagram in fragments after one of another sender. Its answer goes where its last fragment came from. */
TEST(reassembled_datagram_is_answered_where_it_came_from)
{
    static const struct piece pieces[2] = { { 0, 16, true }, { 16, 8, false } };
    udp_bind(&stack->ip, 4000);
    datagram_give(NEIGHBOUR + 1, new_mac);
    datagram_fill(24);
    fragment_give(9, datagram, pieces[0], IPV4_PROTOCOL_UDP);
    fragment_give(9, datagram, pieces[1], IPV4_PROTOCOL_UDP);
    drain();
    datagram_send(NEIGHBOUR);
    expect_packet(their_mac);
    assert_false(arp_is_chosen(&stack->ip, NEIGHBOUR, now_ns));
}

/* Sends the longest datagram that fits the MTU, and one byte more. */
TEST(datagram_of_exactly_the_mtu_leaves)
{
    static const uint8_t data[1473];
    datagram_give(NEIGHBOUR, their_mac);
    udp_bind(&stack->ip, 4000);
    datagram_give(NEIGHBOUR, their_mac);
    drain();
    assert_true(udp_send(&stack->ip, 4000, NEIGHBOUR, 5000, data, 1472, now_ns));
    assert_int_equal(frame_take(), 1514);
    assert_int_equal(load_be32(sent + 34), 4000 << 16 | 5000);
    assert_false(udp_send(&stack->ip, 4000, NEIGHBOUR, 5000, data, 1473, now_ns));
    assert_true(stack->ip.counters.udp_tx_drop == 1 && stack->ip.counters.udp_tx_datagrams == 1);
}

/* RFC 768: Chooses data so that the sum is 0. 0 in the field would say that there is no checksum. */
TEST(checksum_of_zero_is_written_as_ones)
{
    uint8_t data[2] = { 0 };
    udp_bind(&stack->ip, 4000);
    for (int round = 0; round < 2; round++) {
        datagram_give(NEIGHBOUR, their_mac);
        drain();
        assert_true(udp_send(&stack->ip, 4000, NEIGHBOUR, 5000, data, sizeof data, now_ns));
        assert_int_equal(frame_take(), 14 + 20 + 8 + 2);
        memcpy(data, sent + 40, 2); /* the sum without the data: with them it is 0 */
    }
    assert_int_equal(load_be16(sent + 40), 0xffff);
}

static void begin_with_dhcp(void) { begin_at(0, 0, 0); }

/* Gets a datagram for no port while there is no address: DHCP may be on its way, and nobody may be answered. */
TEST_AFTER(begin_with_dhcp, datagram_before_there_is_an_address_gets_no_error)
{
    turn(); /* the DISCOVER */
    uint64_t before = stack->ip.counters.ipv4_tx_datagrams;
    datagram_give(NEIGHBOUR, their_mac);
    assert_int_equal(stack->ip.counters.udp_rx_drop_no_port, 1);
    assert_int_equal(stack->ip.counters.ipv4_tx_datagrams, before); /* none without a route either */
}

/* Opens a connection to the server again after packets of strangers. The server's MAC is still known. */
TEST(strangers_do_not_evict_a_server)
{
    const uint32_t server = NEIGHBOUR;
    tcp_connect(stack, server, 80, 0, NULL, now_ns);
    arp_give(2, server, ADDRESS, their_mac);
    tcp_give(server, TCP_RST | TCP_ACK, 0, their_mac);
    tcp_abort(stack, 0, now_ns);
    for (uint32_t i = 0; i < 2000; i++) {
        now_ns += 1000000;
        arp_give(1, 0x0a000064 + i % 100, ADDRESS, new_mac);
        answer_send(0x0a000032 + i % 50);
        drain();
    }
    assert_memory_equal(arp_known(&stack->ip, server), their_mac, 6);
}

/* Connects to an unknown neighbour, and asks another one by DHCP. Each entry replaces a stranger's, even one with a
 * pending request. */
TEST(server_gets_an_entry_in_a_table_full_of_strangers)
{
    for (uint32_t i = 0; i < 200; i++)
        answer_send(0x0a000020 + i);
    drain();
    udp_send(&stack->ip, DHCP_CLIENT_PORT, NEIGHBOUR + 1, DHCP_SERVER_PORT, "x", 1, now_ns);
    expect_request(everyone, NEIGHBOUR + 1);
    assert_true(arp_is_chosen(&stack->ip, NEIGHBOUR + 1, now_ns + ARP_KEPT_NS - 1));
    assert_false(arp_is_chosen(&stack->ip, NEIGHBOUR + 1, now_ns + ARP_KEPT_NS));
    assert_true(tcp_connect(stack, NEIGHBOUR, 80, 0, NULL, now_ns) >= 0);
    expect_request(everyone, NEIGHBOUR);
    arp_give(2, NEIGHBOUR, ADDRESS, their_mac);
    assert_true(frame_take() > 54); /* the SYN */
    assert_memory_equal(sent, their_mac, 6);
}

/* Holds a SYN until ARP answers. The SYN is made once, not once a turn. */
TEST(waiting_for_arp_makes_no_segments)
{
    assert_true(tcp_connect(stack, NEIGHBOUR, 80, 0, NULL, now_ns) >= 0);
    uint64_t segments = stack->ip.counters.tcp_tx_segments;
    for (int i = 0; i < 900; i++)
        time_pass(S / 1000);
    assert_int_equal(stack->ip.counters.tcp_tx_segments, segments);
}

TEST(address_is_announced_if_the_device_asks_and_it_is_in_use)
{
    turn();
    drain();
    device.device.announce = true;
    turn();
    assert_false(device.device.announce);
    expect_request(everyone, ADDRESS);
    turn();
    assert_null(arp_taken());

    stack->ip.interface.up = false; /* as before a lease */
    device.device.announce = true;
    turn();
    assert_false(device.device.announce);
    assert_null(arp_taken());
    stack->ip.interface.up = true;
}

/* RFC 5227 §2.4: the stack announces its address, at most once in ten seconds. */
TEST(claimed_address_is_defended)
{
    arp_give(2, GATEWAY, ADDRESS, their_mac);
    drain();
    for (int i = 0; i < 3; i++)
        arp_give(1 + i % 2, ADDRESS, ADDRESS, their_mac);
    expect_request(everyone, ADDRESS);
    assert_null(arp_taken());
    now_ns += 10 * S;
    drain();
    arp_give(1, ADDRESS, ADDRESS, our_mac); /* the stack's own announcement, reflected */
    assert_null(arp_taken());
    arp_give(1, ADDRESS, GATEWAY, their_mac);
    assert_non_null(arp_taken());
}

/* ---- VLAN tags ---- */

/* Plays ARP, a ping, a datagram and one in pieces. Returns the count of those that were answered or handed on. */
static uint32_t protocols_play(void)
{
    uint8_t echo[28 + 8], request[16] = { ICMP_ECHO };
    uint32_t count = 0;
    drain();
    arp_give(ARP_OPERATION_REQUEST, NEIGHBOUR, ADDRESS, their_mac);
    count += arp_taken() != NULL;

    packet_around(echo, IPV4_PROTOCOL_ICMP, NEIGHBOUR, ADDRESS, request, sizeof request);
    uint64_t pings = stack->ip.counters.icmp_tx_echo_replies;
    frame_give(their_mac, our_mac, ETHERNET_TYPE_IPV4, echo, sizeof echo);
    count += (uint32_t)(stack->ip.counters.icmp_tx_echo_replies - pings);

    udp_bind(&stack->ip, 4000);
    datagram_fill(1480);
    fragment_give(1, datagram, (struct piece){ 0, 1480, false }, 17); /* a full frame */
    count += stack->datagram_ready;
    if (stack->datagram_ready)
        expect_datagram(1480);
    datagram_fill(2509);
    fragment_give(2, datagram, (struct piece){ 0, 1480, true }, 17);
    fragment_give(2, datagram, (struct piece){ 1480, 1029, false }, 17);
    count += stack->datagram_ready;
    if (stack->datagram_ready)
        expect_datagram(2509);
    net_stack_check(stack);
    return count;
}

/* IEEE 802.1Q §9.6: VLAN 0 means that the frame has a priority and no VLAN. */
TEST(frames_with_a_priority_alone_are_taken_as_untagged)
{
    enum { PROTOCOLS = 4, FRAMES = 5 };
    static const struct {
        uint8_t tags[8];
        uint32_t bytes, taken;
    } cases[] = {
        { { 0x81, 0x00, 0x00, 0x00 }, 4, PROTOCOLS },
        { { 0x81, 0x00, 0xa0, 0x00 }, 4, PROTOCOLS },
        { { 0x81, 0x00, 0xf0, 0x00 }, 4, PROTOCOLS },
        { { 0x88, 0xa8, 0x00, 0x00 }, 4, PROTOCOLS },
        { { 0x88, 0xa8, 0xe0, 0x00, 0x81, 0x00, 0x60, 0x00 }, 8, PROTOCOLS },
        { { 0x81, 0x00, 0x00, 0x00, 0x81, 0x00, 0x00, 0x00 }, 8, PROTOCOLS },
        { { 0x81, 0x00, 0x00, 0x01 }, 4, 0 },
        { { 0x81, 0x00, 0x0f, 0xff }, 4, 0 },
        { { 0x88, 0xa8, 0x00, 0x64 }, 4, 0 },
        { { 0x81, 0x00, 0x00, 0x00, 0x81, 0x00, 0x00, 0x07 }, 8, 0 },
    };
    const struct net_counters *counters = &stack->ip.counters;
    assert_int_equal(protocols_play(), PROTOCOLS);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        uint64_t frames = counters->ethernet_rx_frames, dropped = counters->ethernet_rx_drop_vlan;
        tags = cases[i].tags;
        tags_bytes = cases[i].bytes;
        assert_int_equal(protocols_play(), cases[i].taken);
        assert_int_equal(counters->ethernet_rx_frames - frames, FRAMES);
        assert_int_equal(counters->ethernet_rx_drop_vlan - dropped, cases[i].taken != 0 ? 0 : FRAMES);
    }
    assert_int_equal(counters->ethernet_rx_drop_type, 0);
}

/* Cuts a tagged frame at each length, and sends one tag more than are taken off. */
TEST(frames_with_half_a_tag_or_too_many_are_dropped)
{
    static const uint8_t three[12] = { 0x81, 0, 0, 0, 0x81, 0, 0, 0, 0x81 };
    uint8_t frame[64] = { 0 };
    memcpy(frame, our_mac, 6);
    memcpy(frame + 6, their_mac, 6);
    memcpy(frame + 12, three, 4);
    for (uint32_t bytes = 14; bytes < 18; bytes++)
        netdev_memory_feed(&device, frame, bytes, false);
    turn();
    assert_int_equal(stack->ip.counters.ethernet_rx_drop_type, 4);
    tags = three;
    tags_bytes = sizeof three;
    frame_give(their_mac, our_mac, ETHERNET_TYPE_IPV4, frame, 50);
    assert_int_equal(stack->ip.counters.ethernet_rx_drop_type, 5);
}

/* Changes one number of a configuration, in exactly the memory that it needs unchanged. */
TEST(configuration_that_cannot_work_is_refused_by_its_reason)
{
#define AT(member) offsetof(struct net_config, member)
    static const struct {
        size_t at;
        const char *why;
        uint32_t bad[2], large; /* `large` is one for which the memory is too small */
    } rows[] = {
        { AT(capacity.connection_count), "is 0", { 0, 1025 }, 1024 },
        { AT(capacity.listener_count), "is 0", { 0, 65 }, 64 },
        { AT(capacity.half_open_count), "is 0", { 0 }, 9 },
        { AT(capacity.time_wait_count), "is 0", { 0 }, 9 },
        { AT(capacity.segment_count), "power", { 0, 96 }, 128 },
        { AT(capacity.receive_bytes), "power", { 96, 1u << 31 }, 1 << 30 },
        { AT(capacity.send_bytes), "power", { 96, 1u << 31 }, 1 << 30 },
        { AT(address), "address", { 0xe0000001, 0x7f000001 }, 0 },
        { AT(mask), "mask", { 0xffffff01, 0x00ffffff }, 0 },
        { AT(gateway), "gateway", { 0xe0000001, 0x7f000001 }, 0 },
    };
    const struct net_config good = stack_config(ADDRESS, MASK, GATEWAY);
    const size_t bytes = net_stack_bytes(&good.capacity);
    assert_int_not_equal(stack->ip.ipv4_id, 0); /* begins anywhere */
    assert_null(net_stack_init(stack, bytes - 1, &good, now_ns, NULL));
    for (size_t i = 0; i < 3 * ARRAY_COUNT(rows); i++) {
        struct net_config config = good;
        const bool large = i % 3 == 2 && rows[i / 3].large != 0;
        const char *why = "";
        memcpy((uint8_t *)&config + rows[i / 3].at, large ? &rows[i / 3].large : &rows[i / 3].bad[i % 2],
               sizeof(uint32_t));
        assert_null(net_stack_init(stack, bytes, &config, now_ns, &why));
        assert_non_null(strstr(why, large ? "memory" : rows[i / 3].why));
    }
}

static void begin_with_dhcp_and_a_narrow_device(void)
{
    begin_mtu_bytes = 100;
    begin_at(0, 0, 0);
    begin_mtu_bytes = 0;
}

/* Narrows the device's MTU below the 576 bytes of a DHCP message. The message leaves in fragments. */
TEST_AFTER(begin_with_dhcp_and_a_narrow_device, dhcp_asks_over_a_narrow_device)
{
    uint32_t payload_bytes = 0;
    time_pass(20 * S);
    for (uint32_t bytes; (bytes = frame_take()) != 0;) {
        const struct ipv4_wire *ipv4 = (const struct ipv4_wire *)(sent + 14);
        assert_true(bytes <= 14 + 100);
        assert_int_equal((load_be16(&ipv4->flags_offset) & IPV4_OFFSET_MASK) * 8, payload_bytes);
        payload_bytes += load_be16(&ipv4->total_bytes) - 20u;
        if ((load_be16(&ipv4->flags_offset) & IPV4_MORE_FRAGMENTS) == 0)
            break;
    }
    assert_int_equal(payload_bytes, 8 + DHCP_OUTPUT_BYTES_MIN);
}
