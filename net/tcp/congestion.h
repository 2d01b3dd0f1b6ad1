/* The congestion window: slow start, congestion avoidance, CUBIC. RFC 5681, RFC 3465, RFC 9438.
 *
 * Takes bytes and time, gives a window; knows no segments and no sequence numbers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/tcp/tcp.h"

enum { TCP_SSTHRESH_UNSET = UINT32_MAX };

struct tcp_congestion {
    uint32_t cwnd, ssthresh;
    uint32_t acked_bytes; /* NewReno: acknowledged towards the next step. CUBIC: the remainder of the growth */
    /* CUBIC, in bytes and nanoseconds. RFC 9438 §4.1.2. */
    uint32_t w_max, w_est;
    uint32_t w_est_acked_bytes;
    uint64_t epoch_ns; /* 0: none */
    uint64_t k_ns;
    uint32_t cwnd_epoch, origin;
};

/* RFC 6928 §2, RFC 5681 §3.1: Returns the bytes of `segments` of `mss`. From ten segments on, an `mss` above 1460
 * counts as 1460, but two segments of `mss` are the least. */
uint32_t tcp_congestion_initial_window(uint32_t segments, uint32_t mss);

void tcp_congestion_init(struct tcp_congestion *c, uint32_t initial_window);

/* Grows the window for `acked` bytes newly acknowledged in order. `limited`: the window held the sender back.
 * `after_loss`: slow start repairs a timeout; there RFC 3465 §2.3 allows one segment an ACK. */
void tcp_congestion_acked(struct tcp_congestion *c, const struct tcp_policy *policy, uint32_t acked, uint32_t mss,
                          uint64_t srtt_ns, bool limited, bool after_loss, uint64_t now_ns);

/* Sets ssthresh after a loss, from the bytes in flight. The caller sets cwnd (to ssthresh, or to one segment). */
void tcp_congestion_lost(struct tcp_congestion *c, const struct tcp_policy *policy, uint32_t flight_bytes,
                         uint32_t mss);

/* Reduces the window after an idle time longer than an RTO: RFC 5681 §4.1. */
void tcp_congestion_idle(struct tcp_congestion *c, uint32_t initial_window);
