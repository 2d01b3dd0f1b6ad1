/* Sleeping until something happens, for machines where spinning costs money: HLT, ended by the APIC's timer or by a
 * device's message. Interrupts are on only while the CPU halts; their handler does nothing but acknowledge. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Switches the APIC's delivery on and measures its timer, after clock_init; takes 2 ms. False: this machine cannot. */
bool sleep_init(void);

/* What a device writes where to end a sleep: the address and data of a message-signalled interrupt. */
uint64_t sleep_message_address(void);
uint32_t sleep_message_data(void);

/* Returns at `wake_ns` at the latest, or earlier: at once if a message came since the last sleep. */
void sleep_until_ns(uint64_t now_ns, uint64_t wake_ns);
