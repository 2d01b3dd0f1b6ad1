/* KVM's clock for guests. Linux Documentation/virt/kvm/x86/{cpuid,msr}.rst. Its page is switched on for each reading
 * and off again: the TSC alone is faster and has one owner here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The TSC's frequency as the hypervisor tells it; 0: there is no such clock. */
uint64_t kvmclock_tsc_khz(void);

/* Nanoseconds since the virtual machine's start. False: there is no such clock. */
bool kvmclock_now_ns(uint64_t *ns);

/* Nanoseconds since 1970, now. */
bool kvmclock_wall_ns(uint64_t *ns);
