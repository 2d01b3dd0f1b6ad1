/* Congestion control. RFC 5681 §3.1, RFC 3465 §2 (counting bytes), RFC 9438 §4 (CUBIC). */
#include "net/tcp/congestion.h"

#include <stddef.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"

enum {
    CWND_BYTES_MAX = 1 << 30, /* the largest window that sequence space allows: RFC 7323 §2.3 */
    /* At this age the cubic is above CWND_BYTES_MAX with any MSS. The product of the cubic still fits 64 bits. */
    CUBIC_EPOCH_MS_MAX = 400000,
};

uint32_t tcp_congestion_initial_window(uint32_t segments, uint32_t mss)
{
    if (segments < 10)
        return segments * mss;
    return min_u32(segments * mss, max_u32(2 * mss, segments * 1460)); /* RFC 6928 §2 */
}

void tcp_congestion_init(struct tcp_congestion *c, uint32_t initial_window)
{
    *c = (struct tcp_congestion){ .cwnd = initial_window, .ssthresh = TCP_SSTHRESH_UNSET };
}

/* Returns the integer cube root, rounded down. */
static uint64_t cube_root(uint64_t v)
{
    uint64_t root = 0;
    for (int bit = 20; bit >= 0; bit--) { /* (2^21)^3 = 2^63 */
        uint64_t trial = root | UINT64_C(1) << bit;
        if (trial * trial * trial <= v)
            root = trial;
    }
    ASSERT(root * root * root <= v);
    return root;
}

/* Begins an epoch at the first ACK of congestion avoidance after a loss or an idle time. RFC 9438 §4.2:
 * K = cbrt((W_max - cwnd_epoch) / C) in segments and seconds, C = 0.4. In ms: K^3 = segments * 2.5 * 10^9. */
static void cubic_begin(struct tcp_congestion *c, uint32_t mss, uint64_t now_ns)
{
    ASSERT(mss != 0);
    c->epoch_ns = now_ns;
    c->cwnd_epoch = c->w_est = c->cwnd;
    c->w_est_acked_bytes = 0;
    if (c->w_max > c->cwnd) {
        uint64_t segments_1000 = (uint64_t)(c->w_max - c->cwnd) * 1000 / mss;
        c->k_ns = cube_root(segments_1000 * 2500000) * NS_PER_MS;
        c->origin = c->w_max;
    } else {
        c->k_ns = 0;
        c->origin = c->cwnd;
    }
}

/* RFC 9438 §4.2, figure 1: Returns W_cubic(t) = C (t - K)^3 + W_max in bytes. */
static uint32_t cubic_window(const struct tcp_congestion *c, uint64_t t_ns, uint32_t mss)
{
    ASSERT(mss != 0);
    bool before_k = t_ns < c->k_ns;
    uint64_t distance_ms = (before_k ? c->k_ns - t_ns : t_ns - c->k_ns) / NS_PER_MS;
    if (distance_ms > CUBIC_EPOCH_MS_MAX)
        distance_ms = CUBIC_EPOCH_MS_MAX;
    /* segments = 0.4 * (ms / 1000)^3 = ms^3 / (2.5 * 10^9) */
    uint64_t cubed = distance_ms * distance_ms * distance_ms;
    uint64_t change = cubed / 2500 * mss / 1000000;
    if (before_k)
        return change < c->origin ? c->origin - (uint32_t)change : 0;
    return change < CWND_BYTES_MAX - (uint64_t)min_u32(c->origin, CWND_BYTES_MAX) ? c->origin + (uint32_t)change
                                                                                  : CWND_BYTES_MAX;
}

static void cubic_acked(struct tcp_congestion *c, uint32_t acked, uint32_t mss, uint64_t srtt_ns, uint64_t now_ns)
{
    if (c->epoch_ns == 0)
        cubic_begin(c, mss, now_ns);

    /* §4.3: the window of Reno with beta 0.7: alpha = 3 (1 - 0.7) / (1 + 0.7) = 9/17 segments a window. Alpha is one
     * segment again once the window is as large as before the loss. */
    c->w_est_acked_bytes += acked;
    uint32_t step = c->w_est < c->w_max ? (uint32_t)((uint64_t)c->w_est * 17 / 9) : c->w_est;
    while (c->w_est_acked_bytes >= step && step > 0) {
        c->w_est_acked_bytes -= step;
        c->w_est += mss;
    }

    /* §4.4, §4.5: grows towards the cubic's value after one more round trip, by at most half a window a window. */
    uint64_t t_ns = now_ns - c->epoch_ns;
    uint32_t target = cubic_window(c, t_ns + srtt_ns, mss);
    target = max_u32(c->cwnd, min_u32(target, c->cwnd + c->cwnd / 2));
    if (cubic_window(c, t_ns, mss) < c->w_est)
        target = max_u32(target, c->w_est);
    ASSERT(target >= c->cwnd);
    ASSERT(c->cwnd != 0);
    uint64_t growth = (uint64_t)(target - c->cwnd) * acked + c->acked_bytes; /* cwnd * bytes to add */
    c->acked_bytes = (uint32_t)(growth % c->cwnd);
    c->cwnd += (uint32_t)(growth / c->cwnd);
}

/* RFC 5681 §3.1: Adds one segment a window, counted in bytes. */
static void newreno_acked(struct tcp_congestion *c, uint32_t acked, uint32_t mss)
{
    c->acked_bytes += acked;
    if (c->acked_bytes >= c->cwnd) {
        c->acked_bytes -= c->cwnd;
        c->cwnd += mss;
    }
}

void tcp_congestion_acked(struct tcp_congestion *c, const struct tcp_policy *policy, uint32_t acked, uint32_t mss,
                          uint64_t srtt_ns, bool limited, bool after_loss, uint64_t now_ns)
{
    if (!limited) /* RFC 9438 §5.8, RFC 7661: an unused window proves nothing */
        return;
    if (c->cwnd < c->ssthresh) {
        uint32_t allowed = after_loss                             ? mss /* RFC 3465 §2.3 */
                           : policy->slow_start_ack_segments == 0 ? acked
                                                                  : policy->slow_start_ack_segments * mss;
        uint32_t step = min_u32(acked, allowed);
        c->cwnd = min_u32(c->cwnd + step, max_u32(c->ssthresh, c->cwnd + mss));
    } else if (policy->congestion == TCP_CUBIC) {
        cubic_acked(c, acked, mss, srtt_ns, now_ns);
    } else {
        newreno_acked(c, acked, mss);
    }
    c->cwnd = min_u32(c->cwnd, CWND_BYTES_MAX);
}

void tcp_congestion_lost(struct tcp_congestion *c, const struct tcp_policy *policy, uint32_t flight_bytes, uint32_t mss)
{
    c->acked_bytes = 0;
    c->epoch_ns = 0;
    if (policy->congestion == TCP_CUBIC) {
        /* RFC 9438 §4.7: fast convergence gives up more if the window had not grown back. §4.6: beta 0.7, of cwnd.
         * The RFC allows cwnd if an unused window does not grow; Linux uses cwnd. */
        uint32_t window = c->cwnd;
        c->w_max = window < c->w_max ? (uint32_t)((uint64_t)window * 17 / 20) : window;
        c->ssthresh = max_u32((uint32_t)((uint64_t)window * 7 / 10), 2 * mss);
    } else {
        c->ssthresh = max_u32(flight_bytes / 2, 2 * mss); /* RFC 5681 (4) */
    }
    ASSERT(c->ssthresh >= 2 * mss);
}

void tcp_congestion_idle(struct tcp_congestion *c, uint32_t initial_window)
{
    c->cwnd = min_u32(c->cwnd, initial_window);
    c->epoch_ns = 0;
    c->acked_bytes = 0;
}
