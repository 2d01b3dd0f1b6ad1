/* The two windows of a connection, and the size of its segments: the bytes that we promise to take, and those that the
 * peer still takes. Sends nothing. RFC 9293 §3.7.1, §3.8.6.2. */
#include "net/tcp/window.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "net/tcp/seq.h"

/* RFC 9293 §3.7.1, RFC 6691: Returns the effective payload of a full segment. An MSS below 48 bytes with options is not
 * followed (Linux: TCP_MIN_SND_MSS, against CVE-2019-11479); the path's MTU is. */
uint32_t tcp_send_mss(const struct tcp_connection *c)
{
    enum { SEGMENT_BYTES_MIN = 48 };
    uint32_t path = c->path_mtu_bytes - (uint32_t)(IPV4_HEADER_BYTES_MIN + TCP_HEADER_BYTES_MIN);
    uint32_t mss = c->policy.mss != 0 ? min_u32(c->peer_mss, c->policy.mss) : c->peer_mss;
    ASSERT(path > tcp_options_bytes_each(c));
    return min_u32(max_u32(mss, SEGMENT_BYTES_MIN), path) - tcp_options_bytes_each(c);
}

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
    uint32_t room = min_u32(tcp_receive_room(c), UINT32_C(0xffff) << c->rcv_scale);
    uint32_t step = min_u32((c->rcv_buffer_bytes + 1) / 2, window < mss ? mss : 2 * mss);
    return room > window && room - window >= step;
}

bool tcp_output_waits_for_window(const struct tcp_connection *c)
{
    return tcp_can_send_data(c) && c->segment_count == 0 && !c->blocked
           && (tcp_unsent_bytes(c) != 0 || tcp_fin_unsent(c));
}

void tcp_window_check(const struct tcp_connection *c)
{
    /* Nothing is read before it has come. */
    ASSERT(seq_le(c->rcv_read, c->rcv_nxt - (c->fin_received ? 1 : 0)));
    /* Nothing passes the window, except a FIN, which takes no room. */
    ASSERT(seq_le(c->rcv_nxt, c->rcv_adv + (c->fin_received ? 1 : 0)));
    /* The ring has room for all unread and all promised bytes, so data is stored without a test. */
    ASSERT(tcp_receive_unread(c) + tcp_receive_window(c) <= c->rcv_mask + 1);
}
