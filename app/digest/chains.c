#include "app/digest/chains.h"

#include <string.h>

#include "app/digest/variants.h"
#include "base/assert.h"
#include "base/bytes.h"

enum {
    JOB_COUNT = WORK_WORKER_COUNT_MAX * WORK_DEPTH + 1,
    WORKER_SLICES = WORK_JOB_NS / VARIANTS_CHAIN_SLICE_NS, /* a worker's slice is as many of the loop's */
};

/* A slice of rounds of some chains, side by side. The digests are copies: a chain may go away meanwhile. */
struct chain_job {
    struct work work;
    const struct sha256_ops *ops;
    uint32_t rounds;
    uint32_t digests[SHA256_LANES_MAX][8];
    /* The loop's alone, also while a worker has the job. */
    struct chain *chains[SHA256_LANES_MAX]; /* NULL: went away */
    uint32_t count;
};

static struct {
    /* The chains that wait, in any order, but those of the last slices come first. */
    struct chain *all[CHAIN_COUNT_MAX];
    size_t count, out; /* chains that wait, and in jobs */
    uint64_t added, slices, rounds;
    struct chain_job jobs[JOB_COUNT], *free_jobs[JOB_COUNT];
    size_t free_count;
    void (*ended)(struct chain *chain);
    /* By the count of chains: how many are for each worker that gets some, and for the loop's CPU. */
    uint8_t share[CHAIN_COUNT_MAX + 1], own[CHAIN_COUNT_MAX + 1];
    /* By the count of chains: the rounds in VARIANTS_CHAIN_SLICE_NS, on all CPUs. */
    uint64_t rates[CHAIN_COUNT_MAX + 1];
    size_t width;
} chains;

/* Returns the rounds of `count` chains in a slice, spread over a number of CPUs. */
static uint64_t rate(size_t count, size_t cpus)
{
    ASSERT(count > 0 && cpus > 0);
    const size_t share = min_size((count + cpus - 1) / cpus, SHA256_LANES_MAX);
    const size_t lanes = min_size(share, digest_variants.chains[share]->lanes);
    return (uint64_t)min_size(cpus * lanes, count) * digest_variants.chain_rounds[share];
}

/* Returns over how many of the workers `count` chains are spread for the most rounds. A few chains are faster side by
 * side on one CPU than apart, if its lanes are wide. */
static size_t best_spread(size_t count, size_t workers)
{
    size_t best = 1;
    for (size_t more = 2; more <= workers; more++)
        best = rate(count, more) > rate(count, best) ? more : best;
    return best;
}

/* Decides how `count` chains are shared. The loop's CPU gets as many as make the most rounds in all. These must be more
 * than the workers' alone by a quarter of a worker's. */
static void share_out(size_t count)
{
    const size_t workers = max_size(work_worker_count(), 1);
    size_t cpus = best_spread(count, workers), own = 0;
    uint64_t most = rate(count, cpus) * (4 * workers + 1) / (4 * workers);
    for (size_t n = 1; n < count && n <= SHA256_LANES_MAX; n++) {
        const size_t spread = best_spread(count - n, workers);
        uint64_t rounds = rate(n, 1) + rate(count - n, spread);
        if (rounds <= most)
            continue;
        most = rounds;
        own = n;
        cpus = spread;
    }
    chains.own[count] = (uint8_t)own;
    chains.rates[count] = work_worker_count() == 0 ? rate(count, 1)
                          : own == 0               ? rate(count, cpus)
                                                   : rate(own, 1) + rate(count - own, cpus);
    chains.width = chains.rates[count] > chains.rates[chains.width] ? count : chains.width;
    chains.share[count] = (uint8_t)min_size((count - own + cpus - 1) / cpus, SHA256_LANES_MAX);
    ASSERT(chains.share[count] > 0);
}

void digest_chains_clear(void (*ended)(struct chain *chain))
{
    chains.count = chains.out = chains.free_count = chains.width = 0;
    chains.ended = ended;
    for (size_t i = 0; i < JOB_COUNT; i++)
        chains.free_jobs[chains.free_count++] = &chains.jobs[i];
    ASSERT(chains.free_count == JOB_COUNT);
    for (size_t count = 1; count <= CHAIN_COUNT_MAX; count++)
        share_out(count);
}

size_t digest_chains_count(void) { return chains.count + chains.out; }
size_t digest_chains_width(void) { return chains.width; }
uint64_t digest_chains_rounds_taken(void) { return chains.rounds; }

uint64_t digest_chains_rate(size_t count)
{
    ASSERT(count <= CHAIN_COUNT_MAX);
    return chains.rates[count];
}

void digest_chains_add(struct chain *chain)
{
    ASSERT(chain->rounds_left > 0);
    ASSERT(digest_chains_count() < CHAIN_COUNT_MAX);
    chain->number = chains.added++;
    chain->job = NULL;
    chains.all[chains.count++] = chain;
}

void digest_chains_remove(struct chain *chain)
{
    struct chain **const places = chain->job != NULL ? chain->job->chains : chains.all;
    const size_t count = chain->job != NULL ? chain->job->count : chains.count;
    size_t i = 0;
    while (i < count && places[i] != chain)
        i++;
    ASSERT(i < count);
    if (chain->job != NULL) {
        places[i] = NULL;
        chains.out--;
    } else {
        places[i] = places[--chains.count];
    }
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

static void job_run(struct work *work)
{
    struct chain_job *job = (struct chain_job *)work;
    uint32_t *digests[SHA256_LANES_MAX];
    ASSERT(job->rounds > 0);
    for (size_t lane = 0; lane < SHA256_LANES_MAX; lane++)
        digests[lane] = job->digests[lane];
    job->ops->rounds(digests, job->rounds);
}

/* Makes a job of the chains whose turn it is, at most `share`, for `slices` of the loop's slices. */
static struct chain_job *job_make(size_t share, uint32_t slices)
{
    ASSERT(chains.count > 0 && chains.free_count > 0);
    const size_t waiting = min_size(chains.count, share);
    struct chain_job *job = chains.free_jobs[--chains.free_count];
    job->work.run = job_run;
    job->ops = digest_variants.chains[waiting];
    job->count = (uint32_t)min_size(waiting, job->ops->lanes);
    job->rounds = slices * digest_variants.chain_rounds[waiting];
    choose(job->count);
    chains.slices++;
    for (size_t i = 0; i < job->count; i++) {
        struct chain *chain = job->chains[i] = chains.all[i];
        job->rounds = (uint32_t)min_u64(chain->rounds_left, job->rounds);
        memcpy(job->digests[i], chain->digest, sizeof chain->digest);
        chain->job = job;
    }
    chains.count -= job->count;
    chains.out += job->count;
    memmove(chains.all, chains.all + job->count, chains.count * sizeof chains.all[0]);
    return job;
}

/* Takes a job's results. The chains that go on come first. */
static void job_end(struct chain_job *job)
{
    struct chain *goes_on[SHA256_LANES_MAX] = { NULL };
    size_t count = 0;
    ASSERT(!work_is_out(&job->work));
    for (size_t i = 0; i < job->count; i++) {
        struct chain *chain = job->chains[i];
        if (chain == NULL)
            continue;
        memcpy(chain->digest, job->digests[i], sizeof chain->digest);
        chain->rounds_left -= job->rounds;
        chain->job = NULL;
        chains.out--;
        if (chain->rounds_left > 0)
            goes_on[count++] = chain;
        else if (chains.ended != NULL)
            chains.ended(chain);
    }
    memmove(chains.all + count, chains.all, chains.count * sizeof chains.all[0]);
    memcpy(chains.all, goes_on, count * sizeof chains.all[0]);
    chains.count += count;
    chains.rounds += (uint64_t)job->rounds * job->count;
    chains.free_jobs[chains.free_count++] = job;
}

bool digest_chains_take(struct work *work)
{
    if (work->run != job_run)
        return false;
    job_end((struct chain_job *)work);
    return true;
}

/* Begins slices. A worker's second job must be a full one: chains that wait for company do more rounds than apart. The
 * loop's CPU takes of those that are left, so none waits while a CPU has nothing to do. */
static void slices_begin(void)
{
    const size_t all = digest_chains_count(), share = chains.share[all];
    const size_t full = min_size(digest_variants.chains[share]->lanes, share);
    ASSERT(full > 0);
    while (chains.count > 0 && work_has_room(1))
        work_give(&job_make(share, WORKER_SLICES)->work);
    while (chains.count >= full + chains.own[all] && work_has_room(WORK_DEPTH))
        work_give(&job_make(share, WORKER_SLICES)->work);
    if (chains.count == 0)
        return;
    struct chain_job *job = job_make(SHA256_LANES_MAX, 1);
    work_here(&job->work);
    job_end(job);
}

uint64_t digest_chains_work(void)
{
    if (chains.count > 0)
        slices_begin();
    uint64_t rounds = chains.rounds;
    chains.rounds = 0;
    return rounds;
}
