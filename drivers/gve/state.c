/* The gVNIC's state, as gve.c, gqi.c and dqo.c all change it: faults, the receive buffers, the invariant. */
#include "base/format.h"
#include "drivers/gve/gve.h"

_Alignas(64) struct gve_counters gve_counters;

NOT_HOT bool gve_fault(struct gve *net, const char *what, uint64_t value)
{
    gve_counters.faults++;
    if (net->broken == NULL)
        format(net->fault, sizeof net->fault, "%s: %llu", what, (unsigned long long)value);
    net->broken = net->fault;
    net->rx.seq = GVE_SEQ_BROKEN;
    net->device.link_up = false;
    return false;
}

HOT bool gve_rx_is_good(struct gve *net, uint16_t index, const uint8_t *data, uint32_t bytes, bool end, bool error)
{
    const bool whole = end && !net->rx.dropping;
    net->rx.dropping = !end;
    if (!whole) /* counted at its end */
        gve_counters.rx_drop_long += end;
    else if (error)
        gve_counters.rx_drop_error++;
    else if ((int32_t)bytes < GVE_ETHERNET_BYTES)
        gve_counters.rx_drop_short++;
    else if (bytes <= NETDEV_FRAME_BYTES_MAX /* VLAN tags make it longer */
             || (bytes <= NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX && netdev_frame_is_tagged(data))) {
        net->rx_state[index] = GVE_RX_BORROWED;
        gve_counters.rx_frames++;
        return true;
    } else
        gve_counters.rx_drop_long++;
    gve_rx_free_push(net, index);
    return false;
}

NOT_HOT void gve_check(const struct gve *net)
{
    uint32_t free = 0, posted = 0;
    for (uint32_t i = 0; i < net->rx_posted_max + (uint32_t)NETDEV_RX_BORROWED_MAX; i++) {
        free += net->rx_state[i] == GVE_RX_FREE;
        posted += net->rx_state[i] == GVE_RX_POSTED;
    }
    ASSERT(free == net->rx_free_count);
    ASSERT(posted == net->rx.posted - net->rx.taken);
    ASSERT(posted <= net->rx_posted_max && net->rx_posted_max <= net->rx.mask + 1);
    ASSERT(net->tx.sent - net->tx.done <= net->tx.room);
    tx_pool_check(&net->tx_pool, net->tx.sent - net->tx.done);
}
