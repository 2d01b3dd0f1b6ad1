/* The rings of the format DQO with raw addressing. */
#include <string.h>

#include "base/bytes.h"
#include "tests/gve/offload.h"
#include "tests/gve/rings.h"

enum { GENERATION_TX = GVE_DQO_COMPLETION_GENERATION, RX_DOORBELL_STEP = 8 }; /* Linux's driver says 8 */

/* Returns a count that has moved on to a doorbell's index in the ring. */
static uint32_t advance(const struct gve_model_queue *queue, uint32_t index)
{
    return queue->published + ((index - queue->published) & (queue->entries - 1));
}

/* ---- tx ---- */

static void complete(struct gve_model *model, struct gve_model_queue *queue, uint32_t type, uint32_t value)
{
    uint32_t entry = queue->completions % queue->entries;
    bool generation = queue->completions / queue->entries % 2 == 0;
    struct gve_dqo_tx_completion completion = { 0 };
    queue->completions++;
    store_le16(&completion.id_type,
               (uint16_t)((uint32_t)(queue - model->state.tx) | type << GVE_DQO_COMPLETION_TYPE_SHIFT
                          | (generation ? GENERATION_TX : 0u)));
    store_le16(&completion.value, (uint16_t)value);
    gve_model_publish(model, GVE_MODEL_TX_COMPLETION, queue->data_ring + entry * (uint64_t)sizeof completion,
                      &completion, sizeof completion, offsetof(struct gve_dqo_tx_completion, id_type));
}

static uint32_t checksum_field(struct offload_headers headers) { return headers.protocol == IP_PROTOCOL_TCP ? 16 : 6; }

/* Takes the packet at the head of the queue, up to `end`. Returns the driver's mistake, or NULL. */
static const char *take_packet(struct gve_model *model, struct gve_model_queue *queue, uint32_t end)
{
    const union gve_dqo_tx_descriptor *ring = gve_model_memory(model, queue->ring, queue->entries * sizeof *ring);
    const struct gve_dqo_tx_segmentation *segmentation = NULL;
    uint32_t bytes = 0;
    while (queue->done != end) {
        const union gve_dqo_tx_descriptor *descriptor = &ring[queue->done++ % queue->entries];
        uint8_t flags = descriptor->packet.type_flags;
        uint8_t type = flags & GVE_DQO_TX_TYPE;
        if (type == GVE_DQO_TX_SEGMENTATION)
            segmentation = &descriptor->segmentation;
        if (type == GVE_DQO_TX_SEGMENTATION || type == GVE_DQO_TX_CONTEXT)
            continue;
        uint32_t part = load_le16(&descriptor->packet.bytes) & GVE_DQO_RX_BYTES;
        if (type != GVE_DQO_TX_PACKET)
            return "a tx descriptor of no known type";
        if (part == 0 || bytes + part > sizeof model->packet)
            return "a packet's descriptor is empty, or the packet is too long";
        if (!gve_model_copy(model, queue, load_le64(&descriptor->packet.address), model->packet + bytes, part, false))
            return "tx data is not mapped";
        bytes += part;
        if (flags & GVE_DQO_TX_REPORT)
            complete(model, queue, GVE_DQO_COMPLETION_DESCRIPTORS, queue->done % queue->entries);
        if (!(flags & GVE_DQO_TX_END))
            continue;
        const char *wrong = NULL;
        struct offload_headers headers = offload_parse(model->packet, bytes);
        if (segmentation) {
            uint32_t header_bytes = segmentation->header_bytes;
            if (bytes - header_bytes != (load_le32(&segmentation->payload_bytes) & 0xffffff)
                || !offload_segment(model->packet, bytes, header_bytes, load_le16(&segmentation->mss) & 0x3fff,
                                    gve_model_send, model))
                wrong = "segmentation with wrong offsets";
        } else {
            wrong = gve_model_send_packet(model, bytes, flags & GVE_DQO_TX_CHECKSUM ? headers.l4 : 0,
                                          checksum_field(headers));
        }
        if (!wrong)
            complete(model, queue, GVE_DQO_COMPLETION_PACKET, load_le16(&descriptor->packet.tag));
        return wrong;
    }
    return "a packet does not end before the doorbell";
}

void gve_dqo_tx(struct gve_model *model, struct gve_model_queue *queue, uint32_t value)
{
    if (value >= queue->entries)
        gve_model_violate(model, "a tx doorbell is not in the ring");
    else
        queue->published = advance(queue, value);
    const char *wrong = NULL;
    while (!wrong && queue->done != queue->published)
        wrong = take_packet(model, queue, queue->published);
    if (wrong) { /* The device stops the queue. */
        queue->created = false;
        gve_model_violate(model, wrong);
    }
    gve_model_notify(model, queue->notify);
}

/* ---- rx ---- */

void gve_dqo_rx_posted(struct gve_model *model, struct gve_model_queue *queue, uint32_t value)
{
    if (value >= queue->entries || value % RX_DOORBELL_STEP != 0)
        gve_model_violate(model, "an rx doorbell is not in the ring, or no multiple of 8");
    else
        queue->published = advance(queue, value);
}

/* Returns L3 * 8 + L4, as model.c numbers packet types in the answer to GET_PTYPE_MAP. */
static uint16_t packet_type(struct offload_headers headers)
{
    uint32_t l3 = headers.ipv4 ? GVE_L3_IPV4 : headers.ipv6 ? GVE_L3_IPV6 : 0;
    uint32_t l4 = headers.fragment || l3 == 0           ? 0
                  : headers.protocol == IP_PROTOCOL_TCP ? GVE_L4_TCP
                  : headers.protocol == IP_PROTOCOL_UDP ? GVE_L4_UDP
                                                        : 0;
    return (uint16_t)(l3 * 8 + l4);
}

bool gve_dqo_receive(struct gve_model *model, struct gve_model_queue *queue, const uint8_t *frame, uint32_t bytes)
{
    struct offload_headers headers = offload_parse(frame, bytes);
    uint16_t type = packet_type(headers);
    uint8_t status = type % 8 == 0 ? 0
                     : offload_is_right(frame, bytes, headers)
                         ? GVE_DQO_RX_HEADERS_CHECKED
                         : GVE_DQO_RX_HEADERS_CHECKED | GVE_DQO_RX_BAD_L4_CHECKSUM;
    for (uint32_t at = 0; at < bytes;) {
        uint32_t part = min_u32(bytes - at, queue->buffer_bytes);
        uint32_t entry = queue->done % queue->entries;
        bool generation = queue->done / queue->entries % 2 == 0;
        const struct gve_dqo_rx_buffer *buffer = gve_model_memory(
            model, queue->data_ring + entry * (uint64_t)sizeof *buffer, sizeof *buffer);
        uint8_t piece[UINT16_MAX];
        memcpy(piece, frame + at, part);
        if (!buffer || !gve_model_copy(model, queue, load_le64(&buffer->address), piece, part, true)) {
            gve_model_violate(model, "an rx buffer is not mapped");
            return false;
        }
        at += part;
        queue->done++;
        struct gve_dqo_rx_completion completion;
        memset(&completion, 0, sizeof completion);
        completion.format = GVE_DQO_RX_FORMAT;
        completion.status = (uint8_t)(status | GVE_DQO_RX_DONE | (at == bytes ? GVE_DQO_RX_END : 0));
        store_le16(&completion.packet_type, type);
        store_le16(&completion.bytes, (uint16_t)(part | (generation ? GVE_DQO_RX_GENERATION : 0u)));
        completion.buffer_id = buffer->id;
        gve_model_publish(model, GVE_MODEL_RX, queue->ring + entry * (uint64_t)sizeof completion, &completion,
                          sizeof completion, offsetof(struct gve_dqo_rx_completion, bytes));
    }
    return true;
}
