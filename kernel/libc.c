/* The few functions of <string.h> that the compiler, lwIP and this kernel call (C11 §7.24). One more is the function
 * that gcc calls where the baseline has no instruction ("The GCC low-level runtime library").
 *
 * Built with -fno-builtin and without loop idiom recognition, so that memset does not become a call of memset. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From here on the microcode's copy wins over 16-byte steps; it costs about 35 cycles to start. */
enum { REP_BYTES_MIN = 512 };

typedef uint64_t unaligned64 __attribute__((aligned(1), may_alias));
typedef uint32_t unaligned32 __attribute__((aligned(1), may_alias));
typedef uint16_t unaligned16 __attribute__((aligned(1), may_alias));
typedef long long vector128 __attribute__((vector_size(16), aligned(1), may_alias));

/* Copies up to 32 bytes by two loads and two stores that overlap in the middle. All loads come first, so memmove may
 * use it. */
static inline void copy_short(uint8_t *to, const uint8_t *from, size_t bytes)
{
    if (bytes >= 16) {
        vector128 first = *(const vector128 *)from, last = *(const vector128 *)(from + bytes - 16);
        *(vector128 *)to = first;
        *(vector128 *)(to + bytes - 16) = last;
    } else if (bytes >= 8) {
        uint64_t first = *(const unaligned64 *)from, last = *(const unaligned64 *)(from + bytes - 8);
        *(unaligned64 *)to = first;
        *(unaligned64 *)(to + bytes - 8) = last;
    } else if (bytes >= 4) {
        uint32_t first = *(const unaligned32 *)from, last = *(const unaligned32 *)(from + bytes - 4);
        *(unaligned32 *)to = first;
        *(unaligned32 *)(to + bytes - 4) = last;
    } else if (bytes >= 2) {
        uint16_t first = *(const unaligned16 *)from, last = *(const unaligned16 *)(from + bytes - 2);
        *(unaligned16 *)to = first;
        *(unaligned16 *)(to + bytes - 2) = last;
    } else if (bytes == 1) {
        *to = *from;
    }
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    if (bytes >= REP_BYTES_MIN) {
        __asm__ volatile("rep movsb" : "+D"(out), "+S"(in), "+c"(bytes) : : "memory");
        return to;
    }
    while (bytes > 32) {
        *(vector128 *)out = *(const vector128 *)in;
        out += 16;
        in += 16;
        bytes -= 16;
    }
    copy_short(out, in, bytes);
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    if (bytes <= 32) {
        copy_short(out, in, bytes);
    } else if ((uintptr_t)out - (uintptr_t)in >= bytes) { /* forwards is safe: below the source, or apart */
        while (bytes > 32) {
            *(vector128 *)out = *(const vector128 *)in;
            out += 16;
            in += 16;
            bytes -= 16;
        }
        copy_short(out, in, bytes);
    } else {
        while (bytes > 32) {
            bytes -= 16;
            *(vector128 *)(out + bytes) = *(const vector128 *)(in + bytes);
        }
        copy_short(out, in, bytes);
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *out = to;
    uint64_t pattern = (uint8_t)value * UINT64_C(0x0101010101010101);
    size_t words = bytes / 8, rest = bytes % 8; /* words: a hypervisor that emulates us counts steps, not bytes */
    __asm__ volatile("rep stosq" : "+D"(out), "+c"(words) : "a"(pattern) : "memory");
    __asm__ volatile("rep stosb" : "+D"(out), "+c"(rest) : "a"(pattern) : "memory");
    return to;
}

int memcmp(const void *left, const void *right, size_t bytes)
{
    const uint8_t *a = left, *b = right;
    while (bytes >= 8 && *(const unaligned64 *)a == *(const unaligned64 *)b) {
        a += 8;
        b += 8;
        bytes -= 8;
    }
    for (; bytes > 0; a++, b++, bytes--)
        if (*a != *b)
            return *a - *b;
    return 0;
}

size_t strlen(const char *text)
{
    size_t bytes = 0;
    while (text[bytes] != '\0')
        bytes++;
    return bytes;
}

size_t strnlen(const char *text, size_t bytes_max)
{
    size_t bytes = 0;
    while (bytes < bytes_max && text[bytes] != '\0')
        bytes++;
    return bytes;
}

int strcmp(const char *left, const char *right)
{
    for (; *left != '\0' && *left == *right; left++, right++) {
    }
    return (unsigned char)*left - (unsigned char)*right;
}

int strncmp(const char *left, const char *right, size_t bytes)
{
    for (; bytes > 0; left++, right++, bytes--)
        if (*left != *right || *left == '\0')
            return (unsigned char)*left - (unsigned char)*right;
    return 0;
}

char *strchr(const char *text, int value)
{
    for (;; text++) {
        if (*text == (char)value)
            return (char *)(uintptr_t)text;
        if (*text == '\0')
            return NULL;
    }
}

int __popcountdi2(int64_t value);
int __popcountdi2(int64_t value)
{
    uint64_t x = (uint64_t)value; /* sums in fields of 2, 4, 8 bits, then of all bytes */
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int)(x * UINT64_C(0x0101010101010101) >> 56);
}
