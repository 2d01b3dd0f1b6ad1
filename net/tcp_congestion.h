/* How much may be in the network: slow start, congestion avoidance, CUBIC. RFC 5681, RFC 3465, RFC 9438.
 *
 * Bytes and time in, a window out; knows no segments and no sequence numbers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/tcp.h"

enum { TCP_SSTHRESH_UNSET = UINT32_MAX };

struct tcp_congestion {
    uint32_t cwnd, ssthresh;
    uint32_t acked_bytes;           /* towards the next step of congestion avoidance */
    /* CUBIC, in bytes and nanoseconds. RFC 9438 §4.1.2. */
    uint32_t w_max, w_est;
    uint32_t w_est_acked_bytes;
    uint64_t epoch_ns;              /* 0: none */
    uint64_t k_ns;
    uint32_t cwnd_epoch, origin;
};

/* RFC 6928 §2, RFC 5681 §3.1: `segments` of `mss`, at most 14600 bytes or two segments of the former. */
uint32_t tcp_congestion_initial_window(uint32_t segments, uint32_t mss);

void tcp_congestion_init(struct tcp_congestion *c, uint32_t initial_window);

/* `acked` bytes are newly acknowledged in order. `limited`: the window was what held the sender back. `after_loss`:
 * slow start repairs a timeout, where RFC 3465 §2.3 allows one segment an ACK. */
void tcp_congestion_acked(struct tcp_congestion *c, const struct tcp_policy *policy, uint32_t acked, uint32_t mss,
                          uint64_t srtt_ns, bool limited, bool after_loss, uint64_t now_ns);

/* A loss: sets ssthresh from what was in flight; the caller sets cwnd (to ssthresh, or to one segment). */
void tcp_congestion_lost(struct tcp_congestion *c, const struct tcp_policy *policy, uint32_t flight_bytes,
                         uint32_t mss);

/* Nothing was sent for longer than an RTO: RFC 5681 §4.1. */
void tcp_congestion_idle(struct tcp_congestion *c, uint32_t initial_window);
