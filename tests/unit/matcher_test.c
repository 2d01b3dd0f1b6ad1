/* app/matcher.h: its contract, on streams short enough to check by eye. Streams at length: tests/matcher. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/matcher.h"

static struct matcher *matcher_of(uint32_t n, const char *first, const char *second)
{
    struct matcher_config config = {.n_digits_max = n, .constant_count = second != NULL ? 2 : 1,
                                    .constants = {first, second}};
    struct matcher *matcher;
    assert_null(matcher_init(&matcher, &config));
    return matcher;
}

struct told { uint64_t end; uint32_t count; char text[100]; };

static int told_compare(const void *a, const void *b)
{
    const struct told *x = a, *y = b;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : (x->count < y->count) - (x->count > y->count);
}

/* Plays one burst and returns its answers, "digits@end" each, separated by blanks. They come in no order; here they
 * stand in order of their ends, the longest first. */
static const char *answers_of(struct matcher *matcher, const char *burst)
{
    static char text[8192];
    struct matcher_answer answer;
    struct told told[64];
    size_t used = 0, count = 0;
    text[0] = 0;
    matcher_begin(matcher, (const uint8_t *)burst, strlen(burst));
    while (matcher_next(matcher, &answer)) {
        assert_in_range(count, 0, 63);
        told[count] = (struct told){.end = answer.end, .count = answer.count};
        snprintf(told[count++].text, sizeof told[0].text, "%.*s@%llu", (int)answer.count, (const char *)answer.digits,
                 (unsigned long long)answer.end);
    }
    qsort(told, count, sizeof told[0], told_compare);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "", told[i].text);
    while (matcher_prepare(matcher))
        continue;
    return text;
}

static void matcher_finds_the_examples_of_the_rules(void **state)
{
    (void)state;
    assert_string_equal(answers_of(matcher_of(1, "3", NULL), "123456789"), "3@3 6@6 9@9");
    assert_string_equal(answers_of(matcher_of(6, "823", "108"), "123456789987654321"),
                        "12345@5 3456@6 9876@13 432@17");
}

static void matcher_answers_once_what_both_constants_divide(void **state)
{
    (void)state;
    assert_string_equal(answers_of(matcher_of(3, "2", "3"), "126"), "12@2 2@2 126@3 26@3 6@3");
}

/* p, 3 p and 8 p divide it; of 8 p the last digit does not tell. In one burst, and in two: so that the start is in the
 * burst, or before it. */
static void matcher_answers_once_what_three_looks_find(void **state)
{
    (void)state;
    static const char *const number = "2480551282353889923388157041790079467388214018872", *const seven = "77777777777777777777";
    struct matcher_config config = {.n_digits_max = 64, .constant_count = 3,
                                    .constants = {"104648257118348370704723119", "313944771355045112114169357",
                                                  "837186056946786965637784952"}};
    for (config.simd = MATCHER_SIMD_SCALAR; config.simd <= MATCHER_SIMD_AVX512; config.simd++)
        for (size_t before = 0; before <= 30 && matcher_simd_usable(config.simd); before += 10) {
            struct matcher *matcher;
            char first[64], last[64], expected[64];
            assert_null(matcher_init(&matcher, &config));
            snprintf(first, sizeof first, "%s%.*s", seven, (int)before, number);
            snprintf(last, sizeof last, "%s7", number + before);
            snprintf(expected, sizeof expected, "%s@69", number);
            assert_string_equal(answers_of(matcher, first), "");
            assert_string_equal(answers_of(matcher, last), expected);
            assert_string_equal(answers_of(matcher, seven), "");
        }
}

static void matcher_answers_of_one_are_all_substrings(void **state)
{
    (void)state;
    assert_string_equal(answers_of(matcher_of(2, "1", NULL), "1023"), "1@1 10@2 2@3 23@4 3@4");
}

static void matcher_answer_spans_many_bursts_and_grows_by_zeros(void **state)
{
    (void)state;
    struct matcher *matcher = matcher_of(7, "99991", NULL);
    assert_string_equal(answers_of(matcher, "9"), "");
    assert_string_equal(answers_of(matcher, ""), "");
    assert_string_equal(answers_of(matcher, "99"), "");
    assert_string_equal(answers_of(matcher, "91"), "99991@5");
    assert_string_equal(answers_of(matcher, "0"), "999910@6");
    assert_string_equal(answers_of(matcher, "000"), "9999100@7");     /* N = 7 */
    assert_int_equal(matcher_stats(matcher)->answers, 3);
    assert_int_equal(matcher_stats(matcher)->digits, 9);
}

static void matcher_powers_of_two_and_five_are_decided_by_the_last_digits(void **state)
{
    (void)state;
    assert_string_equal(answers_of(matcher_of(4, "8", NULL), "1016"), "1016@4 16@4");
    assert_string_equal(answers_of(matcher_of(4, "125", NULL), "90125"), "125@5");
    assert_string_equal(answers_of(matcher_of(3, "10", NULL), "1002"), "10@2 100@3");
}

static void matcher_restart_lets_no_answer_span_the_gap(void **state)
{
    (void)state;
    struct matcher *matcher = matcher_of(6, "99991", NULL);
    assert_string_equal(answers_of(matcher, "9999"), "");
    matcher_restart(matcher);
    assert_string_equal(answers_of(matcher, "1"), "");
    assert_string_equal(answers_of(matcher, "99991"), "99991@10");
}

/* 104648257118348370704723119 * 987654321987654321 and what an early answer makes of it. */
static void matcher_early_answer_comes_before_its_digits_and_once(void **state)
{
    (void)state;
    static const char *const m2 = "104648257118348370704723119", *const answer_text =
        "103356303431412080037885380298776802588947199";
    struct matcher_config config = {.n_digits_max = 64, .constant_count = 1, .constants = {m2}, .early = true,
                                    .early_risk = 1e-5};
    struct matcher *matcher;
    struct matcher_answer answer;
    assert_null(matcher_init(&matcher, &config));
    size_t count = strlen(answer_text), sent = count - 10;
    matcher_begin(matcher, (const uint8_t *)answer_text, sent);
    assert_false(matcher_next(matcher, &answer));
    bool early = false;
    for (bool more = true; more;) {
        more = matcher_prepare(matcher);
        while (matcher_next_early(matcher, &answer)) {
            assert_false(early);
            early = true;
            assert_int_equal(answer.count, count);
            assert_int_equal(answer.ahead, 10);
            assert_int_equal(answer.end, count);
            assert_memory_equal(answer.digits, answer_text, count);
        }
    }
    assert_true(early);
    /* Its digits come: not again; and a 0 behind them: that is another answer. */
    assert_string_equal(answers_of(matcher, answer_text + sent), "");
    char tail[80];
    snprintf(tail, sizeof tail, "%s0@%zu", answer_text, count + 1);
    assert_string_equal(answers_of(matcher, "0"), tail);
    assert_int_equal(matcher_stats(matcher)->early_right, 1);
    assert_int_equal(matcher_stats(matcher)->early_wrong, 0);
}

static void matcher_early_promise_is_counted_wrong_if_other_digits_come(void **state)
{
    (void)state;
    struct matcher_config config = {.n_digits_max = 64, .constant_count = 1, .early = true, .early_risk = 1e-5,
                                    .constants = {"104648257118348370704723119"}};
    struct matcher *matcher;
    struct matcher_answer answer;
    assert_null(matcher_init(&matcher, &config));
    matcher_begin(matcher, (const uint8_t *)"10335630343141208003788538029877680", 35);
    assert_false(matcher_next(matcher, &answer));
    while (matcher_prepare(matcher))
        matcher_next_early(matcher, &answer);
    assert_int_equal(matcher_stats(matcher)->early_answers, 1);
    assert_string_equal(answers_of(matcher, "5555555555"), "");
    assert_int_equal(matcher_stats(matcher)->early_right, 0);
    assert_int_equal(matcher_stats(matcher)->early_wrong, 1);
}

static void matcher_refuses_n_and_constants_out_of_range(void **state)
{
    (void)state;
    struct matcher *matcher;
    struct matcher_config config = {.n_digits_max = 0, .constant_count = 1, .constants = {"3"}};
    assert_non_null(matcher_init(&matcher, &config));
    config.n_digits_max = MATCHER_N_DIGITS_MAX + 1;
    assert_non_null(matcher_init(&matcher, &config));
    config.n_digits_max = 10;
    config.constant_count = 0;
    assert_non_null(matcher_init(&matcher, &config));
    config.constant_count = MATCHER_CONSTANT_COUNT_MAX + 1;
    assert_non_null(matcher_init(&matcher, &config));
    config.constant_count = 1;
    /* 2^512 and beyond, and what is no number. */
    static const char *const bad[] = {
        "", "0", "03", "12a", "-5", " 7",
        "134078079299425970995740249982058461274793658205923933777235614437217640300735469768018742981669034276900318"
        "58186486050853753882811946569946433649006084096",
        "999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999"
        "999999999999999999999999999999999999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        config.constants[0] = bad[i];
        const char *message = matcher_init(&matcher, &config);
        assert_non_null(message);
        char quoted[24];
        snprintf(quoted, sizeof quoted, "%s", bad[i]);
        assert_non_null(strstr(message, quoted));
    }
}

static void matcher_asserts_what_the_caller_owes(void **state)
{
    (void)state;
    static uint8_t many[MATCHER_BURST_DIGITS_MAX + 1];
    memset(many, '0', sizeof many);
    /* An assertion ends the program, so each has a matcher of its own. */
    struct matcher *matcher = matcher_of(6, "7", NULL);
    expect_assert_failure(matcher_begin(matcher, (const uint8_t *)"12:4", 4));
    matcher = matcher_of(6, "7", NULL);
    expect_assert_failure(matcher_begin(matcher, (const uint8_t *)"/", 1));
    matcher = matcher_of(6, "7", NULL);
    expect_assert_failure(matcher_begin(matcher, many, sizeof many));
    matcher = matcher_of(6, "7", NULL);
    matcher_begin(matcher, (const uint8_t *)"1", 1);
    expect_assert_failure(matcher_begin(matcher, (const uint8_t *)"1", 1));     /* the answers were not taken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matcher_finds_the_examples_of_the_rules),
        cmocka_unit_test(matcher_answers_once_what_both_constants_divide),
        cmocka_unit_test(matcher_answers_once_what_three_looks_find),
        cmocka_unit_test(matcher_answers_of_one_are_all_substrings),
        cmocka_unit_test(matcher_answer_spans_many_bursts_and_grows_by_zeros),
        cmocka_unit_test(matcher_powers_of_two_and_five_are_decided_by_the_last_digits),
        cmocka_unit_test(matcher_restart_lets_no_answer_span_the_gap),
        cmocka_unit_test(matcher_early_answer_comes_before_its_digits_and_once),
        cmocka_unit_test(matcher_early_promise_is_counted_wrong_if_other_digits_come),
        cmocka_unit_test(matcher_refuses_n_and_constants_out_of_range),
        cmocka_unit_test(matcher_asserts_what_the_caller_owes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
