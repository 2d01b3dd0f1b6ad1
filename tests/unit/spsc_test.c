/* base/spsc.h: records of all lengths, in order and whole, in one thread and between two. */
#include <pthread.h>
#include <sched.h>

#include "base/spsc.h"
#include "tests/lib/test.h"

enum { CELL_COUNT = 16, RECORD_BYTES_MAX = 300, RECORDS = 20000 };
static struct spsc ring;
static struct spsc_cell cells[CELL_COUNT];

BEFORE_EACH()
{
    memset(&ring, 0, sizeof ring);
    memset(cells, 0, sizeof cells);
}

/* Writes record `number`, and returns its length: from one byte to several cells. */
static size_t make(uint32_t number, uint8_t record[RECORD_BYTES_MAX])
{
    size_t bytes = 1 + number * 2654435761u % RECORD_BYTES_MAX;
    for (size_t i = 0; i < bytes; i++)
        record[i] = (uint8_t)(number + i * 7);
    return bytes;
}

static bool put(uint32_t number)
{
    uint8_t record[RECORD_BYTES_MAX];
    size_t bytes = make(number, record);
    return spsc_put(&ring, cells, CELL_COUNT, record, bytes);
}

/* Takes a record, which must be `number`. False: the ring is empty. */
static bool take(uint32_t number)
{
    uint8_t record[RECORD_BYTES_MAX], wanted[RECORD_BYTES_MAX];
    size_t bytes = spsc_take(&ring, cells, CELL_COUNT, record, sizeof record);
    if (bytes == 0)
        return false;
    if (bytes != make(number, wanted) || memcmp(record, wanted, bytes) != 0)
        fail_msg("record %u is not whole, or not the next", number);
    return true;
}

TEST(records_come_whole_and_in_order_over_many_laps)
{
    uint32_t given = 0, taken = 0;
    while (taken < RECORDS) {
        while (put(given))
            given++;
        assert_true(given > taken);
        for (uint32_t some = 1 + taken % 3; some > 0 && take(taken); some--)
            taken++;
    }
}

TEST(full_ring_takes_nothing_and_changes_nothing)
{
    uint8_t record[SPSC_CELL_DATA_BYTES] = { 1 };
    for (int i = 0; i < CELL_COUNT; i++)
        assert_true(spsc_put(&ring, cells, CELL_COUNT, record, sizeof record));
    assert_false(spsc_put(&ring, cells, CELL_COUNT, record, 1));
    assert_int_equal(spsc_take(&ring, cells, CELL_COUNT, record, sizeof record), sizeof record);
    assert_false(spsc_put(&ring, cells, CELL_COUNT, cells, SPSC_CELL_DATA_BYTES + 1)); /* two cells: only one is free */
    assert_true(spsc_put(&ring, cells, CELL_COUNT, record, 1));
}

TEST(empty_ring_gives_nothing)
{
    uint8_t record[1];
    assert_int_equal(spsc_take(&ring, cells, CELL_COUNT, record, sizeof record), 0);
    assert_true(spsc_put(&ring, cells, CELL_COUNT, "x", 1));
    assert_int_equal(spsc_take(&ring, cells, CELL_COUNT, record, sizeof record), 1);
    assert_int_equal(spsc_take(&ring, cells, CELL_COUNT, record, sizeof record), 0);
}

/* Puts records whose bytes equal turn numbers of a later lap, in cells that begin a record in that lap. */
TEST(bytes_of_a_record_are_no_turn)
{
    uint64_t numbers[RECORD_BYTES_MAX / 8], taken[RECORD_BYTES_MAX / 8];
    for (uint64_t lap = 0; lap < 1000; lap++) {
        for (size_t i = 0; i < ARRAY_COUNT(numbers); i++)
            numbers[i] = ring.put + i + 1 + CELL_COUNT;
        assert_true(spsc_put(&ring, cells, CELL_COUNT, numbers, sizeof numbers));
        assert_int_equal(spsc_take(&ring, cells, CELL_COUNT, taken, sizeof taken), sizeof numbers);
        assert_memory_equal(taken, numbers, sizeof numbers);
        assert_int_equal(spsc_take(&ring, cells, CELL_COUNT, taken, sizeof taken), 0);
    }
}

static void *put_all(void *unused)
{
    for (uint32_t number = 0; number < RECORDS;)
        if (put(number))
            number++;
        else
            sched_yield();
    return unused;
}

TEST(two_threads_pass_records_whole)
{
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, put_all, NULL), 0);
    for (uint32_t number = 0; number < RECORDS;)
        if (take(number))
            number++;
        else
            sched_yield();
    pthread_join(other, NULL);
}
