/* Messages: payload written once, where it will be sent from. A transmit buffer is the message area; the stack keeps
 * its hold until the peer has acknowledged, so that a retransmission needs no copy either. */
#include "net/tcp_internal.h"

uint8_t *tcp_message(struct net_stack *stack, struct tcp_connection *c)
{
    bool open = c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT;
    if (!open || c->fin_wanted)
        return NULL;
    if (c->message == NULL)
        c->message = ipv4_output_begin(stack);
    return c->message != NULL ? c->message->data + TCP_MESSAGE_OFFSET : NULL;
}

/* The accounts of a message that has just left as one segment: it is the area no longer. */
void tcp_message_sent(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes, uint64_t now_ns)
{
    struct tcp_segment *s = tcp_sendqueue_push(c, c->snd_nxt, (uint16_t)bytes, TCP_PSH, now_ns);
    s->buffer = c->message;
    s->offset = c->head_bytes;
    c->message = NULL;
    c->ready.on = false;
    c->snd_nxt += bytes;
    c->snd_end = c->snd_nxt;
    if (bytes < c->snd_mss)
        c->snd_small_end = c->snd_nxt;
    tcp_output_sent(stack, c, bytes, now_ns);
}

/* As one segment, from where it lies. False: it does not fit the moment; nothing has changed. */
static bool message_send_whole(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                               uint64_t now_ns)
{
    struct tx_buffer *buffer = c->message;
    if (bytes > c->snd_mss || tcp_sendqueue_full(c)
        || !tcp_frame_send_held(stack, c, buffer, buffer->data + TCP_MESSAGE_OFFSET + from, bytes, c->snd_nxt,
                                TCP_ACK | TCP_PSH, now_ns))
        return false;
    tcp_message_sent(stack, c, bytes, now_ns);
    return true;
}

bool tcp_message_send_long(struct net_stack *stack, struct tcp_connection *c, uint32_t from, uint32_t bytes,
                           uint64_t now_ns)
{
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
    /* Too long for one segment, or for any window of this peer; or a closed window with nothing in flight, that
     * nobody would probe otherwise: through the send ring. */
    if (c->snd_buffer_bytes - out < bytes || (fits && bytes <= c->snd_mss))
        return false;
    return tcp_ring_write(stack, c, c->message->data + TCP_MESSAGE_OFFSET + from, bytes, now_ns) == bytes;
}
