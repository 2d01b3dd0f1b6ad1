/* The plain matcher: exact residues, one constant after another.
 *
 * Let M = 2^a * 5^b * m with gcd(m, 10) = 1. With y(j) = sum of d(k) * 10^-k over the digits k = 1..j, modulo m, the
 * digits i+1..j are worth 10^j * (y(j) - y(i)) modulo m: a multiple of m exactly if y(i) = y(j). So the starts of all
 * answers that end at j are the earlier positions with the same y, and a hash table by y finds them. Whether 2^a * 5^b
 * divides is decided by the last max(a, b) digits, or all of them if there are fewer. */
#include "app/matcher.h"

#include "app/matcher_big.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

enum {
    RING_POSITIONS = 2 * MATCHER_N_DIGITS_MAX,      /* a power of two, more than the N + 1 positions of a window */
    HASH_BUCKETS = 2048,
    LENGTH_WORDS = MATCHER_N_DIGITS_MAX / 64 + 1,   /* a set of lengths 0..N */
    TAIL_DIGITS_MAX = MATCHER_CONSTANT_BITS_MAX,    /* max(a, b) of 2^511 */
};

struct constant {
    struct matcher_big m, power;                /* M = power * m, power = 2^twos * 5^fives */
    uint32_t twos, fives, tail_digits;          /* tail_digits = max(twos, fives) */
    uint32_t inverse;                           /* -1 / m modulo 10 */
    struct matcher_big weight, y;               /* 10^-position and y(position) modulo m */
    struct matcher_big ring[RING_POSITIONS];    /* y of the last positions */
    uint64_t older[RING_POSITIONS];             /* 1 + the position before in the same bucket, 0: none */
    uint64_t bucket[HASH_BUCKETS];              /* 1 + the newest position, 0: none */
    struct matcher_big tail_weight[TAIL_DIGITS_MAX];    /* 10^k modulo power */
    uint64_t hit[LENGTH_WORDS];                 /* lengths of this constant's answers that end here */
};

struct matcher {
    uint32_t n, constant_count;
    uint64_t base;                              /* stream position of text[0] */
    uint64_t position;                          /* digits matched so far */
    uint64_t gap;                               /* no start before this position */
    size_t text_count;
    uint64_t hit[LENGTH_WORDS];                 /* lengths still to be reported at `position` */
    struct constant constants[MATCHER_CONSTANT_COUNT_MAX];
    struct matcher_stats stats;
    uint8_t text[MATCHER_N_DIGITS_MAX + MATCHER_BURST_DIGITS_MAX];
};

static struct matcher the_matcher;

static void constant_insert(struct constant *c, uint64_t position)
{
    uint64_t *bucket = &c->bucket[(c->y.word[0] * 0x9e3779b97f4a7c15u) >> 53];
    c->ring[position % RING_POSITIONS] = c->y;
    c->older[position % RING_POSITIONS] = *bucket;
    *bucket = position + 1;
}

/* y += digit * weight, weight /= 10, modulo m. Dividing: weight + t * m is a multiple of 10 for one t below 10. */
static void constant_advance(struct constant *c, uint32_t digit)
{
    struct matcher_big step = c->weight;
    matcher_big_mul_add_mod(&step, digit, 0, &c->m);
    matcher_big_add(&c->y, &step);
    if (matcher_big_compare(&c->y, &c->m) >= 0)
        matcher_big_sub(&c->y, &c->m);

    struct matcher_big quotient = c->weight;
    uint32_t last = (uint32_t)matcher_big_div(&quotient, 10);
    struct matcher_big multiple = c->m;
    matcher_big_mul_add(&multiple, last * c->inverse % 10, 0);
    matcher_big_add(&c->weight, &multiple);
    ASSERT(matcher_big_div(&c->weight, 10) == 0);
}

/* The lengths L < tail_digits whose last L digits, and the one answer for all longer ones, that `power` divides.
 * Once 2^min(L, twos) does not divide the last L digits, nothing longer is divisible either. */
static bool constant_tail(const struct constant *c, const uint8_t *end, size_t available, uint64_t *lengths)
{
    if (c->tail_digits == 0)
        return true;
    if (c->fives > 0 && (end[-1] - '0') % 5 != 0)
        return false;
    struct matcher_big value = {{0}};
    for (size_t length = 1; length <= available; length++) {
        struct matcher_big step = c->tail_weight[length - 1];
        matcher_big_mul_add_mod(&step, end[-(ptrdiff_t)length] - '0', 0, &c->power);
        matcher_big_add(&value, &step);
        if (matcher_big_compare(&value, &c->power) >= 0)
            matcher_big_sub(&value, &c->power);
        size_t even_bits = min_size(length, c->twos);
        if (even_bits > 0 && (value.word[(even_bits - 1) / 64] >> (even_bits - 1) % 64 & 1) != 0)
            return false;
        bool divisible = matcher_big_is_zero(&value);
        if (length == c->tail_digits)
            return divisible;
        if (divisible)
            lengths[length / 64] |= BIT(length % 64);
    }
    return false;
}

static void constant_match(struct matcher *matcher, struct constant *c)
{
    uint64_t position = matcher->position;
    uint64_t oldest = position > matcher->n ? position - matcher->n : 0;
    if (oldest < matcher->gap)
        oldest = matcher->gap;
    const uint8_t *end = matcher->text + (position - matcher->base);
    uint64_t lengths[LENGTH_WORDS] = {0};
    memset(c->hit, 0, sizeof c->hit);
    bool long_ones = constant_tail(c, end, position - oldest, lengths);
    for (uint64_t link = c->bucket[(c->y.word[0] * 0x9e3779b97f4a7c15u) >> 53]; link > oldest;
         link = c->older[(link - 1) % RING_POSITIONS]) {
        uint64_t start = link - 1, length = position - start;
        if (matcher_big_compare(&c->ring[start % RING_POSITIONS], &c->y) != 0 || end[-(ptrdiff_t)length] == '0')
            continue;
        if (length >= c->tail_digits ? long_ones : (lengths[length / 64] >> length % 64 & 1) != 0)
            c->hit[length / 64] |= BIT(length % 64);
    }
}

static void matcher_step(struct matcher *matcher)
{
    uint32_t digit = matcher->text[matcher->position - matcher->base] - '0';
    matcher->position++;
    for (uint32_t i = 0; i < matcher->constant_count; i++) {
        struct constant *c = &matcher->constants[i];
        constant_advance(c, digit);
        constant_match(matcher, c);
        constant_insert(c, matcher->position);
        for (size_t w = 0; w < LENGTH_WORDS; w++)
            matcher->hit[w] |= c->hit[w];
    }
}

static bool constant_init(struct constant *c, const char *decimal)
{
    *c = (struct constant){0};
    if (decimal == NULL || decimal[0] < '1' || decimal[0] > '9')
        return false;
    size_t digits = strlen(decimal);
    if (digits > MATCHER_CONSTANT_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (decimal[i] < '0' || decimal[i] > '9')
            return false;
        matcher_big_mul_add(&c->m, 10, (uint64_t)(decimal[i] - '0'));
    }
    if (matcher_big_bits(&c->m) > MATCHER_CONSTANT_BITS_MAX)
        return false;

    c->power.word[0] = 1;
    const struct { uint32_t prime, *exponent; } parts[] = {{2, &c->twos}, {5, &c->fives}};
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        struct matcher_big quotient = c->m;
        while (matcher_big_div(&quotient, parts[i].prime) == 0) {
            c->m = quotient;
            matcher_big_mul_add(&c->power, parts[i].prime, 0);
            ++*parts[i].exponent;
        }
    }
    c->tail_digits = (uint32_t)max_size(c->twos, c->fives);
    struct matcher_big weight = {{1}};
    for (uint32_t k = 0; k < c->tail_digits; k++) {
        c->tail_weight[k] = weight;
        matcher_big_mul_add_mod(&weight, 10, 0, &c->power);
    }

    struct matcher_big rest = c->m;
    uint32_t last = (uint32_t)matcher_big_div(&rest, 10);
    while ((last * c->inverse + 1) % 10 != 0)
        c->inverse++;
    /* The first digit weighs 10^-1 = (1 + inverse * m) / 10. */
    c->weight = c->m;
    matcher_big_mul_add(&c->weight, c->inverse, 1);
    ASSERT(matcher_big_div(&c->weight, 10) == 0);
    if (matcher_big_compare(&c->weight, &c->m) >= 0)
        matcher_big_sub(&c->weight, &c->m);
    return true;
}

const char *matcher_init(struct matcher **matcher, const struct matcher_config *config)
{
    static char message[128];
    struct matcher *made = &the_matcher;
    if (config->n_digits_max < 1 || config->n_digits_max > MATCHER_N_DIGITS_MAX)
        return "n: must be 1..1024";
    if (config->constant_count < 1 || config->constant_count > MATCHER_CONSTANT_COUNT_MAX)
        return "m: there must be 1..8 constants";
    if (!matcher_simd_usable(config->simd))
        return "simd: this machine cannot run that variant";
    made->n = config->n_digits_max;
    made->constant_count = config->constant_count;
    made->base = made->position = made->gap = 0;
    made->text_count = 0;
    made->stats = (struct matcher_stats){.memory_bytes = sizeof *made, .path_bytes = sizeof *made};
    memset(made->hit, 0, sizeof made->hit);
    for (uint32_t i = 0; i < config->constant_count; i++) {
        const char *decimal = config->constants[i];
        if (!constant_init(&made->constants[i], decimal)) {
            static const char before[] = "m: not a number of 1..2^512-1: ";
            size_t count = decimal == NULL ? 0 : min_size(strlen(decimal), sizeof message - sizeof before);
            memcpy(message, before, sizeof before - 1);
            memcpy(message + sizeof before - 1, decimal, count);
            message[sizeof before - 1 + count] = 0;
            return message;
        }
        constant_insert(&made->constants[i], 0);
    }
    *matcher = made;
    return NULL;
}

static bool matcher_hit_take(uint64_t *hit, uint32_t *length)
{
    for (size_t w = LENGTH_WORDS; w-- > 0;)
        if (hit[w] != 0) {
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(hit[w]);
            hit[w] &= ~BIT(bit);
            *length = (uint32_t)(64 * w) + bit;
            return true;
        }
    return false;
}

void matcher_begin(struct matcher *matcher, const uint8_t *digits, size_t count)
{
    ASSERT(count <= MATCHER_BURST_DIGITS_MAX);
    ASSERT(matcher->position == matcher->base + matcher->text_count);
    for (size_t i = 0; i < count; i++)
        ASSERT(digits[i] >= '0' && digits[i] <= '9');
    size_t kept = min_size(matcher->text_count, matcher->n);
    memmove(matcher->text, matcher->text + matcher->text_count - kept, kept);
    memcpy(matcher->text + kept, digits, count);
    matcher->base += matcher->text_count - kept;
    matcher->text_count = kept + count;
    matcher->stats.bursts++;
    matcher->stats.digits += count;
}

bool matcher_next(struct matcher *matcher, struct matcher_answer *answer)
{
    uint32_t length;
    while (!matcher_hit_take(matcher->hit, &length)) {
        if (matcher->position == matcher->base + matcher->text_count)
            return false;
        matcher_step(matcher);
    }
    uint32_t divisor = 0;
    while ((matcher->constants[divisor].hit[length / 64] >> length % 64 & 1) == 0)
        divisor++;
    *answer = (struct matcher_answer){
        .digits = matcher->text + (matcher->position - matcher->base) - length,
        .count = length,
        .constant = divisor,
        .end = matcher->position,
    };
    matcher->stats.answers++;
    return true;
}

void matcher_restart(struct matcher *matcher)
{
    ASSERT(matcher->position == matcher->base + matcher->text_count);
    matcher->gap = matcher->position;
}

bool matcher_prepare(struct matcher *matcher)
{
    (void)matcher;
    return false;
}

bool matcher_next_early(struct matcher *matcher, struct matcher_answer *answer)
{
    (void)matcher;
    (void)answer;
    return false;
}

const struct matcher_stats *matcher_stats(const struct matcher *matcher)
{
    return &matcher->stats;
}
