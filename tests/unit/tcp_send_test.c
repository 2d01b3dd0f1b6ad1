/* Rules of sending that no timeline of tests/wire can say: state from long ago, busy time, full buffers and queues. */
#include "net/tcp/fast.h"
#include "net/tcp/message.h"
#include "tests/lib/tcp_fixture.h"

/* Plays a small segment more than 2^31 bytes after the last one. */
TEST(nagle_forgets_the_small_segment_of_long_ago)
{
    peer_connect(p, OFFER_PLAIN);
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    c->snd_small_end = c->snd_una - 0x80000001;
    peer_write(p, 10);
    EXPECT(p, PA, 1, 1, 10);
    peer_send(p, A, 1, 11, NULL, 0);
}

/* Sends a prepared message of exactly the MSS, which is no small one: it holds none back. Then one that is a byte
 * longer leaves in two segments. */
TEST(message_of_exactly_the_mss_leaves_in_one_segment)
{
    peer_connect(p, (struct offer){ 1000, -1, false, false });
    struct tcp_connection *c = &p->stack->tcp.connections[p->id];
    for (uint32_t bytes = 1000, at = 1; bytes <= 1001; at += bytes++) {
        uint8_t *area = tcp_message(p->stack, c);
        for (uint32_t i = 0; i < bytes; i++)
            area[i] = peer_stack_pattern(at + i);
        tcp_fast_prepare(p->stack, c, 0, 100);
        assert_true(c->ready.on && tcp_message_send(p->stack, c, 0, bytes, p->now_ns));
        peer_step(p);
        EXPECT(p, bytes == 1000 ? PA : A, at, 1, 1000);
    }
    EXPECT(p, PA, 2001, 1, 1);
    EXPECT_NUMBER("prepared", p->stack->ip.counters.tcp_tx_fast, 1);
    EXPECT_NUMBER("buffers of messages", p->stack->tcp.message_count, 1); /* the ring keeps the second message */
    peer_send(p, A, 1, 2002, NULL, 0);
}

static uint64_t busy_ms(void)
{
    struct tcp_info info;
    tcp_info(p->stack, p->id, &info);
    return (info.busy_ns + (info.busy_since_ns != 0 ? p->now_ns - info.busy_since_ns : 0)) / MS;
}

/* Counts the time from the write to the last ACK, over a closed window, too; not that of a FIN alone. */
TEST(busy_time_begins_with_the_write)
{
    p->window = 0;
    peer_connect(p, OFFER_PLAIN);
    peer_pass(p, S);
    EXPECT_NUMBER("busy ms", busy_ms(), 0);
    peer_write(p, 1000);
    peer_pass(p, 150 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 150);
    p->window = 2000;
    peer_send(p, A, 1, 1, NULL, 0);
    EXPECT(p, PA, 1, 1, 1000);
    peer_pass(p, 30 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 180);
    peer_send(p, A, 1, 1001, NULL, 0);
    peer_pass(p, S);
    EXPECT_NUMBER("busy ms", busy_ms(), 180);

    peer_write(p, 3000); /* more than the window: the rest goes on waiting */
    EXPECT(p, A, 1001, 1, 1460);
    peer_pass(p, 20 * MS);
    p->window = 0;
    peer_send(p, A, 1, 2461, NULL, 0);
    peer_pass(p, 100 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 300);
    p->window = 2000;
    peer_send(p, A, 1, 2461, NULL, 0);
    EXPECT(p, A, 2461, 1, 1460);
    EXPECT(p, PA, 3921, 1, 80);
    peer_send(p, A, 1, 4001, NULL, 0);
    EXPECT_NUMBER("busy ms", busy_ms(), 300);
    tcp_shutdown(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, FA, 4001, 1, 0);
    peer_pass(p, 100 * MS);
    EXPECT_NUMBER("busy ms", busy_ms(), 300);
}

/* Takes all transmit buffers away for longer than all probes take. */
TEST(keepalive_that_could_not_leave_does_not_count)
{
    static struct tx_buffer *buffers[NETDEV_IP_BUFFER_COUNT];
    struct netdev *device = &p->device.device;
    size_t count = 0;
    peer_connect(p, OFFER_PLAIN);
    tcp_set_keepalive(p->stack, p->id, true, p->now_ns);
    while (count < NETDEV_IP_BUFFER_COUNT && (buffers[count] = device->ops->tx_acquire(device)) != NULL)
        count++;
    assert_true(count > 0);
    peer_pass(p, (7200 + 12 * 75) * S);
    while (count > 0)
        device->ops->tx_release(device, buffers[--count]);
    EXPECT_STATE(p, TCP_ESTABLISHED);
    assert_true(peer_wait(p, 76 * S));
    EXPECT(p, A, 0, 1, 0);
    peer_send(p, A, 1, 1, NULL, 0);
}

TEST(send_buffer_bounds_a_write)
{
    static uint8_t data[100000];
    p->window = 0;
    peer_connect(p, OFFER_PLAIN);
    assert_int_equal(tcp_write(p->stack, p->id, data, sizeof data, p->now_ns), 65536);
    assert_int_equal(tcp_write(p->stack, p->id, data, 1, p->now_ns), TCP_AGAIN);
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_WRITE, 0);
}

/* Fills the queue of segments, then shrinks the window below one segment. A full queue has no place for the rest of a
 * segment that is cut. */
TEST(full_queue_goes_on_in_a_window_below_its_segments)
{
    enum { SEGMENTS = 128, BYTES = 400 };
    struct tcp_policy policy = peer_policy_default();
    policy.nodelay = true;
    begin_with(&policy);
    peer_connect(p, OFFER_PLAIN);
    p->stack->tcp.connections[p->id].congestion.cwnd = 1u << 20;
    for (uint32_t i = 0; i < SEGMENTS; i++)
        peer_write(p, BYTES);
    peer_drain(p);
    p->window = 150;
    uint32_t una = 1;
    peer_send(p, A, 1, una, NULL, 0);
    while (una < 1 + 3 * BYTES) {
        struct seen s;
        assert_true(peer_wait(p, 100 * S));
        while (peer_take(p, &s)) {
            assert_true(s.bytes <= 150);
            if (s.seq <= una && s.seq + s.bytes > una)
                una = s.seq + s.bytes;
        }
        peer_send(p, A, 1, una, NULL, 0);
    }
    abort_connection();
}
