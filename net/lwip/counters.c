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

/* One protocol of lwIP's: lwip/stats.h, struct stats_proto. */
#define PROTOCOL_COUNTERS(X)                                                                                           \
    X(COUNT, xmit), X(COUNT, recv), X(DROP_FRAME, drop), X(COUNT, chkerr), X(COUNT, lenerr), X(COUNT, memerr),         \
        X(COUNT, rterr), X(COUNT, proterr), X(COUNT, opterr), X(COUNT, err)
struct protocol {
    uint64_t PROTOCOL_COUNTERS(COUNTER_MEMBER);
};
static struct protocol etharp, ip, ip_frag, icmp, igmp, udp, tcp;

#define COPY(kind, name) .name = from->name
static void protocol_copy(struct protocol *to, const struct stats_proto *from)
{
    ASSERT(from != NULL);
    *to = (struct protocol){ PROTOCOL_COUNTERS(COPY) };
}

/* One of lwIP's pools: elements in use, the most ever in use, and how often none was free. */
#define POOL_LEVELS(X) X(LEVEL, used), X(LEVEL, max), X(LEVEL, err)
struct pool {
    uint64_t POOL_LEVELS(COUNTER_MEMBER);
};
static struct pool heap, tcp_pcbs, tcp_segs, pbufs, frame_copies, udp_pcbs;

static void pool_copy(struct pool *to, const struct stats_mem *from)
{
    ASSERT(from != NULL);
    ASSERT(from->used <= from->max);
    *to = (struct pool){ POOL_LEVELS(COPY) };
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

static const char help[] = "The lwIP port";
#define PROTOCOL(name) COUNTER_GROUP("lwip." #name ".", help, PROTOCOL_COUNTERS, name)
#define POOL(name)     COUNTER_GROUP("lwip.pool." #name ".", help, POOL_LEVELS, name)
static const struct counter_group groups[] = {
    COUNTER_GROUP("lwip.", help, PORT_COUNTERS, port_counters),
    PROTOCOL(etharp),
    PROTOCOL(ip),
    PROTOCOL(ip_frag),
    PROTOCOL(icmp),
    PROTOCOL(igmp),
    PROTOCOL(udp),
    PROTOCOL(tcp),
    POOL(heap),
    POOL(tcp_pcbs),
    POOL(tcp_segs),
    POOL(pbufs),
    POOL(frame_copies),
    POOL(udp_pcbs),
};

bool counters_group(size_t index, struct counter_group *group)
{
    counters_refresh();
    if (index > ARRAY_COUNT(groups))
        return false;
    *group = index < ARRAY_COUNT(groups) ? groups[index] : dhcp_counter_group;
    ASSERT(group->count > 0);
    return true;
}
