/* virtio over memory-mapped registers, virtio 1.2 §4.2: version 2, and version 1 (legacy). There is no bus to search: the
 * machine names its devices on the command line, as Firecracker and QEMU's microvm do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/registers.h"
#include "drivers/virtio_transport.h"

/* A word `virtio_mmio.device=SIZE@ADDRESS:IRQ[:ID]` (Linux, "kernel-parameters"): numbers in C's notation, SIZE and
 * ADDRESS with K, M or G behind them. */
struct virtio_mmio_word {
    uint64_t address;
    uint64_t bytes;
    uint32_t irq;
};

/* What follows the `=`, up to a blank or the end. False: it is not of that form. */
bool virtio_mmio_parse(const char *text, struct virtio_mmio_word *word);

/* The next such word of a command line from *line on, which moves behind it. A malformed one is told to the log and
 * passed over. False: there are no more. */
bool virtio_mmio_next(const char **line, struct virtio_mmio_word *word);

struct virtio_mmio {
    struct virtio_transport transport;      /* first: the seam casts back */
    struct registers block;
};

/* False: no virtio device of the type `device_type` is there, or of a version unknown to us. */
bool virtio_mmio_open(struct virtio_mmio *mmio, const struct virtio_mmio_word *word, uint32_t device_type);
