/* RAM ranges from a loader's map: by example, and against a plain model of pages on random maps. */
#include "kernel/memory/map.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

static struct memory_map map;

#define BUILD_FROM(...)                                                                                                \
    do {                                                                                                               \
        const struct memory_region regions[] = { __VA_ARGS__ };                                                        \
        memory_map_build(&map, regions, ARRAY_COUNT(regions));                                                         \
    } while (0)

static void assert_range(size_t index, uint64_t begin, uint64_t end)
{
    assert_true(index < map.count);
    assert_int_equal(map.ranges[index].begin, begin);
    assert_int_equal(map.ranges[index].end, end);
}

TEST(map_of_a_pc_is_its_ram)
{
    BUILD_FROM({ 0, 0x9fc00, REGION_RAM }, { 0x9fc00, 0x400, REGION_RESERVED }, { 0xf0000, 0x10000, REGION_RESERVED },
               { 0x100000, 0x7ee0000, REGION_RAM }, { 0x7fe0000, 0x20000, REGION_RESERVED },
               { 0x100000000, 0x40000000, REGION_RAM });
    assert_int_equal(map.count, 3);
    assert_range(0, 0, 0x9f000);
    assert_range(1, 0x100000, 0x7fe0000);
    assert_range(2, 0x100000000, 0x140000000);
    assert_int_equal(memory_map_bytes(&map), 0x9f000 + 0x7ee0000 + 0x40000000);
}

TEST(map_where_regions_overlap_reserved_memory_wins)
{
    BUILD_FROM({ 0x3000, 0x1000, REGION_ACPI_NVS }, { 0x1000, 0x9000, REGION_RAM }, { 0x8800, 0x10, REGION_BAD });
    assert_int_equal(map.count, 3);
    assert_range(0, 0x1000, 0x3000);
    assert_range(1, 0x4000, 0x8000);
    assert_range(2, 0x9000, 0xa000);
}

TEST(map_joins_neighbours_in_any_order)
{
    BUILD_FROM({ 0x5000, 0x1000, REGION_RAM }, { 0x1000, 0x1000, REGION_RAM }, { 0x2000, 0x3000, REGION_RAM });
    assert_int_equal(map.count, 1);
    assert_range(0, 0x1000, 0x6000);
}

TEST(map_drops_partial_pages)
{
    BUILD_FROM({ 0x1001, 0x1ffe, REGION_RAM }, { 0x10800, 0x1800, REGION_RAM });
    assert_int_equal(map.count, 1);
    assert_range(0, 0x11000, 0x12000);
}

TEST(map_at_the_end_of_the_address_space_does_not_wrap)
{
    BUILD_FROM({ 0x1000, 0x1000, REGION_RAM }, { UINT64_MAX - 0x1fff, 0x1fff, REGION_RAM },
               { UINT64_MAX - 0x10, 0x10, REGION_RESERVED });
    assert_int_equal(map.count, 2);
    assert_range(0, 0x1000, 0x2000);
    assert_range(1, UINT64_MAX - 0x1fff, UINT64_MAX - 0xfff);
}

TEST(map_that_is_too_long_loses_the_highest_and_is_marked)
{
    BUILD_FROM({ 0, UINT64_C(1) << 40, REGION_RAM });
    for (uint64_t i = 0; i < MEMORY_RANGE_COUNT_MAX + 10; i++)
        memory_map_remove(&map, (2 * i + 1) << 12, (2 * i + 2) << 12);
    assert_true(map.cut);
    assert_int_equal(map.count, MEMORY_RANGE_COUNT_MAX);
    for (size_t i = 0; i < map.count; i++)
        assert_range(i, 2 * i << 12, (2 * i + 1) << 12);
}

enum { MODEL_PAGES = 64 };

TEST(map_of_random_regions_equals_a_table_of_pages)
{
    random_seed(20220217);
    for (int round = 0; round < 5000; round++) {
        struct memory_region regions[12];
        size_t count = random_below(12);
        bool ram[MODEL_PAGES] = { 0 };
        for (size_t i = 0; i < count; i++) {
            regions[i].base = random_below(MODEL_PAGES * 4096);
            regions[i].bytes = 1 + random_below(MODEL_PAGES * 4096 - regions[i].base);
            regions[i].type = random_below(3) ? REGION_RAM : REGION_RESERVED;
        }
        for (uint64_t page = 0; page < MODEL_PAGES; page++) { /* whole in RAM, and touched by no other region */
            const uint64_t at = page * 4096;
            bool other = false;
            for (size_t i = 0; i < count; i++) {
                const uint64_t begin = regions[i].base, end = begin + regions[i].bytes;
                ram[page] |= regions[i].type == REGION_RAM && begin <= at && at + 4096 <= end;
                other |= regions[i].type != REGION_RAM && begin < at + 4096 && at < end;
            }
            ram[page] &= !other;
        }
        memory_map_build(&map, regions, count);
        bool said[MODEL_PAGES] = { 0 };
        for (size_t i = 0; i < map.count; i++) {
            assert_true(map.ranges[i].begin < map.ranges[i].end);
            assert_true(i == 0 || map.ranges[i - 1].end < map.ranges[i].begin);
            for (uint64_t at = map.ranges[i].begin; at < map.ranges[i].end; at += 4096)
                said[at / 4096] = true;
        }
        assert_memory_equal(said, ram, sizeof ram);
        uint64_t begin = random_below(MODEL_PAGES), end = begin + random_below((uint32_t)(MODEL_PAGES - begin)) + 1;
        assert_true(memory_map_holds(&map, begin * 4096, end * 4096)
                    == (memchr(ram + begin, false, end - begin) == NULL));
    }
}
