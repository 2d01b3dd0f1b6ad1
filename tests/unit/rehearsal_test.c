/* app/service/rehearsal.c over our own stack, with its twin: net/own/twin.c. */
#include "app/service/rehearsal.h"
#include "app/service/settings.h"
#include "base/counters.h"
#include "net/stack_state.h"
#include "net/tcp/sockets.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/stack_create.h"
#include "tests/lib/test.h"

enum {
    OURS = 0x0a000001,
    PEER = 0x0a000002,
    MASK = 0xffffff00,
    PORT = 7,
    MANY = TRANSPORT_CONNECTION_COUNT_MAX + 1, /* the stack then lies in memory that this test gives */
    PART_COUNT = TRANSPORT_REHEARSAL_KIND_COUNT + 2,
    COUNTERS_MAX = 256,
};
static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 0xaa }, peer_mac[6] = { 2, 0, 0, 0, 0, 0xbb };

static struct netdev_memory wire, peer_wire;
static struct net_stack *peer;
static uint8_t *memory, *memory_before;
static size_t memory_bytes;
static int listener, ours, theirs;
static uint64_t now_ns;
static uint32_t segments, datagrams, works;

static void settle(void)
{
    struct transport_event event;
    for (int i = 0; i < 20; i++) {
        assert_false(transport_poll(now_ns, &event));
        transport_idle(now_ns);
        net_input(peer, now_ns);
        net_idle(peer, now_ns);
        netdev_memory_exchange(&wire, &peer_wire);
    }
}

static struct transport_event expect(enum transport_event_kind kind)
{
    struct transport_event event;
    for (int i = 0; i < 10 && !transport_poll(now_ns, &event); i++) {
        transport_idle(now_ns);
        netdev_memory_exchange(&wire, &peer_wire);
        net_input(peer, now_ns);
        net_idle(peer, now_ns);
        netdev_memory_exchange(&wire, &peer_wire);
    }
    assert_int_equal(event.kind, kind);
    return event;
}

/* Takes the data that the peer has written. */
static void expect_data(const char *text)
{
    const struct transport_event event = expect(TRANSPORT_DATA);
    assert_int_equal(event.connection, ours);
    assert_int_equal(event.payload.count, strlen(text));
    assert_memory_equal(event.payload.data, text, strlen(text));
}

static void connect_to_peer(void)
{
    ours = transport_connect(PEER, PORT, now_ns);
    assert_int_equal(ours, 0); /* the index of the twin's connection */
    assert_int_equal(expect(TRANSPORT_CONNECTED).connection, ours);
    settle();
    theirs = tcp_accept(peer, listener);
    assert_true(theirs >= 0);
}

static bool play_segment(uint64_t at_ns)
{
    struct transport_event event;
    assert_true(transport_poll(at_ns, &event));
    assert_int_equal(event.kind, TRANSPORT_DATA);
    assert_int_equal(event.port, PORT);
    assert_int_equal(event.payload.count, 7);
    assert_memory_equal(event.payload.data, "segment", 7);
    uint8_t *message = transport_message(event.connection);
    assert_non_null(message);
    memcpy(message, "answer", 6);
    assert_int_equal(transport_unacked_bytes(event.connection), 0); /* the one before has been acknowledged */
    assert_true(transport_send(event.connection, 0, 6, at_ns));
    assert_int_equal(transport_unacked_bytes(event.connection), 6);
    segments++;
    return true;
}

static bool play_datagram(uint64_t at_ns)
{
    struct transport_event event;
    assert_true(transport_poll(at_ns, &event));
    assert_int_equal(event.kind, TRANSPORT_DATAGRAM);
    assert_int_equal(event.peer_port, TRANSPORT_REHEARSAL_PEER_PORT);
    assert_int_equal(event.payload.count, 8);
    assert_memory_equal(event.payload.data, "datagram", 8);
    assert_true(transport_udp_send(event.port, event.address, event.peer_port, "answer", 6, at_ns));
    datagrams++;
    return true;
}

static bool work(uint64_t at_ns)
{
    (void)at_ns;
    works++;
    return true;
}

static uint32_t plays(void) { return segments + datagrams + works; }

/* The transport is made once: one connection stays open, and time goes on. */
BEFORE_ALL()
{
    struct transport_config config = {
        .device = &wire.device, .address = OURS, .mask = MASK, .gateway = PEER, .connection_count = MANY, .ecn = true
    };
    struct net_config peer_config = {
        .capacity = { 4, 1, 4, 4, 16, 16384, 16384, 0 }, .device = &peer_wire.device, .address = PEER, .mask = MASK
    };
    now_ns = NS_PER_S;
    netdev_memory_init(&wire, our_mac, true);
    netdev_memory_init(&peer_wire, peer_mac, false);
    assert_int_equal(transport_memory_bytes(MANY - 1), 0);
    config.memory_bytes = memory_bytes = transport_memory_bytes(MANY);
    config.memory = memory = aligned_alloc(NET_STACK_ALIGN, memory_bytes);
    memory_before = aligned_alloc(NET_STACK_ALIGN, memory_bytes);
    memset(memory, 0, memory_bytes);
    assert_true(transport_init(&config, now_ns));
    assert_true(transport_udp_bind(PORT));
    tcp_policy_default(&peer_config.policy);
    peer = stack_create(&peer_config, now_ns, NULL);
    assert_non_null(peer);
    listener = tcp_listen(peer, PORT, 1, NULL);
    settle();
    connect_to_peer();
}

BEFORE_EACH()
{
    settle();
    segments = datagrams = works = 0;
    service_settings.wait = SERVICE_WAIT_SPIN;
    rehearsal_init();
    rehearsal_add_frame(TRANSPORT_REHEARSAL_SEGMENT, PORT, (struct bytes){ (const uint8_t *)"segment", 7 },
                        play_segment);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_DATAGRAM, PORT, (struct bytes){ (const uint8_t *)"datagram", 8 },
                        play_datagram);
    rehearsal_add_work(work);
}

/* Runs slices, each of which is due. */
static void rehearse(uint32_t slices)
{
    for (uint32_t i = 0; i < slices; i++) {
        now_ns += REHEARSAL_SLICE_NS;
        rehearsal_poll(true, now_ns);
    }
}

static size_t copy_counters(uint64_t values[COUNTERS_MAX])
{
    struct counter_group group;
    size_t count = 0;
    for (size_t i = 0; transport_counter_group(i, &group); i++)
        for (size_t k = 0; k < group.count && count < COUNTERS_MAX; k++)
            values[count++] = group.values[k];
    return count;
}

/* The path's code runs only if the twin takes each frame as a good one, however often it comes in a moment. One that is
 * dropped counts in fewer places. */
TEST(the_twin_takes_and_answers_each_frame)
{
    static const uint8_t longest[TRANSPORT_MESSAGE_BYTES_MAX] = { 7 }, counts[] = { 4, 6, 3, 7 };
    struct transport_rehearsal rehearsal = { .payload = { longest, sizeof longest } };
    uint64_t values[2][COUNTERS_MAX], peer_ports[2] = { 0 };
    for (unsigned i = 0; i < 200 * TRANSPORT_REHEARSAL_KIND_COUNT; i++) {
        struct transport_event event;
        uint64_t sum = 0;
        rehearsal.kind = TRANSPORT_REHEARSAL_SEGMENT - i % TRANSPORT_REHEARSAL_KIND_COUNT; /* ARP tells nothing new */
        rehearsal.port = (uint16_t)(PORT + i / 400); /* another connection, and the shortest payload */
        rehearsal.payload.count = i < 400 ? sizeof longest : 1;
        assert_true(transport_rehearsal_begin(&rehearsal, now_ns));
        copy_counters(values[0]);
        if (transport_poll(now_ns, &event))
            assert_true(event.payload.count == rehearsal.payload.count && event.payload.data[0] == longest[0]);
        if (event.kind == TRANSPORT_DATA) {
            peer_ports[i >= 400] = event.peer_port;
            assert_non_null(transport_message(event.connection));
            assert_true(transport_send(event.connection, 0, sizeof longest, now_ns));
        }
        for (size_t k = copy_counters(values[1]); k-- > 0;)
            sum += values[1][k] - values[0][k];
        assert_int_equal(sum, counts[rehearsal.kind]);
        assert_int_equal(((const struct net_counters *)values)->arp_tx_requests, 0); /* the peer is known */
        transport_rehearsal_end(now_ns);
    }
    assert_true(peer_ports[0] >= TRANSPORT_REHEARSAL_PEER_PORT && peer_ports[1] == peer_ports[0] + 1);
}

TEST(rehearsals_change_nothing_of_the_stack_and_send_nothing)
{
    enum { ROUNDS = 100 };
    uint64_t before[COUNTERS_MAX], after[COUNTERS_MAX];
    const uint32_t fed = wire.fed_count, sent = wire.sent_count;
    const size_t count = copy_counters(before);
    memcpy(memory_before, memory, memory_bytes);
    rehearse(ROUNDS * PART_COUNT);
    assert_int_equal(segments, ROUNDS);
    assert_int_equal(datagrams, ROUNDS);
    assert_int_equal(works, ROUNDS);
    assert_int_equal(copy_counters(after), count);
    assert_memory_equal(after, before, count * sizeof before[0]);
    assert_memory_equal(memory, memory_before, memory_bytes);
    assert_int_equal(wire.fed_count, fed);
    assert_int_equal(wire.sent_count, sent);
}

TEST(a_connection_with_the_index_of_the_twins_goes_on_and_ends)
{
    rehearse(3 * PART_COUNT);
    assert_int_equal(tcp_write(peer, theirs, "hello", 5, now_ns), 5);
    expect_data("hello");
    settle();
    transport_hold(ours, true);
    rehearse(PART_COUNT); /* the twin's connection is not held */
    assert_int_equal(segments, 4);
    assert_int_equal(tcp_write(peer, theirs, "held", 4, now_ns), 4);
    settle();
    transport_hold(ours, false);
    expect_data("held");
    settle();
    assert_non_null(transport_message(ours));
    assert_true(transport_send(ours, 0, 3, now_ns));
    tcp_abort(peer, theirs, now_ns);
    const struct transport_event event = expect(TRANSPORT_CLOSED);
    assert_true(event.connection == ours && event.reason == TRANSPORT_RESET && transport_unacked_bytes(ours) == 3);
    rehearse(2 * PART_COUNT);
    assert_int_equal(transport_unacked_bytes(ours), 3);
    connect_to_peer();
}

/* Plays the stack that the rehearsals leave alone. */
TEST(real_events_and_the_network_are_told)
{
    struct transport_event event;
    const struct transport_network *network = transport_network();
    const uint64_t arp_count = network->arp_count, heard_count = network->heard_count;
    assert_true(network->up && !network->from_dhcp && network->address == OURS && network->mask == MASK);
    assert_true(network->gateway == PEER && network->mtu_bytes == 1500 && network->lease_ends_ns == 0);
    assert_true(transport_ask_neighbour());
    settle();
    assert_true(transport_network()->arp_count == arp_count + 1 && network->heard_count == heard_count + 1);
    struct net_address *address = &((struct net_stack *)memory)->ip.address;
    const struct net_address configured = *address;
    address->gateway = 0;
    assert_false(transport_ask_neighbour());
    address->from_dhcp = true; /* the server is asked if it is on the link */
    address->dhcp.state = DHCP_BOUND;
    assert_false(transport_ask_neighbour());
    address->dhcp.lease.server = PEER;
    assert_true(transport_ask_neighbour());
    *address = configured;

    assert_true(udp_send(&peer->ip, 9, OURS, PORT, "real", 4, now_ns));
    event = expect(TRANSPORT_DATAGRAM);
    assert_true(event.address == PEER && event.peer_port == 9 && event.port == PORT && event.to_address == OURS);
    assert_true(event.connection == -1 && event.payload.count == 4 && memcmp(event.payload.data, "real", 4) == 0);
    settle();
    assert_int_equal(wire.pool.rx_out_count, 0);
    assert_true(transport_udp_send(PORT, PEER, 9, memory, TRANSPORT_DATAGRAM_BYTES_MAX, now_ns));
    assert_false(transport_udp_send(PORT, PEER, 9, memory, TRANSPORT_DATAGRAM_BYTES_MAX + 1, now_ns));

    assert_true(transport_listen(9) && !transport_listen(9));
    const int id = tcp_connect(peer, OURS, 9, 0, NULL, now_ns);
    event = expect(TRANSPORT_ACCEPTED);
    assert_true(event.address == PEER && event.port == 9 && event.connection != ours);
    rehearse(PART_COUNT); /* fetches the lines of both connections */
    transport_close(event.connection, now_ns);
    settle();
    assert_int_equal(tcp_state(peer, id), TCP_CLOSE_WAIT);
    tcp_close(peer, id, now_ns);
    expect(TRANSPORT_ENDED);
    assert_int_equal(expect(TRANSPORT_CLOSED).reason, TRANSPORT_DONE);

    const struct tcp_policy *policy = tcp_policy_get((const struct net_stack *)memory);
    assert_true(policy->nodelay && policy->tail_probe_without_sack && policy->tlp_ack_delay_us == 0 && policy->ecn);
    assert_true(policy->syn_give_up_us == 20000000 && policy->data_give_up_us == 100000000); /* SHLD-11: 100 s */
    wire.device.link_up = false;
    assert_true(!transport_network()->up && transport_connect(PEER, PORT, now_ns) == -1);
    wire.device.link_up = true;
}

TEST(a_frame_that_comes_meanwhile_is_there_after_the_slice)
{
    struct transport_event event;
    assert_int_equal(tcp_write(peer, theirs, "hello", 5, now_ns), 5);
    netdev_memory_exchange(&wire, &peer_wire);
    const uint32_t fed = wire.fed_count;
    assert_int_equal(fed, 1);
    rehearse(1);
    assert_int_equal(wire.fed_count, fed);
    assert_true(transport_poll(now_ns, &event));
    assert_int_equal(event.connection, ours);
    rehearsal_poll(false, now_ns);
    rehearsal_poll(true, now_ns);
    rehearsal_poll(true, now_ns + REHEARSAL_SLICE_NS - 1);
    assert_int_equal(plays(), 0);
}

static bool refuse(uint64_t at_ns)
{
    (void)at_ns;
    return false;
}

TEST(each_slice_that_does_not_run_counts_its_reason)
{
    const struct rehearsal_counters *c = &rehearsal_counters;
    rehearse(PART_COUNT);
    assert_int_equal(c->done, PART_COUNT);
    /* The first event after a pause finds the oldest part as old as a round of slices. */
    assert_int_equal(rehearsal_age.count, 0);
    now_ns += REHEARSAL_SLICE_NS;
    rehearsal_poll(false, now_ns);
    rehearsal_poll(false, now_ns + 1); /* is not due, and no pause came before */
    assert_int_equal(c->refused_busy, 1);
    assert_int_equal(rehearsal_age.count, 1);
    assert_int_equal(rehearsal_age.max, PART_COUNT * REHEARSAL_SLICE_NS);
    rehearsal_add_work(refuse);
    rehearse(1 + PART_COUNT); /* the first is put off by the event */
    assert_int_equal(c->refused_program, 1);
    rehearsal_poll(false, now_ns);
    assert_in_range(rehearsal_age.max, (PART_COUNT + 1) * REHEARSAL_SLICE_NS, 3 * PART_COUNT * REHEARSAL_SLICE_NS);

    assert_int_equal(tcp_write(peer, theirs, "hello", 5, now_ns), 5);
    expect(TRANSPORT_DATA); /* borrows the payload */
    rehearse(1);
    assert_int_equal(c->refused_stack, 1);
    settle();
    service_settings.wait = SERVICE_WAIT_SLEEP;
    rehearse(1);
    assert_int_equal(c->refused_sleep, 1);
    assert_int_equal(c->done, 2 * PART_COUNT - 1); /* all but the one of the program */
}

/* No other one begins while a payload is borrowed. */
TEST(a_failure_in_a_rehearsal_comes_back_to_the_real_stack)
{
    const struct transport_rehearsal rehearsal = { TRANSPORT_REHEARSAL_DATAGRAM, 1, { (const uint8_t *)"hi", 2 } };
    struct transport_event event;
    assert_true(transport_rehearsal_begin(&rehearsal, now_ns));
    transport_rehearsal_abandon(); /* the frame stays in the ring */
    assert_true(transport_rehearsal_begin(&rehearsal, now_ns));
    assert_true(transport_poll(now_ns, &event)); /* lends the made-up payload */
    transport_rehearsal_abandon();
    assert_int_equal(tcp_write(peer, theirs, "hello", 5, now_ns), 5);
    event = expect(TRANSPORT_DATA);
    assert_false(transport_rehearsal_begin(&rehearsal, now_ns));
    assert_int_equal(event.connection, ours);
    assert_memory_equal(event.payload.data, "hello", 5);
    transport_rehearsal_abandon(); /* there is none */
    settle();
}

/* The bound of a slice is one part: a frame and its answer, or the program's work. */
TEST(a_slice_is_one_part_and_comes_at_its_time)
{
    enum { STEP_NS = 10 * NS_PER_US, STEPS = 10 * PART_COUNT * (REHEARSAL_SLICE_NS / STEP_NS) };
    uint64_t last_ns = now_ns;
    rehearsal_poll(false, now_ns);
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t before = plays();
        now_ns += STEP_NS;
        rehearsal_poll(true, now_ns);
        assert_in_range(plays() - before, 0, 1);
        if (plays() == before)
            continue;
        assert_true(now_ns - last_ns >= REHEARSAL_SLICE_NS);
        last_ns = now_ns;
    }
    assert_int_equal(plays(), 3 * 10);
    now_ns += 3600 * NS_PER_S; /* a pause */
    rehearse(PART_COUNT);
    assert_int_equal(plays(), 3 * 11);
}

TEST(a_loop_that_is_busy_or_sleeps_rehearses_nothing)
{
    for (int i = 0; i < 100; i++) {
        now_ns += 10 * REHEARSAL_SLICE_NS;
        rehearsal_poll(false, now_ns);
    }
    service_settings.wait = SERVICE_WAIT_SLEEP;
    rehearse(10 * PART_COUNT);
    assert_int_equal(plays(), 0);
}

static bool play_end(uint64_t at_ns)
{
    struct transport_event event;
    assert_true(transport_poll(at_ns, &event));
    transport_abort(event.connection, at_ns);
    segments++;
    return true;
}

TEST(a_play_that_ends_its_connection_gets_another_one)
{
    rehearsal_add_frame(TRANSPORT_REHEARSAL_SEGMENT, PORT + 1, (struct bytes){ NULL, 0 }, play_end);
    rehearse(10 * PART_COUNT);
    assert_int_equal(segments, 10);
    assert_int_equal(tcp_write(peer, theirs, "hello", 5, now_ns), 5);
    expect_data("hello");
}

/* A program without work of its own loses no slice to it. */
TEST(the_stacks_own_parts_are_there_without_a_program)
{
    rehearsal_init();
    rehearsal_add_work(NULL);
    memcpy(memory_before, memory, memory_bytes);
    rehearse(10 * (PART_COUNT - 1));
    assert_memory_equal(memory, memory_before, memory_bytes);
    assert_int_equal(rehearsal_counters.done, 10 * (PART_COUNT - 1));
}
