/* app/time/client.c over a fake transport: the times of its requests, and the replies that it accepts. */
#include "app/time/client.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/logged.h"
#include "tests/lib/test.h"

#define S  INT64_C(1000000000)
#define MS INT64_C(1000000)

enum { PEER = 0xc0000201, PEER_PORT = 123 };
static uint64_t now_ns;
static struct ntp_clock ntp_clock;
static struct ntp_reference reference;
static int64_t server_ns; /* the server's time less the machine's */

static uint64_t clock_now(void) { return now_ns; }

static void start_with(uint64_t key, uint64_t poll_ns)
{
    const struct ntp_client_config config = {
        .address = PEER, .port = PEER_PORT, .poll_ns = poll_ns, .key = { key, 2 }, .now_ns = clock_now
    };
    fake_reset();
    now_ns = 10 * (uint64_t)S;
    server_ns = 1800000000 * S;
    assert_true(ntp_client_init(&config, now_ns));
    ntp_clock_init(&ntp_clock, 0, now_ns);
    reference = ntp_reference_none();
}

static void start(void) { start_with(1, 16 * (uint64_t)S); }
BEFORE_EACH() { start(); }

/* Lets the client send a request, and returns the request. */
static struct ntp_packet request(void)
{
    struct ntp_packet p = { 0 };
    fake.datagram_count = 0;
    assert_true(ntp_client_next_deadline_ns() < UINT64_MAX);
    if (ntp_client_next_deadline_ns() > now_ns)
        now_ns = ntp_client_next_deadline_ns();
    ntp_client_poll(now_ns);
    assert_int_equal(fake.datagram_count, 1);
    assert_int_equal(fake.datagrams[0].address, PEER);
    assert_int_equal(fake.datagrams[0].to_port, PEER_PORT);
    assert_int_equal(fake.datagrams[0].bytes, NTP_PACKET_BYTES);
    ntp_packet_read(&p, fake.datagrams[0].data);
    return p;
}

/* Returns a good answer, which takes 2 ms, one of them in the server. */
static struct ntp_packet answer_to(const struct ntp_packet *asked)
{
    struct ntp_packet p = { .version = 4,
                            .mode = NTP_MODE_SERVER,
                            .stratum = 2,
                            .root_delay_ns = 10 * MS,
                            .root_dispersion_ns = 5 * MS,
                            .origin = asked->transmit };
    p.receive = ntp_stamp(server_ns + (int64_t)now_ns + MS / 2);
    p.transmit = ntp_stamp(server_ns + (int64_t)now_ns + 3 * MS / 2);
    return p;
}

static void deliver_from(uint32_t address, uint16_t port, const struct ntp_packet *p, size_t bytes)
{
    uint8_t *wire = test_malloc(NTP_PACKET_BYTES);
    ntp_packet_write(p, wire);
    struct transport_event event = { .kind = TRANSPORT_DATAGRAM,
                                     .payload = { wire, bytes },
                                     .address = address,
                                     .peer_port = port,
                                     .port = ntp_client_port() };
    ntp_client_datagram(&event, now_ns, &ntp_clock, &reference);
    test_free(wire);
}

static void deliver(const struct ntp_packet *p)
{
    now_ns += 2 * (uint64_t)MS;
    deliver_from(PEER, PEER_PORT, p, NTP_PACKET_BYTES);
}

/* Plays one whole exchange. */
static void exchange(void)
{
    struct ntp_packet asked = request(), p = answer_to(&asked);
    deliver(&p);
}

TEST(request_reveals_nothing_except_its_mode)
{
    struct ntp_packet p = request();
    assert_int_equal(p.version, 4);
    assert_int_equal(p.mode, NTP_MODE_CLIENT);
    assert_int_equal(p.leap | p.stratum | p.poll | p.precision, 0);
    assert_int_equal(p.root_delay_ns | p.root_dispersion_ns | p.reference_id, 0);
    assert_true((p.reference | p.origin | p.receive) == 0 && p.transmit != 0);
    assert_in_range(fake.datagrams[0].from_port, 49152, 65535);
    uint16_t port = ntp_client_port();
    uint64_t first = p.transmit;
    assert_true(request().transmit != first);
    start_with(9, 16 * (uint64_t)S);
    assert_true(ntp_client_port() != port && request().transmit != first);
}

TEST(four_exchanges_in_six_seconds_set_the_clock)
{
    uint64_t began_ns = now_ns;
    for (int i = 0; i < 3; i++)
        exchange();
    assert_int_equal(reference.stratum, NTP_STRATUM_UNSYNCHRONISED);
    exchange();
    assert_int_equal(now_ns - began_ns, 6 * S + 2 * MS);
    assert_int_equal(reference.stratum, 3);
    assert_int_equal(reference.id, PEER);
    assert_int_equal(reference.leap, 0);
    assert_in_range(llabs(ntp_clock_ns(&ntp_clock, now_ns) - server_ns - (int64_t)now_ns), 0, 100);
    assert_int_equal(ntp_client_counters.steps, 1);
    for (int i = 0; i < 5; i++)
        exchange();
    assert_int_equal(ntp_client_next_deadline_ns(), now_ns - 2 * MS + 16 * S); /* the burst is over */
}

/* Lets the server's time jump after the first step, back and ahead. */
TEST(reference_and_levels_say_how_wrong_the_clock_may_be)
{
    const struct ntp_client_levels *l = (const void *)ntp_client_level_group.values;
    for (int64_t ahead = 0; ahead <= 1; ahead++) {
        uint64_t at = log_end();
        start();
        assert_int_equal(l->delay_ns, 0);
        for (int i = 0; i < 5; i++, server_ns += i == 4 ? (2 * ahead - 1) * 3 * MS : 0)
            exchange();
        assert_true(is_logged(&at, "ntp: clock stepped by 1800000010000000 us to the time of 192.0.2.1, delay 1000"));
        assert_in_range(ahead ? l->peer_ahead_ns : l->peer_behind_ns, 3 * MS - 5000, 3 * MS + 5000);
        assert_in_range(ahead ? l->machine_slow_ppb : l->machine_fast_ppb, 100000, 500000);
        assert_int_equal(ahead ? l->peer_behind_ns + l->machine_fast_ppb : l->peer_ahead_ns + l->machine_slow_ppb, 0);
        assert_in_range(l->delay_ns, MS - 2, MS + 2);
        assert_in_range(l->jitter_ns, MS, 4 * MS);
        assert_int_equal(reference.root_delay_ns, 10009766 + l->delay_ns);
        assert_int_equal(reference.root_dispersion_ns,
                         5004883 + l->jitter_ns + 15 + l->peer_ahead_ns + l->peer_behind_ns);
    }
}

TEST(reply_without_our_origin_is_dropped)
{
    struct ntp_packet asked = request(), p = answer_to(&asked);
    p.origin++;
    deliver(&p);
    p.origin = 0;
    deliver(&p);
    assert_int_equal(ntp_client_counters.drop_origin, 2);
    p = answer_to(&asked);
    deliver(&p);
    assert_int_equal(ntp_client_counters.replies, 1);
    deliver(&p); /* again: replayed */
    assert_int_equal(ntp_client_counters.drop_origin, 3);
    assert_int_equal(ntp_client_counters.replies, 1);
}

TEST(reply_from_another_address_or_port_is_dropped)
{
    struct ntp_packet asked = request(), p = answer_to(&asked);
    deliver_from(PEER + 1, PEER_PORT, &p, NTP_PACKET_BYTES);
    deliver_from(PEER, PEER_PORT + 1, &p, NTP_PACKET_BYTES);
    assert_int_equal(ntp_client_counters.drop_stranger, 2);
    deliver_from(PEER, PEER_PORT, &p, NTP_PACKET_BYTES - 1);
    assert_int_equal(ntp_client_counters.drop_length, 1);
    assert_int_equal(ntp_client_counters.replies, 0);
}

/* RFC 5905 A.5.1 takes lower versions than its own. In version 1 mode 0 is an answer, too. */
TEST(answers_of_versions_1_to_4_set_the_clock)
{
    for (uint8_t version = 0; version < 8; version++)
        for (uint8_t mode = 0; mode < 8; mode++) {
            const bool known = version >= 1 && version <= 4;
            const bool taken = known && (mode == NTP_MODE_SERVER || (mode == NTP_MODE_RESERVED && version == 1));
            start();
            for (int i = 0; i < 4; i++) {
                struct ntp_packet asked = request(), p = answer_to(&asked);
                p.version = version;
                p.mode = mode;
                deliver(&p);
            }
            assert_int_equal(ntp_client_counters.replies, taken ? 4 : 0);
            assert_int_equal(ntp_client_counters.drop_version, known ? 0 : 4);
            assert_int_equal(ntp_client_counters.drop_mode, known && !taken ? 4 : 0);
            assert_int_equal(reference.stratum, taken ? 3 : NTP_STRATUM_UNSYNCHRONISED);
        }
}

TEST(unsynchronised_server_is_ignored)
{
    for (int i = 0; i < 13; i++) {
        struct ntp_packet asked = request(), p = answer_to(&asked);
        if (i % 4 == 0)
            p.leap = NTP_LEAP_UNKNOWN;
        else if (i % 4 == 1)
            p.stratum = 16;
        else
            p.root_dispersion_ns = i % 4 == 2 ? 17 * (uint64_t)S : (uint64_t)S;
        if (i % 4 == 3)
            p.root_delay_ns = 30 * (uint64_t)S;
        if (i == 12)
            p.leap = NTP_LEAP_NONE, p.root_delay_ns = 29 * (uint64_t)S, p.root_dispersion_ns = (uint64_t)S;
        deliver(&p);
    }
    assert_int_equal(ntp_client_counters.unsynchronised, 12);
    assert_int_equal(reference.stratum, NTP_STRATUM_UNSYNCHRONISED);
}

TEST(impossible_stamps_are_dropped)
{
    static const struct {
        int there_s, away_s; /* in the server, and in all */
        bool receive, transmit, taken;
    } rows[] = { { 0, 1, true, true, true },     { -1, 1, true, true, false },  { 3600, 1, true, true, true },
                 { 3601, 1, true, true, false }, { 0, 3600, true, true, true }, { 0, 3601, true, true, false },
                 { 0, 1, false, true, false },   { 0, 1, true, false, false } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        start();
        for (int k = 0; k < 4; k++) {
            struct ntp_packet asked = request(), p = answer_to(&asked);
            p.transmit = rows[i].transmit ? p.receive + ((uint64_t)rows[i].there_s << 32) : 0;
            p.receive = rows[i].receive ? p.receive : 0;
            now_ns += (uint64_t)(rows[i].away_s * S - 2 * MS);
            deliver(&p);
        }
        assert_int_equal(ntp_client_counters.drop_stamps, rows[i].taken ? 0 : 4);
        assert_int_equal(reference.stratum, rows[i].taken ? 3 : NTP_STRATUM_UNSYNCHRONISED);
    }
}

/* Plays an exchange that ends in a kiss RATE. Returns the request's time. */
static uint64_t kiss_rate(void)
{
    struct ntp_packet asked = request(), p = answer_to(&asked);
    uint64_t asked_ns = now_ns;
    p.stratum = 0;
    p.leap = NTP_LEAP_UNKNOWN;
    p.reference_id = NTP_KISS_RATE;
    deliver(&p);
    return asked_ns;
}

TEST(kiss_rate_doubles_the_pause_up_to_1024_seconds)
{
    for (int64_t pause_ns = 32 * S; pause_ns <= 4096 * S; pause_ns *= 2) {
        uint64_t asked_ns = kiss_rate();
        assert_int_equal(ntp_client_next_deadline_ns() - asked_ns, pause_ns < 1024 * S ? pause_ns : 1024 * S);
    }
}

/* Begins with the longest pause, which no kiss can make longer. */
TEST(kiss_rate_ends_the_burst_whatever_the_pause)
{
    start_with(1, 1024 * (uint64_t)S);
    kiss_rate();
    for (int i = 0; i < 3; i++) {
        uint64_t before_ns = now_ns;
        exchange();
        assert_in_range(now_ns - before_ns, 1024 * S - 4 * MS, 1024 * S + 4 * MS);
    }
}

/* Other kisses bind nobody. */
TEST(genuine_kiss_deny_or_restrict_ends_the_requests)
{
    static const uint32_t kisses[] = { NTP_KISS_INIT, NTP_KISS_DENY, NTP_KISS_RESTRICT };
    for (size_t i = 0; i < ARRAY_COUNT(kisses); i++) {
        uint64_t at = log_end();
        start();
        struct ntp_packet asked = request(), p = answer_to(&asked);
        p.stratum = 0;
        p.reference_id = kisses[i];
        p.origin ^= 1;
        deliver(&p);
        assert_true(ntp_client_next_deadline_ns() < UINT64_MAX);
        p.origin ^= 1;
        deliver(&p);
        assert_int_equal(ntp_client_next_deadline_ns() == UINT64_MAX, i > 0);
        assert_int_equal(is_logged(&at, "192.0.2.1 refuses to serve us"), i > 0);
        assert_int_equal(ntp_client_counters.kisses + ntp_client_counters.unsynchronised, 2);
    }
    fake.datagram_count = 0;
    ntp_client_poll(now_ns + 10000 * (uint64_t)S);
    assert_int_equal(fake.datagram_count, 0);
}

TEST(silent_server_is_asked_quickly_eight_times_only)
{
    const uint64_t at = log_end();
    for (unsigned i = 0; i < 9; i++) {
        request();
        assert_int_equal(lines_logged(at, "192.0.2.1 does not answer"), i == 8);
    }
    uint64_t before_ns = now_ns;
    request();
    assert_int_equal(now_ns - before_ns, 16 * S);
    assert_int_equal(ntp_client_counters.unanswered, 9);
    exchange();
    for (unsigned i = 0; i < 10; i++)
        request();
    assert_int_equal(lines_logged(at, "192.0.2.1 does not answer"), 2);
    assert_int_equal(reference.stratum, NTP_STRATUM_UNSYNCHRONISED);
}

/* Plays a peer that has no time yet, and gets one later. */
TEST(unsynchronised_server_is_asked_quickly_eight_times_only)
{
    for (int i = 0; i < 9; i++) {
        struct ntp_packet asked = request(), p = answer_to(&asked);
        p.leap = NTP_LEAP_UNKNOWN;
        deliver(&p);
    }
    for (int i = 0; i < 4; i++) { /* from the second sample on the burst goes on */
        uint64_t before_ns = now_ns;
        exchange();
        assert_int_equal(now_ns - before_ns, i < 2 ? 16 * S : 2 * S);
    }
}

TEST(request_that_cannot_be_sent_is_tried_again_soon)
{
    fake.refuse_udp = true;
    ntp_client_poll(now_ns);
    assert_int_equal(ntp_client_counters.send_failed, 1);
    assert_int_equal(ntp_client_next_deadline_ns(), now_ns + 100 * MS);
    fake.refuse_udp = false;
    now_ns += 100 * (uint64_t)MS;
    exchange();
    assert_int_equal(ntp_client_counters.replies, 1);
}

TEST(without_a_port_there_is_no_client)
{
    const struct ntp_client_config config = { .address = PEER, .port = PEER_PORT, .poll_ns = 1, .now_ns = clock_now };
    fake_reset();
    fake.refuse_udp_bind = true;
    assert_false(ntp_client_init(&config, 0));
    assert_true(ntp_client_next_deadline_ns() == UINT64_MAX);
}
