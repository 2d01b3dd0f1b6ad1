/* Rules of closing that no timeline of tests/wire/close can say: a lost address, buffers that run out. */
#include "net/tcp/path.h"
#include "tests/lib/tcp_fixture.h"

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
