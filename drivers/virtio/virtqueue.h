/* Split virtqueue, virtio 1.2 §2.7. Moves memory only; knows no registers and no packets. Shared by receive and
 * transmit, and by the hosted tests and benchmarks, where a model plays the device.
 *
 * The calls, in their order:
 *   to give the device buffers          virtqueue_has_slot and virtqueue_place for each, then virtqueue_expose
 *   to take back used ones              virtqueue_pending, then virtqueue_take for each
 *   to take back one, on the path       virtqueue_claimed, virtqueue_peek, virtqueue_step; if that fails, as above
 *   to be notified, and not any more    virtqueue_wake, virtqueue_quiet
 *
 * Slots. The ring is cut into slots of one descriptor, or of two where a legacy device wants the header in a
 * descriptor of its own. Slot k is always descriptors k (or 2k, 2k+1). The available ring is filled once, at init, so
 * that its entry i names slot i: to publish is to write one descriptor and one index. The price: the slot at the head
 * must have come back. Devices return buffers in order nearly always. Out of order, the ring looks full a little early,
 * and is never wrong.
 *
 * Tokens. Each slot carries the publisher's 16-bit token while the device owns it. Tokens live in private memory. They
 * show that the device has made up an id, or has named one twice.
 *
 * Every word that the device writes is checked. A fault is a text about the device, set once. From then on nothing is
 * taken and nothing published, and the rings are left to be reset. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/virtio/spec.h"

enum { VIRTQUEUE_SLOT_FREE = 0xffff }; /* no token has this value */

/* One cache line: the path touches all of it. */
struct virtqueue {
    struct virtq_used *used;
    struct virtq_desc *desc;
    struct virtq_avail *avail;
    uint16_t *token;             /* by slot; VIRTQUEUE_SLOT_FREE while we own it */
    const uint16_t *avail_event; /* after the used ring; only with VIRTIO_F_EVENT_IDX */
    const char *fault;           /* NULL: fine */
    uint16_t avail_idx;          /* slots placed so far, modulo 2^16 as all three */
    uint16_t exposed_idx;        /* slots shown to the device: what avail->idx says */
    uint16_t used_idx;           /* used entries taken so far */
    /* Apart from exposed_idx. If they were neighbours, GCC would write both as one word, and load that word first. The
     * load would span the 16 bits that virtqueue_place has just stored, so store forwarding would fail: 10 ns. */
    uint16_t notified_idx; /* exposed_idx when the device was last notified */
    uint16_t size;         /* descriptors of each ring */
    uint16_t slot_count;
    uint8_t chain_count; /* descriptors of a slot: 1 or 2 */
    uint8_t head_bytes;  /* chain_count 2: bytes of the first descriptor */
    bool event_index;    /* VIRTIO_F_EVENT_IDX */
};

struct virtqueue_config {
    uint16_t size;             /* a power of two, 1..VIRTQ_SIZE_MAX */
    uint32_t used_align_bytes; /* VIRTQ_LEGACY_ALIGN_BYTES where the layout is fixed, else 64, a cache line */
    uint8_t chain_count;
    uint8_t head_bytes;
    bool device_writes;  /* receive */
    bool device_answers; /* control, chain_count 2: the second descriptor is the device's to write */
    bool event_index;
};

/* Returns the bytes of ring memory that virtqueue_init wants, aligned to 4096 (legacy addresses are page numbers). */
size_t virtqueue_bytes(const struct virtqueue_config *config);

/* Lays the rings out in `memory` and poisons them. `token` has room for config->size entries. */
void virtqueue_init(struct virtqueue *queue, const struct virtqueue_config *config, void *memory, uint16_t *token);

/* Returns the physical address of a part of the rings; a pointer is its own physical address here. */
uint64_t virtqueue_desc_address(const struct virtqueue *queue);
uint64_t virtqueue_avail_address(const struct virtqueue *queue);
uint64_t virtqueue_used_address(const struct virtqueue *queue);

/* Keeps the device from sending used buffer notifications for the next 2^15 buffers, virtio 1.2 §2.7.7.
 * Call it again before these have come back. */
void virtqueue_quiet(struct virtqueue *queue);

/* Asks for a notification of the next used entry, until virtqueue_quiet. Returns false if an entry is there already;
 * there may be no notification for it. */
bool virtqueue_wake(struct virtqueue *queue);

/* Asserts the invariant: indices in order, as many tokens as entries in flight. Reads no word that the device may
 * write. */
void virtqueue_check(const struct virtqueue *queue);

static inline uint16_t virtqueue_in_flight(const struct virtqueue *queue)
{
    return (uint16_t)(queue->avail_idx - queue->used_idx);
}

/* Returns true if virtqueue_place may be called. */
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

/* Returns true if the device asks for a notification of the available entries old..new-1, by what it has written so
 * far. virtio 1.2 §2.7.10. */
static inline bool virtqueue_wants_notice(const struct virtqueue *queue, uint16_t old, uint16_t new)
{
    if (!queue->event_index)
        return !(__atomic_load_n(&queue->used->flags, __ATOMIC_RELAXED) & VIRTQ_USED_F_NO_NOTIFY);
    /* Notify if one of the entries has the index avail_event. All modulo 2^16: avail_event lies new - event - 1
     * entries before the newest one. */
    uint16_t event = __atomic_load_n(queue->avail_event, __ATOMIC_RELAXED);
    return (uint16_t)(new - event - 1) < (uint16_t)(new - old);
}

/* Shows the device all placed slots. Returns true if it wants a notification for them; the caller notifies.
 *
 * Barriers, virtio 1.2 §2.7.13: descriptors before idx (step 4), and idx before flags or avail_event are read (step
 * 6). A sequentially consistent store is both: on x86 it is one XCHG, which orders earlier stores before itself and
 * later loads after itself. A plain store would let the load of avail_event pass it, the one reordering of x86. Then
 * the device might look for work a moment too early and sleep: a lost notification, a stalled ring. */
static inline bool virtqueue_expose_fenced(struct virtqueue *queue)
{
    uint16_t old = queue->exposed_idx, new = queue->avail_idx;
    queue->exposed_idx = new;
    __atomic_store_n(&queue->avail->idx, new, __ATOMIC_SEQ_CST);
    if (!virtqueue_wants_notice(queue, old, new))
        return false;
    queue->notified_idx = new;
    return true;
}

/* Shows the device all placed slots. Returns true if it wants a notification for them; the caller notifies. If the
 * device asked before the store, it gets one whatever it writes meanwhile: nothing can be lost, and a plain store is
 * enough. */
static inline bool virtqueue_expose(struct virtqueue *queue)
{
    uint16_t old = queue->exposed_idx, new = queue->avail_idx;
    if (!virtqueue_wants_notice(queue, old, new))
        return virtqueue_expose_fenced(queue);
    queue->exposed_idx = queue->notified_idx = new;
    __atomic_store_n(&queue->avail->idx, new, __ATOMIC_RELEASE);
    return true;
}

/* Returns true if the device asks for a notification of slots that it was shown without one. By virtio 1.2 §2.7.13 it
 * finds them itself, because after asking it looks once more; docs/subtle.md has the machine where it does not. */
static inline bool virtqueue_missed_kick(const struct virtqueue *queue)
{
    return queue->notified_idx != queue->exposed_idx
           && virtqueue_wants_notice(queue, queue->notified_idx, queue->exposed_idx);
}

/* Returns how many used entries the device announces beyond those taken. The number is not checked yet: it may be more
 * than are in flight. */
static inline uint16_t virtqueue_claimed(const struct virtqueue *queue)
{
    /* virtio 1.2 §2.7.14: idx is read before the entries it covers; acquire. x86 keeps loads in order, the compiler
     * must too. */
    return (uint16_t)(__atomic_load_n(&queue->used->idx, __ATOMIC_ACQUIRE) - queue->used_idx);
}

/* Reads the next used entry and changes nothing. Returns false if the queue has two descriptors a slot, or if the entry
 * or `claimed`, the number of entries, is wrong. virtqueue_pending and virtqueue_take then go on and name the fault. */
static inline bool virtqueue_peek(const struct virtqueue *queue, uint16_t claimed, uint32_t *slot, uint32_t *bytes)
{
    const struct virtq_used_elem *entry = &queue->used->ring[queue->used_idx & (queue->size - 1)];
    /* Read once each: the device may change them under us. */
    *slot = __atomic_load_n(&entry->id, __ATOMIC_RELAXED);
    *bytes = __atomic_load_n(&entry->len, __ATOMIC_RELAXED);
    return claimed <= virtqueue_in_flight(queue) && queue->chain_count == 1 && *slot < queue->slot_count
           && queue->token[*slot] != VIRTQUEUE_SLOT_FREE;
}

/* Takes the entry that virtqueue_peek has read. */
static inline void virtqueue_step(struct virtqueue *queue, uint32_t slot)
{
    queue->token[slot] = VIRTQUEUE_SLOT_FREE;
    queue->used_idx++;
}

/* Records a fault of the device, unless there is one. Returns 0. */
uint16_t virtqueue_fault(struct virtqueue *queue, const char *fault);

/* Returns how many used entries wait to be taken. More than are in flight is a fault, and counts as none. */
static inline uint16_t virtqueue_pending(struct virtqueue *queue)
{
    uint16_t pending = virtqueue_claimed(queue);
    if (__builtin_expect(pending > virtqueue_in_flight(queue), 0))
        return virtqueue_fault(queue, "used index runs ahead of the available index");
    return pending;
}

/* Takes one used entry that virtqueue_pending has seen. Returns its token, and in *bytes the length that the device
 * reports. Returns VIRTQUEUE_SLOT_FREE if the device named a slot that it does not own; the queue has a fault then. */
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
