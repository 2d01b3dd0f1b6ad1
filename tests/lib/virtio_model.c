#include "tests/lib/virtio_model.h"

#include "base/bytes.h"
#include "base/hot_section.h"

enum { CHAIN_COUNT_MAX = 8 };

static struct virtio_model *model_of(struct virtio_bus *bus) { return (struct virtio_model *)bus; }

static void violate(struct virtio_model *model, const char *what)
{
    if (!model->violation)
        model->violation = what;
}

bool virtio_model_has(const struct virtio_model *model, unsigned feature_bit)
{
    return (model->accepted & BIT(feature_bit)) != 0;
}

/* §5.1.6.1 */
uint8_t virtio_model_header_bytes(const struct virtio_model *model)
{
    return virtio_model_has(model, VIRTIO_F_VERSION_1) || virtio_model_has(model, VIRTIO_NET_F_MRG_RXBUF) ? 12 : 10;
}

/* ---- registers ---- */

static uint8_t status_read(struct virtio_bus *bus)
{
    struct virtio_model *model = model_of(bus);
    model->register_reads++;
    if (model->reset_reads_left > 0) {
        model->reset_reads_left--;
        return VIRTIO_STATUS_ACKNOWLEDGE; /* anything except 0, until the reset is complete */
    }
    return model->status;
}

static void reset(struct virtio_model *model)
{
    model->reset_reads_left = model->never_resets ? UINT32_MAX : model->reset_read_count;
    model->status = 0;
    model->accepted = 0;
    for (int i = 0; i < VIRTIO_NET_QUEUE_COUNT; i++)
        model->queue[i] = (struct virtio_model_queue){ .size_max = model->queue[i].size_max };
}

static void status_write(struct virtio_bus *bus, uint8_t status)
{
    struct virtio_model *model = model_of(bus);
    if (status == 0) {
        reset(model);
        return;
    }
    if (model->reset_reads_left > 0 && !(status & VIRTIO_STATUS_FAILED))
        violate(model, "status written before the reset was complete (§4.1.4.3.2)");
    if ((model->status & status) != model->status)
        violate(model, "a status bit was cleared (§2.1.1)");
    if ((status & VIRTIO_STATUS_DRIVER) && !(status & VIRTIO_STATUS_ACKNOWLEDGE))
        violate(model, "DRIVER before ACKNOWLEDGE (§3.1.1)");
    if ((status & VIRTIO_STATUS_FEATURES_OK) && model->bus.legacy)
        violate(model, "FEATURES_OK written to a legacy device (§3.1.2)");
    if ((status & VIRTIO_STATUS_FEATURES_OK) && (model->accepted & model->required) != model->required)
        status &= (uint8_t)~VIRTIO_STATUS_FEATURES_OK;
    if (status & VIRTIO_STATUS_DRIVER_OK) {
        if (!model->bus.legacy && !(status & VIRTIO_STATUS_FEATURES_OK))
            violate(model, "DRIVER_OK without FEATURES_OK (§3.1.1)");
        if (!model->queue[0].enabled || !model->queue[1].enabled)
            violate(model, "DRIVER_OK before the queues were enabled (§3.1.1)");
    }
    model->status = status;
}

static uint64_t features_read(struct virtio_bus *bus) { return model_of(bus)->offered; }

static void features_write(struct virtio_bus *bus, uint64_t features)
{
    struct virtio_model *model = model_of(bus);
    if (features & ~model->offered)
        violate(model, "a feature was accepted that was not offered (§2.2.1)");
    if (model->status & VIRTIO_STATUS_FEATURES_OK)
        violate(model, "features written after FEATURES_OK (§3.1.1)");
    if ((model->status & 3) != (VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER))
        violate(model, "features written before DRIVER (§3.1.1)");
    model->accepted = features;
}

static uint16_t queue_size_max(struct virtio_bus *bus, uint16_t queue)
{
    return queue < VIRTIO_NET_QUEUE_COUNT ? model_of(bus)->queue[queue].size_max : 0;
}

static bool queue_enable(struct virtio_bus *bus, uint16_t number, const struct virtqueue *rings)
{
    struct virtio_model *model = model_of(bus);
    struct virtio_model_queue *queue = &model->queue[number];
    if (model->status & VIRTIO_STATUS_DRIVER_OK)
        violate(model, "queue enabled after DRIVER_OK (§3.1.1)");
    if (rings->size == 0 || (rings->size & (rings->size - 1)) || rings->size > queue->size_max)
        violate(model, "queue size not a power of two, or above the device's (§2.7)");
    if (bus->queue_size_fixed && rings->size != queue->size_max)
        violate(model, "queue size is not the dictated one (§4.1.5.1.3)");

    queue->size = rings->size;
    queue->desc = (const void *)(uintptr_t)virtqueue_desc_address(rings);
    if (bus->legacy) {
        /* §2.7.2: the device computes where the rings are from the page number alone. */
        uintptr_t page = (uintptr_t)queue->desc & ~(uintptr_t)4095;
        queue->desc = (const void *)page;
        queue->avail = (const void *)(page + 16u * queue->size);
        queue->used = (void *)((page + 16u * queue->size + 2u * (3u + queue->size) + 4095) & ~(uintptr_t)4095);
    } else {
        queue->avail = (const void *)(uintptr_t)virtqueue_avail_address(rings);
        queue->used = (void *)(uintptr_t)virtqueue_used_address(rings);
    }
    if ((uintptr_t)queue->desc % 16 || (uintptr_t)queue->avail % 2 || (uintptr_t)queue->used % 4)
        violate(model, "rings not aligned (§2.7)");
    if (queue->used->flags != 0 || queue->used->idx != 0)
        violate(model, "used ring not initialised (§2.7.10.1)");
    queue->enabled = true;
    return true;
}

/* Rings the doorbell. Stands in the hot section, as the kick of a real bus does: drivers/virtio/pci_modern.c. */
HOT static void kick(struct virtio_bus *bus, uint16_t queue)
{
    struct virtio_model *model = model_of(bus);
    if (model->on_kick != NULL)
        model->on_kick(queue);
    if (!(model->status & VIRTIO_STATUS_DRIVER_OK))
        violate(model, "notified before DRIVER_OK (§3.1.1)");
    __atomic_add_fetch(&model->queue[queue].kick_count, 1, __ATOMIC_RELEASE);
}

static uint32_t config_read(struct virtio_bus *bus, uint16_t offset, uint8_t bytes)
{
    struct virtio_model *model = model_of(bus);
    model->register_reads++;
    if (offset + bytes > bus->config_bytes)
        violate(model, "configuration read behind its end (§2.5.1)");
    /* A value read while the configuration changes is garbage. */
    if (offset < 6 && bytes == 1)
        return model->generation_changes_left ? 0xee : model->mac[offset];
    if (offset == VIRTIO_NET_CONFIG_STATUS && bytes == 2)
        return model->link_status;
    if (offset == VIRTIO_NET_CONFIG_MTU && bytes == 2)
        return model->mtu_bytes;
    violate(model, "configuration read of an unknown field or in a wrong width (§4.1.3.1)");
    return 0;
}

static uint32_t config_generation(struct virtio_bus *bus)
{
    struct virtio_model *model = model_of(bus);
    if (model->generation_changes_left > 0) {
        model->generation_changes_left--;
        model->generation++;
    }
    return model->generation;
}

static const struct virtio_bus_ops virtio_model_ops = {
    .status_read = status_read,
    .status_write = status_write,
    .features_read = features_read,
    .features_write = features_write,
    .queue_size_max = queue_size_max,
    .queue_enable = queue_enable,
    .kick = kick,
    .config_read = config_read,
    .config_generation = config_generation,
};

void virtio_model_init(struct virtio_model *model, enum virtio_model_kind kind)
{
    *model = (struct virtio_model){
        .bus = {
            .ops = &virtio_model_ops,
            .name = "model",
            .place = "memory",
            .config_bytes = VIRTIO_NET_CONFIG_MTU + 2,
            .legacy = kind != VIRTIO_MODEL_MODERN,
            .queue_size_fixed = kind == VIRTIO_MODEL_LEGACY_PCI,
        },
        .offered = BIT(VIRTIO_F_EVENT_IDX) | BIT(VIRTIO_NET_F_MAC) | BIT(VIRTIO_NET_F_STATUS) | BIT(VIRTIO_NET_F_MTU) |
                   BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_MRG_RXBUF) |
                   BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_GUEST_ANNOUNCE) | BIT(VIRTIO_NET_F_CTRL_RX) |
                   (kind == VIRTIO_MODEL_MODERN ? BIT(VIRTIO_F_VERSION_1) : BIT(VIRTIO_F_ANY_LAYOUT)),
        .mac = { 0x52, 0x54, 0x00, 0x12, 0x34, 0x56 },
        .mtu_bytes = 1500,
        .link_status = VIRTIO_NET_S_LINK_UP,
        .status = VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER | VIRTIO_STATUS_DRIVER_OK, /* an earlier driver's */
        .queue = { { .size_max = 256 }, { .size_max = 256 }, { .size_max = 64 } },
    };
}

/* ---- rings, from the device's side ---- */

uint16_t virtio_model_available(const struct virtio_model *model, uint16_t number)
{
    const struct virtio_model_queue *queue = &model->queue[number];
    return (uint16_t)(__atomic_load_n(&queue->avail->idx, __ATOMIC_ACQUIRE) - queue->avail_taken);
}

/* A descriptor chain as one block. This driver's own rule: a chain's buffers are contiguous in memory. */
struct chain {
    uint16_t head;
    uint8_t *at;
    uint32_t bytes;
    uint32_t first_bytes; /* the first descriptor's */
    uint16_t descriptor_count;
};

static struct chain chain_take(struct virtio_model *model, uint16_t number)
{
    struct virtio_model_queue *queue = &model->queue[number];
    uint16_t wanted_flag = number == VIRTIO_NET_RECEIVEQ ? VIRTQ_DESC_F_WRITE : 0;
    struct chain chain = { .head = queue->avail->ring[queue->avail_taken++ & (queue->size - 1)] };
    if (chain.head >= queue->size) {
        violate(model, "available entry beyond the descriptor table (§2.7.6)");
        chain.head = 0;
    }
    for (uint16_t at = chain.head;; at = queue->desc[at].next) {
        const struct virtq_desc *desc = &queue->desc[at];
        if ((desc->flags & VIRTQ_DESC_F_WRITE) != wanted_flag)
            violate(model, "descriptor readable where it should be writable, or the other way round (§2.7.5)");
        if (chain.descriptor_count == 0) {
            chain.at = (uint8_t *)(uintptr_t)desc->addr;
            chain.first_bytes = desc->len;
        } else if ((uint8_t *)(uintptr_t)desc->addr != chain.at + chain.bytes) {
            violate(model, "a chain's buffers are not contiguous in memory (this driver's own rule)");
        }
        chain.bytes += desc->len;
        chain.descriptor_count++;
        if (!(desc->flags & VIRTQ_DESC_F_NEXT))
            break;
        if (desc->next >= queue->size || chain.descriptor_count == CHAIN_COUNT_MAX) {
            violate(model, "descriptor chain leads out of the table or in a circle (§2.7.5)");
            break;
        }
    }
    /* §5.1.6.6 */
    bool any_layout = virtio_model_has(model, VIRTIO_F_VERSION_1) || virtio_model_has(model, VIRTIO_F_ANY_LAYOUT);
    if (!any_layout && (chain.first_bytes != virtio_model_header_bytes(model) || chain.descriptor_count < 2))
        violate(model, "header not in a descriptor of its own (§5.1.6.6)");
    return chain;
}

static void used_write(struct virtio_model_queue *queue, uint16_t at, uint32_t id, uint32_t len)
{
    struct virtq_used_elem *entry = &queue->used->ring[at & (queue->size - 1)];
    entry->id = id;
    entry->len = len;
}

static void used_publish(struct virtio_model_queue *queue)
{
    __atomic_store_n(&queue->used->idx, queue->used_idx, __ATOMIC_RELEASE);
}

/* Writes the used entries first, the index once, last: all buffers of a frame become visible together (virtio 1.2
 * §5.1.6.4). */
bool virtio_model_receive(struct virtio_model *model, const void *frame, uint32_t bytes, uint8_t flags)
{
    struct virtio_model_queue *queue = &model->queue[VIRTIO_NET_RECEIVEQ];
    uint8_t header_bytes = virtio_model_header_bytes(model);
    bool merges = virtio_model_has(model, VIRTIO_NET_F_MRG_RXBUF);
    uint16_t taken_before = queue->avail_taken, used_before = queue->used_idx;
    struct virtio_net_hdr *header = NULL;
    uint32_t done = 0;
    uint16_t buffer_count = 0;

    do {
        if (virtio_model_available(model, VIRTIO_NET_RECEIVEQ) == 0) {
            queue->avail_taken = taken_before; /* too few buffers now; nothing has been published */
            queue->used_idx = used_before;
            return false;
        }
        struct chain chain = chain_take(model, VIRTIO_NET_RECEIVEQ);
        uint32_t skip = buffer_count == 0 ? header_bytes : 0;
        if (chain.bytes < skip || (!merges && chain.bytes < 1514u + header_bytes)) {
            violate(model, "receive buffer too small (§5.1.6.3.1)");
            return false;
        }
        if (buffer_count == 0) {
            header = (struct virtio_net_hdr *)chain.at;
            memset(header, 0, header_bytes);
            header->flags = flags;
        }
        uint32_t room = chain.bytes - skip;
        if (merges && model->split_bytes != 0)
            room = min_u32(room, model->split_bytes);
        uint32_t part = min_u32(bytes - done, room);
        memcpy(chain.at + skip, (const uint8_t *)frame + done, part);
        done += part;
        used_write(queue, queue->used_idx++, chain.head, part + skip);
        buffer_count++;
    } while (merges && done < bytes);

    if (header_bytes == sizeof *header)
        header->num_buffers = buffer_count;
    used_publish(queue);
    return true;
}

bool virtio_model_transmit_take(struct virtio_model *model, struct virtio_model_packet *packet)
{
    if (virtio_model_available(model, VIRTIO_NET_TRANSMITQ) == 0)
        return false;
    struct chain chain = chain_take(model, VIRTIO_NET_TRANSMITQ);
    uint8_t header_bytes = virtio_model_header_bytes(model);
    if (chain.bytes < header_bytes + 14u) {
        violate(model, "transmitted chain shorter than header and Ethernet header");
        return false;
    }
    *packet = (struct virtio_model_packet){
        .head = chain.head,
        .frame = chain.at + header_bytes,
        .bytes = chain.bytes - header_bytes,
    };
    memcpy(&packet->header, chain.at, header_bytes);
    if (packet->header.gso_type || packet->header.num_buffers || (packet->header.flags & ~VIRTIO_NET_HDR_F_NEEDS_CSUM))
        violate(model, "transmit header with fields that nobody negotiated (§5.1.6.2.1)");
    if (packet->header.flags && !virtio_model_has(model, VIRTIO_NET_F_CSUM))
        violate(model, "NEEDS_CSUM without VIRTIO_NET_F_CSUM (§5.1.6.2.1)");
    return true;
}

void virtio_model_transmit_done(struct virtio_model *model, const struct virtio_model_packet *packet)
{
    virtio_model_used_push(model, VIRTIO_NET_TRANSMITQ, packet->head, 0);
}

bool virtio_model_control_take(struct virtio_model *model, struct virtio_model_control *control)
{
    struct virtio_model_queue *queue = &model->queue[VIRTIO_NET_CONTROLQ];
    if (virtio_model_available(model, VIRTIO_NET_CONTROLQ) == 0)
        return false;
    control->head = queue->avail->ring[queue->avail_taken++ & (queue->size - 1)];
    const struct virtq_desc *command = &queue->desc[control->head],
                            *ack = &queue->desc[command->next & (queue->size - 1u)];
    if (command->flags != VIRTQ_DESC_F_NEXT || command->len < 2 || ack->flags != VIRTQ_DESC_F_WRITE || ack->len != 1)
        violate(model, "a command is not class, command and data, and a byte to write (§5.1.6.5)");
    control->command = (const uint8_t *)(uintptr_t)command->addr;
    control->bytes = command->len;
    if (control->command[0] == VIRTIO_NET_CTRL_MAC && !virtio_model_has(model, VIRTIO_NET_F_CTRL_RX))
        violate(model, "a table of addresses without VIRTIO_NET_F_CTRL_RX (§5.1.6.5.2.2)");
    control->ack = (uint8_t *)(uintptr_t)ack->addr;
    return true;
}

void virtio_model_control_done(struct virtio_model *model, const struct virtio_model_control *control)
{
    *control->ack = 0; /* VIRTIO_NET_OK */
    virtio_model_used_push(model, VIRTIO_NET_CONTROLQ, control->head, 1);
}

void virtio_model_want_kick(struct virtio_model *model, uint16_t number)
{
    struct virtio_model_queue *queue = &model->queue[number];
    if (virtio_model_has(model, VIRTIO_F_EVENT_IDX))
        __atomic_store_n((uint16_t *)&queue->used->ring[queue->size], queue->avail_taken, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(&queue->used->flags, 0, __ATOMIC_SEQ_CST);
}

void virtio_model_refuse_kicks(struct virtio_model *model, uint16_t number)
{
    struct virtio_model_queue *queue = &model->queue[number];
    if (virtio_model_has(model, VIRTIO_F_EVENT_IDX))
        __atomic_store_n((uint16_t *)&queue->used->ring[queue->size], (uint16_t)(queue->avail_taken - 1),
                         __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(&queue->used->flags, VIRTQ_USED_F_NO_NOTIFY, __ATOMIC_SEQ_CST);
}

bool virtio_model_would_interrupt(const struct virtio_model *model, uint16_t number, uint16_t old_idx)
{
    const struct virtio_model_queue *queue = &model->queue[number];
    if (!virtio_model_has(model, VIRTIO_F_EVENT_IDX))
        return !(queue->avail->flags & VIRTQ_AVAIL_F_NO_INTERRUPT);
    uint16_t used_event = queue->avail->ring[queue->size];
    return (uint16_t)(queue->used_idx - used_event - 1) < (uint16_t)(queue->used_idx - old_idx);
}

void virtio_model_used_push(struct virtio_model *model, uint16_t number, uint32_t id, uint32_t len)
{
    struct virtio_model_queue *queue = &model->queue[number];
    used_write(queue, queue->used_idx++, id, len);
    used_publish(queue);
}

void virtio_model_used_jump(struct virtio_model *model, uint16_t number, uint16_t by)
{
    model->queue[number].used_idx += by;
    used_publish(&model->queue[number]);
}
