/* Received payload: order, overlap, the window, SACK blocks. RFC 9293 §3.10.7.4 (seventh), RFC 2018, RFC 2883.
 *
 * A byte of sequence s lies at rcv_ring[s & rcv_mask], in order or not; `ranges` names the data beyond rcv_nxt.
 * Memory is therefore bounded by the window, whatever the sizes of segments and holes. In-order payload of a
 * `zero_copy` connection with nothing unread is not copied: the application borrows it in place. */
#include "net/tcp/receive.h"

#include "net/stack_state.h"
#include "net/tcp/deadline.h"
#include "net/tcp/output.h"
#include "net/tcp/ranges.h"
#include "net/tcp/seq.h"
#include "net/tcp/time_wait.h"
#include "net/tcp/window.h"

/* ---- Payload ---- */

void tcp_receive_store(struct tcp_connection *c, uint32_t seq, const uint8_t *data, uint32_t bytes)
{
    ASSERT(bytes <= c->rcv_mask + 1);
    uint32_t begin = seq & c->rcv_mask;
    uint32_t first = min_u32(bytes, c->rcv_mask + 1 - begin);
    memcpy(c->rcv_ring + begin, data, first);
    memcpy(c->rcv_ring, data + first, bytes - first);
}

void tcp_receive_gap_filled(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes)
{
    ASSERT(c->range_count != 0);
    uint32_t before = c->rcv_nxt;
    struct tcp_range repeated = tcp_ranges_repeated(c, (struct tcp_range){ before - bytes, before });
    if (!c->ranges.dsack_pending) /* a repetition below the segment is reported first */
        tcp_receive_duplicate(stack, c, repeated.left, repeated.right);
    tcp_ranges_absorb(c);
    c->bytes_received += c->rcv_nxt - before;
    stack->tcp.changed = true;
    tcp_ack_owe(stack, c);
}

static void receive_out_of_order(struct net_stack *stack, struct tcp_connection *c, uint32_t seq, const uint8_t *data,
                                 uint32_t bytes)
{
    ASSERT(seq_gt(seq, c->rcv_nxt));
    ASSERT(bytes != 0);
    const struct tcp_range added = { seq, seq + bytes }, repeated = tcp_ranges_repeated(c, added);
    NET_COUNT(stack, tcp_rx_out_of_order);
    if (!tcp_ranges_add(c, added)) {
        NET_COUNT(stack, tcp_rx_drop_ranges_full);
        return;
    }
    tcp_receive_duplicate(stack, c, repeated.left, repeated.right);
    tcp_receive_store(c, seq, data, bytes);
}

/* RFC 9293 §3.10.7.4, eighth: Processes a FIN once all data before it has come. Every policy acknowledges a FIN at
 * once: the ACK has nothing to wait for, and the peer's close may wait for it. */
static void receive_fin(struct net_stack *stack, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->fin_seen);
    ASSERT(!c->fin_received);
    c->rcv_nxt++;
    c->fin_received = true;
    tcp_ranges_clear(c);
    tcp_ack_owe(stack, c);
    stack->tcp.changed = true;
    switch (c->state) {
    case TCP_SYN_RECEIVED:
    case TCP_ESTABLISHED:
        c->state = TCP_CLOSE_WAIT;
        break;
    case TCP_FIN_WAIT_1: /* our FIN is not acknowledged: otherwise the state would be FIN-WAIT-2 */
        c->state = TCP_CLOSING;
        break;
    case TCP_FIN_WAIT_2:
        tcp_ack_send_now(stack, c, now_ns);
        tcp_time_wait_enter(stack, c, now_ns);
        break;
    default:
        break;
    }
}

/* Returns true if the FIN of a segment that ends at `seq` is valid: in the window, with no received data after it.
 * The first FIN counts, wherever later ones are. */
static bool fin_is_possible(const struct tcp_connection *c, uint32_t seq, uint32_t edge)
{
    if (c->fin_seen || seq_lt(seq, c->rcv_nxt) || seq_gt(seq, edge))
        return false;
    for (uint32_t i = 0; i < c->range_count; i++)
        if (seq_gt(c->ranges.blocks[i].right, seq))
            return false;
    return true;
}

void tcp_receive_payload(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    uint32_t seq = r->seq, bytes = r->bytes;
    const uint8_t *data = r->data;
    bool fin = (r->flags & TCP_FIN) != 0;
    uint32_t edge = c->rcv_nxt + tcp_receive_window(c);

    if (c->fin_received) /* no data follows a FIN; the window check acknowledges a repetition */
        return;
    if (fin && fin_is_possible(c, seq + bytes, edge)) {
        c->fin_seen = true;
        c->fin_seq = seq + bytes;
    }

    /* Cut the payload to the part that is new, in the window, and before the FIN. */
    if (seq_lt(seq, c->rcv_nxt)) {
        uint32_t old = min_u32(c->rcv_nxt - seq, bytes);
        tcp_receive_duplicate(stack, c, seq, seq + old);
        seq += old;
        data += old;
        bytes -= old;
        if (old != 0)
            tcp_ack_owe(stack, c);
    }
    uint32_t end = seq_min(seq + bytes, edge);
    if (c->fin_seen)
        end = seq_min(end, c->fin_seq);
    if (seq_lt(end, seq + bytes)) {
        bytes = seq_lt(seq, end) ? end - seq : 0;
        tcp_ack_owe(stack, c);
    }

    ASSERT(bytes <= r->bytes);
    ASSERT(bytes == 0 || seq_ge(seq, c->rcv_nxt));
    bool out_of_order = seq_gt(seq, c->rcv_nxt) && (bytes != 0 || fin);
    if (bytes != 0) {
        if (out_of_order)
            receive_out_of_order(stack, c, seq, data, bytes);
        else
            tcp_receive_in_order(stack, c, data, bytes, bytes <= NET_BORROWED_BYTES_MAX, now_ns);
    }
    if (c->fin_seen && c->fin_seq == c->rcv_nxt)
        receive_fin(stack, c, now_ns);
    if (out_of_order) /* RFC 5681 §4.2: a duplicate ACK for each segment, at once */
        tcp_ack_send_now(stack, c, now_ns);
}
