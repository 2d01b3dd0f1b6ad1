/* app/matcher/matcher.h: its contract, on streams short enough to check by eye. Streams at length: tests/matcher. */
#include "app/matcher/matcher.h"
#include "app/matcher/state.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"
#include "tests/matcher/take.h"

static struct matcher *matcher_of(uint32_t n, const char *first, const char *second)
{
    struct matcher_config config = { .n_digits_max = n,
                                     .modulus_count = second != NULL ? 2 : 1,
                                     .moduli = { first, second } };
    struct matcher *matcher;
    assert_null(matcher_init(&matcher, &config));
    return matcher;
}

struct found {
    uint64_t end;
    uint32_t count;
    char text[100];
};

static int found_compare(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : (x->count < y->count) - (x->count > y->count);
}

/* Plays one burst and returns its answers, "digits@end" each, separated by blanks. The matcher returns answers in any
 * order; here they are sorted by their ends, the longest first. */
static const char *answers_of(struct matcher *matcher, const char *burst)
{
    static char text[8192];
    struct matcher_answer answer;
    struct found found[64];
    size_t used = 0, count = 0;
    text[0] = 0;
    matcher_begin(matcher, (const uint8_t *)burst, strlen(burst));
    while (matcher_take(matcher, &answer)) {
        assert_in_range(count, 0, 63);
        found[count] = (struct found){ .end = answer.end, .count = answer.count };
        snprintf(found[count++].text, sizeof found[0].text, "%.*s@%llu", (int)answer.count, (const char *)answer.digits,
                 (unsigned long long)answer.end);
    }
    qsort(found, count, sizeof found[0], found_compare);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "", found[i].text);
    while (matcher_prepare(matcher))
        continue;
    return text;
}

TEST(matcher_finds_all_answers_of_a_burst)
{
    static const struct {
        uint32_t n;
        const char *moduli[2], *burst, *answers;
    } rows[] = {
        /* the examples of the rules */
        { 1, { "3" }, "123456789", "3@3 6@6 9@9" },
        { 6, { "823", "108" }, "123456789987654321", "12345@5 3456@6 9876@13 432@17" },
        /* once if both constants divide */
        { 3, { "2", "3" }, "126", "12@2 2@2 126@3 26@3 6@3" },
        /* a modulus of 1 has all substrings */
        { 2, { "1" }, "1023", "1@1 10@2 2@3 23@4 3@4" },
        /* powers of two and five are decided by the last digits */
        { 4, { "8" }, "1016", "1016@4 16@4" },
        { 4, { "125" }, "90125", "125@5" },
        { 3, { "10" }, "1002", "10@2 100@3" },
        /* a tail of several digits: a multiple of 8 p, and one of p alone whose last digit is even, too */
        { 64, { "837186056946786965637784952" }, "7837186056946786965637784952", "837186056946786965637784952@28" },
        { 64, { "837186056946786965637784952" }, "7209296514236696741409446238", "" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        assert_string_equal(answers_of(matcher_of(rows[i].n, rows[i].moduli[0], rows[i].moduli[1]), rows[i].burst),
                            rows[i].answers);
}

/* Plays a multiple of p, 3 p and 8 p. Its last digit alone does not decide about 8 p. The number comes in one burst or
 * in two, so its start is in the last burst, or before that burst. */
TEST(matcher_answers_once_if_three_probes_find_it)
{
    static const char *const number = "2480551282353889923388157041790079467388214018872", *const seven =
                                                                                               "77777777777777777777";
    struct matcher_config config = { .n_digits_max = 64,
                                     .modulus_count = 3,
                                     .moduli = { "104648257118348370704723119", "313944771355045112114169357",
                                                 "837186056946786965637784952" } };
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

TEST(matcher_answer_spans_many_bursts_and_grows_by_zeros)
{
    struct matcher *matcher = matcher_of(7, "99991", NULL);
    assert_string_equal(answers_of(matcher, "9"), "");
    assert_string_equal(answers_of(matcher, ""), "");
    assert_string_equal(answers_of(matcher, "99"), "");
    assert_string_equal(answers_of(matcher, "91"), "99991@5");
    assert_string_equal(answers_of(matcher, "0"), "999910@6");
    assert_string_equal(answers_of(matcher, "000"), "9999100@7"); /* N = 7 */
    assert_int_equal(matcher_stats(matcher)->answers, 3);
    assert_int_equal(matcher_stats(matcher)->digits, 9);
}

TEST(matcher_restart_lets_no_answer_span_the_gap)
{
    struct matcher *matcher = matcher_of(6, "99991", NULL);
    assert_string_equal(answers_of(matcher, "9999"), "");
    matcher_restart(matcher);
    assert_string_equal(answers_of(matcher, "1"), "");
    assert_string_equal(answers_of(matcher, "99991"), "99991@10");
}

/* Plays 104648257118348370704723119 * 987654321987654321, which an early answer completes. */
TEST(matcher_early_answer_comes_before_its_digits_and_once)
{
    static const char *const m2 = "104648257118348370704723119", *const answer_text =
                                                                     "103356303431412080037885380298776802588947199";
    struct matcher_config config = {
        .n_digits_max = 64, .modulus_count = 1, .moduli = { m2 }, .early = true, .early_risk = 10995116
    };
    struct matcher *matcher;
    struct matcher_answer answer;
    assert_null(matcher_init(&matcher, &config));
    size_t count = strlen(answer_text), sent = count - 10;
    matcher_begin(matcher, (const uint8_t *)answer_text, sent);
    assert_false(matcher_take(matcher, &answer));
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
    /* The answer's digits come, in two bursts, and it is not returned again. A 0 after them makes another answer. */
    char part[8], tail[80];
    snprintf(part, sizeof part, "%.4s", answer_text + sent);
    assert_string_equal(answers_of(matcher, part), "");
    assert_int_equal(matcher_stats(matcher)->early_right, 0);
    assert_string_equal(answers_of(matcher, answer_text + sent + 4), "");
    snprintf(tail, sizeof tail, "%s0@%zu", answer_text, count + 1);
    assert_string_equal(answers_of(matcher, "0"), tail);
    assert_int_equal(matcher_stats(matcher)->early_answers, 1);
    assert_int_equal(matcher_stats(matcher)->early_right, 1);
    assert_int_equal(matcher_stats(matcher)->early_wrong, 0);
}

TEST(matcher_early_answer_is_counted_wrong_if_other_digits_come)
{
    struct matcher_config config = { .n_digits_max = 64,
                                     .modulus_count = 1,
                                     .early = true,
                                     .early_risk = 10995116,
                                     .moduli = { "104648257118348370704723119" } };
    struct matcher *matcher;
    struct matcher_answer answer;
    assert_null(matcher_init(&matcher, &config));
    matcher_begin(matcher, (const uint8_t *)"10335630343141208003788538029877680", 35);
    assert_false(matcher_take(matcher, &answer));
    while (matcher_stats(matcher)->early_answers == 0)
        assert_true(matcher_prepare(matcher));
    for (int i = 0; i < 1000; i++) /* waits until the answer is taken */
        assert_true(matcher_prepare(matcher));
    assert_true(matcher_next_early(matcher, &answer));
    while (matcher_prepare(matcher))
        assert_false(matcher_next_early(matcher, &answer));
    assert_string_equal(answers_of(matcher, "5555555555"), "");
    assert_int_equal(matcher_stats(matcher)->early_answers, 1);
    assert_int_equal(matcher_stats(matcher)->early_right, 0);
    assert_int_equal(matcher_stats(matcher)->early_wrong, 1);
}

static const char *const online[4] = { "20220217214410", "104648257118348370704723119",
                                       "125000000000000140750000000000052207500000000006359661",
                                       "10885732038215355481752285039386319187390558900925053798518152998488201" };

static struct matcher *matcher_online(enum matcher_simd simd)
{
    struct matcher_config config = {
        .n_digits_max = 256, .modulus_count = 4, .simd = simd, .early = true, .early_risk = 10995116
    };
    memcpy(config.moduli, online, sizeof online);
    struct matcher *matcher;
    assert_null(matcher_init(&matcher, &config));
    return matcher;
}

/* Plays P, then the sevens. P * 10^30 + 1...1 is a multiple of M3, P * 10^30 + 7...7 one of M4. */
TEST(matcher_early_answer_hides_no_other_of_the_same_place)
{
    static const char *const p = "938436799740247382147731506454088048717622007344272428334396149311995899418532109887"
                                 "068507988288155235191632707409217664045";
    static const char *const sevens = "777777777777777777777777777777";
    char number[154];
    snprintf(number, sizeof number, "%s%s", p, sevens);
    for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= MATCHER_SIMD_AVX512; simd++) {
        if (!matcher_simd_usable(simd))
            continue;
        struct matcher *matcher = matcher_online(simd);
        struct matcher_answer answer;
        int given = 0, wrong = 0;
        matcher_begin(matcher, (const uint8_t *)p, strlen(p));
        while (matcher_take(matcher, &answer))
            fail();
        for (bool more = true; more;) {
            more = matcher_prepare(matcher);
            while (matcher_next_early(matcher, &answer)) {
                assert_int_equal(answer.end, 153);
                *(memcmp(answer.digits, number, 153) == 0 ? &given : &wrong) += 1;
            }
            matcher_check_state(matcher);
        }
        assert_int_equal(wrong, 1); /* the answer whose digits do not come */
        matcher_begin(matcher, (const uint8_t *)sevens, strlen(sevens));
        while (matcher_take(matcher, &answer))
            given += answer.count == 153 && memcmp(answer.digits, number, 153) == 0;
        while (matcher_prepare(matcher))
            continue;
        assert_int_equal(given, 1);
        assert_int_equal(matcher_stats(matcher)->early_wrong, 1);
    }
}

/* Plays d and zeros: 8 d M3 is d, thirteen or fourteen zeros, and more digits. The zeros come from the structure of M3,
 * not by chance. */
TEST(matcher_gives_no_early_answer_after_a_run_of_zeros)
{
    struct matcher *matcher = matcher_online(MATCHER_SIMD_SCALAR);
    for (char digit = '1'; digit <= '9'; digit++)
        for (size_t zeros = 6; zeros <= 20; zeros++) {
            struct matcher_answer answer;
            matcher_restart(matcher);
            char burst[64];
            const size_t count = (size_t)snprintf(burst, sizeof burst, "314159265%c%.*s", digit, (int)zeros,
                                                  "00000000000000000000");
            matcher_begin(matcher, (const uint8_t *)burst, count);
            while (matcher_take(matcher, &answer))
                fail();
            while (matcher_prepare(matcher))
                assert_false(matcher_next_early(matcher, &answer));
        }
}

TEST(matcher_long_search_returns_in_between)
{
    static uint8_t digits[4096];
    memset(digits, '9', sizeof digits);
    struct matcher *matcher = matcher_online(MATCHER_SIMD_SCALAR);
    struct matcher_answer answer;
    int working = 0;
    matcher_begin(matcher, digits, sizeof digits);
    for (enum matcher_step step; (step = matcher_next(matcher, &answer)) != MATCHER_DONE;)
        working += step == MATCHER_WORKING;
    assert_in_range(working, 15, 4096 / 64);
}

enum { COPIES_MAX = 24, COPY_DIGITS = 27 };

/* Plays ten copies of a modulus, lets idle time finish, and plays more copies, which begin `ahead` digits later. Counts
 * in `given` how often the second burst's answers of each end and length are handed out. */
static void play_copies(enum matcher_simd simd, size_t copies, size_t ahead,
                        uint8_t given[COPIES_MAX * COPY_DIGITS + 2 * COPY_DIGITS][257])
{
    static const char modulus[] = "104648257118348370704723119";
    static char burst[COPIES_MAX * COPY_DIGITS + 2 * COPY_DIGITS + 1];
    struct matcher_config config = { .n_digits_max = 256, .modulus_count = 1, .moduli = { modulus }, .simd = simd };
    struct matcher *matcher;
    struct matcher_answer answer;
    assert_null(matcher_init(&matcher, &config));
    for (int i = 0; i < 10; i++)
        memcpy(burst + i * COPY_DIGITS, modulus, COPY_DIGITS);
    matcher_begin(matcher, (const uint8_t *)burst, 10 * COPY_DIGITS);
    while (matcher_take(matcher, &answer))
        continue;
    while (matcher_prepare(matcher))
        continue;
    memset(burst, '7', ahead);
    for (size_t i = 0; i < copies; i++)
        memcpy(burst + ahead + i * COPY_DIGITS, modulus, COPY_DIGITS);
    matcher_begin(matcher, (const uint8_t *)burst, ahead + copies * COPY_DIGITS);
    while (matcher_take(matcher, &answer)) {
        assert_in_range(answer.end, 10 * COPY_DIGITS + 1, 10 * COPY_DIGITS + ahead + copies * COPY_DIGITS);
        given[answer.end - 10 * COPY_DIGITS][answer.count]++;
    }
}

/* Plays a window and a burst full of answers. There are more candidates than the filter lists, so the hash is used. */
TEST(matcher_gives_each_answer_once_when_the_filter_overflows)
{
    static uint8_t expected[COPIES_MAX * COPY_DIGITS + 2 * COPY_DIGITS][257], given[ARRAY_COUNT(expected)][257];
    for (size_t copies = 1; copies <= COPIES_MAX; copies++)
        for (size_t ahead = 0; ahead <= 5; ahead += 5) {
            memset(expected, 0, sizeof expected);
            play_copies(MATCHER_SIMD_SCALAR, copies, ahead, expected);
            for (enum matcher_simd simd = MATCHER_SIMD_AVX2; simd <= MATCHER_SIMD_AVX512; simd++) {
                if (!matcher_simd_usable(simd))
                    continue;
                memset(given, 0, sizeof given);
                play_copies(simd, copies, ahead, given);
                for (size_t end = 0; end < ARRAY_COUNT(given); end++)
                    for (size_t count = 0; count <= 256; count++)
                        if (given[end][count] != expected[end][count])
                            fail_msg("%zu copies, %zu ahead, SIMD %d: an answer of %zu digits that ends at %zu came %u "
                                     "times, %u expected",
                                     copies, ahead, (int)simd, count, end, given[end][count], expected[end][count]);
            }
        }
}

#ifndef COPIES_TRIALS
#define COPIES_TRIALS 40
#endif

/* Makes a burst of copies of the moduli and of their parts, zeros, and random digits. */
static size_t make_copies(char *burst, size_t bytes_max, const struct matcher_config *config)
{
    size_t bytes = 0;
    while (bytes < bytes_max) {
        const uint64_t draw = random_below(1 << 16);
        const char *modulus = config->moduli[draw % config->modulus_count];
        const size_t whole = strlen(modulus), part = draw % 16 < 12 ? whole : draw / 16 % whole;
        const size_t count = part < bytes_max - bytes ? part : bytes_max - bytes;
        for (size_t i = 0; i < count; i++)
            burst[bytes + i] = (char)(draw % 16 == 15 ? '0' : modulus[i]);
        bytes += count;
    }
    return bytes;
}

/* Plays bursts of copies, and writes the answers of each into a table by end and length. */
static uint64_t play_stream_of_copies(const struct matcher_config *config, uint64_t seed)
{
    static char burst[1200];
    static uint8_t given[1200][512];
    struct matcher *matcher;
    struct matcher_answer answer;
    uint64_t hash = 0, at = 0;
    random_state = seed;
    assert_null(matcher_init(&matcher, config));
    for (int i = 0; i < 6; i++) {
        const size_t bytes = make_copies(burst, 1 + random_below(sizeof burst), config);
        memset(given, 0, sizeof given);
        matcher_begin(matcher, (const uint8_t *)burst, bytes);
        while (matcher_take(matcher, &answer))
            given[answer.end - at - 1][answer.count]++;
        at += bytes;
        for (size_t end = 0; end < bytes; end++)
            for (size_t count = 0; count < 512; count++) {
                assert_in_range(given[end][count], 0, 1);
                hash = (hash ^ given[end][count]) * 0x100000001b3;
            }
        while (matcher_prepare(matcher))
            continue;
        matcher_check_state(matcher);
    }
    return hash;
}

/* Plays more digits than a table of residues has places. */
TEST(matcher_state_holds_after_many_digits)
{
    for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= MATCHER_SIMD_AVX512; simd++) {
        if (!matcher_simd_usable(simd))
            continue;
        struct matcher *matcher = matcher_online(simd);
        for (uint32_t digits = 0; digits <= 2 * MODULUS_PLACES; digits += 42) {
            answers_of(matcher, "104648257118348370704723119314159265358979");
            matcher_check_state(matcher);
        }
    }
}

TEST(matcher_variants_agree_on_copies_of_the_moduli)
{
    static const char *const moduli[] = { "104648257118348370704723119", "20220217214410", "92233720368547758",
                                          "10885732038215355481752285039386319187390558900925053798518152998488201" };
    for (uint32_t trial = 0; trial < COPIES_TRIALS; trial++) {
        struct matcher_config config = { .n_digits_max = 30 + trial * 97 % 480, .modulus_count = 1 + trial % 3 };
        for (uint32_t i = 0; i < config.modulus_count; i++)
            config.moduli[i] = moduli[(trial / 3 + i) % ARRAY_COUNT(moduli)];
        config.simd = MATCHER_SIMD_SCALAR;
        const uint64_t expected = play_stream_of_copies(&config, trial);
        for (config.simd = MATCHER_SIMD_AVX2; config.simd <= MATCHER_SIMD_AVX512; config.simd++)
            if (matcher_simd_usable(config.simd) && play_stream_of_copies(&config, trial) != expected)
                fail_msg("trial %u: SIMD %d gives other answers", trial, (int)config.simd);
    }
}

TEST(matcher_auto_takes_a_variant_it_has_timed)
{
    struct matcher_config config = { .n_digits_max = 256, .modulus_count = 4, .tsc_khz = 2000000 };
    memcpy(config.moduli, online, sizeof online);
    struct matcher *matcher;
    assert_null(matcher_init(&matcher, &config));
    const char *times = matcher_stats(matcher)->simd_times;
    unsigned long long least = ~0ull, chosen = 0;
    uint32_t timed = 0;
    for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= MATCHER_SIMD_AVX512; simd++) {
        unsigned long long ns[3];
        char name[16];
        snprintf(name, sizeof name, "%s ", matcher_simd_name(simd));
        const char *at = strstr(times, name);
        assert_int_equal(at != NULL, matcher_simd_usable(simd));
        if (at == NULL)
            continue;
        assert_int_equal(sscanf(at + strlen(name), "%llu, %llu, %llu ns", &ns[0], &ns[1], &ns[2]), 3);
        const unsigned long long sum = ns[0] + ns[1] + ns[2];
        least = sum < least ? sum : least;
        chosen = strcmp(matcher_stats(matcher)->simd, matcher_simd_name(simd)) == 0 ? sum : chosen;
        timed++;
    }
    assert_true(timed >= 1 && chosen > 0 && chosen <= least + 3); /* each is rounded down to whole ns */
    assert_string_equal(answers_of(matcher, "20220217214410"), "20220217214410@14");
}

/* Makes the filter's tables for vectors of 8 and of 16 lanes. */
TEST(filter_prepares_as_many_probes_with_wider_vectors)
{
    static struct filter filter;
    static struct matcher_modulus moduli[4];
    memcpy(moduli, matcher_online(MATCHER_SIMD_SCALAR)->moduli, sizeof moduli);
    for (uint32_t i = 0; i < 4; i++)
        moduli[i].method = MODULUS_FILTER;
    for (uint32_t n = 64; n <= MATCHER_N_DIGITS_MAX; n += n < 256 ? 64 : 7) {
        filter_begin(&filter, 8, moduli, 4, n);
        const uint32_t probes = filter.cache_vectors * 8;
        assert_true(probes >= 8 && (probes * n >= 3 * FILTER_CACHE_SUMS / 4 || probes >= filter.probe_count));
        filter_begin(&filter, 16, moduli, 4, n);
        assert_true(filter.cache_vectors * 16 >= probes || filter.cache_vectors == filter.vector_count);
    }
}

static uint32_t beats;
static void beat(void) { beats++; }

/* Counts the calls for the watchdog. On a host that interprets code each modulus takes seconds, which must not count as
 * a hang. */
TEST(matcher_init_reports_progress_after_each_modulus)
{
    struct matcher_config config = { .n_digits_max = 256, .modulus_count = 4, .beat = beat };
    memcpy(config.moduli, online, sizeof online);
    struct matcher *matcher;
    beats = 0;
    assert_null(matcher_init(&matcher, &config));
    assert_int_equal(beats, 4);
}

TEST(matcher_refuses_n_and_constants_out_of_range)
{
    struct matcher *matcher;
    struct matcher_config config = { .n_digits_max = 0, .modulus_count = 1, .moduli = { "3" } };
    assert_non_null(matcher_init(&matcher, &config));
    config.n_digits_max = MATCHER_N_DIGITS_MAX + 1;
    assert_non_null(matcher_init(&matcher, &config));
    config.n_digits_max = 10;
    config.modulus_count = 0;
    assert_non_null(matcher_init(&matcher, &config));
    config.modulus_count = MATCHER_MODULUS_COUNT_MAX + 1;
    assert_non_null(matcher_init(&matcher, &config));
    config.modulus_count = 1;
    /* 2^512 and more, and texts that are no numbers. */
    static const char *const bad[] = {
        "",
        "0",
        "03",
        "12a",
        "1/2",
        ":",
        "-5",
        " 7",
        "134078079299425970995740249982058461274793658205923933777235614437217640300735469768018742981669034276900318"
        "58186486050853753882811946569946433649006084096",
        "999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999"
        "999999999999999999999999999999999999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        config.moduli[0] = bad[i];
        const char *message = matcher_init(&matcher, &config);
        assert_non_null(message);
        char quoted[24];
        snprintf(quoted, sizeof quoted, "%s", bad[i]);
        assert_non_null(strstr(message, quoted));
    }
    config.moduli[0] = NULL;
    assert_non_null(strstr(matcher_init(&matcher, &config), "(none)"));
}

static void assert_hash_equal(const struct matcher_hash *hash, const struct matcher_hash *before)
{
    const uint32_t index = before->next - before->first;
    assert_memory_equal(hash, before, offsetof(struct matcher_hash, key));
    assert_memory_equal(hash->key, before->key, (index + 1) * sizeof hash->key[0]);
    assert_memory_equal(hash->before, before->before, (index + 1) * sizeof hash->before[0]);
    assert_memory_equal(hash->newest, before->newest, sizeof hash->newest);
}

/* Returns true if a pair has been queued in the latest burst. */
static bool was_queued(const struct matcher *m, uint32_t end, uint32_t length)
{
    const uint64_t *of_end = &m->queued_pairs[end % MATCHER_QUEUED_ENDS * matcher_pair_words(m->n)];
    return of_end[0] == m->burst_mark + end && (of_end[1 + (length - 1) / 64] >> (length - 1) % 64 & 1) != 0;
}

/* Warms a matcher until a made-up burst of `digits` has been searched to its end. Checks that the answer with which it
 * ends was found if its modulus is filtered and has no tail, and that the state is what it was. Returns the number of
 * slices. */
static uint32_t assert_warm_rehearses(struct matcher *m, uint32_t digits)
{
    static struct matcher before;
    uint32_t slices = 0;
    bool found = false;
    const uint64_t rehearsals = m->stats.rehearsals;
    memcpy(&before, m, sizeof before);
    for (; m->stats.rehearsals == rehearsals; slices++) {
        assert_true(slices < 200 && matcher_warm(m));
        before.stats.rehearsals = m->stats.rehearsals;
        assert_memory_equal(m, &before, offsetof(struct matcher, search) + offsetof(struct burst_search, queue));
        const struct matcher_modulus *c = &m->moduli[m->rehearsal.modulus];
        found |= c->method != MODULUS_FILTER || c->tail_digits > 1
                 || was_queued(m, MATCHER_HISTORY + digits, c->digits);
    }
    assert_true(found);
    assert_int_equal(m->rehearsal.digits, digits);
    assert_memory_equal(m->window, before.window, sizeof m->window);
    assert_int_equal(m->check_count, 0);
    assert_memory_equal(&m->early_answers, &before.early_answers, sizeof m->early_answers);
    assert_memory_equal(m->moduli, before.moduli, sizeof m->moduli);
    for (uint32_t i = 0; i < m->modulus_count; i++)
        assert_hash_equal(&m->table[i], &before.table[i]);
    assert_memory_equal(&m->filter, &before.filter, sizeof m->filter);
    assert_memory_equal(m->text, before.text, MATCHER_HISTORY);
    assert_memory_equal(m->row, before.row, MATCHER_HISTORY * sizeof m->row[0]);
    assert_memory_equal(&m->tails, &before.tails, offsetof(struct tails, place));
    matcher_check_state(m);
    return slices;
}

TEST(matcher_warm_rehearses_an_answer_and_puts_the_state_back)
{
    struct matcher *m = matcher_of(256, "104648257118348370704723119", "30011");
    for (int i = 0; i < 100; i++) { /* the tables begin again in between */
        answers_of(m, "27182818284590452353602874713526624977570000000");
        assert_in_range(assert_warm_rehearses(m, m->rehearsal.digits_lately), 1, 2);
    }
    assert_int_equal(m->rehearsal.digits_lately, 47); /* MATCHER_REHEARSAL_DIGITS are forgotten */
    assert_null(matcher_add(m, "1000000007"));        /* one that is added takes its turn, too */
    while (matcher_prepare(m))
        continue;
    for (uint32_t i = 0; i < 3; i++)
        assert_warm_rehearses(m, 47);
}

/* Warms for each N and length of bursts, and for moduli of each method, some of which overflow. Some bursts spend all
 * credit, or leave more candidates in the window than are listed. */
TEST(matcher_warm_rehearses_with_any_moduli_after_any_burst)
{
    static const struct {
        uint32_t n;
        const char *moduli[MATCHER_MODULUS_COUNT_MAX];
    } rows[] = {
        { 4, { "99991", "823" } },
        { 4, { "99991", "99989" } }, /* none has an answer */
        { 256,
          { "20220217214410", "104648257118348370704723119", "125000000000000140750000000000052207500000000006359661",
            "823" } },
        { 1024, { "20220217214410", "104648257118348370704723119", "1024", "9765625" } },
        { 1024,
          { "6703903964971298549787012499102923063739682910296196688861780721860882015036773488400937149083451713845015"
            "929093243025426876941405973284973216824503042048",
            "5934726676209741757617325506020475406646728515625", "1000000000000000000000000000000",
            "1267650600228229401"
            "496703205376",
            "6553600000001", "6553600000003", "6553600000007", "6553600000009" } },
    };
    static const uint32_t lengths[] = { 1, 32, 256, 300, 1000, 3000 };
    static char burst[3001];
    for (size_t row = 0; row < ARRAY_COUNT(rows); row++)
        for (size_t k = 0; k < ARRAY_COUNT(lengths); k++) {
            struct matcher_config config = { .n_digits_max = rows[row].n };
            struct matcher_answer answer;
            struct matcher *m;
            memcpy(config.moduli, rows[row].moduli, sizeof config.moduli);
            while (config.modulus_count < MATCHER_MODULUS_COUNT_MAX && config.moduli[config.modulus_count] != NULL)
                config.modulus_count++;
            assert_null(matcher_init(&m, &config));
            for (uint32_t round = 0; round < 12; round++) {
                random_state = round;
                for (uint32_t i = 0; i < lengths[k]; i++)
                    burst[i] = (char)(round % 3 == 2 ? '0' : '0' + random_below(10));
                matcher_begin(m, (const uint8_t *)burst, lengths[k]);
                while (matcher_take(m, &answer))
                    continue;
                while (matcher_prepare(m))
                    continue;
                const uint32_t lately = min_u32(m->rehearsal.digits_lately, MATCHER_ROOM_DIGITS);
                const struct matcher_modulus *next = &m->moduli[(m->rehearsal.modulus + 1) % m->modulus_count];
                if (next->method == MODULUS_NONE)
                    next = &m->moduli[(m->rehearsal.modulus + 2) % m->modulus_count];
                const uint32_t least = next->method == MODULUS_NONE ? 0 : next->digits;
                assert_warm_rehearses(m, lately > least ? lately : least);
            }
        }
}

static void assert_unchanged_by_warm(struct matcher *m)
{
    static struct matcher before;
    struct matcher_answer answer;
    memcpy(&before, m, sizeof before);
    assert_true(!m->search.open || !matcher_prepare(m));
    assert_true(m->search.open || matcher_next(m, &answer) == MATCHER_DONE);
    assert_false(matcher_warm(m));
    assert_memory_equal(m, &before, sizeof before);
}

/* Calls while an answer waits, and while idle work is left. */
TEST(matcher_warm_and_prepare_have_nothing_to_do)
{
    struct matcher *m = matcher_of(6, "99991", NULL);
    struct matcher_answer answer;
    for (int idle = 0; idle < 2; idle++) {
        while (idle > 0 && matcher_prepare(m))
            continue;
        matcher_begin(m, (const uint8_t *)"99991", 5);
        assert_unchanged_by_warm(m);
        assert_true(matcher_take(m, &answer) && !matcher_take(m, &answer));
        assert_unchanged_by_warm(m);
    }
}

TEST(matcher_warm_ends_soon_if_every_place_has_an_answer)
{
    struct matcher *m = matcher_of(256, "1", "104648257118348370704723119");
    static struct matcher before;
    answers_of(m, "271828");
    memcpy(&before, m, sizeof before);
    assert_true(matcher_warm(m));
    before.stats.rehearsals = m->stats.rehearsals;
    assert_memory_equal(m, &before, offsetof(struct matcher, search) + offsetof(struct burst_search, queue));
    assert_hash_equal(&m->table[0], &before.table[0]);
    matcher_check_state(m);
}

TEST(matcher_asserts_its_preconditions)
{
    static uint8_t many[MATCHER_BURST_DIGITS_MAX + 1];
    struct matcher_answer answer;
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
    expect_assert_failure(matcher_begin(matcher, (const uint8_t *)"1", 1)); /* the answers were not taken */
    matcher = matcher_online(MATCHER_SIMD_SCALAR);
    matcher_begin(matcher, (const uint8_t *)"10335630343141208003788538029877680", 35);
    assert_false(matcher_take(matcher, &answer));
    while (matcher_stats(matcher)->early_answers == 0)
        assert_true(matcher_prepare(matcher));
    matcher_begin(matcher, (const uint8_t *)"2588947199", 10);
    assert_false(matcher_take(matcher, &answer));    /* given early, for all that the matcher knows */
    expect_assert_failure(matcher_prepare(matcher)); /* nobody has taken it */
}

enum { ADD_BURSTS = 12, ADD_AT = 5 };

/* Makes digits with a modulus in each burst. One more ends in burst ADD_AT; its first digits end the burst before. */
static void make_bursts(char burst[ADD_BURSTS][400])
{
    static const char big[] = "104648257118348370704723119";
    random_state = 12345;
    for (int i = 0; i < ADD_BURSTS; i++) {
        for (int k = 0; k < 300; k++)
            burst[i][k] = (char)('0' + random_below(10));
        memcpy(burst[i] + 100, big, sizeof big - 1);
        burst[i][300] = '\0';
    }
    memcpy(burst[ADD_AT - 1] + 290, big, 10);
    memcpy(burst[ADD_AT], big + 10, sizeof big - 1 - 10);
}

/* Plays the bursts with `before` moduli from the start and the rest added before burst ADD_AT. */
static void play_adding(enum matcher_simd simd, uint32_t before, char found[ADD_BURSTS][8192])
{
    static const char *const moduli[] = { "823", "104648257118348370704723119", "20220217214410" };
    char burst[ADD_BURSTS][400];
    struct matcher_config config = { .n_digits_max = 40, .modulus_count = before, .simd = simd };
    struct matcher *matcher;
    make_bursts(burst);
    for (uint32_t i = 0; i < before; i++)
        config.moduli[i] = moduli[i];
    assert_null(matcher_init(&matcher, &config));
    for (int i = 0; i < ADD_BURSTS; i++) {
        for (uint32_t added = before; i == ADD_AT && added < 3; added++) {
            assert_null(matcher_add(matcher, moduli[added]));
            assert_int_equal(matcher_stats(matcher)->moduli_pending, 1);
            while (matcher_prepare(matcher))
                matcher_check_state(matcher);
            assert_int_equal(matcher_stats(matcher)->moduli, added + 1);
            assert_int_equal(matcher_stats(matcher)->moduli_pending, 0);
        }
        strcpy(found[i], answers_of(matcher, burst[i]));
        matcher_check_state(matcher);
    }
}

TEST(matcher_added_modulus_finds_the_same_as_from_the_start)
{
    static char all[ADD_BURSTS][8192], added[ADD_BURSTS][8192];
    for (enum matcher_simd simd = MATCHER_SIMD_SCALAR; simd <= MATCHER_SIMD_AVX512; simd++) {
        if (!matcher_simd_usable(simd))
            continue;
        play_adding(simd, 3, all);
        play_adding(simd, 1, added);
        for (int i = ADD_AT; i < ADD_BURSTS; i++)
            assert_string_equal(added[i], all[i]);
        assert_non_null(strstr(added[ADD_AT], "104648257118348370704723119@"));
        assert_null(strstr(added[ADD_AT - 2], "104648257118348370704723119@"));
    }
}

/* Plays bursts while the new modulus' tables are computed. They are searched as before, and the work goes on after
 * them. */
TEST(matcher_added_modulus_waits_for_bursts)
{
    struct matcher *matcher = matcher_of(40, "823", NULL);
    struct matcher_answer answer;
    assert_null(matcher_add(matcher, "10007"));
    unsigned slices = 0;
    for (; matcher_stats(matcher)->moduli == 1; slices++) {
        assert_in_range(slices, 0, 10000);
        if (slices % 20 == 0) {
            matcher_begin(matcher, (const uint8_t *)"823110007", 9);
            assert_true(matcher_take(matcher, &answer));
            assert_memory_equal(answer.digits, "823", 3);
            while (matcher_take(matcher, &answer))
                continue;
        }
        matcher_prepare(matcher);
    }
    assert_in_range(slices, 100, 10000);
    matcher_restart(matcher);
    assert_non_null(strstr(answers_of(matcher, "10007"), "10007@"));
}

/* Plays a burst after each slice in which the filter is made again for the new modulus. */
TEST(matcher_finds_all_while_the_filter_is_made_again)
{
    static const char old[] = "104648257118348370704723119", new[] = "20220217214410";
    struct matcher *matcher = matcher_of(40, old, NULL);
    uint32_t slices = 0;
    assert_null(matcher_add(matcher, new));
    while (matcher_stats(matcher)->moduli == 1)
        assert_true(matcher_prepare(matcher));
    for (; matcher_stats(matcher)->moduli_pending > 0; slices++) {
        char burst[100];
        const uint32_t filled = matcher->filter.filled;
        assert_in_range(slices, 0, 100);
        snprintf(burst, sizeof burst, "7%s3%s", old, new);
        matcher_begin(matcher, (const uint8_t *)burst, strlen(burst));
        struct matcher_answer answer;
        assert_true(matcher_take(matcher, &answer) && answer.count == sizeof old - 1);
        assert_true(matcher_take(matcher, &answer) && answer.count == sizeof new - 1);
        assert_false(matcher_take(matcher, &answer));
        while (matcher_prepare(matcher) && matcher->filter.filled == filled)
            matcher_check_state(matcher);
    }
    assert_true(slices > 1 || matcher->filter.vector_count == 0);
    assert_non_null(strstr(answers_of(matcher, new), new));
}

TEST(matcher_add_refuses_and_repeats)
{
    struct matcher *matcher = matcher_of(40, "823", NULL);
    static const char *const wrong[] = { "", "0", "012", "12x", "-1" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(strstr(matcher_add(matcher, wrong[i]), "not a number"));
    assert_null(matcher_add(matcher, "823"));
    assert_int_equal(matcher_stats(matcher)->moduli_pending, 0);
    assert_null(matcher_add(matcher, "829"));
    assert_non_null(strstr(matcher_add(matcher, "839"), "is being added"));
    char number[12];
    for (int i = 2; i < 8; i++) {
        while (matcher_prepare(matcher))
            continue;
        snprintf(number, sizeof number, "%d", 1000 + i);
        assert_null(matcher_add(matcher, number));
    }
    while (matcher_prepare(matcher))
        continue;
    assert_int_equal(matcher_stats(matcher)->moduli, 8);
    assert_non_null(strstr(matcher_add(matcher, "839"), "there are 8"));
}
