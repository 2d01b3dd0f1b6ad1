/* Carries log lines to the consoles, on the first CPU or on a worker. Knows no device: a console is a function that
 * takes bytes. */
#include "kernel/rescue/console.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/spsc.h"
#include "kernel/cpu/workers.h"
#include "kernel/rescue/watchdog.h"
#include "kernel/time/clock.h"

enum {
    CELL_COUNT = 512,            /* 32 KiB */
    TAKE_BACK_WAIT_US = 1000000, /* a slice takes microseconds, unless the host stops the worker */
    STALL_COUNT_MAX = 1000000,   /* offers that a sink takes nothing of: some seconds */
};

struct console {
    log_sink *write;
    struct spsc ring;
    struct spsc_cell cells[CELL_COUNT];
    /* The line that is being written; the worker's, then the first CPU's again. */
    char line[LOG_LINE_BYTES_MAX + 64];
    uint32_t bytes, done;
};

static struct console consoles[CONSOLE_COUNT_MAX];
static unsigned console_count;

/* The worker `writer` writes while `handed_over` is set, and answers a take-back with `released`. */
static bool handed_over, released;
static uint32_t writer;

/* Puts whole lines into the ring, or pieces to the device: the log offers the rest again. */
static size_t offer(struct console *c, const char *text, size_t bytes)
{
    if (!__atomic_load_n(&handed_over, __ATOMIC_RELAXED))
        return c->write(text, bytes);
    size_t count = min_size(bytes, sizeof c->line);
    return spsc_put(&c->ring, c->cells, CELL_COUNT, text, count) ? count : 0;
}

static size_t offer_0(const char *text, size_t bytes) { return offer(&consoles[0], text, bytes); }
static size_t offer_1(const char *text, size_t bytes) { return offer(&consoles[1], text, bytes); }

void console_add(log_sink *write)
{
    static log_sink *const offers[CONSOLE_COUNT_MAX] = { offer_0, offer_1 };
    ASSERT(console_count < CONSOLE_COUNT_MAX);
    ASSERT(write != NULL);
    consoles[console_count].write = write;
    log_add_sink(offers[console_count++]);
}

/* Writes the next piece of a console's line. Returns false when its ring is empty too. */
static bool write_piece(struct console *c)
{
    if (c->done == c->bytes) {
        c->bytes = (uint32_t)spsc_take(&c->ring, c->cells, CELL_COUNT, c->line, sizeof c->line);
        c->done = 0;
        if (c->bytes == 0)
            return false;
    }
    ASSERT(c->done <= c->bytes && c->bytes <= sizeof c->line);
    c->done += (uint32_t)c->write(c->line + c->done, c->bytes - c->done);
    return true;
}

void console_hand_over(uint32_t worker)
{
    ASSERT(worker != 0);
    writer = worker;
    __atomic_store_n(&handed_over, true, __ATOMIC_RELEASE);
}

bool console_poll(void)
{
    if (!__atomic_load_n(&handed_over, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&released, true, __ATOMIC_RELEASE);
        return false;
    }
    ASSERT(console_count <= CONSOLE_COUNT_MAX);
    bool any = false;
    for (unsigned i = 0; i < console_count; i++)
        any |= write_piece(&consoles[i]);
    return any;
}

/* Writes all that is left, unless the device has died. A serial line takes its time. */
static void write_rest(struct console *c)
{
    int stalls = 0;
    for (uint32_t before = c->done; stalls < STALL_COUNT_MAX && write_piece(c); before = c->done) {
        stalls = c->done == before ? stalls + 1 : 0;
        watchdog_beat();
    }
}

/* Returns true until the writer has seen the take-back. One that has trapped, or that has fired the watchdog, never
 * sees it and writes no more. */
static bool worker_may_write(void)
{
    const struct worker_failure *failure = workers_failed();
    bool has_trapped = failure != NULL && failure->worker == writer;
    bool has_fired = writer == WATCHDOG_WORKER && watchdog_has_fired();
    return !__atomic_load_n(&released, __ATOMIC_ACQUIRE) && !has_trapped && !has_fired;
}

void console_take_back(void)
{
    ASSERT(worker_me() == 0);
    if (handed_over) {
        released = false;
        __atomic_store_n(&handed_over, false, __ATOMIC_RELEASE);
        for (int us = 0; us < TAKE_BACK_WAIT_US && worker_may_write(); us += 10)
            clock_spin_us(10);
        for (unsigned i = 0; i < console_count; i++)
            write_rest(&consoles[i]);
    }
    log_defer(false);
}
