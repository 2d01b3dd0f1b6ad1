#include "app/digest/chains.h"

#include "app/digest/variants.h"
#include "base/assert.h"
#include "base/bytes.h"

static struct {
    struct chain *all[CHAIN_COUNT_MAX]; /* in any order, but those of the last slices come first */
    size_t count;
    uint64_t added, slices;
} chains;

void digest_chains_clear(void) { chains.count = 0; }
size_t digest_chains_count(void) { return chains.count; }

void digest_chains_add(struct chain *chain)
{
    ASSERT(chain->rounds_left > 0);
    ASSERT(chains.count < CHAIN_COUNT_MAX);
    chain->number = chains.added++;
    chains.all[chains.count++] = chain;
}

void digest_chains_remove(struct chain *chain)
{
    size_t i = 0;
    while (i < chains.count && chains.all[i] != chain)
        i++;
    ASSERT(i < chains.count);
    chains.all[i] = chains.all[--chains.count];
}

/* Returns true if a chain comes before another one in this slice. */
static bool is_before(const struct chain *a, const struct chain *b)
{
    return chains.slices % 2 == 0 ? a->rounds_left < b->rounds_left : a->number < b->number;
}

/* Returns the place of the chain that comes last among the first `count`. */
static size_t last_of(size_t count)
{
    size_t last = 0;
    ASSERT(count > 0 && count <= chains.count);
    for (size_t i = 1; i < count; i++)
        last = is_before(chains.all[last], chains.all[i]) ? i : last;
    return last;
}

/* Brings the chains of this slice to the front. Most of them are there since the slice before the last. */
static void choose(size_t count)
{
    size_t last = last_of(count);
    for (size_t i = count; i < chains.count; i++) {
        struct chain *chain = chains.all[i];
        if (!is_before(chain, chains.all[last]))
            continue;
        chains.all[i] = chains.all[last];
        chains.all[last] = chain;
        last = last_of(count);
    }
}

uint64_t digest_chains_work(void)
{
    static uint32_t unused[SHA256_LANES_MAX][8]; /* for lanes that no chain is in */
    uint32_t *digests[SHA256_LANES_MAX] = { unused[0] };
    if (chains.count == 0)
        return 0;
    size_t waiting = min_size(chains.count, SHA256_LANES_MAX);
    const struct sha256_ops *ops = digest_variants.chains[waiting];
    size_t count = min_size(chains.count, ops->lanes);
    choose(count);
    chains.slices++;
    uint32_t rounds = digest_variants.chain_rounds[waiting];
    for (size_t i = 0; i < count; i++)
        rounds = (uint32_t)min_u64(chains.all[i]->rounds_left, rounds);
    for (size_t lane = 0; lane < ops->lanes; lane++)
        digests[lane] = lane < count ? chains.all[lane]->digest : unused[lane];
    ops->rounds(digests, rounds);
    for (size_t i = count; i-- > 0;) {
        chains.all[i]->rounds_left -= rounds;
        if (chains.all[i]->rounds_left == 0)
            digest_chains_remove(chains.all[i]);
    }
    ASSERT(rounds > 0);
    return (uint64_t)rounds * count;
}
