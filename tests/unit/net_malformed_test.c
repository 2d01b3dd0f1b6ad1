/* Inputs that crashed small stacks in the past: no crash, no forbidden reply, no leak, and a valid exchange still works
 * afterwards. Under ASan and UBSan every out-of-bounds byte is a failure. */
#include "net/stack_state.h"
#include "tests/lib/packet.h"
#include "tests/lib/random.h"
#include "tests/lib/tcp_peer.h"
#include "tests/lib/test.h"

static struct peer peer;
static struct peer *const p = &peer;

static void begin_closed(void) { peer_begin(p, NULL); }

/* Checks that the stack still opens, carries and closes a connection, after any test. */
AFTER_EACH()
{
    peer_drain(p);
    peer_pass(p, S);
    peer_drain(p);
    p->payload_any = false;
    p->peer_port = 9;
    p->timestamps = false;
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 100);
    EXPECT(p, PA, 1, 1, 100);
    peer_send(p, PA, 1, 101, NULL, 100);
    EXPECT(p, A, 101, 101, 0);
    peer_read(p, 1, 100);
    peer_end(p);
}

/* The port and ISS of the open connection. The peer also sees the listener's answers, which overwrite the peer's own
 * copies. */
static uint16_t open_port;
static uint32_t open_iss;

/* Gives a packet from a block of its exact size, so that the sanitizer sees a read beyond. (The device copies the
 * packet into a queue without poisoned bytes. The stack gets the copy's length.) */
static void give(const uint8_t *packet, uint32_t bytes)
{
    uint8_t *exact = malloc(bytes != 0 ? bytes : 1);
    memcpy(exact, packet, bytes);
    netdev_ip_push(&p->device, exact, bytes);
    free(exact);
    peer_step(p);
}

enum { KINDS = 8 };

/* Makes a valid packet of each kind, for an open connection. */
static uint32_t valid_packet(unsigned kind, uint8_t *packet)
{
    uint8_t body[256] = { 0 };
    struct tcp_wire *tcp = (struct tcp_wire *)body;
    uint32_t bytes = 0;
    uint8_t protocol = 6;
    store_be16(&tcp->source_port, PEER_PORT);
    store_be16(&tcp->destination_port, open_port);
    store_be32(&tcp->seq, PEER_ISS + 1);
    store_be32(&tcp->ack, open_iss + 1);
    store_be16(&tcp->window, 1000);
    switch (kind) {
    case 0: /* data with every option there is */
        tcp->offset = 0xf0;
        tcp->flags = PA;
        memcpy(body + 20,
               "\x01\x01\x08\x0a\0\0\0\1\0\0\0\2\x02\x04\x05\xb4\x03\x03\x07\x04\x02\x05\x12"
               "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\x01",
               40);
        bytes = 60 + 30;
        break;
    case 1: /* SYN to the listener */
        store_be16(&tcp->destination_port, PEER_STACK_PORT);
        tcp->offset = 0xa0;
        tcp->flags = TCP_SYN;
        memcpy(body + 20, "\x02\x04\x05\xb4\x04\x02\x08\x0a\0\0\0\1\0\0\0\0\x01\x03\x03\x07", 20);
        bytes = 40;
        break;
    case 2: /* FIN */
        tcp->offset = 0x50;
        tcp->flags = FA;
        bytes = 20;
        break;
    case 3: /* RST in the window */
        store_be32(&tcp->seq, PEER_ISS + 5);
        tcp->offset = 0x50;
        tcp->flags = TCP_RST;
        bytes = 20;
        break;
    case 4: /* URG */
        tcp->offset = 0x50;
        tcp->flags = A | TCP_URG;
        store_be16(&tcp->urgent, 5);
        bytes = 40;
        break;
    case 5: /* echo request */
        protocol = 1;
        memset(body, 0, 64);
        body[0] = ICMP_ECHO;
        bytes = 64;
        break;
    case 6: /* fragmentation needed */
        protocol = 1;
        memset(body, 0, 64);
        body[0] = ICMP_UNREACHABLE;
        body[1] = ICMP_CODE_FRAGMENTATION_NEEDED;
        store_be16(body + 6, 600);
        memcpy(body + 28, (uint8_t[]){ 0, 0, 0, PEER_PORT, 0, 0, 0, 0 }, 8);
        store_be16(body + 28, open_port);
        store_be32(body + 32, open_iss + 1);
        packet_ipv4(body + 8, 6, PEER_STACK_ADDRESS, PEER_ADDRESS, 8);
        bytes = 36;
        break;
    default: /* UDP to a bound port */
        protocol = 17;
        memset(body, 0, 64);
        store_be16(body, 1000);
        store_be16(body + 2, 4000);
        store_be16(body + 4, 40);
        bytes = 40;
        break;
    }
    return packet_around(packet, protocol, PEER_ADDRESS, PEER_STACK_ADDRESS, body, bytes);
}

static void connect_again(void)
{
    p->payload_any = true;
    peer_connect(p, OFFER_ALL);
    open_port = p->stack_port;
    open_iss = p->stack_iss;
    peer_write(p, 1000);
    peer_drain(p);
}

BEFORE_EACH()
{
    begin_closed();
    p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
    udp_bind(&p->stack->ip, 4000);
    connect_again();
}

static void reopen_if_ended(void)
{
    if (tcp_state(p->stack, p->id) == TCP_ESTABLISHED)
        return;
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_pass(p, 100 * MS);
    for (int id; (id = tcp_accept(p->stack, p->listener)) >= 0;)
        tcp_abort(p->stack, id, p->now_ns);
    peer_drain(p);
    connect_again();
}

/* ---- The generators ---- */

TEST(every_byte_changed_in_many_ways)
{
    static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
    for (unsigned kind = 0; kind < KINDS; kind++) {
        uint8_t good[512], changed[512];
        uint32_t bytes = valid_packet(kind, good);
        for (uint32_t at = 0; at < bytes; at++)
            for (unsigned v = 0; v < ARRAY_COUNT(values) + 2; v++) {
                reopen_if_ended();
                bytes = valid_packet(kind, good);
                memcpy(changed, good, bytes);
                changed[at] = v < ARRAY_COUNT(values) ? values[v]
                                                      : (uint8_t)(good[at] + (v == ARRAY_COUNT(values) ? 1 : -1));
                give(changed, bytes); /* with the old checksums */
                packet_sum(changed, bytes);
                give(changed, bytes); /* with right ones */
                peer_drain(p);
            }
    }
}

TEST(truncated_at_every_length)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        uint8_t good[512], cut[512];
        uint32_t bytes = valid_packet(kind, good);
        for (uint32_t length = 0; length <= bytes; length++) {
            reopen_if_ended();
            bytes = valid_packet(kind, good);
            give(good, length); /* the frame is short */
            memcpy(cut, good, length);
            if (length >= 20) { /* the total length is shortened, too */
                store_be16(cut + 2, (uint16_t)length);
                packet_sum(cut, length);
                give(cut, length);
            }
            peer_drain(p);
        }
    }
}

/* Sends all kinds and lengths of TCP options, also an option that ends after its length byte. */
TEST(all_tcp_options_of_all_lengths)
{
    for (unsigned kind = 0; kind < 256; kind++)
        for (unsigned length = 0; length <= 41; length++)
            for (unsigned place = 0; place < 2; place++)
                for (unsigned syn = 0; syn < 2; syn++) {
                    uint8_t packet[256], body[128] = { 0 };
                    struct tcp_wire *tcp = (struct tcp_wire *)body;
                    reopen_if_ended();
                    store_be16(&tcp->source_port, PEER_PORT);
                    store_be16(&tcp->destination_port, syn ? PEER_STACK_PORT : open_port);
                    store_be32(&tcp->seq, PEER_ISS + 1);
                    store_be32(&tcp->ack, open_iss + 1);
                    tcp->offset = 0xf0;
                    tcp->flags = syn ? TCP_SYN : A;
                    memset(body + 20, 1, 40);
                    uint32_t at = place == 0 ? 20 : 58;
                    body[at] = (uint8_t)kind;
                    body[at + 1] = (uint8_t)length;
                    for (uint32_t i = at + 2; i < 60; i++)
                        body[i] = (uint8_t)(i * 71);
                    give(packet, packet_around(packet, 6, PEER_ADDRESS, PEER_STACK_ADDRESS, body, 60));
                    peer_drain(p);
                }
}

TEST(all_ip_options_of_all_lengths)
{
    for (unsigned kind = 0; kind < 256; kind++)
        for (unsigned length = 0; length <= 41; length++) {
            uint8_t packet[256], body[64] = { ICMP_ECHO };
            packet_ipv4(packet, 1, PEER_ADDRESS, PEER_STACK_ADDRESS, 40 + 8);
            memset(packet + 20, 1, 40);
            packet[0] = 0x4f;
            packet[20] = (uint8_t)kind;
            packet[21] = (uint8_t)length;
            for (uint32_t i = 22; i < 60; i++)
                packet[i] = (uint8_t)(i * 71);
            memcpy(packet + 60, body, 8);
            packet_sum(packet, 68);
            give(packet, 68);
        }
    assert_true(p->stack->ip.counters.ipv4_rx_drop_bad_option > 0);
    assert_true(p->stack->ip.counters.ipv4_rx_drop_source_route > 0);
}

/* Changes several bytes at once, at random. A failure prints the seed. */
TEST(random_changes)
{
    random_seed(20220217);
    for (int i = 0; i < 60000; i++) {
        uint8_t packet[512];
        reopen_if_ended();
        uint32_t bytes = valid_packet((unsigned)random_below(KINDS), packet);
        unsigned bends = 1 + (unsigned)random_below(4);
        for (unsigned b = 0; b < bends; b++)
            packet[random_below(bytes)] = (uint8_t)random_next();
        packet_sum(packet, bytes);
        give(packet, bytes - (uint32_t)random_below(3));
        if (i % 64 == 0)
            peer_pass(p, random_below(50 * MS));
        peer_drain(p);
    }
}

/* ---- Single shapes ---- */

TEST_AFTER(begin_closed, datagram_may_be_empty_in_a_longer_packet)
{
    uint8_t packet[128];
    uint32_t bytes = valid_packet(7, packet);
    udp_bind(&p->stack->ip, 4000);
    store_be16(packet + 24, 8);
    store_be16(packet + 26, 0);
    give(packet, bytes);
    assert_true(p->stack->datagram_ready);
    assert_int_equal(p->stack->datagram.payload.count, 0);
}

TEST_AFTER(begin_closed, icmp_floods_are_answered_within_limits)
{
    for (int i = 0; i < 10000; i++) {
        uint8_t packet[128];
        give(packet, valid_packet(5, packet));
    }
    assert_in_range(p->stack->ip.counters.icmp_tx_echo_replies, 32, 128);
    peer_pass(p, S);
    uint8_t packet[128];
    give(packet, valid_packet(5, packet));
    assert_in_range(p->stack->ip.counters.icmp_tx_echo_replies, 33, 129);
}

TEST_AFTER(begin_closed, odd_flags_do_no_harm)
{
    for (unsigned flags = 0; flags < 256; flags++) {
        peer_connect(p, OFFER_PLAIN);
        peer_send(p, (uint8_t)flags, 5, 1, NULL, 10);
        peer_send(p, (uint8_t)flags, 1, 1, NULL, 0);
        for (struct seen s; peer_take(p, &s);)
            assert_false((flags & TCP_RST) != 0 && (s.flags & TCP_RST) != 0); /* never a RST for a RST */
        tcp_abort(p->stack, p->id, p->now_ns);
        peer_pass(p, 10 * MS);
        peer_drain(p);
    }
}
