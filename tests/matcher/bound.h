/* The bound of the matcher's work on any stream: app/matcher/README.md, "Time". */
#pragma once

#include "app/matcher/state.h"

/* Units of work for a digit, for a digit and a modulus with a tail, for an answer, for a burst. */
enum { BOUND_DIGIT = 60, BOUND_TAIL = 40, BOUND_ANSWER = 250, BOUND_BURST = 1200 };

static inline double bound_of(const struct matcher *m, double digits, double answers, double bursts)
{
    double tails = 0;
    for (uint32_t i = 0; i < m->modulus_count; i++)
        tails += m->moduli[i].method != MODULUS_NONE && m->moduli[i].tail_digits > 1;
    return ((BOUND_DIGIT + BOUND_TAIL * tails) * digits + BOUND_ANSWER * answers + BOUND_BURST * bursts)
           * (m->n > 256 ? m->n / 256.0 : 1);
}
