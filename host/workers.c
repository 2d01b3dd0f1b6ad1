#define _GNU_SOURCE
#include "host/workers.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "app/service/settings.h"
#include "app/service/work.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"

enum { NAP_NS = 50000 };

static bool sleeps_when_idle;
static bool (*help)(void);
static uint32_t count;

/* Ends with the program. */
static void *worker_main(void *number)
{
    const struct timespec nap = { .tv_nsec = NAP_NS };
    const uint32_t me = (uint32_t)(uintptr_t)number;
    ASSERT(me >= 1 && me <= WORK_WORKER_COUNT_MAX);
    for (;;) {
        bool worked = work_poll(me);
        if (me == __atomic_load_n(&count, __ATOMIC_RELAXED))
            worked |= help();
        if (worked)
            continue;
        if (sleeps_when_idle)
            nanosleep(&nap, NULL);
        else
            __builtin_ia32_pause();
    }
    return NULL;
}

/* Returns the number `index` of the CPUs in a set. */
static int cpu_of(const cpu_set_t *set, uint32_t index)
{
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, set) || index-- > 0)
        cpu++;
    ASSERT(cpu < CPU_SETSIZE);
    return cpu;
}

static bool pin(pthread_t thread, int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    return pthread_setaffinity_np(thread, sizeof one, &one) == 0;
}

uint32_t workers_start(uint32_t cpus, bool sleeps, bool (*helper)(void))
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        CPU_ZERO(&allowed);
    const uint32_t usable = max_u32((uint32_t)CPU_COUNT(&allowed), 1);
    const uint32_t wanted = (cpus == SERVICE_CPUS_ALL ? min_u32(usable, SERVICE_CPU_COUNT_MAX) : cpus) - 1;
    if (wanted >= usable)
        log_line("workers: %u wanted, CPUs besides the first: %u", wanted, usable - 1);
    sleeps_when_idle = sleeps;
    help = helper;
    count = min_u32(wanted, usable - 1);
    for (uint32_t i = 1; i <= count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker_main, (void *)(uintptr_t)i) != 0) {
            log_line("workers: thread %u cannot be had", i);
            __atomic_store_n(&count, i - 1, __ATOMIC_RELAXED); /* the others turn already */
            return i - 1;
        }
        if (!pin(thread, cpu_of(&allowed, i)))
            log_line("workers: thread %u is not pinned", i);
    }
    if (count > 0 && !pin(pthread_self(), cpu_of(&allowed, 0)))
        log_line("workers: the loop's thread is not pinned");
    ASSERT(count <= WORK_WORKER_COUNT_MAX);
    return count;
}
