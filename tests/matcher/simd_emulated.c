/* For a check whose AVX-512 is emulated: every variant is usable (linked with --wrap). */
#include "base/vectors.h"

bool __wrap_vectors_avx512(void);
bool __wrap_vectors_avx512(void) { return true; }
