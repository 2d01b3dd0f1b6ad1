/* app/echo/program.c over a transport that the test plays. */
#define _GNU_SOURCE
#include <string.h>

#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "base/log.h"
#include "base/trace.h"
#include "net/settings.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

enum { PORT = 4242, CONNECTION_COUNT = 8, PEER = 0x0a000202 };
static uint64_t now_ns;

BEFORE_EACH()
{
    static struct settings settings;
    const struct program_machine machine = { .tsc_khz = 1000000 };
    service_settings_begin(&settings, program.name, program.settings, NULL);
    settings_add(&settings, "test", "port=4242", 9);
    assert_true(settings_finish(&settings));
    fake_reset();
    stats_clear();
    now_ns = NS_PER_S;
    assert_null(service_init(machine.secret, false, now_ns));
    assert_null(program.init(&machine, now_ns));
}

static void wait(uint64_t ns)
{
    for (uint64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += 100 * NS_PER_MS)
        program.turn(now_ns);
}

static uint64_t counter_value(const char *name)
{
    const uint64_t *value = stats_find(NULL, name);
    assert_non_null(value);
    return *value;
}

static int opened(void)
{
    int id = fake_accepted(PORT);
    assert_true(id >= 0);
    program.turn(now_ns);
    return id;
}

/* Turns until the program ends, for at most so long. Returns the time. */
static uint64_t until_lost(uint64_t ns)
{
    uint64_t begun_ns = now_ns;
    while (now_ns < begun_ns + ns && program.turn(now_ns) == PROGRAM_ON)
        now_ns += 50 * NS_PER_MS;
    return now_ns - begun_ns;
}

TEST(card_that_takes_nothing_more_ends_the_run_after_net_timeout)
{
    fake.neighbour = true;
    wait(10 * NS_PER_S);
    fake.network.heard_count++;
    assert_int_equal(until_lost(30 * NS_PER_S), 30 * NS_PER_S);
    assert_int_equal(counter_value("network.silence_ns"), 0); /* nobody has been asked */
    char line[LOG_LINE_BYTES_MAX];
    uint64_t at = log_end();
    assert_int_equal(until_lost(100 * NS_PER_S), 30 * NS_PER_S);
    assert_int_equal(program.turn(now_ns), PROGRAM_NETWORK_LOST);
    assert_int_equal(fake.asked_count, 5);
    assert_int_equal(counter_value("network.asked"), 5);
    assert_int_equal(counter_value("network.silence_ns"), 60 * NS_PER_S);
    assert_true(log_read(&at, line) != 0 && strstr(line, "no frame for 60000 ms, nor an answer to 5 ARP requests;"));
}

TEST(idle_network_whose_gateway_answers_is_no_reason_to_end)
{
    fake.neighbour = true;
    for (int i = 0; i < 100; i++) {
        uint32_t asked_count = fake.asked_count;
        while (fake.asked_count == asked_count)
            wait(100 * NS_PER_MS);
        fake.network.heard_count++;
        fake.network.arp_count++;
    }
    assert_true(now_ns > 2000 * NS_PER_S);
    assert_int_equal(program.turn(now_ns), PROGRAM_ON);
    fake.neighbour = false; /* nobody is left to ask */
    assert_int_equal(until_lost(200 * NS_PER_S), 200 * NS_PER_S);
    fake.asked_count = 0;
    service_settings.net_timeout_ns = 0; /* never */
    wait(NS_PER_S);
    assert_int_equal(fake.asked_count, 0);
}

TEST(silence_does_not_count_while_the_machine_stands_still)
{
    fake.neighbour = true;
    until_lost(55 * NS_PER_S);
    now_ns += 100 * NS_PER_S;
    assert_int_equal(until_lost(100 * NS_PER_S), 60 * NS_PER_S);
}

TEST(network_that_is_down_is_polled_and_logged_each_second)
{
    char line[LOG_LINE_BYTES_MAX], next[80] = "network: up, 10.0.2.15 mask ";
    uint64_t at = log_end();
    program.turn(now_ns);
    program.turn(now_ns + NS_PER_MS); /* is no change */
    assert_int_equal(service_next_deadline_ns(now_ns), now_ns + 100 * NS_PER_MS);
    fake.network.up = false;
    fake.network.waiting_for = "DHCP";
    wait(5 * NS_PER_S + NS_PER_S / 2);
    unsigned lines = 0;
    for (; log_read(&at, line) != 0; snprintf(next, sizeof next, "network: down for %u s, waiting for DHCP\n", ++lines))
        assert_non_null(strstr(line, next));
    assert_int_equal(lines, 6);
    assert_int_equal(service_next_deadline_ns(now_ns), now_ns + NS_PER_MS);
    assert_int_equal(counter_value("program.uptime_ns"), 5 * NS_PER_S + 4 * NS_PER_S / 10);
    const char *name;
    bool has_age = false;
    for (size_t i = 0; stats_histogram(NULL, i, &name, NULL); i++)
        has_age |= strcmp(name, "rehearsal.age") == 0;
    assert_true(has_age);
}

/* The page and the log have all idle time. In a second without any, they have none. */
TEST(busy_program_leaves_the_page_a_slice_each_millisecond)
{
    enum { HTTP_PORT = 8080, STEPS = 4 };
    static const uint8_t secret[32];
    stats_clear();
    service_settings.http_port = HTTP_PORT;
    assert_null(service_init(secret, false, now_ns));
    for (int i = 0; i < SERVICE_CONNECTION_COUNT; i++)
        service_event(&(struct transport_event){ .kind = TRANSPORT_ACCEPTED, .port = HTTP_PORT, .connection = i },
                      now_ns);
    service_poll(true, now_ns);
    for (int i = 1; i < 1010 * STEPS; i++) {
        trace.work = 0;
        service_poll(false, now_ns + i * NS_PER_MS / STEPS);
        assert_int_equal(trace.work >> TRACE_WORK_PAGE & 1, i >= 1000 * STEPS && i % STEPS == 0);
    }
}

/* Plays a gateway that gwmac= names. It may be one that forwards and answers no ARP. */
TEST(gateway_of_gwmac_counts_after_its_first_answer)
{
    static const uint8_t secret[32];
    fake.neighbour = true;
    network_settings.gateway_mac[0] = 2;
    stats_clear();
    assert_null(service_init(secret, false, now_ns));
    network_settings.gateway_mac[0] = 0;
    assert_int_equal(until_lost(200 * NS_PER_S), 200 * NS_PER_S);
    fake.network.heard_count++;
    fake.network.arp_count++;
    assert_int_equal(until_lost(100 * NS_PER_S), 60 * NS_PER_S);
}

TEST(agent_check_says_the_free_places)
{
    enum { AGENT_PORT = 4243 };
    static const uint8_t secret[32];
    stats_clear();
    service_settings.agent_port = AGENT_PORT;
    assert_null(service_init(secret, false, now_ns));
    assert_int_equal(fake.listening, AGENT_PORT);
    assert_true(fake_accepted(PORT) >= 0 && fake_accepted(PORT) >= 0);
    int id = fake_accepted(AGENT_PORT);
    program.turn(now_ns);
    assert_string_equal(fake.connections[id].sent, "up ready 75%\n");
    assert_true(fake.connections[id].closed_by_us);
}

TEST(all_bytes_come_back_and_then_the_end)
{
    static uint8_t data[5000];
    int id = opened();
    struct fake_connection *c = &fake.connections[id];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i % 251);
    fake_connected(id); /* comes to programs that connect, and is nothing here */
    fake_data(id, data, sizeof data);
    fake_ended(id);
    for (int i = 0; i < 10 && !c->closed_by_us; i++) {
        program.turn(now_ns);
        assert_true(c->closed_by_us || program.next_deadline_ns(now_ns) <= now_ns); /* nobody sleeps meanwhile */
    }
    assert_true(c->closed_by_us);
    assert_int_equal(c->sent_bytes, sizeof data);
    assert_memory_equal(c->sent, data, sizeof data);
}

TEST(silence_keeps_no_place)
{
    int ids[CONNECTION_COUNT];
    for (int i = 0; i < CONNECTION_COUNT; i++)
        ids[i] = opened();
    int more = fake_accepted(PORT);
    fake_text(more, "x"); /* ignored */
    fake_ended(more);
    program.turn(now_ns);
    assert_true(fake.connections[more].aborted_by_us);
    wait(59 * NS_PER_S);
    fake_text(ids[0], "x");
    wait(2 * NS_PER_S);
    assert_false(fake.connections[ids[0]].aborted_by_us);
    for (int i = 1; i < CONNECTION_COUNT; i++)
        assert_true(fake.connections[ids[i]].aborted_by_us);
    int again = opened();
    fake_text(again, "echo");
    wait(NS_PER_S);
    assert_string_equal(fake.connections[again].sent, "echo");
}

TEST(a_silent_connection_gives_way_to_a_newcomer)
{
    int ids[CONNECTION_COUNT];
    for (int i = 0; i < CONNECTION_COUNT; i++)
        ids[i] = opened();
    wait(NS_PER_S / 2);
    fake_text(ids[0], "x");
    wait(NS_PER_S / 2);
    int newcomer = opened();
    assert_true(fake.connections[ids[1]].aborted_by_us); /* silent the longest */
    assert_false(fake.connections[ids[0]].aborted_by_us);
    assert_int_equal(counter_value("echo.displaced"), 1);
    fake_text(newcomer, "echo");
    wait(NS_PER_S / 10);
    assert_string_equal(fake.connections[newcomer].sent, "echo");
}

TEST(who_sends_and_does_not_read_is_cut_off)
{
    static const uint8_t data[TRANSPORT_DATA_BYTES_MAX];
    int id = opened();
    fake.connections[id].window_bytes = 0;
    for (size_t bytes = 0; bytes <= 64 * 1024; bytes += sizeof data) {
        assert_false(fake.connections[id].aborted_by_us);
        fake_data(id, data, sizeof data);
        program.turn(now_ns);
    }
    assert_true(fake.connections[id].aborted_by_us);
}

TEST(datagrams_come_back_but_not_to_another_echo)
{
    static const uint8_t data[TRANSPORT_DATAGRAM_BYTES_MAX + 1];
    static const uint16_t echoes[] = { 0, PORT, 7, 19, 53, 123, 1023 };
    for (size_t i = 0; i < sizeof echoes / sizeof echoes[0]; i++)
        fake_datagram(PEER, echoes[i], PORT, data, 4);
    fake_datagram(PEER, 40000, PORT, data, sizeof data); /* longer than is sent */
    program.turn(now_ns);
    assert_int_equal(fake.datagram_count, 0);
    assert_int_equal(counter_value("echo.drop_port"), sizeof echoes / sizeof echoes[0]);
    assert_int_equal(counter_value("echo.drop_unsent"), 1);
    fake_datagram(PEER, 1024, PORT, data, 0);
    fake_datagram(PEER, 40000, PORT, "abc", 3);
    program.turn(now_ns);
    assert_int_equal(fake.datagram_count, 2);
    assert_int_equal(fake.datagrams[1].to_port, 40000);
    assert_memory_equal(fake.datagrams[1].data, "abc", 3);
}

/* Takes one datagram; returns true if it was answered. */
static bool is_answered(uint16_t port, uint32_t text)
{
    fake.datagram_count = 0;
    fake_datagram(PEER, port, PORT, &text, sizeof text);
    program.turn(now_ns);
    return fake.datagram_count == 1;
}

/* Plays a server in whose name datagrams were forged: it answers each of our answers. Some loops share a place. */
TEST(an_answer_to_an_answer_ends)
{
    enum { LOOPS = 1000, ROUNDS_MAX = 1024 * 20 };
    static bool runs[LOOPS];
    uint32_t running = LOOPS, rounds = 0;
    memset(runs, true, sizeof runs);
    for (; running > 0 && rounds < ROUNDS_MAX; rounds++) {
        now_ns += NS_PER_S / 40; /* a round trip of 25 ms */
        for (uint32_t i = 0; i < LOOPS; i++)
            if (runs[i] && !is_answered(8888, i)) {
                runs[i] = false;
                running--;
            }
    }
    assert_int_equal(running, 0);
}

/* Plays a stranger who holds every place by a datagram of his own each 0.6 s, and a loop. The loop ends. */
TEST(a_stranger_who_holds_the_places_keeps_no_loop_alive)
{
    enum { OTHERS = 4096 };
    uint64_t others_ns = 0, end_ns = now_ns + 12 * NS_PER_S;
    bool runs = true;
    for (; runs && now_ns < end_ns; now_ns += NS_PER_S / 1000) {
        for (uint32_t i = 0; now_ns >= others_ns && i < OTHERS; i++)
            is_answered(8889, i);
        if (now_ns >= others_ns)
            others_ns = now_ns + 600 * NS_PER_MS;
        runs = is_answered(8888, 1);
    }
    assert_false(runs);
}

/* Finds out which of 16 loops share a place with one of 128 other datagrams: others under another secret. */
TEST(places_differ_from_run_to_run)
{
    enum { ROUNDS = 1024, OTHERS = 128 };
    struct program_machine machine = { .secret = { 0 } };
    uint32_t held[2] = { 0 };
    for (uint8_t run = 0; run < ARRAY_COUNT(held); run++) {
        machine.secret[0] = run;
        stats_clear();
        assert_null(program.init(&machine, now_ns));
        for (uint32_t loop = 0; loop < 16; loop++) {
            now_ns += 20 * NS_PER_S;
            for (uint32_t i = 0; i < OTHERS; i++)
                is_answered(8889, i);
            bool runs = true;
            for (int i = 0; i < ROUNDS && runs; i++)
                runs = is_answered(8888, loop);
            held[run] |= (uint32_t)runs << loop;
        }
    }
    assert_int_not_equal(held[0], held[1]);
}

/* Plays a client that sends equal datagrams and loses one of 1,024, and a client of differing ones that loses none. */
TEST(clients_lose_next_to_nothing)
{
    uint32_t answers = 0;
    for (uint32_t i = 0; i < 4096; i++) {
        answers += is_answered(40000, 0);
        assert_true(is_answered(40001, i));
    }
    assert_int_equal(answers, 4092);
}

TEST(rehearsals_answer_and_change_nothing)
{
    enum { SLICES = 100 };
    uint64_t before[STATS_COUNTER_COUNT_MAX];
    struct counter_group c;
    size_t count = 0;
    int id = opened();
    fake.rehearses = true;
    for (; stats_counter(NULL, count, &c); count++)
        before[count] = *c.values;
    for (int i = 0; i < SLICES; i++, now_ns += REHEARSAL_SLICE_NS)
        program.turn(now_ns);
    assert_true(fake.rehearsed_bytes > SLICES);
    assert_in_range(counter_value("rehearsal.done"), SLICES - 1, SLICES); /* the first turn had an event */
    assert_int_equal(counter_value("rehearsal.refused_program"), 0);
    fake.rehearsal_lost = true;
    for (int i = 0; i < SLICES; i++, now_ns += REHEARSAL_SLICE_NS)
        program.turn(now_ns);
    for (size_t i = 0; stats_counter(NULL, i, &c); i++)
        assert_true(*c.values == before[i] || strcmp(c.counters->name, "uptime_ns") == 0
                    || strcmp(c.prefix, "rehearsal.") == 0);
    assert_int_equal(fake.connections[id].sent_bytes, 0);
    assert_int_equal(fake.datagram_count, 0);
    assert_true(program.next_deadline_ns(now_ns) > now_ns);
}

/* Sends the rehearsal's own datagram. The segment has its bytes, too. */
TEST(rehearsals_are_no_part_of_a_loop)
{
    enum { SLICES = 12 }; /* two of each kind */
    const struct fake_datagram *d = &fake.rehearsed;
    const struct fake_connection *c = &fake.connections[FAKE_REHEARSED];
    uint32_t segments = 0;
    fake.rehearses = true;
    for (int i = 1; i <= 1024; i++) {
        for (int slice = 0; slice < SLICES; slice++, now_ns += REHEARSAL_SLICE_NS) {
            program.turn(now_ns);
            segments += c->sent_bytes > 0;
            assert_true(c->sent_bytes == 0 || (c->sent_bytes == d->bytes && !memcmp(c->sent, d->data, d->bytes)));
        }
        fake.datagram_count = 0;
        fake_datagram(d->address, d->to_port, PORT, d->data, d->bytes);
        program.turn(now_ns);
        assert_int_equal(fake.datagram_count, i < 1024);
        assert_true(i == 1024 || memcmp(&fake.datagrams[0], d, sizeof *d) == 0);
    }
    assert_true(d->bytes > 0 && segments > 1024);
}

TEST(a_turn_takes_sixteen_events)
{
    for (int i = 0; i < 20; i++)
        fake_datagram(PEER, 40000, PORT, "abc", 3);
    program.turn(now_ns);
    assert_int_equal(fake.datagram_count, 16);
    program.turn(now_ns);
    assert_int_equal(fake.datagram_count, 20);
}

TEST(a_port_that_cannot_be_had_is_reported)
{
    const struct program_machine machine = { .tsc_khz = 1000000 };
    fake.refuse_listen = true;
    assert_non_null(strstr(program.init(&machine, now_ns), "port=: "));
    fake.refuse_listen = false;
    fake.refuse_udp_bind = true;
    assert_non_null(strstr(program.init(&machine, now_ns), "port=: "));
}
