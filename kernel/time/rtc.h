/* The battery-backed clock of a PC, MC146818 and its kin: whole seconds, taken for UTC as clouds and QEMU set it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads one of its registers. A port access: an exit. */
typedef uint8_t rtc_read_register(uint8_t index);

/* Reads the time of the current second, by two readings that agree. `century_index` is the ACPI tables' register for
 * the century, 0: none. Returns false if no clock answers, or its answer is no date. */
bool rtc_read(rtc_read_register *read, uint8_t century_index, uint64_t *ns);
