/* Times the variants of app/digest/, and OpenSSL's functions beside them. Prints lines "name unit p50 p99 samples";
 * tests/bench/bench_digest.py runs it. A sample is one call on data in the cache, and takes 10 to 300 us. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wmmintrin.h>

#include "app/digest/base64_ops.h"
#include "app/digest/chains.h"
#include "app/digest/mercha_ops.h"
#include "app/digest/method.h"
#include "app/digest/nabhash_ops.h"
#include "app/digest/variants.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "host/platform.h"

enum { SAMPLES_MAX = 1000, ROUNDS = 200, BODY_BYTES = 64 * 1024, TEXT_BYTES = 128 * 1024 };

static size_t samples = SAMPLES_MAX;
static double times_ns[SAMPLES_MAX];
static _Alignas(64) uint8_t body[BODY_BYTES], copy[BODY_BYTES], text[TEXT_BYTES];

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

/* Calls a function again and again, and prints quantiles: of the time over `count`, or of `count` over the time. */
static void row(const char *name, const char *unit, void (*call)(const void *), const void *argument, double count)
{
    for (int warm = 0; warm < 10; warm++)
        call(argument);
    for (size_t i = 0; i < samples; i++) {
        uint64_t begin = cycles_now_serialised();
        call(argument);
        times_ns[i] = (double)(cycles_now_serialised() - begin) * 1e6 / (double)platform_tsc_khz();
    }
    qsort(times_ns, samples, sizeof times_ns[0], compare);
    double p50 = times_ns[samples / 2], p99 = times_ns[samples * 99 / 100];
    if (strcmp(unit, "ns") == 0)
        printf("%s %s %.2f %.2f %zu\n", name, unit, p50 / count, p99 / count, samples);
    else
        printf("%s %s %.3f %.3f %zu\n", name, unit, count / p50, count / p99, samples);
}

/* ---- Rounds ---- */

/* Calls the functions below SHA256(), which OpenSSL 3 deprecates: they look up no provider. */
static void openssl_sha256_low(const unsigned char *data, size_t bytes, unsigned char *digest)
{
    SHA256_CTX hash;
    SHA256_Init(&hash);
    SHA256_Update(&hash, data, bytes);
    SHA256_Final(digest, &hash);
}

static void openssl_rounds(const void *low)
{
    static const char digits[] = "0123456789abcdef";
    static unsigned char hex[64], digest[32];
    for (int round = 0; round < ROUNDS; round++) {
        if (low != NULL)
            openssl_sha256_low(hex, sizeof hex, digest);
        else
            SHA256(hex, sizeof hex, digest);
        for (int i = 0; i < 32; i++) {
            hex[2 * i] = (unsigned char)digits[digest[i] >> 4];
            hex[2 * i + 1] = (unsigned char)digits[digest[i] & 15];
        }
    }
}

/* Runs `count` chains side by side until each has done ROUNDS rounds. */
static void chains_rounds(const void *count)
{
    static struct chain chains[SHA256_LANES_MAX];
    for (size_t i = 0; i < *(const size_t *)count; i++) {
        chains[i].rounds_left = ROUNDS;
        digest_chains_add(&chains[i]);
    }
    while (digest_chains_count() > 0)
        digest_chains_work();
}

static void rows_of_rounds(void)
{
    static const size_t counts[] = { 1, 2, 4, 8, 16 };
    char name[64];
    row("openssl/round", "ns", openssl_rounds, NULL, ROUNDS);
    row("openssl/round-low-level", "ns", openssl_rounds, counts, ROUNDS);
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        snprintf(name, sizeof name, "round/%zu-chains", counts[i]);
        row(name, "ns", chains_rounds, &counts[i], ROUNDS * (double)counts[i]);
    }
}

/* ---- Rounds on two CPUs ---- */

enum { CHAIN_ROUNDS = 1000, SPREAD_ROUNDS = 10000, SPREAD_CHAINS_MAX = 64 };
static struct chain endless[SPREAD_CHAINS_MAX];
static bool ends;

/* Begins a chain, again and again, as a full server does. */
static void chain_begin(struct chain *chain)
{
    if (ends)
        return;
    chain->rounds_left = CHAIN_ROUNDS;
    digest_chains_add(chain);
}

static uint64_t turn(void)
{
    for (struct work *work; (work = work_take()) != NULL;)
        digest_chains_take(work);
    return digest_chains_work();
}

static void spread_rounds(const void *unused)
{
    (void)unused;
    for (uint64_t rounds = 0; rounds < SPREAD_ROUNDS;)
        rounds += turn();
}

/* Measures with a number of workers. */
static void rows_of_cpus(uint32_t workers)
{
    static const size_t counts[] = { 1, 2, 4, 16, 64 };
    char name[64];
    work_set_workers(workers);
    work_init(platform_tsc_khz());
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        ends = false;
        digest_chains_clear(chain_begin);
        for (size_t k = 0; k < counts[i]; k++)
            chain_begin(&endless[k]);
        snprintf(name, sizeof name, "%u-cpus/round/%zu-chains", workers + 1, counts[i]);
        row(name, "ns", spread_rounds, NULL, SPREAD_ROUNDS);
        ends = true;
        while (digest_chains_count() > 0)
            turn();
    }
    work_set_workers(0);
    digest_chains_clear(NULL);
}

/* Serves as the second CPU. Ends with the program. */
static void *worker(void *unused)
{
    for (;;)
        if (!work_poll(1))
            __builtin_ia32_pause();
    return unused;
}

static void rows_of_two_cpus(void)
{
    pthread_t thread;
    rows_of_cpus(0);
    if (pthread_create(&thread, NULL, worker, NULL) == 0)
        rows_of_cpus(1);
}

/* ---- Bodies ---- */

static void memcpy_body(const void *unused)
{
    (void)unused;
    memcpy(copy, body, sizeof body);
    __asm__ volatile("" : : "r"(copy) : "memory");
}

static void openssl_body(const void *unused)
{
    unsigned char digest[32];
    (void)unused;
    SHA256(body, sizeof body, digest);
}

static void sha256_body(const void *ops)
{
    uint32_t state[8] = { 0 };
    ((const struct sha256_ops *)ops)->blocks(state, body, sizeof body / 64);
}

static void nabhash_body(const void *ops)
{
    uint8_t lanes[64] = { 0 };
    ((const struct nabhash_ops *)ops)->blocks(lanes, body, sizeof body / 64);
}

/* Does one lane's rounds, each of which waits for the one before: the bound of NABHash. */
static void __attribute__((target("aes"))) aesenc_chain(const void *unused)
{
    __m128i lane = _mm_setzero_si128();
    (void)unused;
    for (size_t i = 0; i < sizeof body; i += 64)
        lane = _mm_aesenc_si128(lane, _mm_load_si128((const __m128i *)(body + i)));
    _mm_store_si128((__m128i *)copy, lane);
}

static void mercha_body(const void *ops)
{
    static const struct mercha_job job;
    uint32_t root[16], left[16];
    for (uint32_t i = 0; i < sizeof body / MERCHA_GROUP_BYTES; i++)
        ((const struct mercha_ops *)ops)
            ->group(&job, i * MERCHA_GROUP_BLOCKS, body + i * MERCHA_GROUP_BYTES, root, left);
}

static void base64_body(const void *ops) { ((const struct base64_ops *)ops)->encode(text, body, sizeof body / 3); }

/* Measures every variant of a table that this CPU can run. */
#define ROWS_OF(method, all, run)                                                                                      \
    for (size_t i = 0; all[i] != NULL; i++) {                                                                          \
        char name[64];                                                                                                 \
        snprintf(name, sizeof name, "%s/%s", method, all[i]->name);                                                    \
        if (digest_variants_usable(all[i]->name) && strchr(name, ' ') == NULL)                                         \
            row(name, "GB/s", run, all[i], sizeof body);                                                               \
    }

int main(int count, char **words)
{
    samples = count > 1 ? strtoul(words[1], NULL, 10) : samples;
    samples = samples < 10 ? 10 : min_size(samples, SAMPLES_MAX);
    platform_init();
    digest_variants_choose(false, platform_tsc_khz());
    digest_chains_clear(NULL);
    memset(body, 0x5a, sizeof body);
    rows_of_rounds();
    row("memcpy", "GB/s", memcpy_body, NULL, sizeof body);
    row("openssl/sha256", "GB/s", openssl_body, NULL, sizeof body);
    ROWS_OF("sha256", digest_sha256_all, sha256_body)
    if (digest_variants_usable("aes-ni"))
        row("nabhash/bound", "GB/s", aesenc_chain, NULL, sizeof body);
    ROWS_OF("nabhash", digest_nabhash_all, nabhash_body)
    ROWS_OF("mercha", digest_mercha_all, mercha_body)
    ROWS_OF("base64", digest_base64_all, base64_body)
    rows_of_two_cpus(); /* last: its worker spins */
    return 0;
}
