/* The variant for AVX-512: 16 chains at once. */
#include <stdint.h>

enum { LANES = 16 };
typedef uint32_t v32 __attribute__((vector_size(64)));

#include "app/digest/sha256_lanes.h"

const struct sha256_ops digest_sha256_avx512 = {
    .name = "avx512",
    .lanes = LANES,
    .blocks = lanes_blocks,
    .rounds = lanes_rounds,
};
