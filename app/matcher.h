/* Finds every substring of a digit stream that is a multiple of a constant.
 *
 * Digits in, answers out: no I/O, no clock, no allocation. The problem is CONTEST.md's: a substring of at most
 * `n_digits_max` digits, not beginning with 0, that is a multiple of any of up to MATCHER_CONSTANT_COUNT_MAX
 * constants. Each occurrence (end, length) is reported once, whatever number of constants divide it. Exact: none
 * missed, none wrong.
 *
 *     matcher_begin(&m, digits, count);
 *     while (matcher_next(&m, &answer)) ...;       -- each as soon as it is found, in no order
 *     while (matcher_prepare(&m)) poll the network; -- idle time: tables for the next burst, early answers
 *
 * The next burst may begin at any moment, with matcher_prepare half done: it is then completed on the spot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MATCHER_N_DIGITS_MAX = 1024,
    MATCHER_CONSTANT_COUNT_MAX = 8,
    MATCHER_CONSTANT_BITS_MAX = 512,
    MATCHER_CONSTANT_DIGITS_MAX = 155,      /* decimal digits of 2^512 - 1 */
    MATCHER_BURST_DIGITS_MAX = 64 * 1024,
    MATCHER_SEAT_COUNT = 2,                 /* a matcher for the path, one for a second CPU */
};

enum matcher_simd { MATCHER_SIMD_AUTO, MATCHER_SIMD_SCALAR, MATCHER_SIMD_AVX2, MATCHER_SIMD_AVX512 };

struct matcher_config {
    uint32_t n_digits_max;                  /* N: 1..MATCHER_N_DIGITS_MAX */
    uint32_t constant_count;                /* 1..MATCHER_CONSTANT_COUNT_MAX */
    const char *constants[MATCHER_CONSTANT_COUNT_MAX];  /* decimal, without leading zeros, NUL-terminated; borrowed
                                                           during matcher_init only */
    enum matcher_simd simd;
    bool early;                             /* look for answers before they are complete */
    uint32_t seat;                          /* which of the static matchers: below MATCHER_SEAT_COUNT */
    double early_risk;                      /* chance of a false early answer a burst, all constants together */
};

/* An answer: `count` digits, in order; the digits are the matcher's and valid until the next matcher call. */
struct matcher_answer {
    const uint8_t *digits;                  /* ASCII */
    uint32_t count;
    uint32_t constant;                      /* index of one constant that divides it */
    uint32_t ahead;                         /* digits of it that have not been sent yet: 0 unless early */
    uint64_t end;                           /* stream position just past its last digit, from 0 */
};

struct matcher;

/* Sets up the matcher of that seat, in static memory. NULL on success, else a message that quotes what is
 * wrong, valid for ever. The simd variant must be usable on this machine (matcher_simd_usable). */
const char *matcher_init(struct matcher **matcher, const struct matcher_config *config);

/* The best variant this CPU and XCR0 allow; whether one is usable. SDM vol. 1 §13.3, §15.2. */
enum matcher_simd matcher_simd_best(void);
bool matcher_simd_usable(enum matcher_simd simd);
const char *matcher_simd_name(enum matcher_simd simd);

/* Takes up to MATCHER_BURST_DIGITS_MAX digits, each '0'..'9' (asserted); 0 is allowed. The bytes are borrowed until
 * matcher_next has returned false. Every answer of the burst before must have been taken. */
void matcher_begin(struct matcher *matcher, const uint8_t *digits, size_t count);

/* The next answer that ends in this burst; false when there is none left. The search goes on from call to call: an
 * answer comes before what is behind it has been searched. */
bool matcher_next(struct matcher *matcher, struct matcher_answer *answer);

/* One slice of idle work, at most 5 us. Returns true while there is more to do before the next burst. */
bool matcher_prepare(struct matcher *matcher);

/* Between bursts, when matcher_prepare has nothing more to do: brings the path's code and tables back into the caches
 * nearest to the CPU, where other work may have displaced them. At most 5 us. */
void matcher_warm(struct matcher *matcher);

/* The next early answer found by matcher_prepare since the last burst, never one that was given before, and
 * matcher_next will not report it again when its digits come. False: none now. */
bool matcher_next_early(struct matcher *matcher, struct matcher_answer *answer);

/* Forgets all digits so far: the stream has a gap here (the feed was connected anew), and no answer may reach across
 * it. Early answers still open are forgotten, positions go on counting from where they are. Every answer of the burst
 * before must have been taken. */
void matcher_restart(struct matcher *matcher);

/* For the statistics. */
struct matcher_stats {
    uint64_t digits, bursts, answers, early_answers;
    uint64_t candidates;                    /* pairs the filter let through */
    uint64_t candidates_refuted;            /* of those, refuted by the exact check */
    uint64_t looks_lost;                    /* with more hot starts than are followed: all starts are gone through */
    uint64_t early_right, early_wrong;      /* early answers whose digits came, or came differently */
    size_t memory_bytes, path_bytes;        /* all of it; the part a 100-digit burst touches */
};
const struct matcher_stats *matcher_stats(const struct matcher *matcher);
