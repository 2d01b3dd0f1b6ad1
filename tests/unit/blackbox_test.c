/* kernel/rescue/blackbox.c, read back by a reader written from docs/blackbox.md. (tests/guest/test_record.py uses the
 * reader of tools/deploy/blackbox.py.) */
#include "base/format.h"
#include "base/log.h"
#include "base/version.h"
#include "kernel/rescue/blackbox.h"
#include "tests/lib/test.h"

/* One region of each shape. blackbox.c takes at most four regions, and never gives one back. */
enum { SMALL_BYTES = 4096, ODD_BYTES = 3 * 4096, LARGE_BYTES = 128 * 1024 };
static uint8_t small[SMALL_BYTES], odd[ODD_BYTES], large[LARGE_BYTES];

static size_t statistics(size_t index, char *out, size_t out_bytes)
{
    return index < 20 ? format(out, out_bytes, "counter.%zu %zu\n", index, index * index) : 0;
}

static size_t trapping_count;
static size_t statistics_that_trap(size_t index, char *out, size_t out_bytes)
{
    if (index == 3) {
        trapping_count++;
        blackbox_write(BLACKBOX_FAILED, "a trap inside a trap");
    }
    return statistics(index, out, out_bytes);
}

/* Computes the checksum by the polynomial, a bit at a time. */
static uint32_t crc32_plain(const uint8_t *at, size_t bytes)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static bool valid(const uint8_t *slot, size_t slot_bytes)
{
    static uint8_t copy[LARGE_BYTES];
    if (memcmp(slot, "PEREGBOX", 8) != 0)
        return false;
    size_t bytes = load_le32(slot + 12);
    assert_true(bytes >= 64 && bytes <= slot_bytes);
    memcpy(copy, slot, bytes);
    memset(copy, 0, 8);
    memset(copy + 16, 0, 4);
    return crc32_plain(copy, bytes) == load_le32(slot + 16);
}

/* Returns the newest valid slot of a region. */
static const uint8_t *newest(const uint8_t *region, size_t slot_bytes)
{
    const uint8_t *first = region, *second = region + slot_bytes;
    bool first_valid = valid(first, slot_bytes), second_valid = valid(second, slot_bytes);
    assert_true(first_valid || second_valid);
    if (first_valid && second_valid)
        return load_le64(first + 24) > load_le64(second + 24) ? first : second;
    return first_valid ? first : second;
}

/* Returns a section's payload, or NULL. Fails if the sections do not fill the record. */
static const uint8_t *section(const uint8_t *slot, uint32_t type, size_t *bytes)
{
    const uint8_t *found = NULL;
    size_t at = 64, end = load_le32(slot + 12);
    static const char order[] = { 0, 1, 6, 2, 3, 4, 5, 7 }; /* the table's */
    const char *place = order;
    while (at < end) {
        uint32_t kind = load_le32(slot + at), count = load_le32(slot + at + 4);
        place = memchr(place + 1, (int)kind, (size_t)(order + sizeof order - place - 1));
        assert_non_null(place); /* each once, in this order */
        if (kind == type) {
            found = slot + at + 8;
            *bytes = count;
        }
        at += 8 + ((count + 7) & ~(size_t)7);
    }
    assert_int_equal(at, end);
    return found;
}

static void assert_section(const uint8_t *slot, uint32_t type, const char *text)
{
    size_t bytes;
    const uint8_t *at = section(slot, type, &bytes);
    assert_non_null(at);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(at, text, bytes);
}

BEFORE_ALL()
{
    memcpy(small, "PEREGBOX old", 12);
    memcpy(small + 2048, "PEREGBOX old", 12);
    blackbox_add_region(small, sizeof small);
    blackbox_add_region(odd, sizeof odd);
    blackbox_add_region(large, sizeof large);
    blackbox_set_statistics(statistics);
}

TEST(a_record_of_an_earlier_run_is_invalidated)
{
    assert_memory_not_equal(small, "PEREGBOX", 8);
    assert_memory_not_equal(small + 2048, "PEREGBOX", 8);
}

TEST(a_record_holds_cause_statistics_and_log)
{
    log_clock_ns = 7000000000;
    log_line("one");
    log_line("two");
    blackbox_write(BLACKBOX_REQUESTED, "gg");
    const uint8_t *slot = newest(large, LARGE_BYTES / 2);
    assert_int_equal(load_le32(slot + 8), 1);
    assert_int_equal(load_le32(slot + 20), 1);
    assert_int_equal(load_le64(slot + 32), 7000000000);
    assert_section(slot, 1, "gg");
    assert_section(slot, 6, version_text);
    assert_section(slot, 5, "[    7.000000] one\n[    7.000000] two\n");
    size_t bytes;
    assert_null(section(slot, 2, &bytes));
    assert_null(section(slot, 3, &bytes));
    const uint8_t *text = section(slot, 4, &bytes);
    assert_memory_equal(text, "counter.0 0\ncounter.1 1\n", 24);
    assert_memory_equal(text + bytes - 15, "counter.19 361\n", 15);
    assert_int_equal(load_le64(newest(small, 2048) + 24), load_le64(slot + 24));
    assert_int_equal(load_le64(newest(odd, 4096) + 24), load_le64(slot + 24));
}

TEST(records_alternate_between_the_slots)
{
    for (int i = 0; i < 5; i++) {
        const uint8_t *before = newest(odd, 4096);
        uint64_t sequence = load_le64(before + 24);
        blackbox_write(BLACKBOX_RUNNING, "");
        const uint8_t *after = newest(odd, 4096);
        assert_ptr_not_equal(before, after);
        assert_int_equal(load_le64(after + 24), sequence + 1);
        assert_true(valid(before, 4096));
    }
}

TEST(a_record_cut_off_at_any_step_leaves_the_one_before)
{
    for (int steps = 0;; steps++) {
        blackbox_write(BLACKBOX_REQUESTED, "whole");
        uint64_t sequence = load_le64(newest(odd, 4096) + 24);
        blackbox_begin();
        bool more = true;
        for (int i = 0; i < steps && more; i++)
            more = blackbox_step();
        assert_in_range(load_le64(newest(small, 2048) + 24), sequence, sequence + 1);
        assert_in_range(load_le64(newest(odd, 4096) + 24), sequence, sequence + 1);
        if (!more)
            break;
        if (load_le64(newest(odd, 4096) + 24) == sequence)
            assert_section(newest(odd, 4096), 1, "whole");
    }
}

TEST(a_log_too_long_is_cut_at_its_old_end)
{
    for (int i = 0; i < 1500; i++)
        log_line("line %d", i);
    blackbox_write(BLACKBOX_FAILED, "panic");
    for (int i = 0; i < 2; i++) {
        const uint8_t *slot = i == 0 ? newest(small, 2048) : newest(odd, 4096);
        size_t slot_bytes = i == 0 ? 2048 : 4096, bytes;
        const uint8_t *log = section(slot, 5, &bytes);
        static const char last[] = "[    7.000000] line 1499\n";
        assert_true(bytes + 64 > slot_bytes - load_le32(slot + 12) && bytes > 500);
        assert_int_equal(log[0], '[');
        assert_memory_equal(log + bytes - strlen(last), last, strlen(last));
        assert_true(slot_bytes - load_le32(slot + 12) < 40); /* one more line would not fit */
    }
}

/* Writes blocks of 100 bytes: the first is full of 0, the next of 1. */
static size_t blocks(size_t index, char *out, size_t out_bytes)
{
    if (index == 30 || out_bytes < 100)
        return 0;
    memset(out, (int)index, 100);
    return 100;
}

TEST(frames_share_the_room_with_a_long_log)
{
    size_t bytes, log_bytes;
    blackbox_set_frames(blocks);
    blackbox_write(BLACKBOX_FAILED, "panic"); /* with the log of the test before */
    const uint8_t *at = section(newest(large, LARGE_BYTES / 2), 7, &bytes);
    assert_int_equal(bytes, 30 * 100);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(at[i], i / 100);
    at = section(newest(odd, 4096), 7, &bytes);
    assert_non_null(section(newest(odd, 4096), 5, &log_bytes));
    assert_true(bytes % 100 == 0 && bytes >= 1500 && log_bytes >= 1500); /* 4096 less 64, a cause, and statistics */
    blackbox_set_frames(NULL);
    blackbox_write(BLACKBOX_FAILED, "panic");
    assert_null(section(newest(large, LARGE_BYTES / 2), 7, &bytes));
}

TEST(a_trap_while_statistics_are_written_leaves_them_out)
{
    blackbox_set_statistics(statistics_that_trap);
    blackbox_write(BLACKBOX_FAILED, "panic");
    assert_true(trapping_count > 0);
    const uint8_t *slot = newest(large, LARGE_BYTES / 2);
    size_t bytes;
    assert_section(slot, 1, "a trap inside a trap");
    assert_null(section(slot, 4, &bytes));
    assert_non_null(section(slot, 5, &bytes));
    blackbox_set_statistics(statistics);
}

TEST(registers_and_addresses_are_recorded)
{
    uint64_t registers[BLACKBOX_REGISTER_COUNT];
    for (size_t i = 0; i < BLACKBOX_REGISTER_COUNT; i++)
        registers[i] = 0x1000 + i;
    blackbox_note_registers(registers);
    for (uint64_t i = 0; i < 100; i++)
        blackbox_note_address(0x1000000 + i);
    blackbox_write(BLACKBOX_FAILED, "page fault");
    size_t bytes;
    const uint8_t *slot = newest(small, 2048), *at = section(slot, 2, &bytes);
    assert_int_equal(bytes, 26 * 8);
    assert_int_equal(load_le64(at + 25 * 8), 0x1000 + 25);
    at = section(slot, 3, &bytes);
    assert_int_equal(bytes, BLACKBOX_ADDRESS_COUNT_MAX * 8);
    assert_int_equal(load_le64(at + 8), 0x1000001);
}
