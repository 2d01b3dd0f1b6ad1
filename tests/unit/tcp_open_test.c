/* Rules of opening that no timeline of tests/wire/open can say: random ISNs and ports, full tables. */
#include "tests/lib/tcp_fixture.h"

TEST(disabled_options_are_not_offered)
{
    static const struct {
        bool sack, timestamps, scaling;
        uint32_t bytes;
        const char *text;
    } table[] = {
        { false, false, false, 4, "\x02\x04\x05\xb4" },
        { true, false, false, 8, "\x02\x04\x05\xb4\x01\x01\x04\x02" },
        { false, false, true, 8, "\x02\x04\x05\xb4\x01\x03\x03\x00" },
        { true, false, true, 12, "\x02\x04\x05\xb4\x01\x01\x04\x02\x01\x03\x03\x00" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        struct tcp_policy policy = peer_policy_default();
        policy.sack = table[i].sack;
        policy.timestamps = table[i].timestamps;
        policy.window_scaling = table[i].scaling;
        p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, &policy, p->now_ns);
        peer_step(p);
        const struct seen *syn = EXPECT(p, TCP_SYN, 0, 0, 0);
        assert_int_equal(syn->option_bytes, table[i].bytes);
        assert_memory_equal(syn->options, table[i].text, table[i].bytes);
        tcp_abort(p->stack, p->id, p->now_ns);
    }
}

/* RFC 6528: for one 4-tuple the ISNs follow a clock of 4 us. Between tuples, and between secrets, they look random. */
TEST(initial_sequence_numbers_are_a_clock_and_a_keyed_function)
{
    struct secret one, other;
    uint8_t bytes[32] = { 1 };
    secret_init(&one, bytes);
    bytes[5] = 1;
    secret_init(&other, bytes);
    uint32_t ones[32] = { 0 }, same = 0, step = 0;
    struct secret_tuple tuple = { PEER_STACK_ADDRESS, PEER_ADDRESS, 40000, 80 };
    uint32_t first = secret_isn(&one, &tuple, 1000 * S);
    assert_int_equal(secret_isn(&one, &tuple, 1000 * S + 4 * MS) - first, 1000);
    assert_int_equal(secret_isn(&one, &tuple, 1000 * S + 3999) - first, 0);
    uint32_t before = first;
    for (uint32_t i = 0; i < 10000; i++) {
        tuple.port = (uint16_t)(30000 + i);
        uint32_t isn = secret_isn(&one, &tuple, 1000 * S);
        for (int bit = 0; bit < 32; bit++)
            ones[bit] += isn >> bit & 1;
        same += isn == secret_isn(&other, &tuple, 1000 * S);
        step += isn - before < 1 << 16;
        before = isn;
    }
    for (int bit = 0; bit < 32; bit++)
        assert_in_range(ones[bit], 4700, 5300); /* 6 standard deviations of 50 each */
    assert_in_range(same, 0, 2);
    assert_in_range(step, 0, 3); /* 1 of 65536 by chance */
}

/* Values of a second implementation, in Python. Each port of a destination comes once. */
TEST(draws_are_those_of_another_implementation)
{
    static uint8_t bytes[32], used[SECRET_PORT_COUNT];
    const struct secret_tuple tuple = { 0x0a00020f, 0xc0a80907, 40001, 8080 };
    struct secret secret;
    for (uint8_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i + 1);
    secret_init(&secret, bytes);
    assert_true(secret_isn(&secret, &tuple, 0) == 0x56d736b0 && secret_timestamp_offset(&secret, &tuple) == 0x40e71399);
    assert_int_equal(secret_cookie(&secret, &tuple, 0x89abcdef, 0x1234), 0xd07a8b23);
    assert_true(secret_random(&secret) == 0xf17e4bd7330e063a && secret_random(&secret) == 0xeae27e5e9c88b1c1);
    for (uint16_t i = SECRET_PORT_COUNT; i-- > 0;) {
        const uint16_t port = secret_port(&secret, tuple.address, tuple.peer_address, 8080, i);
        assert_true(port < SECRET_PORT_COUNT && used[port]++ == 0 && (i != 1 || port == 26974));
    }
}

/* RFC 6056: no port comes back before all have been used, ports are spread evenly, and each destination has another
 * order. */
TEST(source_ports_look_random_and_do_not_repeat)
{
    static uint8_t used[65536];
    uint32_t bins[64] = { 0 }, close = 0;
    uint16_t before = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        int id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns);
        struct tcp_endpoints ends;
        assert_true(tcp_endpoints(p->stack, id, &ends));
        assert_true(ends.port >= 32768);
        assert_int_equal(used[ends.port]++, 0);
        bins[(ends.port - 32768) / 512]++;
        close += (uint16_t)(ends.port - before) < 64;
        before = ends.port;
        tcp_abort(p->stack, id, p->now_ns);
        peer_step(p);
        peer_drain(p);
    }
    double chi2 = 0;
    for (int i = 0; i < 64; i++)
        chi2 += (bins[i] - 156.25) * (bins[i] - 156.25) / 156.25;
    assert_true(chi2 < 120);       /* 63 degrees of freedom: beyond 120 once in 10^5 */
    assert_in_range(close, 0, 60); /* 20 by chance */
}

TEST(ports_in_use_are_not_chosen_nor_given)
{
    int a = tcp_connect(p->stack, PEER_ADDRESS, 80, 40000, NULL, p->now_ns);
    assert_true(a >= 0);
    assert_int_equal(tcp_connect(p->stack, PEER_ADDRESS, 80, 40000, NULL, p->now_ns), TCP_IN_USE);
    int b = tcp_connect(p->stack, PEER_ADDRESS, 81, 40000, NULL, p->now_ns);
    assert_true(b >= 0 && b != a); /* another 4-tuple */
    tcp_abort(p->stack, a, p->now_ns);
    tcp_abort(p->stack, b, p->now_ns);
    peer_step(p);
    peer_drain(p);
}

TEST(full_connection_table_is_reported)
{
    int ids[PEER_CONNECTION_COUNT];
    for (uint32_t i = 0; i < PEER_CONNECTION_COUNT; i++)
        assert_true((ids[i] = tcp_connect(p->stack, PEER_ADDRESS, 80, 0, NULL, p->now_ns)) >= 0);
    assert_int_equal(tcp_connect(p->stack, PEER_ADDRESS, 80, 0, NULL, p->now_ns), TCP_NO_ROOM);
    tcp_abort(p->stack, ids[5], p->now_ns);
    assert_int_equal(tcp_connect(p->stack, PEER_ADDRESS, 80, 0, NULL, p->now_ns), ids[5]);
}
