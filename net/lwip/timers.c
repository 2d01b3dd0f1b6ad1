/* lwIP's periodic work, called when it is due, and a better retransmission timer than its own. One defect of lwIP's
 * persist timer is mended before each tick.
 *
 * lwIP counts ticks of TCP_SLOW_INTERVAL. Its estimator (sa: 8 times the smoothed round trip, sv: 4 times its variance,
 * rto = sa/8 + sv) has no lower bound. The estimator also starts at 3 s, and takes ten samples to come down. This file
 * corrects both just before lwIP's slow timer, which reads rto. */
#include "net/lwip/port.h"

#include "lwip/etharp.h"
#include "lwip/igmp.h"
#include "lwip/ip4_frag.h"
#include "lwip/priv/tcp_priv.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"

enum {
    /* RFC 6298 §2.4 asks for 1 s. Linux takes 200 ms, above a delayed ACK of 40 ms. */
    RTO_MIN_US_DEFAULT = 200 * 1000,
    SYN_RTO_TICKS = 1000 / TCP_SLOW_INTERVAL, /* RFC 6298 §2.1 */
    TICKS_LATE_MAX = 4,                       /* after a longer pause of the machine, missed ticks are dropped */
};

static const uint64_t tcp_interval_ns = TCP_TMR_INTERVAL * UINT64_C(1000000);
static const uint64_t igmp_interval_ns = IGMP_TMR_INTERVAL * UINT64_C(1000000);

static s16_t rto_min_ticks;
static uint64_t tcp_due_ns, igmp_due_ns, second_due_ns;

void timers_init(uint32_t rto_min_us, uint64_t now_ns)
{
    uint32_t us = rto_min_us != 0 ? rto_min_us : RTO_MIN_US_DEFAULT;
    uint32_t ticks = (us + TCP_SLOW_INTERVAL * 1000 - 1) / (TCP_SLOW_INTERVAL * 1000);
    rto_min_ticks = (s16_t)min_size(max_size(ticks, 1), 6000); /* at most RFC 6298 §2.5's 60 s */
    ASSERT(rto_min_ticks > 0);
    tcp_due_ns = now_ns + tcp_interval_ns;
    igmp_due_ns = now_ns + igmp_interval_ns;
    second_due_ns = now_ns + NS_PER_S;
}

/* Raises the variance to the minimum, as Linux does: rto = srtt + max(minimum, 4 var). Back-off then doubles from
 * there. */
static void floor_apply(struct tcp_pcb *pcb)
{
    if (pcb->sv < rto_min_ticks)
        pcb->sv = rto_min_ticks;
    s16_t least = (s16_t)((pcb->sa >> 3) + pcb->sv);
    if (pcb->rto < least)
        pcb->rto = least;
}

/* RFC 6298 §5.5: Sends SYNs again after 1, 2, 4, ... s, where lwIP keeps a constant pace. lwIP backs off SYN-ACKs
 * itself. Applies the minimum to all other connections. */
static void estimates_correct(void)
{
    ASSERT(rto_min_ticks > 0);
    for (struct tcp_pcb *pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next)
        if (pcb->state == SYN_SENT || (pcb->state == SYN_RCVD && pcb->nrtx == 0)) {
            pcb->sv = SYN_RTO_TICKS;
            pcb->rto = (s16_t)(SYN_RTO_TICKS << min_size(pcb->nrtx, 6));
        } else {
            floor_apply(pcb);
        }
}

/* Stops the persist timer of connections with nothing left to send. lwIP lets the timer run on if a peer acknowledges
 * the last byte or the FIN from a probe, and asserts at the next tick. */
static void persist_correct(void)
{
    for (struct tcp_pcb *pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next)
        if (pcb->unsent == NULL)
            pcb->persist_backoff = 0;
}

void timers_first_sample(struct tcp_pcb *pcb)
{
    if (pcb->nrtx == 0) { /* Karn's algorithm: take no sample if the SYN was sent again */
        u32_t ticks = tcp_ticks - pcb->rttest;
        pcb->sa = (s16_t)(ticks << 3); /* SRTT = R */
        pcb->sv = (s16_t)(ticks << 1); /* 4 RTTVAR = 4 R/2 */
    } else {
        pcb->sv = SYN_RTO_TICKS; /* RFC 6298 §5.7 asks for 3 s; the next sample comes soon */
    }
    pcb->rttest = 0;
    pcb->nrtx = 0; /* lwIP keeps the SYN's count, and would back off from there */
    pcb->rto = 0;
    floor_apply(pcb);
    ASSERT(pcb->rto > 0);
}

void timers_run(uint64_t now_ns)
{
    if (now_ns >= tcp_due_ns)
        counters_refresh();
    for (int i = 0; now_ns >= tcp_due_ns; i++) {
        estimates_correct();
        persist_correct();
        tcp_tmr();
        tcp_due_ns = i < TICKS_LATE_MAX ? tcp_due_ns + tcp_interval_ns : now_ns + tcp_interval_ns;
    }
    if (now_ns >= igmp_due_ns) {
        igmp_tmr();
        igmp_due_ns = now_ns + igmp_interval_ns;
    }
    if (now_ns >= second_due_ns) { /* ARP_TMR_INTERVAL and IP_TMR_INTERVAL */
        etharp_tmr();
        network_keep_gateway();
        ip_reass_tmr();
        second_due_ns = now_ns + NS_PER_S;
    }
    ASSERT(tcp_due_ns > now_ns);
    ASSERT(second_due_ns > now_ns);
}

uint64_t timers_next_deadline_ns(void)
{
    bool tcp_wanted = tcp_active_pcbs != NULL || tcp_tw_pcbs != NULL;
    uint64_t due_ns = tcp_wanted ? min_ns(tcp_due_ns, second_due_ns) : second_due_ns;
    return groups_joined() ? min_ns(igmp_due_ns, due_ns) : due_ns;
}
