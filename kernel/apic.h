/* The local APIC of this CPU, by memory or by MSR (x2APIC). SDM vol. 3 §10. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Finds it and masks its own interrupts, which firmware may have left on. After memory_init. */
void apic_init(void);

/* False: there is none, or firmware has switched it off. */
bool apic_present(void);
uint32_t apic_id(void);

/* Registers by their offset in xAPIC mode, e.g. APIC_LVT_TIMER of kernel/apic_spec.h. */
uint32_t apic_read(uint16_t offset);
void apic_write(uint16_t offset, uint32_t value);

/* An interprocessor interrupt: APIC_ICR_NMI, _INIT, or _STARTUP with a page number. */
void apic_send(uint32_t to_apic_id, uint32_t command);

/* End of interrupt. Does nothing without an APIC. */
void apic_end_interrupt(void);
