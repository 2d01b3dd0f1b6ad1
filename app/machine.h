/* The operations that a program may have the machine do in order to measure it. They are chosen at link time, as those
 * of net/transport.h are: image/machine.c is the kernel's, host/machine.c refuses all on Linux. app/survey/ alone asks;
 * an image whose program does not ask holds none of it. */
#pragma once

#include <stdint.h>

enum machine_probe {
    MACHINE_EXIT, /* CPUID, which always leaves the guest */
    /* An OUT to port 0x80. No device of the kernel's takes it, so KVM leaves it to the VMM. */
    MACHINE_PORT_WRITE,
    MACHINE_NOTIFICATION,  /* to the network card's transmit queue, without a new frame */
    MACHINE_LINE_TRANSFER, /* a cache line's way to the second CPU: half a round trip */
    MACHINE_WAKE_IPI,      /* from the second CPU's interrupt until the first one has left HLT */
    MACHINE_WAKE_MSI,      /* from a frame's entry in the ring until the next turn begins */
    MACHINE_SPIN,          /* the second CPU spins, while the program measures something of its own */
    MACHINE_PROBE_COUNT,
};

/* Returns NULL if the machine can do it, else the reason why it cannot, a literal. */
const char *machine_probe_refusal(enum machine_probe probe);

/* Begins a row of probes of one kind, which machine_probe_refusal does not refuse. The second CPU takes part until
 * machine_probe_end, if the kind needs it. */
void machine_probe_begin(enum machine_probe probe);
void machine_probe_end(void);

/* Does it once, in 50 ms at most; never MACHINE_SPIN. Returns the TSC cycles that it took; 0: it came to nothing this
 * time. MACHINE_WAKE_MSI: the program lets the machine sleep and calls in the turn that takes the frame. Each call
 * forgets the frame; call before it is sent for, too, as others may have come. */
uint64_t machine_probe_cycles(enum machine_probe probe);

/* Returns NULL if the card's message-signalled interrupt ends the sleep of an idle turn, else the reason, a literal. */
const char *machine_sleep_refusal(void);
