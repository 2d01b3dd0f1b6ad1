/* The segments in flight: a ring in order of sequence, with marks and the sums over them.
 *
 * RFC 6675's scoreboard, by segment instead of by byte: we send segments, and the network loses segments. Moves no
 * payload, sends nothing. */
#include "net/tcp/send_queue.h"

#include "net/stack_state.h"

/* Adds a segment's space to the sums that its marks select, or subtracts it. A SACKed segment is in no other sum. */
static void sendqueue_account(struct tcp_connection *c, const struct tcp_segment *s, uint32_t space, bool add)
{
    uint32_t change = add ? space : -space;
    ASSERT(add || (s->marks & TCP_MARK_SACKED) == 0 || c->queue.sacked_bytes >= space);
    if ((s->marks & TCP_MARK_SACKED) != 0) {
        c->queue.sacked_bytes += change;
        return;
    }
    if ((s->marks & TCP_MARK_LOST) != 0)
        c->queue.lost_bytes += change;
    if ((s->marks & TCP_MARK_RESENT) != 0)
        c->queue.resent_bytes += change;
}

struct tcp_segment *tcp_sendqueue_push(struct tcp_connection *c, uint32_t seq, uint16_t bytes, uint8_t flags,
                                       uint64_t now_ns)
{
    ASSERT(!tcp_sendqueue_full(c));
    struct tcp_segment *s = tcp_sendqueue_at(c, c->segment_count++);
    *s = (struct tcp_segment){
        .seq = seq,
        .bytes = bytes,
        .flags = flags & (TCP_SYN | TCP_FIN | TCP_PSH),
        .sent_ns = now_ns,
    };
    return s;
}

void tcp_message_release(struct net_stack *stack, struct tx_buffer *buffer)
{
    ASSERT(stack->tcp.message_count > 0);
    stack->tcp.message_count--;
    stack->ip.device->ops->tx_release(stack->ip.device, buffer);
}

void tcp_sendqueue_pop(struct net_stack *stack, struct tcp_connection *c)
{
    ASSERT(c->segment_count > 0);
    struct tcp_segment *s = tcp_sendqueue_at(c, 0);
    sendqueue_account(c, s, tcp_segment_space(s), false);
    if (s->buffer != NULL && (s->marks & TCP_MARK_SHARED) == 0)
        tcp_message_release(stack, s->buffer);
    s->buffer = NULL;
    c->queue.head++;
    c->segment_count--;
}

void tcp_sendqueue_trim(struct tcp_connection *c, uint32_t ack)
{
    struct tcp_segment *s = tcp_sendqueue_at(c, 0);
    uint32_t space = ack - s->seq;
    ASSERT(space < tcp_segment_space(s));
    ASSERT((s->flags & TCP_SYN) == 0 || space == 0); /* a SYN of ours carries no data: acknowledged whole or not */
    sendqueue_account(c, s, space, false);
    s->seq = ack;
    s->bytes = (uint16_t)(s->bytes - space);
    s->offset = (uint16_t)(s->offset + space);
    /* The rest may never have been resent: a full queue lets a part of its front go alone. */
    tcp_sendqueue_mark(c, s, 0, TCP_MARK_RESENT);
}

bool tcp_sendqueue_split(struct tcp_connection *c, uint32_t index, uint32_t bytes)
{
    ASSERT(index < c->segment_count);
    if (tcp_sendqueue_full(c))
        return false;
    for (uint32_t i = c->segment_count; i > index + 1; i--)
        *tcp_sendqueue_at(c, i) = *tcp_sendqueue_at(c, i - 1);
    c->segment_count++;

    struct tcp_segment *front = tcp_sendqueue_at(c, index), *rest = tcp_sendqueue_at(c, index + 1);
    ASSERT(bytes > 0 && bytes < front->bytes);
    *rest = *front;
    rest->seq += bytes;
    rest->bytes = (uint16_t)(front->bytes - bytes);
    rest->offset = (uint16_t)(front->offset + bytes);
    front->bytes = (uint16_t)bytes;
    front->flags &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    if (front->buffer != NULL) {
        front->marks |= TCP_MARK_SHARED;
        rest->marks |= TCP_MARK_CUT;
    }
    return true;
}

void tcp_sendqueue_mark(struct tcp_connection *c, struct tcp_segment *s, uint8_t set, uint8_t clear)
{
    sendqueue_account(c, s, tcp_segment_space(s), false);
    s->marks = (uint8_t)((s->marks & ~clear) | set);
    sendqueue_account(c, s, tcp_segment_space(s), true);
}

void tcp_sendqueue_clear(struct net_stack *stack, struct tcp_connection *c)
{
    while (c->segment_count > 0)
        tcp_sendqueue_pop(stack, c);
    ASSERT(c->queue.sacked_bytes == 0 && c->queue.lost_bytes == 0 && c->queue.resent_bytes == 0);
}

uint32_t tcp_in_flight(const struct tcp_connection *c)
{
    uint32_t out = c->snd_nxt - c->snd_una + c->queue.resent_bytes;
    uint32_t gone = c->queue.sacked_bytes + c->queue.lost_bytes + c->recovery.duplicate_bytes;
    return out > gone ? out - gone : 0;
}

/* Checks that the segments in flight lie one after the other from snd_una to snd_nxt, and that the sums are those of
 * their marks. */
void tcp_sendqueue_check(const struct tcp_connection *c)
{
    uint32_t seq = c->snd_una, sacked_bytes = 0, lost_bytes = 0, resent_bytes = 0;
    ASSERT(c->segment_count <= c->segment_mask + 1);
    for (uint32_t i = 0; i < c->segment_count; i++) {
        const struct tcp_segment *s = tcp_sendqueue_at(c, i);
        uint32_t space = tcp_segment_space(s);
        ASSERT(s->seq == seq);
        ASSERT(space != 0); /* an empty one would never be acknowledged */
        seq += space;
        if ((s->marks & TCP_MARK_SACKED) != 0) {
            sacked_bytes += space;
            continue;
        }
        lost_bytes += (s->marks & TCP_MARK_LOST) != 0 ? space : 0;
        resent_bytes += (s->marks & TCP_MARK_RESENT) != 0 ? space : 0;
    }
    /* Sent data that is not in the queue could not be sent again. */
    ASSERT(tcp_is_over(c) || seq == c->snd_nxt);
    ASSERT(!tcp_is_over(c) || c->segment_count == 0); /* a connection gives its transmit buffers back at its end */
    ASSERT(c->queue.sacked_bytes == sacked_bytes);
    ASSERT(c->queue.lost_bytes == lost_bytes);
    ASSERT(c->queue.resent_bytes == resent_bytes);
    ASSERT(c->queue.sacked_bytes + c->queue.lost_bytes <= seq - c->snd_una);
}
