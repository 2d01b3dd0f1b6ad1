/* Messages: payload that is written once, in the place from which it is sent. The message area is a transmit buffer.
 * The stack keeps its hold until the peer has acknowledged, so a retransmission needs no copy either. */
#include "net/tcp/message.h"

#include "net/stack_state.h"
#include "net/tcp/check.h"
#include "net/tcp/ecn.h"
#include "net/tcp/frame.h"
#include "net/tcp/output.h"
#include "net/tcp/send_queue.h"
#include "net/tcp/stream.h"

uint8_t *tcp_message(struct net_stack *stack, struct tcp_connection *c)
{
    bool open = c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT;
    if (!open || c->fin_wanted)
        return NULL;
    struct tcp *tcp = &stack->tcp;
    bool room = tcp->capacity.message_count == 0 || tcp->message_count < tcp->capacity.message_count;
    if (c->message == NULL && room) {
        c->message = ethernet_send_begin(&stack->ip);
        tcp->message_count += c->message != NULL;
    }
    return c->message != NULL ? c->message->data + TCP_MESSAGE_OFFSET : NULL;
}

/* Updates the accounts after a message has left as one segment: its buffer is the message area no longer. */
void tcp_message_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns)
{
    ASSERT(c->message != NULL);
    struct tcp_segment *s = tcp_sendqueue_push(c, c->snd_nxt, (uint16_t)bytes, TCP_PSH, now_ns);
    s->buffer = c->message;
    s->offset = c->head_bytes;
    c->message = NULL;
    c->ready.on = false;
    c->snd_nxt += bytes;
    c->snd_end = c->snd_nxt;
    tcp_output_sent(stack, c, bytes, now_ns);
}

/* Sends the message as one segment, in place. Returns false if it does not fit now; nothing has changed. The head goes
 * over bytes of the area, which a refused message gets back, except before a prepared one: those are the stack's. */
static bool message_send_whole(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                               uint64_t now_ns)
{
    if (bytes > c->snd_mss || tcp_sendqueue_full(c))
        return false;
    struct tx_buffer *buffer = c->message;
    uint8_t *payload = buffer->data + TCP_MESSAGE_OFFSET + from, before[sizeof c->head];
    memcpy(before, payload - c->head_bytes, c->head_bytes);
    if (!tcp_frame_send_held(stack, c, buffer, payload, bytes, c->snd_nxt, TCP_ACK | TCP_PSH | tcp_cwr_flag(c, bytes),
                             false, now_ns)) {
        if (!c->ready.on || from != c->ready.from)
            memcpy(payload - c->head_bytes, before, c->head_bytes);
        return false;
    }
    tcp_cwr_sent(c, bytes);
    tcp_message_sent(stack, c, bytes, now_ns);
    tcp_connection_check(c);
    return true;
}

bool tcp_message_send_long(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                           uint64_t now_ns)
{
    ASSERT(c->message != NULL);
    bool open = c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT;
    uint32_t flight = tcp_in_flight(c), out = c->snd_nxt - c->snd_una;
    if (!open || c->fin_wanted || c->snd_nxt != c->snd_end)
        return false;
    bool fits = out + bytes <= c->snd_wnd && flight + bytes <= c->congestion.cwnd;
    if (!fits && out != 0)
        return false;
    if (fits && message_send_whole(stack, c, from, bytes, now_ns))
        return true;
    if (!c->neighbour_known && fits)
        return false;
    /* The message goes through the send ring if it is too long for one segment, or for any window of this peer. So
     * does a message that meets a closed window with nothing in flight: otherwise nobody would probe. */
    if (out + bytes > c->snd_buffer_bytes || (fits && bytes <= c->snd_mss))
        return false;
    if (tcp_ring_write(stack, c, c->message->data + TCP_MESSAGE_OFFSET + from, bytes, now_ns) != bytes)
        return false;
    tcp_message_release(stack, c->message); /* else a quiet connection would keep a buffer */
    c->message = NULL;
    c->ready.on = false;
    return true;
}
