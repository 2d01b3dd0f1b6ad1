/* The vector instructions that this CPU has and whose state is switched on. SDM vol. 1, "Enabling the XSAVE
 * Feature Set", "Detection of AVX-512 Foundation Instructions". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Gives XCR0 as the kernel has set it. Without it XGETBV is executed, which a KVM that interprets its guest lacks. */
void vectors_set_state(uint64_t xcr0);

bool vectors_avx2(void);   /* with BMI2 */
bool vectors_avx512(void); /* F, BW, VL, DQ, and BMI2 */
bool vectors_avx512_vbmi(void);
bool vectors_sha(void);     /* with SSSE3, SSE4.1 */
bool vectors_aes(void);     /* with SSE4.1 */
bool vectors_vaes512(void); /* AES on vectors of 512 bits, and on those of 128 */
