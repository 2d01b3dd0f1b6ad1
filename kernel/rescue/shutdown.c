/* The steps of every end: log, record, final flush, pause, reset. Knows no trap and no panic. */
#include "kernel/rescue/shutdown.h"

#include <stddef.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/time.h"
#include "kernel/rescue/blackbox.h"
#include "kernel/rescue/console.h"
#include "kernel/rescue/reset.h"
#include "kernel/rescue/watchdog.h"
#include "kernel/time/clock.h"

enum {
    FLUSH_MS_MAX = 1000,
    FLUSH_IDLE_MS_MAX = 50, /* nothing left, or nothing that the device would take, for so long */
    PAUSES_PER_MS = 100,    /* a port access takes 10 us or less, except under nested virtualisation */
};

static uint32_t reading_pause_ms;
static bool (*final_flush_step)(void);
static bool flushing;

/* Waits by the clock if there is one, because a port access takes from 0.2 us (QEMU's TCG) to 30 us (nested
 * virtualisation). A count ends the wait if the TSC stands still. */
static void reading_pause(uint32_t ms)
{
    bool timed = clock_tsc_khz() != 0;
    uint64_t until_ns = timed ? clock_now_ns() + ms * NS_PER_MS : UINT64_MAX;
    for (uint32_t i = 0; i < (timed ? ms * PAUSES_PER_MS : ms) && !(timed && clock_now_ns() >= until_ns); i++) {
        reset_pause_us(1000);
        watchdog_beat();
    }
}

static void final_flush(void)
{
    if (final_flush_step == NULL || clock_tsc_khz() == 0)
        return;
    ASSERT(!flushing);
    flushing = true;
    uint64_t begin_ns = clock_now_ns(), busy_ns = begin_ns, now_ns = begin_ns;
    while (now_ns - begin_ns < FLUSH_MS_MAX * NS_PER_MS && now_ns - busy_ns < FLUSH_IDLE_MS_MAX * NS_PER_MS) {
        bool busy = final_flush_step();
        now_ns = clock_now_ns();
        /* The time after the step counts: the host may have stopped the machine within the step. */
        if (busy)
            busy_ns = now_ns;
    }
}

static _Noreturn void finish(const char *cause, enum blackbox_state state, uint32_t pause_ms)
{
    ASSERT(cause != NULL);
    console_take_back();
    watchdog_beat();
    log_line("back to Linux: %s", cause);
    blackbox_write(state, cause);
    log_flush();
    final_flush();
    reset_pause_us(RESET_PAUSE_US); /* a serial line empties its FIFO */
    reading_pause(pause_ms);
    reset_now();
}

_Noreturn void shutdown(const char *cause) { finish(cause, BLACKBOX_REQUESTED, 0); }

_Noreturn void shutdown_after_failure(const char *cause) { finish(cause, BLACKBOX_FAILED, reading_pause_ms); }

void shutdown_set_final_flush(bool (*step)(void)) { final_flush_step = step; }

bool shutdown_is_flushing(void) { return flushing; }

void shutdown_set_reading_pause(uint32_t ms) { reading_pause_ms = ms; }
