/* The Internet checksum. Knows no header layout. RFC 1071, RFC 1624.
 *
 * RFC 1071 §2: the one's complement sum of 16-bit words does not care about byte order, as long as the result is
 * stored the way the words were loaded; nor about the width of the additions, as long as carries come back in below.
 * So 32-bit words are loaded as they lie and added into 64-bit lanes, which cannot overflow before 16 GiB, and the
 * lanes are folded at the end. A partial sum is in memory's (little-endian) word order. */
#include "net/checksum.h"

#include <emmintrin.h>

#include "kernel/base/bytes.h"

/* To at most 16 bits: each fold at least halves what is above them. */
static uint32_t fold_64(uint64_t sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);     /* < 2^33 */
    sum = (sum & 0xffffffff) + (sum >> 32);     /* < 2^32 */
    uint32_t low = (uint32_t)sum;
    low = (low & 0xffff) + (low >> 16);         /* < 2^17 */
    return (low & 0xffff) + (low >> 16);
}

/* Less than 16 bytes. The last odd byte is the first of a word whose second is 0: RFC 1071 §4.1. */
static uint64_t sum_tail(const uint8_t *at, size_t bytes)
{
    uint64_t sum = 0;
    for (; bytes >= 4; at += 4, bytes -= 4)
        sum += load_le32(at);
    if (bytes >= 2) {
        sum += load_le16(at);
        at += 2;
        bytes -= 2;
    }
    return bytes != 0 ? sum + *at : sum;
}

uint32_t checksum_sum(uint32_t sum, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    const __m128i zero = _mm_setzero_si128();
    __m128i low = zero, high = zero;            /* two 64-bit lanes each */
    for (; bytes >= 16; at += 16, bytes -= 16) {
        __m128i words = _mm_loadu_si128((const __m128i *)at);
        low = _mm_add_epi64(low, _mm_unpacklo_epi32(words, zero));
        high = _mm_add_epi64(high, _mm_unpackhi_epi32(words, zero));
    }
    uint64_t lanes[2];
    _mm_storeu_si128((__m128i *)lanes, _mm_add_epi64(low, high));
    return fold_64((uint64_t)sum + lanes[0] + lanes[1] + sum_tail(at, bytes));
}

uint32_t checksum_pseudo_ipv4(uint32_t source, uint32_t destination, uint8_t protocol, uint16_t l4_bytes)
{
    return fold_64((uint64_t)__builtin_bswap32(source) + __builtin_bswap32(destination) +
                   __builtin_bswap16(protocol) + __builtin_bswap16(l4_bytes));
}

uint16_t checksum_fold(uint32_t sum)
{
    return __builtin_bswap16((uint16_t)fold_64(sum));
}

uint16_t checksum_update16(uint16_t checksum, uint16_t old_value, uint16_t new_value)
{
    /* HC' = ~(~HC + ~m + m'). Unlike RFC 1141's form it never turns a right checksum into the wrong zero. */
    return (uint16_t)~fold_64((uint64_t)(uint16_t)~checksum + (uint16_t)~old_value + new_value);
}

uint16_t checksum_update32(uint16_t checksum, uint32_t old_value, uint32_t new_value)
{
    return checksum_update16(checksum_update16(checksum, (uint16_t)(old_value >> 16), (uint16_t)(new_value >> 16)),
                             (uint16_t)old_value, (uint16_t)new_value);
}
