/* The frequency of the TSC: reported by the hypervisor or the CPU, else measured against a timer of known frequency. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct tsc_frequency {
    uint64_t khz;       /* 0: there is no source */
    const char *source; /* "kvmclock", "pit", ...; never freed */
    bool certain;       /* false: CPUID's word alone, and no timer to check it by */
};

/* Finds the frequency, after acpi_init, before the seal. */
struct tsc_frequency tsc_frequency_find(void);
