/* The variants that this machine can run, and the fastest of them. */
#include "app/digest/variants.h"

#include <string.h>

#include "app/digest/method.h"
#include "app/work.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/time.h"
#include "base/vectors.h"

enum { REPEATS = 8, ROUNDS_TIMED = 16, BYTES_TIMED = MERCHA_GROUP_BYTES, SLICE_BYTES_MIN = 192 };

struct digest_variants digest_variants;

const struct sha256_ops *const digest_sha256_all[] = { &digest_sha256_scalar, &digest_sha256_shani,
                                                       &digest_sha256_shani2, &digest_sha256_avx2,
                                                       &digest_sha256_avx512, NULL };
const struct nabhash_ops *const digest_nabhash_all[] = { &digest_nabhash_scalar, &digest_nabhash_aesni,
                                                         &digest_nabhash_vaes, NULL };
const struct mercha_ops *const digest_mercha_all[] = { &digest_mercha_scalar, &digest_mercha_avx2,
                                                       &digest_mercha_avx512, NULL };
const struct base64_ops *const digest_base64_all[] = { &digest_base64_scalar, &digest_base64_avx2,
                                                       &digest_base64_avx512, NULL };

bool digest_variants_usable(const char *name)
{
    static const struct {
        const char *name;
        bool (*is_there)(void);
    } rows[] = { { "sha-ni", vectors_sha },   { "sha-ni x2", vectors_sha }, { "aes-ni", vectors_aes },
                 { "vaes", vectors_vaes512 }, { "avx2", vectors_avx2 },     { "avx512", vectors_avx512_vbmi } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (strcmp(name, rows[i].name) == 0)
            return rows[i].is_there();
    ASSERT(strcmp(name, "scalar") == 0);
    return true;
}

/* ---- Timing ---- */

static uint8_t data[BYTES_TIMED], text[METHOD_OUT_BYTES(BYTES_TIMED)];

static void run_sha256(const void *ops)
{
    uint32_t state[8] = { 0 };
    ((const struct sha256_ops *)ops)->blocks(state, data, sizeof data / METHOD_BLOCK_BYTES);
}

static void run_chains(const void *ops)
{
    static uint32_t digests[SHA256_LANES_MAX][8];
    uint32_t *lanes[SHA256_LANES_MAX];
    for (size_t i = 0; i < SHA256_LANES_MAX; i++)
        lanes[i] = digests[i];
    ((const struct sha256_ops *)ops)->rounds(lanes, ROUNDS_TIMED);
}

static void run_nabhash(const void *ops)
{
    uint8_t lanes[METHOD_BLOCK_BYTES] = { 0 };
    ((const struct nabhash_ops *)ops)->blocks(lanes, data, sizeof data / METHOD_BLOCK_BYTES);
}

static void run_mercha(const void *ops)
{
    static const struct mercha_job job;
    uint32_t root[16], left[16];
    ((const struct mercha_ops *)ops)->group(&job, 0, data, root, left);
}

static void run_base64(const void *ops) { ((const struct base64_ops *)ops)->encode(text, data, sizeof data / 3); }

/* Returns the least cycles of a run. */
static uint64_t cycles_of(void (*run)(const void *ops), const void *ops)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t begin = cycles_now_serialised();
        run(ops);
        uint64_t cycles = cycles_now_serialised() - begin;
        least = cycles < least ? cycles : least;
    }
    ASSERT(least < UINT64_MAX);
    return least + 1;
}

/* Returns true if a variant may be used and is faster than *least, which then becomes its time. */
static bool is_faster(const char *name, void (*run)(const void *ops), const void *ops, bool scalar, uint64_t *least)
{
    ASSERT(name != NULL && *least > 0);
    if (!digest_variants_usable(name) || (scalar && strcmp(name, "scalar") != 0))
        return false;
    uint64_t cycles = cycles_of(run, ops);
    if (cycles >= *least)
        return false;
    *least = cycles;
    return true;
}

/* ---- Choices ---- */

/* Chooses for each count of waiting chains the variant that does most of their rounds in a time. */
static void choose_chains(bool scalar, uint64_t tsc_khz)
{
    const struct sha256_ops **const chosen = digest_variants.chains;
    uint64_t best[SHA256_LANES_MAX + 1] = { 0 }; /* cycles of ROUNDS_TIMED */
    memset(chosen, 0, sizeof digest_variants.chains);
    for (size_t i = 0; digest_sha256_all[i] != NULL; i++) {
        const struct sha256_ops *ops = digest_sha256_all[i];
        uint64_t cycles = UINT64_MAX;
        if (!is_faster(ops->name, run_chains, ops, scalar, &cycles))
            continue;
        for (uint32_t count = 1; count <= SHA256_LANES_MAX; count++) {
            uint64_t lanes = min_size(count, ops->lanes),
                     had = min_size(count, chosen[count] ? chosen[count]->lanes : 0);
            if (had > 0 && lanes * best[count] <= had * cycles)
                continue;
            chosen[count] = ops;
            best[count] = cycles;
        }
    }
    for (uint32_t count = 1; count <= SHA256_LANES_MAX; count++) {
        uint64_t round_ps = best[count] * 1000000000 / tsc_khz / ROUNDS_TIMED + 1;
        digest_variants.chain_rounds[count] = (uint32_t)(VARIANTS_CHAIN_SLICE_NS * UINT64_C(1000) / round_ps + 1);
        ASSERT(digest_variants.chains[count] != NULL);
    }
}

/* Returns the bytes of a slice, if BYTES_TIMED take `cycles`: a multiple of three and of a block. */
static uint32_t slice_bytes(uint64_t cycles, uint64_t tsc_khz)
{
    uint64_t ns = cycles * NS_PER_MS / tsc_khz + 1, bytes = (uint64_t)BYTES_TIMED * VARIANTS_SLICE_NS / ns;
    bytes = min_size(bytes, 4 * MERCHA_GROUP_BYTES) / SLICE_BYTES_MIN * SLICE_BYTES_MIN;
    ASSERT(bytes % METHOD_BLOCK_BYTES == 0);
    return (uint32_t)max_size(bytes, SLICE_BYTES_MIN);
}

/* Returns the bytes that take as long as some hand-overs, if BYTES_TIMED take `cycles`. At most a slice, as this CPU
 * takes all that is less; more than a block. */
static uint32_t given_bytes_min(uint64_t cycles, uint64_t tsc_khz)
{
    uint64_t least_ns = min_u64(VARIANTS_GIVEN_HAND_OVERS * work_hand_over_ns(), VARIANTS_SLICE_NS);
    uint64_t bytes = least_ns * tsc_khz / NS_PER_MS * BYTES_TIMED / cycles;
    ASSERT(cycles > 0);
    return (uint32_t)min_u64(bytes + METHOD_BLOCK_BYTES + 1, UINT32_MAX);
}

void digest_variants_choose(bool scalar, uint64_t tsc_khz)
{
    uint64_t sha256 = UINT64_MAX, nabhash = UINT64_MAX, mercha = UINT64_MAX, base64 = UINT64_MAX;
    ASSERT(tsc_khz > 0);
    for (size_t i = 0; digest_sha256_all[i] != NULL; i++)
        if (is_faster(digest_sha256_all[i]->name, run_sha256, digest_sha256_all[i], scalar, &sha256))
            digest_variants.sha256 = digest_sha256_all[i];
    for (size_t i = 0; digest_nabhash_all[i] != NULL; i++)
        if (is_faster(digest_nabhash_all[i]->name, run_nabhash, digest_nabhash_all[i], scalar, &nabhash))
            digest_variants.nabhash = digest_nabhash_all[i];
    for (size_t i = 0; digest_mercha_all[i] != NULL; i++)
        if (is_faster(digest_mercha_all[i]->name, run_mercha, digest_mercha_all[i], scalar, &mercha))
            digest_variants.mercha = digest_mercha_all[i];
    for (size_t i = 0; digest_base64_all[i] != NULL; i++)
        if (is_faster(digest_base64_all[i]->name, run_base64, digest_base64_all[i], scalar, &base64))
            digest_variants.base64 = digest_base64_all[i];
    choose_chains(scalar, tsc_khz);
    const uint64_t cycles[METHOD_COUNT] = { sha256, nabhash, mercha, base64 }; /* the order of `methods` */
    for (size_t i = 0; i < METHOD_COUNT; i++) {
        digest_variants.slice_bytes[i] = slice_bytes(cycles[i], tsc_khz);
        digest_variants.given_bytes_min[i] = given_bytes_min(cycles[i], tsc_khz);
    }
}
