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

static inline v32 v32_if_zero(v32 a, uint32_t then, v32 otherwise)
{
    v32 zero = (v32)(a == 0);
    return (zero & v32_all(then)) | (otherwise & ~zero);
}

static inline v32 v32_add_bit_where_zero_under(v32 bits, v32 a, uint32_t mask, int bit)
{
    return bits | ((v32)((a & v32_all(mask)) == 0) & v32_all(1u << bit));
}

typedef uint8_t vbytes __attribute__((vector_size(16)));
enum { COLUMNS = 4 };
static inline vbytes columns_load(const uint8_t *digits, int i)
{
    return (vbytes)_mm_loadu_si128((const __m128i *)(digits + 16 * i));
}
static inline vbytes vbytes_low(vbytes a, vbytes b) { return (vbytes)_mm_unpacklo_epi8((__m128i)a, (__m128i)b); }
static inline vbytes vbytes_high(vbytes a, vbytes b) { return (vbytes)_mm_unpackhi_epi8((__m128i)a, (__m128i)b); }
static inline vbytes vwords_low(vbytes a, vbytes b) { return (vbytes)_mm_unpacklo_epi16((__m128i)a, (__m128i)b); }
static inline vbytes vwords_high(vbytes a, vbytes b) { return (vbytes)_mm_unpackhi_epi16((__m128i)a, (__m128i)b); }
static inline vbytes vbytes_times_8(vbytes a) { return (vbytes)_mm_slli_epi16((__m128i)a, 3); }
static inline bool vbytes_none(vbytes a) { return _mm_movemask_epi8((__m128i)a) == 0; }

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
