/* The look-ahead filter's tables: where the probes stand, and their rows of weights.
 *
 * The problem: a burst of 100 digits has 100 ends, and each end has N starts for each modulus. At N = 256 and four
 * moduli these are 100,000 sums, and nearly never is one of them an answer.
 *
 * First idea: go back from each end over the digits, and add digit times weight. The sum after each digit is the
 * fraction of v / M for the start there; 0 is an answer. A vector takes several ends at once, each lane with weights of
 * its own. That is a multiplication for each pair: with eight lanes 13,000 for the burst above.
 *
 * Second idea: look ahead. K more digits add less than 10^K to v(i, e) 10^K. They make a multiple only if the fraction
 * of v(i, e) 10^K / M is 0, or at most 10^K / M below 1. So the digits up to e rule out K ends at once, and each
 * modulus has a probe at each K-th position. K is the largest number with 10^K 2^16 <= M: one sum in 2^15 is a hit by
 * chance.
 *
 *     group          -1          0           1           2           3
 *     digits     -12 .. -5    -4 .. 3     4 .. 11    12 .. 19    20 .. 27
 *     at 5        ########    ########    mm......    ........    ........     lane 0
 *     at 13       ########    ########    ########    mm......    ........     lane 1      # weights
 *     at 16       ########    ########    ########    mmmm....    ........     lane 2      m weights, muted
 *     at 21       ########    ########    ########    ########    mm......     lane 3      . weights of 0
 *              <-- digits are taken from right to left, the same for each lane --
 *     (two digits share a row: at an odd position the digit after it counts as well)
 *
 * A row of weights serves two digits, as one number, and all lanes of a vector: one load, one broadcast digit pair, one
 * multiplication. Probes of all moduli are sorted by position, so a vector's lanes begin close together. Three
 * vectors make a batch. The last one has the highest groups and begins alone:
 *
 *     vector 0     |<--------------------------|
 *     vector 1     |<--------------------------|---------------|
 *     vector 2     |<--------------------------|---------------|-----------|
 *                bottom   three together       top[2]  two    top[1]  one  top[0]
 *
 * top[0] is the group of the last probe that the burst needs. If a vector of 16 lanes has that probe in its lower half,
 * only this half is taken: AVX-512 takes no more lanes than AVX2.
 *
 * Two things break it. A sum over zeros, or over no digits yet, is 0, and so a hit: hence lanes are muted first
 * (probe_may_stand). Weights are rounded: hence the limit is wider by the error (modulus.c).
 *
 * Most digits are the window's, and known before the burst. Idle time adds up their share of each sum, 16 bits a start.
 * The path takes the block's digits, adds the result to these partial sums, and compares.
 *
 * The bound: digits / K probes a modulus, each over N digits at most, whatever the digits are. Hits cost more, and have
 * a bound of their own: search.c. */
#include "app/matcher/filter.h"

#include "base/assert.h"

/* Muted lanes have this much added to their sums, a quarter of the range: sums of 0, and those a little above, are then
 * out of reach of each limit. */
enum { MUTED = 1 << 30 };

/* Returns true if a probe may stand at this position. A lane is muted from its position back to the first beginning of
 * a group. At least one digit must lie in between, and no start there may be old enough for an answer. */
static bool probe_may_stand(uint32_t at)
{
    const uint32_t into_group = (at + FILTER_GROUP_BEFORE) % FILTER_GROUP;
    return into_group >= 1 && into_group <= MODULUS_YOUNG_DIGITS;
}

/* Returns the position of a modulus' next probe after a position: at most K digits on, at last the block's end. */
static uint32_t next_position(const struct modulus_probe *probe, uint32_t at)
{
    uint32_t next = min_u32(at + probe->digits, FILTER_BLOCK_DIGITS);
    while (!probe_may_stand(next))
        next--;
    ASSERT(next > at && next - at <= probe->digits);
    return next;
}

/* Sets the probes of all moduli, ordered by position, and counts those that a block needs. */
static void place_probes(struct filter *filter, const struct matcher_modulus *moduli, uint32_t count)
{
    uint32_t next[MATCHER_MODULUS_COUNT_MAX] = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        if (moduli[i].method != MODULUS_FILTER)
            continue;
        ASSERT(moduli[i].probe.digits >= FILTER_DIGITS_MIN);
        filter->first[i] = (uint16_t)(next[i] = next_position(&moduli[i].probe, 0));
    }
    for (uint32_t at = 1; at <= FILTER_BLOCK_DIGITS; at++) {
        for (uint32_t i = 0; i < count; i++) {
            if (next[i] != at)
                continue;
            ASSERT(filter->probe_count < FILTER_PROBES_MAX);
            next[i] = at < FILTER_BLOCK_DIGITS ? next_position(&moduli[i].probe, at) : at + filter->first[i];
            filter->probe[filter->probe_count++] = (struct filter_probe){ (uint16_t)at, (uint16_t)next[i],
                                                                          (uint16_t)i };
        }
        filter->needed[at + 1] = (uint16_t)filter->probe_count; /* a probe decides ends from the next digit's on */
    }
}

/* Returns the group of the oldest start that a probe at this position reaches. */
static int32_t bottom_group(uint32_t n, uint32_t at)
{
    const int32_t oldest = (int32_t)at + 1 - (int32_t)n + FILTER_GROUP_BEFORE;
    return (oldest + MATCHER_N_DIGITS_MAX) / FILTER_GROUP - MATCHER_N_DIGITS_MAX / FILTER_GROUP;
}

/* Returns the weight of a digit, counted from the block's first, for a probe. Two digits share a weight. At an odd
 * position the last digit shares it with the digit after the position. That digit counts as well, and the probe then
 * looks K - 1 digits ahead from there. */
static uint32_t weight_at(const struct modulus_probe *probe, uint32_t n, uint32_t at, int32_t digit)
{
    const int32_t index = (int32_t)at - digit;
    if (digit >= (int32_t)(at + at % 2) || index > (int32_t)n)
        return 0;
    ASSERT(index >= 0 && index <= MATCHER_N_DIGITS_MAX);
    return probe->weights[MODULUS_AFTER - index];
}

/* Fills rows down to the lowest group of all vectors, because those of a batch go down together. */
void filter_fill(struct filter *filter, const struct matcher_modulus *moduli)
{
    const uint32_t lanes = filter->lanes, first = filter->filled * lanes;
    const struct filter_probe *probes = &filter->probe[first];
    const uint32_t used = min_u32(filter->probe_count - first, lanes);
    const int32_t oldest = bottom_group(filter->n, filter->probe[0].at);
    struct filter_vector *v = &filter->vector[filter->filled++];
    uint32_t *row = filter->row_next;
    ASSERT(filter->filled <= filter->vector_count && used >= 1);
    *v = (struct filter_vector){
        .top = filter_top_group(&probes[used - 1]),
        .bottom = bottom_group(filter->n, probes[0].at),
    };
    v->group0 = row + v->top * (int32_t)((1 + FILTER_ROWS) * lanes);
    filter->row_next += (v->top - oldest + 1) * (int32_t)((1 + FILTER_ROWS) * lanes);
    ASSERT(filter->row_next <= filter->row + ARRAY_COUNT(filter->row));
    memset(row, 0, (size_t)(filter->row_next - row) * sizeof *row);
    for (uint32_t l = 0; l < lanes; l++)
        v->start[l] = MUTED; /* a lane without a probe stays so */
    for (uint32_t l = 0; l < used; l++) {
        const struct modulus_probe *of = &moduli[probes[l].modulus].probe;
        v->start[l] = of->offset + MUTED;
        filter->limit = max_u32(filter->limit, of->limit);
        ASSERT(filter->limit < MUTED / 2);
    }
    for (int32_t group = v->top; group >= oldest; group--) {
        /* This word unmutes the lane. It is added before the digits of the group below the one that holds the position.
         * Positions are 5 or more: that is group 0 or a higher one, never one of the window's part. */
        for (uint32_t l = 0; l < used; l++)
            row[l] = group == (int32_t)(probes[l].at + FILTER_GROUP_BEFORE) / FILTER_GROUP - 1 ? 0 - (uint32_t)MUTED
                                                                                               : 0;
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
    /* Rounded up to whole vectors: the wider ones never hold fewer probes. */
    const size_t sums = n <= 256 ? FILTER_CACHE_SUMS : FILTER_CACHE_SUMS / 4 * 3, vector_sums = lanes * max_size(n, 64);
    filter->cache_vectors = (uint32_t)min_size(filter->vector_count, (sums + vector_sums - 1) / vector_sums);
    filter_check(filter, moduli);
}

void filter_check(const struct filter *filter, const struct matcher_modulus *moduli)
{
    ASSERT(filter->probe_count <= FILTER_PROBES_MAX && filter->vector_count <= FILTER_VECTORS_MAX);
    ASSERT(filter->cached <= filter->cache_vectors && filter->cache_vectors <= filter->vector_count);
    ASSERT(filter->filled <= filter->vector_count && (filter->cached == 0 || filter_ready(filter)));
    for (uint32_t k = 0; k < filter->probe_count; k++) {
        const struct filter_probe *probe = &filter->probe[k];
        ASSERT(probe->at >= 5 && probe->at <= FILTER_BLOCK_DIGITS && probe->reach > probe->at);
        ASSERT(k == 0 || filter->probe[k - 1].at <= probe->at);
        ASSERT((uint32_t)(probe->reach - probe->at) <= moduli[probe->modulus].probe.digits);
    }
    for (uint32_t index = 0; index < filter->filled; index++) {
        const struct filter_vector *v = &filter->vector[index];
        ASSERT(v->top >= v->bottom - 1 && v->top - v->bottom < FILTER_GROUPS_MAX);
    }
}
