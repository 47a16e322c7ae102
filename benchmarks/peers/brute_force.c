/* Interval predicates on uint8 columns by brute force: what the hardware can do. Written for the benchmark only.

   columns  uint8[8][rows], rows a multiple of 64
   queries  count of them, `factors` each: attribute, low and high - low
   out      uint64[count][rows / 64], one bit a tuple
*/
#include <stddef.h>
#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

/* One bit for each of 64 values: value - low <= width, unsigned. */
static inline uint64_t inside(const uint8_t *values, uint8_t low, uint8_t width) {
#if defined(__AVX512BW__)
    __m512i moved = _mm512_sub_epi8(_mm512_loadu_si512(values), _mm512_set1_epi8((char)low));
    return _mm512_cmple_epu8_mask(moved, _mm512_set1_epi8((char)width));
#elif defined(__AVX2__)
    uint64_t bits = 0;
    for (int half = 0; half < 2; half++) {
        __m256i given = _mm256_loadu_si256((const __m256i *)(values + 32 * half));
        __m256i moved = _mm256_sub_epi8(given, _mm256_set1_epi8((char)low));
        __m256i kept = _mm256_cmpeq_epi8(_mm256_min_epu8(moved, _mm256_set1_epi8((char)width)), moved);
        bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(kept) << (32 * half);
    }
    return bits;
#else
    uint64_t bits = 0;
    for (int k = 0; k < 64; k++) bits |= (uint64_t)((uint8_t)(values[k] - low) <= width) << k;
    return bits;
#endif
}

void arrive(const uint8_t *columns, size_t rows, const uint8_t *attributes, const uint8_t *lows, const uint8_t *widths,
            size_t count, size_t factors, uint64_t *out) {
    for (size_t query = 0; query < count; query++)
        for (size_t word = 0; word < rows / 64; word++) {
            uint64_t bits = ~(uint64_t)0;
            for (size_t k = query * factors; k < (query + 1) * factors; k++)
                bits &= inside(columns + attributes[k] * rows + 64 * word, lows[k], widths[k]);
            out[query * (rows / 64) + word] = bits;
        }
}
