/* Chains of SHA-256: requests with rounds=N > 1, worked on in slices on all CPUs (app/service/work.h). Every other
 * slice is that of the chains with the fewest rounds left, so that a short one does not wait for long ones. The slices
 * between are those of the oldest chains, so that a long one is not starved. Several run side by side where a CPU does
 * that faster. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/service/work.h"

struct chain_job;

struct chain {
    uint32_t digest[8];
    uint64_t rounds_left;
    /* This module's own: older chains have lower numbers; the job that has the chain, NULL: it waits. */
    uint64_t number;
    struct chain_job *job;
};

/* Forgets all chains, and calls `ended` from now on with each that ends; adds one; takes one out that has not ended. At
 * most CHAIN_COUNT_MAX at once. */
enum { CHAIN_COUNT_MAX = 264 };
void digest_chains_clear(void (*ended)(struct chain *chain));
void digest_chains_add(struct chain *chain);
void digest_chains_remove(struct chain *chain);

/* Returns the count of chains that have not ended. */
size_t digest_chains_count(void);

/* Returns the rounds that `count` chains, at most CHAIN_COUNT_MAX, do in VARIANTS_CHAIN_SLICE_NS on all CPUs, by the
 * times of the start. */
uint64_t digest_chains_rate(size_t count);

/* Returns the least count of chains that do the most rounds in a time: with more of them each is slower. */
size_t digest_chains_width(void);

/* Gives slices to the workers, and works for one slice where they do not suffice. Returns the rounds that were done
 * since the last call, on all CPUs. */
uint64_t digest_chains_work(void);

/* Returns the rounds of the slices that were taken back since digest_chains_work. */
uint64_t digest_chains_rounds_taken(void);

/* Takes back a slice from a worker. Returns false if the job is another's. */
bool digest_chains_take(struct work *work);
