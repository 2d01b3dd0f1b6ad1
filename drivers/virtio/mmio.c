/* The registers of a virtio-mmio device, and the words of the command line that name one. Knows no network. */
#include "drivers/virtio/mmio.h"

#include <string.h>

#include "base/assert.h"
#include "base/format.h"
#include "base/hot_section.h"
#include "kernel/memory/memory.h"

/* ---- the words of the settings ---- */

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses a number in C's notation and moves *text past the number. Returns false if there is none, or it has more than
 * 64 bits. */
static bool number_parse(const char **text, uint64_t *value)
{
    const char *at = *text;
    int base = 10;
    if (at[0] == '0' && (at[1] | 0x20) == 'x' && digit_value(at[2]) >= 0) {
        base = 16;
        at += 2;
    } else if (at[0] == '0') {
        base = 8;
    }
    ASSERT(base == 8 || base == 10 || base == 16);
    const char *first = at;
    for (*value = 0; digit_value(*at) >= 0 && digit_value(*at) < base; at++)
        if (__builtin_mul_overflow(*value, (uint64_t)base, value)
            || __builtin_add_overflow(*value, (uint64_t)digit_value(*at), value))
            return false;
    *text = at;
    return at != first;
}

static bool scaled_parse(const char **text, uint64_t *value)
{
    if (!number_parse(text, value))
        return false;
    int shift = 0;
    switch (**text | 0x20) {
    case 'k':
        shift = 10;
        break;
    case 'm':
        shift = 20;
        break;
    case 'g':
        shift = 30;
        break;
    default:
        return true;
    }
    (*text)++;
    return !__builtin_mul_overflow(*value, UINT64_C(1) << shift, value);
}

bool virtio_mmio_parse(const char *text, struct virtio_mmio_word *word)
{
    uint64_t irq, id;
    if (!scaled_parse(&text, &word->bytes) || *text++ != '@')
        return false;
    if (!scaled_parse(&text, &word->address) || *text++ != ':')
        return false;
    if (!number_parse(&text, &irq) || irq > UINT32_MAX)
        return false;
    word->irq = (uint32_t)irq;
    if (*text == ':') {
        text++;
        if (!number_parse(&text, &id))
            return false;
    }
    return *text == '\0' && word->bytes != 0 && word->address != 0 && word->address % 4 == 0
           && word->address + word->bytes > word->address;
}

/* ---- the registers ---- */

static struct registers block_of(struct virtio_bus *bus) { return ((struct virtio_mmio *)bus)->block; }

static uint8_t status_read(struct virtio_bus *bus)
{
    return (uint8_t)registers_read32(block_of(bus), VIRTIO_MMIO_STATUS);
}

static void status_write(struct virtio_bus *bus, uint8_t status)
{
    registers_write32(block_of(bus), VIRTIO_MMIO_STATUS, status);
    /* virtio 1.2 §4.2.4: a legacy device gets the unit of QueuePFN before its queues; a reset may forget it. */
    if (bus->legacy)
        registers_write32(block_of(bus), VIRTIO_MMIO_GUEST_PAGE_SIZE, VIRTQ_LEGACY_ALIGN_BYTES);
}

static uint64_t features_read(struct virtio_bus *bus)
{
    struct registers block = block_of(bus);
    registers_write32(block, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
    uint64_t high = registers_read32(block, VIRTIO_MMIO_DEVICE_FEATURES);
    registers_write32(block, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 0);
    return high << 32 | registers_read32(block, VIRTIO_MMIO_DEVICE_FEATURES);
}

static void features_write(struct virtio_bus *bus, uint64_t features)
{
    struct registers block = block_of(bus);
    registers_write32(block, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
    registers_write32(block, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(features >> 32));
    registers_write32(block, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
    registers_write32(block, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)features);
}

static uint16_t queue_size_max(struct virtio_bus *bus, uint16_t queue)
{
    struct registers block = block_of(bus);
    registers_write32(block, VIRTIO_MMIO_QUEUE_SEL, queue);
    uint32_t size = registers_read32(block, VIRTIO_MMIO_QUEUE_NUM_MAX);
    return size > VIRTQ_SIZE_MAX ? VIRTQ_SIZE_MAX : (uint16_t)size;
}

static void address_write(struct registers block, uint32_t offset, uint64_t address)
{
    registers_write32(block, offset, (uint32_t)address);
    registers_write32(block, offset + 4, (uint32_t)(address >> 32));
}

/* virtio 1.2 §4.2.3.2, and §4.2.4 for version 1: Writes the size and the addresses of the rings. */
static bool queue_enable(struct virtio_bus *bus, uint16_t queue, const struct virtqueue *rings)
{
    ASSERT(queue < VIRTIO_NET_QUEUE_COUNT);
    ASSERT(rings->size != 0);
    struct registers block = block_of(bus);
    registers_write32(block, VIRTIO_MMIO_QUEUE_SEL, queue);
    registers_write32(block, VIRTIO_MMIO_QUEUE_NUM, rings->size);
    if (bus->legacy) {
        uint64_t page = virtqueue_desc_address(rings) / VIRTQ_LEGACY_ALIGN_BYTES;
        if (page > UINT32_MAX)
            return false;
        registers_write32(block, VIRTIO_MMIO_QUEUE_ALIGN, VIRTQ_LEGACY_ALIGN_BYTES);
        registers_write32(block, VIRTIO_MMIO_QUEUE_PFN, (uint32_t)page);
        return true;
    }
    address_write(block, VIRTIO_MMIO_QUEUE_DESC_LOW, virtqueue_desc_address(rings));
    address_write(block, VIRTIO_MMIO_QUEUE_DRIVER_LOW, virtqueue_avail_address(rings));
    address_write(block, VIRTIO_MMIO_QUEUE_DEVICE_LOW, virtqueue_used_address(rings));
    registers_write32(block, VIRTIO_MMIO_QUEUE_READY, 1);
    return true;
}

HOT static void kick(struct virtio_bus *bus, uint16_t queue)
{
    registers_write32(block_of(bus), VIRTIO_MMIO_QUEUE_NOTIFY, queue);
}

static uint32_t config_read(struct virtio_bus *bus, uint16_t offset, uint8_t bytes)
{
    return registers_read(block_of(bus), VIRTIO_MMIO_CONFIG + offset, bytes);
}

static uint32_t config_generation(struct virtio_bus *bus)
{
    return bus->legacy ? 0 : registers_read32(block_of(bus), VIRTIO_MMIO_CONFIG_GENERATION);
}

static const struct virtio_bus_ops virtio_mmio_ops = {
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

bool virtio_mmio_open(struct virtio_mmio *mmio, const struct virtio_mmio_word *word, uint32_t device_type)
{
    if (word->bytes < VIRTIO_MMIO_CONFIG)
        return false;
    ASSERT(device_type != 0); /* the id of a place with nothing in it */
    memset(mmio, 0, sizeof *mmio);
    mmio->block.memory = (volatile uint8_t *)memory_map_device(word->address, word->bytes);
    /* virtio 1.2 §4.2.2.2: magic, version and device id, in this order. */
    if (registers_read32(mmio->block, VIRTIO_MMIO_MAGIC_VALUE) != VIRTIO_MMIO_MAGIC)
        return false;
    uint32_t version = registers_read32(mmio->block, VIRTIO_MMIO_VERSION);
    if ((version != 1 && version != 2) || registers_read32(mmio->block, VIRTIO_MMIO_DEVICE_ID) != device_type)
        return false;

    mmio->bus.ops = &virtio_mmio_ops;
    mmio->bus.name = version == 1 ? "mmio v1" : "mmio v2";
    mmio->bus.config_bytes = word->bytes - VIRTIO_MMIO_CONFIG;
    mmio->bus.legacy = version == 1;
    format(mmio->bus.place, sizeof mmio->bus.place, "mmio 0x%llx", (unsigned long long)word->address);
    return true;
}
