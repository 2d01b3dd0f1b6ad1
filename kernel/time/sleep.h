/* Sleeping until something happens, for machines where spinning costs money: HLT, ended by the APIC's timer or by a
 * device's message. Interrupts are on only while the CPU halts; their handler does nothing but acknowledge. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Switches the APIC's delivery on and measures its timer, after clock_init; takes 2 ms. Returns false if this machine
 * cannot sleep. */
bool sleep_init(void);

/* Returns the address of the message-signalled interrupt by which a device ends a sleep; 0 without an APIC. */
uint64_t sleep_message_address(void);
/* Returns the data of that interrupt. */
uint32_t sleep_message_data(void);

/* Sleeps until `deadline_ns` at the latest. Returns at once if a message came since the last sleep. */
void sleep_until_ns(uint64_t now_ns, uint64_t deadline_ns);
