#include "tests/bench/touched.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = 1 << 20, FOUND_MAX = 1 << 16, LINE_BITS = 6 };

static enum touched_phase phase;
static uint32_t round_number = 1; /* a slot of another round is free */
static struct slot {
    uintptr_t line;
    uint32_t round;
    bool path;
} slots[SLOTS];
static struct found {
    uintptr_t code, line;
    uint32_t events;
} found[FOUND_MAX];
static size_t found_count;
static uint64_t events, path_lines, untouched;

static struct slot *slot_of(uintptr_t line)
{
    size_t at = line * UINT64_C(0x9e3779b97f4a7c15) >> 44;
    while (slots[at].round == round_number && slots[at].line != line)
        at = (at + 1) % SLOTS;
    return &slots[at];
}

static void note_found(uintptr_t code, uintptr_t line)
{
    size_t i = 0;
    while (i < found_count && (found[i].code != code || found[i].line != line))
        i++;
    if (i == FOUND_MAX)
        return;
    if (i == found_count)
        found[found_count++] = (struct found){ code, line, 0 };
    found[i].events++;
}

static void touch(const void *at, size_t bytes, const void *code)
{
    if (phase == TOUCHED_OFF || bytes == 0)
        return;
    for (uintptr_t line = (uintptr_t)at >> LINE_BITS; line <= ((uintptr_t)at + bytes - 1) >> LINE_BITS; line++) {
        struct slot *s = slot_of(line);
        const bool is_new = s->round != round_number;
        if (is_new)
            *s = (struct slot){ line, round_number, false };
        if (phase != TOUCHED_PATH || s->path)
            continue;
        s->path = true;
        path_lines++;
        untouched += is_new;
        if (is_new)
            note_found((uintptr_t)code, line);
    }
}

void touched_phase(enum touched_phase next)
{
    static bool rested;
    if (next == TOUCHED_REST)
        round_number++;
    if (next == TOUCHED_PATH && !rested)
        return; /* the benchmark warms up */
    if (next != TOUCHED_OFF)
        rested = next == TOUCHED_REST;
    events += next == TOUCHED_PATH;
    phase = next;
}

void touched_end(void)
{
    phase = TOUCHED_OFF;
    for (size_t i = 0; i < found_count; i++)
        printf("%#lx %#lx %u\n", (unsigned long)found[i].code, (unsigned long)(found[i].line << LINE_BITS),
               found[i].events);
    printf("events %llu lines %.1f untouched %.1f\n", (unsigned long long)events,
           events ? (double)path_lines / (double)events : 0, events ? (double)untouched / (double)events : 0);
}

void touched_prefetch(const void *at, ...) { touch(at, 1, __builtin_return_address(0)); }

/* ---- what -fsanitize=thread calls ---- */

/* clang-format off */
#define ACCESS(name, bytes)                                                                                            \
    void name(void *at);                                                                                               \
    void name(void *at) { touch(at, bytes, __builtin_return_address(0)); }
#define ACCESSES(bytes)                                                                                                \
    ACCESS(__tsan_read##bytes, bytes)                                                                                  \
    ACCESS(__tsan_write##bytes, bytes)                                                                                 \
    ACCESS(__tsan_unaligned_read##bytes, bytes)                                                                        \
    ACCESS(__tsan_unaligned_write##bytes, bytes)                                                                       \
    ACCESS(__tsan_volatile_read##bytes, bytes)                                                                         \
    ACCESS(__tsan_volatile_write##bytes, bytes)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

#define RANGE(name)                                                                                                    \
    void name(void *at, size_t bytes);                                                                                 \
    void name(void *at, size_t bytes) { touch(at, bytes, __builtin_return_address(0)); }
RANGE(__tsan_read_range)
RANGE(__tsan_write_range)

#define ATOMICS(bits)                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order);                           \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)                            \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        touch((const void *)at, bits / 8, __builtin_return_address(0));                                                \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order);                    \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order)                     \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        touch((const void *)at, bits / 8, __builtin_return_address(0));                                                \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                 \
    }                                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t *at, uint##bits##_t value, int order);      \
    uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t *at, uint##bits##_t value, int order)       \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        touch((const void *)at, bits / 8, __builtin_return_address(0));                                                \
        return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);                                                        \
    }
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)
/* clang-format on */

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

/* ---- the C library's, whose calls the linker sends here ---- */

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    touch(to, bytes, __builtin_return_address(0));
    touch(from, bytes, __builtin_return_address(0));
    return __real_memcpy(to, from, bytes);
}
void *__real_memset(void *to, int byte, size_t bytes);
void *__wrap_memset(void *to, int byte, size_t bytes);
void *__wrap_memset(void *to, int byte, size_t bytes)
{
    touch(to, bytes, __builtin_return_address(0));
    return __real_memset(to, byte, bytes);
}
int __real_memcmp(const void *a, const void *b, size_t bytes);
int __wrap_memcmp(const void *a, const void *b, size_t bytes);
int __wrap_memcmp(const void *a, const void *b, size_t bytes)
{
    touch(a, bytes, __builtin_return_address(0));
    touch(b, bytes, __builtin_return_address(0));
    return __real_memcmp(a, b, bytes);
}
