#include "app/digest/chains.h"

#include "app/digest/variants.h"
#include "base/assert.h"
#include "base/bytes.h"

static struct {
    struct chain *all[CHAIN_COUNT_MAX]; /* in any order, but those of the last slice come first */
    size_t count;
} chains;

void chains_clear(void) { chains.count = 0; }
size_t chains_count(void) { return chains.count; }

void chains_add(struct chain *chain)
{
    ASSERT(chain->rounds_left > 0);
    ASSERT(chains.count < CHAIN_COUNT_MAX);
    chains.all[chains.count++] = chain;
}

void chains_remove(struct chain *chain)
{
    size_t i = 0;
    while (i < chains.count && chains.all[i] != chain)
        i++;
    ASSERT(i < chains.count);
    chains.all[i] = chains.all[--chains.count];
}

/* Brings the chains with the fewest rounds left to the front. */
static void shortest_first(size_t count)
{
    ASSERT(count <= chains.count);
    for (size_t to = 0; to < count; to++) {
        size_t least = to;
        for (size_t i = to + 1; i < chains.count; i++)
            least = chains.all[i]->rounds_left < chains.all[least]->rounds_left ? i : least;
        struct chain *chain = chains.all[least];
        chains.all[least] = chains.all[to];
        chains.all[to] = chain;
    }
}

uint64_t chains_work(void)
{
    static uint32_t unused[SHA256_LANES_MAX][8]; /* for lanes that no chain is in */
    uint32_t *digests[SHA256_LANES_MAX] = { unused[0] };
    if (chains.count == 0)
        return 0;
    size_t waiting = min_size(chains.count, SHA256_LANES_MAX);
    const struct sha256_ops *ops = variants.chains[waiting];
    size_t count = min_size(chains.count, ops->lanes);
    shortest_first(count);
    uint32_t rounds = (uint32_t)min_size(chains.all[0]->rounds_left, variants.chain_rounds[waiting]);
    for (size_t lane = 0; lane < ops->lanes; lane++)
        digests[lane] = lane < count ? chains.all[lane]->digest : unused[lane];
    ops->rounds(digests, rounds);
    for (size_t i = count; i-- > 0;) {
        chains.all[i]->rounds_left -= rounds;
        if (chains.all[i]->rounds_left == 0)
            chains_remove(chains.all[i]);
    }
    ASSERT(rounds > 0);
    return (uint64_t)rounds * count;
}
