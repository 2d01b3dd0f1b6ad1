/* Fuzzes drivers/gve/ with a hostile device, which alters all that it writes: the answers to admin commands,
 * descriptors, counters, registers. The first bytes choose the device and alter its answers. Then the input is a list
 * of steps, [what][where, big endian][value, big endian]. No frame may reach outside its buffer, and the driver's own
 * state stays valid. */
#include "drivers/gve/gve.h"
#include "tests/fuzz/card.h"
#include "tests/gve/bus.h"
#include "tests/lib/device_memory.h"

enum { ALTERATIONS = 2 };

static struct gve net;
static _Alignas(64) struct gve_model_bus bus;

static struct alteration {
    uint8_t what; /* no member of enum gve_model_written: nothing */
    uint16_t where, value;
} alterations[ALTERATIONS];

static void alter(enum gve_model_written what, uint8_t *structure)
{
    static const size_t bytes[GVE_MODEL_WRITTEN_END] = {
        [GVE_MODEL_DESCRIPTION] = sizeof(struct gve_device_descriptor) + 2 * sizeof(struct gve_device_option),
        [GVE_MODEL_STATUS] = 4,
        [GVE_MODEL_RESOURCES] = sizeof(struct gve_queue_resources),
        [GVE_MODEL_IRQ_INDEX] = 4,
        [GVE_MODEL_LINK_SPEED] = 8,
        [GVE_MODEL_COUNTER] = 4,
        [GVE_MODEL_RX] = sizeof(struct gve_dqo_rx_completion),
        [GVE_MODEL_TX_COMPLETION] = sizeof(struct gve_dqo_tx_completion),
        [GVE_MODEL_PTYPES] = GVE_PACKET_TYPES * sizeof(struct gve_packet_type),
        [GVE_MODEL_REGISTERS] = sizeof(struct gve_registers),
    };
    for (size_t i = 0; i < ALTERATIONS; i++)
        if (alterations[i].what == what)
            store_be16(structure + (what == GVE_MODEL_RX && !net.is_dqo ? 32 : 0)
                           + alterations[i].where % (bytes[what] - 1),
                       alterations[i].value);
}

static void step(uint8_t what, uint16_t where, uint16_t value)
{
    static const uint8_t frame[2 * GVE_RX_BUFFER_BYTES];
    uint8_t *ring = (uint8_t *)(uintptr_t)net.rx.ring;
    switch (what % 9) {
    case 0:
        store_be16(ring + 2 * (where % ((net.rx.mask + 1) * sizeof *net.rx.ring / 2)), value);
        break;
    case 1: /* the next descriptor's sum, length, flags, number; in DQO a transmit completion */
        if (net.is_dqo) {
            uint8_t *completions = (uint8_t *)(uintptr_t)net.tx.completions;
            store_be16(completions + 2 * (where % ((net.tx.mask + 1) * sizeof *net.tx.completions / 2)), value);
            break;
        }
        store_be16(ring + ((net.rx.taken & net.rx.mask) + 1) * sizeof *net.rx.ring - 2 * (1 + where % 3), value);
        break;
    case 2:
        if (!net.is_dqo)
            store_be32((uint32_t *)(uintptr_t)net.tx.counter, net.tx.done + value);
        break;
    case 3:
        gve_model_receive(&bus.model, frame, ETHERNET_BYTES + value % (uint32_t)(sizeof frame - ETHERNET_BYTES));
        break;
    case 4:
        alterations[where % ALTERATIONS] = (struct alteration){ (uint8_t)(value % (GVE_MODEL_WRITTEN_END + 4)), where,
                                                                value };
        break;
    case 5:
        borrow(&net.device, net.rx_memory, GVE_RX_BUFFER_BYTES, net.is_dqo ? 0 : GVE_RX_PAD_BYTES,
               NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX);
        break;
    case 6:
        release(&net.device);
        break;
    case 7:
        send(&net.device, value);
        break;
    case 8:
        if (where % 8 == 0)
            net.last_rx_cycles = 0; /* the state is read */
        net.device.ops->poll(&net.device);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t head_bytes = 1 + ALTERATIONS * STEP_BYTES;
    if (size < head_bytes)
        return 0;
    const bool dqo = (data[0] & 0x40) != 0;
    const uint32_t format = dqo ? GVE_FORMAT_DQO_RDA : data[0] & 1 ? GVE_FORMAT_GQI_RDA : GVE_FORMAT_GQI_QPL;
    gve_model_bus_init(&bus, 1u << format, data[0] >> 1 & 1, (uint16_t)((dqo ? 256u : 16u) << (data[0] >> 2) % 4));
    for (size_t i = 0; i < ALTERATIONS; i++) {
        const uint8_t *at = data + 1 + i * STEP_BYTES;
        const uint8_t what = at[0] % (GVE_MODEL_WRITTEN_END + 4);
        alterations[i] = (struct alteration){ what, load_be16(at + 1), load_be16(at + 3) };
    }
    bus.alter = data[0] & 0x80 ? alter : NULL; /* else from the first step on */
    rx_held_count = tx_held_count = 0;
    if (gve_init(&net, &bus.bus) == NULL) {
        bus.alter = alter;
        for (size_t at = head_bytes; at + STEP_BYTES <= size; at += STEP_BYTES) {
            step(data[at], load_be16(data + at + 1), load_be16(data + at + 3));
            gve_check(&net);
        }
        gve_stop(&net);
    }
    model_memory_free_all();
    return 0;
}
