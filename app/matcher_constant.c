#include "app/matcher_constant.h"

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

/* Fewer residues than this, and hash cells would hardly sort anything out. */
enum { HASH_RESIDUES_MIN = 1 << 14 };

/* Divides a weight by the digit word of 1, so that digit word times weight is digit times weight:
 * (1 + 2^27) * (1 - 2^27 + 2^54) = 1 modulo 2^64. */
static uint64_t weight_for_digit_word(uint64_t weight)
{
    return weight * (1 - (UINT64_C(1) << 27) + (UINT64_C(1) << 54));
}

/* A weight modulo 2^27 as two factors, low + 2^11 * high, for the digit word's two: low in -1024..1023. */
static uint32_t weight_in_halves(uint32_t weight)
{
    uint32_t low = ((weight + 1024) & 2047) - 1024, high = (weight - low) >> 11;
    return (high & 0xffff) << 16 | (low & 0xffff);
}

static uint64_t fraction_tolerance(uint32_t n) { return 9 * (uint64_t)n / 2 + 1; }

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
    c->look.digits = 0;
    for (;;) {
        matcher_big_mul_add(&reach, 10, 0);
        if (matcher_big_compare(&reach, &c->value) > 0)
            break;
        c->look.digits++;
    }
    c->look.young_digits = c->digits - c->look.digits - 1;      /* 4 or 5 */
}

/* Where the planes have a position: app/matcher_kernel.h. */
static void planes_store(union matcher_planes *planes, uint32_t position, uint32_t weight, uint32_t lanes)
{
    if (lanes == 1) {
        planes->word[position] = weight;
        return;
    }
    planes->row[position % MATCHER_STEPS][position / MATCHER_STEPS] = weight;
    planes->row[MATCHER_STEPS + position % MATCHER_STEPS][position / MATCHER_STEPS - 1] = weight;
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

/* What a sum of weights, each counted up to `times` times, may be off: a weight is a fraction rounded to its upper
 * `bits` bits. In units of the last of these, times 2^-32. */
struct rounding {
    uint32_t bits, times;
    uint64_t up, down;
};

static uint32_t rounding_take(struct rounding *rounding, uint64_t fraction, int sign)
{
    uint64_t unit = UINT64_C(1) << (64 - rounding->bits), rounded = (fraction + unit / 2) & ~(unit - 1);
    int64_t error = (int64_t)(rounded - fraction);      /* -unit / 2 .. unit / 2 */
    uint64_t size = (uint64_t)(error < 0 ? -error : error) * rounding->times;
    size = rounding->bits > 32 ? size << (rounding->bits - 32) : size >> (32 - rounding->bits);
    *(error < 0 ? &rounding->down : &rounding->up) += sign > 0 ? size : -size;
    return (uint32_t)(rounded >> (64 - rounding->bits));
}

/* The larger side in whole units; 2 more for what is rounded elsewhere. */
static uint32_t rounding_bound(const struct rounding *rounding)
{
    return (uint32_t)(max_size(rounding->up, rounding->down) >> 32) + 2;
}

/* Weights by distance from the end: fractions of unit * 10^t / M to decide, of 10^t / M to look ahead. Fractions of a
 * hot start are at most 10^K / M below 1, or 0, give or take the rounding: adding that much makes them at most `limit`.
 * Where a mask is to test for it, the limit is all ones. */
static void constant_fill_weights(struct matcher_constant *c, struct matcher_big *unit, uint32_t n,
                                  const struct matcher_kernel *kernel)
{
    memset(&c->look.weights, 0, sizeof c->look.weights);
    /* Weights of digits; of pairs of them, from a look's last digit on or from the one behind it. */
    struct rounding look = {.bits = kernel->look_bits, .times = 9};
    struct rounding pairs[2] = {{.bits = kernel->look_bits, .times = 99}, {.bits = kernel->look_bits, .times = 99}};
    struct matcher_big power = {{1}};
    uint64_t reach = 0;             /* the fraction of 10^K / M */
    matcher_big_mod(&power, &c->value);
    for (uint32_t t = 0; t < n + c->look.digits; t++) {
        if (t < n) {
            c->match_weights[n - 1 - t] = matcher_big_fraction(unit, &c->value);
            matcher_big_append_mod(unit, (const uint8_t *)"0", 1, &c->value);
        }
        if (c->look.digits > 0 && t + kernel->row_digits > c->look.digits) {
            uint64_t fraction = matcher_big_fraction(&power, &c->value);
            uint32_t distance = t - c->look.digits, weight = rounding_take(&look, fraction, 1);
            if (distance == 0)
                reach = fraction;
            if (t >= c->look.digits)
                c->look.comb[MATCHER_COMB_LAST - distance] = kernel->digit_words ? weight_in_halves(weight) : weight;
            if (kernel->row_digits == 2)
                rounding_take(&pairs[distance % 2], fraction, 1);
            planes_store(&c->look.weights, MATCHER_SEGMENT_AT - 1 - distance,
                         kernel->digit_words ? weight_in_halves(weight) : weight, kernel->lanes);
        }
        matcher_big_append_mod(&power, (const uint8_t *)"0", 1, &c->value);
    }
    uint32_t error = rounding_bound(&look), units = (uint32_t)(reach >> (64 - kernel->look_bits)) + 1;
    if (kernel->row_digits == 2)
        error += (uint32_t)max_size(rounding_bound(&pairs[0]), rounding_bound(&pairs[1]));
    if (kernel->lanes == 1)
        error += (uint32_t)fraction_tolerance(n) + 2;   /* what a lane takes from the one below: app/matcher_scalar.c */
    c->look.offset = units + error;
    c->look.limit = units + 2 * error;
    c->look.block_count = blocks_for(n, kernel->block);
    while (kernel->digit_words && (c->look.limit & (c->look.limit + 1)) != 0)
        c->look.limit |= c->look.limit + 1;
}

/* Modulo m; inverse is -1 / m modulo 10: power + multiple * m ends in 0 for one multiple below 10. */
static void divide_by_ten(struct matcher_big *power, const struct matcher_big *m, uint32_t inverse)
{
    struct matcher_big rest = *power, multiple = *m;
    matcher_big_mul_add(&multiple, matcher_big_div(&rest, 10) * inverse % 10, 0);
    matcher_big_add(power, &multiple);
    ASSERT(matcher_big_div(power, 10) == 0);
    matcher_big_mod(power, m);
}

/* Weights by position: fractions of 10^-(t + 1) / m, m being M without its factors 2 and 5, to hash; of
 * unit * 10^-(t + 1) / m to follow. */
static void constant_fill_prefix_weights(struct matcher_constant *c, const struct matcher_big *m,
                                         const struct matcher_big *unit, uint32_t n,
                                         const struct matcher_kernel *kernel)
{
    uint32_t inverse = 0, last;     /* -1 / m modulo 10 */
    struct matcher_big rest = *m;
    for (last = (uint32_t)matcher_big_div(&rest, 10); (last * inverse + 1) % 10 != 0;)
        inverse++;
    uint32_t window = matcher_window(n), reach = 0;
    static uint64_t fractions[MATCHER_HASHED_DIGITS];
    struct rounding last_n = {.bits = 32, .times = 9};
    struct matcher_big power = {{1}}, follow = *unit;
    matcher_big_mod(&follow, m);
    for (uint32_t t = 0; t < n; t++) {
        divide_by_ten(&follow, m, inverse);
        c->follow_weights[t] = matcher_big_fraction(&follow, m);
    }
    for (uint32_t t = 0; (c->method == MATCHER_HASH || c->hash_long) && t < window + MATCHER_SEGMENT_DIGITS; t++) {
        divide_by_ten(&power, m, inverse);
        fractions[t] = matcher_big_fraction(&power, m);
        if (kernel->lanes == 1) {
            c->hash.plain.weights[t] = (fractions[t] | (BIT(MATCHER_PLACE_BITS) - 1)) + 1;     /* never down */
            continue;
        }
        uint32_t weight = rounding_take(&last_n, fractions[t], 1);
        c->hash.lanes.weights[t] = kernel->digit_words ? weight_for_digit_word(weight) : weight;
        if (t >= n)     /* keys that are compared are at most n digits apart */
            rounding_take(&last_n, fractions[t - n], -1);
        reach = (uint32_t)max_size(reach, rounding_bound(&last_n));
    }
    c->hash.base = MATCHER_SEGMENT_AT - window;
    c->hash.reach = kernel->lanes == 1 ? (9 * n + 1) << MATCHER_PLACE_BITS : reach;
    if (kernel->lanes > 1) {
        uint32_t edge_bit = 0;
        while ((UINT32_C(1) << edge_bit) <= 2 * reach)
            edge_bit++;
        c->hash.lanes.edge_mask = (UINT32_C(1) << (32 - MATCHER_CELL_BITS)) - (UINT32_C(1) << edge_bit);
    }
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
    bool few_residues = matcher_big_bits(&m) <= 64 && m.word[0] < HASH_RESIDUES_MIN;
    if (c->digits > n)
        c->method = MATCHER_NEVER;
    else if (c->look.digits >= kernel->look_digits_min)
        c->method = MATCHER_LOOK;
    else
        c->method = few_residues ? MATCHER_EACH : MATCHER_HASH;
    c->hash_long = c->method == MATCHER_LOOK && !few_residues && kernel->looks_max > 0 &&
                   c->look.digits * kernel->looks_max < n;

    /* A fraction that is not 0 is at least 1 / M away from it, 2^14 units here, and is computed as if it were off by
     * the tolerance at most. */
    c->tolerance = fraction_tolerance(n);
    c->sure = matcher_big_bits(&c->value) <= 50;
    ASSERT(UINT64_C(1) << 14 > 2 * c->tolerance);

    c->tail_digits = (uint32_t)min_size(min_size(c->digits, MATCHER_TAIL_DIGITS_MAX), max_size(twos, fives));
    c->tail_scale = c->tail_power = 1;
    for (uint32_t i = 0; i < c->tail_digits; i++) {
        c->tail_scale *= 10;
        c->tail_power *= (i < twos ? 2 : 1) * (i < fives ? 5 : 1);
    }
    for (uint32_t digit = 0; digit < 10; digit++)
        if (!(twos > 0 && digit % 2 != 0) && !(fives > 0 && digit % 5 != 0))
            c->last_digits |= UINT32_C(1) << digit;

    if (c->method != MATCHER_NEVER) {
        struct matcher_big unit = constant_unit(c);
        constant_fill_prefix_weights(c, &m, &unit, n, kernel);
        constant_fill_weights(c, &unit, n, kernel);
    }
}
