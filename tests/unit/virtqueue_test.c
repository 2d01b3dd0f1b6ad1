/* drivers/virtio/virtqueue.h: the rings themselves, without packets. The test plays the device. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "drivers/virtio/virtqueue.h"
#include "kernel/memory/memory.h"
#include "tests/lib/device_memory.h"
#include "tests/lib/test.h"

AFTER_EACH() { model_memory_free_all(); }

static void queue_make(struct virtqueue *queue, struct virtqueue_config config)
{
    if (config.used_align_bytes == 0)
        config.used_align_bytes = 64;
    if (config.chain_count == 0)
        config.chain_count = 1;
    void *memory = memory_take(virtqueue_bytes(&config), 4096, "rings");
    virtqueue_init(queue, &config, memory, memory_take(config.size * 2u, 64, "tokens"));
}

static void device_publishes(struct virtqueue *queue, uint32_t id, uint32_t len)
{
    struct virtq_used_elem *entry = &queue->used->ring[queue->used->idx & (queue->size - 1)];
    entry->id = id;
    entry->len = len;
    __atomic_store_n(&queue->used->idx, (uint16_t)(queue->used->idx + 1), __ATOMIC_RELEASE);
}

static void device_uses(struct virtqueue *queue, uint32_t id, uint32_t len)
{
    virtqueue_check(queue);
    device_publishes(queue, id, len);
}

/* virtio 1.2 §2.7.2's formula, for all sizes a device may dictate */
TEST(layout_is_the_documents_for_every_size)
{
    for (uint32_t size = 1; size <= VIRTQ_SIZE_MAX; size *= 2) {
        struct virtqueue queue;
        queue_make(&queue, (struct virtqueue_config){ .size = (uint16_t)size, .used_align_bytes = 4096 });
        uint64_t base = virtqueue_desc_address(&queue);
        assert_int_equal(base % 4096, 0);
        assert_int_equal(virtqueue_avail_address(&queue) - base, 16 * size);
        uint64_t used = (16 * size + 2 * (3 + size) + 4095) / 4096 * 4096;
        assert_int_equal(virtqueue_used_address(&queue) - base, used);
        assert_true(model_memory_contains((void *)(uintptr_t)base, used + 6 + 8 * size));
        model_memory_free_all();
    }
}

TEST(rings_are_poisoned_and_indices_zero_before_the_device_sees_them)
{
    struct virtqueue queue;
    queue_make(&queue, (struct virtqueue_config){ .size = 8, .device_writes = true });
    assert_int_equal(queue.avail->idx, 0);
    assert_int_equal(queue.used->idx, 0);
    assert_int_equal(queue.used->flags, 0);
    for (int i = 0; i < 8; i++) {
        assert_true(queue.desc[i].addr == UINT64_MAX);
        assert_int_equal(queue.desc[i].flags, VIRTQ_DESC_F_WRITE);
        assert_int_equal(queue.used->ring[i].id, UINT32_MAX);
        assert_int_equal(queue.avail->ring[i], i);
    }
}

TEST(two_descriptor_slots_chain_head_and_body)
{
    struct virtqueue queue;
    uint8_t bytes[100];
    queue_make(&queue, (struct virtqueue_config){ .size = 4, .chain_count = 2, .head_bytes = 10 });
    virtqueue_place(&queue, 7, bytes, 100);
    virtqueue_place(&queue, 8, bytes, 64);
    assert_false(virtqueue_has_slot(&queue));
    virtqueue_expose(&queue);
    assert_int_equal(queue.avail->ring[0], 0);
    assert_int_equal(queue.avail->ring[1], 2);
    assert_int_equal(queue.avail->ring[2], 0);
    assert_true(queue.desc[0].addr == (uintptr_t)bytes && queue.desc[0].len == 10);
    assert_int_equal(queue.desc[0].flags, VIRTQ_DESC_F_NEXT);
    assert_int_equal(queue.desc[0].next, 1);
    assert_true(queue.desc[1].addr == (uintptr_t)bytes + 10 && queue.desc[1].len == 90);
    assert_int_equal(queue.desc[1].flags, 0);

    uint32_t written;
    device_uses(&queue, 2, 0);
    assert_int_equal(virtqueue_pending(&queue), 1);
    assert_int_equal(virtqueue_take(&queue, &written), 8);
    device_uses(&queue, 1, 0); /* the second descriptor of a chain is no valid id */
    assert_int_equal(virtqueue_take(&queue, &written), VIRTQUEUE_SLOT_FREE);
    assert_non_null(queue.fault);
}

TEST(slots_come_back_in_any_order)
{
    struct virtqueue queue;
    uint8_t byte;
    uint32_t written;
    queue_make(&queue, (struct virtqueue_config){ .size = 4 });
    for (uint16_t i = 0; i < 4; i++)
        virtqueue_place(&queue, 100 + i, &byte, 1);
    virtqueue_expose(&queue);
    assert_false(virtqueue_has_slot(&queue));
    device_uses(&queue, 2, 5);
    assert_int_equal(virtqueue_take(&queue, &written), 102);
    assert_int_equal(written, 5);
    assert_false(virtqueue_has_slot(&queue)); /* slot 0 is next, and still out */
    device_uses(&queue, 0, 0);
    assert_int_equal(virtqueue_take(&queue, &written), 100);
    assert_true(virtqueue_has_slot(&queue));
    virtqueue_place(&queue, 104, &byte, 1);
    assert_false(virtqueue_has_slot(&queue));
    device_uses(&queue, 3, 0);
    device_uses(&queue, 1, 0);
    device_uses(&queue, 0, 0);
    assert_int_equal(virtqueue_take(&queue, &written), 103);
    assert_int_equal(virtqueue_take(&queue, &written), 101);
    assert_int_equal(virtqueue_take(&queue, &written), 104);
    assert_int_equal(virtqueue_pending(&queue), 0);
    assert_null(queue.fault);
    virtqueue_place(&queue, 105, &byte, 1);
    virtqueue_expose(&queue);
    device_uses(&queue, 0, 0); /* again */
    assert_int_equal(virtqueue_take(&queue, &written), VIRTQUEUE_SLOT_FREE);
    assert_non_null(queue.fault);
}

/* Writes every kind of wrong used entry. Each is a fault, found at once, and final. */
TEST(wrong_used_entries_are_faults)
{
    static const struct {
        uint32_t id;
        uint16_t jump;
    } lies[] = { { 4, 0 }, { 0xffff, 0 }, { 0x10000, 0 }, { UINT32_MAX, 0 },
                 { 3, 0 }, { 0, 2 },      { 0, 0x7fff },  { 0, 0xffff } };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct virtqueue queue;
        uint8_t byte;
        uint32_t written;
        queue_make(&queue, (struct virtqueue_config){ .size = 4 });
        virtqueue_place(&queue, 1, &byte, 1); /* slot 0; 3 is not the device's */
        virtqueue_expose(&queue);
        if (lies[i].jump != 0) {
            queue.used->idx = lies[i].jump;
            assert_int_equal(virtqueue_pending(&queue), 0);
        } else {
            device_uses(&queue, lies[i].id, 0);
            assert_int_equal(virtqueue_pending(&queue), 1);
            assert_int_equal(virtqueue_take(&queue, &written), VIRTQUEUE_SLOT_FREE);
        }
        assert_non_null(queue.fault);
        assert_false(virtqueue_has_slot(&queue));
        model_memory_free_all();
    }
}

/* Returns true if the specification asks for a kick: an entry was written whose index is avail_event. Compares entry by
 * entry. */
static bool kick_by_the_document(uint16_t old, uint16_t count, uint16_t event)
{
    for (uint16_t i = 0; i < count; i++)
        if ((uint16_t)(old + i) == event)
            return true;
    return false;
}

TEST(event_index_is_obeyed_across_the_wrap)
{
    static const uint16_t starts[] = { 0, 1, 5, 0x7ffe, 0x8000, 0xfff9, 0xfffe, 0xffff };
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++)
        for (uint16_t count = 1; count <= 8; count++)
            for (int distance = -12; distance <= 12; distance++) {
                struct virtqueue queue;
                uint8_t byte;
                queue_make(&queue, (struct virtqueue_config){ .size = 8, .event_index = true });
                queue.avail_idx = queue.exposed_idx = queue.used_idx = starts[s];
                uint16_t event = (uint16_t)(starts[s] + distance);
                *(uint16_t *)queue.avail_event = event;
                for (uint16_t i = 0; i < count; i++)
                    virtqueue_place(&queue, i, &byte, 1);
                assert_int_equal(virtqueue_expose(&queue), kick_by_the_document(starts[s], count, event));
                assert_int_equal(queue.avail->idx, (uint16_t)(starts[s] + count));
                model_memory_free_all();
            }
}

TEST(without_event_index_the_flag_decides)
{
    struct virtqueue queue;
    uint8_t byte;
    queue_make(&queue, (struct virtqueue_config){ .size = 8 });
    assert_int_equal(queue.avail->flags, VIRTQ_AVAIL_F_NO_INTERRUPT);
    *(uint16_t *)queue.avail_event = 77; /* §2.7.10.1: to be ignored */
    virtqueue_place(&queue, 1, &byte, 1);
    assert_true(virtqueue_expose(&queue));
    queue.used->flags = VIRTQ_USED_F_NO_NOTIFY;
    virtqueue_place(&queue, 2, &byte, 1);
    assert_false(virtqueue_expose(&queue));
}

TEST(wake_asks_for_the_next_entry_and_quiet_for_none)
{
    for (int event_index = 0; event_index < 2; event_index++)
        for (uint32_t start = 0xfffe; start <= 0x10001; start++) {
            struct virtqueue queue;
            uint8_t byte;
            uint32_t written;
            queue_make(&queue, (struct virtqueue_config){ .size = 4, .event_index = event_index });
            queue.avail_idx = queue.exposed_idx = queue.used_idx = queue.used->idx = (uint16_t)start;
            virtqueue_place(&queue, 1, &byte, 1);
            virtqueue_expose(&queue);
            const uint16_t *used_event = &queue.avail->ring[4];
            assert_true(virtqueue_wake(&queue));
            assert_int_equal(queue.avail->flags, 0);
            if (event_index)
                assert_int_equal(*used_event, (uint16_t)start);
            virtqueue_quiet(&queue);
            if (event_index)
                assert_int_equal((uint16_t)(*used_event - start), 0x8000);
            else
                assert_int_equal(queue.avail->flags, VIRTQ_AVAIL_F_NO_INTERRUPT);
            device_uses(&queue, start & 3, 0);
            assert_false(virtqueue_wake(&queue)); /* an entry came before: the driver must not sleep now */
            assert_int_equal(virtqueue_take(&queue, &written), 1);
            assert_true(virtqueue_wake(&queue));
            model_memory_free_all();
        }
}

/* A driver and a device on two CPUs. If the device finds the ring empty, it asks to be woken and then sleeps, as the
 * specification describes. A lost kick would leave both waiting. On a busy machine, where each waits for the processor,
 * the run ends after ROUNDS_S_MAX. */
enum { SLEEP_ROUNDS = 400000, ROUNDS_S_MAX = 10, ASLEEP_S_MAX = 20 };
struct sleeper {
    struct virtqueue queue;
    uint32_t rounds;
    uint32_t kicks; /* raised by the driver, taken by the device */
    bool lost;
};

static void *sleeper_device(void *argument)
{
    struct sleeper *s = argument;
    struct virtqueue *queue = &s->queue;
    uint16_t taken = 0;
    for (uint32_t done = 0; done < __atomic_load_n(&s->rounds, __ATOMIC_ACQUIRE);) {
        if (__atomic_load_n(&queue->avail->idx, __ATOMIC_ACQUIRE) != taken) {
            device_publishes(queue, queue->avail->ring[taken++ & (queue->size - 1)],
                             0); /* the driver writes meanwhile */
            done++;
            continue;
        }
        __atomic_store_n((uint16_t *)queue->avail_event, taken, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&queue->avail->idx, __ATOMIC_SEQ_CST) != taken)
            continue;
        time_t asleep_from = time(NULL);
        for (uint64_t naps = 0; __atomic_exchange_n(&s->kicks, 0, __ATOMIC_ACQ_REL) == 0; naps++) {
            sched_yield();
            if (done >= __atomic_load_n(&s->rounds, __ATOMIC_ACQUIRE))
                return NULL;
            if ((naps > 2000000 && time(NULL) > asleep_from + ASLEEP_S_MAX)
                || __atomic_load_n(&s->lost, __ATOMIC_RELAXED)) {
                __atomic_store_n(&s->lost, true, __ATOMIC_RELAXED);
                return NULL;
            }
        }
    }
    return NULL;
}

TEST(no_kick_is_lost_between_two_cpus)
{
    static struct sleeper s;
    static uint8_t byte;
    pthread_t device;
    memset(&s, 0, sizeof s);
    s.rounds = SLEEP_ROUNDS;
    queue_make(&s.queue, (struct virtqueue_config){ .size = 4, .event_index = true });
    time_t end = time(NULL) + ROUNDS_S_MAX;
    pthread_create(&device, NULL, sleeper_device, &s);
    for (uint32_t i = 0; i < s.rounds && !__atomic_load_n(&s.lost, __ATOMIC_RELAXED);) {
        if (time(NULL) > end)
            __atomic_store_n(&s.rounds, i, __ATOMIC_RELEASE);
        uint32_t written;
        while (virtqueue_pending(&s.queue))
            virtqueue_take(&s.queue, &written);
        if (!virtqueue_has_slot(&s.queue)) {
            sched_yield();
            continue;
        }
        virtqueue_place(&s.queue, 1, &byte, 1);
        /* virtqueue_expose alone needs its barrier so rarely that a test would hardly find a missing one. */
        if (i % 2 == 0 ? virtqueue_expose(&s.queue) : virtqueue_expose_fenced(&s.queue))
            __atomic_store_n(&s.kicks, 1, __ATOMIC_RELEASE);
        i++;
    }
    pthread_join(device, NULL);
    assert_false(s.lost);
    assert_null(s.queue.fault);
}
