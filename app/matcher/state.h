/* The matcher's state: one struct a step. */
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

    MATCHER_CANDIDATES_MAX = 16, /* candidates of one probe; one planted answer at work, a chance one in 40 bursts */
    /* Each digit gives each modulus one credit. A modulus that runs out of credit is hashed for the rest of the burst.
     */
    MATCHER_CREDIT_MAX = 1024,
    MATCHER_CREDIT_STEP = 64, /* the price of a list of candidates, of a candidate, and of a tail that refuses one */
    MATCHER_SUMS_MAX = 16,    /* residues summed up in a burst to ask other moduli; after that their tables are used */
    MATCHER_QUEUE_MAX = 512,  /* pairs found and not handed out */
    MATCHER_WORK_MAX = 8000,  /* work between two returns of matcher_next */
    /* Prices of work: about nanoseconds at 2.5 GHz. */
    WORK_END = 3,             /* an end, by the hash */
    WORK_START = 3,           /* a start with the end's residue */
    WORK_PAIR = 4,            /* an answer put into the queue */
    WORK_TAIL = 7,            /* the tail of such a start, or one by the table */
    WORK_DIGIT = 2,           /* a digit taken into a table */
    WORK_SUMMED = 4,          /* digits summed up by a vector */
    MATCHER_CHECKS_MAX = 16,  /* answers of a burst that are checked exactly */
    MATCHER_PENDING_MAX = 32, /* early answers whose digits have not come yet */
    MATCHER_REHEARSAL_DIGITS = 128,
};

/* A substring that is a multiple: text indices. */
struct matcher_pair {
    uint32_t start, end, modulus;
};

/* The ends within a run of zeros, for one modulus with a tail. All have the same residue, and the starts that the tail
 * admits become more with each zero. A start is judged once: `list` keeps from which end on it is an answer. Places are
 * those of the modulus' table. */
struct tail_run {
    uint32_t base; /* the place before the zeros; 0: none */
    enum run_phase { RUN_LACKS_2, RUN_LACKS_5, RUN_ADMITS } phase;
    struct hash_walk longer; /* RUN_ADMITS: the walk behind the starts that are listed */
    uint32_t judged;         /* otherwise: starts before this place have been judged */
    uint32_t count;
    struct {
        uint32_t start, ready;
    } list[MATCHER_MODULUS_BITS_MAX]; /* the first one to be ready is the last */
};

/* The hash's search through some digits for one modulus. */
struct hash_search {
    bool active, walking;
    bool dropped;               /* ends whose tail admits nothing are no longer in `found` */
    uint32_t modulus, from, to; /* `from` and `to`: text indices */
    uint64_t found[FILTER_BLOCK_DIGITS / HASH_BLOCK_DIGITS]; /* ends that may have a start */
    uint32_t end;                                            /* the walk's end, a text index */
    struct hash_walk walk;
    bool tail_known; /* the modulus has a tail, and its run is that of the end */
    uint32_t listed; /* starts of the run's list that may be answers of the end, not looked at yet */
};

/* The search of a burst, block by block: first the moduli that are hashed, then the filter's probes. */
struct burst_search {
    bool open;         /* there may be answers that are not handed out yet */
    uint32_t from, to; /* the block at work: text indices */
    uint32_t modulus;  /* the next one to hash in this block */
    uint32_t probes;   /* that the block needs: pass.needed goes on to that in slices */
    uint32_t hashed;   /* bits: moduli that are hashed in this burst from hashed_from[] on */
    uint32_t hashed_from[MATCHER_MODULUS_COUNT_MAX];
    uint32_t overflowed; /* bits: moduli that have just joined these */
    /* Answers that end up to here, and begin in the burst or FILTER_GROUP_BEFORE digits before, have been queued by the
     * filter: the hash skips them. */
    uint32_t filtered_to[MATCHER_MODULUS_COUNT_MAX];
    uint64_t hashed_to[MATCHER_MODULUS_COUNT_MAX]; /* the hash has searched up to this place of the stream */
    uint64_t earned;                               /* credits of each modulus so far, ... */
    uint64_t spent[MATCHER_MODULUS_COUNT_MAX];     /* ... and those that it has spent, or lost by the maximum */
    uint32_t sums;
    uint64_t work, work_max; /* work so far; at so much matcher_next returns */
    uint32_t queued, given;
    struct hash_search hashing;
    struct matcher_pair queue[MATCHER_QUEUE_MAX];
};

/* Candidates in the window by the probe from the burst's beginning. */
struct window_candidates {
    uint32_t count;                         /* MATCHER_CANDIDATES_MAX + 1: more than are listed */
    uint32_t start[MATCHER_CANDIDATES_MAX]; /* text indices */
    uint64_t sum[MATCHER_CANDIDATES_MAX];   /* sums of key weights, up to the burst */
};

enum idle_step { IDLE_CHECK, IDLE_SHIFT, IDLE_MODULI, IDLE_CACHE, IDLE_EARLY, IDLE_WARM, IDLE_DONE };

/* The exact remainder of a substring, computed in slices. */
struct remainder {
    uint32_t digits; /* digits taken so far */
    struct big value;
};

/* Answers to check exactly, off the path. */
struct exact_checks {
    uint32_t count;
    struct matcher_pair pair[MATCHER_CHECKS_MAX];
    struct remainder remainder; /* that of the last one */
};

/* The shortest completion of a candidate: `count` digits, 0 if it has none. */
struct early_completion {
    uint32_t count;
    struct big value;
};

/* The search for early answers: modulus by modulus, first each candidate's value and completion, then the offers. */
struct early_search {
    enum early_step { EARLY_VALUE, EARLY_COMPLETION, EARLY_OFFER } step;
    uint32_t modulus, candidate;
    struct remainder value; /* the candidate's, modulo M */
    struct early_completion completion[MATCHER_CANDIDATES_MAX];
};

/* An early answer whose digits have not come yet. */
struct early_pending {
    uint64_t start, end; /* stream positions */
    uint32_t ahead;
    uint8_t digits[MATCHER_MODULUS_DIGITS_MAX]; /* the last `ahead` ones */
};

struct early_answers {
    uint32_t digits_max[MATCHER_MODULUS_COUNT_MAX]; /* completions this short are allowed, ... */
    struct big bound[MATCHER_MODULUS_COUNT_MAX];    /* ... or one digit longer and less than this */
    struct early_search search;
    uint32_t pending_count;
    struct early_pending pending[MATCHER_PENDING_MAX];
    bool ready; /* `text` holds one for matcher_next_early */
    uint32_t modulus, count;
    uint8_t text[MATCHER_N_DIGITS_MAX];
};

/* The words that each burst reads or writes stand first. */
struct matcher {
    _Alignas(64) const struct simd_ops *ops;
    uint32_t n, modulus_count;
    uint32_t hash_moduli; /* bits: moduli whose method is the hash */
    bool early;
    bool window_any;        /* a probe from the burst's beginning has a candidate, ... */
    bool window_multiple;   /* ... or a multiple of M, which only zeros make another one */
    uint32_t window_hashed; /* bits: moduli with more than are listed */
    enum idle_step idle_step;
    uint32_t idle_modulus;
    uint32_t burst_count;
    uint64_t burst_at; /* stream position of the burst's first digit */
    struct matcher_stats stats;
    struct burst_search search;
    struct filter_pass pass;
    struct window_candidates window[MATCHER_MODULUS_COUNT_MAX];
    struct exact_checks checks;
    struct early_answers early_answers;
    bool adding; /* moduli[modulus_count] is being made */
    struct modulus_making making;
    uint64_t early_risk; /* the configuration's, as is `seed` */
    uint8_t seed[MATCHER_SEED_BYTES];
    struct matcher_modulus moduli[MATCHER_MODULUS_COUNT_MAX];
    struct matcher_hash table[MATCHER_MODULUS_COUNT_MAX];
    struct tails tails;
    struct tail_run run[MATCHER_MODULUS_COUNT_MAX];
    struct filter filter;
    uint8_t rehearsal[MATCHER_REHEARSAL_DIGITS]; /* digits that end in a modulus, ... */
    uint32_t rehearsal_answer_digits;            /* ... of so many digits; 0: there is none that fits */
    _Alignas(64) uint8_t text[MATCHER_TEXT_DIGITS];
    _Alignas(64) uint32_t row[MATCHER_TEXT_DIGITS]; /* the text in words, as the variant wants them */
};

static inline uint64_t matcher_stream_position(const struct matcher *m, uint32_t text_index)
{
    return m->burst_at + text_index - MATCHER_HISTORY;
}

/* The state of the search after a step. */
enum search_state {
    SEARCH_ON,    /* take the next step */
    SEARCH_PAUSE, /* the same, after a poll of the ring */
    SEARCH_DONE,  /* the burst has been searched */
};

/* Makes a modulus' table of residues end at a text index, with room for more digits. The table goes on if it can, so
 * that each digit is taken once; else it begins again with the n digits before. */
void matcher_hash_to(struct matcher *m, uint32_t modulus, uint32_t text_index, uint32_t room);
/* Queues a pair that a modulus divides. The first modulus that divides a pair hands it out. */
void matcher_pair_add(struct matcher *m, uint32_t modulus, uint32_t start, uint32_t end);
/* Hashes a modulus over some digits, of one block at most. */
void hash_search_begin(struct matcher *m, uint32_t modulus, uint32_t from, uint32_t to);
/* Queues the answers of the next end that has some, while there is room, up to work_max. */
enum search_state hash_search_continue(struct matcher *m);
/* Chooses a modulus' method for the variant, and makes its table of residues. */
void matcher_setup_modulus(struct matcher *m, uint32_t i);
/* Makes ready for a variant: its filter, an empty window. */
void matcher_setup(struct matcher *m, const struct simd_ops *ops);
void matcher_window_begin(struct matcher *m);
void matcher_window_finish(struct matcher *m); /* at once, all that the next burst cannot do without */
void matcher_window_step(struct matcher *m);   /* one slice, up to IDLE_WARM */

void matcher_add_step(struct matcher *m); /* one slice, between bursts */
/* Makes the burst that idle time rehearses the search with. */
void matcher_rehearsal_init(struct matcher *m, const char *const *moduli);

void early_init(struct matcher *m, uint64_t risk);
bool early_was_given(const struct matcher *m, const struct matcher_pair *pair);
void early_settle(struct matcher *m);     /* counts pending ones whose end has come, and drops them */
bool early_step(struct matcher *m);       /* one slice; true while there is more */
bool exact_check_step(struct matcher *m); /* the same */
void early_check(const struct matcher *m);
/* Times the usable variants (fastest.c), and returns the one that is the fastest over all lengths of a burst. */
enum matcher_simd matcher_simd_fastest(struct matcher *m, uint64_t tsc_khz);
const struct simd_ops *simd_ops_of(enum matcher_simd simd);
