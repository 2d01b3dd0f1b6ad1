/* The look-ahead filter's tables: where the probes stand, and their rows of weights. */
#include "app/matcher/filter.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

/* Returns true if a modulus may have a probe at this position. The sum over zeros alone looks like a candidate's.
 * Therefore a lane is muted from its position back to the first beginning of a group: no sum there can be a candidate's.
 * At least one digit must lie in between, and at most young_digits: no start there is old enough for an answer. */
static bool probe_may_end(const struct modulus_probe *probe, uint32_t end)
{
    const uint32_t into_group = (end + FILTER_GROUP_BEFORE) % FILTER_GROUP;
    return into_group >= 1 && into_group <= probe->young_digits;
}

/* Returns the position of a modulus' next probe behind a position: at most K digits on, at last the block's end. */
static uint32_t next_end(const struct modulus_probe *probe, uint32_t end)
{
    uint32_t next = (uint32_t)min_size(end + probe->digits, FILTER_BLOCK_DIGITS);
    while (!probe_may_end(probe, next))
        next--;
    ASSERT(next > end);
    return next;
}

/* Sets the probes of all moduli, ordered by position. */
static void place_probes(struct filter *filter, const struct matcher_modulus *moduli, uint32_t count)
{
    uint32_t next[MATCHER_MODULUS_COUNT_MAX] = { 0 };
    for (uint32_t i = 0; i < count; i++)
        if (moduli[i].method == MODULUS_FILTER)
            filter->first[i] = (uint16_t)(next[i] = next_end(&moduli[i].probe, 0));
    for (uint32_t end = 1; end <= FILTER_BLOCK_DIGITS; end++) {
        for (uint32_t i = 0; i < count; i++) {
            if (next[i] != end)
                continue;
            ASSERT(filter->probe_count < FILTER_PROBES_MAX);
            next[i] = end < FILTER_BLOCK_DIGITS ? next_end(&moduli[i].probe, end) : end + filter->first[i];
            filter->probe[filter->probe_count++] = (struct filter_probe){ (uint16_t)end, (uint16_t)next[i],
                                                                          (uint16_t)i };
        }
    }
}

/* Returns the group of the oldest start that a probe at this position reaches. */
static int32_t bottom_group(uint32_t n, uint32_t end)
{
    const int32_t oldest = (int32_t)end + 1 - (int32_t)n + FILTER_GROUP_BEFORE;
    return (oldest + MATCHER_N_DIGITS_MAX) / FILTER_GROUP - MATCHER_N_DIGITS_MAX / FILTER_GROUP;
}

/* Returns the weight of a digit, counted from the block's first, for a probe. At an odd position the last digit shares
 * its weight with the digit behind the position. That digit counts as well: the probe then looks K - 1 digits ahead,
 * from behind it. */
static uint32_t weight_at(const struct modulus_probe *probe, uint32_t n, uint32_t end, int32_t digit)
{
    const int32_t index = (int32_t)end - digit;
    if (digit >= (int32_t)(end + end % 2) || index > (int32_t)n)
        return 0;
    ASSERT(index >= 0 && index <= MATCHER_N_DIGITS_MAX);
    return probe->weights[MODULUS_AFTER - index];
}

/* Fills the next vector's rows. They reach down to the lowest group of all vectors, because those of a batch go down
 * together. */
static void fill_vector(struct filter *filter, const struct matcher_modulus *moduli)
{
    const uint32_t lanes = filter->lanes, first = filter->filled * lanes, muted = UINT32_C(1) << 30;
    const struct filter_probe *probes = &filter->probe[first];
    const uint32_t used = (uint32_t)min_size(filter->probe_count - first, lanes);
    const int32_t oldest = bottom_group(filter->n, filter->probe[0].at);
    struct filter_vector *v = &filter->vector[filter->filled++];
    uint32_t *row = filter->row_next;
    ASSERT(filter->filled <= filter->vector_count && used >= 1);
    *v = (struct filter_vector){
        .top = (probes[used - 1].at + FILTER_GROUP_BEFORE - 1) / FILTER_GROUP,
        .bottom = bottom_group(filter->n, probes[0].at),
    };
    v->group0 = row + v->top * (int32_t)((1 + FILTER_ROWS) * lanes);
    filter->row_next += (v->top - oldest + 1) * (int32_t)((1 + FILTER_ROWS) * lanes);
    ASSERT(filter->row_next <= filter->row + ARRAY_COUNT(filter->row));
    memset(row, 0, (size_t)(filter->row_next - row) * sizeof *row);
    for (uint32_t l = 0; l < lanes; l++)
        v->start[l] = muted; /* for ever, if there is no probe in this lane */
    for (uint32_t l = 0; l < used; l++) {
        const struct modulus_probe *of = &moduli[probes[l].modulus].probe;
        v->start[l] = of->offset + muted;
        v->limit[l] = of->limit;
        const uint32_t upper = (of->limit >> 16) + 1;
        filter->cache_limit = (uint32_t)max_size(filter->cache_limit, upper * (1 + (1 << 16)));
    }
    for (int32_t group = v->top; group >= oldest; group--) {
        for (uint32_t l = 0; l < used; l++)
            row[l] = group == (int32_t)(probes[l].at + FILTER_GROUP_BEFORE) / FILTER_GROUP - 1 ? 0 - muted : 0;
        row += lanes;
        for (int32_t s = 1; s < FILTER_GROUP; s += 2, row += lanes)
            for (uint32_t l = 0; l < used; l++)
                row[l] = weight_at(&moduli[probes[l].modulus].probe, filter->n, probes[l].at,
                                   FILTER_GROUP * group - FILTER_GROUP_BEFORE + s);
    }
}

void filter_begin(struct filter *filter, uint32_t lanes, const struct matcher_modulus *moduli, uint32_t count,
                  uint32_t n)
{
    memset(filter, 0, offsetof(struct filter, cache));
    filter->n = n;
    filter->lanes = lanes;
    filter->row_next = filter->row;
    place_probes(filter, moduli, count);
    filter->vector_count = (filter->probe_count + lanes - 1) / lanes;
    const uint32_t block_words = 8 * lanes;
    filter->cache_words = ((n + 1) / 2 + block_words - 1) / block_words * block_words;
    ASSERT(filter->probe_count * filter->cache_words <= ARRAY_COUNT(filter->cache));
}

bool filter_fill(struct filter *filter, const struct matcher_modulus *moduli)
{
    ASSERT(!filter->ready);
    if (filter->filled < filter->vector_count) {
        fill_vector(filter, moduli);
        return true;
    }
    for (uint32_t end = 1, k = 0; end <= FILTER_BLOCK_DIGITS; end++) {
        while (k < filter->probe_count && filter->probe[k].at == end)
            k++;
        filter->needed[end + 1] = (uint16_t)k;
    }
    const size_t sums = filter->n <= 256 ? FILTER_CACHE_SUMS : FILTER_CACHE_SUMS / 4 * 3;
    /* Whole vectors that hold so many probes: the wider ones never hold fewer. */
    const size_t vector_sums = filter->lanes * max_size(filter->n, 64);
    filter->cache_vectors = (uint32_t)min_size(filter->vector_count, (sums + vector_sums - 1) / vector_sums);
    filter->ready = true;
    filter_check(filter);
    return false;
}

void filter_init(struct filter *filter, uint32_t lanes, const struct matcher_modulus *moduli, uint32_t count,
                 uint32_t n)
{
    filter_begin(filter, lanes, moduli, count, n);
    while (filter_fill(filter, moduli))
        continue;
}

void filter_check(const struct filter *filter)
{
    ASSERT(filter->probe_count <= FILTER_PROBES_MAX && filter->vector_count <= FILTER_VECTORS_MAX);
    ASSERT(filter->cached <= filter->cache_vectors && filter->cache_vectors <= filter->vector_count);
    ASSERT(filter->filled <= filter->vector_count && (!filter->ready || filter->filled == filter->vector_count));
    for (uint32_t k = 0; k < filter->probe_count; k++) {
        const struct filter_probe *probe = &filter->probe[k];
        ASSERT(probe->at >= 5 && probe->at <= FILTER_BLOCK_DIGITS && probe->reach > probe->at);
        ASSERT(k == 0 || filter->probe[k - 1].at <= probe->at);
    }
    for (uint32_t index = 0; index < filter->vector_count; index++) {
        const struct filter_vector *v = &filter->vector[index];
        ASSERT(v->top >= v->bottom - 1 && v->top - v->bottom < FILTER_GROUPS_MAX);
    }
}
