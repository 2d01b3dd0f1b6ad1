/* drivers/virtio/mmio.c: the words of the command line, and the driver's writes to the registers of each version. The
 * registers are plain memory here, which keeps the last write. */
#include "drivers/virtio/mmio.h"
#include "kernel/memory/memory.h"
#include "tests/lib/test.h"

static _Alignas(4096) uint32_t block[1024];

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    (void)bytes;
    return (volatile void *)(uintptr_t)physical;
}

TEST(words_of_the_known_machines_are_read)
{
    static const struct {
        const char *text;
        uint64_t bytes, address;
        uint32_t irq;
    } words[] = {
        { "4K@0xd0000000:5", 4096, 0xd0000000, 5 },     /* Firecracker */
        { "512@0xfeb00e00:12", 512, 0xfeb00e00, 12 },   /* QEMU microvm */
        { "1K@0x1001e000:74:3", 1024, 0x1001e000, 74 }, /* with an id */
        { "0x200@4G:010", 512, UINT64_C(1) << 32, 8 },  { "1M@1g:0", 1 << 20, 1 << 30, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        struct virtio_mmio_word word;
        assert_true(virtio_mmio_parse(words[i].text, &word));
        assert_true(word.bytes == words[i].bytes);
        assert_true(word.address == words[i].address);
        assert_int_equal(word.irq, words[i].irq);
    }
}

TEST(malformed_words_are_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "4K",
        "4K@",
        "4K@0x1000",
        "4K@0x1000:",
        "@0x1000:5",
        "4K0x1000:5",
        "4K@:5",
        "K@0x1000:5",
        "4K@0x1000:x",
        "4K@0x1000:5x",
        "4K@0x1000:5:",
        "4K@0x1000:5:x",
        "4KK@0x1000:5",
        "0@0x1000:5",
        "4K@0:5",
        "4K@0x1001:5",
        "4K@0xffffffffffffffff:5",
        "4K@0x10000000000000000:5",
        "18446744073709551615K@0x1000:5",
        "-4@0x1000:5",
        "4K@0xfffffffffffff000:5",
        "08@0x1000:5",
        "4K@0x1000:4294967296",
        "0x@0x1000:5",
        "4K@0x1000:5,",
        "4K @0x1000:5",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct virtio_mmio_word word;
        if (virtio_mmio_parse(texts[i], &word))
            fail_msg("read as a device: '%s'", texts[i]);
    }
}

static void device_make(uint32_t magic, uint32_t version, uint32_t type)
{
    memset(block, 0, sizeof block);
    block[VIRTIO_MMIO_MAGIC_VALUE / 4] = magic;
    block[VIRTIO_MMIO_VERSION / 4] = version;
    block[VIRTIO_MMIO_DEVICE_ID / 4] = type;
}

static struct virtio_mmio_word word_of(size_t bytes)
{
    return (struct virtio_mmio_word){ .address = (uintptr_t)block, .bytes = bytes };
}

TEST(only_a_known_device_is_opened)
{
    struct virtio_mmio mmio;
    struct virtio_mmio_word word = word_of(512), small = word_of(128);
    device_make(VIRTIO_MMIO_MAGIC, 2, 1);
    assert_true(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    assert_false(mmio.bus.legacy);
    assert_int_equal(mmio.bus.config_bytes, 256);
    assert_false(virtio_mmio_open(&mmio, &small, VIRTIO_DEVICE_NET));
    device_make(VIRTIO_MMIO_MAGIC, 1, 1);
    assert_true(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    assert_true(mmio.bus.legacy);
    assert_false(mmio.bus.queue_size_fixed);
    device_make(VIRTIO_MMIO_MAGIC, 2, 0);
    assert_false(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    device_make(VIRTIO_MMIO_MAGIC, 2, 2);
    assert_false(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    device_make(VIRTIO_MMIO_MAGIC, 3, 1);
    assert_false(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    device_make(UINT32_MAX, 2, 1);
    assert_false(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
}

TEST(queues_are_enabled_as_the_version_asks)
{
    struct virtio_mmio mmio;
    struct virtio_mmio_word word = word_of(512);
    struct virtqueue rings = { .desc = (void *)(uintptr_t)0x123456000,
                               .avail = (void *)(uintptr_t)0x123457000,
                               .used = (void *)(uintptr_t)0x123458000,
                               .size = 64 };
    device_make(VIRTIO_MMIO_MAGIC, 2, 1);
    assert_true(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    assert_true(mmio.bus.ops->queue_enable(&mmio.bus, 1, &rings));
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_SEL / 4], 1);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_NUM / 4], 64);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_DESC_LOW / 4], 0x23456000);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_DESC_LOW / 4 + 1], 1);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_DRIVER_LOW / 4], 0x23457000);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_DEVICE_LOW / 4], 0x23458000);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_READY / 4], 1);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_PFN / 4], 0);

    device_make(VIRTIO_MMIO_MAGIC, 1, 1);
    assert_true(virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET));
    mmio.bus.ops->status_write(&mmio.bus, 1);
    assert_int_equal(block[VIRTIO_MMIO_GUEST_PAGE_SIZE / 4], 4096);
    assert_true(mmio.bus.ops->queue_enable(&mmio.bus, 0, &rings));
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_ALIGN / 4], 4096);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_PFN / 4], 0x123456);
    assert_int_equal(block[VIRTIO_MMIO_QUEUE_READY / 4], 0);
    rings.desc = (void *)(uintptr_t)0x100000000000; /* page 2^32: beyond QueuePFN */
    assert_false(mmio.bus.ops->queue_enable(&mmio.bus, 0, &rings));
}
