#include "app/matcher_constant.h"

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

/* A look costs a block of 256 starts or more every K digits, hashing costs something a digit, and more for longer
 * windows, whose cells fill up: docs/matcher.md has the figures. */
static bool look_is_cheaper(uint32_t look_digits, uint32_t blocks)
{
    return look_digits > 7 + 3 * blocks;
}

/* Fewer residues than this, and hash cells would hardly sort anything out. */
enum { HASH_RESIDUES_MIN = 1 << 14 };

/* Divides a weight by the digit word of 1, so that digit word times weight is digit times weight:
 * (1 + 2^27) * (1 - 2^27 + 2^54) = 1 modulo 2^64. */
static uint64_t weight_for_digit_word(uint64_t weight)
{
    return weight * (1 - (UINT64_C(1) << 27) + (UINT64_C(1) << 54));
}

/* A weight modulo 2^27, for a kernel that multiplies words: digit word times weight is digit times weight, modulo 2^27.
 * Or as two factors, low + 2^11 * high, for the digit word's two: low in -1024..1023. */
static uint32_t look_weight(const struct matcher_kernel *kernel, uint32_t weight)
{
    if (!kernel->halves)
        return weight;
    uint32_t low = ((weight + 1024) & 2047) - 1024, high = (weight - low) >> 11;
    return (high & 0xffff) << 16 | (low & 0xffff);
}

/* Where a kernel's block looks for the weight of the digit `distance` before the block's end (from 0), or behind its
 * beginning. */
static uint32_t place_from_end(uint32_t distance, uint32_t lanes)
{
    uint32_t block = MATCHER_STEPS * lanes, place = block - 1 - distance % block;
    return distance / block * block + place % MATCHER_STEPS * lanes + place / MATCHER_STEPS;
}

static uint32_t place_from_begin(uint32_t distance, uint32_t lanes)
{
    uint32_t block = MATCHER_STEPS * lanes, place = distance % block;
    return distance / block * block + place % MATCHER_STEPS * lanes + place / MATCHER_STEPS;
}

static uint32_t blocks_for(uint32_t digits, uint32_t block_digits)
{
    return (digits + block_digits - 1) / block_digits;
}

bool matcher_constant_read(struct matcher_constant *constant, const char *decimal)
{
    constant->value = (struct matcher_big){{0}};
    constant->digits = 0;
    if (decimal == NULL || decimal[0] < '1' || decimal[0] > '9')
        return false;
    for (; *decimal != 0; decimal++) {
        if (*decimal < '0' || *decimal > '9' || constant->digits == MATCHER_CONSTANT_DIGITS_MAX)
            return false;
        matcher_big_mul_add(&constant->value, 10, (uint64_t)(*decimal - '0'));
        constant->digits++;
    }
    return matcher_big_bits(&constant->value) <= MATCHER_CONSTANT_BITS_MAX;
}

/* K is the largest with 10^K * 2^16 <= M. One more would save one look in K, but some starts more were hot by chance,
 * which costs more: docs/matcher.md. */
static void constant_choose_look(struct matcher_constant *c)
{
    struct matcher_big reach = {{1 << 16}};
    c->look_digits = 0;
    for (;;) {
        matcher_big_mul_add(&reach, 10, 0);
        if (matcher_big_compare(&reach, &c->value) > 0)
            break;
        c->look_digits++;
    }
    c->skip_digits = c->digits - c->look_digits - 1;
    ASSERT(c->look_digits == 0 || (c->skip_digits >= 1 && c->skip_digits <= MATCHER_SKIP_DIGITS_MAX));
    c->skip_shift = 64 - 8 * (uint32_t)min_size(c->skip_digits, MATCHER_SKIP_DIGITS_MAX);
}

/* A number without a common factor with M that looks like any other below M. Fractions of v / M are tiny for every v
 * far below M, and so are those of what follows a multiple of M for a while; fractions of unit * v / M are not. */
static struct matcher_big constant_unit(const struct matcher_constant *c)
{
    uint64_t base = 3;
    for (;; base += 2) {
        struct matcher_big quotient = c->value;
        uint64_t a = base, b = matcher_big_div(&quotient, base);
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            break;
    }
    struct matcher_big unit = {{1}};
    for (uint32_t bits = 0; bits < 2 * matcher_big_bits(&c->value); bits++) {   /* base^bits is far above M */
        matcher_big_mul_add(&unit, base, 0);
        matcher_big_mod(&unit, &c->value);
    }
    return unit;
}

/* What a sum of weights, each counted up to 9 times, may be off: a weight is a fraction rounded to its upper `bits`
 * bits. In units of the last of these, times 2^-32. */
struct rounding {
    uint32_t bits;
    uint64_t up, down;
};

static uint32_t rounding_take(struct rounding *rounding, uint64_t fraction, int sign)
{
    uint64_t unit = UINT64_C(1) << (64 - rounding->bits), rounded = (fraction + unit / 2) & ~(unit - 1);
    int64_t error = (int64_t)(rounded - fraction);      /* -unit / 2 .. unit / 2 */
    uint64_t size = (uint64_t)(error < 0 ? -error : error) * 9;
    size = rounding->bits > 32 ? size << (rounding->bits - 32) : size >> (32 - rounding->bits);
    *(error < 0 ? &rounding->down : &rounding->up) += sign > 0 ? size : -size;
    return (uint32_t)(rounded >> (64 - rounding->bits));
}

/* The larger side in whole units; 2 more for what is rounded elsewhere. */
static uint32_t rounding_bound(const struct rounding *rounding)
{
    return (uint32_t)(max_size(rounding->up, rounding->down) >> 32) + 2;
}

/* Fractions modulo 2^27 up to `reach` below 1, or 0, become less than a power of 2 by adding the offset. */
static void look_set(struct matcher_look *look, uint32_t *offset, const uint32_t *weights, uint32_t block_count,
                     uint32_t reach, uint32_t error)
{
    uint32_t bit = 0;
    while ((UINT32_C(1) << bit) <= reach + 2 * error)
        bit++;
    *offset = reach + error;
    *look = (struct matcher_look){weights, block_count, (UINT32_C(1) << 27) - (UINT32_C(1) << bit)};
}

/* Weights by distance from the end: fractions of unit * 10^t / M to decide, of 10^t / M to look ahead. */
static void constant_fill_weights(struct matcher_constant *c, uint32_t n, const struct matcher_kernel *kernel)
{
    uint32_t lanes = kernel->lanes;
    memset(c->look_weights, 0, sizeof c->look_weights);
    memset(c->sift_weights, 0, sizeof c->sift_weights);
    memset(c->match_weights, 0, sizeof c->match_weights);
    struct rounding look = {.bits = 27}, sift = {.bits = 27};
    struct matcher_big power = {{1}}, decide = constant_unit(c);
    matcher_big_mod(&power, &c->value);
    c->skip_weight = 0;
    for (uint32_t t = 0; t < n + c->look_digits; t++) {
        if (t < n) {
            uint64_t fraction = matcher_big_fraction(&decide, &c->value);
            c->match_weights[place_from_end(t, lanes / 2)] = weight_for_digit_word(fraction);
            c->sift_weights[place_from_end(t, lanes)] = look_weight(kernel, rounding_take(&sift, fraction, 1));
            matcher_big_append_mod(&decide, (const uint8_t *)"0", 1, &c->value);
        }
        if (c->look_digits > 0 && t >= c->look_digits) {
            uint64_t fraction = matcher_big_fraction(&power, &c->value);
            uint32_t distance = t - c->look_digits;
            if (distance == 0)
                c->skip_weight = fraction;
            if (distance >= c->skip_digits)
                c->look_weights[place_from_end(distance - c->skip_digits, lanes)] =
                    look_weight(kernel, rounding_take(&look, fraction, 1));
        }
        matcher_big_append_mod(&power, (const uint8_t *)"0", 1, &c->value);
    }
    /* 10^K / M in units of 2^-27, rounded up. */
    look_set(&c->look, &c->look_offset, c->look_weights,
             n > c->skip_digits ? blocks_for(n - c->skip_digits, MATCHER_STEPS * lanes) : 0,
             (uint32_t)(c->skip_weight >> 37) + 1, rounding_bound(&look));
    look_set(&c->sift, &c->sift_offset, c->sift_weights, blocks_for(n, MATCHER_STEPS * lanes), 0, rounding_bound(&sift));
    c->match = (struct matcher_decide){c->match_weights, blocks_for(n, MATCHER_STEPS * lanes / 2), 9 * (uint64_t)n / 2 + 1};
}

/* Weights by position: fractions of 10^-(t + 1) / m, m being M without its factors 2 and 5. */
static void constant_fill_prefix_weights(struct matcher_constant *c, const struct matcher_big *m, uint32_t n,
                                         uint32_t lanes)
{
    uint32_t inverse = 0, last;     /* -1 / m modulo 10 */
    struct matcher_big rest = *m;
    for (last = (uint32_t)matcher_big_div(&rest, 10); (last * inverse + 1) % 10 != 0;)
        inverse++;
    uint32_t window = blocks_for(n, MATCHER_BLOCK_DIGITS_MAX) * MATCHER_BLOCK_DIGITS_MAX;
    memset(c->follow_weights, 0, sizeof c->follow_weights);
    static uint64_t fractions[MATCHER_N_DIGITS_MAX + MATCHER_SEGMENT_DIGITS];
    struct rounding last_n = {.bits = 32};
    c->keys.tolerance = 0;
    struct matcher_big power = {{1}};
    for (uint32_t t = 0; t < window + MATCHER_SEGMENT_DIGITS; t++) {
        /* power / 10: power + multiple * m ends in 0 for one multiple below 10. */
        rest = power;
        struct matcher_big multiple = *m;
        matcher_big_mul_add(&multiple, matcher_big_div(&rest, 10) * inverse % 10, 0);
        matcher_big_add(&power, &multiple);
        ASSERT(matcher_big_div(&power, 10) == 0);
        matcher_big_mod(&power, m);
        if (t >= n && c->method != MATCHER_HASH)
            break;
        uint64_t fraction = matcher_big_fraction(&power, m);
        if (t < n)
            c->follow_weights[place_from_begin(t, lanes / 2)] = weight_for_digit_word(fraction);
        c->key_weights[place_from_begin(t, lanes)] = (uint32_t)weight_for_digit_word(rounding_take(&last_n, fraction, 1));
        /* Keys that are compared are at most n digits apart. */
        fractions[t] = fraction;
        if (t >= n)
            rounding_take(&last_n, fractions[t - n], -1);
        c->keys.tolerance = (uint32_t)max_size(c->keys.tolerance, rounding_bound(&last_n));
    }
    uint32_t edge_bit = 0;
    while ((UINT32_C(1) << edge_bit) <= 2 * c->keys.tolerance)
        edge_bit++;
    c->keys.edge_mask = (UINT32_C(1) << MATCHER_CELL_SHIFT) - (UINT32_C(1) << edge_bit);
    c->follow = (struct matcher_decide){c->follow_weights, blocks_for(n, MATCHER_STEPS * lanes / 2), 9 * (uint64_t)n / 2 + 1};
}

void matcher_constant_prepare(struct matcher_constant *c, uint32_t n, const struct matcher_kernel *kernel)
{
    /* M = 2^twos * 5^fives * m */
    struct matcher_big m = c->value;
    uint32_t twos = 0, fives = 0;
    const struct { uint32_t prime, *exponent; } parts[] = {{2, &twos}, {5, &fives}};
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        struct matcher_big quotient = m;
        while (matcher_big_div(&quotient, parts[i].prime) == 0) {
            m = quotient;
            ++*parts[i].exponent;
        }
    }

    constant_choose_look(c);
    uint32_t blocks = n > c->skip_digits ? blocks_for(n - c->skip_digits, MATCHER_BLOCK_DIGITS_MAX) : 1;
    if (c->digits > n)
        c->method = MATCHER_NEVER;
    else if (look_is_cheaper(c->look_digits, blocks))
        c->method = MATCHER_LOOK;
    else if (matcher_big_bits(&m) > 64 || m.word[0] >= HASH_RESIDUES_MIN)
        c->method = MATCHER_HASH;
    else
        c->method = MATCHER_EACH;

    /* A fraction that is not 0 is at least 1 / M away from it, 2^14 units here, and is computed as if it were off by
     * the tolerance at most. */
    c->sure = matcher_big_bits(&c->value) <= 50;
    ASSERT(UINT64_C(1) << 14 > 2 * (9 * (uint64_t)n / 2 + 1));

    c->tail_digits = (uint32_t)min_size(min_size(c->digits, MATCHER_TAIL_DIGITS_MAX), max_size(twos, fives));
    c->tail_scale = c->tail_power = 1;
    for (uint32_t i = 0; i < c->tail_digits; i++) {
        c->tail_scale *= 10;
        c->tail_power *= (i < twos ? 2 : 1) * (i < fives ? 5 : 1);
    }

    c->keys.even = twos > 0;
    c->keys.five = fives > 0;
    memset(c->taken, 0, sizeof c->taken);

    if (c->method != MATCHER_NEVER) {
        constant_fill_weights(c, n, kernel);
        constant_fill_prefix_weights(c, &m, n, kernel->lanes);
    }
}
