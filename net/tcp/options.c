/* TCP options, both ways. RFC 9293 §3.2, RFC 7323 §2.2 and §3.2, RFC 2018 §2 and §3. */
#include "net/tcp/options.h"

#include "base/assert.h"
#include "base/bytes.h"

/* Takes the option that lies in `field` at `from` up to `to`. The last one of repeated options counts: the RFCs do not
 * say which, and middleboxes that rewrite options are made for Linux, where it is the last. */
static void option_take(struct tcp_options *o, const uint8_t *field, uint32_t from, uint32_t to)
{
    switch (field[from]) {
    case TCP_OPTION_MSS:
        if (from + TCP_OPTION_MSS_BYTES == to && load_be16(field + from + 2) != 0) { /* 0 says nothing */
            o->has_mss = true;
            o->mss = load_be16(field + from + 2);
        }
        break;
    case TCP_OPTION_WINDOW_SCALE:
        if (from + TCP_OPTION_WINDOW_SCALE_BYTES == to) {
            o->has_window_scale = true; /* RFC 7323 §2.3: more than 14 counts as 14 */
            o->window_scale = field[from + 2] > TCP_WINDOW_SCALE_MAX ? TCP_WINDOW_SCALE_MAX : field[from + 2];
        }
        break;
    case TCP_OPTION_SACK_PERMITTED:
        if (from + TCP_OPTION_SACK_PERMITTED_BYTES == to)
            o->sack_permitted = true;
        break;
    case TCP_OPTION_SACK:
        if ((to - from - 2) % TCP_OPTION_SACK_BLOCK_BYTES != 0)
            break;
        o->sack_count = 0;
        for (uint32_t i = from + 2; i + TCP_OPTION_SACK_BLOCK_BYTES <= to && o->sack_count < TCP_SACK_BLOCK_COUNT_MAX;
             i += TCP_OPTION_SACK_BLOCK_BYTES)
            o->sack[o->sack_count++] = (struct tcp_range){ load_be32(field + i), load_be32(field + i + 4) };
        break;
    case TCP_OPTION_TIMESTAMPS:
        if (from + TCP_OPTION_TIMESTAMPS_BYTES == to) {
            o->has_timestamps = true;
            o->timestamp = load_be32(field + from + 2);
            o->timestamp_echo = load_be32(field + from + 6);
        }
        break;
    default: /* MUST-6: unknown ones are skipped by their length */
        break;
    }
}

bool tcp_options_parse(struct tcp_options *o, const uint8_t *field, uint32_t bytes)
{
    *o = (struct tcp_options){ 0 };
    uint32_t i = 0;
    while (i < bytes && field[i] != TCP_OPTION_END) {
        if (field[i] == TCP_OPTION_NOP) {
            i++;
            continue;
        }
        if (i + 2 > bytes)
            return false;
        uint32_t end = i + field[i + 1];
        if (end < i + 2 || end > bytes) /* MUST-7: a bad length ends it; never a loop */
            return false;
        option_take(o, field, i, end);
        i = end;
    }
    return true;
}

uint32_t tcp_options_write_syn(uint8_t *at, const struct tcp_syn_options *o)
{
    uint8_t *const begin = at;
    at[0] = TCP_OPTION_MSS;
    at[1] = TCP_OPTION_MSS_BYTES;
    store_be16(at + 2, o->mss);
    at += TCP_OPTION_MSS_BYTES;

    /* SACK permitted takes the place of the two NOPs that would align the timestamps. */
    if (o->timestamps) {
        at[0] = o->sack ? TCP_OPTION_SACK_PERMITTED : TCP_OPTION_NOP;
        at[1] = o->sack ? TCP_OPTION_SACK_PERMITTED_BYTES : TCP_OPTION_NOP;
        at[2] = TCP_OPTION_TIMESTAMPS;
        at[3] = TCP_OPTION_TIMESTAMPS_BYTES;
        store_be32(at + 4, o->timestamp);
        store_be32(at + 8, o->timestamp_echo);
        at += TCP_TIMESTAMPS_ALIGNED_BYTES;
    } else if (o->sack) {
        at[0] = at[1] = TCP_OPTION_NOP;
        at[2] = TCP_OPTION_SACK_PERMITTED;
        at[3] = TCP_OPTION_SACK_PERMITTED_BYTES;
        at += 4;
    }
    if (o->scaling) {
        at[0] = TCP_OPTION_NOP;
        at[1] = TCP_OPTION_WINDOW_SCALE;
        at[2] = TCP_OPTION_WINDOW_SCALE_BYTES;
        at[3] = o->scale;
        at += 4;
    }
    ASSERT(at - begin <= TCP_OPTION_BYTES_MAX);
    ASSERT((at - begin) % 4 == 0);
    return (uint32_t)(at - begin);
}
