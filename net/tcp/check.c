/* The invariant of a connection between two calls. That of each part stands in the file that writes the part; here is
 * the rest, that of several parts. Every slow path ends with tcp_connection_check, and the tests call it after each
 * step. Reads only; knows no policy and no time. */
#include "net/tcp/check.h"

#include "net/stack_state.h"
#include "net/tcp/deadline.h"
#include "net/tcp/ecn.h"
#include "net/tcp/frame.h"
#include "net/tcp/ranges.h"
#include "net/tcp/recovery.h"
#include "net/tcp/route.h"
#include "net/tcp/rtt.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/seq.h"
#include "net/tcp/window.h"

static void check_message(const struct tcp_connection *c)
{
    /* A message area is taken by an open connection, and given back by its end. */
    ASSERT(c->message == NULL || !(tcp_is_opening(c) || tcp_is_over(c)));
    /* The ready frame stands in the message area. */
    ASSERT(!c->ready.on || c->message != NULL);
    /* The neighbour's address stands in the ready frame. */
    ASSERT(!c->ready.on || c->neighbour_known);
    /* The ready frame's flags are ACK and PSH. */
    ASSERT(!c->ready.on || !(c->ecn.echo || c->ecn.cwr));
}

static void check_state(const struct tcp_connection *c)
{
    bool fin_ours = c->state == TCP_FIN_WAIT_1 || c->state == TCP_FIN_WAIT_2 || c->state == TCP_CLOSING
                    || c->state == TCP_LAST_ACK;
    bool fin_theirs = c->state == TCP_CLOSE_WAIT || c->state == TCP_CLOSING || c->state == TCP_LAST_ACK;
    /* Listeners have a table of their own. */
    ASSERT(c->state <= TCP_TIME_WAIT && c->state != TCP_LISTEN);
    /* RFC 9293, figure 5: a shutdown leaves ESTABLISHED and CLOSE-WAIT; a shutdown while opening waits. */
    ASSERT(tcp_is_opening(c) || tcp_is_over(c) || c->fin_wanted == fin_ours);
    /* The peer's FIN leads to the other three states. */
    ASSERT(tcp_is_over(c) || c->fin_received == fin_theirs);
    /* Only a listener makes a connection that nobody has accepted and nobody has given back. */
    ASSERT(c->listener < 0 || (c->passive && !c->orphan));
    /* Nobody would ever free an orphan that is over. */
    ASSERT(!c->orphan || !tcp_is_over(c));
}

static void check_send(const struct tcp_connection *c)
{
    if (tcp_is_over(c)) {
        ASSERT(!c->blocked); /* nothing more is sent */
        return;
    }
    /* Everything sent has been written, except the FIN. */
    ASSERT(seq_le(c->snd_nxt, c->snd_end + (c->fin_wanted ? 1 : 0)));
    /* The acknowledgement of the FIN leads to FIN-WAIT-2, and ends CLOSING and LAST-ACK. */
    ASSERT((c->state == TCP_FIN_WAIT_2) == (c->fin_wanted && c->snd_una == c->snd_end + 1));
    /* The acknowledgement of the SYN leads to ESTABLISHED. */
    ASSERT(tcp_is_opening(c) ? c->snd_una == c->iss && c->snd_nxt == c->iss + 1 : seq_gt(c->snd_una, c->iss));
    /* With nothing left to send, each turn would try again for nothing. */
    ASSERT(c->state != TCP_FIN_WAIT_2 || !c->blocked);
    /* Output with an MSS of 0 would send empty segments without end. */
    ASSERT(c->snd_mss != 0);
}

static void check_fin(const struct tcp_connection *c)
{
    /* No data follows a FIN. */
    ASSERT(!c->fin_received || (c->fin_seen && c->rcv_nxt == c->fin_seq + 1 && c->range_count == 0));
    /* A FIN that has been seen and not received waits for the data before it. */
    ASSERT(!c->fin_seen || c->fin_received || tcp_is_over(c) || seq_gt(c->fin_seq, c->rcv_nxt));
}

void tcp_connection_check(const struct tcp_connection *c)
{
    ASSERT(c->used);
    check_message(c);
    check_state(c);
    check_send(c);
    check_fin(c);
    tcp_frame_check(c);
    tcp_window_check(c);
    tcp_sendqueue_check(c);
    tcp_ranges_check(c);
    tcp_deadline_check(c);
    tcp_rtt_check(c);
    tcp_ecn_check(c);
    tcp_recovery_check(c);
}

/* Checks that each listener counts its half-open connections, and those that wait for tcp_accept. */
static void check_listeners(const struct tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->capacity.listener_count; i++) {
        const struct tcp_listener *listener = &tcp->listeners[i];
        uint32_t half_open_count = 0, waiting_count = 0;
        for (uint32_t k = 0; k < tcp->half_open_used; k++)
            half_open_count += tcp->half_open[k].listener == i;
        for (uint32_t k = 0; k < tcp->connection_end; k++)
            waiting_count += tcp->connections[k].used && tcp->connections[k].listener == (int)i;
        ASSERT(listener->half_open_count == half_open_count);
        ASSERT(listener->waiting_count == waiting_count);
        ASSERT(listener->used || half_open_count + waiting_count == 0);
    }
}

static void check_keys(const struct tcp *tcp)
{
    ASSERT(tcp->half_open_used <= tcp->capacity.half_open_count);
    for (uint32_t i = 0; i < tcp->half_open_used; i++) {
        const struct tcp_half_open *h = &tcp->half_open[i];
        ASSERT(tcp->half_open_keys[i] == tcp_key(h->peer_address, h->peer_port, h->port));
    }
    ASSERT(tcp->time_wait_used <= tcp->capacity.time_wait_count);
    for (uint32_t i = 0; i < tcp->time_wait_used; i++) {
        const struct tcp_time_wait *w = &tcp->time_wait[i];
        ASSERT(tcp->time_wait_keys[i] == tcp_key(w->peer_address, w->peer_port, w->port));
    }
}

/* Returns how many transmit buffers the messages of a connection keep. The parts of a cut message share one. */
static uint32_t messages_of(const struct tcp_connection *c)
{
    uint32_t count = c->message != NULL;
    for (uint32_t i = 0; i < c->segment_count; i++) {
        const struct tcp_segment *s = tcp_sendqueue_at(c, i);
        count += s->buffer != NULL && (s->marks & TCP_MARK_SHARED) == 0;
    }
    return count;
}

/* Checks that each connection is counted at the ARP entry of its next hop. */
static void check_next_hop(const struct net_stack *stack, const struct tcp_connection *c)
{
    uint32_t next_hop = tcp_next_hop(stack, c), count = 0;
    ASSERT(!tcp_is_over(c) || next_hop == 0);
    for (uint32_t i = 0; i < stack->tcp.connection_end; i++)
        count += stack->tcp.next_hops[i] == next_hop;
    ASSERT(next_hop == 0 || arp_connection_count(&stack->ip, next_hop) == count);
    /* A copied address is in ARP's table as well, which asks again for what it holds. */
    ASSERT(!c->neighbour_known || tcp_is_over(c) || arp_known(&stack->ip, next_hop) != NULL);
}

void tcp_check(const struct net_stack *stack)
{
    const struct tcp *tcp = &stack->tcp;
    check_listeners(tcp);
    check_keys(tcp);
    uint32_t message_count = 0;
    ASSERT(tcp->connection_end <= tcp->capacity.connection_count);
    for (uint32_t i = 0; i < tcp->connection_end; i++) {
        const struct tcp_connection *c = &tcp->connections[i];
        /* The key finds a connection until the connection is over, and no longer. */
        ASSERT(tcp->keys[i] == (c->used && !tcp_is_over(c) ? tcp_key(c->peer_address, c->peer_port, c->port) : 0));
        if (!c->used)
            continue;
        ASSERT(c->index == i);
        check_next_hop(stack, c);
        tcp_connection_check(c);
        message_count += messages_of(c);
    }
    ASSERT(tcp->message_count == message_count);
}
