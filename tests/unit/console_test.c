/* kernel/rescue/console.c: the first CPU takes the consoles back while a thread, a worker, writes to them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "kernel/cpu/workers.h"
#include "kernel/rescue/console.h"
#include "kernel/rescue/watchdog.h"
#include "kernel/time/clock.h"
#include "tests/lib/test.h"

enum { PAUSE_US = 300000, PIECE_BYTES = 4 };

volatile uint64_t watchdog_beats;

static _Thread_local bool is_worker;
static bool writing, has_fired, is_silent; /* `writing`: the worker stands still within a write */
static uint32_t failed;                    /* the worker that has trapped; 0: none */
static unsigned spin_count;
static char written[1000];
static size_t written_bytes;

uint32_t worker_me(void) { return is_worker; }
bool watchdog_has_fired(void) { return has_fired; }

const struct worker_failure *workers_failed(void)
{
    static struct worker_failure failure;
    failure.worker = failed;
    return failed != 0 ? &failure : NULL;
}

void clock_spin_us(uint32_t us)
{
    spin_count++;
    if (!is_silent)
        usleep(us);
}

/* Takes a few bytes. The host stops the worker before the write returns. */
static size_t console_write(const char *text, size_t bytes)
{
    size_t taken = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    memcpy(written + written_bytes, text, taken);
    written_bytes += taken;
    assert_true(written_bytes < sizeof written);
    if (is_worker) {
        __atomic_store_n(&writing, true, __ATOMIC_RELEASE);
        usleep(PAUSE_US);
    }
    return taken;
}

/* Polls as a worker does: one write, then as long as the consoles are lent. */
static void *worker(void *unused)
{
    is_worker = true;
    while (console_poll()) {
    }
    console_poll();
    return unused;
}

BEFORE_ALL() { console_add(console_write); }

BEFORE_EACH()
{
    writing = has_fired = is_silent = false;
    failed = spin_count = 0;
    written_bytes = 0;
    memset(written, 0, sizeof written);
    log_defer(true);
    console_hand_over(WATCHDOG_WORKER);
    log_line("one");
    log_line("two");
    while (log_drain()) {
    }
    assert_int_equal(written_bytes, 0);
}

static void expect_each_line_once(void)
{
    console_take_back();
    log_line("three");
    assert_string_equal(written, "[    0.000000] one\n[    0.000000] two\n[    0.000000] three\n");
}

TEST(worker_that_the_host_stops_in_a_write_is_waited_for_even_if_another_has_trapped)
{
    for (int trapped = 0; trapped < 2; trapped++) {
        pthread_t thread;
        if (trapped)
            test_before_each();
        failed = trapped ? WATCHDOG_WORKER + 1 : 0;
        assert_int_equal(pthread_create(&thread, NULL, worker, NULL), 0);
        while (!__atomic_load_n(&writing, __ATOMIC_ACQUIRE))
            usleep(100);
        expect_each_line_once();
        pthread_join(thread, NULL);
    }
}

/* A silent worker has a second. One that has trapped, or has fired the watchdog, has no time. */
TEST(worker_that_does_not_write_is_waited_for_unless_it_has_failed)
{
    static const struct {
        uint32_t failed;
        bool has_fired, is_silent;
        unsigned spins;
    } rows[] = { { 0, false, true, 1000000 / 10 }, { WATCHDOG_WORKER, false, false, 0 }, { 0, true, false, 0 } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (i > 0)
            test_before_each();
        failed = rows[i].failed;
        has_fired = rows[i].has_fired;
        is_silent = rows[i].is_silent;
        expect_each_line_once();
        assert_int_equal(spin_count, rows[i].spins);
    }
}
