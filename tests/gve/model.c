#include "tests/gve/model.h"

#include <string.h>

#include "base/bytes.h"
#include "tests/gve/offload.h"
#include "tests/gve/rings.h"

enum { COUNTERS = 2 * GVE_MODEL_QUEUES_MAX, LINK_SPEED_MBPS = 10000, ADMINQ_ENTRIES_MAX = 1024 };
/* Doorbells: of notification blocks, tx queues and rx queues. */
enum { DOORBELL_BLOCK = 1, DOORBELL_TX = 0x40, DOORBELL_RX = 0x80 };

void gve_model_violate(struct gve_model *model, const char *what)
{
    if (!model->violation)
        model->violation = what;
}

void *gve_model_memory(struct gve_model *model, uint64_t address, uint64_t bytes)
{
    void *at = model->config.translate(model->config.context, address, bytes);
    model->fault_count += at == NULL;
    return at;
}

bool gve_model_publish(struct gve_model *model, enum gve_model_written what, uint64_t address, void *data, size_t bytes,
                       size_t last)
{
    if (model->config.alter)
        model->config.alter(model->config.context, what, data, bytes);
    uint8_t *to = gve_model_memory(model, address, bytes);
    if (!to)
        return false;
    if (bytes == sizeof(uint32_t)) {
        __atomic_store_n((uint32_t *)(void *)to, load_le32(data), __ATOMIC_RELEASE);
        return true;
    }
    memcpy(to, data, last);
    memcpy(to + last + 2, (uint8_t *)data + last + 2, bytes - last - 2);
    __atomic_store_n((uint16_t *)(void *)(to + last), load_le16((uint8_t *)data + last), __ATOMIC_RELEASE);
    return true;
}

void gve_model_publish_counter(struct gve_model *model, const struct gve_model_queue *queue)
{
    uint32_t counter;
    store_be32(&counter, queue->done);
    gve_model_publish(model, GVE_MODEL_COUNTER, model->state.counter_array + 4 * (uint64_t)queue->counter, &counter,
                      sizeof counter, 0);
}

bool gve_model_copy(struct gve_model *model, const struct gve_model_queue *queue, uint64_t address, uint8_t *data,
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
                gve_model_violate(model, "an address past the end of the page list");
                return false;
            }
            part = min_u64(bytes, GVE_PAGE_BYTES - in_page);
            bus = list->page[page] + in_page;
        }
        uint8_t *at = gve_model_memory(model, bus, part);
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

void gve_model_notify(struct gve_model *model, uint32_t index)
{
    struct gve_model_block *block = &model->state.block[index];
    block->pending = block->masked;
    if (!block->masked) {
        block->masked = true;
        interrupt(model, model->state.notify_base + index);
    }
}

/* Masks or unmasks a notification block by its doorbell. */
static void block_doorbell(struct gve_model *model, uint32_t index, uint32_t value)
{
    struct gve_model_block *block = &model->state.block[index];
    bool dqo = model->state.format == GVE_FORMAT_DQO_RDA;
    block->masked = dqo ? !(value & GVE_DQO_IRQ_ENABLE) : (value & GVE_IRQ_MASK) != 0;
    if (!block->masked && block->pending)
        gve_model_notify(model, index);
}

static void notify_management(struct gve_model *model)
{
    if (model->state.configured)
        interrupt(model, model->state.notify_base == 0 ? model->state.block_count : 0);
}

/* ---- admin queue ---- */

/* Appends an option; `first` and `second` are the halves of its second word. */
static uint8_t *add_option(const struct gve_model *model, struct gve_device_descriptor *descriptor, uint8_t *at,
                           uint16_t id, uint16_t bytes, uint16_t first, uint16_t second)
{
    struct gve_option_contents contents;
    store_be32(&contents.supported_features, model->config.max_mtu ? GVE_FEATURE_JUMBO_FRAMES : 0);
    store_be16(&contents.max_mtu, first);
    store_be16(&contents.rx_buffer_entries, second);
    struct gve_device_option option = { 0 };
    store_be16(&option.id, id);
    store_be16(&option.bytes, bytes);
    memcpy(at, &option, sizeof option);
    memcpy(at + sizeof option, &contents, bytes);
    store_be16(&descriptor->option_count, (uint16_t)(load_be16(&descriptor->option_count) + 1));
    return at + sizeof option + bytes;
}

static uint32_t pages_max(const struct gve_model_config *config)
{
    return (uint32_t)config->queue_count * (config->tx_pages + config->entries);
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
    store_be64(&d->max_registered_pages, pages_max(config));
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
        end = add_option(model, d, end, GVE_OPTION_GQI_RDA, GVE_OPTION_GQI_BYTES, 0, 0);
    if (config->formats & BIT(GVE_FORMAT_GQI_QPL))
        end = add_option(model, d, end, GVE_OPTION_GQI_QPL, GVE_OPTION_GQI_BYTES, 0, 0);
    if (config->formats & BIT(GVE_FORMAT_DQO_RDA))
        end = add_option(model, d, end, GVE_OPTION_DQO_RDA, GVE_OPTION_DQO_RDA_BYTES, config->entries, config->entries);
    if (config->max_mtu)
        end = add_option(model, d, end, GVE_OPTION_JUMBO_FRAMES, GVE_OPTION_JUMBO_FRAMES_BYTES, config->max_mtu, 0);
    size_t total = (size_t)(end - (uint8_t *)&written);
    store_be16(&d->total_bytes, (uint16_t)total);
    if (load_be32(&command->descriptor_version) != GVE_DEVICE_DESCRIPTOR_VERSION
        || load_be32(&command->available_bytes) < total)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    return gve_model_publish(model, GVE_MODEL_DESCRIPTION, load_be64(&command->descriptor_address), &written, total, 0)
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
        || !gve_model_memory(model, state->counter_array, 4 * (uint64_t)state->counter_count))
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < state->block_count; i++) {
        uint32_t index;
        store_be32(&index, DOORBELL_BLOCK + i);
        if (!gve_model_publish(model, GVE_MODEL_IRQ_INDEX, load_be64(&command->irq_doorbells) + (uint64_t)i * stride,
                               &index, 4, 0))
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
    uint32_t registered = 0;
    for (size_t i = 0; i < ARRAY_COUNT(model->state.list); i++)
        registered += model->state.list[i].page_count;
    if (id >= ARRAY_COUNT(model->state.list) || count == 0 || count > GVE_MODEL_PAGES_MAX
        || count > pages_max(&model->config) - registered || (page_bytes != 0 && page_bytes != GVE_PAGE_BYTES)
        || model->state.list[id].page_count != 0)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    const uint8_t *from = gve_model_memory(model, load_be64(&command->address_list), 8 * (uint64_t)count);
    if (!from)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    struct gve_model_page_list *list = &model->state.list[id];
    for (uint32_t i = 0; i < count; i++) {
        list->page[i] = load_be64(from + 8 * (size_t)i);
        if (list->page[i] % GVE_PAGE_BYTES != 0 || !gve_model_memory(model, list->page[i], GVE_PAGE_BYTES))
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
    bool dqo = state->format == GVE_FORMAT_DQO_RDA;
    bool raw = dqo || state->format == GVE_FORMAT_GQI_RDA;
    bool listed = queue.page_list < ARRAY_COUNT(state->list) && state->list[queue.page_list].page_count > 0;
    bool rx = queue.buffer_bytes != 0;
    size_t entry_bytes = !rx ? sizeof(union gve_tx_descriptor) : dqo ? 32 : sizeof(struct gve_rx_descriptor);
    size_t data_bytes = dqo  ? (rx ? sizeof(struct gve_dqo_rx_buffer) : sizeof(struct gve_dqo_tx_completion))
                        : rx ? sizeof(uint64_t)
                             : 0;
    if (queue.entries == 0)
        queue.entries = model->config.entries;
    if (dqo && queue.page_list == 0) /* Linux 6.1 */
        queue.page_list = GVE_QPL_ID_RAW_ADDRESSING;
    if (!state->configured)
        return GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
    if (id >= model->config.queue_count || queues[id].created || queue.entries != model->config.entries
        || queue.notify >= state->block_count || queue.counter >= state->counter_count
        || (raw ? queue.page_list != GVE_QPL_ID_RAW_ADDRESSING : !listed) || queue.ring % GVE_PAGE_BYTES != 0
        || !gve_model_memory(model, queue.ring, queue.entries * entry_bytes)
        || (data_bytes && !gve_model_memory(model, queue.data_ring, queue.entries * data_bytes)))
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    struct gve_queue_resources written;
    memset(&written, 0, sizeof written);
    store_be32(&written.doorbell_index, doorbell + id);
    store_be32(&written.counter_index, queue.counter);
    if (!gve_model_publish(model, GVE_MODEL_RESOURCES, resources, &written, sizeof written, 0))
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    queue.created = true;
    queues[id] = queue;
    if (!rx && !dqo)
        gve_model_publish_counter(model, &queue);
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
        .data_ring = load_be64(&command->completion_ring_address),
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
    if (load_be32(&command->index) != id || queue.buffer_bytes < 64)
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
    const struct gve_driver_info *info = gve_model_memory(model, load_be64(&command->info_address), sizeof *info);
    if (!info || load_be64(&command->info_bytes) != sizeof *info)
        return GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    uint64_t capabilities = load_be64(&info->capabilities[0]);
    bool common = false;
    static const uint8_t formats[] = { GVE_FORMAT_GQI_QPL, GVE_FORMAT_GQI_RDA, GVE_FORMAT_DQO_RDA };
    static const uint8_t bits[] = { GVE_CAPABILITY_GQI_QPL, GVE_CAPABILITY_GQI_RDA, GVE_CAPABILITY_DQO_RDA };
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        common |= (capabilities & BIT(bits[i])) && (model->config.formats & BIT(formats[i]));
    return common ? GVE_ADMINQ_STATUS_PASSED : GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
}

/* Writes the headers of each packet type, whose number is L3 * 8 + L4. */
static uint32_t get_ptype_map(struct gve_model *model, const struct gve_get_ptype_map *command)
{
    struct gve_packet_type map[GVE_PACKET_TYPES] = { 0 };
    for (uint8_t i = 0; i < (GVE_L3_IPV6 + 1) * 8; i++)
        map[i] = (struct gve_packet_type){ .l3 = i / 8, .l4 = i % 8 };
    return load_be64(&command->bytes) == sizeof map
                   && gve_model_publish(model, GVE_MODEL_PTYPES, load_be64(&command->address), map, sizeof map, 0)
               ? GVE_ADMINQ_STATUS_PASSED
               : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
}

/* Accepts a table that would choose among several rx queues. */
static uint32_t configure_rss(struct gve_model *model, const struct gve_configure_rss *command)
{
    return gve_model_memory(model, load_be64(&command->key_address), load_be16(&command->key_bytes))
                   && gve_model_memory(model, load_be64(&command->table_address),
                                       4 * (uint64_t)load_be16(&command->table_entries))
               ? GVE_ADMINQ_STATUS_PASSED
               : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
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
        return unregister_page_list(model, load_be32(command->bytes));
    case GVE_ADMINQ_CREATE_TX_QUEUE:
        return create_tx(model, &command->create_tx_queue);
    case GVE_ADMINQ_CREATE_RX_QUEUE:
        return create_rx(model, &command->create_rx_queue);
    case GVE_ADMINQ_DESTROY_TX_QUEUE:
        return destroy_queue(model->state.tx, load_be32(command->bytes));
    case GVE_ADMINQ_DESTROY_RX_QUEUE:
        return destroy_queue(model->state.rx, load_be32(command->bytes));
    case GVE_ADMINQ_DECONFIGURE_DEVICE_RESOURCES:
        if (!model->state.configured || any_queue(model))
            return GVE_ADMINQ_STATUS_FAILED_PRECONDITION;
        model->state.configured = false;
        return GVE_ADMINQ_STATUS_PASSED;
    case GVE_ADMINQ_SET_DRIVER_PARAMETER: {
        const struct gve_set_driver_parameter *parameter = (const void *)command->bytes;
        uint64_t mtu = load_be64(&parameter->value);
        bool fits = mtu >= 68 && mtu <= (model->config.max_mtu ? model->config.max_mtu : model->config.mtu);
        return load_be32(&parameter->type) == GVE_PARAMETER_MTU && fits ? GVE_ADMINQ_STATUS_PASSED
                                                                        : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    }
    case GVE_ADMINQ_REPORT_STATS: { /* The report has the driver's figures; the device's would follow them. */
        const struct gve_report_stats *report = (const void *)command->bytes;
        return gve_model_memory(model, load_be64(&report->address), load_be64(&report->bytes))
                   ? GVE_ADMINQ_STATUS_PASSED
                   : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    }
    case GVE_ADMINQ_REPORT_LINK_SPEED: {
        uint64_t speed;
        store_be64(&speed, LINK_SPEED_MBPS);
        return gve_model_publish(model, GVE_MODEL_LINK_SPEED, load_be64(command->bytes), &speed, sizeof speed, 0)
                   ? GVE_ADMINQ_STATUS_PASSED
                   : GVE_ADMINQ_STATUS_INVALID_ARGUMENT;
    }
    case GVE_ADMINQ_CONFIGURE_RSS:
        return configure_rss(model, (const void *)command->bytes);
    case GVE_ADMINQ_GET_PTYPE_MAP:
        return get_ptype_map(model, &command->get_ptype_map);
    case GVE_ADMINQ_VERIFY_DRIVER_COMPATIBILITY:
        return verify_driver(model, (const void *)command->bytes);
    default:
        return GVE_ADMINQ_STATUS_UNIMPLEMENTED;
    }
}

static void adminq_doorbell(struct gve_model *model, uint32_t end)
{
    struct gve_registers *registers = &model->state.registers;
    uint32_t done = load_be32(&registers->adminq_event_counter);
    if (end - done > model->state.adminq_entries) {
        gve_model_violate(model, "the admin queue's doorbell is not in the queue");
        return;
    }
    for (; done != end; done++) {
        uint64_t address = model->state.adminq
                           + done % model->state.adminq_entries * (uint64_t)sizeof(struct gve_command);
        const struct gve_command *at = gve_model_memory(model, address, sizeof *at);
        if (!at)
            return;
        struct gve_command command = *at;
        uint32_t status = execute(model, &command);
        if (status != GVE_ADMINQ_STATUS_PASSED && status != GVE_ADMINQ_STATUS_UNIMPLEMENTED)
            gve_model_violate(model, "a command with a wrong argument, or out of turn");
        if (model->config.command)
            model->config.command(model->config.context, &command, status);
        uint32_t written;
        store_be32(&written, status);
        gve_model_publish(model, GVE_MODEL_STATUS, address + offsetof(struct gve_command, status), &written,
                          sizeof written, 0);
        store_be32(&registers->adminq_event_counter, done + 1);
    }
}

/* ---- frames ---- */

void gve_model_send(void *context, const uint8_t *frame, uint32_t bytes)
{
    struct gve_model *model = context;
    model->sent_count++;
    model->config.send(model->config.context, frame, bytes);
}

const char *gve_model_send_packet(struct gve_model *model, uint32_t bytes, uint32_t l4, uint32_t field)
{
    if (bytes < ETHERNET_BYTES)
        return "a packet is too short";
    if (bytes > ETHERNET_BYTES + 4u + (model->config.max_mtu ? model->config.max_mtu : model->config.mtu))
        return "a packet is longer than the MTU";
    if (l4 != 0 && !offload_complete(model->packet, bytes, l4, field))
        return "a checksum with wrong offsets";
    gve_model_send(model, model->packet, bytes);
    return NULL;
}

bool gve_model_receive(struct gve_model *model, const uint8_t *frame, uint32_t bytes)
{
    struct gve_model_queue *queue = &model->state.rx[0];
    if (model->link_down || !queue->created || bytes < ETHERNET_BYTES)
        return false;
    bool dqo = model->state.format == GVE_FORMAT_DQO_RDA;
    uint32_t pad = dqo ? 0 : GVE_RX_PAD_BYTES;
    uint32_t needed = (bytes + pad + queue->buffer_bytes - 1) / queue->buffer_bytes;
    if (queue->published - queue->done < needed) {
        model->no_buffer_count++;
        return false;
    }
    if (!(dqo ? gve_dqo_receive : gve_gqi_receive)(model, queue, frame, bytes))
        return false;
    model->received_count++;
    gve_model_notify(model, queue->notify);
    return true;
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

/* Does what a doorbell asks for. The formats have theirs in opposite orders of bytes. */
static void doorbell(struct gve_model *model, uint32_t index, const void *data)
{
    struct gve_model_state *state = &model->state;
    bool dqo = state->format == GVE_FORMAT_DQO_RDA;
    uint32_t value = dqo ? load_le32(data) : load_be32(data);
    uint32_t tx = index - DOORBELL_TX;
    uint32_t rx = index - DOORBELL_RX;
    model->doorbell_count++;
    if (index - DOORBELL_BLOCK < state->block_count)
        block_doorbell(model, index - DOORBELL_BLOCK, value);
    else if (tx < GVE_MODEL_QUEUES_MAX && state->tx[tx].created)
        (dqo ? gve_dqo_tx : gve_gqi_tx)(model, &state->tx[tx], value);
    else if (rx < GVE_MODEL_QUEUES_MAX && state->rx[rx].created)
        (dqo ? gve_dqo_rx_posted : gve_gqi_rx_posted)(model, &state->rx[rx], value);
    else
        gve_model_violate(model, "a doorbell that belongs to nothing");
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
        gve_model_violate(model, "a write to a register that cannot be written");
    }
}

void gve_model_write(struct gve_model *model, uint32_t bar, uint32_t offset, const void *data, uint32_t bytes)
{
    if (bar == GVE_BAR_DOORBELLS && bytes == 4 && offset % 4 == 0)
        doorbell(model, offset / 4, data);
    else if (bar == GVE_BAR_REGISTERS && bytes == 4)
        register_write(model, offset, load_be32(data));
    else if (bar == GVE_BAR_REGISTERS && bytes == 2 && offset == offsetof(struct gve_registers, adminq_bytes))
        memcpy(&model->state.registers.adminq_bytes, data, 2);
    else if (!(bar == GVE_BAR_REGISTERS && bytes == 1 && offset == offsetof(struct gve_registers, driver_version)))
        gve_model_violate(model, "a write of a wrong width");
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
