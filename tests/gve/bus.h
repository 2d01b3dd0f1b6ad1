/* The model of tests/gve/model.h as a struct gve_bus, in the process of its driver: addresses are pointers into the
 * memory of tests/lib/device_memory.h. Frames that the driver sends are kept, the newest ones. */
#pragma once

#include "drivers/gve/bus.h"
#include "tests/gve/model.h"

enum { GVE_BUS_SENT_MAX = 8, GVE_BUS_FRAME_BYTES = 2048 };

struct gve_model_bus {
    struct gve_bus bus; /* first: cast back */
    struct gve_model model;
    bool holds; /* the device keeps what it sends: its counter stands still */
    uint32_t interrupts;
    struct {
        uint8_t bytes[GVE_BUS_FRAME_BYTES];
        uint32_t length;
    } sent[GVE_BUS_SENT_MAX]; /* frame number n is in entry n % GVE_BUS_SENT_MAX */
    /* Injects faults; NULL: none. `structure` as gve_model_config.alter. */
    void (*alter)(enum gve_model_written what, uint8_t *structure);
};

/* Makes a device that offers the formats (a mask of 1 << GVE_FORMAT_*). */
void gve_model_bus_init(struct gve_model_bus *bus, uint32_t formats, uint8_t revision, uint16_t entries);

/* Lets a device that holds what it sends report all of it as sent. */
void gve_model_bus_report(struct gve_model_bus *bus);
