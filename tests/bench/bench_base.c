/* The leaf modules, each beside a public equal: a pool of buffers, the ring between CPUs, the sequence lock, stamps.
 *
 *     bench_base ROW N      prints  p50 p99 n, nanoseconds
 *
 * Between two CPUs (the first two that this program may use), half of a round trip of one number. With two readers, the
 * second one runs on a third CPU, or, if there is none, beside the first one; the trip ends when both have answered:
 *
 *     line                  through one word on a cache line each way: the machine's time to move a cache line
 *     spsc                  base/spsc.h, a record of 8 bytes
 *     spsc-boost            boost::lockfree::spsc_queue of 64-bit numbers (bench_base_boost.cpp)
 *     broadcast             base/broadcast_ring.h, a record of 56 bytes and one reader
 *     broadcast-2           two readers
 *
 * On one CPU, the mean of BATCH calls:
 *
 *     pool                  tx_acquire and tx_release of drivers/virtio/net.c: a frame buffer
 *     pool-malloc           malloc and free of as many bytes, as many at once
 *     seqlock-read          base/seqlock.h: 8 words that nobody writes meanwhile
 *     seqlock-read-urcu     the same words by a pointer of liburcu (the variant without barriers, QSBR)
 *     seqlock-write         8 words
 *     seqlock-write-urcu    rcu_assign_pointer of the other of two blocks, without waiting for readers
 *     stamp                 trace_stamp of base/trace.h
 *     clock                 clock_now_ns of kernel/time/clock.c
 *     clock-linux           clock_gettime(CLOCK_MONOTONIC)
 *
 * A sample lies between two serialised readings of the TSC, less the least time of two readings around nothing. The
 * largest 0.1 % of the samples are left out: they are the scheduler's. */
#define _GNU_SOURCE
#define RCU_MEMBARRIER
#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <urcu/urcu-qsbr.h>

#include "base/assert.h"
#include "base/broadcast_ring.h"
#include "base/cycles.h"
#include "base/seqlock.h"
#include "base/spsc.h"
#include "base/trace.h"
#include "drivers/virtio/net.h"
#include "host/platform.h"
#include "tests/bench/bench_base_boost.h"
#include "tests/lib/virtio_model.h"

#include "kernel/time/clock.c" /* for its conversion alone: the machine's clocks stay untouched */

enum { BATCH = 64, WORDS = 8, CELL_COUNT = 64, RECORD_WORDS = 7, READERS_MAX = 2, WARM_UP = 1000, TIMER_TRIES = 10000 };

static double ns_per_cycle;
static cpu_set_t allowed;
static volatile uint64_t sink; /* keeps the compiler from leaving reads out */

/* ---- Samples ---- */

static uint64_t timer_cycles(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TIMER_TRIES; i++) {
        uint64_t begin = cycles_now_serialised(), took = cycles_now_serialised() - begin;
        least = took < least ? took : least;
    }
    return least;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    count -= count / 1000;
    printf("%.2f %.2f %zu\n", samples[count / 2], samples[count * 99 / 100], count);
}

/* Runs the calling thread on one of the CPUs that the program may use. */
static void pin(int which)
{
    cpu_set_t one;
    unsigned at = 0;
    for (int left = which; at < CPU_SETSIZE && (!CPU_ISSET(at, &allowed) || left-- > 0);)
        at++;
    CPU_ZERO(&one);
    CPU_SET(at % CPU_SETSIZE, &one);
    if (at == CPU_SETSIZE || pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0)
        errx(1, "this needs two CPUs");
}

/* ---- Between two CPUs ---- */

/* A way for numbers, from one CPU to others. Inlined: an indirect call would take as long as a ring. */
struct way {
    _Alignas(128) volatile uint64_t line;
    struct spsc spsc;
    struct spsc_cell cells[CELL_COUNT];
    _Alignas(128) struct broadcast_ring ring;
    _Alignas(128) uint64_t slots[CELL_COUNT * (1 + RECORD_WORDS)];
};
static struct way there, back[READERS_MAX];
static long trip_count;

enum kind { LINE, SPSC, BOOST, BROADCAST };

static inline __attribute__((always_inline)) void way_send(enum kind kind, struct way *way, uint64_t number)
{
    if (kind == LINE) {
        way->line = number;
    } else if (kind == SPSC) {
        spsc_put(&way->spsc, way->cells, CELL_COUNT, &number, sizeof number);
    } else if (kind == BROADCAST) {
        uint64_t record = broadcast_number(&way->ring), *words = broadcast_write_begin(&way->ring, record);
        for (uint64_t i = 0; i < RECORD_WORDS; i++)
            seqlock_write_word(&words[i], number + i);
        broadcast_write_end(&way->ring, record);
    } else {
        boost_put(way != &there, number);
    }
}

/* Waits for a reader's next number. `last`: 0 at first; of the ring, the record that it read last. */
static inline __attribute__((always_inline)) uint64_t way_receive(enum kind kind, struct way *way, uint64_t *last)
{
    uint64_t number = 0, words[RECORD_WORDS];
    if (kind == LINE) {
        while ((number = way->line) == *last) {
        }
        *last = number;
    } else if (kind == SPSC) {
        while (spsc_take(&way->spsc, way->cells, CELL_COUNT, &number, sizeof number) == 0) {
        }
    } else if (kind == BROADCAST) {
        for (++*last; broadcast_read(&way->ring, *last, words) != BROADCAST_READ;) {
        }
        number = words[RECORD_WORDS - 1] - (RECORD_WORDS - 1);
    } else {
        number = boost_take(way != &there);
    }
    return number;
}

static inline __attribute__((always_inline)) void play(enum kind kind, int readers, double *samples, uint64_t timer)
{
    uint64_t last[READERS_MAX] = { 0 };
    for (long i = 1; i <= trip_count + WARM_UP; i++) {
        uint64_t begin = cycles_now_serialised(), number = (uint64_t)i;
        way_send(kind, &there, number);
        for (int reader = 0; reader < readers; reader++)
            if (way_receive(kind, &back[reader], &last[reader]) != number)
                errx(1, "another number than %ld came back", i);
        uint64_t took = cycles_now_serialised() - begin - timer;
        if (i > WARM_UP)
            samples[i - WARM_UP - 1] = (double)took * ns_per_cycle / 2;
    }
}

/* Sends back all numbers on the CPU of the reader `first`, as the readers from that one to `end`. */
static inline __attribute__((always_inline)) void *reflect(enum kind kind, int first, int end)
{
    uint64_t last[READERS_MAX] = { 0 };
    pin(1 + first);
    for (long i = 0; i < trip_count + WARM_UP; i++)
        for (int reader = first; reader < end; reader++)
            way_send(kind, &back[reader], way_receive(kind, &there, &last[reader]));
    return NULL;
}

static void *reflect_line(void *unused) { return (void)unused, reflect(LINE, 0, 1); }
static void *reflect_spsc(void *unused) { return (void)unused, reflect(SPSC, 0, 1); }
static void *reflect_boost(void *unused) { return (void)unused, reflect(BOOST, 0, 1); }
static void *reflect_broadcast(void *unused) { return (void)unused, reflect(BROADCAST, 0, 1); }
static void *reflect_second(void *unused) { return (void)unused, reflect(BROADCAST, 1, 2); }
static void *reflect_both(void *unused) { return (void)unused, reflect(BROADCAST, 0, 2); }

/* Starts a reflecting thread for each entry, and measures. */
#define ROUND_TRIPS(samples, kind, readers, ...)                                                                       \
    do {                                                                                                               \
        void *(*const others_[])(void *) = { __VA_ARGS__ };                                                            \
        pthread_t threads_[ARRAY_COUNT(others_)];                                                                      \
        uint64_t timer_ = timer_cycles();                                                                              \
        for (size_t i_ = 0; i_ < ARRAY_COUNT(others_); i_++)                                                           \
            if (pthread_create(&threads_[i_], NULL, others_[i_], NULL) != 0)                                           \
                err(1, "a further thread");                                                                            \
        play(kind, readers, samples, timer_);                                                                          \
        for (size_t i_ = 0; i_ < ARRAY_COUNT(others_); i_++)                                                           \
            pthread_join(threads_[i_], NULL);                                                                          \
        print(samples, (size_t)trip_count);                                                                            \
    } while (0)

static void rings_init(void)
{
    struct way *const ways[] = { &there, &back[0], &back[1] };
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++)
        ways[i]->ring = (struct broadcast_ring){ ways[i]->slots, CELL_COUNT, 1 + RECORD_WORDS, 0 };
}

static void row_line(double *samples) { ROUND_TRIPS(samples, LINE, 1, reflect_line); }
static void row_spsc(double *samples) { ROUND_TRIPS(samples, SPSC, 1, reflect_spsc); }
static void row_boost(double *samples) { ROUND_TRIPS(samples, BOOST, 1, reflect_boost); }

static void row_broadcast(double *samples)
{
    rings_init();
    ROUND_TRIPS(samples, BROADCAST, 1, reflect_broadcast);
}

static void row_broadcast_2(double *samples)
{
    rings_init();
    if (CPU_COUNT(&allowed) > READERS_MAX)
        ROUND_TRIPS(samples, BROADCAST, 2, reflect_broadcast, reflect_second);
    else
        ROUND_TRIPS(samples, BROADCAST, 2, reflect_both);
}

/* ---- On one CPU ---- */

/* Takes `trip_count` samples of a statement that does BATCH operations. */
#define MEASURE(samples, statement)                                                                                    \
    do {                                                                                                               \
        uint64_t timer_ = timer_cycles();                                                                              \
        for (long i_ = -WARM_UP; i_ < trip_count; i_++) {                                                              \
            uint64_t begin_ = cycles_now_serialised();                                                                 \
            statement;                                                                                                 \
            uint64_t took_ = cycles_now_serialised() - begin_ - timer_;                                                \
            if (i_ >= 0)                                                                                               \
                (samples)[i_] = (double)took_ * ns_per_cycle / BATCH;                                                  \
        }                                                                                                              \
        print(samples, (size_t)trip_count);                                                                            \
    } while (0)

static void row_pool(double *samples)
{
    static struct virtio_model model;
    static struct virtio_net net;
    struct tx_buffer *buffers[BATCH];
    virtio_model_init(&model, VIRTIO_MODEL_MODERN);
    if (virtio_net_init(&net, &model.bus) != VIRTIO_NET_OK)
        errx(1, "the model device does not start");
    const struct netdev_ops *ops = net.device.ops;
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++)
            buffers[i] = ops->tx_acquire(&net.device);
        for (int i = BATCH; i-- > 0;)
            ops->tx_release(&net.device, buffers[i]);
    });
}

static void row_malloc(double *samples)
{
    void *volatile buffers[BATCH];
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++)
            buffers[i] = malloc(VIRTIO_NET_BUFFER_BYTES);
        for (int i = BATCH; i-- > 0;)
            free(buffers[i]);
    });
}

static struct seqlock lock;
static uint64_t shared[WORDS], blocks[2][WORDS], *published = blocks[0];

static void row_seqlock_read(double *samples)
{
    uint64_t copy[WORDS];
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++) {
            while (!seqlock_read(&lock, shared, copy, WORDS)) {
            }
            sink = copy[i % WORDS];
        }
    });
}

static void row_seqlock_write(double *samples)
{
    uint64_t words[WORDS] = { 1 };
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++) {
            words[0]++;
            seqlock_write_begin(&lock);
            for (size_t word = 0; word < WORDS; word++)
                seqlock_write_word(&shared[word], words[word]);
            seqlock_write_end(&lock);
        }
    });
}

static void row_urcu_read(double *samples)
{
    uint64_t copy[WORDS];
    urcu_qsbr_register_thread();
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++) {
            urcu_qsbr_read_lock();
            memcpy(copy, rcu_dereference(published), sizeof copy);
            urcu_qsbr_read_unlock();
            sink = copy[i % WORDS];
        }
    });
    urcu_qsbr_unregister_thread();
}

static void row_urcu_write(double *samples)
{
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++) {
            uint64_t *next = blocks[i % 2];
            for (int word = 0; word < WORDS; word++)
                next[word] = (uint64_t)(i + word);
            rcu_assign_pointer(published, next);
        }
    });
}

static void row_stamp(double *samples)
{
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++)
            trace_stamp((enum trace_stage)(i % TRACE_STAGE_COUNT));
    });
}

static void row_clock(double *samples)
{
    tsc.frequency.khz = platform_tsc_khz();
    tsc_set(cycles_now(), 0);
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++)
            sink = clock_now_ns();
    });
}

static void row_clock_linux(double *samples)
{
    struct timespec now;
    MEASURE(samples, {
        for (int i = 0; i < BATCH; i++) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            sink = (uint64_t)now.tv_nsec;
        }
    });
}

static const struct row {
    const char *name;
    void (*run)(double *samples);
} rows[] = {
    { "line", row_line },
    { "spsc", row_spsc },
    { "spsc-boost", row_boost },
    { "broadcast", row_broadcast },
    { "broadcast-2", row_broadcast_2 },
    { "pool", row_pool },
    { "pool-malloc", row_malloc },
    { "seqlock-read", row_seqlock_read },
    { "seqlock-read-urcu", row_urcu_read },
    { "seqlock-write", row_seqlock_write },
    { "seqlock-write-urcu", row_urcu_write },
    { "stamp", row_stamp },
    { "clock", row_clock },
    { "clock-linux", row_clock_linux },
};

int main(int argc, char **argv)
{
    if (argc != 3 || (trip_count = atol(argv[2])) < 1000)
        errx(2, "usage: bench_base ROW N, with N from 1000");
    platform_init();
    sched_getaffinity(0, sizeof allowed, &allowed);
    pin(0);
    ns_per_cycle = 1e6 / (double)platform_tsc_khz();
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (strcmp(rows[i].name, argv[1]) == 0) {
            double *samples = calloc((size_t)trip_count, sizeof *samples);
            rows[i].run(samples);
            free(samples);
            return 0;
        }
    errx(2, "'%s' is no row", argv[1]);
}
