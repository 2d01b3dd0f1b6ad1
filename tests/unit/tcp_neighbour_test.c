/* ARP between the segments: every state times every kind of segment. The gateway's MAC comes from the settings, is
 * known before, is learnt late, or changes before each segment. All four ways must send the same segments. tcp_peer.c
 * checks each frame. */
#include "tests/lib/tcp_fixture.h"

enum way { FROM_SETTINGS, BEFORE, LATE, CHANGING, WAY_COUNT };

static const char *const way_names[] = { "MAC from the settings", "ARP before", "ARP late", "MAC changing" };

static enum way way;
static uint8_t mac_last;

/* ---- The states ---- */

static void arp_changes(void)
{
    if (way == CHANGING)
        peer_send_arp_reply(p, mac_last ^= 1);
}

/* Answers ARP, which a held frame waits for. */
static void arp_answers(void)
{
    if (way == LATE || way == CHANGING)
        peer_send_arp_reply(p, mac_last);
}

static void send_one(uint8_t flags, uint32_t seq, uint32_t ack, uint32_t bytes)
{
    arp_changes();
    peer_send(p, flags, seq, ack, NULL, bytes);
}

static void send_syn(uint8_t flags, uint32_t ack, bool options_wanted)
{
    static const uint8_t all[] = { 2, 4, 5, 180, 4, 2, 8, 10, 0, 10, 174, 96, 0, 0, 0, 0, 1, 3, 3, 7 };
    arp_changes();
    peer_send_options(p, flags, 0, ack, NULL, 0, all, options_wanted ? sizeof all : 0);
}

static void make_syn_sent(bool options)
{
    (void)options;
    p->id = tcp_connect(p->stack, PEER_ADDRESS, p->peer_port, 0, NULL, p->now_ns);
    assert_true(p->id >= 0);
    peer_step(p);
    arp_answers();
}

static void make_syn_received(bool options)
{
    make_syn_sent(options);
    send_syn(TCP_SYN, 0, options);
}

static void make_half_open(bool options)
{
    p->stack_port = PEER_STACK_PORT;
    send_syn(TCP_SYN, 0, options);
    arp_answers();
}

static void make_established(bool options)
{
    make_syn_sent(options);
    send_syn(SA, 1, options);
}

static void make_crossed(bool options)
{
    make_syn_received(options);
    send_syn(SA, 1, options);
}

static void make_shut(void)
{
    arp_changes();
    tcp_shutdown(p->stack, p->id, p->now_ns);
    peer_step(p);
}

static void make_fin_wait_1(bool options)
{
    make_established(options);
    make_shut();
}
static void make_fin_wait_2(bool options)
{
    make_fin_wait_1(options);
    send_one(A, 1, 2, 0);
}
static void make_close_wait(bool options)
{
    make_established(options);
    send_one(FA, 1, 1, 0);
}
static void make_closing(bool options)
{
    make_fin_wait_1(options);
    send_one(FA, 1, 1, 0);
}
static void make_last_ack(bool options)
{
    make_close_wait(options);
    make_shut();
}
static void make_time_wait(bool options)
{
    make_fin_wait_2(options);
    send_one(FA, 1, 2, 0);
}
static void make_nothing(bool options)
{
    (void)options;
    p->stack_port = 81;
}

static const struct {
    const char *name;
    void (*make)(bool options);
    enum tcp_state state;
    uint32_t next, ack; /* the peer's SND.NXT and RCV.NXT */
} states[] = {
    { "SYN-SENT", make_syn_sent, TCP_SYN_SENT, 0, 1 },
    { "SYN-RECEIVED", make_syn_received, TCP_SYN_RECEIVED, 1, 1 },
    { "half-open", make_half_open, TCP_CLOSED, 1, 1 },
    { "ESTABLISHED", make_established, TCP_ESTABLISHED, 1, 1 },
    { "ESTABLISHED by crossing SYNs", make_crossed, TCP_ESTABLISHED, 1, 1 },
    { "FIN-WAIT-1", make_fin_wait_1, TCP_FIN_WAIT_1, 1, 2 },
    { "FIN-WAIT-2", make_fin_wait_2, TCP_FIN_WAIT_2, 1, 2 },
    { "CLOSE-WAIT", make_close_wait, TCP_CLOSE_WAIT, 2, 1 },
    { "CLOSING", make_closing, TCP_CLOSING, 2, 2 },
    { "LAST-ACK", make_last_ack, TCP_LAST_ACK, 2, 2 },
    { "TIME-WAIT", make_time_wait, TCP_TIME_WAIT, 2, 2 },
    { "nothing", make_nothing, TCP_CLOSED, 1, 1 },
};

/* ---- The segments ---- */

/* Numbers are relative to the state's. */
static const struct {
    const char *name;
    uint8_t flags;
    int32_t seq, ack;
    uint32_t bytes;
} kinds[] = {
    { "ACK", A, 0, 0, 0 },
    { "ACK of the unsent", A, 0, 1000, 0 },
    { "ACK from before any window", A, 0, -100000, 0 },
    { "SYN in order", TCP_SYN, 0, 0, 0 },
    { "SYN again", TCP_SYN, -1, 0, 0 },
    { "SYN in the window", TCP_SYN, 100, 0, 0 },
    { "SYN outside", TCP_SYN, 200000, 0, 0 },
    { "SYN,ACK again", SA, -1, 0, 0 },
    { "SYN,ACK with a bad ACK", SA, -1, 77, 0 },
    { "SYN with text", SA, -1, 0, 10 },
    { "SYN and FIN", TCP_SYN | TCP_FIN, -1, 0, 0 },
    { "SYN and RST", TCP_SYN | TCP_RST, 0, 0, 0 },
    { "RST exact", TCP_RST, 0, 0, 0 },
    { "RST,ACK exact", TCP_RST | A, 0, 0, 0 },
    { "RST in the window", TCP_RST, 50, 0, 0 },
    { "RST outside", TCP_RST, -50, 0, 0 },
    { "FIN", FA, 0, 0, 0 },
    { "FIN again", FA, -1, 0, 0 },
    { "FIN early", FA, 100, 0, 0 },
    { "FIN without ACK", TCP_FIN, 0, 0, 0 },
    { "FIN with text", FA, 0, 0, 100 },
    { "text", PA, 0, 0, 100 },
    { "text with a bad ACK", PA, 0, 1000, 100 },
    { "text without ACK", TCP_PSH, 0, 0, 100 },
    { "text again", PA, -50, 0, 50 },
    { "text half again", PA, -50, 0, 100 },
    { "text early", PA, 200, 0, 100 },
    { "text to the window's edge and beyond", PA, 65000, 0, 1000 },
    { "text beyond the window", PA, 70000, 0, 100 },
    { "no flags", 0, 0, 0, 10 },
    { "all flags", 0x3f, 0, 0, 10 },
    { "urgent", PA | 32, 0, 0, 10 },
};

/* The stack's segments: kept in the first run, compared in the others. */
enum { ANSWERS_MAX = 24 };
static struct {
    uint32_t count;
    struct seen seen[ANSWERS_MAX];
} reference[2][sizeof states / sizeof states[0]][sizeof kinds / sizeof kinds[0]];

static void one_case(bool options, size_t s, size_t k)
{
    p->peer_port++;
    p->timestamps = false;
    p->id = -1;
    if (way == LATE || way == CHANGING)
        arp_flush(&p->stack->ip); /* the next frame has to ask */
    states[s].make(options);
    if (p->id >= 0)
        EXPECT_STATE(p, states[s].state);
    peer_drain(p);

    uint32_t seq = states[s].next + (uint32_t)kinds[k].seq, ack = states[s].ack + (uint32_t)kinds[k].ack;
    p->timestamps = options && states[s].state != TCP_SYN_SENT && states[s].make != make_nothing;
    for (int again = 0; again < 2; again++) { /* the second time in the state that the first time leaves */
        send_one(kinds[k].flags, seq, ack, kinds[k].bytes);
        arp_answers(); /* the first ARP request of states without a connection */
        peer_pass(p, 50 * MS);
    }
    arp_changes();
    if (p->id >= 0)
        tcp_abort(p->stack, p->id, p->now_ns);
    peer_pass(p, 50 * MS);
    arp_changes();
    for (int id; (id = tcp_accept(p->stack, p->listener)) >= 0;)
        tcp_abort(p->stack, id, p->now_ns);
    peer_pass(p, 50 * MS);

    uint32_t count = 0;
    for (struct seen seen; peer_take(p, &seen); count++) {
        assert_true(count < ANSWERS_MAX);
        seen.at_ns = 0;
        struct seen *wanted = &reference[options][s][k].seen[count];
        if (way == FROM_SETTINGS)
            *wanted = seen;
        else if (memcmp(wanted, &seen, sizeof seen) != 0)
            fail_msg("%s, %s, options %d, %s: answer %u differs", states[s].name, kinds[k].name, options,
                     way_names[way], count);
    }
    if (way == FROM_SETTINGS)
        reference[options][s][k].count = count;
    else if (count != reference[options][s][k].count)
        fail_msg("%s, %s, options %d, %s: %u answers, not %u", states[s].name, kinds[k].name, options, way_names[way],
                 count, reference[options][s][k].count);
}

TEST(every_state_answers_every_segment_the_same_with_arp_between)
{
    for (way = FROM_SETTINGS; way < WAY_COUNT; way++) {
        peer_end(p);
        peer_begin_with(p, NULL, 0xffffffff, way != FROM_SETTINGS);
        p->payload_any = true;
        p->listener = tcp_listen(p->stack, PEER_STACK_PORT, 4, NULL);
        mac_last = 2;
        if (way == BEFORE)
            peer_send_arp_reply(p, mac_last);
        for (int options = 0; options < 2; options++)
            for (size_t s = 0; s < sizeof states / sizeof states[0]; s++)
                for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
                    one_case(options != 0, s, k);
    }
}

/* Changes settings before the peer's SYN, which decides the options of a prepared head. No head is prepared before. */
TEST(settings_changed_in_syn_sent_leave_room_for_timestamps)
{
    struct tcp_policy policy = peer_policy_default();
    way = FROM_SETTINGS;
    make_syn_sent(true);
    policy.ttl = 9;
    tcp_set_packets(p->stack, p->id, &policy, p->now_ns);
    EXPECT(p, TCP_SYN, 0, 0, 0);
    send_syn(TCP_SYN, 0, true);
    EXPECT(p, SA, 0, 1, 0);
    p->timestamps = true;
    send_one(TCP_SYN, 0, 0, 0);
    assert_true(EXPECT(p, A, 1, 1, 0)->timestamps);
}
