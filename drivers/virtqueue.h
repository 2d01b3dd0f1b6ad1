/* Split virtqueue, virtio 1.2 §2.7. Moves memory only; knows no registers and no packets. Shared by receive and
 * transmit, and by the hosted tests and benchmarks, where a model plays the device.
 *
 * Slots. The ring is cut into slots of one descriptor, or of two where a legacy device wants the header in a
 * descriptor of its own. Slot k is always descriptors k (or 2k, 2k+1), and the available ring is filled once, at
 * init, so that its entry i names slot i: to publish is to write one descriptor and one index. The price: the slot at
 * the head must have come back. Devices return buffers in order nearly always; one that does not makes the ring
 * look full a little early, never wrong.
 *
 * Tokens. Each slot carries the publisher's 16-bit token while the device owns it. Tokens live in private memory, so
 * that an id the device makes up, or names twice, is found out.
 *
 * Whatever the device writes is checked. A fault is a word about the device, set once; from then on nothing is
 * taken and nothing published, and the rings are left to be reset. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/virtio_spec.h"

enum { VIRTQUEUE_SLOT_FREE = 0xffff };      /* no token has this value */

/* One cache line: the path touches all of it. */
struct virtqueue {
    struct virtq_used *used;
    struct virtq_desc *desc;
    struct virtq_avail *avail;
    uint16_t *token;                /* by slot; VIRTQUEUE_SLOT_FREE while we own it */
    const uint16_t *avail_event;    /* after the used ring; only with VIRTIO_F_EVENT_IDX */
    const char *fault;              /* NULL: fine */
    uint16_t avail_idx;             /* the next slot to place, counted for ever, modulo 2^16 */
    uint16_t exposed_idx;           /* what the device has been shown of avail_idx */
    uint16_t used_idx;              /* the next used entry to take */
    /* Not beside exposed_idx: GCC would store both as one word, made from a word that it loads across the 16 bits that
     * virtqueue_place has just stored, and wait 10 ns for them to reach the cache. */
    uint16_t announced_idx;         /* exposed_idx when the device was last to be notified */
    uint16_t size;                  /* of the rings, in descriptors */
    uint16_t slot_count;
    uint8_t chain_count;            /* descriptors of a slot: 1 or 2 */
    uint8_t head_bytes;             /* chain_count 2: bytes of the first descriptor */
    bool event_index;               /* VIRTIO_F_EVENT_IDX */
};

struct virtqueue_config {
    uint16_t size;                  /* a power of two, 1..VIRTQ_SIZE_MAX */
    uint32_t used_align_bytes;      /* VIRTQ_LEGACY_ALIGN_BYTES where the layout is fixed, else what suits us */
    uint8_t chain_count;
    uint8_t head_bytes;
    bool device_writes;             /* receive */
    bool event_index;
};

/* Bytes of ring memory that virtqueue_init wants, aligned to 4096 (legacy addresses are page numbers). */
size_t virtqueue_bytes(const struct virtqueue_config *config);

/* Lays the rings out in `memory` and poisons them. `token` has room for config->size entries. */
void virtqueue_init(struct virtqueue *queue, const struct virtqueue_config *config, void *memory, uint16_t *token);

/* Where the device finds the three parts: physical addresses, which are pointers here. */
uint64_t virtqueue_desc_address(const struct virtqueue *queue);
uint64_t virtqueue_avail_address(const struct virtqueue *queue);
uint64_t virtqueue_used_address(const struct virtqueue *queue);

/* Keeps the device from sending used buffer notifications for the next 2^15 buffers, §2.7.7. Call now and then. */
void virtqueue_quiet(struct virtqueue *queue);

/* Asks for a notification of the next used entry, until virtqueue_quiet. False: one is there already, unseen; there may
 * be no notification for it. */
bool virtqueue_wake(struct virtqueue *queue);

static inline uint16_t virtqueue_in_flight(const struct virtqueue *queue)
{
    return (uint16_t)(queue->avail_idx - queue->used_idx);
}

/* Whether virtqueue_place may be called. */
static inline bool virtqueue_has_slot(const struct virtqueue *queue)
{
    return (queue->token[queue->avail_idx & (queue->slot_count - 1)] == VIRTQUEUE_SLOT_FREE) & !queue->fault;
}

/* Fills the next slot with `bytes` at `address`; the device sees it at the next virtqueue_expose. The bytes of a
 * two-descriptor slot are contiguous: the first head_bytes of them go to the first descriptor. */
static inline void virtqueue_place(struct virtqueue *queue, uint16_t token, void *address, uint32_t bytes)
{
    uint16_t slot = queue->avail_idx & (queue->slot_count - 1);
    uint64_t at = (uintptr_t)address;
    queue->token[slot] = token;
    queue->avail_idx++;
    if (__builtin_expect(queue->chain_count == 1, 1)) {
        queue->desc[slot].addr = at;
        queue->desc[slot].len = bytes;
    } else {
        queue->desc[2 * slot].addr = at;
        queue->desc[2 * slot].len = queue->head_bytes;
        queue->desc[2 * slot + 1].addr = at + queue->head_bytes;
        queue->desc[2 * slot + 1].len = bytes - queue->head_bytes;
    }
}

/* Whether the device, by what it has written so far, asks to be told of the entries old..new-1. §2.7.10. */
static inline bool virtqueue_wants_notice(const struct virtqueue *queue, uint16_t old, uint16_t new)
{
    if (!queue->event_index)
        return !(__atomic_load_n(&queue->used->flags, __ATOMIC_RELAXED) & VIRTQ_USED_F_NO_NOTIFY);
    /* Notify if one of the entries has the index avail_event. All modulo 2^16: new - event - 1 is how far avail_event
     * lies behind the newest entry. */
    uint16_t event = __atomic_load_n(queue->avail_event, __ATOMIC_RELAXED);
    return (uint16_t)(new - event - 1) < (uint16_t)(new - old);
}

/* Shows the device all placed slots. Returns whether it wants a notification for them; the caller notifies.
 *
 * Barriers, §2.7.13: descriptors before idx (step 4), and idx before flags or avail_event are read (step 6). A
 * sequentially consistent store is both: on x86 it is one XCHG, which orders earlier stores before itself and
 * later loads after itself. A plain store would let the load of avail_event pass it (the one reordering x86
 * does), the device would look for work a moment too early and sleep: a lost notification, a stalled ring.
 * The first form looks after the store only. */
static inline bool virtqueue_expose_fenced(struct virtqueue *queue)
{
    uint16_t old = queue->exposed_idx, new = queue->avail_idx;
    queue->exposed_idx = new;
    __atomic_store_n(&queue->avail->idx, new, __ATOMIC_SEQ_CST);
    if (!virtqueue_wants_notice(queue, old, new))
        return false;
    queue->announced_idx = new;
    return true;
}

/* A device that asks already, before the store, is notified whatever it writes meanwhile: nothing can be lost, the last
 * look is not needed, and a plain store will do. */
static inline bool virtqueue_expose(struct virtqueue *queue)
{
    uint16_t old = queue->exposed_idx, new = queue->avail_idx;
    if (!virtqueue_wants_notice(queue, old, new))
        return virtqueue_expose_fenced(queue);
    queue->exposed_idx = queue->announced_idx = new;
    __atomic_store_n(&queue->avail->idx, new, __ATOMIC_RELEASE);
    return true;
}

/* Whether the device asks to be told of slots that it was shown without a notification. By §2.7.13 it has found them
 * itself, or is about to: asking, it looks once more. */
static inline bool virtqueue_is_untold(const struct virtqueue *queue)
{
    return queue->announced_idx != queue->exposed_idx &&
           virtqueue_wants_notice(queue, queue->announced_idx, queue->exposed_idx);
}

/* How many entries the device says it has used and we have not taken. A loop that finds none asks this and no more. */
static inline uint16_t virtqueue_claimed(const struct virtqueue *queue)
{
    /* §2.7.14: idx is read before the entries it covers; acquire. x86 keeps loads in order, the compiler must too. */
    return (uint16_t)(__atomic_load_n(&queue->used->idx, __ATOMIC_ACQUIRE) - queue->used_idx);
}

/* The common case of taking one of them, in two steps. Looks at the next one and changes nothing: whether neither it nor
 * their number is wrong. If not, virtqueue_pending and virtqueue_take say what is. */
static inline bool virtqueue_peek(const struct virtqueue *queue, uint16_t claimed, uint32_t *slot, uint32_t *bytes)
{
    const struct virtq_used_elem *entry = &queue->used->ring[queue->used_idx & (queue->size - 1)];
    /* Read once each: the device may change them under us. */
    *slot = __atomic_load_n(&entry->id, __ATOMIC_RELAXED);
    *bytes = __atomic_load_n(&entry->len, __ATOMIC_RELAXED);
    return claimed <= virtqueue_in_flight(queue) && queue->chain_count == 1 && *slot < queue->slot_count
        && queue->token[*slot] != VIRTQUEUE_SLOT_FREE;
}

/* Takes the entry just seen. */
static inline void virtqueue_step(struct virtqueue *queue, uint32_t slot)
{
    queue->token[slot] = VIRTQUEUE_SLOT_FREE;
    queue->used_idx++;
}

/* How many used entries wait to be taken. More than are in flight is a fault, and counts as none. */
uint16_t virtqueue_fault(struct virtqueue *queue, const char *fault);
static inline uint16_t virtqueue_pending(struct virtqueue *queue)
{
    uint16_t pending = virtqueue_claimed(queue);
    if (__builtin_expect(pending > virtqueue_in_flight(queue), 0))
        return virtqueue_fault(queue, "used index runs ahead of the available index");
    return pending;
}

/* Takes one used entry that virtqueue_pending has seen: its token, and in *bytes what the device says it wrote.
 * VIRTQUEUE_SLOT_FREE: the device named a slot that it does not own; the queue has a fault. */
static inline uint16_t virtqueue_take(struct virtqueue *queue, uint32_t *bytes)
{
    const struct virtq_used_elem *entry = &queue->used->ring[queue->used_idx & (queue->size - 1)];
    /* Read once each: the device may change them under us. */
    uint32_t id = __atomic_load_n(&entry->id, __ATOMIC_RELAXED);
    *bytes = __atomic_load_n(&entry->len, __ATOMIC_RELAXED);
    uint32_t slot = id;
    if (__builtin_expect(queue->chain_count == 2, 0))
        slot = (id & 1) ? UINT32_MAX : id / 2;
    if (__builtin_expect(slot >= queue->slot_count || queue->token[slot] == VIRTQUEUE_SLOT_FREE, 0))
        return virtqueue_fault(queue, "used entry names a descriptor that the device does not own"),
               VIRTQUEUE_SLOT_FREE;
    uint16_t token = queue->token[slot];
    queue->token[slot] = VIRTQUEUE_SLOT_FREE;
    queue->used_idx++;
    return token;
}
