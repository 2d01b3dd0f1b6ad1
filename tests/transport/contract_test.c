/* The rules of net/transport.h that a TAP device cannot show: over a device in memory, in virtual time, with a peer of
 * single segments. Linked with each stack. */
#include "net/transport_path.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/packet.h"
#include "tests/lib/test.h"

enum { OURS = 0x0a090002, PEER = 0x0a090001, PORT = 9000 };
enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

static const uint8_t our_mac[6] = { 0x52, 0x54, 0, 0x12, 0x34, 0x56 }, peer_mac[6] = { 2, 0, 0, 0, 0, 1 };
static struct netdev_memory wire;
static uint64_t now_ns;

/* ---- The peer ---- */

struct segment {
    uint16_t source_port, port;
    uint32_t seq, ack, bytes;
    uint8_t flags;
    uint8_t data[1500];
};

struct peer {
    int connection;
    uint16_t port; /* the stack's */
    uint32_t seq, ack;
    bool open;
};

/* The connection of a test, and what the stack reported or sent last. */
static struct peer peer;
static struct transport_event event;
static struct segment segment;

static uint32_t vlan_tag; /* stands before the type of each frame; 0: none */

static void feed_frame(const uint8_t *packet, uint32_t bytes)
{
    uint8_t frame[1514 + 4];
    uint32_t tag_bytes = vlan_tag != 0 ? 4 : 0;
    assert_true(bytes <= 1500);
    packet_ethernet(frame, our_mac, peer_mac, 0);
    store_be32(frame + 12, vlan_tag);
    store_be16(frame + 12 + tag_bytes, ETHERNET_TYPE_IPV4);
    memcpy(frame + 14 + tag_bytes, packet, bytes);
    assert_true(netdev_memory_feed(&wire, frame, 14 + tag_bytes + bytes, false));
}

/* Feeds an IPv4 packet, in pieces if it is longer than a frame, or if `empty_end` puts a piece without payload at the
 * end. */
static void feed_packet(uint32_t source, uint8_t protocol, const uint8_t *payload, uint32_t bytes, bool empty_end)
{
    enum { PIECE_BYTES = 1480 };
    static uint16_t id;
    uint32_t piece_bytes;
    id++;
    for (uint32_t at = 0; at < bytes || (empty_end && at == bytes); at += piece_bytes == 0 ? 1 : piece_bytes) {
        uint8_t packet[20 + PIECE_BYTES];
        piece_bytes = (uint32_t)min_size(bytes - at, PIECE_BYTES);
        bool more = at + piece_bytes < bytes || (empty_end && piece_bytes != 0);
        packet_ipv4(packet, protocol, source, OURS, piece_bytes);
        store_be16(packet + 4, id);
        store_be16(packet + 6, (uint16_t)((more ? IPV4_MORE_FRAGMENTS : 0) | at / 8));
        packet_sum(packet, 20 + piece_bytes);
        memcpy(packet + 20, payload + at, piece_bytes);
        feed_frame(packet, 20 + piece_bytes);
    }
}

/* Feeds a segment, with an MSS option if `mss` is not 0. */
static void feed_with_mss(const struct peer *p, uint8_t flags, uint16_t window, uint32_t seq, uint16_t mss,
                          const void *data, uint32_t bytes)
{
    static uint8_t packet[20 + 24 + 20000];
    uint8_t option[4];
    store_be32(option, 0x02040000 | mss);
    uint32_t packet_bytes = packet_tcp(packet, &(struct packet_tcp){ .source = PEER,
                                                                     .destination = OURS,
                                                                     .source_port = PORT,
                                                                     .destination_port = p->port,
                                                                     .seq = seq,
                                                                     .ack = p->ack,
                                                                     .flags = flags,
                                                                     .window = window,
                                                                     .options = option,
                                                                     .option_bytes = mss != 0 ? sizeof option : 0,
                                                                     .payload = data,
                                                                     .bytes = bytes });
    feed_packet(PEER, 6, packet + 20, packet_bytes - 20, false);
}

static void feed(const struct peer *p, uint8_t flags, uint16_t window, uint32_t seq, const void *data, uint32_t bytes)
{
    feed_with_mss(p, flags, window, seq, flags & SYN ? 1460 : 0, data, bytes);
}

static void feed_data(struct peer *p, const void *data, uint32_t bytes)
{
    feed(p, PSH | ACK, 0xffff, p->seq, data, bytes);
    p->seq += bytes;
}

/* Takes the next TCP segment that the stack sent, and verifies its checksums. Returns false: there is none. */
static bool sent(void)
{
    uint8_t frame[1514];
    for (uint32_t bytes; (bytes = netdev_memory_take(&wire, frame)) != 0;) {
        const uint8_t *ip = frame + 14, *tcp = ip + 20;
        if (load_be16(frame + 12) != 0x0800 || ip[9] != 6)
            continue;
        uint32_t tcp_bytes = load_be16(ip + 2) - 20u, header_bytes = tcp[12] >> 4 << 2;
        assert_int_equal(checksum_finish(checksum_sum(0, ip, 20)), 0);
        uint32_t pseudo = checksum_pseudo_ipv4(OURS, PEER, 6, (uint16_t)tcp_bytes);
        assert_int_equal(checksum_finish(checksum_sum(pseudo, tcp, tcp_bytes)), 0);
        segment = (struct segment){
            .source_port = load_be16(tcp),
            .port = load_be16(tcp + 2),
            .seq = load_be32(tcp + 4),
            .ack = load_be32(tcp + 8),
            .flags = tcp[13],
            .bytes = tcp_bytes - header_bytes,
        };
        memcpy(segment.data, tcp + header_bytes, segment.bytes);
        return true;
    }
    return false;
}

static bool poll_event(void)
{
    bool came = transport_poll(now_ns, &event);
    if (came && event.kind == TRANSPORT_CLOSED && event.connection == peer.connection)
        peer.open = false;
    return came;
}

static void expect_event_of(enum transport_event_kind kind, int connection)
{
    assert_true(poll_event());
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.connection, connection);
}

static void expect_event(enum transport_event_kind kind) { expect_event_of(kind, peer.connection); }

/* Expects data of the connection: the next bytes of `data`. Returns how many. */
static uint32_t expect_data(const void *data)
{
    expect_event(TRANSPORT_DATA);
    assert_memory_equal(event.payload.data, data, event.payload.count);
    return (uint32_t)event.payload.count;
}

static void expect_closed(enum transport_reason reason)
{
    expect_event(TRANSPORT_CLOSED);
    assert_int_equal(event.reason, reason);
}

static void expect_nothing(void)
{
    assert_false(poll_event());
    assert_int_equal(event.kind, TRANSPORT_NONE);
}

/* Feeds an acknowledgement up to `ack`, with a window, and takes nothing but that the stack reports no event. */
static void acknowledge(struct peer *p, uint32_t ack, uint16_t window)
{
    p->ack = ack;
    feed(p, ACK, window, p->seq, NULL, 0);
    expect_nothing();
}

static void drain(void)
{
    transport_idle(now_ns);
    while (sent())
        ;
}

/* Passes time in ticks of 1 ms, so that a stack's timers run in order. */
static void pass_ms(unsigned ms)
{
    for (unsigned i = 0; i < ms; i++) {
        now_ns += 1000000;
        transport_idle(now_ns);
    }
}

static void answer_syn(struct peer *p)
{
    assert_true(sent());
    assert_int_equal(segment.flags, SYN);
    p->port = segment.source_port;
    p->ack = segment.seq + 1;
    p->seq = 5000;
    feed(p, SYN | ACK, 0xffff, p->seq++, NULL, 0);
}

/* Sends `bytes` times the letter on the connection. */
static void send_letters(const struct peer *p, char letter, uint32_t bytes)
{
    memset(transport_message(p->connection), letter, bytes);
    assert_true(transport_send(p->connection, 0, bytes, now_ns));
}

static struct peer connected(void)
{
    struct peer new = { .connection = transport_connect(PEER, PORT, now_ns), .open = true };
    assert_true(new.connection >= 0);
    answer_syn(&new);
    expect_event_of(TRANSPORT_CONNECTED, new.connection);
    drain();
    return new;
}

static void disconnect(const struct peer *p)
{
    transport_abort(p->connection, now_ns);
    do
        assert_true(poll_event());
    while (event.kind != TRANSPORT_CLOSED);
    assert_int_equal(event.reason, TRANSPORT_ABORTED);
    drain();
    expect_nothing();
    assert_int_equal(wire.pool.rx_out_count, 0);
}

/* Opens the connection with which a test begins, and which ends with the test at the latest. */
static void connect_peer(void) { peer = connected(); }
#define TEST_CONNECTED(name) TEST_AFTER(connect_peer, name)
BEFORE_EACH() { peer.open = false; }
AFTER_EACH()
{
    if (peer.open)
        disconnect(&peer);
}

static void fill(uint8_t *at, uint32_t bytes, uint8_t first)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(first + i * 7);
}

/* ---- Receiving ---- */

TEST_CONNECTED(data_is_borrowed_in_place_and_acknowledged_only_when_idle)
{
    feed_data(&peer, "12345", 5);
    feed_data(&peer, "6789", 4);
    assert_int_equal(expect_data("12345"), 5);
    const uint8_t *memory = (const uint8_t *)wire.pool.rx_memory;
    assert_true(event.payload.data >= memory && event.payload.data < memory + sizeof wire.pool.rx_memory);
    assert_false(sent());
    assert_int_equal(expect_data("6789"), 4); /* one segment a call */
    expect_nothing();
    assert_false(sent());
    assert_int_equal(wire.pool.rx_out_count, 0); /* given back with the next call */
    transport_idle(now_ns);
    assert_true(sent()); /* one ACK for both segments: RFC 9293 MUST-58 */
    assert_int_equal(segment.ack, peer.seq);
    assert_false(sent());
}

TEST_CONNECTED(answer_carries_the_acknowledgement)
{
    uint8_t *area = transport_message(peer.connection);
    memcpy(area, "POST", 4);
    feed_data(&peer, "digits", 6);
    expect_event(TRANSPORT_DATA);
    assert_true(transport_send(peer.connection, 0, 4, now_ns));
    assert_true(sent());
    assert_memory_equal(segment.data, "POST", 4);
    assert_int_equal(segment.ack, peer.seq);
    assert_true(segment.flags & PSH);
    expect_nothing();
    transport_idle(now_ns);
    assert_false(sent()); /* nothing is left to acknowledge */
}

TEST_CONNECTED(data_behind_a_filled_hole_is_reported_whole_and_in_order)
{
    uint8_t text[600];
    fill(text, sizeof text, 3);
    for (uint32_t i = 1; i < 6; i++)
        feed(&peer, ACK, 0xffff, peer.seq + 100 * i, text + 100 * i, 100);
    expect_nothing();
    feed(&peer, ACK, 0xffff, peer.seq, text, 100);
    uint32_t got = 0;
    while (got < sizeof text)
        got += expect_data(text + got);
    assert_int_equal(got, sizeof text);
    expect_nothing();
}

/* Aborts a connection whose data waits. The data may still be reported; the end is reported, and all frames go back. */
TEST_CONNECTED(abort_with_data_waiting_ends)
{
    uint8_t text[300] = { 0 };
    feed(&peer, ACK, 0xffff, peer.seq + 200, text, 100);
    feed(&peer, ACK, 0xffff, peer.seq + 100, text, 100);
    feed(&peer, ACK, 0xffff, peer.seq, text, 100);
    expect_event(TRANSPORT_DATA);
}

TEST_CONNECTED(data_and_end_in_one_segment_are_reported_in_order)
{
    feed(&peer, PSH | ACK | FIN, 0xffff, peer.seq, "bye", 3);
    peer.seq += 4;
    expect_event(TRANSPORT_DATA);
    expect_event(TRANSPORT_ENDED);
    transport_close(peer.connection, now_ns);
    do
        assert_true(sent());
    while (!(segment.flags & FIN));
    assert_int_equal(segment.ack, peer.seq);
    peer.ack = segment.seq + 1;
    feed(&peer, ACK, 0xffff, peer.seq, NULL, 0);
    expect_closed(TRANSPORT_DONE);
    expect_nothing();
}

/* Checks that a loop that sleeps until the next deadline does not sleep while an event waits. */
TEST_CONNECTED(event_that_waits_is_due_at_once)
{
    feed(&peer, PSH | ACK | FIN, 0xffff, peer.seq, "bye", 3);
    peer.seq += 4;
    expect_event(TRANSPORT_DATA);
    drain();
    assert_true(transport_next_deadline_ns() <= now_ns);
    expect_event(TRANSPORT_ENDED);
    expect_nothing();
    drain();
    assert_true(transport_next_deadline_ns() > now_ns);
    transport_abort(peer.connection, now_ns);
    drain();
    assert_true(transport_next_deadline_ns() <= now_ns);
    expect_event(TRANSPORT_CLOSED);
    expect_nothing();
}

/* Holds a connection while data of it are reported, and while more come with the end. All come when it is let go. */
TEST_CONNECTED(held_data_and_end_come_later_in_order)
{
    struct peer other = connected();
    uint8_t text[600];
    fill(text, sizeof text, 3);
    for (uint32_t i = 1; i < 5; i++)
        feed(&peer, ACK, 0xffff, peer.seq + 100 * i, text + 100 * i, 100);
    feed(&peer, ACK, 0xffff, peer.seq, text, 100);
    uint32_t got = expect_data(text);
    transport_hold(peer.connection, true);
    expect_nothing();
    feed(&peer, PSH | ACK | FIN, 0xffff, peer.seq + 500, text + 500, 100);
    peer.seq += 601;
    expect_nothing();
    feed_data(&other, "x", 1); /* another connection goes on */
    expect_event_of(TRANSPORT_DATA, other.connection);
    expect_nothing();
    pass_ms(20);
    expect_nothing();
    transport_hold(peer.connection, false);
    for (; got < sizeof text;)
        got += expect_data(text + got);
    expect_event(TRANSPORT_ENDED);
    expect_nothing();
    disconnect(&other);
}

/* Resets a connection that is held: the end alone is reported. */
TEST_CONNECTED(a_held_connection_reports_its_end)
{
    transport_hold(peer.connection, true);
    feed_data(&peer, "123", 3);
    expect_nothing();
    feed(&peer, RST, 0, peer.seq, NULL, 0);
    expect_closed(TRANSPORT_RESET);
    expect_nothing();
}

/* Takes what the stack has sent, and notes its FIN. */
static void take_fin(void)
{
    transport_idle(now_ns);
    while (sent())
        if (segment.flags & FIN)
            peer.ack = segment.seq + segment.bytes + 1;
}

/* Holds a connection that both sides close in order, in each order of the two ends and the data. The end waits for the
 * held data: no byte that was acknowledged is lost. An abort takes the data with it. */
TEST(an_end_in_order_waits_for_held_data)
{
    enum { OURS_FIRST, FIN_WITH_DATA, CROSSING, THEIRS_FIRST, THEIRS_FIRST_WITH_DATA, HELD_IN_THE_MIDST, ORDERS };
    for (int i = 0; i < 2 * ORDERS; i++) {
        int order = i / 2;
        bool aborts = i % 2 != 0, with_data = order == FIN_WITH_DATA || order == THEIRS_FIRST_WITH_DATA;
        bool ours_first = order != THEIRS_FIRST && order != THEIRS_FIRST_WITH_DATA;
        peer = connected();
        uint8_t text[600], got_text[sizeof text];
        uint32_t got = 0, seq = peer.seq;
        fill(text, sizeof text, 3);
        if (order == HELD_IN_THE_MIDST) {
            feed(&peer, PSH | ACK, 0xffff, seq + 100, text + 100, sizeof text - 100);
            feed(&peer, PSH | ACK, 0xffff, seq, text, 100);
            expect_event(TRANSPORT_DATA);
            got = (uint32_t)event.payload.count;
            memcpy(got_text, event.payload.data, got);
            transport_close(peer.connection, now_ns);
        }
        transport_hold(peer.connection, true);
        if (ours_first)
            transport_close(peer.connection, now_ns);
        if (order != CROSSING)
            take_fin();
        if (!with_data && order != HELD_IN_THE_MIDST)
            feed(&peer, PSH | ACK, 0xffff, seq, text, sizeof text);
        for (int again = 0; again < 2; again++) {
            feed(&peer, PSH | ACK | FIN, 0xffff, with_data ? seq : seq + sizeof text, text,
                 with_data ? sizeof text : 0);
            peer.seq = seq + sizeof text + 1;
            expect_nothing();
            if (!ours_first)
                transport_close(peer.connection, now_ns);
            take_fin();
            feed(&peer, ACK, 0xffff, peer.seq, NULL, 0);
            expect_nothing();
            pass_ms(20);
            expect_nothing();
        }
        drain();
        if (aborts) {
            transport_abort(peer.connection, now_ns);
            expect_closed(TRANSPORT_ABORTED);
            drain();
            expect_nothing();
            continue;
        }
        transport_hold(peer.connection, false);
        while (got < sizeof text) {
            expect_event(TRANSPORT_DATA);
            memcpy(got_text + got, event.payload.data, event.payload.count);
            got += (uint32_t)event.payload.count;
        }
        assert_memory_equal(got_text, text, sizeof text);
        if (!poll_event()) { /* the stack takes the FIN now that it has given the data */
            feed(&peer, ACK | FIN, 0xffff, peer.seq - 1, NULL, 0);
            expect_event(TRANSPORT_ENDED);
        }
        assert_int_equal(event.kind, TRANSPORT_ENDED);
        take_fin();
        if (!poll_event()) {
            feed(&peer, ACK, 0xffff, peer.seq, NULL, 0);
            expect_event(TRANSPORT_CLOSED);
        }
        assert_int_equal(event.kind, TRANSPORT_CLOSED);
        assert_int_equal(event.reason, TRANSPORT_DONE);
        drain();
        expect_nothing();
        assert_int_equal(wire.pool.rx_out_count, 0);
    }
}

/* Sends a segment in fragments whose payload is longer than the longest event. */
TEST_CONNECTED(long_segment_comes_in_several_events)
{
    enum { LONG = TRANSPORT_DATA_BYTES_MAX + 1000 };
    static uint8_t text[LONG];
    fill(text, sizeof text, 5);
    feed_data(&peer, text, sizeof text);
    for (uint32_t got = 0; got < sizeof text; got += (uint32_t)event.payload.count) {
        expect_event(TRANSPORT_DATA);
        assert_in_range(event.payload.count, 1, TRANSPORT_DATA_BYTES_MAX);
        assert_memory_equal(event.payload.data, text + got, event.payload.count);
    }
    expect_nothing();
}

/* Fills the window with segments in fragments, the last one first. That one reaches beyond the window. */
TEST_CONNECTED(fragments_behind_a_hole_may_reach_beyond_the_window)
{
    enum { LONG = 12 * 1480 - 20, SHORT = 8 * 1480 - 20 };
    static const uint8_t text[LONG];
    feed(&peer, ACK, 0xffff, peer.seq + LONG + SHORT + LONG, text, LONG);
    expect_nothing();
    feed(&peer, ACK, 0xffff, peer.seq + LONG + SHORT, text, LONG);
    expect_nothing();
    feed(&peer, ACK, 0xffff, peer.seq + LONG, text, SHORT);
    expect_nothing();
    feed(&peer, ACK, 0xffff, peer.seq, text, LONG);
    while (poll_event())
        assert_int_equal(event.kind, TRANSPORT_DATA);
}

/* Sends data and FIN in one segment after our own FIN. The connection is over, and the peer still gets its ACK. */
TEST_CONNECTED(end_with_data_behind_our_own_end_is_acknowledged)
{
    transport_close(peer.connection, now_ns);
    assert_true(sent());
    assert_int_equal(segment.flags & FIN, FIN);
    peer.ack = segment.seq + 1;
    feed(&peer, PSH | ACK | FIN, 0xffff, peer.seq, "bye", 3);
    peer.seq += 4;
    expect_event(TRANSPORT_DATA);
    while (event.kind != TRANSPORT_CLOSED)
        assert_true(poll_event());
    assert_int_equal(event.reason, TRANSPORT_DONE);
    expect_nothing();
    transport_idle(now_ns);
    assert_true(sent());
    assert_int_equal(segment.ack, peer.seq);
    assert_false(sent());
}

/* Pings in two pieces, of which the second is empty, from a stranger, while out-of-order segments hold all frames that
 * the device lends. */
TEST(ping_with_an_empty_last_piece_is_harmless)
{
    enum { STRANGER = PEER + 7, CONNECTIONS = 3, HOLES = 28 };
    struct peer peers[CONNECTIONS];
    uint8_t ping[16] = { 8 };
    store_be16(ping + 2, checksum_finish(checksum_sum(0, ping, sizeof ping)));
    for (int i = 0; i < CONNECTIONS; i++) {
        peers[i] = connected();
        for (uint32_t k = 1; k <= HOLES; k++)
            feed(&peers[i], ACK, 0xffff, peers[i].seq + 2 * k, "x", 1);
        expect_nothing();
        drain();
    }
    feed_packet(STRANGER, 1, ping, sizeof ping, true);
    expect_nothing();
    drain();
    for (int i = 0; i < CONNECTIONS; i++) {
        transport_abort(peers[i].connection, now_ns);
        expect_event_of(TRANSPORT_CLOSED, peers[i].connection);
    }
    pass_ms(40000); /* lwIP keeps the piece for 15 s */
    drain();
    expect_nothing();
    assert_int_equal(wire.pool.rx_out_count, 0);
}

/* ---- Sending ---- */

TEST_CONNECTED(message_area_keeps_its_bytes_until_it_is_sent)
{
    uint8_t *area = transport_message(peer.connection);
    assert_non_null(area);
    fill(area, TRANSPORT_MESSAGE_BYTES_MAX, 1);
    pass_ms(50);
    feed_data(&peer, "x", 1);
    expect_event(TRANSPORT_DATA);
    assert_ptr_equal(transport_message(peer.connection), area);
    uint8_t wanted[TRANSPORT_MESSAGE_BYTES_MAX];
    fill(wanted, sizeof wanted, 1);
    assert_memory_equal(area, wanted, sizeof wanted);
    drain();
    assert_true(transport_send(peer.connection, 100, 1200, now_ns));
    assert_true(sent());
    assert_int_equal(segment.bytes, 1200);
    assert_memory_equal(segment.data, wanted + 100, 1200);
    assert_int_equal(transport_unacked_bytes(peer.connection), 1200);
    assert_ptr_not_equal(transport_message(peer.connection), area);
}

/* Checks that a frame carries the message sent, with a right checksum, after any other preparation. */
TEST_CONNECTED(prepared_message_leaves_like_any_other)
{
    static const struct {
        uint32_t prepared_from, prepared, from, bytes;
    } cases[] = {
        { 0, 120, 0, 230 }, { 0, 121, 0, 231 },  { 40, 60, 40, 61 },
        { 0, 0, 0, 1 },     { 10, 100, 0, 230 }, { 0, 100, 0, 50 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t *area = transport_message(peer.connection), wanted[300];
        fill(wanted, sizeof wanted, (uint8_t)i);
        memcpy(area + cases[i].prepared_from, wanted + cases[i].prepared_from, cases[i].prepared);
        transport_message_prepare(peer.connection, cases[i].prepared_from, cases[i].prepared);
        memcpy(area + cases[i].from, wanted + cases[i].from, cases[i].bytes);
        assert_true(transport_send(peer.connection, cases[i].from, cases[i].bytes, now_ns));
        assert_true(sent());
        assert_int_equal(segment.bytes, cases[i].bytes);
        assert_memory_equal(segment.data, wanted + cases[i].from, cases[i].bytes);
        assert_true(segment.flags & PSH);
        acknowledge(&peer, segment.seq + segment.bytes, 0xffff);
        transport_idle(now_ns);
    }
}

/* Writes a new message after one was sent, and checks that the retransmission carries the old bytes. */
TEST_CONNECTED(retransmission_carries_the_same_bytes)
{
    memcpy(transport_message(peer.connection), "first", 5);
    assert_true(transport_send(peer.connection, 0, 5, now_ns));
    memset(transport_message(peer.connection), 'X', TRANSPORT_MESSAGE_BYTES_MAX);
    assert_true(sent());
    const uint32_t seq = segment.seq;
    pass_ms(400);
    assert_true(sent());
    assert_int_equal(segment.seq, seq);
    assert_memory_equal(segment.data, "first", 5);
}

TEST_CONNECTED(send_into_a_closed_window_is_refused_and_changes_nothing)
{
    acknowledge(&peer, peer.ack, 1000);
    fill(transport_message(peer.connection), 800, 1);
    assert_true(transport_send(peer.connection, 0, 800, now_ns));
    uint8_t *area = transport_message(peer.connection);
    fill(area, 800, 9);
    assert_false(transport_send(peer.connection, 0, 800, now_ns)); /* 200 bytes of window are left */
    assert_ptr_equal(transport_message(peer.connection), area);
    assert_int_equal(transport_unacked_bytes(peer.connection), 800);
    assert_true(sent());
    assert_false(sent());
    acknowledge(&peer, peer.ack + 800, 1000);
    assert_int_equal(transport_unacked_bytes(peer.connection), 0);
    assert_true(transport_send(peer.connection, 0, 800, now_ns));
    assert_true(sent());
    uint8_t wanted[800];
    fill(wanted, sizeof wanted, 9);
    assert_memory_equal(segment.data, wanted, sizeof wanted);
}

/* Sends a message larger than the window, in pieces, and checks that the FIN comes after the last piece. */
TEST_CONNECTED(fin_comes_after_the_last_piece)
{
    uint8_t wanted[900];
    fill(wanted, sizeof wanted, 1);
    acknowledge(&peer, peer.ack, 400);
    fill(transport_message(peer.connection), sizeof wanted, 1);
    assert_true(transport_send(peer.connection, 0, sizeof wanted, now_ns));
    transport_close(peer.connection, now_ns);
    bool ended = false;
    for (uint32_t got = 0, ms = 0; !ended; ms++) {
        assert_true(ms < 10000);
        pass_ms(1);
        while (!ended && sent()) {
            assert_int_equal(segment.seq, peer.ack);
            assert_memory_equal(segment.data, wanted + got, segment.bytes);
            got += segment.bytes;
            ended = (segment.flags & FIN) != 0;
            peer.ack += segment.bytes + ended;
            assert_int_equal(ended && got < sizeof wanted, 0);
            acknowledge(&peer, peer.ack, 400);
        }
    }
    feed(&peer, ACK | FIN, 400, peer.seq, NULL, 0);
    expect_event(TRANSPORT_ENDED);
    expect_closed(TRANSPORT_DONE);
    drain();
    expect_nothing();
}

/* Lets a probe of the closed window carry the last byte, as lwIP's do. The peer takes the byte. In the second round the
 * peer also opens the window. */
TEST(probe_that_carries_the_last_byte_ends_the_probing)
{
    for (int opens = 0; opens <= 1; opens++) {
        peer = connected();
        acknowledge(&peer, peer.ack, 0);
        send_letters(&peer, 'x', 1);
        uint32_t probes = 0, bytes = 0;
        for (uint32_t ms = 0; ms < 3000 && bytes == 0; ms++) {
            pass_ms(1);
            for (; bytes == 0 && sent(); probes++)
                bytes = segment.bytes;
        }
        assert_true(probes > 0);
        acknowledge(&peer, peer.ack + bytes, opens ? 0xffff : 0);
        assert_int_equal(transport_unacked_bytes(peer.connection), 1 - bytes);
        pass_ms(10000);
        disconnect(&peer);
    }
}

/* RFC 9293 §3.7.1: an MSS option without SYN counts for nothing, even while a message waits for a window. */
TEST_CONNECTED(later_mss_changes_nothing)
{
    segment.bytes = 0;
    acknowledge(&peer, peer.ack, 0);
    send_letters(&peer, 'x', 1000);
    feed_with_mss(&peer, ACK, 600, peer.seq, 100, NULL, 0);
    expect_nothing();
    for (uint32_t ms = 0; segment.bytes == 0; ms++) {
        assert_true(ms < 10000);
        pass_ms(1);
        sent();
    }
    assert_int_equal(segment.bytes, 600);
}

/* Takes all transmit buffers for a moment. The message is not lost, and does not wait for a retransmission. */
TEST_CONNECTED(full_transmit_ring_only_delays)
{
    wire.sent_max = 0;
    uint8_t *area = transport_message(peer.connection);
    memcpy(area, "hold", 4);
    bool taken = transport_send(peer.connection, 0, 4, now_ns);
    pass_ms(1);
    assert_false(sent());
    wire.sent_max = FRAME_POOL_TX_COUNT;
    if (taken)
        pass_ms(1);
    else
        assert_true(transport_send(peer.connection, 0, 4, now_ns));
    assert_true(sent());
    assert_memory_equal(segment.data, "hold", 4);
}

TEST_CONNECTED(many_messages_in_flight_are_all_acknowledged)
{
    uint32_t given = 0, seen = 0;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 20; i++) {
            uint8_t *area = transport_message(peer.connection);
            if (area == NULL)
                break;
            uint32_t bytes = 1 + (given * 31) % 300;
            fill(area, bytes, (uint8_t)given);
            if (!transport_send(peer.connection, 0, bytes, now_ns))
                break;
            given += bytes;
        }
        for (int part = 0; part < 2; part++) {
            pass_ms((unsigned)part);
            while (sent()) {
                assert_int_equal(segment.seq, peer.ack);
                peer.ack += segment.bytes;
                seen += segment.bytes;
            }
            acknowledge(&peer, peer.ack, 0xffff);
        }
    }
    assert_true(given > 40 * 300);
    assert_int_equal(seen, given);
    assert_int_equal(transport_unacked_bytes(peer.connection), 0);
}

TEST_CONNECTED(closing_refuses_messages)
{
    assert_non_null(transport_message(peer.connection));
    transport_close(peer.connection, now_ns);
    assert_null(transport_message(peer.connection));
    assert_false(transport_send(peer.connection, 0, 1, now_ns));
}

TEST(close_before_connected_is_an_abort)
{
    int connection = transport_connect(PEER, PORT, now_ns);
    transport_close(connection, now_ns);
    expect_event_of(TRANSPORT_CLOSED, connection);
    assert_int_equal(event.reason, TRANSPORT_ABORTED);
    transport_close(connection, now_ns); /* no effect: the connection is gone */
    transport_abort(connection, now_ns);
    expect_nothing();
    drain();
}

/* lwIP's port rehearses nothing. */
TEST(rehearsal_brings_its_data_and_sends_nothing)
{
    static const uint8_t text[] = "made up";
    const struct transport_rehearsal rehearsal = { .kind = TRANSPORT_REHEARSAL_SEGMENT,
                                                   .port = PORT,
                                                   .payload = { text, sizeof text } };
    const bool begins = strcmp(transport_name(), "own") == 0;
    assert_int_equal(transport_rehearsal_begin(&rehearsal, now_ns), begins);
    if (!begins)
        return;
    assert_true(poll_event());
    assert_int_equal(event.kind, TRANSPORT_DATA);
    assert_memory_equal(event.payload.data, text, sizeof text);
    transport_rehearsal_end(now_ns);
    expect_nothing();
    assert_false(sent());
}

TEST_CONNECTED(unacked_bytes_are_known_after_a_reset)
{
    send_letters(&peer, 'a', 10);
    acknowledge(&peer, peer.ack + 10, 0xffff);
    send_letters(&peer, 'b', 7);
    feed(&peer, RST, 0, peer.seq, NULL, 0);
    expect_closed(TRANSPORT_RESET);
    assert_int_equal(transport_unacked_bytes(peer.connection), 7);
    drain();
}

/* RFC 9293 §3.10.7.4: Checks that RST is processed before ACK. The peer may not have processed bytes that a RST
 * acknowledges. */
TEST_CONNECTED(reset_acknowledges_nothing)
{
    send_letters(&peer, 'a', 10);
    peer.ack += 10;
    feed(&peer, RST | ACK, 0, peer.seq, NULL, 0);
    expect_closed(TRANSPORT_RESET);
    assert_int_equal(transport_unacked_bytes(peer.connection), 10);
    drain();
}

/* Feeds an ARP packet of another host than the gateway. RFC 826 */
static void feed_arp(uint8_t operation, uint32_t target)
{
    uint8_t frame[60] = { 0 };
    memset(frame, 0xff, 6);
    memcpy(frame + 6, "\2\0\0\0\0\11\x08\x06\0\1\x08\0\6\4\0", 15);
    frame[21] = operation;
    memcpy(frame + 22, frame + 6, 6);
    store_be32(frame + 28, PEER + 30);
    store_be32(frame + 38, target);
    assert_true(netdev_memory_feed(&wire, frame, sizeof frame, false));
    expect_nothing();
    drain();
}

TEST(answers_of_neighbours_are_told_from_their_announcements)
{
    enum { REQUEST = 1, REPLY = 2 };
    const uint64_t heard = transport_network()->heard_count, answers = transport_network()->arp_count;
    feed_arp(REQUEST, PEER + 31);
    feed_arp(REQUEST, PEER + 30);
    feed_arp(REPLY, PEER + 30);
    pass_ms(1);
    assert_int_equal(transport_network()->heard_count - heard, 3);
    assert_int_equal(transport_network()->arp_count - answers, 0);
    feed_arp(REPLY, OURS);
    pass_ms(1);
    assert_int_equal(transport_network()->arp_count - answers, 1);
}

TEST(syns_of_one_turn_all_wait_for_arp)
{
    enum { COUNT = 9, OTHER = PEER + 7 };
    static const uint8_t other_mac[6] = { 2, 0, 0, 0, 0, 9 };
    uint8_t frame[1514], reply[60] = { 0 };
    int connections[COUNT];
    uint32_t bytes, syns = 0;
    for (int i = 0; i < COUNT; i++)
        connections[i] = transport_connect(OTHER, PORT, now_ns);
    transport_idle(now_ns);
    while ((bytes = netdev_memory_take(&wire, frame)) != 0)
        assert_int_equal(load_be16(frame + 12), 0x0806);
    memcpy(reply, our_mac, 6);
    memcpy(reply + 6, other_mac, 6);
    memcpy(reply + 12, "\x08\x06\0\1\x08\0\6\4\0\2", 10); /* RFC 826: a reply, Ethernet and IPv4 */
    memcpy(reply + 22, other_mac, 6);
    store_be32(reply + 28, OTHER);
    memcpy(reply + 32, our_mac, 6);
    store_be32(reply + 38, OURS);
    assert_true(netdev_memory_feed(&wire, reply, sizeof reply, false));
    expect_nothing();
    transport_idle(now_ns);
    while ((bytes = netdev_memory_take(&wire, frame)) != 0)
        syns += load_be16(frame + 12) == 0x0800 && frame[23] == 6 && frame[47] == SYN;
    assert_int_equal(syns, COUNT);
    for (int i = 0; i < COUNT; i++) {
        transport_abort(connections[i], now_ns);
        expect_event_of(TRANSPORT_CLOSED, connections[i]);
    }
    transport_idle(now_ns);
    while (netdev_memory_take(&wire, frame) != 0) /* lwIP's RSTs, to another address than drain() takes */
        ;
}

/* ---- Pieces of datagrams ---- */

/* Feeds the first piece of a datagram whose other pieces never come. `first` is the first byte of its payload. */
static void feed_first_piece(uint32_t source, uint32_t destination, uint8_t protocol, uint8_t first)
{
    static uint16_t id = 1000;
    uint8_t packet[20 + 64] = { 0 };
    packet_ipv4(packet, protocol, source, destination, sizeof packet - 20);
    store_be16(packet + 4, id++);
    store_be16(packet + 6, IPV4_MORE_FRAGMENTS);
    packet[20] = first;
    packet_sum(packet, sizeof packet);
    feed_frame(packet, sizeof packet);
    expect_nothing();
}

/* Lets pieces that wait expire. */
static void expire_pieces(void)
{
    for (int i = 0; i < 31; i++) {
        now_ns += UINT64_C(1000000000);
        transport_idle(now_ns);
    }
}

/* A card may be exchanged for another one while a piece waits. */
TEST(a_piece_that_waits_keeps_no_frame)
{
    feed_first_piece(PEER, OURS, IPV4_PROTOCOL_UDP, 0);
    assert_int_equal(wire.pool.rx_out_count, 0);
    expire_pieces();
    drain();
}

/* ---- ICMP errors ---- */

/* Takes all that the stack has sent, and returns how many ICMP messages of this type there are. */
static uint32_t icmp_sent(uint8_t type)
{
    uint8_t frame[1514];
    uint32_t count = 0;
    while (netdev_memory_take(&wire, frame) != 0)
        count += load_be16(frame + 12) == ETHERNET_TYPE_IPV4 && frame[23] == IPV4_PROTOCOL_ICMP && frame[34] == type;
    return count;
}

/* RFC 1122 §3.2.2: no error about a datagram to several hosts, from no single host, or about an ICMP error. */
TEST(lost_pieces_are_reported_to_their_sender_alone)
{
    enum { ECHO = 8, UNREACHABLE = 3, TIME_EXCEEDED = 11 };
    static const struct {
        uint32_t source, destination;
        uint8_t protocol, first;
        uint32_t errors;
    } rows[] = {
        { PEER, OURS, IPV4_PROTOCOL_UDP, 0, 1 },        { PEER, OURS, IPV4_PROTOCOL_UDP, UNREACHABLE, 1 },
        { PEER, OURS, IPV4_PROTOCOL_ICMP, ECHO, 1 },    { PEER, OURS, IPV4_PROTOCOL_ICMP, UNREACHABLE, 0 },
        { PEER, 0xe0000001, IPV4_PROTOCOL_UDP, 0, 0 },  { PEER, 0xffffffff, IPV4_PROTOCOL_UDP, 0, 0 },
        { PEER, OURS | 0xff, IPV4_PROTOCOL_UDP, 0, 0 }, { 0, OURS, IPV4_PROTOCOL_UDP, 0, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        feed_first_piece(rows[i].source, rows[i].destination, rows[i].protocol, rows[i].first);
        expire_pieces();
        print_message("  row %zu\n", i);
        assert_int_equal(icmp_sent(TIME_EXCEEDED), rows[i].errors);
    }
}

TEST(errors_have_a_rate)
{
    enum { BURST = 64, UNREACHABLE = 3 };
    const uint8_t udp[12] = { 0, 5, 0, 6, 0, sizeof udp };
    uint8_t packet[20 + sizeof udp];
    uint32_t bytes = packet_around(packet, IPV4_PROTOCOL_UDP, PEER, OURS, udp, sizeof udp), errors = 0;
    for (int i = 0; i < 2 * BURST; i++) {
        feed_frame(packet, bytes);
        expect_nothing();
        errors += icmp_sent(UNREACHABLE);
    }
    assert_int_equal(errors, BURST);
    pass_ms(1); /* 1,000 a second */
    for (int i = 0; i < 2; i++)
        feed_frame(packet, bytes);
    expect_nothing();
    assert_int_equal(icmp_sent(UNREACHABLE), 1);
}

/* ---- A pause of the machine ---- */

/* Lets time pass with a message in flight, and no turn of the loop. A copy leaves afterwards, and its ACK counts. */
TEST(message_in_flight_survives_a_pause)
{
    static const uint64_t pauses_s[] = { 101, 3 * 3600 };
    for (size_t i = 0; i < ARRAY_COUNT(pauses_s); i++) {
        peer = connected();
        send_letters(&peer, 'a', 100);
        assert_true(sent());
        peer.ack = segment.seq + 100;
        now_ns += pauses_s[i] * UINT64_C(1000000000);
        pass_ms(300);
        assert_true(sent());
        assert_int_equal(segment.flags & (RST | FIN), 0);
        assert_int_equal(segment.seq + 100, peer.ack);
        acknowledge(&peer, peer.ack, 0xffff);
        assert_int_equal(transport_unacked_bytes(peer.connection), 0);
        disconnect(&peer);
    }
}

/* ---- VLAN tags ---- */

/* Plays a connection whose frames to us all have a tag of VLAN 0, full ones and pieces among them. */
TEST(frames_with_a_priority_are_untagged_ones)
{
    static const uint32_t tags[] = { 0x81000000, 0x8100a000, 0x88a80000 };
    static uint8_t text[5000];
    fill(text, sizeof text, 3);
    for (size_t i = 0; i < ARRAY_COUNT(tags); i++) {
        vlan_tag = tags[i];
        peer = connected();
        feed_data(&peer, text, 1460);
        assert_int_equal(expect_data(text), 1460);
        feed_data(&peer, text, sizeof text); /* one segment, in pieces */
        for (uint32_t got = 0; got < sizeof text;)
            got += expect_data(text + got);
        expect_nothing();
        drain();
        send_letters(&peer, 'a', 100);
        assert_true(sent()); /* without a tag, which sent() would pass over */
        assert_int_equal(segment.bytes, 100);
        acknowledge(&peer, segment.seq + 100, 0xffff);
        assert_int_equal(transport_unacked_bytes(peer.connection), 0);
        disconnect(&peer);
    }
    vlan_tag = 0;
}

TEST_CONNECTED(frames_of_other_vlans_are_not_taken)
{
    vlan_tag = 0x81000064;
    feed_data(&peer, "12345", 5);
    peer.seq -= 5;
    expect_nothing();
    vlan_tag = 0;
    feed_data(&peer, "67890", 5);
    assert_int_equal(expect_data("67890"), 5);
}

/* ---- The whole ---- */

BEFORE_ALL()
{
    netdev_memory_init(&wire, peer_mac, true); /* with checksum offload, which the device completes */
    wire.pool.rx_stays = !transport_alters_frames();
    struct transport_config config = {
        .device = &wire.device, .address = OURS, .mask = 0xffffff00, .gateway = PEER, .secret = { 1, 2, 3 }
    };
    config.lease_seconds = 1000000;
    config.lease_server = PEER;
    memcpy(config.gateway_mac, peer_mac, sizeof peer_mac);
    wire.device.link_up = false; /* the first of two cards has no cable */
    assert_true(transport_init(&config, now_ns));
    memcpy(wire.device.mac, our_mac, sizeof our_mac);
    wire.device.link_up = true;
    drain();
    assert_true(transport_network()->up);
}

/* Closes more connections than there are places, to a peer that never closes its side. Each place is free after an
 * abort. */
TEST(a_closed_connection_keeps_its_place_until_it_is_aborted)
{
    for (int i = 0; i < 2 * TRANSPORT_CONNECTION_COUNT_MAX; i++) {
        peer = connected();
        transport_close(peer.connection, now_ns);
        assert_true(sent());
        assert_int_equal(segment.flags & (FIN | RST), FIN);
        acknowledge(&peer, segment.seq + 1, 0xffff);
        pass_ms(500);
        expect_nothing();
        assert_false(sent());
        transport_abort(peer.connection, now_ns);
        assert_true(sent());
        assert_int_equal(segment.flags & RST, RST);
        expect_closed(TRANSPORT_ABORTED);
        expect_nothing();
    }
}

/* Renews the lease that the settings hand over: by the card that has the network, which was not the first one. Then the
 * lease ends without a link. The address may be another host's when the link comes back. */
TEST(lease_is_of_the_card_in_use_and_is_not_announced_after_its_end)
{
    uint8_t frame[1514];
    now_ns = transport_network()->lease_ends_ns / 2;
    transport_idle(now_ns);
    do
        assert_int_not_equal(netdev_memory_take(&wire, frame), 0);
    while (load_be16(frame + 36) != 67);
    assert_memory_equal(frame + 42 + 28, our_mac, sizeof our_mac);

    wire.device.link_up = false;
    drain();
    now_ns = transport_network()->lease_ends_ns;
    wire.device.link_up = true;
    transport_idle(now_ns);
    while (netdev_memory_take(&wire, frame) != 0)
        assert_int_not_equal(load_be16(frame + 12), ETHERNET_TYPE_ARP);
    assert_false(transport_network()->up);
}
