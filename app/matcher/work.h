/* The prices of work: about nanoseconds at 2.5 GHz. Each loop adds its price to `work` before it goes on, and a step
 * begins only below a limit. app/matcher/README.md, "Work", names the loops. */
#pragma once

enum {
    WORK_END = 3,         /* an end, by the hash */
    WORK_START = 3,       /* a start in the end's cell */
    WORK_PAIR = 4,        /* an answer put into the queue */
    WORK_TAIL = 7,        /* a tail, by its place or by a run's list */
    WORK_DIGIT = 2,       /* a digit taken into a table */
    WORK_PENDING = 5,     /* a pending early answer that is compared */
    WORK_BURST = 20,      /* a burst, before its first digit */
    WORK_MODULUS = 40,    /* a modulus that begins with a block */
    WORK_CLEARED = 400,   /* a table whose cells are cleared */
    WORK_WRITTEN = 8,     /* digits that are copied or written as words for a unit */
    WORK_SUMMED = 4,      /* digits that a vector sums up for a unit */
    WORK_PROBED = 10,     /* digits of a probe that a pass takes for a unit */
    WORK_COMPARED = 50,   /* partial sums of a probe that a pass compares for a unit */
    WORK_TAIL_DIGITS = 2, /* digits of a tail that are summed up for a unit */
    WORK_COUNTED = 2,     /* steps of counting factors for a unit */
    WORK_MOVED = 2,       /* entries of a run's list that are moved for a unit */
};
