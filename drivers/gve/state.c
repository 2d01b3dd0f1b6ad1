/* The parts of the gVNIC's driver that both formats share: faults, free lists, the device's state, the invariant. */
#include <stddef.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/hot_section.h"
#include "drivers/gve/gve.h"

_Alignas(64) struct gve_counters gve_counters;

NOT_HOT void gve_fault(struct gve *net, const char *what)
{
    gve_counters.faults++;
    if (net->broken == NULL)
        net->broken = what;
    net->rx.seq = GVE_SEQ_BROKEN;
    net->device.link_up = false;
}

void gve_rx_free_push(struct gve *net, uint32_t index)
{
    ASSERT(index < GVE_RX_BUFFER_COUNT);
    ASSERT(!net->rx_is_free[index]);
    net->rx_is_free[index] = true;
    net->rx_free[net->rx_free_count++] = (uint16_t)index;
}

void gve_tx_free_push(struct gve *net, const struct tx_buffer *buffer)
{
    ASSERT(net->tx_free_count < NETDEV_TX_BUFFER_COUNT);
    net->tx_free[net->tx_free_count++] = buffer->index;
}

/* As drivers/virtio/net.c: one to two seconds of silence, then between two readings. */
static const uint64_t STATE_READ_CYCLES = BIT(32);

void gve_state_set(struct gve *net, uint32_t status)
{
    net->device.link_up = (status & GVE_DEVICE_STATUS_LINK_UP) != 0;
    if (status == UINT32_MAX || (status & GVE_DEVICE_STATUS_RESET))
        gve_fault(net, "the device is gone or asks for a reset");
}

/* Reads the state after a silence. */
void gve_state_watch(struct gve *net)
{
    const struct gve_rx_queue *rx = &net->rx;
    uint64_t now_cycles = cycles_now();
    if (rx->taken != net->last_rx_taken) {
        net->last_rx_taken = rx->taken;
        net->last_rx_cycles = now_cycles;
    } else if (now_cycles - net->last_rx_cycles >= STATE_READ_CYCLES) {
        net->last_rx_cycles = now_cycles;
        gve_counters.state_exits++;
        gve_state_set(net, net->bus->ops->read(net->bus, offsetof(struct gve_registers, device_status)));
    }
}

NOT_HOT void gve_check(const struct gve *net)
{
    uint32_t rx_free = 0, tx_free = 0, tx_sent = 0;
    for (uint32_t i = 0; i < GVE_RX_BUFFER_COUNT; i++)
        rx_free += net->rx_is_free[i];
    ASSERT(rx_free == net->rx_free_count);
    ASSERT(rx_free + (net->rx.posted - net->rx.taken) <= GVE_RX_BUFFER_COUNT);
    ASSERT(net->rx.posted - net->rx.taken <= net->rx_posted_max && net->rx_posted_max <= net->rx.mask + 1);
    ASSERT(net->tx.sent - net->tx.done <= net->tx.mask + 1);
    for (uint32_t i = 0; i < NETDEV_TX_BUFFER_COUNT; i++) {
        ASSERT(net->tx_buffer[i].index == i);
        tx_free += net->tx_buffer[i].holders == 0;
        tx_sent += (net->tx_buffer[i].holders & TX_HELD_BY_DEVICE) != 0;
    }
    ASSERT(tx_free == net->tx_free_count);
    ASSERT(tx_sent == net->tx.sent - net->tx.done);
}
