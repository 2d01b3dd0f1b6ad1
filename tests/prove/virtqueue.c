/* The used ring, which a device writes: its index and its next entry are any, in rings of each size, of one and of two
 * descriptors a slot. The ring ends where the buffer ends, except for the event index. */
#define __atomic_load_n(at, order)         (*(at))
#define __atomic_store_n(at, value, order) (*(at) = (value))
#include "drivers/virtio/virtqueue.h"

static uint8_t memory[sizeof(struct virtq_used) + VIRTQ_SIZE_MAX * sizeof(struct virtq_used_elem) + 2];
static uint16_t tokens[VIRTQ_SIZE_MAX];
static struct virtqueue queue;

uint16_t virtqueue_fault(struct virtqueue *of, const char *fault)
{
    of->fault = fault;
    return 0;
}

static void any(uint16_t size, uint8_t chain_count)
{
    size_t used_bytes = sizeof(struct virtq_used) + size * sizeof(struct virtq_used_elem) + 2;
    prove_any(memory, sizeof memory);
    prove_any(tokens, sizeof tokens);
    queue.size = size;
    queue.chain_count = chain_count;
    queue.slot_count = size / chain_count;
    queue.token = tokens + VIRTQ_SIZE_MAX - queue.slot_count;
    queue.used = (void *)(memory + sizeof memory - used_bytes);
    queue.avail_event = (const uint16_t *)(memory + sizeof memory - 2);
    queue.avail_idx = (uint16_t)prove_number(0, UINT16_MAX);
    queue.used_idx = (uint16_t)prove_number(0, UINT16_MAX);
    queue.exposed_idx = (uint16_t)prove_number(0, UINT16_MAX);
    queue.notified_idx = (uint16_t)prove_number(0, UINT16_MAX);
    queue.event_index = prove_number(0, 1);
}

static void use(uint16_t size, uint8_t chain_count)
{
    uint32_t slot, bytes;
    any(size, chain_count);
    if (virtqueue_peek(&queue, virtqueue_claimed(&queue), &slot, &bytes))
        virtqueue_step(&queue, slot);
    any(size, chain_count);
    if (virtqueue_pending(&queue) != 0)
        virtqueue_take(&queue, &bytes);
    any(size, chain_count);
    virtqueue_missed_kick(&queue);
}

void main(void)
{
    for (uint32_t size = 1; size <= VIRTQ_SIZE_MAX; size *= 2)
        for (uint8_t chain_count = 1; chain_count <= 2 && chain_count <= size; chain_count++)
            use((uint16_t)size, chain_count);
}
