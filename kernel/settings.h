/* The machine's settings. docs/settings.md lists the keys. A hosted program reads the same words and does not use
 * these. */
#pragma once

#include <stdint.h>

#include "base/settings.h"

enum {
    MACHINE_WORD_BYTES_MAX = 31,
    MACHINE_BLACKBOX_COUNT_MAX = 4,
    MACHINE_BLACKBOX_PAGE_BYTES = 4096,
    MACHINE_BLACKBOX_BYTES_MAX = 1 << 20,
    MACHINE_VIRTIO_MMIO_COUNT_MAX = 32,
    MACHINE_VIRTIO_MMIO_BYTES_MAX = 63,
};

/* Physical memory that keeps the crash record until Linux reads it; docs/blackbox.md. */
struct machine_region {
    uint64_t address; /* whole pages both */
    uint32_t bytes;
};

/* The values of virtio_mmio.device=, which virtual machine monitors add, as they stand: "512@0xfeb00e00:12". */
struct machine_virtio_mmio {
    uint32_t count;
    char words[MACHINE_VIRTIO_MMIO_COUNT_MAX][MACHINE_VIRTIO_MMIO_BYTES_MAX + 1];
};

struct machine_settings {
    uint64_t watchdog_ns; /* the longest stall of the loop; 0: no limit */
    uint32_t tsc_khz;     /* as Linux measured it; 0: not given */
    uint64_t acpi_rsdp;   /* an address; 0: not given */
    struct machine_region blackbox[MACHINE_BLACKBOX_COUNT_MAX];
    uint32_t blackbox_count;
    char test_trap[MACHINE_WORD_BYTES_MAX + 1]; /* "": none */
    uint64_t test_after_ns;                     /* running time before test_trap fails; 0: before anything else */
    uint32_t test_methods;                      /* a bit for each reset method, enum reset_method; all, if not given */
    struct machine_virtio_mmio virtio_mmio;
};

extern struct machine_settings machine_settings;
extern const struct settings_table machine_settings_table;
