/* drivers/nic/nic.c: the choice of a machine's network card, the log's lines about the others, and the result if none
 * comes up. Devices are registers in plain memory, which keeps the last write. */
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"
#include "tests/lib/device_memory.h"
#include "tests/lib/logged.h"

/* The state of the one device starts again with each test. */
#include "drivers/nic/nic.c"
#include "tests/lib/test.h"

enum { FUNCTION_COUNT_MAX = 4, BAR_BYTES = 16384, PLACE_COUNT_MAX = 4, PLACE_BYTES = 4096 };

static struct fake_function {
    struct pci_address address;
    uint32_t config[64], writable[64];
    uint8_t *memory;
} functions[FUNCTION_COUNT_MAX];
static size_t function_count;
static _Alignas(BAR_BYTES) uint8_t bars[FUNCTION_COUNT_MAX][BAR_BYTES];
static _Alignas(PLACE_BYTES) uint8_t places[PLACE_COUNT_MAX][PLACE_BYTES];
static struct acpi_virtio_mmio nodes[PLACE_COUNT_MAX];
static size_t node_count;
static struct machine_virtio_mmio words;
static bool no_pci;
static const uint8_t *wanted_mac;
static uint64_t log_begin;

/* ---- the machine ---- */

void clock_spin_us(uint32_t us) { (void)us; }

static const char *iommu, *encryption;
const char *acpi_iommu(void) { return iommu; }
const char *hypervisor_memory_encryption(void) { return encryption; }

/* Nodes of the ACPI tables have addresses of 32 bits. Here these are the indices of places. */
volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    (void)bytes;
    return physical < PLACE_COUNT_MAX ? places[physical] : (volatile void *)(uintptr_t)physical;
}

const struct acpi_virtio_mmio *acpi_virtio_mmio(size_t index) { return index < node_count ? &nodes[index] : NULL; }

static struct fake_function *function_at(struct pci_address address)
{
    for (size_t i = 0; i < function_count; i++)
        if (memcmp(&functions[i].address, &address, sizeof address) == 0)
            return &functions[i];
    return NULL;
}

static uint32_t config_read(void *context, struct pci_address address, uint16_t offset)
{
    (void)context;
    const struct fake_function *function = function_at(address);
    return function != NULL ? function->config[offset / 4] : UINT32_MAX;
}

static void config_write(void *context, struct pci_address address, uint16_t offset, uint32_t value)
{
    (void)context;
    struct fake_function *function = function_at(address);
    assert_non_null(function);
    uint32_t writable = function->writable[offset / 4], *word = &function->config[offset / 4];
    *word = (*word & ~writable) | (value & writable);
}

const struct pci_access *pci_access_find(void)
{
    static const struct pci_access access = {
        .read = config_read, .write = config_write, .bus_last = 255, .name = "fake"
    };
    return no_pci ? NULL : &access;
}

BEFORE_EACH()
{
    memset(&card, 0, sizeof card);
    memset(&pci_list, 0, sizeof pci_list);
    memset(&others, 0, sizeof others);
    memset(&search, 0, sizeof search);
    memset(functions, 0, sizeof functions);
    memset(bars, 0, sizeof bars);
    memset(places, 0, sizeof places);
    memset(&words, 0, sizeof words);
    function_count = node_count = 0;
    no_pci = false;
    iommu = encryption = NULL;
    wanted_mac = NULL;
    log_begin = log_end();
}

AFTER_EACH() { model_memory_free_all(); }

static struct fake_function *add_function(uint8_t bus, uint8_t device, uint32_t id, uint32_t class_code)
{
    assert_true(function_count < FUNCTION_COUNT_MAX);
    struct fake_function *function = &functions[function_count];
    function->address = (struct pci_address){ .bus = bus, .device = device };
    function->memory = bars[function_count++];
    function->config[PCI_VENDOR_DEVICE / 4] = id;
    function->config[PCI_CLASS_REVISION / 4] = class_code << 8;
    function->config[PCI_SUBSYSTEM / 4] = VIRTIO_DEVICE_NET << 16;
    function->writable[PCI_COMMAND_STATUS / 4] = 0xffff;
    return function;
}

/* Adds one of the four structures of virtio 1.2 §4.1.4, in BAR 4. */
static uint8_t add_capability(struct fake_function *function, uint8_t at, uint8_t type, uint32_t offset)
{
    uint32_t *word = &function->config[at / 4];
    uint8_t next = at + 20;
    word[0] = PCI_CAPABILITY_VENDOR | (uint32_t)next << 8 | 20u << 16 | (uint32_t)type << 24;
    word[1] = 4;
    word[2] = offset;
    word[3] = 0x1000;
    return next;
}

/* Adds a device whose common configuration offers VERSION_1 and CSUM: one word is both halves of its features. */
static struct fake_function *add_modern(uint8_t bus, uint8_t device)
{
    struct fake_function *function = add_function(bus, device, 0x10411af4, 0x020000);
    function->config[PCI_COMMAND_STATUS / 4] = PCI_STATUS_CAPABILITIES << 16;
    function->config[PCI_BAR0 / 4 + 4] = (uint32_t)(uintptr_t)function->memory | 0xc;
    function->writable[PCI_BAR0 / 4 + 4] = (uint32_t)-BAR_BYTES;
    function->config[PCI_BAR0 / 4 + 5] = (uint32_t)((uintptr_t)function->memory >> 32);
    function->writable[PCI_BAR0 / 4 + 5] = UINT32_MAX;
    uint8_t at = 0x40;
    function->config[PCI_CAPABILITY_POINTER / 4] = at;
    at = add_capability(function, at, VIRTIO_PCI_CAP_COMMON_CFG, 0);
    at = add_capability(function, at, VIRTIO_PCI_CAP_DEVICE_CFG, 0x2000);
    at = add_capability(function, at, VIRTIO_PCI_CAP_NOTIFY_CFG, 0x3000);
    store_le32(function->memory + VIRTIO_PCI_COMMON_DEVICE_FEATURE, 1);
    store_le16(function->memory + VIRTIO_PCI_COMMON_NUM_QUEUES, 2);
    store_le16(function->memory + VIRTIO_PCI_COMMON_QUEUE_SIZE, 256);
    return function;
}

/* Puts a device of version 2 into a place; with `features` as both halves. */
static void add_place(size_t index, uint32_t features)
{
    store_le32(places[index] + VIRTIO_MMIO_MAGIC_VALUE, 0x74726976);
    store_le32(places[index] + VIRTIO_MMIO_VERSION, 2);
    store_le32(places[index] + VIRTIO_MMIO_DEVICE_ID, VIRTIO_DEVICE_NET);
    store_le32(places[index] + VIRTIO_MMIO_DEVICE_FEATURES, features);
    store_le32(places[index] + VIRTIO_MMIO_QUEUE_NUM_MAX, 256);
}

static void add_word(const char *text) { strcpy(words.words[words.count++], text); }

static void add_word_of_place(size_t index)
{
    char text[MACHINE_VIRTIO_MMIO_BYTES_MAX + 1];
    format(text, sizeof text, "4K@0x%llx:5", (unsigned long long)(uintptr_t)places[index]);
    add_word(text);
}

static void add_node(size_t place) { nodes[node_count++] = (struct acpi_virtio_mmio){ (uint32_t)place, PLACE_BYTES }; }

/* ---- helpers of the tests ---- */

static bool log_has(const char *text) { return lines_logged(log_begin, text) > 0; }

static const char *find(void)
{
    struct netdev *device = NULL;
    const struct nic_wish wish = { &words, NULL, wanted_mac };
    const char *error = nic_find(&device, &wish);
    assert_ptr_equal(device, &card.device);
    return error;
}

TEST(machine_without_pci_and_places_has_no_device)
{
    no_pci = true;
    assert_string_equal(find(), "no virtio network device and no gVNIC");
    assert_true(log_has("pci: none"));
}

TEST(machine_with_other_cards_alone_lists_them)
{
    add_function(0, 3, 0x10d38086, 0x020000);
    assert_string_equal(find(), "no virtio network device and no gVNIC");
    assert_true(log_has("00:03.0 8086:10d3"));
}

TEST(first_function_plays_and_the_others_are_named)
{
    add_modern(0, 3);
    add_modern(0, 4);
    add_function(0, 5, 0x10d38086, 0x020000);
    add_function(0, 6, 0x12371af4, 0x060000);
    assert_null(find());
    assert_true(log_has("virtio-net: pci 00:03.0 1af4:1041, modern, features VERSION_1"));
    assert_true(log_has("left alone: pci 00:04.0 1af4:1041 pci 00:05.0 8086:10d3"));
    assert_false(log_has("1af4:1237"));
    assert_int_equal(bars[1][VIRTIO_PCI_COMMON_DEVICE_STATUS], 0);
}

TEST(function_without_registers_is_skipped)
{
    add_function(0, 3, 0x10411af4, 0x020000);
    assert_string_equal(find(), "the network device's registers cannot be reached");
    assert_true(log_has("00:03.0 1af4:1041"));

    test_before_each();
    add_function(0, 3, 0x10411af4, 0x020000);
    add_modern(0, 4);
    assert_null(find());
    assert_true(log_has("virtio-net: pci 00:04.0"));
}

TEST(function_that_does_not_come_up_is_reported)
{
    add_modern(0, 3);
    store_le16(bars[0] + VIRTIO_PCI_COMMON_NUM_QUEUES, 1);
    assert_string_equal(find(), virtio_net_error_text(VIRTIO_NET_NO_QUEUE));
    assert_true(log_has("virtio-net: pci 00:03.0 1af4:1041, modern: the network device lacks"));
    assert_true(bars[0][VIRTIO_PCI_COMMON_DEVICE_STATUS] & VIRTIO_STATUS_FAILED);
}

TEST(buses_of_a_second_host_bridge_are_searched_last)
{
    add_function(0, 1, 0x12378086, 0x060000);
    add_modern(0x80, 2);
    assert_null(find());
    assert_true(log_has("virtio-net: pci 80:02.0"));
}

TEST(place_of_the_settings_plays_and_the_others_are_named)
{
    add_word("4K@nowhere:5");
    add_word_of_place(0); /* nothing is there */
    add_word_of_place(1);
    add_word_of_place(1);
    add_node(2);
    add_node(3); /* nothing is there */
    add_place(1, 1);
    add_place(2, 1);
    add_modern(0, 3);
    assert_null(find());
    assert_true(log_has("virtio_mmio.device=4K@nowhere:5 is not SIZE@ADDRESS:IRQ"));
    assert_true(log_has(", mmio v2, features VERSION_1"));
    assert_true(log_has("left alone: mmio 0x2 pci 00:03.0 1af4:1041"));
    assert_int_equal(load_le32(places[2] + VIRTIO_MMIO_STATUS), 0);
}

TEST(place_that_does_not_come_up_leaves_the_machine_to_pci)
{
    add_node(0);
    add_node(1);
    add_place(0, 2); /* GUEST_CSUM without VERSION_1 */
    assert_string_equal(find(), virtio_net_error_text(VIRTIO_NET_NOT_VERSION_1));
    assert_true(log_has("virtio-net: mmio 0x0, mmio v2: the network device offers modern registers but not VERSION_1"));

    test_before_each();
    add_node(0);
    add_place(0, 2);
    add_modern(0, 3);
    assert_null(find());
    assert_true(log_has("virtio-net: pci 00:03.0"));
}

TEST(access_platform_is_accepted_where_nothing_translates)
{
    static const struct {
        const char *iommu, *encryption, *logged;
    } cases[] = {
        { NULL, NULL, "features VERSION_1 ACCESS_PLATFORM" },
        { "DMAR", NULL, "features VERSION_1 CSUM GUEST_CSUM" }, /* a device that does not insist plays without */
        { NULL, "SEV", "features VERSION_1 CSUM GUEST_CSUM" },
        { "VIOT", "TDX", "features VERSION_1 CSUM GUEST_CSUM" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        test_before_each();
        iommu = cases[i].iommu;
        encryption = cases[i].encryption;
        add_node(0);
        add_place(0, 1 | 2); /* VERSION_1 and ACCESS_PLATFORM, CSUM and GUEST_CSUM */
        assert_null(find());
        assert_true(log_has(cases[i].logged));
        model_memory_free_all();
    }
}

/* Gives a modern function an address: the features' word is both halves, VERSION_1 with CSUM, and MAC. */
static void set_mac(const struct fake_function *function, uint8_t last)
{
    const uint8_t mac[] = { 0x52, 0x54, 0, 0, 0, last };
    store_le32(function->memory + VIRTIO_PCI_COMMON_DEVICE_FEATURE, 1 | 1 << VIRTIO_NET_F_MAC);
    memcpy(function->memory + 0x2000, mac, sizeof mac);
}

TEST(card_with_the_wanted_address_plays)
{
    for (uint8_t wanted = 1; wanted <= 3; wanted++) {
        const uint8_t mac[] = { 0x52, 0x54, 0, 0, 0, wanted };
        test_before_each();
        wanted_mac = mac;
        for (uint8_t i = 1; i <= 3; i++)
            set_mac(add_modern(0, i), i);
        add_function(0, 5, 0x10d38086, 0x020000);
        assert_null(find());
        assert_memory_equal(card.device.mac, mac, sizeof mac);
        assert_int_equal(nic_cards_left(), 0);
        for (uint8_t i = 1; i <= 3; i++) /* the others are reset, or not touched */
            assert_int_equal(bars[i - 1][VIRTIO_PCI_COMMON_DEVICE_STATUS] != 0, i == wanted);
        static const char *const left[] = {
            "left alone: pci 00:02.0 1af4:1041 pci 00:03.0 1af4:1041 pci 00:05.0 8086:10d3",
            "left alone: pci 00:01.0 1af4:1041 52:54:00:00:00:01 pci 00:03.0 1af4:1041 pci 00:05.0 8086:10d3",
            "left alone: pci 00:01.0 1af4:1041 52:54:00:00:00:01 pci 00:02.0 1af4:1041 52:54:00:00:00:02 pci 00:05.0",
        };
        assert_true(log_has(left[wanted - 1]));
        model_memory_free_all();
    }
}

TEST(wanted_address_that_no_card_has_is_refused_and_all_are_named)
{
    const uint8_t mac[] = { 0x52, 0x54, 0, 0, 0, 9 };
    wanted_mac = mac;
    set_mac(add_modern(0, 1), 1);
    add_modern(0, 2); /* has no address of its own */
    add_function(0, 5, 0x10d38086, 0x020000);
    assert_string_equal(find(), "no network device with a driver here has the address that nic= names");
    assert_true(
        log_has("nic=52:54:00:00:00:09 is no virtio card or gVNIC of this machine; it has: pci 00:01.0 1af4:1041 "
                "52:54:00:00:00:01 pci 00:02.0 1af4:1041 pci 00:05.0 8086:10d3"));

    test_before_each();
    wanted_mac = mac;
    no_pci = true;
    assert_string_equal(find(), "no network device with a driver here has the address that nic= names");
    assert_true(log_has("nic=52:54:00:00:00:09 is no virtio card or gVNIC of this machine; it has: none"));
}

TEST(wanted_card_is_found_behind_a_second_host_bridge)
{
    const uint8_t mac[] = { 0x52, 0x54, 0, 0, 0, 2 };
    wanted_mac = mac;
    set_mac(add_modern(0, 1), 1);
    set_mac(add_modern(0x80, 2), 2);
    assert_null(find());
    assert_true(log_has("virtio-net: pci 80:02.0"));
}

/* Adds a gVNIC whose registers are memory: it never answers its admin queue. */
static struct fake_function *add_gvnic(uint8_t bus, uint8_t device)
{
    struct fake_function *function = add_function(bus, device, 0x00421ae0, 0x020000);
    function->config[PCI_CLASS_REVISION / 4] |= 1; /* revision 0 takes the page of its queue in 32 bits */
    function->memory[offsetof(struct gve_registers, device_status) + 3] = GVE_DEVICE_STATUS_IS_RESET;
    for (unsigned bar = 0; bar <= 2; bar += 2) {
        function->config[PCI_BAR0 / 4 + bar] = ((uint32_t)(uintptr_t)function->memory + bar * 4096) | 4;
        function->config[PCI_BAR0 / 4 + bar + 1] = (uint32_t)((uintptr_t)function->memory >> 32);
        function->writable[PCI_BAR0 / 4 + bar] = (uint32_t)-8192;
        function->writable[PCI_BAR0 / 4 + bar + 1] = UINT32_MAX;
    }
    return function;
}

TEST(gvnic_that_does_not_answer_leaves_the_machine_to_virtio)
{
    const struct fake_function *gvnic = add_gvnic(0, 3);
    add_modern(0, 4);
    add_gvnic(0, 5);
    assert_null(find());
    assert_true(log_has("gve: pci 00:03.0 1ae0:0042: the gVNIC does not answer its admin queue"));
    assert_true(log_has("virtio-net: pci 00:04.0 1af4:1041, modern"));
    assert_true(log_has("left alone: pci 00:05.0 1ae0:0042"));
    assert_int_equal(nic_cards_left(), 1);
    /* Registers are big-endian: one command was given, and the device was reset after it. */
    assert_int_equal(load_be32(gvnic->memory + offsetof(struct gve_registers, adminq_doorbell)), 1);
    const uint32_t status = load_be32(gvnic->memory + offsetof(struct gve_registers, driver_status));
    assert_int_equal(status, GVE_DRIVER_STATUS_RESET);
    assert_int_equal(gvnic->memory[offsetof(struct gve_registers, driver_version)], '\n');
    assert_string_equal(nic_counter_group(0)->prefix, "virtio_net.");
    assert_string_equal(nic_counter_group(1)->prefix, "gve.");
    assert_string_equal(nic_counter_group(2)->prefix, "pool.");
    assert_null(nic_counter_group(3));
    assert_string_equal(nic_find_next(), "the gVNIC does not answer its admin queue, its count of commands: 0");
}

TEST(gvnic_without_doorbells_is_skipped)
{
    struct fake_function *gvnic = add_gvnic(0, 3);
    gvnic->config[PCI_BAR0 / 4 + 2] = 0;
    gvnic->writable[PCI_BAR0 / 4 + 2] = 0;
    gvnic->config[PCI_BAR0 / 4 + 3] = 0;
    gvnic->writable[PCI_BAR0 / 4 + 3] = 0;
    assert_string_equal(find(), "the network device's registers cannot be reached");
    assert_true(log_has("gve: pci 00:03.0 1ae0:0042: the network device's registers cannot be reached"));
    assert_true(log_has("gve: pci 00:03.0 1ae0:0042: BAR 2 has 0 bytes at 0x0"));

    test_before_each();
    gvnic = add_gvnic(0, 3);
    gvnic->writable[PCI_BAR0 / 4] |= 16; /* the lowest bit of the size */
    assert_string_equal(find(), "the network device's registers cannot be reached");
    assert_true(log_has("gve: pci 00:03.0 1ae0:0042: BAR 0 has 16 bytes at 0x"));
}

TEST(next_cards_are_tried_in_order_and_the_one_before_is_reset)
{
    add_node(0);
    add_node(0); /* a second node of one place: one card */
    add_place(0, 1);
    add_modern(0, 3);
    add_function(0, 4, 0x10411af4, 0x020000); /* has no registers */
    add_modern(0, 5);
    assert_null(find());
    assert_true(log_has("virtio-net: mmio 0x0"));
    assert_int_equal(nic_cards_left(), 3);

    assert_null(nic_find_next());
    assert_true(log_has("virtio-net: pci 00:03.0 1af4:1041, modern, features"));
    assert_int_equal(load_le32(places[0] + VIRTIO_MMIO_STATUS), 0);
    assert_int_equal(nic_cards_left(), 2);

    assert_null(nic_find_next());
    assert_true(log_has("pci 00:04.0 1af4:1041: the network device's registers cannot be reached"));
    assert_true(log_has("virtio-net: pci 00:05.0 1af4:1041, modern, features"));
    assert_int_equal(bars[0][VIRTIO_PCI_COMMON_DEVICE_STATUS], 0);
    assert_int_equal(nic_cards_left(), 0);
}
