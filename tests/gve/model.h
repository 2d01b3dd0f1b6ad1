/* The device side of Google's virtual NIC in plain memory, without I/O: GQI with queue page lists and with raw
 * addressing, DQO with raw addressing. Formats are those of drivers/gve/spec.h and tests/gve/spec.h.
 * tests/gve/vfio_user.c puts the model into a machine; unit tests and the fuzzer call it in their own process.
 *
 *     struct gve_model model;
 *     gve_model_init(&model, (struct gve_model_config){ .translate = ..., .send = ... });
 *     gve_model_write(&model, GVE_BAR_REGISTERS, offset, &value, sizeof value);   by the driver
 *     gve_model_receive(&model, frame, bytes);                                    then the driver's rx ring
 *
 * Commands and tx descriptors are done within the write of their doorbell. The model checks what the driver does:
 * `violation` keeps the first thing that no device would accept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/gve/spec.h"

enum {
    GVE_MODEL_QUEUES_MAX = 4, /* in each direction; frames are delivered to rx queue 0 */
    GVE_MODEL_PAGES_MAX = 1024,
    GVE_MODEL_BAR_BYTES = 4096,
};

/* The structures that the device writes. `gve_model_config.alter` sees each before the driver can. */
enum gve_model_written {
    GVE_MODEL_DESCRIPTION,   /* struct gve_device_descriptor and the options */
    GVE_MODEL_STATUS,        /* uint32_t of a command */
    GVE_MODEL_RESOURCES,     /* struct gve_queue_resources */
    GVE_MODEL_IRQ_INDEX,     /* uint32_t of a notification block */
    GVE_MODEL_LINK_SPEED,    /* uint64_t */
    GVE_MODEL_COUNTER,       /* uint32_t event counter of a tx queue; GQI */
    GVE_MODEL_RX,            /* struct gve_rx_descriptor, or gve_dqo_rx_completion */
    GVE_MODEL_TX_COMPLETION, /* struct gve_dqo_tx_completion */
    GVE_MODEL_PTYPES,        /* struct gve_packet_type[GVE_PACKET_TYPES] */
    GVE_MODEL_REGISTERS,     /* struct gve_registers, before each read */
    GVE_MODEL_WRITTEN_END,
};

struct gve_model_config {
    void *context; /* the functions' first argument */
    /* Returns the memory of bus addresses; NULL if some of them are not mapped. */
    void *(*translate)(void *context, uint64_t address, uint64_t bytes);
    void (*send)(void *context, const uint8_t *frame, uint32_t bytes);
    /* These three may be NULL: raises a vector; sees each command and its status; injects faults. */
    void (*interrupt)(void *context, uint32_t vector);
    void (*command)(void *context, const struct gve_command *command, uint32_t status);
    void (*alter)(void *context, enum gve_model_written what, void *structure, size_t bytes);

    uint32_t formats; /* a mask of 1 << GVE_FORMAT_*; 0: queue page lists alone */
    uint8_t revision; /* PCI's. 0: adminq_pfn, 1: adminq_base */
    uint8_t mac[6];
    uint16_t mtu, max_mtu; /* 0: 1460, and no jumbo frames */
    uint16_t entries;      /* in each ring; 0: 256 */
    uint16_t tx_pages;     /* 0: 64 */
    uint16_t queue_count;  /* in each direction; 0: 1 */
};

struct gve_model_queue {
    bool created;
    uint8_t sequence; /* that of the last rx descriptor */
    uint16_t buffer_bytes;
    uint32_t page_list, notify, counter;
    uint64_t ring, data_ring; /* the latter of DQO's tx: its completion ring */
    uint32_t entries;
    uint32_t published, done; /* descriptors since the creation */
    uint32_t completions;     /* DQO, tx */
};

struct gve_model_page_list {
    uint32_t page_count; /* 0: not registered */
    uint64_t page[GVE_MODEL_PAGES_MAX];
};

struct gve_model_block {
    bool masked, pending;
};

struct gve_model {
    struct gve_model_config config;

    /* The state that a reset clears */
    struct gve_model_state {
        struct gve_registers registers;
        uint64_t adminq;
        uint32_t adminq_entries; /* 0: no queue */
        bool configured;
        uint8_t format;
        uint64_t counter_array;
        uint32_t counter_count, block_count, notify_base;
        struct gve_model_queue tx[GVE_MODEL_QUEUES_MAX], rx[GVE_MODEL_QUEUES_MAX];
        struct gve_model_block block[2 * GVE_MODEL_QUEUES_MAX];
        struct gve_model_page_list list[2 * GVE_MODEL_QUEUES_MAX];
    } state;
    bool link_down, never_resets; /* the latter: pfn does not read back 0 */

    /* Counters */
    uint64_t fault_count; /* accesses to memory that is not mapped */
    uint64_t sent_count, received_count, no_buffer_count, doorbell_count, register_read_count, reset_count;
    const char *violation; /* the driver's first, or NULL */
    uint8_t packet[UINT16_MAX + 1];
};

void gve_model_init(struct gve_model *model, struct gve_model_config config);
void gve_model_reset(struct gve_model *model);

/* Reads and writes a region, GVE_BAR_REGISTERS or GVE_BAR_DOORBELLS, by bytes as they lie on the bus. */
void gve_model_read(struct gve_model *model, uint32_t bar, uint32_t offset, void *data, uint32_t bytes);
void gve_model_write(struct gve_model *model, uint32_t bar, uint32_t offset, const void *data, uint32_t bytes);

/* Returns true if the driver has posted a buffer that no frame has taken. */
static inline bool gve_model_can_receive(const struct gve_model *model)
{
    const struct gve_model_queue *queue = &model->state.rx[0];
    return queue->created && queue->published != queue->done;
}

/* Delivers a frame to rx queue 0. Returns false if no buffers are posted for it; the frame is then lost. */
bool gve_model_receive(struct gve_model *model, const uint8_t *frame, uint32_t bytes);

/* Takes the link down or up, and asks the driver to reset the device; each raises the management vector. */
void gve_model_set_link(struct gve_model *model, bool up);
void gve_model_ask_reset(struct gve_model *model);
