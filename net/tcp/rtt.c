/* The round trip: its samples, the estimate, the least one, and the RTO. RFC 6298 §2 and §3, RFC 7323 §4. */
#include "net/tcp/rtt.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"
#include "net/tcp/seq.h"

#define RTT_MIN_WINDOW_NS UINT64_C(300000000000) /* RFC 8985 §6.1 asks for a windowed minimum; Linux: 5 min */

/* RFC 6298 §2: Takes one round trip into SRTT, RTTVAR and the RTO. As in Linux, the RTO is at least SRTT + rto_min, not
 * just rto_min: a peer that delays its ACKs by up to rto_min then causes no timeout. Beyond Linux's 200 ms a larger
 * rto_min is the least RTO alone, as in (2.4). */
void tcp_rtt_measured(struct tcp_connection *c, uint64_t rtt_ns)
{
    if (rtt_ns == 0)
        rtt_ns = 1;            /* 0 means "none yet" */
    if (c->rtt.srtt_ns == 0) { /* (2.2) */
        c->rtt.srtt_ns = rtt_ns;
        c->rtt.rttvar_ns = rtt_ns / 2;
    } else { /* (2.3) */
        uint64_t distance = c->rtt.srtt_ns > rtt_ns ? c->rtt.srtt_ns - rtt_ns : rtt_ns - c->rtt.srtt_ns;
        c->rtt.rttvar_ns = (3 * c->rtt.rttvar_ns + distance) / 4;
        c->rtt.srtt_ns = (7 * c->rtt.srtt_ns + rtt_ns) / 8;
    }
    const uint64_t margin_ns_max = 200000000; /* Linux: TCP_RTO_MIN */
    uint64_t min_ns = c->policy.rto_min_us * NS_PER_US, max_ns = c->policy.rto_max_us * NS_PER_US;
    uint64_t rto_ns = c->rtt.srtt_ns + (uint64_t)max_size(4 * c->rtt.rttvar_ns, min_size(min_ns, margin_ns_max));
    c->rtt.rto_ns = rto_ns < min_ns ? min_ns : rto_ns > max_ns ? max_ns : rto_ns;
    ASSERT(c->rtt.srtt_ns != 0);
}

/* RFC 6298 §3, RFC 7323 §4.1: Measures one round trip an ACK. `sent_ns` is the time of the oldest segment that the ACK
 * newly acknowledges, TCP_NEVER_NS if there is none. If any segment was sent again (Karn), the ACK may answer the
 * second copy; the echoed timestamp then serves instead. Two round trips say nothing of the path, and would keep the
 * RTO high for dozens of ACKs. One is across a stall of our own loop. The other is of a SYN whose older copy is echoed:
 * the first SYN,ACK may have been lost. RFC 6298 (5.7) then begins with an RTO of 3 s. */
void tcp_rtt_sample(struct tcp_connection *c, const struct tcp_received *r, bool resent, uint64_t sent_ns,
                    uint64_t now_ns)
{
    uint64_t rtt_ns = TCP_NEVER_NS; /* no sample */
    if (!resent && sent_ns != TCP_NEVER_NS) {
        rtt_ns = now_ns - sent_ns;
    } else if (c->timestamps_on && r->options.has_timestamps && r->options.timestamp_echo != 0) {
        uint32_t age_ms = tcp_timestamp_clock(now_ns, c->timestamp_offset) - r->options.timestamp_echo;
        uint32_t sent_stamp = tcp_timestamp_clock(sent_ns, c->timestamp_offset);
        bool older_syn = tcp_is_opening(c) && seq_lt(r->options.timestamp_echo, sent_stamp);
        if (age_ms < UINT32_C(1) << 31 && !older_syn)
            rtt_ns = age_ms * NS_PER_MS;
    }
    if (rtt_ns <= now_ns - c->deadline.stall_ended_ns)
        tcp_rtt_measured(c, rtt_ns);
}

void tcp_rtt_min_take(struct tcp_connection *c, uint64_t rtt_ns, uint64_t now_ns)
{
    if (c->rtt.min_ns == 0 || rtt_ns <= c->rtt.min_ns || now_ns >= c->rtt.min_until_ns) {
        c->rtt.min_ns = rtt_ns != 0 ? rtt_ns : 1;
        c->rtt.min_until_ns = now_ns + RTT_MIN_WINDOW_NS;
    }
}

void tcp_rto_begin(struct tcp_connection *c)
{
    const uint64_t after_loss_ns = UINT64_C(3000000000);
    ASSERT(c->rtt.srtt_ns == 0);
    c->rtt.rto_ns = c->policy.rto_initial_us * NS_PER_US;
    if (c->syn_resent && c->rtt.rto_ns < after_loss_ns)
        c->rtt.rto_ns = after_loss_ns;
}

void tcp_rto_back_off(struct tcp_connection *c)
{
    c->rtt.rto_ns = min_ns(c->rtt.rto_ns * 2, c->policy.rto_max_us * NS_PER_US);
}

void tcp_rtt_check(const struct tcp_connection *c)
{
    /* The estimates SRTT and RTTVAR begin with the first round trip. */
    ASSERT(c->rtt.srtt_ns != 0 || c->rtt.rttvar_ns == 0);
}
