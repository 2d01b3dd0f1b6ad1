#include "tests/gve/model.h"

#include <string.h>

#include "base/bytes.h"
#include "net/ip/checksum.h"

enum { COUNTERS = 2 * GVE_MODEL_QUEUES_MAX, LINK_SPEED_MBPS = 10000, ADMINQ_ENTRIES_MAX = 1024 };
/* Doorbells: of notification blocks, tx queues and rx queues. */
enum { DOORBELL_BLOCK = 1, DOORBELL_TX = 0x40, DOORBELL_RX = 0x80 };

static void violate(struct gve_model *model, const char *what)
{
    if (!model->violation)
        model->violation = what;
}

static void *memory(struct gve_model *model, uint64_t address, uint64_t bytes)
{
    void *at = model->config.translate(model->config.context, address, bytes);
    model->fault_count += at == NULL;
    return at;
}

/* Writes a structure for the driver, its last word last: an rx descriptor is new by it. Returns false if its memory is
 * not mapped. */
static bool publish(struct gve_model *model, enum gve_model_written what, uint64_t address, void *data, size_t bytes)
{
    if (model->config.alter)
        model->config.alter(model->config.context, what, data, bytes);
    uint8_t *to = memory(model, address, bytes);
    if (!to)
        return false;
    if (bytes == sizeof(uint32_t)) {
        __atomic_store_n((uint32_t *)(void *)to, load_le32(data), __ATOMIC_RELEASE);
        return true;
    }
    memcpy(to, data, bytes - 2);
    __atomic_store_n((uint16_t *)(void *)(to + bytes - 2), load_le16((uint8_t *)data + bytes - 2), __ATOMIC_RELEASE);
    return true;
}

/* Copies between `data` and the addresses of a queue's descriptors: offsets in its page list, or bus addresses. */
static bool copy(struct gve_model *model, const struct gve_model_queue *queue, uint64_t address, uint8_t *data,
                 uint64_t bytes, bool to_driver)
{
    while (bytes > 0) {
        uint64_t part = bytes;
        uint64_t bus = address;
        if (queue->page_list != GVE_QPL_ID_RAW_ADDRESSING) {
            const struct gve_model_page_list *list = &model->state.list[queue->page_list];
            uint64_t page = address / GVE_PAGE_BYTES;
            uint64_t in_page = address % GVE_PAGE_BYTES;
            if (page >= list->page_count) {
                violate(model, "an address past the end of the page list");
                return false;
            }
            part = min_u64(bytes, GVE_PAGE_BYTES - in_page);
            bus = list->page[page] + in_page;
        }
        uint8_t *at = memory(model, bus, part);
        if (!at)
            return false;
        memcpy(to_driver ? at : data, to_driver ? data : at, part);
        address += part;
        data += part;
        bytes -= part;
    }
    return true;
}

/* ---- interrupts ---- */

static void interrupt(struct gve_model *model, uint32_t vector)
{
    if (model->config.interrupt)
        model->config.interrupt(model->config.context, vector);
}

/* Raises a notification block's vector; once, until the driver acknowledges. */
static void notify(struct gve_model *model, uint32_t index)
{
    struct gve_model_block *block = &model->state.block[index];
    block->pending = block->masked;
    if (!block->masked) {
        block->masked = true;
        interrupt(model, model->state.notify_base + index);
    }
}

static void block_doorbell(struct gve_model *model, uint32_t index, uint32_t value)
{
    struct gve_model_block *block = &model->state.block[index];
    block->masked = (value & GVE_IRQ_MASK) != 0;
    if (!block->masked && block->pending)
        notify(model, index);
}

static void notify_management(struct gve_model *model)
{
    if (model->state.configured)
        interrupt(model, model->state.notify_base == 0 ? model->state.block_count : 0);
}

/* ---- admin queue ---- */

static uint8_t *add_option(struct gve_device_descriptor *descriptor, uint8_t *at, uint16_t id, uint16_t bytes,
                           uint16_t max_mtu)
{
    struct gve_option_contents contents;
    memset(&contents, 0, sizeof contents);
    store_be32(&contents.supported_features, max_mtu ? GVE_FEATURE_JUMBO_FRAMES : 0);
    store_be16(&contents.max_mtu, id == GVE_OPTION_JUMBO_FRAMES ? max_mtu : 0);
    struct gve_device_option option;
    memset(&option, 0, sizeof option);
    store_be16(&option.id, id);
    store_be16(&option.bytes, bytes);
    memcpy(at, &option, sizeof option);
    memcpy(at + sizeof option, &contents, bytes);
    store_be16(&descriptor->option_count, (uint16_t)(load_be16(&descriptor->option_count) + 1));
    return at + sizeof option + bytes;
}

static uint32_t describe_device(struct gve_model *model, const struct gve_describe_device *command)
{
    const struct gve_model_config *config = &model->config;
    struct {
        struct gve_device_descriptor descriptor;
        uint8_t options[64];
    } written;
    memset(&written, 0, sizeof written);
    struct gve_device_descriptor *d = &written.descriptor;
    store_be64(&d->max_registered_pages, (uint64_t)config->queue_count * (config->tx_pages + config->entries));
    store_be16(&d->tx_queue_entries, config->entries);
    store_be16(&d->rx_queue_entries, config->entries);
    store_be16(&d->default_num_queues, config->queue_count);
    store_be16(&d->mtu, config->mtu);
    store_be16(&d->counters, COUNTERS);
    store_be16(&d->tx_pages_per_qpl, config->tx_pages);
    store_be16(&d->rx_pages_per_qpl, config->entries);
    memcpy(d->mac, config->mac, sizeof d->mac);
    uint8_t *end = written.options;
    if (config->formats & BIT(GVE_FORMAT_GQI_RDA))
        end = add_option(d, end, GVE_OPTION_GQI_RDA, GVE_OPTION_GQI_BYTES, config->max_mtu);
    if (config->formats & BIT(GVE_FORMAT_GQI_QPL))
        end = add_option(d, end, GVE_OPTION_GQI_QPL, GVE_OPTION_GQI_BYTES, config->max_mtu);
    if (config->max_mtu)
        end = add_option(d, end, GVE_OPTION_JUMBO_FRAMES, GVE_OPTION_JUMBO_FRAMES_BYTES, config->max_mtu);
    size_t total = (size_t)(end - (uint8_t *)&written);
    store_be16(&d->total_bytes, (uint16_t)total);
    if (load_be32(&command->descriptor_version) != GVE_DEVICE_DESCRIPTOR_VERSION
        || load_be32(&command->available_bytes) < total)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    return publish(model, GVE_MODEL_DESCRIPTION, load_be64(&command->descriptor_address), &written, total)
               ? GVE_ADMINQ_STATUS_PASSED
               : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
}

static uint32_t configure_resources(struct gve_model *model, const struct gve_configure_device_resources *command)
{
    struct gve_model_state *state = &model->state;
    uint32_t stride = load_be32(&command->irq_doorbell_stride_bytes);
    if (state->configured)
        return GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
    state->format = command->queue_format;
    state->counter_array = load_be64(&command->counter_array);
    state->counter_count = load_be32(&command->counter_count);
    state->block_count = load_be32(&command->irq_doorbell_count);
    state->notify_base = load_be32(&command->notify_base);
    if (state->format >= 32 || !(model->config.formats & BIT(state->format)) || state->counter_count > COUNTERS
        || state->block_count > ARRAY_COUNT(state->block) || state->notify_base > 1 || stride < 4 || stride > 4096
        || !memory(model, state->counter_array, 4 * (uint64_t)state->counter_count))
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < state->block_count; i++) {
        uint32_t index;
        store_be32(&index, DOORBELL_BLOCK + i);
        if (!publish(model, GVE_MODEL_IRQ_INDEX, load_be64(&command->irq_doorbells) + (uint64_t)i * stride, &index, 4))
            return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
        state->block[i] = (struct gve_model_block){ .masked = true };
    }
    state->configured = true;
    return GVE_ADMINQ_STATUS_PASSED;
}

static bool any_queue(const struct gve_model *model)
{
    for (int i = 0; i < GVE_MODEL_QUEUES_MAX; i++)
        if (model->state.tx[i].created || model->state.rx[i].created)
            return true;
    return false;
}

static uint32_t register_page_list(struct gve_model *model, const struct gve_register_page_list *command)
{
    uint32_t id = load_be32(&command->id);
    uint32_t count = load_be32(&command->page_count);
    uint64_t page_bytes = load_be64(&command->page_bytes);
    if (id >= ARRAY_COUNT(model->state.list) || count == 0 || count > GVE_MODEL_PAGES_MAX
        || (page_bytes != 0 && page_bytes != GVE_PAGE_BYTES) || model->state.list[id].page_count != 0)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    const uint8_t *from = memory(model, load_be64(&command->address_list), 8 * (uint64_t)count);
    if (!from)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    struct gve_model_page_list *list = &model->state.list[id];
    for (uint32_t i = 0; i < count; i++) {
        list->page[i] = load_be64(from + 8 * (size_t)i);
        if (list->page[i] % GVE_PAGE_BYTES != 0 || !memory(model, list->page[i], GVE_PAGE_BYTES))
            return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    }
    list->page_count = count;
    return GVE_ADMINQ_STATUS_PASSED;
}

static uint32_t unregister_page_list(struct gve_model *model, uint32_t id)
{
    struct gve_model_state *state = &model->state;
    if (id >= ARRAY_COUNT(state->list) || state->list[id].page_count == 0)
        return GVE_ADMINQ_STATUS_NOT_FOUND;
    for (int i = 0; i < GVE_MODEL_QUEUES_MAX; i++)
        if ((state->tx[i].created && state->tx[i].page_list == id)
            || (state->rx[i].created && state->rx[i].page_list == id))
            return GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
    state->list[id].page_count = 0;
    return GVE_ADMINQ_STATUS_PASSED;
}

/* Creates a queue, if all that it names exists. */
static uint32_t create_queue(struct gve_model *model, struct gve_model_queue *queues, uint32_t id,
                             struct gve_model_queue queue, uint64_t resources, uint32_t doorbell)
{
    const struct gve_model_state *state = &model->state;
    bool raw = state->format == GVE_FORMAT_GQI_RDA;
    bool listed = queue.page_list < ARRAY_COUNT(state->list) && state->list[queue.page_list].page_count > 0;
    size_t entry_bytes = queue.data_ring ? sizeof(struct gve_rx_descriptor) : sizeof(union gve_tx_descriptor);
    if (queue.entries == 0)
        queue.entries = model->config.entries;
    if (!state->configured)
        return GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
    if (id >= model->config.queue_count || queues[id].created || queue.entries != model->config.entries
        || queue.notify >= state->block_count || queue.counter >= state->counter_count
        || (raw ? queue.page_list != GVE_QPL_ID_RAW_ADDRESSING : !listed) || queue.ring % GVE_PAGE_BYTES != 0
        || !memory(model, queue.ring, queue.entries * entry_bytes)
        || (queue.data_ring && !memory(model, queue.data_ring, 8 * (uint64_t)queue.entries)))
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    struct gve_queue_resources written;
    memset(&written, 0, sizeof written);
    store_be32(&written.doorbell_index, doorbell + id);
    store_be32(&written.counter_index, queue.counter);
    if (!publish(model, GVE_MODEL_RESOURCES, resources, &written, sizeof written))
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    queue.created = true;
    queues[id] = queue;
    return GVE_ADMINQ_STATUS_PASSED;
}

static uint32_t create_tx(struct gve_model *model, const struct gve_create_tx_queue *command)
{
    uint32_t id = load_be32(&command->queue_id);
    struct gve_model_queue queue = {
        .ring = load_be64(&command->ring_address),
        .page_list = load_be32(&command->page_list_id),
        .notify = load_be32(&command->notify_id),
        .entries = load_be16(&command->ring_size),
        .counter = id,
    };
    return create_queue(model, model->state.tx, id, queue, load_be64(&command->resources_address), DOORBELL_TX);
}

static uint32_t create_rx(struct gve_model *model, const struct gve_create_rx_queue *command)
{
    uint32_t id = load_be32(&command->queue_id);
    struct gve_model_queue queue = {
        .ring = load_be64(&command->descriptor_ring_address),
        .data_ring = load_be64(&command->data_ring_address),
        .page_list = load_be32(&command->page_list_id),
        .notify = load_be32(&command->notify_id),
        .entries = load_be16(&command->ring_size),
        .buffer_bytes = load_be16(&command->packet_buffer_bytes),
        .counter = GVE_MODEL_QUEUES_MAX + id,
    };
    if (load_be32(&command->index) != id || queue.data_ring == 0 || queue.buffer_bytes < 64)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    return create_queue(model, model->state.rx, id, queue, load_be64(&command->resources_address), DOORBELL_RX);
}

static uint32_t destroy_queue(struct gve_model_queue *queues, uint32_t id)
{
    if (id >= GVE_MODEL_QUEUES_MAX || !queues[id].created)
        return GVE_ADMINQ_STATUS_NOT_FOUND;
    queues[id].created = false;
    return GVE_ADMINQ_STATUS_PASSED;
}

static uint32_t verify_driver(struct gve_model *model, const struct gve_verify_driver_compatibility *command)
{
    const struct gve_driver_info *info = memory(model, load_be64(&command->info_address), sizeof *info);
    if (!info || load_be64(&command->info_bytes) != sizeof *info)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    uint64_t capabilities = load_be64(&info->capabilities[0]);
    bool common = ((capabilities & BIT(GVE_CAPABILITY_GQI_QPL)) && (model->config.formats & BIT(GVE_FORMAT_GQI_QPL)))
                  || ((capabilities & BIT(GVE_CAPABILITY_GQI_RDA))
                      && (model->config.formats & BIT(GVE_FORMAT_GQI_RDA)));
    return common ? GVE_ADMINQ_STATUS_PASSED : GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
}

static uint32_t execute(struct gve_model *model, const struct gve_command *command)
{
    switch (load_be32(&command->opcode)) {
    case GVE_ADMINQ_DESCRIBE_DEVICE:
        return describe_device(model, &command->describe_device);
    case GVE_ADMINQ_CONFIGURE_DEVICE_RESOURCES:
        return configure_resources(model, &command->configure_device_resources);
    case GVE_ADMINQ_REGISTER_PAGE_LIST:
        return register_page_list(model, &command->register_page_list);
    case GVE_ADMINQ_UNREGISTER_PAGE_LIST:
        return unregister_page_list(model, load_be32(&command->id));
    case GVE_ADMINQ_CREATE_TX_QUEUE:
        return create_tx(model, &command->create_tx_queue);
    case GVE_ADMINQ_CREATE_RX_QUEUE:
        return create_rx(model, &command->create_rx_queue);
    case GVE_ADMINQ_DESTROY_TX_QUEUE:
        return destroy_queue(model->state.tx, load_be32(&command->id));
    case GVE_ADMINQ_DESTROY_RX_QUEUE:
        return destroy_queue(model->state.rx, load_be32(&command->id));
    case GVE_ADMINQ_DECONFIGURE_DEVICE_RESOURCES:
        if (!model->state.configured || any_queue(model))
            return GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
        model->state.configured = false;
        return GVE_ADMINQ_STATUS_PASSED;
    case GVE_ADMINQ_SET_DRIVER_PARAMETER: {
        uint64_t mtu = load_be64(&command->set_driver_parameter.value);
        bool fits = mtu >= 68 && mtu <= (model->config.max_mtu ? model->config.max_mtu : model->config.mtu);
        return load_be32(&command->set_driver_parameter.type) == GVE_PARAMETER_MTU && fits
                   ? GVE_ADMINQ_STATUS_PASSED
                   : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    }
    case GVE_ADMINQ_REPORT_STATS: /* The report has the driver's figures; the device's would follow them. */
        return memory(model, load_be64(&command->report_stats.address), load_be64(&command->report_stats.bytes))
                   ? GVE_ADMINQ_STATUS_PASSED
                   : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    case GVE_ADMINQ_REPORT_LINK_SPEED: {
        uint64_t speed;
        store_be64(&speed, LINK_SPEED_MBPS);
        return publish(model, GVE_MODEL_LINK_SPEED, load_be64(&command->link_speed_address), &speed, sizeof speed)
                   ? GVE_ADMINQ_STATUS_PASSED
                   : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    }
    case GVE_ADMINQ_VERIFY_DRIVER_COMPATIBILITY:
        return verify_driver(model, &command->verify_driver_compatibility);
    default:
        return GVE_ADMINQ_STATUS_UNIMPLEMENTED;
    }
}

static void adminq_doorbell(struct gve_model *model, uint32_t end)
{
    struct gve_registers *registers = &model->state.registers;
    uint32_t done = load_be32(&registers->adminq_event_counter);
    if (end - done > model->state.adminq_entries) {
        violate(model, "the admin queue's doorbell is not in the queue");
        return;
    }
    for (; done != end; done++) {
        uint64_t address = model->state.adminq
                           + done % model->state.adminq_entries * (uint64_t)sizeof(struct gve_command);
        const struct gve_command *at = memory(model, address, sizeof *at);
        if (!at)
            return;
        struct gve_command command = *at;
        uint32_t status = execute(model, &command);
        if (status != GVE_ADMINQ_STATUS_PASSED && status != GVE_ADMINQ_STATUS_UNIMPLEMENTED)
            violate(model, "a command with a wrong argument, or out of turn");
        if (model->config.command)
            model->config.command(model->config.context, &command, status);
        uint32_t written;
        store_be32(&written, status);
        publish(model, GVE_MODEL_STATUS, address + offsetof(struct gve_command, status), &written, sizeof written);
        store_be32(&registers->adminq_event_counter, done + 1);
    }
}

/* ---- tx ---- */

enum { ETHERNET_BYTES = 14, TCP_FIN_PSH = 0x09 };

static void send(struct gve_model *model, const uint8_t *frame, uint32_t bytes)
{
    model->sent_count++;
    model->config.send(model->config.context, frame, bytes);
}

/* Completes an L4 checksum whose field holds the sum of the pseudo-header. */
static void complete_checksum(uint8_t *frame, uint32_t bytes, uint32_t l4, uint32_t field)
{
    uint16_t sum = checksum_finish(checksum_sum(0, frame + l4, bytes - l4));
    store_be16(frame + l4 + field, sum ? sum : 0xffff);
}

/* Cuts a large TCP segment into frames of `mss`. Its first descriptor holds all headers. */
static bool send_segments(struct gve_model *model, uint32_t bytes, uint32_t header_bytes, uint32_t l4, uint16_t mss)
{
    const uint8_t *packet = model->packet;
    bool ipv4 = (packet[ETHERNET_BYTES] >> 4) == 4;
    if (mss == 0 || header_bytes < l4 + 20 || header_bytes > 200 || header_bytes >= bytes
        || l4 < ETHERNET_BYTES + (ipv4 ? 20u : 40u))
        return false;
    for (uint32_t at = header_bytes; at < bytes; at += mss) {
        uint8_t frame[200 + UINT16_MAX];
        uint32_t part = min_u32(mss, bytes - at);
        uint32_t frame_bytes = header_bytes + part;
        uint8_t *ip = frame + ETHERNET_BYTES;
        uint8_t *tcp = frame + l4;
        uint16_t l4_bytes = (uint16_t)(frame_bytes - l4);
        memcpy(frame, packet, header_bytes);
        memcpy(frame + header_bytes, packet + at, part);
        store_be32(tcp + 4, load_be32(tcp + 4) + (at - header_bytes));
        if (at + part < bytes)
            tcp[13] &= (uint8_t)~TCP_FIN_PSH;
        uint8_t length[4];
        store_be32(length, l4_bytes + 6u); /* with the protocol, TCP, as part of the pseudo-header's sum */
        uint32_t sum = checksum_sum(0, length, sizeof length);
        if (ipv4) {
            store_be16(ip + 2, (uint16_t)(frame_bytes - ETHERNET_BYTES));
            store_be16(ip + 4, (uint16_t)(load_be16(ip + 4) + (at - header_bytes) / mss));
            store_be16(ip + 10, 0);
            store_be16(ip + 10, checksum_finish(checksum_sum(0, ip, l4 - ETHERNET_BYTES)));
            sum = checksum_sum(sum, ip + 12, 8);
        } else {
            store_be16(ip + 4, (uint16_t)(frame_bytes - ETHERNET_BYTES - 40));
            sum = checksum_sum(sum, ip + 8, 32);
        }
        store_be16(tcp + 16, 0);
        store_be16(tcp + 16, checksum_finish(checksum_sum(sum, tcp, l4_bytes)));
        send(model, frame, frame_bytes);
    }
    return true;
}

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
    if (!copy(model, queue, load_be64(&first->address), model->packet, bytes, false))
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
        if (!copy(model, queue, load_be64(&segment->address), model->packet + bytes, part, false))
            return "tx data is not mapped";
        mss = load_be16(&segment->mss);
        bytes += part;
    }
    uint32_t l4 = 2u * first->l4_hdr_offset;
    uint32_t field = 2u * first->l4_csum_offset;
    if (bytes != load_be16(&first->bytes))
        return "a packet's length is not the sum of its segments'";
    if (bytes < ETHERNET_BYTES)
        return "a packet is too short";
    if (type == GVE_TX_TSO)
        return send_segments(model, bytes, header_bytes, l4, mss) ? NULL : "segmentation with wrong offsets";
    if (bytes > ETHERNET_BYTES + 4u + (model->config.max_mtu ? model->config.max_mtu : model->config.mtu))
        return "a packet is longer than the MTU";
    if (first->type_flags & GVE_TX_L4_CHECKSUM) {
        if (l4 < ETHERNET_BYTES || l4 + field + 2 > bytes)
            return "a checksum with wrong offsets";
        complete_checksum(model->packet, bytes, l4, field);
    }
    send(model, model->packet, bytes);
    return NULL;
}

static void tx_doorbell(struct gve_model *model, struct gve_model_queue *queue, uint32_t end)
{
    const union gve_tx_descriptor *ring = memory(model, queue->ring, queue->entries * sizeof *ring);
    if (end - queue->done > queue->entries)
        violate(model, "a tx doorbell is not in the ring");
    if (!ring || end - queue->done > queue->entries)
        return;
    queue->published = end;
    while (queue->done != end) {
        uint32_t count = ring[queue->done % queue->entries].packet.descriptor_count;
        const char *wrong = count == 0 || count > end - queue->done ? "a packet's descriptor count is wrong"
                                                                    : take_packet(model, queue, count, ring);
        if (wrong) { /* The device stops the queue. */
            violate(model, wrong);
            return;
        }
        queue->done += count;
    }
    uint32_t counter;
    store_be32(&counter, queue->done);
    publish(model, GVE_MODEL_COUNTER, model->state.counter_array + 4 * (uint64_t)queue->counter, &counter,
            sizeof counter);
    notify(model, queue->notify);
}

/* ---- rx ---- */

static uint16_t rx_flags(const uint8_t *frame, uint32_t bytes)
{
    const uint8_t *ip = frame + ETHERNET_BYTES;
    uint16_t type = load_be16(frame + 12);
    bool ipv4 = type == 0x0800 && bytes >= ETHERNET_BYTES + 20;
    if (!ipv4 && !(type == 0x86dd && bytes >= ETHERNET_BYTES + 40))
        return 0;
    bool fragment = ipv4 && (load_be16(ip + 6) & 0x3fff) != 0;
    uint8_t protocol = ipv4 ? ip[9] : ip[6];
    uint16_t l4 = protocol == 6 ? GVE_RX_TCP : protocol == 17 ? GVE_RX_UDP : 0;
    return (uint16_t)((ipv4 ? GVE_RX_IPV4 : GVE_RX_IPV6) | (fragment ? GVE_RX_FRAGMENT : l4));
}

bool gve_model_receive(struct gve_model *model, const uint8_t *frame, uint32_t bytes)
{
    struct gve_model_queue *queue = &model->state.rx[0];
    if (model->link_down || !queue->created || bytes < ETHERNET_BYTES)
        return false;
    uint32_t needed = (bytes + GVE_RX_PAD_BYTES + queue->buffer_bytes - 1) / queue->buffer_bytes;
    if (queue->published - queue->done < needed) {
        model->no_buffer_count++;
        return false;
    }
    uint16_t sum = checksum_fold(checksum_sum(0, frame + ETHERNET_BYTES, bytes - ETHERNET_BYTES));
    uint32_t pad = GVE_RX_PAD_BYTES;
    for (uint32_t at = 0; at < bytes; pad = 0) {
        uint32_t part = min_u32(bytes - at, queue->buffer_bytes - pad);
        uint32_t entry = queue->done % queue->entries;
        const uint8_t *slot = memory(model, queue->data_ring + 8 * (uint64_t)entry, 8);
        uint8_t piece[UINT16_MAX];
        memset(piece, 0, pad);
        memcpy(piece + pad, frame + at, part);
        if (!slot || !copy(model, queue, load_be64(slot), piece, pad + part, true)) {
            violate(model, "an rx buffer is not mapped");
            return false;
        }
        at += part;
        queue->sequence = queue->sequence == GVE_RX_SEQ_LAST ? 1 : queue->sequence + 1;
        queue->done++;
        struct gve_rx_descriptor descriptor;
        memset(&descriptor, 0, sizeof descriptor);
        store_be16(&descriptor.checksum, sum);
        store_be16(&descriptor.bytes, (uint16_t)(pad + part));
        store_be16(&descriptor.flags_seq,
                   (uint16_t)(rx_flags(frame, bytes) | (at < bytes ? GVE_RX_CONTINUES : 0) | queue->sequence));
        publish(model, GVE_MODEL_RX, queue->ring + entry * (uint64_t)sizeof descriptor, &descriptor, sizeof descriptor);
    }
    model->received_count++;
    notify(model, queue->notify);
    return true;
}

static void rx_doorbell(struct gve_model *model, struct gve_model_queue *queue, uint32_t end)
{
    if (end - queue->done > queue->entries)
        violate(model, "an rx doorbell is not in the ring");
    else
        queue->published = end;
}

/* ---- regions ---- */

static void set_status(struct gve_model *model, uint32_t bit, bool on)
{
    uint32_t status = load_be32(&model->state.registers.device_status);
    store_be32(&model->state.registers.device_status, on ? status | bit : status & ~bit);
}

void gve_model_reset(struct gve_model *model)
{
    memset(&model->state, 0, sizeof model->state);
    store_be32(&model->state.registers.max_tx_queues, model->config.queue_count);
    store_be32(&model->state.registers.max_rx_queues, model->config.queue_count);
    set_status(model, GVE_DEVICE_STATUS_LINK_UP, !model->link_down);
    model->reset_count++;
}

void gve_model_init(struct gve_model *model, struct gve_model_config config)
{
    memset(model, 0, sizeof *model);
    model->config = config;
    model->config.formats = config.formats ? config.formats : (uint32_t)BIT(GVE_FORMAT_GQI_QPL);
    model->config.mtu = config.mtu ? config.mtu : 1460;
    model->config.entries = config.entries ? config.entries : 256;
    model->config.tx_pages = config.tx_pages ? config.tx_pages : 64;
    model->config.queue_count = config.queue_count ? config.queue_count : 1;
    gve_model_reset(model);
}

void gve_model_read(struct gve_model *model, uint32_t bar, uint32_t offset, void *data, uint32_t bytes)
{
    memset(data, 0, bytes);
    if (bar != GVE_BAR_REGISTERS)
        return;
    model->register_read_count++;
    struct gve_registers registers = model->state.registers;
    if (model->config.alter)
        model->config.alter(model->config.context, GVE_MODEL_REGISTERS, &registers, sizeof registers);
    if (offset <= sizeof registers && bytes <= sizeof registers - offset)
        memcpy(data, (uint8_t *)&registers + offset, bytes);
}

static void doorbell(struct gve_model *model, uint32_t index, uint32_t value)
{
    struct gve_model_state *state = &model->state;
    model->doorbell_count++;
    uint32_t tx = index - DOORBELL_TX;
    uint32_t rx = index - DOORBELL_RX;
    if (index - DOORBELL_BLOCK < state->block_count)
        block_doorbell(model, index - DOORBELL_BLOCK, value);
    else if (tx < GVE_MODEL_QUEUES_MAX && state->tx[tx].created)
        tx_doorbell(model, &state->tx[tx], value);
    else if (rx < GVE_MODEL_QUEUES_MAX && state->rx[rx].created)
        rx_doorbell(model, &state->rx[rx], value);
    else
        violate(model, "a doorbell that belongs to nothing");
}

static void register_write(struct gve_model *model, uint32_t offset, uint32_t value)
{
    struct gve_registers *registers = &model->state.registers;
    bool by_pfn = model->config.revision == 0;
    if (offset == offsetof(struct gve_registers, adminq_pfn) && by_pfn) {
        if (value == 0 && !model->never_resets)
            gve_model_reset(model);
        else if (value != 0) {
            store_be32(&registers->adminq_pfn, value);
            model->state.adminq = (uint64_t)value * GVE_PAGE_BYTES;
            model->state.adminq_entries = GVE_PAGE_BYTES / sizeof(struct gve_command);
        }
    } else if (offset == offsetof(struct gve_registers, adminq_doorbell)) {
        adminq_doorbell(model, value);
    } else if (offset == offsetof(struct gve_registers, adminq_base_hi)) {
        store_be32(&registers->adminq_base_hi, value);
    } else if (offset == offsetof(struct gve_registers, adminq_base_lo)) {
        store_be32(&registers->adminq_base_lo, value);
    } else if (offset == offsetof(struct gve_registers, driver_status) && !by_pfn) {
        if ((value & GVE_DRIVER_STATUS_RESET) && !model->never_resets) {
            gve_model_reset(model);
            set_status(model, GVE_DEVICE_STATUS_IS_RESET, true);
        } else if (value & GVE_DRIVER_STATUS_RUN) {
            set_status(model, GVE_DEVICE_STATUS_IS_RESET, false);
            model->state.adminq = ((uint64_t)load_be32(&registers->adminq_base_hi) << 32)
                                  + load_be32(&registers->adminq_base_lo);
            model->state.adminq_entries = load_be16(&registers->adminq_bytes) / (uint32_t)sizeof(struct gve_command);
        }
    } else if (offset != offsetof(struct gve_registers, driver_status)) {
        violate(model, "a write to a register that cannot be written");
    }
}

void gve_model_write(struct gve_model *model, uint32_t bar, uint32_t offset, const void *data, uint32_t bytes)
{
    if (bar == GVE_BAR_DOORBELLS && bytes == 4 && offset % 4 == 0)
        doorbell(model, offset / 4, load_be32(data));
    else if (bar == GVE_BAR_REGISTERS && bytes == 4)
        register_write(model, offset, load_be32(data));
    else if (bar == GVE_BAR_REGISTERS && bytes == 2 && offset == offsetof(struct gve_registers, adminq_bytes))
        memcpy(&model->state.registers.adminq_bytes, data, 2);
    else if (!(bar == GVE_BAR_REGISTERS && bytes == 1 && offset == offsetof(struct gve_registers, driver_version)))
        violate(model, "a write of a wrong width");
}

void gve_model_set_link(struct gve_model *model, bool up)
{
    model->link_down = !up;
    set_status(model, GVE_DEVICE_STATUS_LINK_UP, up);
    notify_management(model);
}

void gve_model_ask_reset(struct gve_model *model)
{
    set_status(model, GVE_DEVICE_STATUS_RESET, true);
    notify_management(model);
}
