/* The variants in use: by timing at the start the fastest ones that this CPU can run, or the scalar ones. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/digest/method.h"
#include "app/digest/sha256_ops.h"

struct digest_variants {
    /* By the count of chains that wait: the variant that does most rounds in a time, and the rounds in a slice. */
    const struct sha256_ops *chains[SHA256_LANES_MAX + 1];
    uint32_t chain_rounds[SHA256_LANES_MAX + 1];
    /* By method. */
    const char *names[METHOD_COUNT];
    uint32_t slice_bytes[METHOD_COUNT];     /* bytes of a body in a slice */
    uint32_t given_bytes_min[METHOD_COUNT]; /* from which on a worker takes them (app/service/work.h) */
};
extern struct digest_variants digest_variants;

enum {
    VARIANTS_SLICE_NS = 10000,       /* for a body: a turn begins such slices for VARIANTS_TURN_NS */
    VARIANTS_CHAIN_SLICE_NS = 15000, /* for chains: one a turn */
    VARIANTS_TURN_NS = 8000,         /* with its last slice 18 us, with the chains 33 us */
    VARIANTS_GIVEN_HAND_OVERS = 4,   /* a run that takes as long as these is worth one */
};

/* Returns true if this CPU has the instructions of a variant, by its name. */
bool digest_variants_usable(const char *name);

/* Chooses, in some milliseconds. After work_init. */
void digest_variants_choose(bool scalar, uint64_t tsc_khz);
