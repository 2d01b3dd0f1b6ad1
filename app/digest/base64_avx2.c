/* The variant for AVX2: 24 bytes to 32 characters a step. Muła, Lemire, "Faster Base64 Encoding and Decoding using AVX2
 * Instructions", 2018. */
#include <immintrin.h>

#include "app/digest/base64_ops.h"
#include "base/assert.h"

enum { TRIPLES = 8, SLACK = 2 }; /* a step reads 4 bytes beyond its 24 */

static void avx2_encode(uint8_t *out, const uint8_t *data, size_t triples)
{
    /* Each triple a b c becomes the bytes b a c b, where two multiplications move four groups of 6 bits apart. */
    const __m256i spread = _mm256_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10, /* */
                                            1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    /* The difference of a character and its value, by range: 26..51, ten digits, '+', '/', and 0..25. */
    const __m256i shifts = _mm256_setr_epi8('a' - 26, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4, '+' - 62, '/' - 63, 'A',
                                            0, 0, 'a' - 26, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4, '+' - 62, '/' - 63,
                                            'A', 0, 0);
    ASSERT(data != NULL || triples == 0);
    for (; triples >= TRIPLES + SLACK; triples -= TRIPLES, data += 3 * TRIPLES, out += 4 * TRIPLES) {
        __m256i in = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)data)),
                                             _mm_loadu_si128((const __m128i *)(data + 12)), 1);
        in = _mm256_shuffle_epi8(in, spread);
        __m256i even = _mm256_mulhi_epu16(_mm256_and_si256(in, _mm256_set1_epi32(0x0fc0fc00)),
                                          _mm256_set1_epi32(0x04000040));
        __m256i odd = _mm256_mullo_epi16(_mm256_and_si256(in, _mm256_set1_epi32(0x003f03f0)),
                                         _mm256_set1_epi32(0x01000010));
        __m256i values = _mm256_or_si256(even, odd);
        __m256i range = _mm256_subs_epu8(values, _mm256_set1_epi8(51));
        __m256i first = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), values);
        range = _mm256_or_si256(range, _mm256_and_si256(first, _mm256_set1_epi8(13)));
        _mm256_storeu_si256((__m256i *)out, _mm256_add_epi8(_mm256_shuffle_epi8(shifts, range), values));
    }
    digest_base64_scalar.encode(out, data, triples);
}

const struct base64_ops digest_base64_avx2 = { .name = "avx2", .encode = avx2_encode };
