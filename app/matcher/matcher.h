/* Finds every substring of a digit stream that is a multiple of a modulus: at most `n_digits_max` digits, not beginning
 * with 0. Each occurrence (end, length) is reported once, whatever number of moduli divide it. None is missed. A
 * modulus of at most 50 bits is decided exactly; for a larger one a wrong pair has a chance below 2^-50, by the seed.
 * No I/O, no allocation; the TSC is read only to time variants. app/matcher/README.md explains the methods.
 *
 *     matcher_begin(&m, digits, count);
 *     while ((step = matcher_next(&m, &answer)) != MATCHER_DONE) ...;   -- each answer as soon as it is found
 *     while (matcher_prepare(&m)) poll the network;                     -- idle time: tables, early answers
 *
 * With early answers, `while (matcher_next_early(&m, &answer)) ...;` follows each matcher_prepare. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MATCHER_N_DIGITS_MAX = 1024,
    MATCHER_MODULUS_COUNT_MAX = 8,
    MATCHER_MODULUS_BITS_MAX = 512,
    MATCHER_MODULUS_DIGITS_MAX = 155, /* decimal digits of 2^512 - 1 */
    MATCHER_BURST_DIGITS_MAX = 64 * 1024,
    MATCHER_SEED_BYTES = 16,
    MATCHER_TIMED_DIGITS = 300, /* at most, in a burst of matcher_time_burst */
};

enum matcher_simd { MATCHER_SIMD_AUTO, MATCHER_SIMD_SCALAR, MATCHER_SIMD_AVX2, MATCHER_SIMD_AVX512 };

struct matcher_config {
    uint32_t n_digits_max;                         /* N: 1..MATCHER_N_DIGITS_MAX */
    uint32_t modulus_count;                        /* moduli: 1..MATCHER_MODULUS_COUNT_MAX */
    const char *moduli[MATCHER_MODULUS_COUNT_MAX]; /* decimal; borrowed during matcher_init */
    enum matcher_simd simd;                        /* AUTO: matcher_init times the usable variants */
    uint64_t tsc_khz;                              /* for AUTO; 0: AUTO takes the widest one */
    bool early;                                    /* look for answers before they are complete */
    uint64_t early_risk;                           /* chance of a false early answer a burst, times 2^40 */
    uint8_t seed[MATCHER_SEED_BYTES];              /* random: draws the unit */
    void (*beat)(void);                            /* called after each modulus, which may take long; may be NULL */
};

/* An answer: `count` digits, in order; the digits are the matcher's and valid until the next matcher call. */
struct matcher_answer {
    const uint8_t *digits; /* ASCII */
    uint32_t count;
    uint32_t modulus; /* index of one modulus that divides it */
    uint32_t ahead;   /* digits of it that have not been sent yet: 0 unless early */
    uint64_t end;     /* stream position just past its last digit, from 0 */
};

struct matcher;
/* Sets up the one matcher, in static memory. NULL on success, else a message that quotes the fault and stays valid. The
 * simd variant must be usable on this machine (matcher_simd_usable). */
const char *matcher_init(struct matcher **matcher, const struct matcher_config *config);

/* Returns the widest variant that this CPU and XCR0 allow; returns true if one is usable. SDM vol. 1 §13.3, §15.2. */
enum matcher_simd matcher_simd_best(void);
bool matcher_simd_usable(enum matcher_simd simd);
const char *matcher_simd_name(enum matcher_simd simd);

/* Copies up to MATCHER_BURST_DIGITS_MAX digits, each '0'..'9' (asserted). The burst before must be done. */
void matcher_begin(struct matcher *matcher, const uint8_t *digits, size_t count);

enum matcher_step {
    MATCHER_DONE,    /* no answer is left in this burst */
    MATCHER_ANSWER,  /* the next answer that ends in this burst */
    MATCHER_WORKING, /* none yet, after 15 us at worst: poll and call again */
};

/* Goes on with the search, up to the next answer. */
enum matcher_step matcher_next(struct matcher *matcher, struct matcher_answer *answer);
/* Does one slice of idle work, at most 7 us, or 10 us while a modulus is added or if N is 1,024. Returns true while
 * there is more to do before the next burst. */
bool matcher_prepare(struct matcher *matcher);
/* Does one slice of what keeps the path warm: brings tables back into the nearest caches, and rehearses the search of a
 * burst as long as those of late. Takes 1.2 us with the contest's moduli, up to 7 us with any, or 10 us if N is 1,024.
 * Returns false, and does nothing, if answers or slices of idle work are left. */
bool matcher_warm(struct matcher *matcher);
/* Hands out the next early answer found by matcher_prepare since the last burst, never one that was given before.
 * matcher_next does not report it again when its digits come. False: none now. matcher_prepare waits for this call with
 * each one that it finds, and the next burst must find it taken. */
bool matcher_next_early(struct matcher *matcher, struct matcher_answer *answer);
/* Forgets all digits so far, and pending early answers: the stream has a gap here. Positions go on counting. The burst
 * before must be done. */
void matcher_restart(struct matcher *matcher);

/* Adds a modulus while the matcher plays, in up to 30 us. matcher_prepare makes its tables in some 300 further slices,
 * of up to 10 us. In the last 35 of them the filter is made again, and a burst that comes between them is hashed. The
 * modulus' multiples are then found, with the digits before the burst. One that is there is not added again. NULL, or a
 * message. */
const char *matcher_add(struct matcher *matcher, const char *decimal);

/* Searches a burst of `count` random digits, drawn by `state`, then does all idle work. Returns the TSC cycles of the
 * search. Not for a matcher that finds early answers: nobody would take them. */
uint64_t matcher_time_burst(struct matcher *matcher, uint64_t *state, uint32_t count);

/* For the statistics. */
struct matcher_stats {
    uint64_t moduli, moduli_pending; /* searched for; being added */
    uint64_t digits, bursts, answers, early_answers;
    uint64_t candidates_refuted;       /* answers that were no multiples, by exact arithmetic off the path */
    uint64_t candidates_unchecked;     /* answers not checked exactly: too many, or the next burst came */
    uint64_t filter_overflows;         /* a modulus had too many candidates, and was hashed */
    uint64_t rehearsals;               /* made-up bursts that were searched to their end */
    uint64_t early_right, early_wrong; /* early answers whose digits came, or came differently */
    const char *simd, *simd_times;     /* the variant at work; the variants' times, if they were compared */
};
const struct matcher_stats *matcher_stats(const struct matcher *matcher);

/* Asserts the whole invariant of the state. For tests. */
void matcher_check_state(const struct matcher *matcher);
