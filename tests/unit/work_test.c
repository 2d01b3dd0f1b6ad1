/* app/service/work.h: jobs that one CPU gives to others and takes back, played by one thread and by three. */
#include "app/service/work.h"

#include <pthread.h>
#include <sched.h>

#include "tests/lib/test.h"

enum { JOBS = 5000, WORKERS = 2, SLOTS = 8, KHZ = 2000000 };

/* A job that changes memory of its own, and memory that it names. */
struct sum {
    struct work work;
    uint64_t first, result;
    uint64_t *words;
    unsigned runs;
};

static void run(struct work *work)
{
    struct sum *sum = (struct sum *)work;
    sum->result = 0;
    for (size_t i = 0; i < 16; i++)
        sum->result += sum->words[i] = sum->first + i;
    sum->runs++;
}

static uint64_t words[SLOTS][16];
static struct sum sums[SLOTS];
static struct counter_group counters;

BEFORE_EACH()
{
    work_set_workers(0);
    counters = work_init(KHZ);
    for (size_t i = 0; i < SLOTS; i++)
        sums[i] = (struct sum){ .work.run = run, .first = i, .words = words[i] };
}

static uint64_t counted(const char *name)
{
    size_t i = 0;
    while (i < counters.count && strcmp(counters.counters[i].name, name) != 0)
        i++;
    assert_true(i < counters.count);
    return counters.values[i];
}

TEST(without_workers_there_is_no_room_and_the_loop_runs_jobs_itself)
{
    assert_false(work_has_room(1));
    assert_int_equal(work_worker_count(), 0);
    assert_int_equal(work_hand_over_ns(), 0);
    assert_null(work_take());
    work_here(&sums[3].work);
    assert_int_equal(sums[3].result, 16 * 3 + 120);
    assert_int_equal(counted("0.jobs"), 1);
    assert_in_range(counted("0.busy_ns"), 1, UINT64_C(10000000000));
    expect_assert_failure(work_give(&sums[0].work));
}

TEST(job_goes_to_the_worker_with_the_fewest)
{
    work_set_workers(WORKERS);
    for (size_t i = 0; i < 2 * WORK_DEPTH; i++) {
        assert_true(work_has_room(WORK_DEPTH));
        assert_int_equal(work_has_room(1), i < WORKERS);
        work_give(&sums[i].work);
    }
    assert_false(work_has_room(WORK_DEPTH));
    for (uint32_t i = 0; i < 2 * WORK_DEPTH; i++) { /* one worker after the other */
        assert_null(work_take());
        assert_true(work_poll(1 + i / WORK_DEPTH));
        assert_non_null(work_take());
    }
    assert_false(work_poll(1) || work_poll(2));
    for (size_t i = 0; i < 2 * WORK_DEPTH; i++)
        assert_int_equal(sums[i].runs, 1);
}

static bool serving;

static void *worker(void *number)
{
    while (__atomic_load_n(&serving, __ATOMIC_ACQUIRE))
        if (!work_poll((uint32_t)(uintptr_t)number))
            sched_yield();
    return NULL;
}

/* The loop reads and writes the memory of every job that is back, as TSan sees. */
TEST(two_workers_do_each_job_once)
{
    pthread_t threads[WORKERS];
    unsigned given = 0, taken = 0;
    uint64_t jobs[WORKERS + 1] = { 0 };
    serving = true;
    for (uintptr_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)), 0);
    for (uint32_t workers = 1; workers <= WORKERS; workers++) {
        work_set_workers(workers);
        counters = work_init(KHZ);
        assert_in_range(work_hand_over_ns(), 1, UINT64_C(10000000000));
    }
    while (taken < JOBS) {
        for (size_t i = 0; i < SLOTS && given < JOBS && work_has_room(WORK_DEPTH); i++) {
            if (work_is_out(&sums[i].work) || sums[i].runs > 0)
                continue;
            sums[i].first = given++;
            work_give(&sums[i].work);
        }
        for (struct work *work; (work = work_take()) != NULL; taken++) {
            struct sum *sum = (struct sum *)work;
            assert_int_equal(sum->runs, 1);
            assert_int_equal(sum->result, 16 * sum->first + 120);
            assert_int_equal(sum->words[15], sum->first + 15);
            memset(sum->words, 0, sizeof words[0]);
            sum->runs = 0;
        }
    }
    __atomic_store_n(&serving, false, __ATOMIC_RELEASE);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    jobs[1] = counted("1.jobs");
    jobs[2] = counted("2.jobs");
    assert_true(jobs[1] > 0 && jobs[2] > 0);
    assert_int_equal(jobs[1] + jobs[2], JOBS);
}

/* The last one: it leaves a job in a ring. */
TEST(memory_of_a_job_is_owned_by_one_cpu_at_a_time)
{
    work_set_workers(WORKERS);
    work_give(&sums[0].work);
    assert_true(work_is_out(&sums[0].work));
    expect_assert_failure(work_give(&sums[0].work));
    expect_assert_failure(work_here(&sums[0].work));
    sums[0].work.owner = 2; /* as if another worker had it */
    expect_assert_failure(work_poll(1));
}
