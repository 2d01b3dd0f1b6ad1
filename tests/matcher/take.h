/* matcher_next for callers that poll nothing between two slices of the search. */
#pragma once

#include "app/matcher/matcher.h"

/* Takes the next answer of the burst; false when there is none left. */
static inline bool matcher_take(struct matcher *matcher, struct matcher_answer *answer)
{
    enum matcher_step step;
    do
        step = matcher_next(matcher, answer);
    while (step == MATCHER_WORKING);
    return step == MATCHER_ANSWER;
}
