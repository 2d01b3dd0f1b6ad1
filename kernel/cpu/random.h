/* Random bytes for secrets: ISNs, ports, nonces.
 *
 * The seed is a SHA-256 of values that differ from boot to boot: the TSC at the start, several hundred timings of port
 * accesses, and the loader's data. RDSEED and RDRAND are added where the CPU has them; the log says so. With RDSEED or
 * RDRAND the bytes are cryptographically strong. Without them they are as good as the jitter of a virtual machine.
 * Bytes are SHA-256(key, counter). The key is replaced after each call, so nobody who reads the memory later can
 * compute them again. */
#pragma once

#include <stddef.h>

/* Draws the seed. `boot` is what the loader handed over, mixed in. */
void random_init(const void *boot, size_t boot_bytes);

/* Writes `bytes` random bytes. After random_init. */
void random_bytes(void *out, size_t bytes);
