/* The kernels for any x86-64: SSE2, which belongs to the architecture, through GCC's vectors. */
#include <emmintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/matcher_kernel.h"

enum { LANES = 4 };
typedef uint32_t v32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t v64 __attribute__((vector_size(16), aligned(8), may_alias));
typedef struct { v32 hot; } look_state;

static inline v32 v32_all(uint32_t value) { return (v32){value, value, value, value}; }
static inline v32 v32_load(const void *at) { return *(const v32 *)at; }
static inline void v32_store(void *at, v32 value) { *(v32 *)at = value; }
static inline v32 v32_madd(v32 a, v32 b) { return (v32)_mm_madd_epi16((__m128i)a, (__m128i)b); }
static inline v32 v32_mul(v32 a, v32 b) { return a * b; }
static inline uint32_t v32_first(v32 a) { return a[0]; }

/* Each lane and all lanes above it. */
static inline v32 v32_suffix(v32 a)
{
    a += (v32)_mm_srli_si128((__m128i)a, 4);
    return a + (v32)_mm_srli_si128((__m128i)a, 8);
}

static inline uint32_t v32_bits(v32 all_or_nothing)
{
    return (uint32_t)_mm_movemask_ps((__m128)all_or_nothing);
}

static inline uint32_t v32_zero_under(v32 a, uint32_t mask) { return v32_bits((v32)((a & v32_all(mask)) == 0)); }

static inline look_state look_start(void) { return (look_state){{0}}; }
static inline void look_test(look_state *state, v32 a, uint32_t mask)
{
    state->hot |= (v32)((a & v32_all(mask)) == 0);
}
static inline bool look_hot(const look_state state[4], uint32_t mask)
{
    (void)mask;
    return v32_bits(state[0].hot | state[1].hot | state[2].hot | state[3].hot) != 0;
}

/* Cell -3 where the digit behind is 0. */
static inline v32 v32_cell_waste_before_zero(v32 cell, v32 next)
{
    v32 waste = (v32)(next == 0);
    return (cell & ~waste) | (waste & v32_all((uint32_t)MATCHER_CELL_WASTE));
}

/* Cell -1 where the key is so near an end of its cell that an equal residue's may be in the next one. */
static inline v32 v32_cell_always_near_edge(v32 cell, v32 key, uint32_t tolerance, uint32_t shift)
{
    v32 inside = (key + v32_all(tolerance)) & v32_all((1u << shift) - 1);
    return cell | (v32)(inside < v32_all(2 * tolerance + 1));
}

/* Cell -2 where the digit is none that an answer may end in. */
static inline v32 v32_cell_never_after(v32 cell, v32 digits, uint32_t last_digits)
{
    v32 may = (v32_all(last_digits) >> (digits & v32_all(15))) & v32_all(1);
    v32 never = (v32)(may == 0);
    return (cell & ~never) | (never & v32_all((uint32_t)MATCHER_CELL_NEVER));
}

static inline v64 v64_all(uint64_t value) { return (v64){value, value}; }
static inline v64 v64_load(const void *at) { return *(const v64 *)at; }
static inline v64 v64_load_digits(const void *at)
{
    const uint32_t *digits = at;
    return (v64){digits[0], digits[1]};
}
static inline v64 v64_mul(v64 digits, v64 weights) { return digits * weights; }
static inline v64 v64_suffix(v64 a) { return a + (v64)_mm_srli_si128((__m128i)a, 8); }
static inline uint64_t v64_first(v64 a) { return a[0]; }
static inline uint32_t v64_near_zero(v64 a, uint64_t tolerance)
{
    return (uint32_t)(a[0] + tolerance <= 2 * tolerance) | (uint32_t)(a[1] + tolerance <= 2 * tolerance) << 1;
}

#include "app/matcher_lanes.h"

const struct matcher_kernel matcher_kernel_scalar = MATCHER_KERNEL;
