/* Resets the machine, so that its next boot is Linux. Knows nobody who calls it, and no log. */
#pragma once

#include <stdint.h>

/* The methods, in the order in which they are tried. */
enum reset_method {
    RESET_METHOD_ACPI,    /* the ACPI tables' reset register */
    RESET_METHOD_CONTROL, /* port 0xCF9 */
    RESET_METHOD_8042,    /* the keyboard controller */
    RESET_METHOD_TRIPLE_FAULT,
    RESET_METHOD_COUNT,
};
enum { RESET_PAUSE_US = 100000 }; /* between two methods */

/* Leaves out the methods whose bits are not set: test.resets=, to see what a single one does on a machine. */
void reset_use_methods(uint32_t mask);

/* Learns the ACPI reset register, after acpi_init. Without it the first method does nothing. */
void reset_arm(void);

/* Sets a step that reset_now takes first, once: a failure in it leads to reset_now again, which then passes it over. */
void reset_set_last_step(void (*step)(void));

/* Tries each method once, with a pause after each. A failure in one leads here again, and the next one is tried. */
_Noreturn void reset_now(void);

/* Waits without a clock, which may be what failed, or may not be there yet. An exit a microsecond. */
void reset_pause_us(uint32_t us);
