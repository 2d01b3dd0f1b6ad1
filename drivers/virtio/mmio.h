/* virtio over memory-mapped registers, virtio 1.2 §4.2: version 2, and version 1 (legacy). There is no bus to
 * search: the command line names the devices, as Firecracker's and QEMU microvm's do, or the ACPI tables do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/registers.h"
#include "drivers/virtio/bus.h"

/* A word `virtio_mmio.device=SIZE@ADDRESS:IRQ[:ID]` (Linux, "kernel-parameters"): numbers in C's notation, SIZE and
 * ADDRESS may end in K, M or G. */
struct virtio_mmio_word {
    uint64_t address;
    uint64_t bytes;
    uint32_t irq;
};

/* Parses the value of such a word. Returns false if it is not of that form. */
bool virtio_mmio_parse(const char *text, struct virtio_mmio_word *word);

struct virtio_mmio {
    struct virtio_bus bus; /* first: block_of casts it back */
    struct registers block;
};

/* Opens a device. Returns false if none of the type `device_type` is there, or its version is unknown. */
bool virtio_mmio_open(struct virtio_mmio *mmio, const struct virtio_mmio_word *word, uint32_t device_type);
