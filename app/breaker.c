#include "app/breaker.h"

#include <string.h>

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"

static struct {
    uint32_t refused_max;
    uint64_t slice_ns, slice_ends_ns;
    uint32_t slice;                     /* the newest; its neighbour is the oldest */
    uint32_t refused[BREAKER_SLICE_COUNT], others[BREAKER_SLICE_COUNT];
    uint64_t opened_ns;
} breaker;

static struct {
    uint64_t open, refused_in_window, others_in_window;
} counters;
static const struct counter counter_table[] = {
    COUNTER("breaker.", counters, open),
    COUNTER("breaker.", counters, refused_in_window),
    COUNTER("breaker.", counters, others_in_window),
};
const struct counter_group breaker_counter_group = { counter_table, ARRAY_COUNT(counter_table) };

void breaker_init(uint32_t refused_max, uint64_t window_ns)
{
    ASSERT(window_ns >= BREAKER_SLICE_COUNT);
    memset(&breaker, 0, sizeof breaker);
    memset(&counters, 0, sizeof counters);
    breaker.refused_max = refused_max;
    breaker.slice_ns = window_ns / BREAKER_SLICE_COUNT;
}

/* Empties the slices that have passed since the last result; all of them at most. */
static void move_on(uint64_t now_ns)
{
    for (int i = 0; i < BREAKER_SLICE_COUNT && now_ns >= breaker.slice_ends_ns; i++) {
        breaker.slice = (breaker.slice + 1) % BREAKER_SLICE_COUNT;
        counters.refused_in_window -= breaker.refused[breaker.slice];
        counters.others_in_window -= breaker.others[breaker.slice];
        breaker.refused[breaker.slice] = breaker.others[breaker.slice] = 0;
        breaker.slice_ends_ns += breaker.slice_ns;
    }
    if (now_ns >= breaker.slice_ends_ns)
        breaker.slice_ends_ns = now_ns + breaker.slice_ns;
}

void breaker_result(bool refused, uint64_t now_ns)
{
    if (breaker.refused_max == 0 || counters.open)
        return;
    move_on(now_ns);
    breaker.refused[breaker.slice] += refused;
    breaker.others[breaker.slice] += !refused;
    counters.refused_in_window += refused;
    counters.others_in_window += !refused;
    if (counters.refused_in_window < breaker.refused_max || counters.refused_in_window < counters.others_in_window)
        return;
    counters.open = 1;
    breaker.opened_ns = now_ns;
    log_line("breaker: open, %llu of the last %llu results were wrong or dup; nothing more is submitted",
             (unsigned long long)counters.refused_in_window,
             (unsigned long long)(counters.refused_in_window + counters.others_in_window));
}

bool breaker_is_open(void) { return counters.open; }

uint64_t breaker_opened_ns(void) { return breaker.opened_ns; }
