/* The local APIC of this CPU, by memory or by MSR (x2APIC). SDM vol. 3, "Advanced Programmable Interrupt
 * Controller (APIC)". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maps device registers and returns where they can be reached: memory_map_device of kernel/memory/memory.h. */
typedef volatile void *apic_map(uint64_t physical, size_t bytes);

/* Finds the APIC and masks its own interrupts, which firmware may have left on. `map` is used at once, if at all. */
void apic_init(apic_map *map);

/* Returns false if there is no APIC, or if firmware has switched it off. */
bool apic_present(void);

/* Returns the id of this CPU's APIC, which must be present. */
uint32_t apic_id(void);

/* Reads a register by its offset in xAPIC mode, e.g. APIC_LVT_TIMER of kernel/cpu/apic_spec.h. */
uint32_t apic_read(uint16_t offset);
/* Writes a register by its offset in xAPIC mode. */
void apic_write(uint16_t offset, uint32_t value);

/* Returns true if apic_send can reach a CPU: ids of more than 8 bits need x2APIC, and the highest id means all. */
bool apic_reaches(uint32_t to_apic_id);

/* Sends an interprocessor interrupt: APIC_ICR_NMI, _INIT, _STARTUP with a page number, or
 * _FIXED with a vector. */
void apic_send(uint32_t to_apic_id, uint32_t command);

/* Ends an interrupt. Does nothing without an APIC. */
void apic_end_interrupt(void);
