/* app/survey/: the round trips over a fake transport, and the rows on a fake machine. */
#include "app/machine.h"
#include "app/service/stats.h"
#include "app/survey/echo.h"
#include "app/survey/rows.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

enum { PEER = 0xc0000201, PEER_PORT = 7, PORT = 50000, TSC_KHZ = 2000000, PROBE_CYCLES = 800 };

static uint64_t now_ns;
static uint64_t clock_now(void) { return now_ns; }

/* ---- a fake machine: it can write to a port, wake by MSI, spin, and sleep if the test lets it ---- */

static enum machine_probe begun;
static bool is_begun;
static const char *sleep_refusal;

const char *machine_probe_refusal(enum machine_probe probe)
{
    return probe == MACHINE_PORT_WRITE || probe >= MACHINE_WAKE_MSI ? NULL : "the test's machine cannot";
}

void machine_probe_begin(enum machine_probe probe)
{
    assert_false(is_begun);
    is_begun = true;
    begun = probe;
}

void machine_probe_end(void) { is_begun = false; }

uint64_t machine_probe_cycles(enum machine_probe probe)
{
    assert_true(is_begun && probe == begun);
    return PROBE_CYCLES;
}

const char *machine_sleep_refusal(void) { return sleep_refusal; }

/* ---- round trips ---- */

static void start_echo(uint64_t pause_ns)
{
    const struct survey_echo_config config = { { PEER, PEER_PORT }, PORT, clock_now };
    fake_reset();
    now_ns = NS_PER_S;
    assert_true(survey_echo_init(&config));
    survey_echo_begin(pause_ns, now_ns);
}

/* Delivers a reply like the newest datagram. Returns the survey's result. */
static uint64_t reply(uint32_t address, uint16_t port, size_t bytes)
{
    const struct fake_datagram *sent = &fake.datagrams[fake.datagram_count - 1];
    struct transport_event event = { .kind = TRANSPORT_DATAGRAM, .address = address, .peer_port = port, .port = PORT };
    event.payload = (struct bytes){ sent->data, bytes };
    return survey_echo_datagram(&event, now_ns);
}

TEST(echo_round_trip_is_timed_and_the_next_one_waits)
{
    start_echo(NS_PER_MS);
    survey_echo_poll(now_ns);
    assert_int_equal(fake.datagram_count, 1);
    assert_int_equal(fake.datagrams[0].address, PEER);
    assert_int_equal(fake.datagrams[0].to_port, PEER_PORT);
    assert_int_equal(fake.datagrams[0].bytes, SURVEY_ECHO_BYTES);
    now_ns += 70000;
    assert_int_equal(reply(PEER, PEER_PORT, SURVEY_ECHO_BYTES), 70000);
    assert_int_equal(survey_echo_next_deadline_ns(), now_ns + NS_PER_MS);
    survey_echo_poll(now_ns);
    assert_int_equal(fake.datagram_count, 1);
    now_ns += NS_PER_MS;
    survey_echo_poll(now_ns);
    assert_int_equal(fake.datagram_count, 2);
    assert_int_equal(survey_echo_counters.answered, 1);
}

TEST(echo_of_others_and_second_copies_are_no_round_trips)
{
    start_echo(0);
    survey_echo_poll(now_ns);
    now_ns += 1000;
    assert_int_equal(reply(PEER + 1, PEER_PORT, SURVEY_ECHO_BYTES), 0);
    assert_int_equal(reply(PEER, PEER_PORT + 1, SURVEY_ECHO_BYTES), 0);
    assert_int_equal(reply(PEER, PEER_PORT, SURVEY_ECHO_BYTES - 1), 0);
    assert_int_equal(reply(PEER, PEER_PORT, 0), 0);
    assert_int_equal(reply(PEER, PEER_PORT, SURVEY_ECHO_BYTES), 1000);
    assert_int_equal(reply(PEER, PEER_PORT, SURVEY_ECHO_BYTES), 0);
    assert_int_equal(survey_echo_counters.foreign, 5);
}

TEST(echo_that_is_lost_is_counted_and_the_next_one_leaves)
{
    start_echo(0);
    survey_echo_poll(now_ns);
    now_ns += SURVEY_ECHO_LOST_MS * NS_PER_MS;
    survey_echo_poll(now_ns);
    assert_int_equal(survey_echo_counters.lost, 1);
    assert_int_equal(fake.datagram_count, 2);
    assert_memory_not_equal(fake.datagrams[0].data, fake.datagrams[1].data, SURVEY_ECHO_BYTES);
}

TEST(echo_is_tried_again_while_the_network_is_down)
{
    start_echo(0);
    fake.refuse_udp = true;
    survey_echo_poll(now_ns);
    assert_int_equal(survey_echo_counters.sent, 0);
    fake.refuse_udp = false;
    now_ns = survey_echo_next_deadline_ns();
    survey_echo_poll(now_ns);
    assert_int_equal(survey_echo_counters.sent, 1);
    assert_int_equal(survey_echo_counters.lost, 0);
}

/* ---- the rows ---- */

/* Finds a line of the statistics by its name; "": there is none. */
static const char *line_of(const char *name)
{
    static char line[STATS_LINE_BYTES_MAX];
    for (size_t i = 0; stats_line(i, line, sizeof line) != 0; i++)
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ' ')
            return line + strlen(name) + 1;
    return "";
}

static void start_rows(uint64_t duration_ns, uint32_t echo_address)
{
    const struct program_machine machine = { .tsc_khz = TSC_KHZ, .now_ns = clock_now, .secret = { 1, 2, 3 } };
    const struct survey_config config = { &machine, duration_ns, { echo_address, PEER_PORT } };
    fake_reset();
    stats_clear();
    is_begun = false;
    now_ns = NS_PER_S;
    assert_null(survey_rows_init(&config, now_ns));
}

TEST(each_row_has_its_share_and_refused_rows_give_the_reason)
{
    start_rows(60 * NS_PER_S, 0);
    uint64_t worked_ns = now_ns;
    while (survey_rows_work(now_ns)) {
        assert_int_equal(survey_rows_next_deadline_ns(now_ns), now_ns);
        now_ns += NS_PER_S;
    }
    assert_in_range(now_ns - worked_ns, 55 * NS_PER_S, 65 * NS_PER_S);
    assert_false(is_begun);
    assert_false(survey_rows_work(now_ns));
    assert_string_equal(line_of("survey.port_write"), "OUT to port 0x80, which the VMM handles\n");
    assert_string_equal(line_of("survey.port_write.p50_ns"), "400\n");
    assert_int_not_equal(atoi(line_of("survey.port_write.count")), 0);
    assert_int_not_equal(atoi(line_of("survey.gap.count")), 0);
    assert_int_not_equal(atoi(line_of("survey.matcher_scalar.count")), 0);
    assert_int_not_equal(atoi(line_of("survey.matcher_beside.count")), 0);
    assert_string_equal(line_of("survey.exit"), "not measured: the test's machine cannot\n");
    assert_string_equal(line_of("survey.exit.count"), "0\n");
    assert_string_equal(line_of("survey.echo"), "not measured: echo= is not given\n");
    assert_int_equal(fake.datagram_count, 0);
}

TEST(round_trips_are_rows_and_one_of_them_sleeps)
{
    bool slept = false;
    sleep_refusal = NULL;
    start_rows(8 * NS_PER_S, PEER);
    for (uint32_t answered = 0; survey_rows_work(now_ns);) {
        slept |= survey_rows_next_deadline_ns(now_ns) > now_ns;
        now_ns += 100 * NS_PER_MS;
        if (answered == fake.datagram_count)
            continue;
        assert_true(answered < FAKE_DATAGRAM_COUNT);
        const struct fake_datagram *sent = &fake.datagrams[answered++];
        const struct transport_event event = { .kind = TRANSPORT_DATAGRAM,
                                               .address = PEER,
                                               .peer_port = PEER_PORT,
                                               .port = survey_rows_echo_port(),
                                               .payload = { sent->data, sent->bytes } };
        assert_int_equal(sent->from_port, survey_rows_echo_port());
        survey_rows_datagram(&event, now_ns);
    }
    assert_true(slept);
    assert_int_equal(atoi(line_of("survey.echo.max_ns")), 100 * NS_PER_MS);
    assert_int_equal(atoi(line_of("survey.echo_asleep.max_ns")), 100 * NS_PER_MS);
    assert_string_equal(line_of("survey.wake_msi.p50_ns"), "400\n");
    assert_int_not_equal(atoi(line_of("survey.ring_to_ring.count")), 0);
    sleep_refusal = "the test's machine does not sleep";
    start_rows(8 * NS_PER_S, PEER);
    assert_string_equal(line_of("survey.echo_asleep"), "not measured: the test's machine does not sleep\n");
}
