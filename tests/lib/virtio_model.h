/* The device side of a virtio network device in plain memory: for unit tests, and as the other end of the ring-to-ring
 * benchmarks. Does what virtio 1.2 asks of a device, with any set of features and any queue size. Records the driver's
 * first violation of the specification (`violation`). The hostile functions make the device itself violate it.
 *
 *     struct virtio_model model;
 *     virtio_model_init(&model, VIRTIO_MODEL_MODERN);
 *     model.offered &= ...; model.queue[0].size_max = ...;
 *     virtio_net_init(&net, &model.bus);
 *     virtio_model_receive(&model, frame, bytes, 0);      then net.device.ops->rx_borrow
 *
 * Addresses are pointers. One thread may be the driver and another the device, as long as each stays on its side. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/virtio/bus.h"
#include "drivers/virtio/spec.h"

enum virtio_model_kind { VIRTIO_MODEL_MODERN, VIRTIO_MODEL_LEGACY_PCI, VIRTIO_MODEL_LEGACY_MMIO };

struct virtio_model_queue {
    uint16_t size_max; /* offered; 0: the queue does not exist */
    uint16_t size;     /* agreed */
    bool enabled;
    const struct virtq_desc *desc;
    const struct virtq_avail *avail;
    struct virtq_used *used;
    uint16_t avail_taken; /* entries of the available ring taken */
    uint16_t used_idx;    /* entries of the used ring given */
    uint64_t kick_count;
};

struct virtio_model {
    struct virtio_bus bus; /* first: the functions of virtio_bus_ops cast back */

    /* The device's properties; set before the driver starts. */
    uint64_t offered;
    uint64_t required; /* FEATURES_OK does not stick without these */
    uint8_t mac[6];
    uint16_t mtu_bytes;
    bool never_resets;
    uint32_t reset_read_count;       /* reads of the status until a reset is done */
    void (*on_kick)(uint16_t queue); /* called first in each kick, or NULL */
    uint32_t split_bytes;            /* for merged frames, a buffer; 0: no limit, virtio 1.2 §5.1.6.4 */

    /* The device's state */
    uint64_t accepted;
    uint8_t status;
    uint16_t link_status;
    uint32_t generation, generation_changes_left; /* reads of the configuration during which it changes */
    uint32_t reset_reads_left;
    uint32_t register_reads;
    struct virtio_model_queue queue[VIRTIO_NET_QUEUE_COUNT];
    const char *violation; /* the driver's first violation of the specification, or NULL */
};

/* A transmitted packet as the device sees it. Its bytes stay valid until virtio_model_transmit_done. */
struct virtio_model_packet {
    uint16_t head;                /* the descriptor chain */
    struct virtio_net_hdr header; /* num_buffers 0 where the header is 10 bytes */
    const uint8_t *frame;
    uint32_t bytes;
};

/* Makes a working device that offers everything the driver knows and has queues of 256; change it before the driver
 * starts. */
void virtio_model_init(struct virtio_model *model, enum virtio_model_kind kind);

/* Returns true if the feature is agreed. */
bool virtio_model_has(const struct virtio_model *model, unsigned feature_bit);
uint8_t virtio_model_header_bytes(const struct virtio_model *model);

/* Returns the buffers that the driver has made available and the device has not taken. */
uint16_t virtio_model_available(const struct virtio_model *model, uint16_t queue);

/* Delivers a frame. `flags` are VIRTIO_NET_HDR_F_*. Returns false if the driver has made too few buffers available. */
bool virtio_model_receive(struct virtio_model *model, const void *frame, uint32_t bytes, uint8_t flags);

/* Takes the next transmitted packet; false when there is none. */
bool virtio_model_transmit_take(struct virtio_model *model, struct virtio_model_packet *packet);
/* Gives a packet's buffers back; packets may be given back in any order. */
void virtio_model_transmit_done(struct virtio_model *model, const struct virtio_model_packet *packet);

/* A command on the control queue: class, command and data, and the place of the answer. */
struct virtio_model_control {
    uint16_t head;
    uint32_t bytes;
    const uint8_t *command;
    uint8_t *ack;
};

/* Takes the next command; false when there is none. The other function answers it with VIRTIO_NET_OK. */
bool virtio_model_control_take(struct virtio_model *model, struct virtio_model_control *control);
void virtio_model_control_done(struct virtio_model *model, const struct virtio_model_control *control);

/* virtio 1.2 §2.7.10, the device's half: Asks to be notified of the next available buffer, or asks not to be. */
void virtio_model_want_kick(struct virtio_model *model, uint16_t queue);
void virtio_model_refuse_kicks(struct virtio_model *model, uint16_t queue);

/* Returns true if publishing the used entries from `old_idx` on must interrupt the driver: virtio 1.2 §2.7.7, the
 * device's half. */
bool virtio_model_would_interrupt(const struct virtio_model *model, uint16_t queue, uint16_t old_idx);

/* Pushes a used entry with any contents; hostile. The next one moves the used index by any amount without entries. */
void virtio_model_used_push(struct virtio_model *model, uint16_t queue, uint32_t id, uint32_t len);
void virtio_model_used_jump(struct virtio_model *model, uint16_t queue, uint16_t by);
