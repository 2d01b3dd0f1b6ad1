/* app/time/server.c and rate_limit.c: the requests that get a reply, the replies, and their rate. */
#include "app/time/rate_limit.h"
#include "app/time/server.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define S  UINT64_C(1000000000)
#define MS UINT64_C(1000000)

enum { STRANGER = 0xc6336401, PRIVATE = 0xc0a80001, PORT = 40000, RATE = 10, BURST = 5 };
static const struct siphash_key key = { 1, 2 };
static struct ntp_clock ntp_clock;
static struct ntp_reference reference;
static uint64_t now_ns;
static uint8_t reply[NTP_PACKET_BYTES];

static void start_with(bool refuse_private, uint32_t rate)
{
    const struct ntp_server_config config = { .refuse_private = refuse_private, .precision = -24 };
    now_ns = 100 * S;
    ntp_server_init(&config);
    rate_limit_init(key, rate, BURST);
    ntp_clock_init(&ntp_clock, INT64_C(1800000000000000000), now_ns);
    reference = (struct ntp_reference){ .stratum = 2, .id = 0x0a000001, .root_delay_ns = MS, .updated_ns = now_ns };
}

BEFORE_EACH() { start_with(false, 0); }

/* Delivers a request in a buffer of exactly its size. */
static bool deliver(uint32_t address, uint16_t port, const uint8_t *data, size_t bytes)
{
    uint8_t *exact = test_malloc(bytes ? bytes : 1);
    memcpy(exact, data, bytes);
    struct transport_event event = {
        .kind = TRANSPORT_DATAGRAM, .payload = { exact, bytes }, .address = address, .peer_port = port, .port = NTP_PORT
    };
    memset(reply, 0xee, sizeof reply);
    bool answered = ntp_server_reply(&event, now_ns, &ntp_clock, &reference, reply);
    test_free(exact);
    return answered;
}

/* Asks with a first byte and a length. */
static bool ask_from(uint32_t address, uint16_t port, uint8_t first, size_t bytes)
{
    uint8_t request[1400] = { first };
    for (size_t i = 1; i < sizeof request; i++)
        request[i] = (uint8_t)(i * 7);
    return deliver(address, port, request, bytes);
}

static bool ask(uint8_t first) { return ask_from(STRANGER, PORT, first, NTP_PACKET_BYTES); }

static struct ntp_packet answer(void)
{
    struct ntp_packet p;
    ntp_packet_read(&p, reply);
    return p;
}

TEST(versions_1_to_4_are_answered_in_their_version)
{
    for (uint8_t version = 1; version <= 4; version++) {
        assert_true(ask((uint8_t)(version << 3 | NTP_MODE_CLIENT)));
        assert_int_equal(answer().version, version);
        assert_int_equal(answer().mode, NTP_MODE_SERVER);
        assert_int_equal(answer().stratum, 2);
        assert_int_equal(answer().leap, 0);
    }
    assert_false(ask(0 << 3 | NTP_MODE_CLIENT));
    assert_false(ask(5 << 3 | NTP_MODE_CLIENT));
    assert_int_equal(ntp_server_counters.drop_version, 2);
    const struct ntp_server_counters *c = &ntp_server_counters;
    assert_true(c->requests == 4 && c->requests_v1 == 1 && c->requests_v2 == 1 && c->requests_v3 == 1);
}

TEST(origin_is_the_transmit_stamp_of_the_request)
{
    struct ntp_packet p;
    assert_true(ask(0x23));
    p = answer();
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(p.origin >> (56 - 8 * i) & 0xff, (40 + i) * 7 & 0xff);
    assert_true(p.receive == ntp_stamp(INT64_C(1800000000000000000)));
    assert_int_equal(p.transmit, 0);
    assert_int_equal(p.poll, 14);
    assert_int_equal(p.precision, -24);
}

TEST(modes_other_than_3_are_ignored)
{
    for (uint8_t mode = 0; mode < 8; mode++)
        assert_int_equal(ask((uint8_t)(4 << 3 | mode)), mode == NTP_MODE_CLIENT);
    assert_int_equal(ntp_server_counters.drop_mode, 7);
}

TEST(version_1_without_a_mode_is_a_client_unless_it_asks_from_port_123)
{
    assert_true(ask(1 << 3));
    assert_int_equal(answer().mode, NTP_MODE_SERVER);
    assert_false(ask_from(STRANGER, NTP_PORT, 1 << 3, NTP_PACKET_BYTES));
    assert_true(ask_from(STRANGER, NTP_PORT, 0x23, NTP_PACKET_BYTES));
    assert_int_equal(ntp_server_counters.drop_mode, 1);
}

TEST(short_requests_and_port_0_are_ignored)
{
    for (size_t bytes = 0; bytes < NTP_PACKET_BYTES; bytes++)
        assert_false(ask_from(STRANGER, PORT, 0x23, bytes));
    assert_int_equal(ntp_server_counters.drop_length, NTP_PACKET_BYTES);
    assert_true(ask_from(STRANGER, PORT, 0x23, 1400));
    assert_false(ask_from(STRANGER, 0, 0x23, NTP_PACKET_BYTES));
    assert_int_equal(ntp_server_counters.drop_source, 1);
}

TEST(private_sources_are_refused_on_request)
{
    static const uint32_t refused[] = { 0x0a000001, 0x0affffff, 0xac100001, 0xac1fffff, PRIVATE,
                                        0x64400001, 0x647fffff, 0xa9feff01, 0x7f000001 };
    static const uint32_t served[] = { STRANGER,   0x09ffffff, 0x0b000000, 0xac0fffff,
                                       0xac200000, 0x643fffff, 0x64800000, 0xa9ff0000 };
    start_with(true, 0);
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++)
        assert_false(ask_from(refused[i], PORT, 0x23, NTP_PACKET_BYTES));
    for (size_t i = 0; i < ARRAY_COUNT(served); i++)
        assert_true(ask_from(served[i], PORT, 0x23, NTP_PACKET_BYTES));
    assert_int_equal(ntp_server_counters.drop_private, ARRAY_COUNT(refused));
    start_with(false, 0);
    assert_true(ask_from(PRIVATE, PORT, 0x23, NTP_PACKET_BYTES));
}

TEST(address_over_its_rate_gets_one_kiss_and_then_a_quarter)
{
    start_with(false, RATE);
    for (uint32_t i = 0; i < BURST; i++)
        assert_true(ask(0x23) && answer().stratum == 2);
    assert_true(ask(0x23));
    assert_int_equal(answer().stratum, 0);
    assert_int_equal(answer().leap, NTP_LEAP_UNKNOWN);
    assert_int_equal(answer().reference_id, NTP_KISS_RATE);
    unsigned answered = 0;
    for (int i = 0; i < 4000; i++)
        if (ask(0x23)) {
            assert_int_equal(answer().stratum, 2);
            answered++;
        }
    assert_in_range(answered, 900, 1100);
    assert_int_equal(ntp_server_counters.leaks, answered);
    assert_int_equal(ntp_server_counters.drop_rate, 4000 - answered);
    assert_int_equal(ntp_server_counters.requests, BURST + answered);
    assert_true(ask_from(STRANGER + 1, PORT, 0x23, NTP_PACKET_BYTES)); /* others are served */

    now_ns += S / RATE; /* one request has run out; the kiss was sent already */
    assert_true(ask(0x23) && answer().stratum == 2);
    now_ns += S / 2; /* quiet for just long enough: the limit begins again */
    for (uint32_t i = 0; i < BURST; i++)
        assert_true(ask(0x23) && answer().stratum == 2);
    assert_true(ask(0x23) && answer().reference_id == NTP_KISS_RATE);
    assert_int_equal(ntp_server_counters.kisses, 2);
}

/* Asks each half second, while somebody forges requests from the same address, at 20 to 1,000 a second. */
TEST(forged_requests_leave_their_victim_a_share)
{
    static const unsigned per_s[] = { 20, 50, 200, 1000 };
    for (size_t i = 0; i < ARRAY_COUNT(per_s); i++) {
        unsigned answered = 0, asked = 0;
        start_with(false, RATE);
        for (unsigned forged = 0; forged < 200 * per_s[i]; forged++, now_ns += S / per_s[i]) {
            ask_from(STRANGER, PORT + 1, 0x23, NTP_PACKET_BYTES);
            if (forged < per_s[i] || forged % (per_s[i] / 2) != 0)
                continue;
            asked++;
            answered += ask(0x23) && answer().stratum == 2;
        }
        assert_in_range(answered, asked / 7, asked);
        assert_int_equal(asked, 398);
    }
}

/* Plays the same flood under three keys: which requests are answered must not be known beforehand. */
TEST(lots_are_drawn_by_the_secret)
{
    uint64_t lots[3] = { 0 };
    for (uint64_t i = 0; i < 3; i++) {
        rate_limit_init((struct siphash_key){ i / 2, 3 }, RATE, BURST);
        for (uint32_t n = 0; n < BURST + 1; n++)
            rate_limit_take(STRANGER, S);
        for (int n = 0; n < 64; n++)
            lots[i] = lots[i] << 1 | (rate_limit_take(STRANGER, S) == RATE_LEAK);
    }
    assert_true(lots[0] == lots[1] && lots[0] != lots[2]);
}

/* Floods from random sources, which must not free an address of its limit often: its bucket is one of thousands. */
TEST(flood_of_addresses_hardly_frees_a_limited_one)
{
    start_with(false, RATE);
    int passed = 0;
    random_state = 3;
    for (int i = 0; i < 10000; i++) {
        rate_limit_take((uint32_t)random_next(), now_ns);
        passed += rate_limit_take(STRANGER, now_ns) == RATE_PASS;
    }
    assert_in_range(passed, BURST, 20 * BURST);
}

TEST(long_run_of_requests_passes_at_the_rate)
{
    int passed = 0;
    start_with(false, RATE);
    for (int ms = 0; ms < 60000; ms++, now_ns += MS)
        passed += rate_limit_take(STRANGER, now_ns) == RATE_PASS;
    assert_in_range(passed, 60 * RATE, 60 * RATE + BURST);
    start_with(false, 0);
    for (uint32_t i = 0; i < 10 * BURST; i++)
        assert_int_equal(rate_limit_take(STRANGER, now_ns), RATE_PASS);
}

/* Plays the same requests twice, the second time with others between them that are put back. */
TEST(requests_that_are_put_back_leave_no_trace)
{
    enum { REQUESTS = 400, REHEARSED = 3 };
    enum rate_verdict verdicts[REQUESTS];
    for (int round = 0; round < 2; round++) {
        start_with(false, RATE);
        random_state = 5;
        for (int i = 0; i < REQUESTS; i++, now_ns += MS) {
            for (int k = 0; round == 1 && k < REHEARSED; k++) {
                rate_limit_keep(STRANGER + (uint32_t)k);
                for (uint32_t n = 0; n < 2 * BURST; n++)
                    rate_limit_take(STRANGER + (uint32_t)k, now_ns);
                rate_limit_put_back();
            }
            enum rate_verdict verdict = rate_limit_take(STRANGER + (uint32_t)(random_next() % 2), now_ns);
            assert_true(round == 0 || verdict == verdicts[i]);
            verdicts[i] = verdict;
        }
    }
}
