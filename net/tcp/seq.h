/* Sequence numbers: modulo 2^32, compared within half the space. RFC 9293 §3.4. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline bool seq_lt(uint32_t a, uint32_t b) { return (int32_t)(a - b) < 0; }
static inline bool seq_le(uint32_t a, uint32_t b) { return (int32_t)(a - b) <= 0; }
static inline bool seq_gt(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }
static inline bool seq_ge(uint32_t a, uint32_t b) { return (int32_t)(a - b) >= 0; }
static inline uint32_t seq_max(uint32_t a, uint32_t b) { return seq_lt(a, b) ? b : a; }
static inline uint32_t seq_min(uint32_t a, uint32_t b) { return seq_lt(a, b) ? a : b; }

/* Returns true if first <= seq < end, going upward from first. */
static inline bool seq_within(uint32_t seq, uint32_t first, uint32_t end) { return seq - first < end - first; }
