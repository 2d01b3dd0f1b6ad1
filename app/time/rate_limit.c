#include "app/time/rate_limit.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"

enum { SET_BITS = 10, SET_COUNT = 1 << SET_BITS, WAY_COUNT = 4 };
enum { LEAK_ONE_IN = 4 }; /* chrony's ratelimit has the same default */

/* A bucket that leaks one request each period: as many as it holds were asked for and have not yet run out. */
struct bucket {
    uint64_t full_until_ns; /* when all that it holds will have run out; 0: never used */
    uint32_t address;
    bool kissed; /* a kiss was sent, and the bucket has not been empty since */
};

static struct {
    struct siphash_key key;
    uint64_t period_ns; /* 0: no limit */
    uint32_t burst;
    uint64_t drawn; /* lots so far */
    struct bucket sets[SET_COUNT][WAY_COUNT];
} limit;

static struct {
    struct bucket *set; /* NULL: nothing is kept */
    struct bucket buckets[WAY_COUNT];
    uint64_t drawn;
} kept;

void rate_limit_init(struct siphash_key key, uint32_t rate, uint32_t burst)
{
    ASSERT(burst > 0);
    memset(&limit, 0, sizeof limit);
    limit.key = key;
    limit.period_ns = rate ? NS_PER_S / rate : 0;
    limit.burst = burst;
}

static struct bucket *set_of(uint32_t address)
{
    return limit.sets[siphash(limit.key, &address, sizeof address) >> (64 - SET_BITS)];
}

/* Returns the bucket of an address: its own, or the one of its set that is empty first. */
static struct bucket *bucket_of(uint32_t address)
{
    struct bucket *set = set_of(address);
    struct bucket *oldest = set;
    for (unsigned way = 0; way < WAY_COUNT; way++) {
        if (set[way].full_until_ns != 0 && set[way].address == address)
            return &set[way];
        if (set[way].full_until_ns < oldest->full_until_ns)
            oldest = &set[way];
    }
    ASSERT(oldest >= set && oldest < set + WAY_COUNT);
    *oldest = (struct bucket){ .address = address };
    return oldest;
}

/* Draws the lot of a request above the rate. */
static bool leaks(void)
{
    limit.drawn++;
    return siphash(limit.key, &limit.drawn, sizeof limit.drawn) % LEAK_ONE_IN == 0;
}

enum rate_verdict rate_limit_take(uint32_t address, uint64_t now_ns)
{
    ASSERT(limit.burst > 0);
    if (limit.period_ns == 0)
        return RATE_PASS;
    struct bucket *bucket = bucket_of(address);
    if (bucket->full_until_ns <= now_ns) {
        bucket->full_until_ns = now_ns;
        bucket->kissed = false;
    }
    if (bucket->full_until_ns - now_ns <= (limit.burst - 1) * limit.period_ns) {
        bucket->full_until_ns += limit.period_ns;
        return RATE_PASS;
    }
    enum rate_verdict verdict = !bucket->kissed ? RATE_KISS : leaks() ? RATE_LEAK : RATE_DROP;
    bucket->kissed = true;
    return verdict;
}

void rate_limit_keep(uint32_t address)
{
    ASSERT(kept.set == NULL);
    kept.set = set_of(address);
    kept.drawn = limit.drawn;
    memcpy(kept.buckets, kept.set, sizeof kept.buckets);
}

void rate_limit_put_back(void)
{
    ASSERT(kept.set != NULL);
    memcpy(kept.set, kept.buckets, sizeof kept.buckets);
    limit.drawn = kept.drawn;
    kept.set = NULL;
}
