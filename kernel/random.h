/* Random bytes for secrets: ISNs, ports, nonces.
 *
 * The seed is a SHA-256 over everything that differs from boot to boot: RDSEED and RDRAND where the CPU has them (the
 * log says so), and, without them, the TSC at start, several hundred timings of port accesses, and all
 * that the loader told. Only with RDSEED or RDRAND is that a claim of cryptographic strength; otherwise it is as good
 * as the jitter of a virtual machine. Bytes are SHA-256(key, counter); the key is replaced after each call, so
 * what was given out cannot be computed from what is in memory later. */
#pragma once

#include <stddef.h>

struct boot_info;

void random_init(const struct boot_info *boot);     /* after clock_init */
void random_bytes(void *out, size_t bytes);
