#include "kernel/console.h"

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/spsc.h"
#include "kernel/clock.h"

enum {
    RING_BYTES = 32 * 1024,
    TAKE_BACK_WAIT_US = 10000,          /* the longest slice of the second CPU is far shorter */
    STALL_COUNT_MAX = 1000000,          /* of a sink that takes nothing, some seconds */
};

struct console {
    log_sink *write;
    struct spsc ring;
    uint8_t ring_bytes[RING_BYTES];
    /* The line that is being written; the second CPU's, then the first's again. */
    char line[LOG_LINE_BYTES_MAX + 64];
    uint32_t bytes, done;
};

static struct console consoles[CONSOLE_COUNT_MAX];
static unsigned console_count;

/* First CPU: where lines go. Second: whether it may write. It answers a take-back with `released`. */
static bool handed_over, released;

/* Whole lines into the ring, or pieces to the device: the log offers the rest again. */
static size_t offer(struct console *c, const char *text, size_t bytes)
{
    if (!__atomic_load_n(&handed_over, __ATOMIC_RELAXED)) {
        return c->write(text, bytes);
    }
    uint32_t count = (uint32_t)min_size(bytes, sizeof c->line);
    return spsc_put(&c->ring, c->ring_bytes, RING_BYTES, &count, sizeof count, text, count) ? count : 0;
}

static size_t offer_0(const char *text, size_t bytes) { return offer(&consoles[0], text, bytes); }
static size_t offer_1(const char *text, size_t bytes) { return offer(&consoles[1], text, bytes); }

void console_add(log_sink *write)
{
    static log_sink *const offers[CONSOLE_COUNT_MAX] = { offer_0, offer_1 };
    ASSERT(console_count < CONSOLE_COUNT_MAX);
    consoles[console_count].write = write;
    log_add_sink(offers[console_count++]);
}

/* The next piece of a console's line; false when its ring is empty too. */
static bool write_piece(struct console *c)
{
    if (c->done == c->bytes) {
        uint32_t count;
        if (!spsc_peek(&c->ring, c->ring_bytes, RING_BYTES, &count, sizeof count)) {
            return false;
        }
        spsc_take(&c->ring, c->ring_bytes, RING_BYTES, sizeof count, c->line, count);
        c->bytes = count;
        c->done = 0;
    }
    c->done += (uint32_t)c->write(c->line + c->done, c->bytes - c->done);
    return true;
}

void console_hand_over(void)
{
    __atomic_store_n(&handed_over, true, __ATOMIC_RELEASE);
}

bool console_turn(void)
{
    if (!__atomic_load_n(&handed_over, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&released, true, __ATOMIC_RELEASE);
        return false;
    }
    bool any = false;
    for (unsigned i = 0; i < console_count; i++) {
        any |= write_piece(&consoles[i]);
    }
    return any;
}

/* All that is left, unless the device has died. */
static void write_rest(struct console *c)
{
    int stalls = 0;
    for (uint32_t before = c->done; stalls < STALL_COUNT_MAX && write_piece(c); before = c->done) {
        stalls = c->done == before ? stalls + 1 : 0;
    }
}

void console_take_back(void)
{
    if (handed_over) {
        released = false;
        __atomic_store_n(&handed_over, false, __ATOMIC_RELEASE);
        /* A second CPU that has trapped, or fires the watchdog, does not answer; nor does it write any more. */
        for (int us = 0; us < TAKE_BACK_WAIT_US && !__atomic_load_n(&released, __ATOMIC_ACQUIRE); us += 10) {
            clock_spin_us(10);
        }
        for (unsigned i = 0; i < console_count; i++) {
            write_rest(&consoles[i]);
        }
    }
    log_defer(false);
}
