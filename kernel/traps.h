/* Exceptions. Every one of them is our own mistake or the machine's: it is dumped and Linux comes back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* As boot/traps.asm leaves it on the stack, lowest address first. */
struct trap_frame {
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t vector, error;
    uint64_t rip, cs, rflags, rsp, ss;          /* pushed by the CPU */
};

/* Loads the GDT, the TSS and the IDT and masks every interrupt controller: this kernel polls, and an NMI or a machine
 * check is all that may interrupt it, unless it sleeps (kernel/sleep.h). */
void traps_init(void);

/* On the second CPU: the same gates, a TSS and a stack of its own. */
void traps_init_second(void);

/* Dumps what the second CPU stopped at, and gives the machine back. `address` is its CR2; `panicked`: it stopped there
 * by itself. */
_Noreturn void trap_of_second(const struct trap_frame *frame, uint64_t address, bool panicked);

/* boot/traps.asm calls it. Returns only from interrupts: the one that ends a sleep, and those nobody asked for. */
void trap_handle(const struct trap_frame *frame);

/* Interrupts that nobody asked for. */
extern uint64_t traps_unexpected_count;
