/* KVM's clock for guests. Linux Documentation/virt/kvm/x86/{cpuid,msr}.rst. Time itself comes from the TSC alone, which
 * is faster and has one owner here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns the TSC's frequency as the hypervisor reports it; 0: there is no kvmclock. */
uint64_t kvmclock_tsc_khz(void);

/* Reads nanoseconds since the virtual machine's start. Returns false if there is no kvmclock. */
bool kvmclock_now_ns(uint64_t *ns);

/* Reads nanoseconds since 1970. Returns false if there is no kvmclock. */
bool kvmclock_wall_ns(uint64_t *ns);

struct kvmclock_change {
    bool stopped; /* the host stopped this machine and let it go on (PVCLOCK_GUEST_STOPPED) */
    uint64_t khz; /* the TSC's new frequency; 0: as before */
};

/* Returns true if the hypervisor has said something new since the first reading, or since the last call that returned
 * true. Reads memory as long as the page is unchanged. */
bool kvmclock_changed(struct kvmclock_change *change);
