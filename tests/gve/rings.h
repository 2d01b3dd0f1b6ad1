/* The parts of the model of gVNIC: model.c has registers and admin queue, gqi.c and dqo.c the rings of the two formats.
 * Private to these files. */
#pragma once

#include "tests/gve/model.h"

/* Keeps the driver's first violation. */
void gve_model_violate(struct gve_model *model, const char *what);

/* Returns the memory of bus addresses; NULL, and counted, if it is not mapped. */
void *gve_model_memory(struct gve_model *model, uint64_t address, uint64_t bytes);

/* Writes a structure for the driver, its 16 bits at `last` after all others: the driver looks at these first. Returns
 * false if its memory is not mapped. */
bool gve_model_publish(struct gve_model *model, enum gve_model_written what, uint64_t address, void *data, size_t bytes,
                       size_t last);

/* Writes the event counter of a GQI tx queue. A new queue begins with 0, whatever the one before has left there. */
void gve_model_publish_counter(struct gve_model *model, const struct gve_model_queue *queue);

/* Copies between `data` and the address in a descriptor: an offset in the queue's page list, or a bus address. */
bool gve_model_copy(struct gve_model *model, const struct gve_model_queue *queue, uint64_t address, uint8_t *data,
                    uint64_t bytes, bool to_driver);

/* Raises a notification block's vector once, until the driver acknowledges. */
void gve_model_notify(struct gve_model *model, uint32_t block);

/* Sends a frame, `context` being the model. */
void gve_model_send(void *context, const uint8_t *frame, uint32_t bytes);
/* Sends the packet in `model->packet`, with its L4 checksum completed at `field` unless `l4` is 0. Returns the driver's
 * mistake, or NULL. */
const char *gve_model_send_packet(struct gve_model *model, uint32_t bytes, uint32_t l4, uint32_t field);

/* Serves a doorbell, whose value is in host order: sends published packets, or takes note of posted buffers. */
void gve_gqi_tx(struct gve_model *model, struct gve_model_queue *queue, uint32_t value);
void gve_gqi_rx_posted(struct gve_model *model, struct gve_model_queue *queue, uint32_t value);
void gve_dqo_tx(struct gve_model *model, struct gve_model_queue *queue, uint32_t value);
void gve_dqo_rx_posted(struct gve_model *model, struct gve_model_queue *queue, uint32_t value);

/* Writes a frame into posted buffers, of which there are enough. */
bool gve_gqi_receive(struct gve_model *model, struct gve_model_queue *queue, const uint8_t *frame, uint32_t bytes);
bool gve_dqo_receive(struct gve_model *model, struct gve_model_queue *queue, const uint8_t *frame, uint32_t bytes);
