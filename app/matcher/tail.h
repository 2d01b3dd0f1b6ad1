/* The factors 2 and 5 of a substring, for moduli M = 2^a 5^b m. app/matcher/README.md, "Tails". Knows no modulus: how
 * many factors there are is kept for each place as the digits come. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/matcher/matcher.h"
#include "app/matcher/work.h"

enum {
    TAIL_PRIMES = 2,       /* 2 and 5 */
    TAIL_WORDS_MAX = 9,    /* enough for 2^511 and for 5^220: a word holds 2^60 or 5^26 */
    TAIL_PLACES = 1 << 11, /* a window, a block, and a power of two */
    TAIL_PAIRS = 64,       /* substrings whose counted factors are remembered */
    TAIL_UNIT_BITS = 60,
    /* For each prime a search through the pairs, then digits times words: as many digits as a level has factors, 60 and
     * 26 a word. Factors 2 are counted for several digits at once. */
    TAIL_WORK_MAX = (TAIL_PRIMES * TAIL_PAIRS / 2 + TAIL_WORDS_MAX * TAIL_WORDS_MAX * (60 / 4 + 26)) / WORK_COUNTED,
};

/* The number that all digits before a place write. */
struct tail_place {
    uint16_t zeros;                /* count of the number's trailing zeros */
    uint16_t factors[TAIL_PRIMES]; /* the number's factors, at most as many as the words hold */
    /* The number without its factors 2, times 5^-place, modulo 2^60. If two places are on one level, the factors of the
     * difference are further factors of the substring between them: Y(j) - 10^L Y(i) = 2^F(j) 5^j (unit j - unit i). */
    uint64_t unit;
};

/* Places are those of struct matcher. Digits before the place `first` count as zeros. */
struct tails {
    uint32_t words[TAIL_PRIMES]; /* 0: no modulus has the factor */
    uint64_t first, next;        /* the places that are known; 0: none */
    /* The number that all digits write, modulo a power of each prime: words to the base 2^60 or 5^26, the least
     * significant first. */
    uint64_t number[TAIL_PRIMES][TAIL_WORDS_MAX];
    uint64_t fifths; /* 5^-next modulo 2^64, if that is 1 at `first` */
    /* Substrings whose factors have been counted of late: other moduli need not count them again. */
    struct {
        uint64_t end; /* 0: none */
        uint16_t count, prime, factors;
    } pair[TAIL_PAIRS];
    uint32_t pair_next;
    struct tail_place place[TAIL_PLACES];
};

/* Provides for this many factors of a prime. Forgets all places if they are more than before. */
void tails_provide(struct tails *tails, uint32_t prime, uint32_t factors);
/* Begins at a place, with no digit before it. */
void tails_restart(struct tails *tails, uint64_t place);
/* Takes the digits from the place `next` on. */
void tails_take(struct tails *tails, const uint8_t *digits, uint32_t count);
static inline struct tail_place *tails_at(struct tails *tails, uint64_t place)
{
    return &tails->place[place % TAIL_PLACES];
}
/* Returns true if an end has the factors that it needs. */
static inline bool tails_admit(const struct tail_place *end, const uint32_t needs[TAIL_PRIMES])
{
    return (end->factors[0] >= needs[0]) & (end->factors[1] >= needs[1]);
}
/* Returns how many zeros must follow a substring before 2^exponents[0] 5^exponents[1] divides it: 0 if that divides it
 * already. `digits` are the substring's, and the first one is not 0. `end` is the place after the last one. Adds to
 * `work` for factors that must be counted: TAIL_WORK_MAX at most. */
uint32_t tails_missing(struct tails *tails, const uint32_t exponents[TAIL_PRIMES], const uint8_t *digits,
                       uint32_t count, uint64_t end, uint64_t *work);
