/* Received payload: order, overlap, the window, SACK blocks. RFC 9293 §3.10.7.4 (seventh), RFC 2018, RFC 2883.
 *
 * A byte of sequence s lies at rcv_ring[s & rcv_mask], in order or not; `ranges` names the data beyond rcv_nxt.
 * Memory is therefore bounded by the window, whatever the sizes of segments and holes. In-order payload of a
 * `zero_copy` connection with nothing unread is not copied: the application borrows it in place. */
#include "net/tcp/internal.h"

/* ---- The window ---- */

/* RFC 9293 §3.8.6.2.2 (MUST-39): Moves the right edge by at least a segment or half the buffer. */
uint32_t tcp_receive_window_move(struct tcp_connection *c)
{
    uint32_t window = tcp_receive_window(c);
    if (tcp_receive_window_may_move(c, window))
        window = tcp_receive_room(c);
    if (window > UINT32_C(0xffff) << c->rcv_scale)
        window = UINT32_C(0xffff) << c->rcv_scale;

    /* The field counts units of 2^scale. The window is rounded up as long as the ring has those few bytes, and the
     * edge does not seem to shrink (SHLD-14). If the application leaves the ring full, the edge shrinks by less than
     * a unit. */
    uint32_t units = (window + (UINT32_C(1) << c->rcv_scale) - 1) >> c->rcv_scale;
    if (units > 0xffff || tcp_receive_unread(c) + (units << c->rcv_scale) > c->rcv_mask + 1)
        units = window >> c->rcv_scale;
    uint32_t edge = c->rcv_nxt + (units << c->rcv_scale);
    if (seq_gt(edge, c->rcv_adv))
        c->rcv_adv = edge;
    ASSERT(units <= 0xffff);
    return units;
}

/* Returns true if reading has opened the window far enough to report at once: two segments or half the buffer. One
 * segment is enough if the peer could not send a whole one before. The window field cannot name all of a larger
 * buffer. */
bool tcp_receive_window_worth_reporting(const struct tcp_connection *c)
{
    uint32_t window = tcp_receive_window(c), mss = tcp_receive_mss(c);
    uint32_t room = (uint32_t)min_size(tcp_receive_room(c), UINT32_C(0xffff) << c->rcv_scale);
    uint32_t step = (uint32_t)min_size((c->rcv_buffer_bytes + 1) / 2, window < mss ? mss : 2 * mss);
    return room > window && room - window >= step;
}

/* ---- Ranges beyond rcv_nxt ---- */

/* Returns the first part of `added` that has come before; an empty range if none has. RFC 2883 §4.2.3, example 6: a
 * DSACK names one part, the lowest. */
static struct tcp_range ranges_repeated(const struct tcp_connection *c, struct tcp_range added)
{
    ASSERT(seq_lt(added.left, added.right));
    struct tcp_range first = { added.right, added.right };
    for (uint32_t i = 0; i < c->range_count; i++) {
        struct tcp_range both = { seq_max(c->ranges[i].left, added.left), seq_min(c->ranges[i].right, added.right) };
        if (seq_lt(both.left, both.right) && seq_lt(both.left, first.left))
            first = both;
    }
    return first;
}

/* Notes left..right as received. The union of all ranges that it touches becomes the first (RFC 2018 §4: the block
 * that contains the latest segment). Returns false if there are too many holes; nothing was noted. */
static bool ranges_add(struct tcp_connection *c, struct tcp_range added)
{
    ASSERT(seq_gt(added.left, c->rcv_nxt));
    struct tcp_range merged = added;
    uint32_t kept_count = 0, touched_count = 0;
    for (uint32_t i = 0; i < c->range_count; i++)
        touched_count += seq_le(c->ranges[i].left, added.right) && seq_ge(c->ranges[i].right, added.left);
    if (touched_count == 0 && c->range_count == TCP_RANGE_COUNT_MAX)
        return false;

    struct tcp_range kept[TCP_RANGE_COUNT_MAX];
    for (uint32_t i = 0; i < c->range_count; i++) {
        struct tcp_range range = c->ranges[i];
        if (seq_gt(range.left, added.right) || seq_lt(range.right, added.left)) {
            kept[kept_count++] = range;
            continue;
        }
        merged.left = seq_min(merged.left, range.left);
        merged.right = seq_max(merged.right, range.right);
    }
    c->ranges[0] = merged;
    for (uint32_t i = 0; i < kept_count; i++)
        c->ranges[i + 1] = kept[i];
    c->range_count = (uint8_t)(kept_count + 1);
    ASSERT(c->range_count <= TCP_RANGE_COUNT_MAX);
    return true;
}

/* Moves rcv_nxt over ranges that it has reached. */
static void ranges_absorb(struct tcp_connection *c)
{
    for (uint32_t i = 0; i < c->range_count;) {
        if (seq_gt(c->ranges[i].left, c->rcv_nxt)) {
            i++;
            continue;
        }
        c->rcv_nxt = seq_max(c->rcv_nxt, c->ranges[i].right);
        for (uint32_t k = i + 1; k < c->range_count; k++)
            c->ranges[k - 1] = c->ranges[k];
        c->range_count--;
        i = 0; /* an earlier range may have become reachable */
    }
    ASSERT(seq_le(c->rcv_nxt, c->rcv_adv));
}

uint32_t tcp_receive_sack_blocks(const struct tcp_connection *c, struct tcp_range *blocks, uint32_t count_max)
{
    uint32_t count = 0;
    if (c->dsack_pending)
        blocks[count++] = c->dsack; /* RFC 2883 §4: always the first */
    for (uint32_t i = 0; i < c->range_count && count < count_max; i++) {
        blocks[count] = c->ranges[i];
        /* The last block includes a FIN behind it: Linux takes the last segment for missing if one octet is missing. */
        blocks[count++].right += c->fin_seen && c->ranges[i].right == c->fin_seq;
    }
    ASSERT(count <= count_max);
    return count;
}

void tcp_receive_duplicate(struct net_stack *stack, struct tcp_connection *c, uint32_t left, uint32_t right)
{
    if (!seq_lt(left, right))
        return;
    stack->ip.counters.tcp_rx_duplicate_bytes += right - left;
    tcp_ack_quicken(c);
    c->dsack = (struct tcp_range){ left, right };
    c->dsack_pending = c->sack_on;
}

/* ---- Payload ---- */

void tcp_receive_store(struct tcp_connection *c, uint32_t seq, const uint8_t *data, uint32_t bytes)
{
    ASSERT(bytes <= c->rcv_mask + 1);
    uint32_t begin = seq & c->rcv_mask;
    uint32_t first = (uint32_t)min_size(bytes, c->rcv_mask + 1 - begin);
    memcpy(c->rcv_ring + begin, data, first);
    memcpy(c->rcv_ring, data + first, bytes - first);
}

void tcp_receive_gap_filled(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes)
{
    ASSERT(c->range_count != 0);
    uint32_t before = c->rcv_nxt;
    struct tcp_range repeated = ranges_repeated(c, (struct tcp_range){ before - bytes, before });
    if (!c->dsack_pending) /* a repetition below the segment is reported first */
        tcp_receive_duplicate(stack, c, repeated.left, repeated.right);
    ranges_absorb(c);
    c->bytes_received += c->rcv_nxt - before;
    stack->tcp.changed = true;
    c->ack_now = true;
    tcp_timer_due_at(stack, 0);
}

static void receive_out_of_order(struct net_stack *stack, struct tcp_connection *c, uint32_t seq, const uint8_t *data,
                                 uint32_t bytes)
{
    ASSERT(seq_gt(seq, c->rcv_nxt));
    ASSERT(bytes != 0);
    const struct tcp_range added = { seq, seq + bytes }, repeated = ranges_repeated(c, added);
    NET_COUNT(stack, tcp_rx_out_of_order);
    if (!ranges_add(c, added)) {
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
    c->range_count = 0;
    c->dsack_pending = false; /* as Linux: a sender could conclude nothing from a DSACK now */
    c->ack_now = true;
    tcp_timer_due_at(stack, 0);
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

/* Returns true if the FIN of a segment that ends at `seq` is valid: in the window, with no received data behind it.
 * The first FIN counts, wherever later ones are. */
static bool fin_is_possible(const struct tcp_connection *c, uint32_t seq, uint32_t edge)
{
    if (c->fin_seen || seq_lt(seq, c->rcv_nxt) || seq_gt(seq, edge))
        return false;
    for (uint32_t i = 0; i < c->range_count; i++)
        if (seq_gt(c->ranges[i].right, seq))
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
        uint32_t old = (uint32_t)min_size(c->rcv_nxt - seq, bytes);
        tcp_receive_duplicate(stack, c, seq, seq + old);
        seq += old;
        data += old;
        bytes -= old;
        if (old != 0)
            c->ack_now = true;
    }
    uint32_t end = seq_min(seq + bytes, edge);
    if (c->fin_seen)
        end = seq_min(end, c->fin_seq);
    if (seq_lt(end, seq + bytes)) {
        bytes = seq_lt(seq, end) ? end - seq : 0;
        c->ack_now = true;
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
    else if (c->ack_now)
        tcp_timer_due_at(stack, 0);
}
