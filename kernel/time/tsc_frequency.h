/* The frequency of the TSC: reported by the hypervisor or the CPU, else measured against a timer of known frequency. */
#pragma once

#include <stdint.h>

/* Returns the frequency and names its source ("kvmclock", "pit", ...; never freed); 0: there is no source. After
 * acpi_init, before the seal. */
uint64_t tsc_frequency_khz(const char **source);
