/* The received data beyond rcv_nxt as ranges of sequence numbers, and the reports of them: SACK blocks, DSACK. Knows no
 * payload. RFC 2018, RFC 2883. */
#include "net/tcp/ranges.h"

#include "net/stack_state.h"
#include "net/tcp/deadline.h"
#include "net/tcp/seq.h"

/* Returns the first part of `added` that has come before; an empty range if none has. RFC 2883 §4.2.3, example 6: a
 * DSACK names one part, the lowest. */
struct tcp_range tcp_ranges_repeated(const struct tcp_connection *c, struct tcp_range added)
{
    ASSERT(seq_lt(added.left, added.right));
    struct tcp_range first = { added.right, added.right };
    for (uint32_t i = 0; i < c->range_count; i++) {
        struct tcp_range both = { seq_max(c->ranges.blocks[i].left, added.left),
                                  seq_min(c->ranges.blocks[i].right, added.right) };
        if (seq_lt(both.left, both.right) && seq_lt(both.left, first.left))
            first = both;
    }
    return first;
}

/* Notes left..right as received. The union of all ranges that it touches becomes the first (RFC 2018 §4: the block
 * that contains the latest segment). Returns false if there are too many holes; nothing was noted. */
bool tcp_ranges_add(struct tcp_connection *c, struct tcp_range added)
{
    ASSERT(seq_gt(added.left, c->rcv_nxt));
    struct tcp_range merged = added;
    uint32_t kept_count = 0, touched_count = 0;
    for (uint32_t i = 0; i < c->range_count; i++)
        touched_count += seq_le(c->ranges.blocks[i].left, added.right) && seq_ge(c->ranges.blocks[i].right, added.left);
    if (touched_count == 0 && c->range_count == TCP_RANGE_COUNT_MAX)
        return false;

    struct tcp_range kept[TCP_RANGE_COUNT_MAX];
    for (uint32_t i = 0; i < c->range_count; i++) {
        struct tcp_range range = c->ranges.blocks[i];
        if (seq_gt(range.left, added.right) || seq_lt(range.right, added.left)) {
            kept[kept_count++] = range;
            continue;
        }
        merged.left = seq_min(merged.left, range.left);
        merged.right = seq_max(merged.right, range.right);
    }
    c->ranges.blocks[0] = merged;
    for (uint32_t i = 0; i < kept_count; i++)
        c->ranges.blocks[i + 1] = kept[i];
    c->range_count = (uint8_t)(kept_count + 1);
    ASSERT(c->range_count <= TCP_RANGE_COUNT_MAX);
    return true;
}

/* Moves rcv_nxt over ranges that it has reached. Ranges never touch, so none that was passed over becomes reachable. */
void tcp_ranges_absorb(struct tcp_connection *c)
{
    for (uint32_t i = 0; i < c->range_count;) {
        if (seq_gt(c->ranges.blocks[i].left, c->rcv_nxt)) {
            i++;
            continue;
        }
        c->rcv_nxt = seq_max(c->rcv_nxt, c->ranges.blocks[i].right);
        for (uint32_t k = i + 1; k < c->range_count; k++)
            c->ranges.blocks[k - 1] = c->ranges.blocks[k];
        c->range_count--;
    }
    ASSERT(seq_le(c->rcv_nxt, c->rcv_adv));
}

void tcp_ranges_clear(struct tcp_connection *c)
{
    c->range_count = 0;
    c->ranges.dsack_pending = false; /* a sender could conclude nothing from a DSACK now */
}

uint32_t tcp_receive_sack_blocks(const struct tcp_connection *c, struct tcp_range *blocks, uint32_t count_max)
{
    uint32_t count = 0;
    if (c->ranges.dsack_pending)
        blocks[count++] = c->ranges.dsack; /* RFC 2883 §4: always the first */
    for (uint32_t i = 0; i < c->range_count && count < count_max; i++) {
        blocks[count] = c->ranges.blocks[i];
        /* The last block includes the FIN that follows the data: Linux takes the last segment for missing if one octet
         * is missing. */
        blocks[count++].right += c->fin_seen && c->ranges.blocks[i].right == c->fin_seq;
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
    c->ranges.dsack = (struct tcp_range){ left, right };
    c->ranges.dsack_pending = c->sack_on;
}

void tcp_ranges_check(const struct tcp_connection *c)
{
    ASSERT(c->range_count <= TCP_RANGE_COUNT_MAX);
    for (uint32_t i = 0; i < c->range_count; i++) {
        const struct tcp_range *range = &c->ranges.blocks[i];
        ASSERT(seq_lt(range->left, range->right));
        ASSERT(seq_gt(range->left, c->rcv_nxt));  /* a block at rcv_nxt would be in order */
        ASSERT(seq_le(range->right, c->rcv_adv)); /* the ring has no room beyond */
        for (uint32_t k = 0; k < i; k++)          /* blocks that touch each other would be one */
            ASSERT(seq_lt(range->right, c->ranges.blocks[k].left) || seq_gt(range->left, c->ranges.blocks[k].right));
    }
    /* RFC 2883: a DSACK report names at least one byte, and the peer understands SACK. */
    ASSERT(!c->ranges.dsack_pending || (c->sack_on && seq_lt(c->ranges.dsack.left, c->ranges.dsack.right)));
}
