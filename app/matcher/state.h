/* The matcher's state: one struct a step.
 *
 * Words: `from` and `to` bound a range of text indices, `to` excluded. A start and an end bound a substring in the same
 * way. A place is a text index plus burst_at, so the stream's position plus MATCHER_HISTORY; it is never negative. A
 * table of residues has numbers of its own for places, from `first` on. A probe stands at a position of the block. */
#pragma once

#include "app/matcher/filter.h"
#include "app/matcher/hash.h"
#include "app/matcher/simd_ops.h"
#include "app/matcher/tail.h"
#include "base/bytes.h"

enum {
    /* The text: the window, '0' where there were no digits, then the burst, then zeros that vectors may read. */
    MATCHER_HISTORY = MATCHER_N_DIGITS_MAX + 32,
    MATCHER_TEXT_DIGITS = MATCHER_HISTORY + MATCHER_BURST_DIGITS_MAX + 64,

    /* Each digit gives each modulus one credit. A modulus that runs out of credit is hashed for the rest of the burst.
     * A step is a list of candidates, a candidate, or a tail that refuses one. */
    MATCHER_CREDIT_MAX = 1024,
    MATCHER_CREDIT_STEP = 64,

    MATCHER_QUEUE_MAX = 512,   /* pairs found and not handed out */
    MATCHER_QUEUED_ENDS = 512, /* more than a block's digits and K */
    MATCHER_WORK_MAX = 8000,   /* after this work a call of matcher_next begins no further step */
    MATCHER_CALL_MAX = 15000,  /* work of a call, with its last step */
    MATCHER_BEGIN_MAX = 12000, /* work of matcher_begin, with idle work that it must do first */

    MATCHER_CHECKS_MAX = 16,  /* answers of a burst that are checked exactly */
    MATCHER_PENDING_MAX = 32, /* early answers whose digits have not come yet */
    /* A burst of this length fits into a table of residues after idle work. */
    MATCHER_ROOM_DIGITS = 1024,
    MATCHER_REHEARSAL_DIGITS = 128, /* the made-up burst's length before the first burst */
};

/* A substring that is a multiple: text indices. */
struct matcher_pair {
    uint32_t start, end, modulus;
};

/* The ends within a run of zeros, for one modulus with a tail. All have the same residue, and the starts that the tail
 * admits become more with each zero. A start is judged once: `list` keeps from which end on it is an answer. Starts
 * and ends are numbers of the modulus' table. */
struct tail_run {
    uint32_t base; /* the place before the zeros; 0: none */
    /* The first prime of which the end lacks factors (as an index: 0 for 2, 1 for 5), or it has all of both. */
    enum run_phase { RUN_LACKS_2, RUN_LACKS_5, RUN_ADMITS } phase;
    /* RUN_ADMITS: the walk goes on from here when all listed starts are done: just before its first long start. Zeros
     * insert no start and keep the key, so it serves each later end of the run. */
    struct hash_walk longer;
    uint32_t judged; /* RUN_LACKS_2, _5: the earliest start that may still be judged */
    uint32_t count;
    struct {
        uint32_t start, ready;
    } list[MATCHER_MODULUS_BITS_MAX]; /* the earliest `ready` last; in the other phases the level's starts */
};

/* The hash's search through the block for one modulus. The walk is that of one end. */
struct hash_search {
    bool active;
    enum {
        HASH_ENDS,      /* to the next end */
        HASH_STARTS,    /* to the end's next start */
        HASH_TAIL,      /* the end has a start, and the modulus a tail */
        HASH_SHORT,     /* the run's starts that are shorter than the tail are being listed */
        HASH_LEVEL,     /* the run's starts on the end's level are being listed */
        HASH_RUN_BEGIN, /* all are listed */
        HASH_RUN,       /* to the next start that is an answer */
    } step;
    uint32_t modulus;
    uint32_t dropped;                                        /* words of `found` without the ends that the tails drop */
    uint64_t found[FILTER_BLOCK_DIGITS / HASH_BLOCK_DIGITS]; /* ends that may have a start */
    uint32_t end;
    struct hash_walk walk;
    uint32_t length; /* HASH_LEVEL: of the next start to look at */
    uint32_t listed; /* HASH_RUN: starts of the run's list that are left */
};

/* The candidates of a probe, or of the window, that are being verified. */
struct hit {
    uint32_t left;                 /* candidates */
    const uint32_t *before;        /* from there on */
    uint32_t modulus, after, last; /* for the ends after + 1 .. last */
    uint32_t end;                  /* the first candidate's sum reaches this end; 0: it has not begun */
    uint64_t sum;
};

/* The search of a burst, block by block: search.c. */
struct burst_search {
    bool open;         /* there may be answers that are not handed out yet */
    uint32_t from, to; /* the block at work */

    /* Bits: moduli that are hashed from this block on, at first hash_moduli and window_hashed; and those of them that
     * are still to be hashed in this block. */
    uint32_t hashed, to_hash;
    uint32_t window; /* bits: moduli whose candidates in the window are still to be verified */
    struct hit hit;
    /* The credit that each modulus has earned so far, and what it has spent or lost by the maximum. */
    uint64_t earned, spent[MATCHER_MODULUS_COUNT_MAX];
    uint64_t work, work_max; /* work so far, and the work from which on matcher_next returns */
    uint32_t queued, given;
    struct hash_search hashing;
    struct candidates listed; /* the hit's, if it is a probe's */
    struct matcher_pair queue[MATCHER_QUEUE_MAX];
};

enum idle_step { IDLE_CHECK, IDLE_MODULI, IDLE_CACHE, IDLE_TAILS, IDLE_EARLY, IDLE_DONE };

/* The shortest completion of a candidate: `count` digits, 0 if it has none. */
struct early_completion {
    uint32_t count;
    struct big value;
};

/* An early answer whose digits have not come yet. */
struct early_pending {
    uint64_t start, end; /* stream positions */
    uint32_t ahead;
    uint8_t digits[MATCHER_MODULUS_DIGITS_MAX]; /* the last `ahead` ones */
};

struct early_answers {
    struct big allowed[MATCHER_MODULUS_COUNT_MAX]; /* completions of a start that may count; 0: none */
    /* The search goes modulus by modulus: a step for each candidate's completion, then one for each offer. */
    uint32_t modulus, step;
    struct early_completion completion[CANDIDATES_MAX];
    uint32_t pending_count;
    struct early_pending pending[MATCHER_PENDING_MAX];
    struct matcher_answer offered; /* for matcher_next_early; its digits are `text`; count 0: none */
    uint8_t text[MATCHER_N_DIGITS_MAX];
};

/* The made-up burst that idle time searches: warm.c. */
struct rehearsal {
    uint32_t digits_lately; /* the longest burst of late; each further one takes a sixteenth off */
    uint32_t modulus;       /* the one whose number ends the burst */
    uint32_t random;        /* draws the digits before: equal ones may be many answers */
    uint32_t piece;         /* the latest piece of memory that was fetched */
    /* The place at which the next slice goes on: the block, the moduli that are to be hashed there, the probes that
     * were taken. From 0, a new burst is drawn. */
    uint32_t from, to_hash, taken;
    uint32_t digits;
    uint8_t text[MATCHER_ROOM_DIGITS];
};

/* The words that each burst reads or writes stand first. */
struct matcher {
    _Alignas(64) const struct simd_ops *ops;
    uint32_t n, modulus_count;
    uint32_t hash_moduli; /* bits: moduli whose method is the hash */
    /* The probe from the burst's beginning has a candidate that is no multiple of M, or one that is. From the latter
     * only zeros make another answer. */
    bool window_any, window_multiple;
    /* Bits: filtered moduli that the next burst hashes, because they have more candidates than are listed, or because
     * the filter is being made again. */
    uint32_t window_hashed;
    bool rehearses;      /* the burst is made up */
    uint64_t work_slice; /* work between two returns of matcher_next */
    enum idle_step idle_step;
    uint32_t idle_modulus;
    uint32_t burst_count;
    uint64_t burst_at; /* stream position of the burst's first digit */
    struct matcher_stats stats;
    struct burst_search search;
    struct filter_pass pass;
    struct candidates window[MATCHER_MODULUS_COUNT_MAX]; /* by the probe from the burst's beginning */
    uint32_t check_count;
    struct matcher_pair check[MATCHER_CHECKS_MAX]; /* answers to check exactly, off the path */
    struct early_answers early_answers;
    bool adding; /* moduli[modulus_count] is being made, or the filter with the modulus */
    struct modulus_making making;
    uint64_t early_risk;              /* by the configuration; 0: no early answers */
    uint8_t seed[MATCHER_SEED_BYTES]; /* by the configuration */
    struct matcher_modulus moduli[MATCHER_MODULUS_COUNT_MAX];
    struct matcher_hash table[MATCHER_MODULUS_COUNT_MAX];
    struct tails tails;
    struct tail_run run[MATCHER_MODULUS_COUNT_MAX];
    struct filter filter;
    /* The pairs that this burst has queued, by their ends: burst_mark + end, then a bit for each length. With another
     * mark the entry is of an older end. Ends of one block, and of up to K digits more, are looked up at a time. So
     * ends that share an entry never meet. */
    uint64_t burst_mark;
    uint64_t queued_pairs[MATCHER_QUEUED_ENDS * (1 + MATCHER_N_DIGITS_MAX / 64)];
    struct rehearsal rehearsal;
    _Alignas(64) uint8_t text[MATCHER_TEXT_DIGITS];
    _Alignas(64) uint32_t row[MATCHER_TEXT_DIGITS]; /* the text in words, as the variant wants them */
};

static inline uint64_t matcher_stream_position(const struct matcher *m, uint32_t text_index)
{
    return m->burst_at + text_index - MATCHER_HISTORY;
}

/* hash_search.c */

/* Makes a modulus' table of residues end at a text index, with room for more digits. The table goes on if it can, so
 * that each digit is taken once; else it begins again with the n digits before. */
void matcher_hash_to(struct matcher *m, uint32_t modulus, uint32_t text_index, uint32_t room);
/* Returns the words of an end in queued_pairs: a mark, then bits. */
static inline uint32_t matcher_pair_words(uint32_t n) { return 1 + (n + 255) / 256 * 4; }
/* Takes up to HASH_BLOCK_DIGITS further digits into the tails, towards text index `to`; they begin so that they serve
 * the ends after `from`. Returns true while there are more. */
bool matcher_tails_to(struct matcher *m, uint32_t from, uint32_t to);
/* Queues a pair that a modulus divides, unless it has been queued in this burst. */
void matcher_pair_add(struct matcher *m, uint32_t modulus, uint32_t start, uint32_t end);
/* Hashes a modulus over the block at work. */
void hash_search_begin(struct matcher *m, uint32_t modulus);
/* Queues the answers of the next end that has some, while there is room, up to work_max. */
void hash_search_continue(struct matcher *m);

/* search.c */

static inline bool search_has_hits(const struct matcher *m)
{
    return (m->pass.hits | m->search.hit.left | m->search.window) != 0;
}
/* Goes on at a block as if all had been searched but the probes after the first `taken` ones and some moduli's hash. */
void search_skip(struct matcher *m, uint32_t from, uint32_t to_hash, uint32_t taken);

/* early.c */

void early_init(struct matcher *m);
bool early_was_given(const struct matcher *m, const struct matcher_pair *pair);
/* Counts pending answers whose end has come, and drops them. */
void early_settle(struct matcher *m);
/* Does one slice of the search for early answers. Returns true while there is more to do. */
bool early_step(struct matcher *m);
/* Checks one answer exactly. */
void exact_check_step(struct matcher *m);

/* window.c */

/* Makes idle work begin again. */
void matcher_window_begin(struct matcher *m);
/* Does one slice of idle work. There is one until idle_step is IDLE_DONE. */
void matcher_window_step(struct matcher *m);
/* Does at once all that the next burst cannot do without. It takes longer without partial sums. */
void matcher_window_finish(struct matcher *m);
/* Chooses a modulus' method for the variant, and makes its table of residues. */
void matcher_setup_modulus(struct matcher *m, uint32_t i);
/* Makes ready for a variant: its filter, an empty window. */
void matcher_setup(struct matcher *m, const struct simd_ops *ops);
