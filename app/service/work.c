#include "app/service/work.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/counters.h"
#include "base/cycles.h"
#include "base/format.h"
#include "base/spsc.h"
#include "base/time.h"

enum {
    CELL_COUNT = 2 * WORK_DEPTH, /* a power of two */
    MEASUREMENTS = 64,
    ANSWER_MS_MAX = 10000,                /* a host may stop a worker for seconds */
    MEASUREMENT_NS_MAX = 100 * NS_PER_MS, /* all of them: the host may stop a worker */
    COUNTER_NAME_BYTES = 24,
    COUNTERS_PER_CPU = 2,
};

/* One direction. */
struct work_ring {
    struct spsc ring;
    struct spsc_cell cells[CELL_COUNT];
};

/* The rings of a worker, and what the loop alone knows of it. */
struct lane {
    struct work_ring to, from;
    _Alignas(2 * SPSC_LINE_BYTES) uint32_t out; /* jobs that it has */
};

static struct lane lanes[WORK_WORKER_COUNT_MAX + 1]; /* by number: 0, the loop's, is not used */
static uint32_t worker_count;
static uint64_t khz = 1, hand_over_ns;

/* By CPU, 0 the loop's. All are counted in the loop: a worker writes its cycles into the job. */
static struct {
    uint64_t jobs, busy_ns;
} counters[WORK_WORKER_COUNT_MAX + 1];

static bool put(struct work_ring *r, struct work *work)
{
    return spsc_put(&r->ring, r->cells, CELL_COUNT, &work, sizeof work);
}

static struct work *take(struct work_ring *r)
{
    struct work *work;
    return spsc_take(&r->ring, r->cells, CELL_COUNT, &work, sizeof work) != 0 ? work : NULL;
}

/* ---- on a worker ---- */

bool work_poll(uint32_t worker)
{
    ASSERT(worker >= 1 && worker <= WORK_WORKER_COUNT_MAX);
    struct lane *lane = &lanes[worker];
    struct work *work = take(&lane->to);
    if (work == NULL)
        return false;
    ASSERT(work->owner == worker);
    uint64_t begin = cycles_now();
    work->run(work);
    work->cycles = cycles_now() - begin;
    bool is_put = put(&lane->from, work);
    ASSERT(is_put);
    return true;
}

/* ---- on the loop's CPU ---- */

static void count(uint32_t cpu, const struct work *work)
{
    ASSERT(khz > 0);
    counters[cpu].jobs++;
    counters[cpu].busy_ns += work->cycles * NS_PER_MS / khz;
}

void work_set_workers(uint32_t workers)
{
    ASSERT(workers <= WORK_WORKER_COUNT_MAX);
    worker_count = workers;
}

uint32_t work_worker_count(void) { return worker_count; }
uint64_t work_hand_over_ns(void) { return hand_over_ns; }

/* Returns the worker that has the fewest jobs; 0: there are no workers. */
static uint32_t least_busy(void)
{
    uint32_t least = worker_count > 0;
    for (uint32_t worker = 2; worker <= worker_count; worker++)
        if (lanes[worker].out < lanes[least].out)
            least = worker;
    return least;
}

bool work_has_room(uint32_t depth)
{
    uint32_t least = least_busy();
    ASSERT(depth >= 1 && depth <= WORK_DEPTH);
    return least != 0 && lanes[least].out < depth;
}

void work_give(struct work *work)
{
    uint32_t worker = least_busy();
    ASSERT(work->owner == 0 && worker != 0);
    ASSERT(lanes[worker].out < WORK_DEPTH);
    work->owner = worker;
    bool is_put = put(&lanes[worker].to, work);
    ASSERT(is_put);
    lanes[worker].out++;
}

struct work *work_take(void)
{
    static uint32_t last;
    for (uint32_t i = 0; i < worker_count; i++) {
        last = last >= worker_count ? 1 : last + 1;
        struct work *work = lanes[last].out > 0 ? take(&lanes[last].from) : NULL;
        if (work == NULL)
            continue;
        ASSERT(work->owner == last);
        work->owner = 0;
        lanes[last].out--;
        count(last, work);
        return work;
    }
    return NULL;
}

void work_here(struct work *work)
{
    ASSERT(work->owner == 0);
    uint64_t begin = cycles_now();
    work->run(work);
    work->cycles = cycles_now() - begin;
    count(0, work);
}

static void run_nothing(struct work *work) { ASSERT(work->owner != 0); }

/* Measures the way of an empty job to a worker and back: the least of some. */
static void measure(void)
{
    static struct work nothing = { .run = run_nothing };
    uint64_t begin = cycles_now(), least = UINT64_MAX;
    for (int i = 0; i < MEASUREMENTS && (cycles_now() - begin) * NS_PER_MS / khz < MEASUREMENT_NS_MAX; i++) {
        uint64_t given = cycles_now_serialised();
        work_give(&nothing);
        while (work_take() == NULL) {
            ASSERT((cycles_now() - given) / khz < ANSWER_MS_MAX); /* else the worker has died */
            __builtin_ia32_pause();
        }
        uint64_t cycles = cycles_now_serialised() - given;
        least = cycles < least ? cycles : least;
    }
    hand_over_ns = least * NS_PER_MS / khz + 1;
}

static struct counter_group counters_named(void)
{
    static char names[ARRAY_COUNT(counters)][COUNTERS_PER_CPU][COUNTER_NAME_BYTES];
    static struct counter table[ARRAY_COUNT(names)][COUNTERS_PER_CPU];
    static const char *const forms[COUNTERS_PER_CPU] = { "%u.jobs", "%u.busy_ns" };
    for (uint32_t cpu = 0; cpu <= worker_count; cpu++)
        for (size_t i = 0; i < COUNTERS_PER_CPU; i++) {
            format(names[cpu][i], COUNTER_NAME_BYTES, forms[i], cpu);
            table[cpu][i] = (struct counter){ names[cpu][i], COUNTER_COUNT };
        }
    return (struct counter_group){ .prefix = "work.",
                                   .help = "Jobs by CPU, 0 the loop's",
                                   .counters = table[0],
                                   .values = &counters[0].jobs,
                                   .count = COUNTERS_PER_CPU * (worker_count + 1) };
}

struct counter_group work_init(uint64_t tsc_khz)
{
    ASSERT(tsc_khz > 0);
    khz = tsc_khz;
    hand_over_ns = 0;
    if (worker_count > 0)
        measure();
    memset(counters, 0, sizeof counters);
    return counters_named();
}
