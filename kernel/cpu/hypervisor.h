/* The hypervisor around this machine, as CPUID names it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/instructions.h"

struct hypervisor {
    char name[13];     /* "KVMKVMKVM", "TCGTCGTCGTCG", ..., "" on bare metal */
    uint32_t base;     /* the first of its leaves; 0 on bare metal */
    uint32_t leaf_max; /* the last one */
};

#define HYPERVISOR_KVM    "KVMKVMKVM"
#define HYPERVISOR_VMWARE "VMwareVMware"

/* Valid after hypervisor_find. */
extern struct hypervisor hypervisor;

/* Looks for KVM at each place where its leaves may begin, and takes the first hypervisor if there is no KVM. Called if
 * CPUID says that there is a hypervisor. */
void hypervisor_find(void);

bool hypervisor_is(const char *name);

/* Returns the leaf `number` leaves after the first one; zeros if the hypervisor does not have the leaf. */
struct cpuid hypervisor_leaf(uint32_t number);

/* Returns the name of the technique that keeps this machine's memory from its host, "SEV" or "TDX", or NULL. */
const char *hypervisor_memory_encryption(void);
