/* app/time/program.c over a transport that the test plays. */
#include "app/time/server.h"
#include "base/slowest.h"
#include "tests/lib/program_test.h"

enum { CLIENT = 0xc0000201, ADDRESSES = 8192 }; /* the address of rehearsals, and more than are remembered */
static uint64_t now_ns;

static uint64_t clock_now(void) { return now_ns; }
static uint64_t clock_that_ticks(void) { return now_ns += 1000; }

static const struct program_machine machine = { .tsc_khz = 1000000, .now_ns = clock_now, .secret = { 1, 2, 3 } };

static void start(const char *words)
{
    now_ns = NS_PER_S;
    log_wall_origin_ns = UINT64_C(1800000000) * NS_PER_S;
    program_begin(words, &machine, now_ns);
    assert_null(program.init(&machine, now_ns));
}

/* Lets an address ask in version 4. Returns true if it is answered. */
static bool ask(uint32_t address)
{
    static const uint8_t request[NTP_PACKET_BYTES] = { NTP_VERSION << 3 | NTP_MODE_CLIENT };
    fake.datagram_count = 0;
    fake_datagram(address, TRANSPORT_REHEARSAL_PEER_PORT, NTP_PORT, request, sizeof request);
    program.turn(now_ns);
    return fake.datagram_count == 1;
}

TEST(reply_says_how_good_the_machines_own_clock_is)
{
    static const struct {
        const char *words;
        uint8_t stratum, id[4];
    } rows[] = {
        { "stratum=1 refid=GPS", 1, { 'G', 'P', 'S' } },  { "stratum=1 refid=LOCL", 1, { 'L', 'O', 'C', 'L' } },
        { "stratum=2 refid=GPS", 2, { 127, 127, 1, 1 } }, { "", 10, { 127, 127, 1, 1 } },
        { "stratum=0", 0, { 'I', 'N', 'I', 'T' } },       { "peer=192.0.2.9", 0, { 'I', 'N', 'I', 'T' } }
    };
    struct program_machine uncertain = machine;
    uncertain.wall_error_ns = NS_PER_S;
    const uint8_t *reply = fake.datagrams[0].data;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char words[80];
        snprintf(words, sizeof words, "%s root.delay=2 root.dispersion=3", rows[i].words);
        start(words);
        assert_null(program.init(&uncertain, now_ns));
        ask(CLIENT);
        assert_true(fake.datagram_count > 0 && fake.datagrams[0].address == CLIENT);
        assert_true(reply[0] >> 6 == (rows[i].stratum ? 0 : NTP_LEAP_UNKNOWN) && reply[1] == rows[i].stratum);
        assert_memory_equal(reply + 12, rows[i].id, 4);
        assert_int_equal(load_be32(reply + 4), rows[i].stratum ? 2 << 16 : 0);
        assert_int_equal(load_be32(reply + 8), rows[i].stratum ? 4 << 16 : 16 << 16);
        const uint64_t stamp = rows[i].stratum ? ntp_stamp((int64_t)(log_wall_origin_ns + now_ns)) : 0;
        assert_true(load_be64(reply + 16) == stamp);
    }
    start("");
    log_wall_origin_ns = 0;
    assert_null(program.init(&machine, now_ns));
    assert_true(ask(CLIENT));
    assert_int_equal(reply[0] >> 6, NTP_LEAP_UNKNOWN);
}

/* The question's nonce is drawn by the machine's secret. */
TEST(peer_is_asked)
{
    struct program_machine other = machine;
    uint8_t question[2][NTP_PACKET_BYTES];
    for (int i = 0; i < 2; i++) {
        start("peer=192.0.2.9");
        other.secret[31] = (uint8_t)i;
        assert_null(program.init(&other, now_ns));
        while (fake.datagram_count == 0 && now_ns < 20 * NS_PER_S)
            program.turn(now_ns += NS_PER_S / 10);
        assert_int_equal(fake.datagrams[0].address, 0xc0000209);
        memcpy(question[i], fake.datagrams[0].data, sizeof question[i]);
    }
    assert_memory_not_equal(question[0], question[1], NTP_PACKET_BYTES);
    assert_true(counter("ntp.peer.requests") > 0 && counter("clock.delay_ns") == 0);
}

/* RFC 5905 §7.3: log2 of a second, rounded up. Each reading takes a microsecond, and so does each stage of a reply. */
TEST(precision_is_the_time_of_a_reading)
{
    struct slow_way ways[SLOWEST_COUNT];
    struct program_machine ticking = machine;
    ticking.now_ns = clock_that_ticks;
    start("");
    assert_null(program.init(&ticking, now_ns));
    slowest_clear();
    fake_datagram(CLIENT, TRANSPORT_REHEARSAL_PEER_PORT, NTP_PORT, "short", 5);
    program.turn(now_ns);
    assert_int_equal(slowest_list(ways, now_ns), 0);
    assert_true(ask(CLIENT));
    assert_int_equal((int8_t)fake.datagrams[0].data[3], -19);
    assert_true(slowest_list(ways, now_ns) == 1 && ways[0].total_ns == 3000);
    for (int i = 0; i < SLOWEST_STAGE_COUNT; i++)
        assert_int_equal(ways[0].stage_ns[i], 1000);
}

TEST(what_the_network_refuses_is_reported)
{
    start("");
    fake.refuse_udp = fake.refuse_udp_bind = true;
    assert_false(ask(CLIENT));
    assert_int_equal(ntp_server_counters.send_failed, 1);
    assert_non_null(strstr(program.init(&machine, now_ns), "port"));
}

TEST(a_rehearsal_sends_what_a_client_is_sent)
{
    start("");
    fake.rehearses = true;
    while (fake.rehearsed.bytes == 0 && now_ns < 2 * NS_PER_S)
        program.turn(now_ns += REHEARSAL_SLICE_NS);
    assert_true(rehearsal_counters.done > 0 && rehearsal_counters.refused_program == 0);
    assert_true(ask(CLIENT));
    assert_memory_equal(&fake.rehearsed, &fake.datagrams[0], sizeof fake.rehearsed);
}

/* Asks at random, twice: in the second pass with rehearsals between the requests. */
TEST(rehearsals_change_no_answer_and_no_counter)
{
    enum { ACTS = 20000 };
    static struct ntp_server_counters after[ACTS];
    static uint8_t replies[ACTS][NTP_PACKET_BYTES];
    for (int pass = 0; pass < 2; pass++) {
        random_seed(1);
        start("rate=2 rate.burst=2");
        fake.rehearses = pass == 1;
        for (int i = 0; i < ACTS; i++) {
            fake.rehearsal_lost = random_below(8) == 0;
            program.turn(now_ns += REHEARSAL_SLICE_NS);
            if (random_below(2) == 0)
                ask(CLIENT + (random_below(8) == 0 ? 0 : (uint32_t)random_below(ADDRESSES)));
            assert_true(pass == 0 || !memcmp(&after[i], &ntp_server_counters, sizeof after[i]));
            assert_true(pass == 0 || !memcmp(replies[i], fake.datagrams[0].data, NTP_PACKET_BYTES));
            after[i] = ntp_server_counters;
            memcpy(replies[i], fake.datagrams[0].data, NTP_PACKET_BYTES);
        }
    }
    assert_true(fake.rehearsed.bytes > 0);
}
