/* Closing: FIN from either side and from both, each of its segments lost, half-closed streams, TIME-WAIT, resets. */
#include "net/stack_state.h"
#include "net/tcp/path.h"
#include "tests/lib/tcp_fixture.h"

TEST(closing_first_goes_through_time_wait)
{
    uint8_t byte;
    peer_connect(p, OFFER_PLAIN);
    assert_int_equal(tcp_shutdown(p->stack, p->id, p->now_ns), TCP_OK);
    peer_step(p);
    EXPECT(p, FA, 1, 1, 0);
    EXPECT_STATE(p, TCP_FIN_WAIT_1);
    peer_send(p, A, 1, 2, NULL, 0);
    EXPECT_STATE(p, TCP_FIN_WAIT_2);
    peer_send(p, PA, 1, 2, NULL, 20); /* data still comes, and is acknowledged */
    EXPECT(p, A, 2, 21, 0);
    peer_send(p, FA, 21, 2, NULL, 0);
    EXPECT(p, A, 2, 22, 0);
    EXPECT_STATE(p, TCP_TIME_WAIT);
    peer_read(p, 1, 20);
    assert_int_equal(tcp_read(p->stack, p->id, &byte, 1, false, p->now_ns), 0);
    assert_int_equal(tcp_write(p->stack, p->id, &byte, 1, p->now_ns), TCP_PIPE);
    tcp_close(p->stack, p->id, p->now_ns);
    assert_int_equal(p->stack->tcp.time_wait_used, 1);
    peer_pass(p, 59 * S);
    peer_send(p, FA, 21, 2, NULL, 0); /* again: acknowledged, and 2 MSL begin again */
    EXPECT(p, A, 2, 22, 0);
    peer_pass(p, 59 * S);
    assert_int_equal(p->stack->tcp.time_wait_used, 1);
    peer_pass(p, 2 * S);
    assert_int_equal(p->stack->tcp.time_wait_used, 0);
    peer_send(p, FA, 21, 2, NULL, 0);
    EXPECT(p, TCP_RST, 2, 0, 0); /* the connection no longer exists */
}

TEST(closing_second_ends_with_the_last_ack)
{
    uint8_t byte;
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, FA, 1, 1, NULL, 0);
    EXPECT(p, A, 1, 2, 0);
    EXPECT_STATE(p, TCP_CLOSE_WAIT);
    assert_int_equal(tcp_poll_bits(p->stack, p->id), TCP_POLL_READ | TCP_POLL_WRITE | TCP_POLL_ENDED);
    assert_int_equal(tcp_read(p->stack, p->id, &byte, 1, false, p->now_ns), 0);
    peer_write(p, 10); /* the other half is still open */
    EXPECT(p, PA, 1, 2, 10);
    peer_send(p, A, 2, 11, NULL, 0);
    tcp_shutdown(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, FA, 11, 2, 0);
    EXPECT_STATE(p, TCP_LAST_ACK);
    peer_send(p, A, 2, 12, NULL, 0);
    EXPECT_NONE(p);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_OK);
    assert_int_equal(p->stack->tcp.time_wait_used, 0);
}

TEST(both_may_close_at_once)
{
    peer_connect(p, OFFER_PLAIN);
    shutdown_sends_fin();
    peer_send(p, FA, 1, 1, NULL, 0); /* does not acknowledge the stack's FIN */
    EXPECT(p, A, 2, 2, 0);
    EXPECT_STATE(p, TCP_CLOSING);
    peer_send(p, A, 2, 2, NULL, 0);
    EXPECT_STATE(p, TCP_TIME_WAIT);
}

/* Takes the address away from a connection that has closed in order. This is no error for the application. */
TEST(time_wait_survives_the_loss_of_the_address_without_error)
{
    peer_connect(p, OFFER_PLAIN);
    shutdown_sends_fin();
    peer_send(p, FA, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 2, 0);
    EXPECT_STATE(p, TCP_TIME_WAIT);
    tcp_address_lost(p->stack);
    net_stack_check(p->stack);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_take_error(p->stack, p->id), TCP_OK);
}

TEST(fin_with_ack_of_ours_skips_a_state)
{
    peer_connect(p, OFFER_PLAIN);
    close_sends_fin();
    peer_send(p, FA, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 2, 0);
    assert_int_equal(p->stack->tcp.time_wait_used, 1);
    assert_int_equal(p->stack->tcp.connection_end, 0);
}

TEST(last_data_carries_the_fin)
{
    peer_connect(p, OFFER_PLAIN);
    peer_write(p, 1460);
    EXPECT(p, PA, 1, 1, 1460);
    p->window = 0;
    peer_send(p, A, 1, 1461, NULL, 0);
    peer_write(p, 100);
    tcp_close(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT_NONE(p);
    p->window = 65535;
    peer_send(p, A, 1, 1461, NULL, 0);
    EXPECT(p, TCP_FIN | PA, 1461, 1, 100);
    peer_send(p, A, 1, 1561, NULL, 0); /* the data, not the FIN */
    assert_true(peer_wait(p, S));
    EXPECT(p, FA, 1561, 1, 0);
    peer_send(p, A, 1, 1562, NULL, 0);
    peer_send(p, TCP_RST | A, 1, 1562, NULL, 0);
}

TEST(fin_lost_is_sent_again)
{
    peer_connect(p, OFFER_PLAIN);
    shutdown_sends_fin();
    for (unsigned i = 0; i < 4; i++) {
        assert_true(peer_wait(p, 10 * S));
        EXPECT_AFTER(p, EXPECT(p, FA, 1, 1, 0), (200 << i) * MS);
    }
    peer_send(p, A, 1, 2, NULL, 0);
    EXPECT_STATE(p, TCP_FIN_WAIT_2);
    assert_false(peer_wait(p, 100 * S)); /* the application holds the connection, so there is no time limit */
    EXPECT_STATE(p, TCP_FIN_WAIT_2);
    peer_send(p, FA, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 2, 0);
}

TEST(ack_of_their_fin_lost_is_sent_again)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, FA, 1, 1, NULL, 0);
    EXPECT(p, A, 1, 2, 0);
    peer_send(p, FA, 1, 1, NULL, 0);
    EXPECT(p, A, 1, 2, 0);
    EXPECT_STATE(p, TCP_CLOSE_WAIT);
}

TEST(fin_is_sent_again_if_the_last_ack_is_lost)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, FA, 1, 1, NULL, 0);
    EXPECT(p, A, 1, 2, 0);
    tcp_close(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, FA, 1, 2, 0);
    assert_true(peer_wait(p, S));
    EXPECT_AFTER(p, EXPECT(p, FA, 1, 2, 0), 200 * MS);
    peer_send(p, A, 2, 2, NULL, 0);
    assert_int_equal(p->stack->tcp.connection_end, 0);
}

TEST(fin_before_its_data_is_held)
{
    uint8_t byte;
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, FA, 101, 1, NULL, 50);
    EXPECT(p, A, 1, 1, 0);
    EXPECT_STATE(p, TCP_ESTABLISHED);
    peer_send(p, A, 1, 1, NULL, 100);
    EXPECT(p, A, 1, 152, 0);
    EXPECT_STATE(p, TCP_CLOSE_WAIT);
    peer_read(p, 1, 150);
    assert_int_equal(tcp_read(p->stack, p->id, &byte, 1, false, p->now_ns), 0);
}

TEST(bare_fin_before_data_is_held)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, FA, 51, 1, NULL, 0);
    EXPECT(p, A, 1, 1, 0);
    peer_send(p, A, 1, 1, NULL, 50);
    EXPECT(p, A, 1, 52, 0);
    EXPECT_STATE(p, TCP_CLOSE_WAIT);
    peer_read(p, 1, 50);
}

TEST(data_beyond_the_fin_is_not_delivered)
{
    uint8_t byte;
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, FA, 51, 1, NULL, 10); /* FIN at 61 */
    peer_send(p, A, 61, 1, NULL, 100); /* impossible */
    peer_send(p, FA, 41, 1, NULL, 5);  /* another FIN, at 46 */
    for (int i = 0; i < 3; i++)
        EXPECT(p, A, 1, 1, 0);
    peer_send(p, A, 1, 1, NULL, 50);
    EXPECT(p, A, 1, 62, 0);
    peer_read(p, 1, 60);
    assert_int_equal(tcp_read(p->stack, p->id, &byte, 1, false, p->now_ns), 0);
    peer_send(p, A, 62, 1, NULL, 10); /* after it */
    EXPECT_STATE(p, TCP_CLOSE_WAIT);
    assert_int_equal(tcp_read(p->stack, p->id, &byte, 1, false, p->now_ns), 0);
}

/* RFC 9293 SHLD-3, RFC 2525 §2.17. */
TEST(closing_with_unread_data_resets)
{
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, PA, 1, 1, NULL, 10);
    EXPECT(p, A, 1, 11, 0);
    tcp_close(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_RST | A, 1, 11, 0);
    assert_int_equal(p->stack->tcp.connection_end, 0);
}

TEST(data_after_close_is_reset)
{
    peer_connect(p, OFFER_PLAIN);
    close_sends_fin();
    peer_send(p, A, 1, 2, NULL, 0);
    peer_send(p, PA, 1, 2, NULL, 10);
    EXPECT(p, TCP_RST, 2, 0, 0);
    assert_int_equal(p->stack->tcp.connection_end, 0);
}

TEST(closed_connection_whose_peer_never_closes_is_given_up)
{
    peer_connect(p, OFFER_PLAIN);
    close_sends_fin();
    peer_send(p, A, 1, 2, NULL, 0);
    peer_pass(p, 59 * S);
    assert_int_equal(p->stack->tcp.connection_end, 1);
    peer_pass(p, 2 * S);
    assert_int_equal(p->stack->tcp.connection_end, 0);
    EXPECT_NONE(p);
}

TEST(abort_resets_in_every_state_that_has_a_peer)
{
    peer_connect(p, OFFER_PLAIN); /* ESTABLISHED */
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_RST | A, 1, 1, 0);

    peer_connect(p, OFFER_PLAIN); /* FIN-WAIT-2 */
    shutdown_sends_fin();
    peer_send(p, A, 1, 2, NULL, 0);
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_RST | A, 2, 1, 0);

    peer_connect(p, OFFER_PLAIN); /* CLOSE-WAIT */
    peer_send(p, FA, 1, 1, NULL, 0);
    EXPECT(p, A, 1, 2, 0);
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT(p, TCP_RST | A, 1, 2, 0);

    p->id = tcp_connect(p->stack, PEER_ADDRESS, PEER_PORT, 0, NULL, p->now_ns); /* SYN-SENT */
    peer_step(p);
    EXPECT(p, TCP_SYN, 0, 0, 0);
    tcp_abort(p->stack, p->id, p->now_ns);
    peer_step(p);
    EXPECT_NONE(p);
}

/* RFC 9293 MUST-12: Distinguishes an end from a reset. */
TEST(reset_is_distinguished_from_an_end)
{
    uint8_t bytes[16];
    peer_connect(p, OFFER_PLAIN);
    peer_send(p, PA, 1, 1, NULL, 10);
    EXPECT(p, A, 1, 11, 0);
    peer_send(p, TCP_RST, 11, 0, NULL, 0);
    EXPECT_STATE(p, TCP_CLOSED);
    assert_int_equal(tcp_read(p->stack, p->id, bytes, 16, false, p->now_ns),
                     10); /* the bytes received before come first */
    assert_int_equal(tcp_read(p->stack, p->id, bytes, 16, false, p->now_ns), TCP_RESET);
    assert_int_equal(tcp_poll_bits(p->stack, p->id) & TCP_POLL_HUNG_UP, TCP_POLL_HUNG_UP);
}

/* RFC 9293 §3.10.7.1. */
TEST(segments_to_nowhere_are_reset)
{
    p->stack_port = 9;
    p->stack_iss = 0;
    peer_send(p, A, 100, 7777, NULL, 10);
    EXPECT(p, TCP_RST, 7777, 0, 0);
    peer_send(p, TCP_SYN, 100, 0, NULL, 0);
    EXPECT(p, TCP_RST | A, 0, 101, 0);
    peer_send(p, TCP_SYN | TCP_FIN, 100, 0, NULL, 10);
    EXPECT(p, TCP_RST | A, 0, 112, 0);
    peer_send(p, 0, 100, 0, NULL, 0);
    EXPECT(p, TCP_RST | A, 0, 100, 0);
    peer_send(p, TCP_RST, 100, 0, NULL, 0);
    peer_send(p, TCP_RST | A, 100, 7777, NULL, 0);
    EXPECT_NONE(p);
}

/* RFC 6191, RFC 1122 §4.2.2.13. */
TEST(time_wait_gives_way_to_a_newer_syn_only)
{
    peer_accept(p, OFFER_ALL);
    uint32_t old_iss = p->stack_iss;
    close_sends_fin();
    p->timestamp += 10;
    peer_send(p, FA, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 2, 0);
    p->timestamp -= 20; /* an old duplicate: older time */
    peer_send(p, TCP_SYN, 5000, 0, NULL, 0);
    EXPECT(p, A, 2, 2, 0);
    assert_int_equal(p->stack->tcp.time_wait_used, 1);
    p->timestamp += 21; /* newer time, older sequence: RFC 6191 lets it in */
    peer_send(p, TCP_SYN, 0x80000100, 0, NULL, 0);
    struct seen *reply = EXPECT(p, SA, 0, 0x80000101, 0);
    assert_true(reply->timestamps);
    assert_int_equal(p->stack->tcp.time_wait_used, 0);
    assert_true((int32_t)(p->stack_iss - (old_iss + 2 + 65535)) >= 0); /* beyond the old window */
    peer_send(p, TCP_RST, 0x80000101, 0, NULL, 0);
}

TEST(late_segments_in_time_wait_are_answered_or_dropped)
{
    peer_connect(p, OFFER_PLAIN);
    close_sends_fin();
    peer_send(p, FA, 1, 2, NULL, 0);
    EXPECT(p, A, 2, 2, 0);
    peer_send(p, A, 2, 2, NULL, 0); /* a late pure ACK */
    EXPECT_NONE(p);
    peer_send(p, A, 1, 2, NULL, 10); /* old data */
    EXPECT(p, A, 2, 2, 0);
    peer_send(p, TCP_RST, 1, 0, NULL, 0); /* off by one: ignored (RFC 1337) */
    assert_int_equal(p->stack->tcp.time_wait_used, 1);
    peer_send(p, TCP_RST, 2, 0, NULL, 0);
    assert_int_equal(p->stack->tcp.time_wait_used, 0);
    EXPECT_NONE(p);
}

TEST(time_waits_are_bounded)
{
    for (int i = 0; i < 100; i++) {
        peer_connect(p, OFFER_PLAIN);
        tcp_close(p->stack, p->id, p->now_ns);
        peer_step(p);
        EXPECT(p, FA, 1, 1, 0);
        peer_send(p, FA, 1, 2, NULL, 0);
        EXPECT(p, A, 2, 2, 0);
        peer_pass(p, 10 * MS);
    }
    assert_int_equal(p->stack->tcp.time_wait_used, 32);
    assert_int_equal(p->stack->ip.counters.tcp_time_wait_evicted, 68);
}

/* Finds no buffer to send the FIN again, and then gets the ACK of the first one. Nothing is left to try. */
TEST(fin_acknowledged_while_it_waits_for_a_buffer_is_over)
{
    peer_connect(p, OFFER_PLAIN);
    shutdown_sends_fin();
    uint32_t free_count = p->device.free_count;
    p->device.free_count = 0;
    p->now_ns += 5 * S;
    peer_step(p);
    peer_send(p, A, 1, 2, NULL, 0);
    p->device.free_count = free_count;
    EXPECT_STATE(p, TCP_FIN_WAIT_2);
    EXPECT_NONE(p);
    assert_true(net_next_deadline_ns(p->stack) > p->now_ns);
}
