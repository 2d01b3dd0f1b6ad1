/* app/player/send_queue.c, against a plain model of it: lists of answers. */
#include "app/player/send_queue.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

static bool put(const char *digits, uint64_t now_ns)
{
    return send_queue_append((const uint8_t *)digits, strlen(digits), now_ns);
}

static void assert_entry(const struct send_queue_entry *entry, const char *digits)
{
    assert_non_null(entry);
    assert_int_equal(entry->count, strlen(digits));
    assert_memory_equal(entry->digits, digits, strlen(digits));
}

TEST(an_answer_waits_is_sent_and_answered)
{
    send_queue_init();
    assert_null(send_queue_next());
    assert_null(send_queue_oldest());
    assert_true(put("823", 5));
    assert_true(put("108", 6));
    assert_entry(send_queue_next(), "823");
    assert_int_equal(send_queue_next()->offered_ns, 5);
    send_queue_sent(7, 100);
    assert_entry(send_queue_next(), "108");
    assert_entry(send_queue_oldest(), "823");
    assert_int_equal(send_queue_oldest()->sent_ns, 7);
    assert_int_equal(send_queue_oldest()->stream_end, 100);
    assert_int_equal(send_queue_waiting_count(), 1);
    assert_int_equal(send_queue_unanswered_count(), 1);
    send_queue_remove_oldest();
    assert_null(send_queue_oldest());
    send_queue_sent(8, 200);
    assert_entry(send_queue_oldest(), "108");
    send_queue_remove_oldest();
    assert_null(send_queue_next());
}

TEST(an_answer_that_is_sent_again_waits_after_the_others_with_its_times)
{
    send_queue_init();
    assert_true(put("1", 3) && put("2", 4) && put("3", 5));
    send_queue_sent(6, 10);
    send_queue_sent(7, 20);
    assert_true(send_queue_send_oldest_again());
    assert_entry(send_queue_oldest(), "2");
    assert_entry(send_queue_next(), "3");
    send_queue_sent(8, 30);
    assert_entry(send_queue_next(), "1");
    assert_int_equal(send_queue_next()->offered_ns, 3);
    assert_int_equal(send_queue_next()->sent_ns, 6);
    assert_int_equal(send_queue_waiting_count(), 1);
    assert_int_equal(send_queue_unanswered_count(), 2);
    static char longest[60001];
    memset(longest, '7', sizeof longest - 1);
    while (put(longest, 9)) {
    }
    assert_false(send_queue_has_room(60000));
    send_queue_sent(10, 40);
    send_queue_remove_oldest();
    send_queue_remove_oldest();
    while (put("5", 9)) {
    }
    while (put("", 9)) {
    }
    assert_false(send_queue_send_oldest_again());
    send_queue_check();
}

TEST(a_dropped_answer_stays_dropped_when_the_sent_ones_are_taken_back)
{
    send_queue_init();
    assert_true(put("1", 0) && put("2", 0) && put("3", 0) && put("4", 0));
    send_queue_sent(0, 0);
    send_queue_drop();
    send_queue_sent(0, 0);
    assert_entry(send_queue_next(), "4");
    send_queue_take_back();
    assert_int_equal(send_queue_waiting_count(), 3);
    assert_int_equal(send_queue_unanswered_count(), 0);
    assert_entry(send_queue_next(), "1");
    send_queue_sent(0, 0);
    assert_entry(send_queue_next(), "3");
    send_queue_sent(0, 0);
    assert_entry(send_queue_next(), "4");
    send_queue_remove_oldest();
    assert_entry(send_queue_oldest(), "3");
}

/* Drops all answers but each hundredth, which are sent; then those as well. */
TEST(dropped_answers_become_one_entry)
{
    enum { ANSWERS = 60000 };
    send_queue_init();
    for (int i = 0; i < ANSWERS; i++)
        assert_true(put("42", 0));
    const struct send_queue_entry *first = send_queue_next(), *second = NULL;
    send_queue_sent(0, 0);
    for (int i = 1; i < ANSWERS; i++)
        if (i % 100 == 0)
            send_queue_sent(0, 0);
        else if (second)
            send_queue_drop();
        else {
            second = send_queue_next();
            send_queue_drop();
        }
    uint32_t bytes = first->bytes;
    assert_int_equal(second->bytes, 99 * bytes);
    assert_int_equal(send_queue_unanswered_count(), ANSWERS / 100);
    send_queue_take_back();
    send_queue_sent(0, 0);
    while (send_queue_next())
        send_queue_drop();
    assert_int_equal(second->bytes, (ANSWERS - 1) * bytes);
    assert_int_equal(send_queue_waiting_count(), 0);
    send_queue_remove_oldest();
    assert_null(send_queue_oldest());
    assert_true(send_queue_has_room(2));
    assert_int_equal(send_queue_used_bytes(), 0);
}

/* The model: every answer ever put, with its state. */
enum { MODEL_MAX = 400000 };
static struct model {
    uint32_t seed;
    uint16_t count;
    char state; /* w: waiting, s: sent, -: gone */
} model[MODEL_MAX];

static void digits_of(const struct model *m, uint8_t *out)
{
    uint64_t state = m->seed;
    for (size_t i = 0; i < m->count; i++)
        out[i] = (uint8_t)('0' + random_from(&state) % 10);
}

static void assert_model(struct send_queue_entry *entry, const struct model *m)
{
    uint8_t digits[1024];
    digits_of(m, digits);
    assert_non_null(entry);
    assert_int_equal(entry->count, m->count);
    assert_memory_equal(entry->digits, digits, m->count);
}

TEST(the_ring_equals_the_model)
{
    random_seed(20220217);
    send_queue_init();
    size_t put_count = 0, oldest = 0, next = 0, refused = 0;
    for (size_t step = 0; step < 600000 && put_count < MODEL_MAX; step++) {
        send_queue_check();
        /* Alternates between filling to the brim and draining. */
        int action = random_below(16), filling = step / 40000 % 2;
        while (next < put_count && model[next].state == '-')
            next++;
        while (oldest < next && model[oldest].state == '-')
            oldest++;
        if (action < (filling ? 12 : 4)) {
            struct model *m = &model[put_count];
            uint8_t digits[1024];
            *m = (struct model){ (uint32_t)random_next(),
                                 (uint16_t)(1 + (random_below(8) ? random_below(300) : random_below(1024))), 'w' };
            digits_of(m, digits);
            if (send_queue_append(digits, m->count, put_count))
                put_count++;
            else
                refused++;
        } else if (action < 13 && next < put_count) {
            assert_model(send_queue_next(), &model[next]);
            assert_int_equal(send_queue_next()->offered_ns, next);
            if (random_below(10))
                send_queue_sent(0, 0), model[next++].state = 's';
            else
                send_queue_drop(), model[next++].state = '-';
        } else if (action < 15 && oldest < next) {
            assert_model(send_queue_oldest(), &model[oldest]);
            send_queue_remove_oldest();
            model[oldest++].state = '-';
        } else if (random_below(1000) == 0) {
            send_queue_take_back();
            next = oldest;
            for (size_t i = oldest; i < put_count; i++)
                if (model[i].state == 's')
                    model[i].state = 'w';
        }
    }
    assert_true(refused > 0 && put_count > 100000);
}

TEST(room_is_used_up_to_the_stated_bytes)
{
    static const size_t counts[] = { 1024, 1024 - sizeof(struct send_queue_entry) }; /* the second divides the ring */
    uint8_t digits[1024];
    memset(digits, '7', sizeof digits);
    for (size_t i = 0; i < 2; i++) {
        size_t count = 0;
        send_queue_init();
        while (send_queue_append(digits, counts[i], 0))
            count++;
        assert_int_equal(count, SEND_QUEUE_BYTES / (sizeof(struct send_queue_entry) + counts[i]));
        send_queue_sent(0, 0);
        send_queue_remove_oldest();
        assert_true(send_queue_append(digits, counts[i], 0));
        assert_false(send_queue_append(digits, counts[i], 0));
    }
}
