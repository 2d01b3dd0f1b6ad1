/* The variants that this machine can run, and the fastest of them. */
#include "app/digest/variants.h"

#include <string.h>

#include "app/digest/method.h"
#include "app/service/work.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/time.h"
#include "base/vectors.h"

enum { REPEATS = 8, ROUNDS_TIMED = 16, BYTES_TIMED = MERCHA_GROUP_BYTES, SLICE_BYTES_MIN = 192 };

struct digest_variants digest_variants;

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
static union method_job job;

/* Takes BYTES_TIMED of a body that goes on. */
static void run_body(const void *method) { ((const struct method *)method)->take(&job, data, sizeof data, text); }

static void run_chains(const void *ops)
{
    static uint32_t digests[SHA256_LANES_MAX][8];
    uint32_t *lanes[SHA256_LANES_MAX];
    for (size_t i = 0; i < SHA256_LANES_MAX; i++)
        lanes[i] = digests[i];
    ((const struct sha256_ops *)ops)->rounds(lanes, ROUNDS_TIMED);
}

/* Returns the least cycles of a run. */
static uint64_t cycles_of(void (*run)(const void *what), const void *what)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t begin = cycles_now_serialised();
        run(what);
        uint64_t cycles = cycles_now_serialised() - begin;
        least = cycles < least ? cycles : least;
    }
    ASSERT(least < UINT64_MAX);
    return least + 1;
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
        if (!digest_variants_usable(ops->name) || (scalar && i > 0))
            continue;
        const uint64_t cycles = cycles_of(run_chains, ops);
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
    ASSERT(cycles > 0);
    uint64_t bytes = least_ns * tsc_khz / NS_PER_MS * BYTES_TIMED / cycles;
    return (uint32_t)min_u64(bytes + METHOD_BLOCK_BYTES + 1, UINT32_MAX);
}

/* Chooses the fastest variant of a method. Returns the cycles in which it takes BYTES_TIMED. */
static uint64_t choose(size_t index, bool scalar)
{
    const struct method *method = digest_methods[index];
    uint64_t least = UINT64_MAX;
    size_t fastest = 0;
    const char *name;
    ASSERT(method->use != NULL && method->begin != NULL && method->take != NULL && method->end != NULL);
    ASSERT((method->part_bytes > 0) == (method->part_take != NULL && method->part_join != NULL));
    for (size_t i = 0; (name = method->use(i)) != NULL; i++) {
        if (!digest_variants_usable(name) || (scalar && i > 0))
            continue;
        memset(&job, 0, sizeof job);
        const uint64_t cycles = cycles_of(run_body, method);
        if (cycles < least) {
            least = cycles;
            fastest = i;
        }
    }
    digest_variants.names[index] = method->use(fastest);
    return least;
}

void digest_variants_choose(bool scalar, uint64_t tsc_khz)
{
    ASSERT(tsc_khz > 0);
    for (size_t i = 0; i < METHOD_COUNT; i++) {
        const uint64_t cycles = choose(i, scalar);
        digest_variants.slice_bytes[i] = slice_bytes(cycles, tsc_khz);
        digest_variants.given_bytes_min[i] = given_bytes_min(cycles, tsc_khz);
    }
    choose_chains(scalar, tsc_khz);
}
