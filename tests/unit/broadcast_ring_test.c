/* base/broadcast_ring.h: records are whole and in order, or known to be lost; in one thread, and with two readers. */
#include <pthread.h>
#include <sched.h>

#include "base/broadcast_ring.h"
#include "tests/lib/test.h"

enum { SLOTS = 16, WORDS = 7, RECORDS = 50000 };
static struct broadcast_ring ring;
static uint64_t slots[SLOTS * (1 + WORDS)];

BEFORE_EACH()
{
    assert_int_equal(broadcast_bytes(SLOTS, WORDS), sizeof slots);
    memset(slots, 0, sizeof slots);
    ring = (struct broadcast_ring){ slots, SLOTS, 1 + WORDS, 0 };
}

static uint64_t word_of(uint64_t number, uint64_t index) { return number * 31 + index * 1000003; }

static void fill(uint64_t *words, uint64_t number)
{
    for (uint64_t i = 0; i < WORDS; i++)
        seqlock_write_word(&words[i], word_of(number, i));
}

static void put(void)
{
    uint64_t number = broadcast_number(&ring);
    fill(broadcast_write_begin(&ring, number), number);
    broadcast_write_end(&ring, number);
}

/* Reads a record, which must be whole if it is there. */
static enum broadcast_result take(uint64_t number)
{
    uint64_t words[WORDS];
    enum broadcast_result result = broadcast_read(&ring, number, words);
    for (uint64_t i = 0; result == BROADCAST_READ && i < WORDS; i++)
        if (words[i] != word_of(number, i))
            fail_msg("record %llu is not whole", (unsigned long long)number);
    return result;
}

TEST(each_reader_sees_every_record_in_order)
{
    uint64_t next[2] = { 1, 1 };
    for (int lap = 0; lap < 100; lap++) {
        for (int i = 0; i < SLOTS; i++)
            put();
        for (size_t reader = 0; reader < ARRAY_COUNT(next); reader++) {
            while (take(next[reader]) == BROADCAST_READ)
                next[reader]++;
            assert_int_equal(next[reader], ring.newest + 1);
            assert_int_equal(take(next[reader]), BROADCAST_NOT_YET);
        }
    }
}

TEST(reader_that_is_overrun_knows_how_many_it_lost)
{
    for (int i = 0; i < SLOTS + 5; i++)
        put();
    for (uint64_t number = 1; number <= 5; number++)
        assert_int_equal(take(number), BROADCAST_OVERRUN);
    assert_int_equal(broadcast_oldest(&ring), 6);
    for (uint64_t number = 6; number <= SLOTS + 5; number++)
        assert_int_equal(take(number), BROADCAST_READ);
    assert_int_equal(take(SLOTS + 6), BROADCAST_NOT_YET);
}

TEST(record_that_is_being_written_is_neither_the_old_nor_the_new_one)
{
    for (int i = 0; i < SLOTS; i++)
        put();
    uint64_t number = broadcast_number(&ring);
    assert_int_equal(take(1), BROADCAST_READ); /* the number alone changes no slot */
    uint64_t *words = broadcast_write_begin(&ring, number);
    assert_int_equal(take(1), BROADCAST_OVERRUN);
    assert_int_equal(take(number), BROADCAST_NOT_YET);
    fill(words, number);
    assert_int_equal(take(number), BROADCAST_NOT_YET);
    broadcast_write_end(&ring, number);
    assert_int_equal(take(number), BROADCAST_READ);
    assert_int_equal(take(number + SLOTS), BROADCAST_NOT_YET);
}

TEST(numbers_are_written_in_any_order_unless_they_are_too_old)
{
    uint64_t first = broadcast_number(&ring), second = broadcast_number(&ring);
    fill(broadcast_write_begin(&ring, second), second);
    broadcast_write_end(&ring, second);
    assert_int_equal(take(first), BROADCAST_NOT_YET);
    assert_int_equal(take(second), BROADCAST_READ);
    for (int i = 0; i < SLOTS - 2; i++)
        put();
    fill(broadcast_write_begin(&ring, first), first);
    broadcast_write_end(&ring, first);
    assert_int_equal(take(first), BROADCAST_READ);
    put();
    assert_null(broadcast_write_begin(&ring, first));
    broadcast_change(&ring, first, 0, 1);
    assert_int_equal(take(first), BROADCAST_OVERRUN);
    assert_int_equal(take(first + SLOTS), BROADCAST_READ);
}

TEST(single_word_changes_in_place)
{
    uint64_t words[WORDS];
    put();
    broadcast_change(&ring, 1, WORDS - 1, 5);
    assert_int_equal(broadcast_read(&ring, 1, words), BROADCAST_READ);
    assert_int_equal(words[WORDS - 1], 5);
    assert_int_equal(words[0], word_of(1, 0));
}

struct reader {
    pthread_t thread;
    uint64_t seen, lost;
};

/* Reads up to the last record. */
static void *read_all(void *argument)
{
    struct reader *reader = argument;
    for (uint64_t number = 1; number <= RECORDS;) {
        enum broadcast_result result = take(number);
        uint64_t oldest = broadcast_oldest(&ring);
        if (result == BROADCAST_READ) {
            reader->seen++;
            number++;
        } else if (result == BROADCAST_OVERRUN && oldest > number) {
            reader->lost += oldest - number;
            number = oldest;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

TEST(two_readers_see_whole_records_beside_a_writer_that_does_not_wait)
{
    struct reader readers[2] = { 0 };
    for (size_t i = 0; i < ARRAY_COUNT(readers); i++)
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    for (int i = 0; i < RECORDS; i++) {
        put();
        if (i % (2 * SLOTS) == 0)
            sched_yield();
    }
    for (size_t i = 0; i < ARRAY_COUNT(readers); i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].seen + readers[i].lost, RECORDS);
        assert_in_range(readers[i].seen, SLOTS, RECORDS); /* the last ones are not overrun */
    }
}
