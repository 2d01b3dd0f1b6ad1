/* From a gVNIC in any state to one that sends and receives, and back: the register page and the admin queue. Every wait
 * is bounded; the device's answers are checked before they are used. */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "drivers/gve/gve.h"

enum {
    MTU_BYTES_MAX = NETDEV_FRAME_BYTES_MAX - GVE_ETHERNET_BYTES,
    MTU_BYTES_MIN = 68, /* RFC 791 */
    /* A reset or a command takes 2 s at most, which is Linux's limit for a command. */
    WAIT_US = 100,
    WAIT_COUNT_MAX = 20000,
    COMMAND_COUNT = GVE_PAGE_BYTES / sizeof(struct gve_command),
    IRQ_STRIDE_BYTES = 64,
    DQO_RX_DOORBELL_STEP = 16, /* Linux's driver says that 8 is the least */
    /* Entries that stay free between the newest and the oldest, as in Linux: no cache line has both. */
    DQO_TX_GAP = 4,
    QPL_TX = 0, /* ids of the page lists */
    QPL_RX = 1,
};

/* gve.c refills when a quarter is left, of which the device may not know the last entries. */
static_assert(GVE_DQO_RING_ENTRIES_MIN / 2 / 4 > DQO_RX_DOORBELL_STEP, "the device never runs dry");

#define REGISTER(name) offsetof(struct gve_registers, name)

/* Returns an error's text with the value that the device gave. It stays until the next call. */
static const char *wrong(const char *what, uint64_t value)
{
    static char text[GVE_FAULT_BYTES];
    format(text, sizeof text, "%s: %llu", what, (unsigned long long)value);
    return text;
}

/* ---- registers ---- */

static uint32_t read_register(struct gve_bus *bus, uint32_t offset) { return bus->ops->read(bus, offset); }

/* Waits for bits of a register. Returns false after the longest time that a device may take. */
static bool wait_for(struct gve_bus *bus, uint32_t offset, uint32_t mask, uint32_t value)
{
    for (uint32_t i = 0; i < WAIT_COUNT_MAX; i++) {
        if ((read_register(bus, offset) & mask) == value)
            return true;
        bus->wait_us(WAIT_US);
    }
    return false;
}

/* Resets the device, which firmware or a Linux before this kernel may have left running. Returns NULL, or why that
 * fails. */
static const char *reset(struct gve_bus *bus)
{
    static const char *const failed[] = { "the gVNIC does not come out of its reset, adminq_pfn",
                                          "the gVNIC does not come out of its reset, its status" };
    const bool by_status = bus->pci_revision != 0;
    const uint32_t at = by_status ? REGISTER(device_status) : REGISTER(adminq_pfn);
    bus->command_count = 0;
    if (by_status)
        bus->ops->write(bus, REGISTER(driver_status), GVE_DRIVER_STATUS_RESET, 4);
    else
        bus->ops->write(bus, at, 0, 4);
    if (wait_for(bus, at, by_status ? GVE_DEVICE_STATUS_IS_RESET : UINT32_MAX,
                 by_status ? GVE_DEVICE_STATUS_IS_RESET : 0))
        return NULL;
    return wrong(failed[by_status], read_register(bus, at));
}

/* Resets the device and gives it the admin queue. */
static const char *begin(struct gve_bus *bus)
{
    if (bus->commands == NULL) {
        bus->commands = memory_take(GVE_PAGE_BYTES, GVE_PAGE_BYTES, "gve admin queue");
        bus->answer = memory_take(GVE_PAGE_BYTES, GVE_PAGE_BYTES, "gve answers");
    }
    const char *error = reset(bus);
    if (error != NULL)
        return error;
    for (const char *text = "GVE-PEREGRINE-1.0.0\n"; *text != '\0'; text++)
        bus->ops->write(bus, REGISTER(driver_version), (uint8_t)*text, 1);
    const uint64_t at = (uintptr_t)bus->commands;
    if (bus->pci_revision == 0) {
        if (at / GVE_PAGE_BYTES > UINT32_MAX)
            return "the admin queue lies beyond what the gVNIC can address";
        bus->ops->write(bus, REGISTER(adminq_pfn), (uint32_t)(at / GVE_PAGE_BYTES), 4);
        return NULL;
    }
    bus->ops->write(bus, REGISTER(adminq_bytes), GVE_PAGE_BYTES, 2);
    bus->ops->write(bus, REGISTER(adminq_base_hi), (uint32_t)(at >> 32), 4);
    bus->ops->write(bus, REGISTER(adminq_base_lo), (uint32_t)at, 4);
    bus->ops->write(bus, REGISTER(driver_status), GVE_DRIVER_STATUS_RUN, 4);
    return NULL;
}

/* ---- commands ---- */

/* Returns an empty command. */
static struct gve_command *command_new(struct gve_bus *bus, uint32_t opcode)
{
    struct gve_command *command = &bus->commands[bus->command_count % COMMAND_COUNT];
    memset(command, 0, sizeof *command);
    store_be32(&command->opcode, opcode);
    return command;
}

/* Has the device do the command that command_new has returned last. Returns NULL, or why that fails. */
static const char *command_do(struct gve_bus *bus)
{
    const struct gve_command *command = &bus->commands[bus->command_count++ % COMMAND_COUNT];
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    bus->ops->write(bus, REGISTER(adminq_doorbell), bus->command_count, 4);
    if (!wait_for(bus, REGISTER(adminq_event_counter), UINT32_MAX, bus->command_count))
        return wrong("the gVNIC does not answer its admin queue, its count of commands",
                     read_register(bus, REGISTER(adminq_event_counter)));
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    const uint32_t status = load_be32(&command->status);
    if (status == GVE_ADMINQ_STATUS_PASSED)
        return NULL;
    log_line("gve: %s: command 0x%x has status 0x%x", bus->place, load_be32(&command->opcode), status);
    return wrong("the gVNIC refuses a command, with status", status);
}

/* ---- the device's description ---- */

struct description {
    uint64_t page_count_max;
    uint32_t tx_entries, rx_entries, counter_count, mtu_bytes;
    uint8_t mac[NETDEV_MAC_BYTES];
    bool raw, dqo;
};

/* Collects the device's options in a set of GVE_OPTION_*. Returns false if they reach past the end. One that requires
 * features which this driver does not know, or is shorter than it must be, is none. */
static bool options_read(const uint8_t *at, const uint8_t *end, uint32_t count, uint64_t *options)
{
    static const uint16_t least_bytes[] = {
        [GVE_OPTION_GQI_RDA] = 4, [GVE_OPTION_GQI_QPL] = 4, [GVE_OPTION_DQO_RDA] = 8, [GVE_OPTION_DQO_QPL] = 0
    };
    for (*options = 0; count > 0; count--) {
        struct gve_device_option option;
        if ((size_t)(end - at) < sizeof option)
            return false;
        memcpy(&option, at, sizeof option);
        at += sizeof option;
        const uint16_t id = load_be16(&option.id), bytes = load_be16(&option.bytes);
        if (bytes > end - at)
            return false;
        at += bytes;
        if (load_be32(&option.required_features) == 0 && id < ARRAY_COUNT(least_bytes) && bytes >= least_bytes[id])
            *options |= BIT(id);
    }
    return true;
}

static bool entries_are_usable(uint32_t count, uint32_t least)
{
    return count >= least && count <= GVE_RING_ENTRIES_MAX && (count & (count - 1)) == 0;
}

/* Has the device describe itself. */
static const char *describe(struct gve_bus *bus, struct description *description)
{
    struct gve_device_descriptor fixed;
    uint64_t options;
    struct gve_describe_device *args = &command_new(bus, GVE_ADMINQ_DESCRIBE_DEVICE)->describe_device;
    store_be64(&args->descriptor_address, (uintptr_t)bus->answer);
    store_be32(&args->descriptor_version, GVE_DEVICE_DESCRIPTOR_VERSION);
    store_be32(&args->available_bytes, GVE_PAGE_BYTES);
    memset(bus->answer, 0, GVE_PAGE_BYTES);
    const char *error = command_do(bus);
    if (error != NULL)
        return error;
    memcpy(&fixed, bus->answer, sizeof fixed);
    const uint32_t bytes = load_be16(&fixed.total_bytes);
    *description = (struct description){
        .page_count_max = load_be64(&fixed.max_registered_pages),
        .tx_entries = load_be16(&fixed.tx_queue_entries),
        .rx_entries = load_be16(&fixed.rx_queue_entries),
        .counter_count = load_be16(&fixed.counters),
        .mtu_bytes = load_be16(&fixed.mtu),
    };
    memcpy(description->mac, fixed.mac, sizeof fixed.mac);
    if (bytes < sizeof fixed || bytes > GVE_PAGE_BYTES
        || !options_read(bus->answer + sizeof fixed, bus->answer + bytes, load_be16(&fixed.option_count), &options))
        return wrong("the gVNIC's description of itself is cut off, its bytes", bytes);
    const bool gqi_raw = (options & (BIT(GVE_OPTION_GQI_RAW_ADDRESSING) | BIT(GVE_OPTION_GQI_RDA))) != 0;
    const bool gqi = gqi_raw || (options & BIT(GVE_OPTION_GQI_QPL));
    description->dqo = !gqi && (options & BIT(GVE_OPTION_DQO_RDA));
    description->raw = gqi_raw || description->dqo;
    if (!gqi && !description->dqo && (options & BIT(GVE_OPTION_DQO_QPL)))
        return "the gVNIC offers queues of the format DQO with page lists alone, which this driver does not know";
    static const uint8_t no_mac[NETDEV_MAC_BYTES];
    const uint32_t entries_min = description->dqo ? GVE_DQO_RING_ENTRIES_MIN : GVE_RING_ENTRIES_MIN;
    if (!entries_are_usable(description->tx_entries, entries_min))
        return wrong("the gVNIC's transmit queue has an impossible size", description->tx_entries);
    if (!entries_are_usable(description->rx_entries, entries_min))
        return wrong("the gVNIC's receive queue has an impossible size", description->rx_entries);
    if (description->counter_count == 0)
        return "the gVNIC has no counters";
    if (description->mtu_bytes < MTU_BYTES_MIN)
        return wrong("the gVNIC has an impossible MTU", description->mtu_bytes);
    if ((description->mac[0] & 1) || memcmp(description->mac, no_mac, sizeof no_mac) == 0)
        return wrong("the gVNIC has an impossible hardware address, which begins with", description->mac[0]);
    return NULL;
}

bool gve_peek_mac(struct gve_bus *bus, uint8_t mac[NETDEV_MAC_BYTES])
{
    struct description description;
    const bool known = begin(bus) == NULL && describe(bus, &description) == NULL;
    if (known)
        memcpy(mac, description.mac, NETDEV_MAC_BYTES);
    return reset(bus) == NULL && known;
}

/* ---- the way up ---- */

/* Memory that the device writes, and the driver reads while it goes up. */
struct shared {
    struct gve_queue_resources tx, rx;
    uint8_t irq_doorbells[GVE_NOTIFY_COUNT * IRQ_STRIDE_BYTES];
};
static_assert(sizeof(struct shared) <= GVE_PAGE_BYTES, "bus->answer");

static const char *resources_configure(struct gve *net, const struct description *description)
{
    struct gve_bus *bus = net->bus;
    const size_t counter_bytes = description->counter_count * sizeof(uint32_t);
    net->counters = memset(memory_take(counter_bytes, 64, "gve counters"), 0, counter_bytes);
    memset(bus->answer, 0xff, GVE_PAGE_BYTES); /* out of range: for fields that the device leaves out */
    const struct shared *shared = (const void *)bus->answer;
    struct gve_configure_device_resources *args =
        &command_new(bus, GVE_ADMINQ_CONFIGURE_DEVICE_RESOURCES)->configure_device_resources;
    store_be64(&args->counter_array, (uintptr_t)net->counters);
    store_be64(&args->irq_doorbells, (uintptr_t)shared->irq_doorbells);
    store_be32(&args->counter_count, description->counter_count);
    store_be32(&args->irq_doorbell_count, GVE_NOTIFY_COUNT);
    store_be32(&args->irq_doorbell_stride_bytes, IRQ_STRIDE_BYTES);
    args->queue_format = net->is_dqo ? GVE_FORMAT_DQO_RDA : net->raw ? GVE_FORMAT_GQI_RDA : GVE_FORMAT_GQI_QPL;
    return command_do(bus);
}

static const char *page_list_register(struct gve_bus *bus, uint32_t id, const uint8_t *memory, uint32_t page_count)
{
    uint64_t *pages = memory_take(page_count * sizeof *pages, GVE_PAGE_BYTES, "gve page list");
    for (uint32_t i = 0; i < page_count; i++)
        store_be64(&pages[i], (uintptr_t)memory + (uint64_t)i * GVE_PAGE_BYTES);
    struct gve_register_page_list *args = &command_new(bus, GVE_ADMINQ_REGISTER_PAGE_LIST)->register_page_list;
    store_be32(&args->id, id);
    store_be32(&args->page_count, page_count);
    store_be64(&args->address_list, (uintptr_t)pages);
    store_be64(&args->page_bytes, GVE_PAGE_BYTES);
    return command_do(bus);
}

/* Takes the buffers; without raw addressing the device learns their pages. Linux registers a page an entry for
 * receiving, and so does this driver: two buffers fit into each. */
static const char *buffers_take(struct gve *net, const struct description *description)
{
    /* A ring of DQO that is full to the last entry looks empty. */
    net->rx_posted_max = (uint16_t)min_size(net->is_dqo ? description->rx_entries / 2 : description->rx_entries,
                                            GVE_RX_POSTED_MAX);
    const size_t all_bytes = (size_t)(net->rx_posted_max + NETDEV_RX_BORROWED_MAX) * GVE_RX_BUFFER_BYTES;
    const size_t rx_bytes = net->raw ? all_bytes
                                     : max_size(description->rx_entries * (size_t)GVE_PAGE_BYTES, all_bytes);
    if (!net->raw && description->page_count_max < (rx_bytes + TX_POOL_BYTES) / GVE_PAGE_BYTES)
        return wrong("the gVNIC takes too few pages for the buffers", description->page_count_max);
    net->rx_memory = memory_take(rx_bytes, GVE_PAGE_BYTES, "receive buffers");
    const uint8_t *tx_memory = tx_pool_init(&net->tx_pool, GVE_TX_FRAME_OFFSET);
    if (net->raw)
        return NULL;
    net->rx_base = (uintptr_t)net->rx_memory;
    net->tx_base = (uintptr_t)tx_memory;
    const char *error = page_list_register(net->bus, QPL_TX, tx_memory, TX_POOL_BYTES / GVE_PAGE_BYTES);
    return error != NULL ? error
                         : page_list_register(net->bus, QPL_RX, net->rx_memory, (uint32_t)(rx_bytes / GVE_PAGE_BYTES));
}

static void *ring_take(size_t bytes)
{
    void *ring = memory_take(bytes, GVE_PAGE_BYTES, "gve rings");
    return memset(ring, 0, bytes);
}

static const char *tx_create(struct gve *net, uint32_t entries)
{
    struct gve_bus *bus = net->bus;
    const struct shared *shared = (const void *)bus->answer;
    net->tx.mask = entries - 1;
    net->tx.room = net->is_dqo ? entries - 1 - DQO_TX_GAP : entries;
    net->tx.ring = ring_take(entries * sizeof *net->tx.ring);
    static_assert(sizeof *net->tx.dqo_ring == sizeof *net->tx.ring, "descriptors of both formats have 16 bytes");
    if (net->is_dqo)
        net->tx.completions = ring_take(entries * sizeof *net->tx.completions);
    net->tx.buffer = ring_take(entries * sizeof *net->tx.buffer);
    struct gve_create_tx_queue *args = &command_new(bus, GVE_ADMINQ_CREATE_TX_QUEUE)->create_tx_queue;
    store_be64(&args->resources_address, (uintptr_t)&shared->tx);
    store_be64(&args->ring_address, (uintptr_t)net->tx.ring);
    store_be64(&args->completion_ring_address, (uintptr_t)net->tx.completions);
    store_be16(&args->completion_ring_size, net->is_dqo ? (uint16_t)entries : 0);
    store_be32(&args->page_list_id, net->raw ? GVE_QPL_ID_RAW_ADDRESSING : QPL_TX);
    store_be32(&args->notify_id, GVE_NOTIFY_TX);
    store_be16(&args->ring_size, (uint16_t)entries);
    return command_do(bus);
}

static const char *rx_create(struct gve *net, uint32_t entries)
{
    struct gve_bus *bus = net->bus;
    const struct shared *shared = (const void *)bus->answer;
    net->rx.mask = entries - 1;
    net->rx.seq = net->is_dqo ? GVE_DQO_RX_GENERATION >> 8 : 1;
    net->rx.step = net->is_dqo ? DQO_RX_DOORBELL_STEP : 1;
    net->rx.ring = ring_take(entries * sizeof *net->rx.ring);
    net->rx.data = ring_take(entries * (net->is_dqo ? sizeof *net->rx.posts : sizeof *net->rx.data));
    static_assert(sizeof *net->rx.completions <= sizeof *net->rx.ring, "the ring has room for either format");
    net->rx.buffer = ring_take(entries * sizeof *net->rx.buffer);
    struct gve_create_rx_queue *args = &command_new(bus, GVE_ADMINQ_CREATE_RX_QUEUE)->create_rx_queue;
    store_be32(&args->notify_id, GVE_NOTIFY_RX);
    store_be64(&args->resources_address, (uintptr_t)&shared->rx);
    store_be64(&args->descriptor_ring_address, (uintptr_t)net->rx.ring);
    store_be64(&args->data_ring_address, (uintptr_t)net->rx.data);
    store_be32(&args->page_list_id, net->raw ? GVE_QPL_ID_RAW_ADDRESSING : QPL_RX);
    store_be16(&args->ring_size, (uint16_t)entries);
    store_be16(&args->packet_buffer_bytes, GVE_RX_BUFFER_BYTES);
    store_be16(&args->buffer_ring_size, net->is_dqo ? (uint16_t)entries : 0);
    return command_do(bus);
}

/* Asks which packet types have an L4 checksum that the device looks at. */
static const char *packet_types_read(struct gve *net)
{
    const struct gve_packet_type *types = (const void *)net->bus->answer;
    struct gve_get_ptype_map *args = &command_new(net->bus, GVE_ADMINQ_GET_PTYPE_MAP)->get_ptype_map;
    store_be64(&args->bytes, GVE_PACKET_TYPES * sizeof *types);
    store_be64(&args->address, (uintptr_t)types);
    static_assert(GVE_PACKET_TYPES * sizeof *types <= GVE_PAGE_BYTES, "bus->answer");
    const char *error = command_do(net->bus);
    for (uint32_t i = 0; error == NULL && i < GVE_PACKET_TYPES; i++)
        if ((types[i].l3 == GVE_L3_IPV4 || types[i].l3 == GVE_L3_IPV6)
            && (types[i].l4 == GVE_L4_TCP || types[i].l4 == GVE_L4_UDP))
            net->summed[i / 8] |= (uint8_t)(1u << i % 8);
    return error;
}

/* Takes the places that the device gave the queues: doorbells, and the counter of sent descriptors. */
static const char *places_take(struct gve *net, uint32_t counter_count)
{
    const struct shared *shared = (const void *)net->bus->answer;
    const uint32_t counter = load_be32(&shared->tx.counter_index);
    uint32_t *const places[] = { &net->tx.doorbell, &net->rx.doorbell, &net->irq_doorbell[0], &net->irq_doorbell[1] };
    const void *const given[] = { &shared->tx.doorbell_index, &shared->rx.doorbell_index, shared->irq_doorbells,
                                  shared->irq_doorbells + IRQ_STRIDE_BYTES };
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        *places[i] = load_be32(given[i]);
        bool good = *places[i] < net->bus->doorbell_count;
        for (size_t k = 0; k < i; k++)
            good = good && *places[k] != *places[i];
        if (!good)
            return wrong("the gVNIC puts a doorbell where there is none, or another one", *places[i]);
    }
    if (net->is_dqo) /* completions are its counter */
        return NULL;
    if (counter >= counter_count)
        return wrong("the gVNIC puts a counter where there is none", counter);
    net->tx.counter = net->counters + counter;
    return NULL;
}
static_assert(GVE_NOTIFY_COUNT == 2, "places_take");

static const char *bring_up(struct gve *net)
{
    struct gve_bus *bus = net->bus;
    struct description description;
    const char *error;

    if ((error = begin(bus)) != NULL || (error = describe(bus, &description)) != NULL)
        return error;
    memcpy(net->device.mac, description.mac, sizeof net->device.mac);
    net->device.mtu_bytes = (uint16_t)min_size(description.mtu_bytes, MTU_BYTES_MAX);
    net->device.tx_checksum = true;
    net->raw = description.raw;
    net->is_dqo = description.dqo;
    net->device.ops = net->is_dqo ? &gve_dqo_ops : &gve_gqi_ops;
    if ((error = resources_configure(net, &description)) != NULL || (error = buffers_take(net, &description)) != NULL
        || (error = tx_create(net, description.tx_entries)) != NULL
        || (error = rx_create(net, description.rx_entries)) != NULL
        || (error = places_take(net, description.counter_count)) != NULL
        || (net->is_dqo && (error = packet_types_read(net)) != NULL))
        return error;
    gve_buffers_init(net);
    gve_twin_init(net);
    for (size_t i = 0; i < GVE_NOTIFY_COUNT && !net->is_dqo; i++) /* DQO's are off until they are asked for */
        bus->ops->doorbell(bus, net->irq_doorbell[i], GVE_IRQ_MASK);
    gve_rx_refill(net);
    gve_state_set(net, read_register(bus, REGISTER(device_status)));
    return net->broken;
}

const char *gve_init(struct gve *net, struct gve_bus *bus)
{
    ASSERT(bus->ops != NULL && bus->wait_us != NULL);
    memset(net, 0, sizeof *net);
    net->bus = bus;
    /* Memory is reached directly, or not at all: no command asks for translated addresses. */
    if (bus->behind != NULL)
        return "this machine has an IOMMU or encrypted memory, which this driver does not know";
    const char *error = bring_up(net);
    if (error == NULL)
        return NULL;
    static char kept[GVE_FAULT_BYTES]; /* later resets and peeks have errors, too */
    format(kept, sizeof kept, "%s", error);
    reset(bus);
    return kept;
}

void gve_stop(struct gve *net)
{
    const char *error = reset(net->bus);
    if (error != NULL)
        log_line("gve: %s: %s", net->bus->place, error);
}

size_t gve_describe(const struct gve *net, char *out, size_t out_bytes)
{
    const uint8_t *mac = net->device.mac;
    return format(out, out_bytes,
                  "%s, revision %u, format %s, queues rx %u tx %u, mac %02x:%02x:%02x:%02x:%02x:%02x, mtu %u, "
                  "link %s",
                  net->bus->place, net->bus->pci_revision,
                  net->is_dqo ? "DQO with raw addressing"
                  : net->raw  ? "GQI with raw addressing"
                              : "GQI with page lists",
                  net->rx.mask + 1, net->tx.mask + 1, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5],
                  net->device.mtu_bytes, net->device.link_up ? "up" : "down");
}
