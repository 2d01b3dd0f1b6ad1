#include "tests/gve/bus.h"

#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "tests/lib/device_memory.h"

static struct gve_model_bus *bus_of(struct gve_bus *bus) { return (struct gve_model_bus *)bus; }

static uint32_t read(struct gve_bus *bus, uint32_t offset)
{
    uint32_t value;
    gve_model_read(&bus_of(bus)->model, GVE_BAR_REGISTERS, offset, &value, sizeof value);
    return __builtin_bswap32(value);
}

static void write(struct gve_bus *bus, uint32_t offset, uint32_t value, uint8_t bytes)
{
    uint8_t wire[4];
    store_be32(wire, value);
    gve_model_write(&bus_of(bus)->model, GVE_BAR_REGISTERS, offset, wire + 4 - bytes, bytes);
}

static void doorbell(struct gve_bus *bus, uint32_t index, uint32_t value)
{
    uint8_t wire[4];
    store_be32(wire, value);
    gve_model_write(&bus_of(bus)->model, GVE_BAR_DOORBELLS, 4 * index, wire, sizeof wire);
}

static const struct gve_bus_ops ops = { .read = read, .write = write, .doorbell = doorbell };

static void no_wait(uint32_t us) { (void)us; }

/* Returns two pages for a device of revision 0, which takes its queue's page as a number of 32 bits. */
static uint8_t *low_pages(void)
{
    static uint8_t *pages;
    if (pages == NULL)
        pages = mmap(NULL, 2 * GVE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    ASSERT(pages != MAP_FAILED);
    return pages;
}

static void *translate(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    void *at = (void *)(uintptr_t)address;
    const uint64_t offset = address - (uintptr_t)low_pages();
    bool low = offset < 2 * GVE_PAGE_BYTES && bytes <= 2 * GVE_PAGE_BYTES - offset;
    return low || model_memory_contains(at, bytes) ? at : NULL;
}

static void send(void *context, const uint8_t *frame, uint32_t bytes)
{
    struct gve_model_bus *bus = context;
    const uint64_t at = (bus->model.sent_count - 1) % GVE_BUS_SENT_MAX;
    ASSERT(bytes <= GVE_BUS_FRAME_BYTES);
    memcpy(bus->sent[at].bytes, frame, bytes);
    bus->sent[at].length = bytes;
}

static void interrupt(void *context, uint32_t vector)
{
    ((struct gve_model_bus *)context)->interrupts += vector == GVE_NOTIFY_RX;
}

static void alter(void *context, enum gve_model_written what, void *structure, size_t bytes)
{
    struct gve_model_bus *bus = context;
    (void)bytes;
    if (what == GVE_MODEL_COUNTER && bus->holds)
        memcpy(structure, bus->model.config.translate(context, bus->model.state.counter_array, 4), 4);
    if (bus->alter != NULL)
        bus->alter(what, structure);
}

void gve_model_bus_init(struct gve_model_bus *bus, uint32_t formats, uint8_t revision, uint16_t entries)
{
    memset(bus, 0, sizeof *bus);
    const struct gve_model_config config = {
        .context = bus,
        .translate = translate,
        .send = send,
        .interrupt = interrupt,
        .alter = alter,
        .formats = formats,
        .revision = revision,
        .entries = entries,
        .tx_pages = 512,
        .mac = { 0x42, 1, 10, 0, 0, 2 },
    };
    gve_model_init(&bus->model, config);
    bus->bus.ops = &ops;
    bus->bus.wait_us = no_wait;
    bus->bus.doorbell_count = GVE_MODEL_BAR_BYTES / 4;
    bus->bus.pci_revision = revision;
    bus->bus.commands = (struct gve_command *)(void *)low_pages();
    bus->bus.answer = low_pages() + GVE_PAGE_BYTES;
    memcpy(bus->bus.place, "model", sizeof "model");
}

void gve_model_bus_report(struct gve_model_bus *bus)
{
    store_be32(bus->model.config.translate(bus, bus->model.state.counter_array, 4), bus->model.state.tx[0].done);
}
