/* app/player/answer_set.c */
#include "app/matcher/matcher.h"
#include "app/player/answer_set.h"
#include "tests/lib/test.h"

static const uint8_t secret[32 + 1] = "a secret of thirty-two bytes....";

static bool enter(const char *digits)
{
    size_t bytes = strlen(digits);
    uint8_t *exact = test_malloc(bytes); /* ASan sees a read past the end */
    memcpy(exact, digits, bytes);
    bool lacking = answer_set_is_new(exact, bytes), entered = answer_set_insert(exact, bytes);
    answer_set_check();
    assert_true(entered || !lacking); /* an entered answer is never reported as lacking */
    assert_false(answer_set_is_new(exact, bytes));
    test_free(exact);
    return entered;
}

static bool enter_number(uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    return enter(digits);
}

TEST(an_answer_is_entered_once)
{
    answer_set_init(secret);
    assert_true(enter("823"));
    assert_false(enter("823"));
    assert_true(enter("8230"));
    assert_true(enter("82300"));
    assert_true(enter("82"));
    assert_false(enter("8230"));
    assert_int_equal(answer_set_counters.entered, 4);
    assert_int_equal(answer_set_counters.repeated, 2);
}

TEST(answers_that_differ_in_one_digit_are_distinguished_at_every_length)
{
    answer_set_init(secret);
    char digits[MATCHER_N_DIGITS_MAX + 1];
    for (size_t count = 1; count <= MATCHER_N_DIGITS_MAX; count += count < 40 ? 1 : 123) {
        memset(digits, '1', count);
        digits[count] = '\0';
        assert_true(enter(digits));
        for (size_t i = 0; i < count; i += count < 40 ? 1 : 17) {
            digits[i] = '2';
            assert_true(enter(digits));
            assert_false(enter(digits));
            digits[i] = '1';
        }
        assert_false(enter(digits));
    }
    memset(digits, '9', MATCHER_N_DIGITS_MAX);
    digits[MATCHER_N_DIGITS_MAX] = '\0';
    assert_true(enter(digits));
    assert_false(enter(digits));
}

TEST(swapped_words_are_distinguished)
{
    answer_set_init(secret);
    assert_true(enter("1111111122222222"));
    assert_true(enter("2222222211111111"));
    assert_true(enter("11111111222222223333333344444444"));
    assert_true(enter("33333333444444441111111122222222"));
}

/* Checks the share of answers that the filter alone knows to be new. All others are looked up before they are sent. */
TEST(a_few_thousand_answers_leave_nearly_all_others_certain)
{
    answer_set_init(secret);
    uint32_t certain = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        char digits[40];
        snprintf(digits, sizeof digits, i % 2 ? "%llu00000000000000%llu" : "%llu", (unsigned long long)(i * 7919 + 1),
                 (unsigned long long)i);
        certain += answer_set_is_new((const uint8_t *)digits, strlen(digits));
        assert_true(enter(digits));
    }
    assert_in_range(certain, 3985, 4000); /* one answer is expected to have all three bits from others */
}

TEST(exactly_the_stated_number_is_remembered)
{
    answer_set_init(secret);
    for (uint64_t i = 1; i <= ANSWER_SET_ANSWER_COUNT; i++)
        assert_true(enter_number(i));
    assert_int_equal(answer_set_counters.forgotten, 0);
    assert_false(enter_number(ANSWER_SET_ANSWER_COUNT));
    assert_true(enter_number(ANSWER_SET_ANSWER_COUNT + 1));
    assert_int_equal(answer_set_counters.forgotten, 1);
    for (uint64_t i = ANSWER_SET_ANSWER_COUNT / 2 + 3; i <= ANSWER_SET_ANSWER_COUNT;
         i++) /* recent answers: not entered again */
        assert_false(enter_number(i));
    assert_int_equal(answer_set_counters.forgotten, 1);
    assert_true(enter_number(1));
}

TEST(an_answer_that_keeps_coming_is_not_forgotten)
{
    answer_set_init(secret);
    assert_true(enter("7"));
    for (uint64_t i = 1; i <= 3 * (uint64_t)ANSWER_SET_ANSWER_COUNT; i++) {
        assert_true(enter_number(1000 + i));
        if (i % 1000 == 0)
            assert_false(enter("7"));
    }
    assert_false(enter("7"));
}

TEST(answers_that_are_entered_again_fill_the_set_and_no_more)
{
    const uint64_t distinct = ANSWER_SET_ANSWER_COUNT * 3 / 4; /* each is older than half the set when it comes again */
    answer_set_init(secret);
    for (uint64_t i = 0; i < 3 * distinct; i++)
        assert_int_equal(enter_number(1 + i % distinct), i < distinct);
    assert_int_equal(answer_set_counters.entered, distinct);
    assert_true(answer_set_counters.forgotten > distinct);
    assert_int_equal(answer_set_used_count(), ANSWER_SET_ANSWER_COUNT);
}

TEST(another_secret_gives_other_keys_and_the_same_answers)
{
    static const uint8_t other[32] = { 1 };
    answer_set_init(other);
    assert_true(enter("823"));
    assert_false(enter("823"));
    answer_set_init(secret);
    assert_true(enter("823"));
}
