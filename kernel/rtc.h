/* The battery-backed clock of a PC, MC146818 and its kin: whole seconds, taken for UTC as clouds and QEMU set it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads one of its registers. A port access: an exit. */
typedef uint8_t rtc_read_register(uint8_t index);

/* The time of the second that is running; `century_index` is the ACPI tables' register for it, 0: none. False: no
 * clock answers, or what it says is no date. Two readings that agree, in a bounded number. */
bool rtc_read(rtc_read_register *read, uint8_t century_index, uint64_t *ns);

