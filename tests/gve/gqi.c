/* The rings of the format GQI, with queue page lists or raw addressing. */
#include <string.h>

#include "base/bytes.h"
#include "net/ip/checksum.h"
#include "tests/gve/offload.h"
#include "tests/gve/rings.h"

/* ---- tx ---- */

/* Takes the packet of `count` descriptors at the head of the queue. Returns the driver's mistake, or NULL. */
static const char *take_packet(struct gve_model *model, const struct gve_model_queue *queue, uint32_t count,
                               const union gve_tx_descriptor *ring)
{
    const struct gve_tx_packet *first = &ring[queue->done % queue->entries].packet;
    uint8_t type = first->type_flags & GVE_TX_TYPE;
    uint32_t bytes = load_be16(&first->segment_bytes);
    uint32_t header_bytes = bytes;
    uint16_t mss = 0;
    if (type != GVE_TX_STD && type != GVE_TX_TSO)
        return "a packet does not begin with its packet descriptor";
    if (!gve_model_copy(model, queue, load_be64(&first->address), model->packet, bytes, false))
        return "tx data is not mapped";
    for (uint32_t i = 1; i < count; i++) {
        const struct gve_tx_segment *segment = &ring[(queue->done + i) % queue->entries].segment;
        if ((segment->type_flags & GVE_TX_TYPE) == GVE_TX_METADATA && i == 1)
            continue;
        if ((segment->type_flags & GVE_TX_TYPE) != GVE_TX_SEGMENT)
            return "a segment descriptor is none";
        uint32_t part = load_be16(&segment->segment_bytes);
        if (bytes + part > sizeof model->packet)
            return "a packet is too long";
        if (!gve_model_copy(model, queue, load_be64(&segment->address), model->packet + bytes, part, false))
            return "tx data is not mapped";
        mss = load_be16(&segment->mss);
        bytes += part;
    }
    uint32_t l4 = 2u * first->l4_hdr_offset;
    uint32_t field = 2u * first->l4_csum_offset;
    if (bytes != load_be16(&first->bytes))
        return "a packet's length is not the sum of its segments'";
    if (type == GVE_TX_TSO)
        return offload_segment(model->packet, bytes, header_bytes, mss, gve_model_send, model)
                   ? NULL
                   : "segmentation with wrong offsets";
    return gve_model_send_packet(model, bytes, first->type_flags & GVE_TX_L4_CHECKSUM ? l4 : 0, field);
}

void gve_gqi_tx(struct gve_model *model, struct gve_model_queue *queue, uint32_t end)
{
    const union gve_tx_descriptor *ring = gve_model_memory(model, queue->ring, queue->entries * sizeof *ring);
    if (end - queue->done > queue->entries)
        gve_model_violate(model, "a tx doorbell is not in the ring");
    if (!ring || end - queue->done > queue->entries)
        return;
    queue->published = end;
    while (queue->done != end) {
        uint32_t count = ring[queue->done % queue->entries].packet.descriptor_count;
        const char *wrong = count == 0 || count > end - queue->done ? "a packet's descriptor count is wrong"
                                                                    : take_packet(model, queue, count, ring);
        if (wrong) { /* The device stops the queue. */
            gve_model_violate(model, wrong);
            return;
        }
        queue->done += count;
    }
    gve_model_publish_counter(model, queue);
    gve_model_notify(model, queue->notify);
}

/* ---- rx ---- */

void gve_gqi_rx_posted(struct gve_model *model, struct gve_model_queue *queue, uint32_t value)
{
    if (value - queue->done > queue->entries)
        gve_model_violate(model, "an rx doorbell is not in the ring");
    else
        queue->published = value;
}

static uint16_t rx_flags(struct offload_headers headers)
{
    uint32_t l4 = headers.protocol == IP_PROTOCOL_TCP   ? GVE_RX_TCP
                  : headers.protocol == IP_PROTOCOL_UDP ? GVE_RX_UDP
                                                        : 0;
    if (!headers.ipv4 && !headers.ipv6)
        return 0;
    return (uint16_t)((headers.ipv4 ? GVE_RX_IPV4 : GVE_RX_IPV6) | (headers.fragment ? GVE_RX_FRAGMENT : l4));
}

bool gve_gqi_receive(struct gve_model *model, struct gve_model_queue *queue, const uint8_t *frame, uint32_t bytes)
{
    uint16_t flags = rx_flags(offload_parse(frame, bytes));
    uint16_t sum = checksum_fold(checksum_sum(0, frame + ETHERNET_BYTES, bytes - ETHERNET_BYTES));
    uint32_t pad = GVE_RX_PAD_BYTES;
    for (uint32_t at = 0; at < bytes; pad = 0) {
        uint32_t part = min_u32(bytes - at, queue->buffer_bytes - pad);
        uint32_t entry = queue->done % queue->entries;
        const uint8_t *slot = gve_model_memory(model, queue->data_ring + 8 * (uint64_t)entry, 8);
        uint8_t piece[UINT16_MAX];
        memset(piece, 0, pad);
        memcpy(piece + pad, frame + at, part);
        if (!slot || !gve_model_copy(model, queue, load_be64(slot), piece, pad + part, true)) {
            gve_model_violate(model, "an rx buffer is not mapped");
            return false;
        }
        at += part;
        queue->sequence = queue->sequence == GVE_RX_SEQ_LAST ? 1 : queue->sequence + 1;
        queue->done++;
        struct gve_rx_descriptor descriptor;
        memset(&descriptor, 0, sizeof descriptor);
        store_be16(&descriptor.checksum, sum);
        store_be16(&descriptor.bytes, (uint16_t)(pad + part));
        store_be16(&descriptor.flags_seq, (uint16_t)(flags | (at < bytes ? GVE_RX_CONTINUES : 0) | queue->sequence));
        gve_model_publish(model, GVE_MODEL_RX, queue->ring + entry * (uint64_t)sizeof descriptor, &descriptor,
                          sizeof descriptor, offsetof(struct gve_rx_descriptor, flags_seq));
    }
    return true;
}
