/* Exceptions and interrupts: the gates, and the frame that a handler gets. Knows nothing of dumps and resets. */
#pragma once

#include <stdint.h>

/* As boot/traps.asm leaves it on the stack, lowest address first. */
struct trap_frame {
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t vector, error;
    uint64_t rip, cs, rflags, rsp, ss; /* pushed by the CPU */
};

/* Gets every exception, of all CPUs. May return from an NMI alone. */
typedef void trap_handler(const struct trap_frame *frame);

/* Loads the GDT, the TSS and the IDT and masks every interrupt controller. This kernel polls: an NMI or a machine check
 * is all that may interrupt it, unless it sleeps (kernel/time/sleep.h). */
void traps_init(trap_handler *handler);

/* Loads, on a worker, the same gates, and a TSS and a stack of its own. */
void traps_init_worker(uint32_t worker);

/* Returns the name of an exception, as the SDM has it. */
const char *trap_name(uint64_t vector);

/* Takes every vector from boot/traps.asm. Returns from interrupts, and from exceptions whose handler returns. */
void trap_handle(const struct trap_frame *frame);

/* Interrupts that nobody asked for. */
extern uint64_t traps_unexpected_count;
