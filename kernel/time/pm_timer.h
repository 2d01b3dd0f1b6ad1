/* The ACPI power management timer: a counter of PM_TIMER_HZ in a register. ACPI 6.5 §4.8.3.3. */
#pragma once

#include <stdint.h>

/* Finds the timer and makes its register readable. Returns the mask of its 24 or 32 bits; 0: there is none. After
 * acpi_init, before the seal; may be called again. */
uint32_t pm_timer_open(void);

/* Reads the register, whose count stands in the bits of the mask. An exit. */
uint32_t pm_timer_read(void);
