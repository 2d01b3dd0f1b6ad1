/* Bytes by pointer and length, unaligned loads and stores in a stated byte order, and small integer helpers.
 *
 * The only way from wire order to host order: a value that came through load_be16 is host order from there on. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A bit of 64, and the length of an array (never of a pointer). */
#define BIT(n)             (UINT64_C(1) << (n))
#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Bytes that somebody else keeps. */
struct bytes {
    const uint8_t *data;
    size_t count;
};
/*@ predicate readable(struct bytes b) = b.data != \null && \valid_read(b.data + (0 .. b.count - 1)); */

/* Loads and stores in little-endian order, at any address: `at` has room for the whole number. */
static inline uint16_t load_le16(const void *at)
{
    uint16_t v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline uint32_t load_le32(const void *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline uint64_t load_le64(const void *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline void store_le16(void *at, uint16_t v) { memcpy(at, &v, sizeof v); }
static inline void store_le32(void *at, uint32_t v) { memcpy(at, &v, sizeof v); }
static inline void store_le64(void *at, uint64_t v) { memcpy(at, &v, sizeof v); }

/* Loads and stores in big-endian order, that of the network. */
static inline uint16_t load_be16(const void *at) { return __builtin_bswap16(load_le16(at)); }
static inline uint32_t load_be32(const void *at) { return __builtin_bswap32(load_le32(at)); }
static inline uint64_t load_be64(const void *at) { return __builtin_bswap64(load_le64(at)); }
static inline void store_be16(void *at, uint16_t v) { store_le16(at, __builtin_bswap16(v)); }
static inline void store_be32(void *at, uint32_t v) { store_le32(at, __builtin_bswap32(v)); }
static inline void store_be64(void *at, uint64_t v) { store_le64(at, __builtin_bswap64(v)); }

/* Copies some hundreds of bytes in line. The library's memcpy lies on a page of its own, and the way there on two more;
 * all of them are cold when the caches are. The last word overlaps the one before. */
static inline void copy_here(uint8_t *to, const uint8_t *from, size_t bytes)
{
    if (__builtin_expect(bytes < 8 || bytes > 512, 0)) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t n = 0; n + 8 < bytes; n += 8)
        store_le64(to + n, load_le64(from + n));
    store_le64(to + bytes - 8, load_le64(from + bytes - 8));
}

/* Returns the smaller or the larger of two numbers. */
static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
static inline uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
