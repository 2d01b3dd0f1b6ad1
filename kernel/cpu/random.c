/* Draws a seed and stretches it by SHA-256. Knows no user of the bytes. */
#include "kernel/cpu/random.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/log.h"
#include "base/sha256.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/ports.h"

enum {
    JITTER_SAMPLES = 512,
    HARDWARE_WORDS = 8, /* 512 bits asked for, twice the key */
    /* SDM vol. 1, "Random Number Generator Instructions": RDRAND succeeds within 10; RDSEED may need pauses. */
    HARDWARE_TRIES = 100,
    PORT_POST = 0x80,
};

static uint8_t key[SHA256_BYTES];
static bool seeded;

/* Adds words of the CPU's generator, and returns how many count. Some CPUs return nothing but ones (or zeros) after a
 * suspend, so equal neighbours do not count. */
static unsigned hardware_add(struct sha256 *pool, bool (*draw)(uint64_t *))
{
    ASSERT(draw != NULL);
    unsigned good_words = 0;
    uint64_t before = 0;
    for (int i = 0; i < HARDWARE_WORDS; i++) {
        uint64_t word = 0;
        for (int tries = 0; tries < HARDWARE_TRIES && !draw(&word); tries++)
            cpu_pause();
        good_words += word != before && word != 0 && word != UINT64_MAX;
        before = word;
        sha256_add(pool, &word, sizeof word);
    }
    return good_words;
}

/* Adds how long a port access (an exit to the hypervisor) takes, over and over. */
static void jitter_add(struct sha256 *pool)
{
    for (int i = 0; i < JITTER_SAMPLES; i++) {
        uint64_t start = cycles_now();
        port_out8(PORT_POST, (uint8_t)i);
        uint64_t stamps[2] = { start, cycles_now() };
        sha256_add(pool, stamps, sizeof stamps);
    }
}

void random_init(const void *boot, size_t boot_bytes)
{
    ASSERT(boot_bytes > 0);
    struct sha256 pool;
    sha256_begin(&pool);
    unsigned seeds = cpu.rdseed ? hardware_add(&pool, rdseed) : 0;
    unsigned draws = cpu.rdrand ? hardware_add(&pool, rdrand) : 0;
    jitter_add(&pool);
    sha256_add(&pool, boot, boot_bytes);
    sha256_finish(&pool, key);
    seeded = true;
    log_line("random: seeded by %s%stiming jitter", seeds >= HARDWARE_WORDS / 2 ? "rdseed, " : "",
             draws >= HARDWARE_WORDS / 2 ? "rdrand, " : "");
}

/* Computes SHA-256(key, counter): counter 0 is the next key, the others are output. */
static void block(uint8_t out[SHA256_BYTES], uint64_t counter)
{
    ASSERT(seeded);
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, key, sizeof key);
    sha256_add(&hash, &counter, sizeof counter);
    sha256_finish(&hash, out);
}

void random_bytes(void *out, size_t bytes)
{
    ASSERT(seeded);
    uint8_t *at = out, digest[SHA256_BYTES];
    for (uint64_t counter = 1; bytes > 0; counter++) {
        size_t step = min_size(bytes, sizeof digest);
        block(digest, counter);
        memcpy(at, digest, step);
        at += step;
        bytes -= step;
    }
    block(digest, 0);
    memcpy(key, digest, sizeof key);
}
