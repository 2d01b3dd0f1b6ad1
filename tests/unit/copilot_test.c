/* app/copilot.c: the second CPU's early answers against those of a matcher that has them itself; two threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/copilot.h"
#include "kernel/base/bytes.h"

enum { STREAM_DIGITS = 100000, ANSWERS_MAX = 4000, BETWEEN_DIGITS = 400 };
static const char CONSTANT[] = "125000000000000140750000000000052207500000000006359661";

static uint8_t stream[STREAM_DIGITS];

struct early { uint64_t end; uint32_t count, ahead; };
struct list { struct early answers[ANSWERS_MAX]; size_t count; };

static void seeded(void)
{
    const char *given = getenv("SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : 20220217;
    print_message("SEED=%u\n", seed);
    srand(seed);
}

/* CONSTANT times a factor, in decimal; returns the digits. */
static size_t multiple(uint8_t *out, uint64_t factor)
{
    uint8_t reversed[96];
    size_t count = 0;
    unsigned __int128 carry = 0;
    for (size_t i = strlen(CONSTANT); i-- > 0;) {
        carry += (unsigned __int128)factor * (unsigned)(CONSTANT[i] - '0');
        reversed[count++] = (uint8_t)('0' + (int)(carry % 10));
        carry /= 10;
    }
    for (; carry > 0; carry /= 10)
        reversed[count++] = (uint8_t)('0' + (int)(carry % 10));
    for (size_t i = 0; i < count; i++)
        out[i] = reversed[count - 1 - i];
    return count;
}

/* Random digits with a multiple planted now and then. */
static void make_stream(void)
{
    for (size_t i = 0; i < STREAM_DIGITS; i++)
        stream[i] = (uint8_t)('0' + rand() % 10);
    for (size_t at = 0; at + BETWEEN_DIGITS < STREAM_DIGITS; at += BETWEEN_DIGITS + (size_t)(rand() % 100))
        multiple(stream + at, (uint64_t)rand() << 31 | (uint64_t)rand() | 1);
}

static struct matcher_config path_config(void)
{
    return (struct matcher_config){ .n_digits_max = 256, .constant_count = 1, .constants = { CONSTANT },
                                    .early = true, .early_risk = 1e-5 };
}

static void take(struct list *list, const struct matcher_answer *answer)
{
    assert_true(list->count < ANSWERS_MAX);
    list->answers[list->count++] = (struct early){ answer->end, answer->count, answer->ahead };
}

static size_t next_burst(size_t at) { return min_size(20 + (size_t)(rand() % 120), STREAM_DIGITS - at); }

/* Burst for burst on one thread, each side given all the time it wants. */
static void early_answers_are_those_of_a_matcher_that_has_them_itself(void **state)
{
    (void)state;
    seeded();
    make_stream();
    static struct list expected, actual;
    expected.count = actual.count = 0;
    struct matcher *plain;
    struct matcher_config config = path_config(), second = path_config();
    assert_null(matcher_init(&plain, &config));
    assert_null(copilot_init(&second));
    assert_false(second.early);         /* the path's has them no more */
    for (size_t at = 0, count; at < STREAM_DIGITS; at += count) {
        count = next_burst(at);
        struct matcher_answer answer;
        matcher_begin(plain, stream + at, count);
        while (matcher_next(plain, &answer))
            continue;
        while (matcher_prepare(plain))
            while (matcher_next_early(plain, &answer))
                take(&expected, &answer);
        while (matcher_next_early(plain, &answer))
            take(&expected, &answer);
        copilot_digits(stream + at, count, false);
        while (copilot_turn())
            continue;
        while (copilot_answer(&answer))
            take(&actual, &answer);
    }
    assert_true(expected.count > 20);
    assert_int_equal(actual.count, expected.count);
    assert_memory_equal(actual.answers, expected.answers, expected.count * sizeof expected.answers[0]);
}

static bool playing;

static void *second_cpu(void *unused)
{
    (void)unused;
    for (bool on = true, worked = true; on || worked;) {
        on = __atomic_load_n(&playing, __ATOMIC_ACQUIRE);
        worked = copilot_turn();
    }
    return NULL;
}

static uint64_t counter(const char *name)
{
    for (size_t i = 0; i < copilot_counter_group.count; i++)
        if (!strcmp(copilot_counter_group.counters[i].name, name))
            return *copilot_counter_group.counters[i].value;
    fail_msg("no counter %s", name);
    return 0;
}

/* As fast as it goes, on two threads: what comes back is digit for digit what the stream holds. */
static void two_cpus_lose_nothing_but_what_they_count(void **state)
{
    (void)state;
    seeded();
    make_stream();
    struct matcher_config second = path_config();
    assert_null(copilot_init(&second));
    playing = true;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, second_cpu, NULL), 0);
    size_t right = 0, answers = 0;
    struct matcher_answer answer;
    for (size_t at = 0, count; at < STREAM_DIGITS; at += count) {
        count = next_burst(at);
        copilot_digits(stream + at, count, false);
        bool wait = rand() % 8 == 0;    /* now and then for all that the second CPU can find */
        do {
            while (copilot_answer(&answer)) {
                answers++;
                right += answer.end <= STREAM_DIGITS && !memcmp(answer.digits, stream + answer.end - answer.count, answer.count);
            }
            copilot_counters_refresh();
        } while (wait && counter("copilot.digits") < at + count);
    }
    __atomic_store_n(&playing, false, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    while (copilot_answer(&answer))
        answers++;
    copilot_counters_refresh();
    assert_int_equal(counter("copilot.digits") + counter("copilot.digits_lost"), STREAM_DIGITS);
    assert_int_equal(counter("copilot.digits_lost"), 0);
    print_message("%zu answers, %zu of them right when they came\n", answers, right);
    assert_true(right > 0);
}

/* Nobody takes them: the ring fills, the rest is counted, and the stream begins anew behind the hole. */
static void digits_without_room_are_a_gap(void **state)
{
    (void)state;
    struct matcher_config second = path_config();
    assert_null(copilot_init(&second));
    static uint8_t digits[60000];
    uint8_t planted[96];
    memset(digits, '7', sizeof digits);
    size_t count = multiple(planted, 123456789);
    for (int i = 0; i < 8; i++)
        copilot_digits(digits, sizeof digits, false);
    while (copilot_turn())
        continue;
    copilot_counters_refresh();
    assert_true(counter("copilot.digits_lost") >= 4 * 60000);
    uint64_t before = counter("copilot.digits");
    copilot_digits(planted, count - 8, false);
    while (copilot_turn())
        continue;
    struct matcher_answer answer;
    assert_true(copilot_answer(&answer));
    assert_int_equal(answer.ahead, 8);
    assert_int_equal(answer.end, before + count);   /* positions go on counting behind the hole */
    assert_false(copilot_answer(&answer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_answers_are_those_of_a_matcher_that_has_them_itself),
        cmocka_unit_test(two_cpus_lose_nothing_but_what_they_count),
        cmocka_unit_test(digits_without_room_are_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
