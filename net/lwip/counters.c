/* lwIP's statistics and the port's own as named counters. lwIP counts in 32 bits, so its values are copied into ours
 * with each tick of the timers, and when a group is asked for. */
#include "net/lwip/port.h"

#include "lwip/memp.h"
#include "lwip/priv/memp_priv.h"
#include "lwip/stats.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/dhcp.h"

struct port_counters port_counters;

static const struct counter port_table[] = {
    COUNTER("lwip.", port_counters, rx_frames),
    COUNTER("lwip.", port_counters, rx_arp_answers),
    COUNTER("lwip.", port_counters, rx_copied),
    COUNTER("lwip.", port_counters, rx_drop_truncated),
    COUNTER("lwip.", port_counters, rx_drop_other_mac),
    COUNTER("lwip.", port_counters, rx_drop_vlan),
    COUNTER("lwip.", port_counters, rx_drop_bad_arp_sender),
    COUNTER("lwip.", port_counters, rx_drop_no_pbuf),
    COUNTER("lwip.", port_counters, tx_frames),
    COUNTER("lwip.", port_counters, tx_drop_no_buffer),
    COUNTER("lwip.", port_counters, tx_drop_oversize),
    COUNTER("lwip.", port_counters, tx_drop_icmp_forbidden),
    COUNTER("lwip.", port_counters, tx_drop_icmp_rate),
    COUNTER("lwip.", port_counters, udp_drop_oversize),
    COUNTER("lwip.", port_counters, accept_drop_no_connection),
    COUNTER("lwip.", port_counters, network_drop_bad_mtu),
    COUNTER("lwip.", port_counters, events_max),
};

/* One protocol of lwIP's: lwip/stats.h, struct stats_proto. */
struct protocol {
    uint64_t xmit, recv, drop, chkerr, lenerr, memerr, rterr, proterr, opterr, err;
};
static struct protocol etharp, ip, ip_frag, icmp, igmp, udp, tcp;

#define PROTOCOL_COUNTERS(name)                                                                                        \
    COUNTER("lwip." #name ".", name, xmit), COUNTER("lwip." #name ".", name, recv),                                    \
        COUNTER("lwip." #name ".", name, drop), COUNTER("lwip." #name ".", name, chkerr),                              \
        COUNTER("lwip." #name ".", name, lenerr), COUNTER("lwip." #name ".", name, memerr),                            \
        COUNTER("lwip." #name ".", name, rterr), COUNTER("lwip." #name ".", name, proterr),                            \
        COUNTER("lwip." #name ".", name, opterr), COUNTER("lwip." #name ".", name, err)

static const struct counter protocol_table[] = {
    PROTOCOL_COUNTERS(etharp), PROTOCOL_COUNTERS(ip),  PROTOCOL_COUNTERS(ip_frag), PROTOCOL_COUNTERS(icmp),
    PROTOCOL_COUNTERS(igmp),   PROTOCOL_COUNTERS(udp), PROTOCOL_COUNTERS(tcp),
};

static void protocol_copy(struct protocol *to, const struct stats_proto *from)
{
    ASSERT(from != NULL);
    *to = (struct protocol){
        .xmit = from->xmit,
        .recv = from->recv,
        .drop = from->drop,
        .chkerr = from->chkerr,
        .lenerr = from->lenerr,
        .memerr = from->memerr,
        .rterr = from->rterr,
        .proterr = from->proterr,
        .opterr = from->opterr,
        .err = from->err,
    };
}

/* One of lwIP's pools: elements in use, the most ever in use, and how often none was free. */
struct pool {
    uint64_t used, max, err;
};
static struct pool heap, tcp_pcbs, tcp_segs, pbufs, frame_copies, udp_pcbs;

#define POOL_COUNTERS(name)                                                                                            \
    COUNTER("lwip.pool." #name ".", name, used), COUNTER("lwip.pool." #name ".", name, max),                           \
        COUNTER("lwip.pool." #name ".", name, err)

static const struct counter pool_table[] = {
    POOL_COUNTERS(heap),  POOL_COUNTERS(tcp_pcbs),     POOL_COUNTERS(tcp_segs),
    POOL_COUNTERS(pbufs), POOL_COUNTERS(frame_copies), POOL_COUNTERS(udp_pcbs),
};

static void pool_copy(struct pool *to, const struct stats_mem *from)
{
    ASSERT(from != NULL);
    ASSERT(from->used <= from->max);
    *to = (struct pool){ .used = from->used, .max = from->max, .err = from->err };
}

void counters_refresh(void)
{
    protocol_copy(&etharp, &lwip_stats.etharp);
    protocol_copy(&ip, &lwip_stats.ip);
    protocol_copy(&ip_frag, &lwip_stats.ip_frag);
    protocol_copy(&icmp, &lwip_stats.icmp);
    igmp = (struct protocol){
        .xmit = lwip_stats.igmp.xmit,
        .recv = lwip_stats.igmp.recv,
        .drop = lwip_stats.igmp.drop,
        .chkerr = lwip_stats.igmp.chkerr,
        .lenerr = lwip_stats.igmp.lenerr,
        .memerr = lwip_stats.igmp.memerr,
        .proterr = lwip_stats.igmp.proterr,
    };
    protocol_copy(&udp, &lwip_stats.udp);
    protocol_copy(&tcp, &lwip_stats.tcp);
    pool_copy(&heap, &lwip_stats.mem);
    pool_copy(&tcp_pcbs, lwip_stats.memp[MEMP_TCP_PCB]);
    pool_copy(&tcp_segs, lwip_stats.memp[MEMP_TCP_SEG]);
    pool_copy(&pbufs, lwip_stats.memp[MEMP_PBUF]);
    pool_copy(&frame_copies, lwip_stats.memp[MEMP_PBUF_POOL]);
    pool_copy(&udp_pcbs, lwip_stats.memp[MEMP_UDP_PCB]);
}

bool counters_group(size_t index, struct counter_group *group)
{
    const struct counter_group groups[] = {
        { port_table, ARRAY_COUNT(port_table) },
        { protocol_table, ARRAY_COUNT(protocol_table) },
        { pool_table, ARRAY_COUNT(pool_table) },
        dhcp_counter_group,
    };
    if (index >= ARRAY_COUNT(groups))
        return false;
    counters_refresh();
    *group = groups[index];
    ASSERT(group->count > 0);
    return true;
}
