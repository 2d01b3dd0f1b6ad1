/* Payload into the stream: order, overlap, the window, what SACK tells. RFC 9293 §3.10.7.4 (seventh), RFC 2018, RFC
 * 2883.
 *
 * A byte of sequence s lies at rcv_ring[s & rcv_mask], in order or not; `ranges` names what has come beyond rcv_nxt.
 * So memory is bounded by the window, whatever the sizes of segments and holes. In-order payload of a `direct`
 * connection with nothing unread is not copied at all but lent where it lies. */
#include "net/tcp_internal.h"

/* ---- The window ---- */

/* RFC 9293 §3.8.6.2.2 (MUST-39): the right edge moves by a segment or half the buffer. */
uint32_t tcp_receive_window_move(struct tcp_connection *c)
{
    uint32_t window = tcp_receive_window(c);
    if (tcp_receive_window_may_move(c, window))
        window = tcp_receive_room(c);
    if (window > UINT32_C(0xffff) << c->rcv_scale)
        window = UINT32_C(0xffff) << c->rcv_scale;

    /* The field counts units of 2^scale. Rounded up, so that the edge does not seem to shrink (SHLD-14), as long as
     * the ring really has those few bytes; if an application leaves it full to the brim, by less than a unit. */
    uint32_t units = (window + (UINT32_C(1) << c->rcv_scale) - 1) >> c->rcv_scale;
    if (units > 0xffff || tcp_receive_unread(c) + (units << c->rcv_scale) > c->rcv_mask + 1)
        units = window >> c->rcv_scale;
    uint32_t edge = c->rcv_nxt + (units << c->rcv_scale);
    if (seq_gt(edge, c->rcv_adv))
        c->rcv_adv = edge;
    return units;
}

/* Whether reading has opened the window so far that the peer should hear of it at once: two segments or half the
 * buffer; one segment if the peer could not send a whole one before. */
bool tcp_receive_window_worth_telling(const struct tcp_connection *c)
{
    uint32_t window = tcp_receive_window(c), room = tcp_receive_room(c), mss = tcp_receive_mss(c);
    uint32_t step = (uint32_t)min_size((c->rcv_buffer_bytes + 1) / 2, window < mss ? mss : 2 * mss);
    return room > window && room - window >= step;
}

/* ---- Ranges beyond rcv_nxt ---- */

/* Notes left..right as received. The union of all it touches comes first (RFC 2018 §4: the block that contains the
 * latest segment). Tells the first part that had come before. False: too many holes, nothing was noted. */
static bool ranges_add(struct tcp_connection *c, struct tcp_range added, struct tcp_range *repeated)
{
    struct tcp_range merged = added;
    uint32_t kept_count = 0, touched_count = 0;
    *repeated = (struct tcp_range){ 0, 0 };
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
        struct tcp_range both = { seq_max(range.left, added.left), seq_min(range.right, added.right) };
        if (seq_lt(both.left, both.right) && repeated->left == repeated->right)
            *repeated = both;
        merged.left = seq_min(merged.left, range.left);
        merged.right = seq_max(merged.right, range.right);
    }
    c->ranges[0] = merged;
    for (uint32_t i = 0; i < kept_count; i++)
        c->ranges[i + 1] = kept[i];
    c->range_count = (uint8_t)(kept_count + 1);
    return true;
}

/* What an in-order segment left..right repeats of the ranges: RFC 2883 §4.1.2 has room for one, the lowest. */
static void ranges_repeated(struct net_stack *stack, struct tcp_connection *c, uint32_t left, uint32_t right)
{
    struct tcp_range lowest = { right, right };
    for (uint32_t i = 0; i < c->range_count; i++)
        if (seq_lt(c->ranges[i].left, lowest.left))
            lowest = (struct tcp_range){ seq_max(c->ranges[i].left, left), seq_min(c->ranges[i].right, right) };
    if (!c->dsack_pending)
        tcp_receive_duplicate(stack, c, lowest.left, lowest.right);
}

/* Moves rcv_nxt over ranges it has reached. */
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
        i = 0;                          /* an earlier one may have become reachable */
    }
}

uint32_t tcp_receive_sack_blocks(const struct tcp_connection *c, struct tcp_range *blocks, uint32_t count_max)
{
    uint32_t count = 0;
    if (c->dsack_pending)
        blocks[count++] = c->dsack;     /* RFC 2883 §4: always the first */
    for (uint32_t i = 0; i < c->range_count && count < count_max; i++) {
        blocks[count] = c->ranges[i];
        /* A FIN that has come behind it, too: Linux takes a last segment for missing of which one octet is. */
        blocks[count++].right += c->fin_seen && c->ranges[i].right == c->fin_seq;
    }
    return count;
}

void tcp_receive_duplicate(struct net_stack *stack, struct tcp_connection *c, uint32_t left, uint32_t right)
{
    if (!seq_lt(left, right))
        return;
    stack->counters.tcp_rx_duplicate_bytes += right - left;
    tcp_ack_quicken(c);
    c->dsack = (struct tcp_range){ left, right };
    c->dsack_pending = c->sack_on;
}

/* ---- Payload ---- */

void tcp_receive_store(struct tcp_connection *c, uint32_t seq, const uint8_t *data, uint32_t bytes)
{
    uint32_t begin = seq & c->rcv_mask;
    uint32_t first = (uint32_t)min_size(bytes, c->rcv_mask + 1 - begin);
    memcpy(c->rcv_ring + begin, data, first);
    memcpy(c->rcv_ring, data + first, bytes - first);
}

void tcp_receive_gap_filled(struct net_stack *stack, struct tcp_connection *c, uint32_t bytes)
{
    uint32_t before = c->rcv_nxt;
    ranges_repeated(stack, c, before - bytes, before);
    ranges_absorb(c);
    c->bytes_received += c->rcv_nxt - before;
    stack->tcp.changed = true;
    c->ack_now = true;
    tcp_timer_due_at(stack, 0);
}

static void receive_out_of_order(struct net_stack *stack, struct tcp_connection *c, uint32_t seq, const uint8_t *data,
                                 uint32_t bytes)
{
    struct tcp_range repeated;
    NET_COUNT(stack, tcp_rx_out_of_order);
    if (!ranges_add(c, (struct tcp_range){ seq, seq + bytes }, &repeated)) {
        NET_COUNT(stack, tcp_rx_drop_ranges_full);
        return;
    }
    tcp_receive_duplicate(stack, c, repeated.left, repeated.right);
    tcp_receive_store(c, seq, data, bytes);
}

/* RFC 9293 §3.10.7.4, eighth: what FIN does once everything before it has come, for which it may have
 * `waited`. */
static void receive_fin(struct net_stack *stack, struct tcp_connection *c, bool waited, uint64_t now_ns)
{
    c->rcv_nxt++;
    c->fin_received = true;
    c->range_count = 0;
    c->dsack_pending = false;           /* as Linux: nothing is left that a sender could conclude from it */
    tcp_ack_slow_down(c);
    if (c->state > TCP_ESTABLISHED || waited || c->bytes_received == 0)
        c->ack_now = true;
    tcp_ack_schedule(stack, c, 1, now_ns);      /* else delayed as text is, since our own FIN often follows: as Linux */
    if (c->ack_now)
        tcp_timer_due_at(stack, 0);
    stack->tcp.changed = true;
    switch (c->state) {
    case TCP_SYN_RECEIVED:
    case TCP_ESTABLISHED:
        c->state = TCP_CLOSE_WAIT;
        break;
    case TCP_FIN_WAIT_1:                /* our FIN is not acknowledged, or the state would be FIN-WAIT-2 by now */
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

void tcp_receive_payload(struct net_stack *stack, struct tcp_connection *c, struct tcp_received *r, uint64_t now_ns)
{
    uint32_t seq = r->seq, bytes = r->bytes;
    const uint8_t *data = r->data;
    bool fin = (r->flags & TCP_FIN) != 0;
    uint32_t edge = c->rcv_nxt + tcp_receive_window(c);

    if (c->fin_received)                /* nothing follows a FIN; a repetition is acknowledged by the window check */
        return;
    if (fin && !c->fin_seen && seq_ge(seq + bytes, c->rcv_nxt) && seq_le(seq + bytes, edge)) {
        c->fin_seen = true;             /* the first one counts, wherever others claim to be */
        c->fin_seq = seq + bytes;
    }

    /* Cut to what is new, in the window, and before the FIN. */
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

    bool out_of_order = seq_gt(seq, c->rcv_nxt) && (bytes != 0 || fin);
    if (bytes != 0) {
        if (fin && c->range_count == 0 && bytes < tcp_receive_mss(c))
            tcp_ack_slow_down(c);       /* ends the quick phase for what comes with it, too: Linux, tcp_fin */
        if (out_of_order)
            receive_out_of_order(stack, c, seq, data, bytes);
        else
            tcp_receive_in_order(stack, c, data, bytes, now_ns);
    }
    if (c->fin_seen && c->fin_seq == c->rcv_nxt)
        receive_fin(stack, c, !fin, now_ns);
    if (out_of_order)                   /* RFC 5681 §4.2: a duplicate ACK for each, at once */
        tcp_ack_send_now(stack, c, now_ns);
    else if (c->ack_now)
        tcp_timer_due_at(stack, 0);
}
