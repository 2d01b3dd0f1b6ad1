/* GCC's extensions that Frama-C's parser lacks. Frama-C reads this file before each other file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __FRAMAC__
#include "__fc_builtin.h"
#else /* for test_prove.py, which compiles the proofs without Frama-C */
void Frama_C_make_unknown(char *at, size_t bytes);
unsigned long Frama_C_unsigned_long_interval(unsigned long least, unsigned long most);
void Frama_C_show_each_assertion(const char *condition);
#endif

#define _Alignas(bytes)
#define __builtin_expect(condition, usual) (condition)
#define __builtin_prefetch(...)            ((void)0)
#define HOT_KEEP(value)                    ((void)0)

static inline uint16_t prove_bswap16(uint16_t v) { return (uint16_t)(v >> 8 | v << 8); }
static inline uint32_t prove_bswap32(uint32_t v)
{
    return v >> 24 | (v >> 8 & 0xff00u) | (v << 8 & 0xff0000u) | v << 24;
}
static inline uint64_t prove_bswap64(uint64_t v)
{
    return (uint64_t)prove_bswap32((uint32_t)v) << 32 | prove_bswap32((uint32_t)(v >> 32));
}
#define __builtin_bswap16 prove_bswap16
#define __builtin_bswap32 prove_bswap32
#define __builtin_bswap64 prove_bswap64

/* Multiplies; true on overflow. Only for the product's own type; negative numbers, which it never adds, count as an
 * overflow. */
static inline bool prove_mul_overflow(int64_t a, int64_t b, int64_t *product)
{
    if (a < 0 || b <= 0 || a > INT64_MAX / b)
        return true;
    *product = a * b;
    return false;
}
static inline bool prove_add_overflow(int64_t a, int64_t b, int64_t *sum)
{
    uint64_t whole = (uint64_t)a + (uint64_t)b;
    if (a < 0 || b < 0 || whole > INT64_MAX)
        return true;
    *sum = (int64_t)whole;
    return false;
}
#define __builtin_mul_overflow prove_mul_overflow
#define __builtin_add_overflow prove_add_overflow

#ifdef PROVE_CONTRACTS
/* For WP: each assertion of the product is a goal. Eva reads a body instead (assertion.c). */
/*@ requires \false; assigns \nothing; ensures \false; exits \false; */
_Noreturn void assert_failed(const char *file, int line, const char *condition);
#else
/* Raises an alarm unless Eva sees that the condition holds. */
/*@ requires holds != 0; assigns \nothing; */
void prove_holds(bool holds);

/* Sets the object to any bytes. */
static inline void prove_any(void *at, size_t bytes) { Frama_C_make_unknown((char *)at, bytes); }
static inline uint64_t prove_number(uint64_t least, uint64_t most)
{
    return Frama_C_unsigned_long_interval(least, most);
}
#endif
