/* Whole connections between two of our stacks: open, transfer, close, with losses and delays. */
#include <stdio.h>

#include "tests/lib/random.h"
#include "tests/lib/stack_pair.h"
#include "tests/lib/test.h"

/* Returns byte i of the stream, which both ends know. */
static uint8_t stream_byte(uint64_t i) { return (uint8_t)(i * 31 + (i >> 8) * 17 + (i >> 16)); }

/* Writes `total` bytes at one side, and reads and checks them at the other. Returns the virtual time. */
static uint64_t transfer(struct pair *pair, int from, int from_id, int to_id, uint64_t total, uint64_t limit_ns)
{
    uint64_t begin_ns = pair->now_ns, written = 0, read = 0;
    uint8_t bytes[4096];
    while (read < total) {
        while (written < total) {
            size_t count = sizeof bytes < total - written ? sizeof bytes : (size_t)(total - written);
            for (size_t i = 0; i < count; i++)
                bytes[i] = stream_byte(written + i);
            int64_t took = tcp_write(pair->stack[from], from_id, bytes, count, pair->now_ns);
            if (took == TCP_AGAIN)
                break;
            assert_true(took > 0);
            written += (uint64_t)took;
        }
        int64_t got;
        while ((got = tcp_read(pair->stack[!from], to_id, bytes, sizeof bytes, false, pair->now_ns)) > 0) {
            for (int64_t i = 0; i < got; i++)
                assert_int_equal(bytes[i], stream_byte(read + (uint64_t)i));
            read += (uint64_t)got;
        }
        assert_true(got == TCP_AGAIN || read == total);
        if (read < total)
            assert_true(pair_step(pair, begin_ns + limit_ns));
    }
    return pair->now_ns - begin_ns;
}

TEST(connects_transfers_and_closes)
{
    static struct pair pair;
    int a, b;
    uint8_t byte;
    pair_open(&pair, NULL, NULL);
    pair_connect(&pair, 80, &a, &b);
    transfer(&pair, 0, a, b, 1000000, 60 * PAIR_S);
    transfer(&pair, 1, b, a, 1000000, 60 * PAIR_S);
    assert_int_equal(tcp_shutdown(pair.stack[0], a, pair.now_ns), TCP_OK);
    pair_run(&pair, PAIR_S);
    assert_int_equal(tcp_state(pair.stack[0], a), TCP_FIN_WAIT_2);
    assert_int_equal(tcp_state(pair.stack[1], b), TCP_CLOSE_WAIT);
    assert_int_equal(tcp_read(pair.stack[1], b, &byte, 1, false, pair.now_ns), 0);
    transfer(&pair, 1, b, a, 100000, 60 * PAIR_S); /* half-closed: the other direction still works */
    tcp_close(pair.stack[1], b, pair.now_ns);
    pair_run(&pair, PAIR_S);
    assert_int_equal(tcp_state(pair.stack[0], a), TCP_TIME_WAIT);
    assert_int_equal(tcp_read(pair.stack[0], a, &byte, 1, false, pair.now_ns), 0);
    tcp_close(pair.stack[0], a, pair.now_ns);
    pair_run(&pair, 61 * PAIR_S);
    assert_int_equal(net_next_deadline_ns(pair.stack[0]), UINT64_MAX); /* no timer is left */
    assert_int_equal(net_next_deadline_ns(pair.stack[1]), UINT64_MAX);
    assert_int_equal(pair.device[0].free_count, NETDEV_IP_BUFFER_COUNT);
    assert_int_equal(pair.device[1].free_count, NETDEV_IP_BUFFER_COUNT);
    pair_close(&pair);
}

/* The percentages of packets that are lost and delayed, and the largest delay. `pair->user` points at this. */
struct path_faults {
    unsigned loss_percent, delay_percent;
    uint64_t delay_ns;
};

static bool apply_faults(struct pair *pair, int from, uint32_t index, struct pair_packet *packet)
{
    const struct path_faults *faults = pair->user;
    (void)from;
    (void)index;
    if (random_from(&pair->random) % 100 < faults->loss_percent)
        return false;
    if (random_from(&pair->random) % 100 < faults->delay_percent)
        packet->arrives_ns += random_from(&pair->random) % faults->delay_ns;
    return true;
}

static void transfers_through(unsigned loss_percent, unsigned delay_percent, uint64_t limit_ns, bool sack, bool stamps)
{
    static struct pair pair;
    struct path_faults m = { loss_percent, delay_percent, 20 * PAIR_MS };
    struct tcp_policy policy;
    int a, b;
    tcp_policy_default(&policy);
    policy.sack = sack;
    policy.timestamps = stamps;
    pair_open(&pair, &policy, &policy);
    pair_connect(&pair, 80, &a, &b);
    pair.network = apply_faults;
    pair.user = &m;
    uint64_t took_ns = transfer(&pair, 0, a, b, 1000000, limit_ns);
    struct tcp_info info;
    assert_true(tcp_info(pair.stack[0], a, &info));
    printf("loss %u%% delay %u%% sack %d ts %d: %.3f s, %u packets, %llu resent\n", loss_percent, delay_percent, sack,
           stamps, (double)took_ns / 1e9, pair.sent_count[0], (unsigned long long)info.retransmits_total);
    pair_close(&pair);
}

TEST(transfers_through_loss_and_reordering)
{
    for (int options = 0; options < 4; options++) {
        transfers_through(0, 0, 5 * PAIR_S, options & 1, options & 2);
        transfers_through(1, 0, 20 * PAIR_S, options & 1, options & 2);
        transfers_through(5, 0, 60 * PAIR_S, options & 1, options & 2);
        transfers_through(20, 0, 2000 * PAIR_S, options & 1, options & 2);
        transfers_through(0, 30, 60 * PAIR_S, options & 1, options & 2);
        transfers_through(3, 10, 60 * PAIR_S, options & 1, options & 2);
    }
}
