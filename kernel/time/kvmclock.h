/* KVM's clock for guests. Linux Documentation/virt/kvm/x86/{cpuid,msr}.rst. Its page is switched on for each reading
 * and off again: the TSC alone is faster and has one owner here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns the TSC's frequency as the hypervisor reports it; 0: there is no such clock. */
uint64_t kvmclock_tsc_khz(void);

/* Reads nanoseconds since the virtual machine's start. Returns false if there is no such clock. */
bool kvmclock_now_ns(uint64_t *ns);

/* Reads nanoseconds since 1970. Returns false if there is no such clock. */
bool kvmclock_wall_ns(uint64_t *ns);
