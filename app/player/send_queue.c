#include "app/player/send_queue.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"

enum { ENTRY_ALIGN = alignof(struct send_queue_entry) };

/* A filler may be as short as the alignment: only its first fields are used. */
static_assert(offsetof(struct send_queue_entry, dropped) < ENTRY_ALIGN, "a filler holds bytes and dropped");
static_assert(SEND_QUEUE_BYTES % ENTRY_ALIGN == 0, "entries stay aligned past the ring's end");

/* A place is a count of bytes, which only grows while the queue is in use; its remainder is the offset in the ring. An
 * entry lies in one piece: where one does not fit before the ring's end, a dropped filler takes the rest. Dropped
 * entries that follow one another become one, so that the oldest place passes any number of them in one step; `dropped`
 * is the place of the last one. */
static struct {
    uint64_t oldest, next, end, dropped;
    uint32_t waiting, unanswered;
    alignas(64) uint8_t ring[SEND_QUEUE_BYTES];
} queue;

static struct send_queue_entry *entry_at(uint64_t place)
{
    return (struct send_queue_entry *)(queue.ring + place % SEND_QUEUE_BYTES);
}

void send_queue_init(void)
{
    queue.oldest = queue.next = queue.end = queue.dropped = 0;
    queue.waiting = queue.unanswered = 0;
}

void send_queue_check(void)
{
    ASSERT(queue.oldest <= queue.next && queue.next <= queue.end);
    ASSERT(queue.end - queue.oldest <= SEND_QUEUE_BYTES);
    ASSERT(queue.oldest % ENTRY_ALIGN == 0 && queue.next % ENTRY_ALIGN == 0 && queue.end % ENTRY_ALIGN == 0);
    ASSERT(queue.waiting <= (queue.end - queue.next) / sizeof(struct send_queue_entry));
    ASSERT(queue.unanswered <= (queue.next - queue.oldest) / sizeof(struct send_queue_entry));
}

uint32_t send_queue_used_bytes(void) { return (uint32_t)(queue.end - queue.oldest); }

static uint32_t entry_bytes(size_t count)
{
    return (uint32_t)((sizeof(struct send_queue_entry) + count + ENTRY_ALIGN - 1) / ENTRY_ALIGN * ENTRY_ALIGN);
}

/* Moves the next place past a dropped entry, which becomes part of the entry before if that one is dropped, too. */
static void pass_dropped(void)
{
    struct send_queue_entry *before = entry_at(queue.dropped), *entry = entry_at(queue.next);
    ASSERT(entry->dropped);
    bool follows = queue.dropped >= queue.oldest && before->dropped && queue.dropped + before->bytes == queue.next;
    queue.next += entry->bytes;
    if (follows)
        before->bytes += entry->bytes;
    else
        queue.dropped = queue.next - entry->bytes;
}

static void skip_dropped_oldest(void)
{
    while (queue.oldest < queue.next && entry_at(queue.oldest)->dropped)
        queue.oldest += entry_at(queue.oldest)->bytes;
}

/* Returns the bytes to fill before the ring's end so that an entry lies in one piece. */
static uint64_t filler_bytes(uint32_t bytes)
{
    uint64_t to_edge = SEND_QUEUE_BYTES - queue.end % SEND_QUEUE_BYTES;
    return to_edge < bytes ? to_edge : 0;
}

bool send_queue_has_room(size_t count)
{
    ASSERT(count <= UINT16_MAX);
    uint32_t bytes = entry_bytes(count);
    skip_dropped_oldest();
    return queue.end + filler_bytes(bytes) + bytes - queue.oldest <= SEND_QUEUE_BYTES;
}

bool send_queue_append(const uint8_t *digits, size_t count, uint64_t now_ns)
{
    if (!send_queue_has_room(count))
        return false;
    uint32_t bytes = entry_bytes(count);
    uint64_t filler = filler_bytes(bytes);
    if (filler) {
        struct send_queue_entry *rest = entry_at(queue.end);
        rest->bytes = (uint32_t)filler;
        rest->dropped = true;
        queue.end += filler;
    }
    struct send_queue_entry *entry = entry_at(queue.end);
    entry->offered_ns = now_ns;
    entry->sent_ns = 0;
    entry->bytes = bytes;
    entry->count = (uint16_t)count;
    entry->dropped = false;
    memcpy(entry->digits, digits, count);
    queue.end += bytes;
    queue.waiting++;
    return true;
}

struct send_queue_entry *send_queue_next(void)
{
    while (queue.next < queue.end && entry_at(queue.next)->dropped)
        pass_dropped();
    return queue.next < queue.end ? entry_at(queue.next) : NULL;
}

void send_queue_sent(uint64_t now_ns, uint64_t stream_end)
{
    struct send_queue_entry *entry = send_queue_next();
    ASSERT(entry);
    entry->sent_ns = now_ns;
    entry->stream_end = stream_end;
    queue.next += entry->bytes;
    queue.waiting--;
    queue.unanswered++;
}

void send_queue_drop(void)
{
    struct send_queue_entry *entry = send_queue_next();
    ASSERT(entry);
    entry->dropped = true;
    pass_dropped();
    queue.waiting--;
}

struct send_queue_entry *send_queue_oldest(void)
{
    skip_dropped_oldest();
    return queue.oldest < queue.next ? entry_at(queue.oldest) : NULL;
}

void send_queue_remove_oldest(void)
{
    struct send_queue_entry *entry = send_queue_oldest();
    ASSERT(entry);
    queue.oldest += entry->bytes;
    queue.unanswered--;
    if (queue.oldest == queue.end)
        queue.oldest = queue.next = queue.end = queue.dropped = 0; /* empty: keep using the same, warm lines */
}

bool send_queue_send_oldest_again(void)
{
    const struct send_queue_entry *entry = send_queue_oldest();
    ASSERT(entry);
    uint64_t place = queue.end + filler_bytes(entry_bytes(entry->count));
    bool fits = send_queue_append(entry->digits, entry->count, entry->offered_ns);
    if (fits)
        entry_at(place)->sent_ns = entry->sent_ns;
    send_queue_remove_oldest();
    return fits;
}

void send_queue_take_back(void)
{
    ASSERT(queue.oldest <= queue.next);
    queue.next = queue.oldest;
    queue.waiting += queue.unanswered;
    queue.unanswered = 0;
    send_queue_check();
}

uint32_t send_queue_waiting_count(void) { return queue.waiting; }
uint32_t send_queue_unanswered_count(void) { return queue.unanswered; }
