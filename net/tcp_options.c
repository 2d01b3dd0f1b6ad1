/* TCP options, both ways. RFC 9293 §3.2, RFC 7323 §2.2 and §3.2, RFC 2018 §2 and §3. */
#include "net/tcp_internal.h"

/* Of options that come twice the last one counts, as in Linux. */
static void options_take(struct tcp_options *o, uint8_t kind, const uint8_t *at, uint32_t bytes)
{
    switch (kind) {
    case TCP_OPTION_MSS:
        if (bytes == TCP_OPTION_MSS_BYTES && load_be16(at + 2) != 0) {      /* 0 says nothing, as in Linux */
            o->has_mss = true;
            o->mss = load_be16(at + 2);
        }
        break;
    case TCP_OPTION_WINDOW_SCALE:
        if (bytes == TCP_OPTION_WINDOW_SCALE_BYTES) {
            o->has_window_scale = true;         /* RFC 7323 §2.3: more than 14 counts as 14 */
            o->window_scale = at[2] > TCP_WINDOW_SCALE_MAX ? TCP_WINDOW_SCALE_MAX : at[2];
        }
        break;
    case TCP_OPTION_SACK_PERMITTED:
        if (bytes == TCP_OPTION_SACK_PERMITTED_BYTES)
            o->sack_permitted = true;
        break;
    case TCP_OPTION_SACK:
        if ((bytes - 2) % TCP_OPTION_SACK_BLOCK_BYTES != 0)
            break;
        o->sack_count = 0;
        for (uint32_t i = 2; i < bytes && o->sack_count < TCP_SACK_BLOCK_COUNT_MAX; i += TCP_OPTION_SACK_BLOCK_BYTES)
            o->sack[o->sack_count++] = (struct tcp_range){ load_be32(at + i), load_be32(at + i + 4) };
        break;
    case TCP_OPTION_TIMESTAMPS:
        if (bytes == TCP_OPTION_TIMESTAMPS_BYTES) {
            o->has_timestamps = true;
            o->timestamp = load_be32(at + 2);
            o->timestamp_echo = load_be32(at + 6);
        }
        break;
    default:                                    /* MUST-6: unknown ones are skipped by their length */
        break;
    }
}

bool tcp_options_parse(struct tcp_options *o, const uint8_t *at, uint32_t bytes)
{
    *o = (struct tcp_options){ 0 };
    while (bytes > 0) {
        uint8_t kind = at[0];
        uint32_t step = 1;
        if (kind == TCP_OPTION_END)
            return true;
        if (kind != TCP_OPTION_NOP) {
            if (bytes < 2 || at[1] < 2 || at[1] > bytes)    /* MUST-7: a bad length ends it; never a loop */
                return false;
            step = at[1];
            options_take(o, kind, at, step);
        }
        at += step;
        bytes -= step;
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
    return (uint32_t)(at - begin);
}
