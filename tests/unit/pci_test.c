/* drivers/pci/pci.c over a configuration space made here: functions with registers, write masks, and bridges that
 * forward only the buses they are numbered for. */
#include "drivers/pci/pci.h"
#include "drivers/pci/spec.h"
#include "tests/lib/test.h"

/* A function in the tree: `behind` is the index of the bridge above it, or -1 for the root bus. */
struct fake_function {
    int behind;
    uint8_t device, function;
    bool is_bridge;
    uint32_t word[64];
    uint32_t writable[64]; /* by bit; others keep their value */
};
static struct fake_function fake[200];
static size_t fake_count;
static uint32_t read_count;
static uint8_t root_bus;

static void put(struct fake_function *f, unsigned offset, uint32_t value, uint32_t writable)
{
    f->word[offset / 4] = value;
    f->writable[offset / 4] = writable;
}

static int add(int behind, uint8_t device, uint8_t function, uint32_t id)
{
    struct fake_function *f = &fake[fake_count];
    *f = (struct fake_function){ .behind = behind, .device = device, .function = function };
    put(f, PCI_VENDOR_DEVICE, id, 0);
    put(f, PCI_CLASS_REVISION, 0x02000000, 0);
    put(f, PCI_COMMAND_STATUS, 0, 0x0000ffff);
    return (int)fake_count++;
}

static int add_bridge(int behind, uint8_t device, uint8_t secondary, uint8_t subordinate)
{
    int index = add(behind, device, 0, 0x000c1b36);
    struct fake_function *f = &fake[index];
    f->is_bridge = true;
    put(f, PCI_CLASS_REVISION, 0x06040000, 0);
    put(f, PCI_HEADER_TYPE_DWORD, 0x00010000, 0);
    put(f, PCI_BRIDGE_BUSES, (uint32_t)subordinate << 16 | (uint32_t)secondary << 8, 0x00ffffff);
    return index;
}

static uint8_t secondary_of(int bridge) { return (uint8_t)(fake[bridge].word[PCI_BRIDGE_BUSES / 4] >> 8); }
static uint8_t subordinate_of(int bridge) { return (uint8_t)(fake[bridge].word[PCI_BRIDGE_BUSES / 4] >> 16); }

/* Returns true if a request for `bus` comes out below `bridge` (-1: on the root bus), all bridges above forwarding
 * it. */
static bool reaches(int bridge, uint8_t bus)
{
    if (bridge < 0)
        return bus == root_bus;
    if (secondary_of(bridge) != bus || secondary_of(bridge) == 0)
        return false;
    for (int up = fake[bridge].behind; up >= 0; up = fake[up].behind)
        if (bus <= secondary_of(up) || bus > subordinate_of(up))
            return false;
    return true;
}

static struct fake_function *fake_find(struct pci_address address)
{
    for (size_t i = 0; i < fake_count; i++)
        if (fake[i].device == address.device && fake[i].function == address.function
            && reaches(fake[i].behind, address.bus))
            return &fake[i];
    return NULL;
}

static uint32_t fake_read(void *context, struct pci_address address, uint16_t offset)
{
    (void)context;
    assert_int_equal(offset % 4, 0);
    read_count++;
    struct fake_function *f = fake_find(address);
    return f ? f->word[offset / 4] : UINT32_MAX;
}

static void fake_write(void *context, struct pci_address address, uint16_t offset, uint32_t value)
{
    (void)context;
    struct fake_function *f = fake_find(address);
    if (!f)
        return;
    /* The status register's bits are cleared by writing ones. A driver that writes back the value it read would clear
     * them. */
    if (offset == PCI_COMMAND_STATUS)
        assert_int_equal(value >> 16, 0);
    f->word[offset / 4] = (f->word[offset / 4] & ~f->writable[offset / 4]) | (value & f->writable[offset / 4]);
}

static const struct pci_access access = { .read = fake_read, .write = fake_write, .bus_last = 255, .name = "fake" };
static struct pci_list list;

BEFORE_EACH()
{
    fake_count = 0;
    read_count = 0;
    root_bus = 0;
    memset(&list, 0, sizeof list);
}

static const struct pci_function *listed(uint32_t id)
{
    for (size_t i = 0; i < list.count; i++)
        if ((list.function[i].vendor | (uint32_t)list.function[i].device << 16) == id)
            return &list.function[i];
    return NULL;
}

TEST(functions_of_a_bus_are_found)
{
    add(-1, 0, 0, 0x12378086);
    add(-1, 3, 0, 0x10001af4);
    fake[add(-1, 31, 0, 0x29188086)].word[PCI_HEADER_TYPE_DWORD / 4] = 0x00800000;
    add(-1, 31, 2, 0x29228086);
    add(-1, 5, 1, 0xdead1111); /* no function 0 and so not there: §3.2.2.3.4 */
    add(-1, 3, 4, 0xdead2222); /* function 0 is not multifunction */
    fake[1].word[PCI_SUBSYSTEM / 4] = 0x00011af4;
    pci_scan_bus(&access, &list, 0);
    assert_int_equal(list.count, 4);
    assert_non_null(listed(0x29228086));
    const struct pci_function *nic = listed(0x10001af4);
    assert_int_equal(nic->address.device, 3);
    assert_int_equal(nic->subsystem, 1);
    assert_int_equal(nic->class_code, 0x020000);
    pci_scan_bus(&access, &list, 0);
    assert_int_equal(list.count, 4); /* a bus is scanned once */
}

TEST(numbered_bridges_are_scanned_and_not_renumbered)
{
    int up = add_bridge(-1, 1, 1, 3), middle = add_bridge(up, 0, 2, 3), down = add_bridge(middle, 4, 3, 3);
    int other = add_bridge(-1, 2, 7, 7);
    add(down, 0, 0, 0x10411af4);
    add(other, 0, 0, 0x10331af4);
    pci_scan_bus(&access, &list, 0);
    assert_int_equal(listed(0x10411af4)->address.bus, 3);
    assert_int_equal(listed(0x10331af4)->address.bus, 7);
    assert_int_equal(secondary_of(up), 1);
    assert_int_equal(subordinate_of(up), 3);
    assert_int_equal(list.bus_highest, 7);
}

/* Scans a tree that no firmware has configured. Every function behind every bridge is reachable afterwards. */
TEST(unnumbered_bridges_are_numbered_depth_first)
{
    int a = add_bridge(-1, 1, 0, 0), b = add_bridge(-1, 2, 0, 0);
    int a1 = add_bridge(a, 0, 0, 0), a2 = add_bridge(a, 1, 0, 0), a11 = add_bridge(a1, 0, 0, 0);
    add(a11, 0, 0, 0x00010001);
    add(a2, 0, 0, 0x00020001);
    add(b, 3, 0, 0x10411af4);
    pci_scan_bus(&access, &list, 0);
    assert_int_equal(list.count, 8);
    for (size_t i = 0; i < list.count; i++)
        assert_non_null(fake_find(list.function[i].address));
    assert_int_equal(secondary_of(a), 1);
    assert_int_equal(subordinate_of(a), 4);
    assert_int_equal(secondary_of(a1), 2);
    assert_int_equal(subordinate_of(a1), 3);
    assert_int_equal(secondary_of(b), 5);
    assert_int_equal(subordinate_of(b), 5);
    assert_int_equal((uint8_t)fake[a1].word[PCI_BRIDGE_BUSES / 4], 1); /* primary */
}

TEST(a_new_number_is_above_all_that_firmware_gave)
{
    int fresh = add_bridge(-1, 1, 0, 0);
    add_bridge(-1, 9, 5, 8);
    add(fresh, 0, 0, 0x10411af4);
    pci_scan_bus(&access, &list, 0);
    assert_int_equal(secondary_of(fresh), 9);
    assert_int_equal(listed(0x10411af4)->address.bus, 9);
}

TEST(bridges_that_lead_in_circles_end)
{
    int a = add_bridge(-1, 1, 1, 255);
    add_bridge(a, 0, 1, 1); /* claims the bus it is on */
    add_bridge(a, 1, 0xff, 0xff);
    add_bridge(-1, 2, 1, 1); /* claims another's */
    pci_scan_bus(&access, &list, 0);
    assert_int_equal(list.count, 4);
}

TEST(a_crowded_machine_is_counted_beyond_the_list)
{
    for (int i = 0; i < 5; i++) {
        int bridge = add_bridge(-1, (uint8_t)i, (uint8_t)(i + 1), (uint8_t)(i + 1));
        for (uint8_t d = 0; d < 32; d++)
            add(bridge, d, 0, 0x10331af4);
    }
    pci_scan_bus(&access, &list, 0);
    assert_int_equal(list.count, PCI_FUNCTION_COUNT_MAX);
    assert_int_equal(list.count + list.missed_count, 165);
}

/* ---- capabilities ---- */

static const struct pci_address nic = { 0, 3, 0 };

static void make_nic(void)
{
    add(-1, 3, 0, 0x10411af4);
    fake[0].word[PCI_COMMAND_STATUS / 4] = PCI_STATUS_CAPABILITIES << 16;
    fake[0].writable[PCI_COMMAND_STATUS / 4] = 0xffff;
}

TEST(capabilities_are_walked_by_id)
{
    make_nic();
    put(&fake[0], PCI_CAPABILITY_POINTER, 0x43, 0); /* the low bits are to be ignored */
    put(&fake[0], 0x40, 0x00005009, 0);
    put(&fake[0], 0x50, 0x00008011, 0);
    put(&fake[0], 0x80, 0x00000009, 0);
    unsigned budget = PCI_CAPABILITY_COUNT_MAX;
    assert_int_equal(pci_capability_next(&access, nic, PCI_CAPABILITY_VENDOR, 0, &budget), 0x40);
    assert_int_equal(pci_capability_next(&access, nic, PCI_CAPABILITY_VENDOR, 0x40, &budget), 0x80);
    assert_int_equal(pci_capability_next(&access, nic, PCI_CAPABILITY_VENDOR, 0x80, &budget), 0);
    budget = PCI_CAPABILITY_COUNT_MAX;
    assert_int_equal(pci_capability_next(&access, nic, PCI_CAPABILITY_MSIX, 0, &budget), 0x50);
}

TEST(no_capability_bit_means_no_capabilities)
{
    make_nic();
    fake[0].word[PCI_COMMAND_STATUS / 4] = 0;
    put(&fake[0], PCI_CAPABILITY_POINTER, 0x40, 0);
    put(&fake[0], 0x40, 0x00000009, 0);
    unsigned budget = PCI_CAPABILITY_COUNT_MAX;
    assert_int_equal(pci_capability_next(&access, nic, PCI_CAPABILITY_VENDOR, 0, &budget), 0);
}

TEST(capability_lists_without_end_end)
{
    static const uint32_t next[] = { 0x40, 0x44, 0x00, 0x3c, 0xfc };
    for (size_t i = 0; i < ARRAY_COUNT(next); i++) {
        test_before_each();
        make_nic();
        put(&fake[0], PCI_CAPABILITY_POINTER, 0x40, 0);
        put(&fake[0], 0x40, next[i] << 8 | PCI_CAPABILITY_VENDOR, 0);
        put(&fake[0], 0x44, 0x40 << 8 | PCI_CAPABILITY_VENDOR, 0);
        put(&fake[0], 0xfc, 0xfc << 8 | PCI_CAPABILITY_MSIX, 0);
        unsigned budget = PCI_CAPABILITY_COUNT_MAX, found = 0;
        uint8_t at = 0;
        while ((at = pci_capability_next(&access, nic, PCI_CAPABILITY_VENDOR, at, &budget)) != 0)
            found++;
        assert_true(found >= 1 && found <= PCI_CAPABILITY_COUNT_MAX);
        assert_true(read_count < 300);
        budget = PCI_CAPABILITY_COUNT_MAX; /* one that reaches past the end is none */
        assert_int_equal(pci_capability_next(&access, nic, PCI_CAPABILITY_MSIX, 0, &budget), 0);
    }
}

/* ---- base address registers ---- */

TEST(bars_are_sized_with_decoding_off_and_restored)
{
    make_nic();
    put(&fake[0], PCI_COMMAND_STATUS, PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_BUS_MASTER, 0xffff);
    put(&fake[0], PCI_BAR0 + 0, 0xc041, 0xffffffe0);      /* 32 ports */
    put(&fake[0], PCI_BAR0 + 4, 0xfebf1000, 0xfffff000);  /* 4 KiB of memory */
    put(&fake[0], PCI_BAR0 + 16, 0xfe00000c, 0xffffc000); /* 16 KiB, 64-bit, prefetchable, above 4 GiB */
    put(&fake[0], PCI_BAR0 + 20, 0x00000038, 0xffffffff);

    struct pci_bar bar = pci_bar_read(&access, nic, 0);
    assert_true(bar.present && bar.is_port && !bar.is_64);
    assert_int_equal(bar.base, 0xc040);
    assert_int_equal(bar.bytes, 32);
    bar = pci_bar_read(&access, nic, 1);
    assert_true(bar.present && !bar.is_port && !bar.is_64);
    assert_int_equal(bar.base, 0xfebf1000);
    assert_int_equal(bar.bytes, 4096);
    assert_false(pci_bar_read(&access, nic, 2).present);
    bar = pci_bar_read(&access, nic, 4);
    assert_true(bar.present && bar.is_64);
    assert_true(bar.base == UINT64_C(0x38fe000000));
    assert_int_equal(bar.bytes, 16384);
    assert_int_equal(fake[0].word[PCI_BAR0 / 4 + 4], 0xfe00000c);
    assert_int_equal(fake[0].word[PCI_BAR0 / 4 + 5], 0x38);
    assert_int_equal(fake[0].word[PCI_COMMAND_STATUS / 4],
                     PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_BUS_MASTER);
}

/* The bits that keep a one: with holes, all of them reserved, 2^64 bytes, and ports beyond 16 bits. */
TEST(bars_of_impossible_sizes_are_a_power_of_two_or_absent)
{
    static const struct {
        uint32_t low, low_writable, high_writable;
        uint64_t bytes;
    } cases[] = {
        { 0x0, 0x0f0f0000, 0, 0x10000 },
        { 0x0, 0x80000010, 0, 16 },
        { 0x8, 0x0000000f, 0, 0 },
        { 0x4, 0xf, 0, 0 },
        { 0xc, 0, 0xfffffff0, UINT64_C(1) << 36 },
        { 0x4, 0, 0x80000000, UINT64_C(1) << 63 },
        { 0x1, 0xffff0000, 0, 0 },
        { 0x1, 0x0000a5a0, 0, 0x20 },
    };
    struct pci_access spare = access;
    spare.spare = 0xdff00000;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        test_before_each();
        make_nic();
        put(&fake[0], PCI_BAR0, cases[i].low, cases[i].low_writable);
        put(&fake[0], PCI_BAR0 + 4, 0, cases[i].high_writable);
        struct pci_bar bar = pci_bar_read(&access, nic, 0);
        assert_true(bar.bytes == cases[i].bytes);
        assert_int_equal(bar.present, cases[i].bytes != 0);
        pci_scan_bus(&spare, &list, 0);
        pci_assign(&spare, &list, &list.function[0]);
        const bool fits = !bar.is_port && bar.bytes != 0 && bar.bytes <= PCI_SPARE_BYTES;
        assert_int_equal((fake[0].word[PCI_BAR0 / 4] & ~15u) != 0, fits);
    }
}

/* Takes an untouched machine: the NIC's BARs get addresses of their own, and every bridge above forwards them. */
TEST(unassigned_bars_are_assigned_behind_bridges)
{
    struct pci_access spare = access;
    spare.spare = 0xdff00000;
    int up = add_bridge(-1, 1, 0, 0), down = add_bridge(up, 2, 0, 0);
    add_bridge(-1, 3, 0, 0);
    int nic_index = add(down, 0, 0, 0x10411af4);
    fake[up].writable[PCI_BRIDGE_MEMORY / 4] = fake[down].writable[PCI_BRIDGE_MEMORY / 4] = 0xfff0fff0;
    put(&fake[nic_index], PCI_BAR0 + 0, 0x1, 0xffffffe0);
    put(&fake[nic_index], PCI_BAR0 + 4, 0, 0xfffff000);
    put(&fake[nic_index], PCI_BAR0 + 16, 0xc, 0xffffc000);
    put(&fake[nic_index], PCI_BAR0 + 20, 0, 0xffffffff);
    pci_scan_bus(&spare, &list, 0);
    pci_assign(&spare, &list, listed(0x10411af4));
    assert_ptr_equal(listed(0x10411af4), &list.function[3]);       /* the function's MiB is the fourth from the top */
    assert_int_equal(fake[nic_index].word[PCI_BAR0 / 4 + 0], 0x1); /* ports are left alone */
    assert_int_equal(fake[nic_index].word[PCI_BAR0 / 4 + 1], 0xdfc00000);
    assert_int_equal(fake[nic_index].word[PCI_BAR0 / 4 + 4], 0xdfc0400c);
    assert_int_equal(fake[nic_index].word[PCI_BAR0 / 4 + 5], 0);
    for (int bridge = up; bridge <= down; bridge++) {
        assert_int_equal(fake[bridge].word[PCI_BRIDGE_MEMORY / 4], 0xdfc0dfc0);
        assert_int_equal(fake[bridge].word[PCI_COMMAND_STATUS / 4], PCI_COMMAND_MEMORY | PCI_COMMAND_BUS_MASTER);
    }

    /* Once assigned, and where no spare addresses are known, nothing is written. */
    fake[nic_index].word[PCI_BAR0 / 4 + 1] = 0xfebf0000;
    pci_assign(&spare, &list, listed(0x10411af4));
    assert_int_equal(fake[nic_index].word[PCI_BAR0 / 4 + 1], 0xfebf0000);
    fake[nic_index].word[PCI_BAR0 / 4 + 1] = 0;
    pci_assign(&access, &list, listed(0x10411af4));
    assert_int_equal(fake[nic_index].word[PCI_BAR0 / 4 + 1], 0);
}

TEST(a_bar_larger_than_the_spare_addresses_stays_unassigned)
{
    struct pci_access spare = access;
    spare.spare = 0xdff00000;
    make_nic();
    put(&fake[0], PCI_BAR0, 0, 0xff000000); /* 16 MiB */
    pci_scan_bus(&spare, &list, 0);
    pci_assign(&spare, &list, &list.function[0]);
    assert_int_equal(fake[0].word[PCI_BAR0 / 4], 0);
}

/* Takes a watchdog and a network card that both want addresses: each gets its own. */
TEST(two_functions_get_different_addresses)
{
    struct pci_access spare = access;
    spare.spare = 0xdff00000;
    for (uint8_t device = 1; device <= 2; device++)
        put(&fake[add(-1, device, 0, 0x10411af4)], PCI_BAR0, 0, 0xfffff000);
    pci_scan_bus(&spare, &list, 0);
    pci_assign(&spare, &list, &list.function[0]);
    pci_assign(&spare, &list, &list.function[1]);
    assert_int_not_equal(fake[0].word[PCI_BAR0 / 4], 0);
    assert_int_not_equal(fake[1].word[PCI_BAR0 / 4], 0);
    assert_int_not_equal(fake[0].word[PCI_BAR0 / 4], fake[1].word[PCI_BAR0 / 4]);
}

static uint32_t waited_us;

/* Waits, and resets the function meanwhile, as PCI Power Management 1.2 §3.2.4 allows. */
static void wait_for_reset(uint32_t us)
{
    waited_us += us;
    put(&fake[0], PCI_BAR0 + 16, 0xc, 0xffffc000);
    put(&fake[0], PCI_BAR0 + 20, 0, 0xffffffff);
}

TEST(enabling_wakes_the_function_and_masks_interrupts)
{
    make_nic();
    put(&fake[0], PCI_CAPABILITY_POINTER, 0x40, 0);
    put(&fake[0], 0x40, 0x5000 | PCI_CAPABILITY_POWER, 0);
    put(&fake[0], 0x44, 0x0103, 0xffff);                               /* D3hot, PME enabled */
    put(&fake[0], 0x50, 0x80020000 | PCI_CAPABILITY_MSIX, 0xc0000000); /* MSI-X on, 3 vectors */
    put(&fake[0], PCI_BAR0 + 16, 0xfe00000c, 0xffffc000);
    put(&fake[0], PCI_BAR0 + 20, 0x00000038, 0xffffffff);
    waited_us = 0;
    pci_enable(&access, nic, wait_for_reset);
    assert_int_equal(fake[0].word[0x44 / 4], 0x0100);
    assert_int_equal(fake[0].word[0x50 / 4], 0x00020000 | PCI_CAPABILITY_MSIX);
    assert_int_equal(fake[0].word[PCI_COMMAND_STATUS / 4] & 0xffff, 0x0407);
    assert_int_equal(fake[0].word[PCI_BAR0 / 4 + 4], 0xfe00000c);
    assert_int_equal(fake[0].word[PCI_BAR0 / 4 + 5], 0x38);
    assert_int_equal(waited_us, 10000);
    pci_enable(&access, nic, wait_for_reset);
    assert_int_equal(waited_us, 10000);
}
