#include "app/player/circuit_breaker.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"

static struct {
    uint32_t refused_max;
    uint64_t slice_ns, slice_ends_ns;
    uint32_t slice; /* the newest; the next one is the oldest */
    uint32_t refused[CIRCUIT_BREAKER_SLICE_COUNT], others[CIRCUIT_BREAKER_SLICE_COUNT];
    uint64_t opened_ns;
} breaker;

struct circuit_breaker_counters circuit_breaker_counters;
const struct counter_group circuit_breaker_counter_group = COUNTER_GROUP(
    "circuit_breaker.", "Circuit breaker of submissions", CIRCUIT_BREAKER_COUNTERS, circuit_breaker_counters);

void circuit_breaker_init(uint32_t refused_max, uint64_t window_ns)
{
    ASSERT(window_ns >= CIRCUIT_BREAKER_SLICE_COUNT);
    memset(&breaker, 0, sizeof breaker);
    memset(&circuit_breaker_counters, 0, sizeof circuit_breaker_counters);
    breaker.refused_max = refused_max;
    breaker.slice_ns = window_ns / CIRCUIT_BREAKER_SLICE_COUNT;
}

/* Empties the slices that have passed since the last result; all of them at most. */
static void move_on(uint64_t now_ns)
{
    ASSERT(breaker.slice < CIRCUIT_BREAKER_SLICE_COUNT);
    for (int i = 0; i < CIRCUIT_BREAKER_SLICE_COUNT && now_ns >= breaker.slice_ends_ns; i++) {
        breaker.slice = (breaker.slice + 1) % CIRCUIT_BREAKER_SLICE_COUNT;
        circuit_breaker_counters.refused_in_window -= breaker.refused[breaker.slice];
        circuit_breaker_counters.others_in_window -= breaker.others[breaker.slice];
        breaker.refused[breaker.slice] = breaker.others[breaker.slice] = 0;
        breaker.slice_ends_ns += breaker.slice_ns;
    }
    if (now_ns >= breaker.slice_ends_ns)
        breaker.slice_ends_ns = now_ns + breaker.slice_ns;
}

void circuit_breaker_result(bool refused, uint64_t now_ns)
{
    if (breaker.refused_max == 0 || circuit_breaker_counters.open)
        return;
    move_on(now_ns);
    breaker.refused[breaker.slice] += refused;
    breaker.others[breaker.slice] += !refused;
    circuit_breaker_counters.refused_in_window += refused;
    circuit_breaker_counters.others_in_window += !refused;
    if (circuit_breaker_counters.refused_in_window < breaker.refused_max
        || circuit_breaker_counters.refused_in_window < circuit_breaker_counters.others_in_window)
        return;
    circuit_breaker_counters.open = 1;
    breaker.opened_ns = now_ns;
    log_line(
        "breaker: open, %llu of the last %llu results were wrong or dup; nothing more is submitted",
        (unsigned long long)circuit_breaker_counters.refused_in_window,
        (unsigned long long)(circuit_breaker_counters.refused_in_window + circuit_breaker_counters.others_in_window));
}

bool circuit_breaker_is_open(void) { return circuit_breaker_counters.open; }

uint64_t circuit_breaker_opened_ns(void) { return breaker.opened_ns; }
