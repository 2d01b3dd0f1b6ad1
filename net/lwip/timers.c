/* lwIP's periodic work, called when it is due, and a better retransmission timer than its own.
 *
 * lwIP counts ticks of TCP_SLOW_INTERVAL. Its estimator (sa: 8 times the smoothed round trip, sv: 4 times its variance,
 * rto = sa/8 + sv) has no lower bound and starts at 3 s, from which it takes ten samples to come down. Both are put
 * right from outside, where lwIP looks at rto next: just before its slow timer. */
#include "net/lwip/port.h"

#include "lwip/etharp.h"
#include "lwip/ip4_frag.h"
#include "lwip/priv/tcp_priv.h"

#include "kernel/base/bytes.h"

enum {
    RTO_MIN_US_DEFAULT = 200 * 1000,    /* RFC 6298 §2.4 says 1 s; 200 ms is Linux's, above a delayed ACK of 40 ms */
    SYN_RTO_TICKS = 1000 / TCP_SLOW_INTERVAL,       /* RFC 6298 §2.1 */
    TICKS_LATE_MAX = 4,                 /* after a longer pause, of the machine say, the missed ones are forgotten */
};

static const uint64_t tcp_interval_ns = TCP_TMR_INTERVAL * UINT64_C(1000000);
static const uint64_t second_ns = UINT64_C(1000000000);

static s16_t rto_min_ticks;
static uint64_t tcp_due_ns, second_due_ns;

void timers_init(uint32_t rto_min_us, uint64_t now_ns)
{
    uint32_t us = rto_min_us != 0 ? rto_min_us : RTO_MIN_US_DEFAULT;
    uint32_t ticks = (us + TCP_SLOW_INTERVAL * 1000 - 1) / (TCP_SLOW_INTERVAL * 1000);
    rto_min_ticks = (s16_t)min_size(max_size(ticks, 1), 6000);      /* at most RFC 6298 §2.5's 60 s */
    tcp_due_ns = now_ns + tcp_interval_ns;
    second_due_ns = now_ns + second_ns;
}

/* As in Linux the floor is under the variance, so that backing off doubles from the floor: rto = srtt + max(min, 4 var). */
static void floor_apply(struct tcp_pcb *pcb)
{
    if (pcb->sv < rto_min_ticks)
        pcb->sv = rto_min_ticks;
    s16_t least = (s16_t)((pcb->sa >> 3) + pcb->sv);
    if (pcb->rto < least)
        pcb->rto = least;
}

/* lwIP sends SYNs at a constant pace: here at 1, 2, 4, ... s (RFC 6298 §5.5). A SYN-ACK it backs off by itself. */
static void estimates_mend(void)
{
    for (struct tcp_pcb *pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next)
        if (pcb->state == SYN_SENT || (pcb->state == SYN_RCVD && pcb->nrtx == 0)) {
            pcb->sv = SYN_RTO_TICKS;
            pcb->rto = (s16_t)(SYN_RTO_TICKS << min_size(pcb->nrtx, 6));
        } else {
            floor_apply(pcb);
        }
}

void timers_first_sample(struct tcp_pcb *pcb)
{
    if (pcb->nrtx == 0) {                           /* Karn: not if the SYN was sent again */
        u32_t ticks = tcp_ticks - pcb->rttest;
        pcb->sa = (s16_t)(ticks << 3);              /* SRTT = R */
        pcb->sv = (s16_t)(ticks << 1);              /* 4 RTTVAR = 4 R/2 */
    } else {
        pcb->sv = SYN_RTO_TICKS;                    /* RFC 6298 §5.7 would have 3 s; the next sample comes soon */
    }
    pcb->rttest = 0;
    pcb->nrtx = 0;                      /* lwIP leaves the SYN's count standing, and would back off from there */
    pcb->rto = 0;
    floor_apply(pcb);
}

void timers_run(uint64_t now_ns)
{
    if (now_ns >= tcp_due_ns)
        counters_refresh();
    for (int i = 0; now_ns >= tcp_due_ns; i++) {
        estimates_mend();
        tcp_tmr();
        tcp_due_ns = i < TICKS_LATE_MAX ? tcp_due_ns + tcp_interval_ns : now_ns + tcp_interval_ns;
    }
    if (now_ns >= second_due_ns) {      /* ARP_TMR_INTERVAL and IP_TMR_INTERVAL */
        etharp_tmr();
        ip_reass_tmr();
        second_due_ns = now_ns + second_ns;
    }
}

uint64_t timers_wake_ns(void)
{
    bool tcp_wanted = tcp_active_pcbs != NULL || tcp_tw_pcbs != NULL;
    return tcp_wanted && tcp_due_ns < second_due_ns ? tcp_due_ns : second_due_ns;
}
