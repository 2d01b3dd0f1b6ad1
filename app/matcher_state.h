/* The matcher's state, shared by app/matcher.c (the path), app/matcher_idle.c (between bursts) and
 * app/matcher_early.c (exact arithmetic: confirmation and early answers). */
#pragma once

#include "app/matcher.h"
#include "app/matcher_constant.h"
#include "kernel/base/bytes.h"

enum {
    MATCHER_HISTORY = MATCHER_N_DIGITS_MAX,         /* digits kept before the burst; '0' where there were none */
    MATCHER_END_WORDS = MATCHER_SEGMENT_DIGITS / 64,
    MATCHER_LENGTH_WORDS = MATCHER_N_DIGITS_MAX / 64 + 1,
    MATCHER_HOT_MAX = 16,       /* one planted answer at work, a chance one in 40 bursts; more only in odd streams */
    MATCHER_PARTNERS_MAX = 64,  /* starts of answers at one end; more only in odd streams */
    MATCHER_PAIRS_MAX = 64,     /* answers of a segment that the search decides; more only in odd streams */
    MATCHER_CONFIRM_MAX = 8,    /* answers of one burst that wait for exact arithmetic; more are confirmed at once */
    MATCHER_EARLY_MAX = 32,     /* early answers whose digits have not come yet */
};

/* Starts in the window that the look from the segment's beginning has found hot. */
struct matcher_hot {
    uint32_t count;                                 /* MATCHER_HOT_MAX + 1: more than are listed */
    uint32_t start[MATCHER_HOT_MAX];                /* positions */
    uint64_t fraction[MATCHER_HOT_MAX];             /* its sum of follow_weights up to the segment */
};

struct matcher_confirm {
    uint32_t constant, count;
    uint8_t digits[MATCHER_N_DIGITS_MAX];
};

/* An answer of the segment that the search has decided; each is kept while the segment is at work. */
struct matcher_pair {
    uint32_t start, end;                            /* positions */
    uint32_t constant;
};

/* The shortest completion of a hot start: `count` digits, 0 if it has none. */
struct matcher_completion {
    uint32_t count;
    struct matcher_big value;
};

struct matcher_promise {
    uint64_t start, end;                            /* stream positions of an early answer */
    bool kept;
};

enum { MATCHER_SWEEPS = 2 };

/* Steps of idle work, in order. */
enum matcher_idle_step { MATCHER_IDLE_CONFIRM, MATCHER_IDLE_SHIFT, MATCHER_IDLE_CONSTANT, MATCHER_IDLE_EARLY,
                         MATCHER_IDLE_CELLS, MATCHER_IDLE_WARM, MATCHER_IDLE_DONE };

/* What each burst reads or writes stands first, on as few lines as possible. */
struct matcher {
    _Alignas(64) const struct matcher_kernel *kernel;
    uint32_t n;
    bool hashes, eaches;                            /* some constant is hashed; is decided at each end */
    bool long_burst;                                /* of more than MATCHER_SHORT_DIGITS */
    bool first_hot;                                 /* a look from the segment's beginning has a hot start; ... */
    bool first_hot_by_zeros;                        /* ... or one whose answer just ended: only zeros make others */
    bool open;                                      /* there may be answers that are not handed out yet */
    bool undecided;                                 /* some ends of the segment are */
    bool combs;                                     /* the stretch at work is searched by them: app/matcher_comb.c */

    /* The segment at work: up to MATCHER_SEGMENT_DIGITS digits of the burst, at the positions from
     * MATCHER_SEGMENT_AT on. Ends are counted from 1: the end after its first digit. */
    uint32_t segment_text;                          /* where in text it begins */
    uint32_t segment_count;
    uint32_t stretch_from, stretch_to;              /* the digits at work; their ends are those after from..to */
    uint32_t sweep_count;                           /* 1, or 2 if there are such for short bursts only */
    uint32_t sweep_at;                              /* which sweep is under way; sweep_count: none is left */
    uint32_t pair_count, pair_given;
    uint32_t end;                                   /* the ends of the stretch are decided up to here */
    uint32_t hit_words;                             /* words of hit[] that are not 0 */

    uint32_t burst_left;                            /* digits behind the segment */
    uint32_t burst_count;
    uint64_t burst_at;                              /* stream position of the burst's first digit */
    uint64_t gap;                                   /* no answer begins before this stream position */
    uint32_t confirm_text, confirm_length, confirm_constant;    /* the answer given last, if it is to be confirmed:
                                                       where in text, else length 0 */
    uint32_t promise_count;
    enum matcher_idle_step idle_step;
    uint32_t constant_count;
    struct matcher_stats stats;

    struct matcher_pair pair[MATCHER_PAIRS_MAX];
    uint64_t zeros[MATCHER_END_WORDS];              /* digits that are 0; where constants are hashed */
    uint64_t suspect[MATCHER_END_WORDS][MATCHER_CONSTANT_COUNT_MAX];    /* undecided ends */
    uint64_t hit[MATCHER_LENGTH_WORDS];             /* lengths of the answers at `end` that are not handed out yet */
    uint8_t hit_constant[MATCHER_N_DIGITS_MAX + 1];     /* the first constant that divides the one of this length */

    /* Idle work. */
    uint32_t idle_constant, idle_slot, idle_hot;
    struct matcher_hot hot[MATCHER_CONSTANT_COUNT_MAX];
    struct matcher_confirm confirm[MATCHER_CONFIRM_MAX];
    uint32_t confirm_count, confirm_done;           /* entries; digits of the last one that are worked off */
    struct matcher_big exact;                       /* the value so far */

    /* Early answers. */
    bool early;
    uint32_t early_digits[MATCHER_CONSTANT_COUNT_MAX];      /* completions this short, ... */
    struct matcher_big early_bound[MATCHER_CONSTANT_COUNT_MAX];     /* ... or one longer and less than this */
    uint32_t early_done;                            /* digits of the start at work that are worked off */
    struct matcher_completion completion[MATCHER_HOT_MAX];  /* of the constant at work */
    bool early_complete;                            /* all of them are known */
    struct matcher_promise promise[MATCHER_EARLY_MAX];
    bool early_ready;                               /* early_text holds one for matcher_next_early */
    uint32_t early_constant, early_count, early_ahead;
    uint8_t early_text[MATCHER_N_DIGITS_MAX];

    struct matcher_digits digits;
    struct matcher_sweep_state sweep_state;
    struct matcher_comb comb;
    struct matcher_comb_state comb_state;
    struct matcher_sweep sweep[MATCHER_SWEEPS];     /* looks of all bursts; those of short ones only, besides */
    _Alignas(64) uint32_t sweep_rows[MATCHER_SWEEP_WORDS];
    /* The burst from MATCHER_HISTORY on, and zeros behind it. */
    uint8_t text[MATCHER_HISTORY + MATCHER_BURST_DIGITS_MAX + MATCHER_WRITE_DIGITS];
    struct matcher_constant constants[MATCHER_CONSTANT_COUNT_MAX];
};

/* Where the digit at a position stands in text. */
static inline uint32_t matcher_text_index(const struct matcher *m, uint32_t position)
{
    return m->segment_text + position - MATCHER_SEGMENT_AT;
}

/* The stream position of a place in text. */
static inline uint64_t matcher_stream_position(const struct matcher *m, uint32_t text_index)
{
    return m->burst_at + text_index - MATCHER_HISTORY;
}

/* Whether a substring may begin at this place in text: a digit of the stream, behind the last gap, and not 0. */
static inline bool matcher_may_begin(const struct matcher *m, uint32_t text_index)
{
    return m->text[text_index] != '0' && m->burst_at + text_index >= m->gap + MATCHER_HISTORY;
}

/* How this burst is searched for a constant. */
static inline bool matcher_looks(const struct matcher *m, const struct matcher_constant *c)
{
    return c->method == MATCHER_LOOK && !(c->hash_long && m->long_burst);
}

static inline bool matcher_hashes(const struct matcher *m, const struct matcher_constant *c)
{
    return c->method == MATCHER_HASH || (c->hash_long && m->long_burst);
}

/* Whether combs search the segment's digits from there on. */
static inline bool matcher_combs(const struct matcher *m, uint32_t from)
{
    return m->segment_count - from >= MATCHER_COMB_DIGITS_MIN && (from > 0 || m->n <= MATCHER_COMB_N_MAX) &&
           m->kernel->comb != NULL && m->sweep[0].look_count > 0;
}

static inline bool matcher_is_zero(const struct matcher_constant *c, uint64_t fraction)
{
    return fraction + c->tolerance <= 2 * c->tolerance;
}

/* An end of the segment may have answers of a constant that are no pairs: all its starts are to be decided. */
static inline void matcher_suspect(struct matcher *m, uint32_t constant, uint32_t end)
{
    m->suspect[(end - 1) / 64][constant] |= BIT((end - 1) % 64);
    m->undecided = true;
}

/* What begins at a position and ends at an end of the segment is an answer; false: no room. */
static inline bool matcher_pair(struct matcher *m, uint32_t constant, uint32_t start, uint32_t end)
{
    for (uint32_t k = 0; k < m->pair_count; k++)
        if (m->pair[k].start == start && m->pair[k].end == MATCHER_SEGMENT_AT + end)
            return true;        /* another constant's */
    if (m->pair_count == MATCHER_PAIRS_MAX)
        return false;
    m->pair[m->pair_count++] =
        (struct matcher_pair){.start = start, .end = MATCHER_SEGMENT_AT + end, .constant = constant};
    return true;
}

/* app/matcher_comb.c: long bursts. */
void matcher_comb_prepare(struct matcher *m);           /* at set-up */
void matcher_comb_begin(struct matcher *m);
bool matcher_comb_search(struct matcher *m);            /* on, up to the next answers; false: all combs are taken */

/* app/matcher_sweep.c. */
void matcher_sweep_prepare(struct matcher *m);          /* at set-up */
void matcher_sweep_begin(struct matcher *m);            /* a search from stretch_from on: sets stretch_to */
/* Finds the ends after..to of what begins at hot starts, counted from `begin`; more than MATCHER_HOT_MAX are lost. */
void matcher_follow(struct matcher *m, uint32_t constant, uint32_t begin, const int32_t *starts, uint32_t count,
                    uint32_t after, uint32_t to);
bool matcher_sweep_search(struct matcher *m);           /* on, up to the next answers; false: all looks are taken */
size_t matcher_sweep_bytes(const struct matcher *m, uint32_t count);    /* touched by a burst */
bool matcher_sweep_remember(struct matcher *m);         /* the scalar variant's cells: true while there is more */
bool matcher_sweep_remember_cells(struct matcher *m);   /* those of vectors: the same, but the path can do without */
void matcher_sweep_warm(struct matcher *m);             /* the path's caches, in idle time */

/* app/matcher_idle.c: makes ready for the digits at text[segment_text], at once. */
void matcher_idle_finish(struct matcher *m);
void matcher_idle_begin(struct matcher *m);

/* app/matcher_early.c. */
void matcher_early_init(struct matcher *m, const double *risk);
void matcher_confirm_push(struct matcher *m, uint32_t constant, const uint8_t *digits, uint32_t count);
bool matcher_confirm_step(struct matcher *m);           /* one slice; true while there is more */
bool matcher_early_step(struct matcher *m);             /* the same */
bool matcher_early_take(struct matcher *m, uint64_t start, uint64_t end);   /* whether it was given early */
void matcher_early_settle(struct matcher *m);           /* after a burst: promises whose digits came differently */
