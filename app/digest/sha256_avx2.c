/* The variant for AVX2: 8 chains at once. */
#include <stdint.h>

enum { LANES = 8 };
typedef uint32_t v32 __attribute__((vector_size(32)));

#include "app/digest/sha256_lanes.h"

const struct sha256_ops digest_sha256_avx2 = {
    .name = "avx2",
    .lanes = LANES,
    .blocks = lanes_blocks,
    .rounds = lanes_rounds,
};
