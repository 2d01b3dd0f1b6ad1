/* The layout of the rings and everything off the path. The path is inline, in the header. */
#include "drivers/virtio/virtqueue.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

/* virtio 1.2 §2.7.2: Returns the offset of the available ring, which follows the descriptors; the used ring follows
 * it, aligned. Legacy devices demand this order; modern ones accept any. Each ring ends in the other side's event
 * index. */
static size_t avail_offset(uint16_t size) { return sizeof(struct virtq_desc) * size; }

static size_t used_offset(const struct virtqueue_config *config)
{
    size_t end = avail_offset(config->size) + sizeof(struct virtq_avail) + sizeof(uint16_t) * (config->size + 1u);
    return (end + config->used_align_bytes - 1) & ~(size_t)(config->used_align_bytes - 1);
}

size_t virtqueue_bytes(const struct virtqueue_config *config)
{
    size_t end = used_offset(config) + sizeof(struct virtq_used) + sizeof(struct virtq_used_elem) * config->size
                 + sizeof(uint16_t);
    return (end + config->used_align_bytes - 1) & ~(size_t)(config->used_align_bytes - 1);
}

void virtqueue_init(struct virtqueue *queue, const struct virtqueue_config *config, void *memory, uint16_t *token)
{
    ASSERT(config->size > 0 && config->size <= VIRTQ_SIZE_MAX && (config->size & (config->size - 1)) == 0);
    ASSERT(config->chain_count == 1 || config->chain_count == 2);
    ASSERT(config->size >= config->chain_count);

    *queue = (struct virtqueue){
        .desc = memory,
        .avail = (void *)((uint8_t *)memory + avail_offset(config->size)),
        .used = (void *)((uint8_t *)memory + used_offset(config)),
        .token = token,
        .size = config->size,
        .slot_count = config->size / config->chain_count,
        .chain_count = config->chain_count,
        .head_bytes = config->head_bytes,
        .event_index = config->event_index,
    };
    queue->avail_event = (const uint16_t *)&queue->used->ring[config->size];

    /* Poison: a device that reads a slot nobody published meets an address that no machine has. An entry that it never
     * wrote names a descriptor that does not exist. The indices and flags must start at 0 (virtio 1.2 §2.7.10.1). */
    memset(memory, 0xff, virtqueue_bytes(config));
    queue->avail->flags = queue->avail->idx = 0;
    queue->used->flags = queue->used->idx = 0;
    store_le16(&queue->used->ring[config->size], 0); /* avail_event */

    /* Two things never change: the flags of the descriptors, and the slot of each entry in the available ring. */
    ASSERT(!config->device_answers || config->chain_count == 2);
    for (uint32_t i = 0; i < config->size; i++) {
        bool first_of_two = config->chain_count == 2 && i % 2 == 0;
        bool writes = config->device_writes || (config->device_answers && !first_of_two);
        queue->desc[i].flags = (writes ? VIRTQ_DESC_F_WRITE : 0) | (first_of_two ? VIRTQ_DESC_F_NEXT : 0);
        queue->desc[i].next = first_of_two ? (uint16_t)(i + 1) : 0;
        queue->avail->ring[i] = (uint16_t)(config->chain_count * (i & (queue->slot_count - 1u)));
        token[i] = VIRTQUEUE_SLOT_FREE;
    }
    virtqueue_quiet(queue);
    virtqueue_check(queue);
}

void virtqueue_quiet(struct virtqueue *queue)
{
    if (!queue->event_index) {
        queue->avail->flags = VIRTQ_AVAIL_F_NO_INTERRUPT;
        return;
    }
    /* virtio 1.2 §2.7.7.1: flags stay 0; the device notifies when it uses the entry with the index used_event. The
     * farthest index is 2^15 ahead. The ring comes to it after 2^15 buffers, unless the next call moves it on. */
    uint16_t *used_event = &queue->avail->ring[queue->size];
    __atomic_store_n(used_event, (uint16_t)(queue->used_idx + 0x8000), __ATOMIC_RELAXED);
}

bool virtqueue_wake(struct virtqueue *queue)
{
    if (queue->event_index)
        queue->avail->ring[queue->size] = queue->used_idx;
    else
        queue->avail->flags = 0;
    /* virtio 1.2 §2.7.7, as in virtqueue_expose_fenced: the request must be visible before the index is read a last
     * time. Else an entry may come in between, not seen here and without a notification. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return virtqueue_pending(queue) == 0;
}

uint64_t virtqueue_desc_address(const struct virtqueue *queue) { return (uintptr_t)queue->desc; }
uint64_t virtqueue_avail_address(const struct virtqueue *queue) { return (uintptr_t)queue->avail; }
uint64_t virtqueue_used_address(const struct virtqueue *queue) { return (uintptr_t)queue->used; }

__attribute__((cold, noinline)) uint16_t virtqueue_fault(struct virtqueue *queue, const char *fault)
{
    ASSERT(fault != NULL);
    virtqueue_check(queue);
    if (!queue->fault)
        queue->fault = fault;
    return 0;
}

void virtqueue_check(const struct virtqueue *queue)
{
    ASSERT(queue->size != 0 && queue->size <= VIRTQ_SIZE_MAX && (queue->size & (queue->size - 1)) == 0);
    ASSERT(queue->slot_count * queue->chain_count == queue->size);
    ASSERT(virtqueue_in_flight(queue) <= queue->slot_count);
    ASSERT((uint16_t)(queue->exposed_idx - queue->used_idx) <= virtqueue_in_flight(queue));
    uint32_t owned = 0;
    for (uint16_t slot = 0; slot < queue->slot_count; slot++)
        owned += queue->token[slot] != VIRTQUEUE_SLOT_FREE;
    ASSERT(owned == virtqueue_in_flight(queue));
}
