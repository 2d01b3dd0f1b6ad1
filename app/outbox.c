#include "app/outbox.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "kernel/base/assert.h"

enum { ENTRY_ALIGN = alignof(struct outbox_entry) };

/* A filler may be as short as the alignment; of it only the first fields are used. */
static_assert(offsetof(struct outbox_entry, dropped) < ENTRY_ALIGN, "a filler holds bytes and dropped");
static_assert(OUTBOX_BYTES % ENTRY_ALIGN == 0, "entries stay aligned past the ring's end");

/* Places are counted in bytes from the start of time and fall into the ring by their remainder. An entry lies in one
 * piece: where one does not fit before the ring's end, a dropped filler takes the rest. */
static struct {
    uint64_t oldest, next, end;
    uint32_t waiting, unanswered;
    alignas(64) uint8_t ring[OUTBOX_BYTES];
} outbox;

static struct outbox_entry *entry_at(uint64_t place)
{
    return (struct outbox_entry *)(outbox.ring + place % OUTBOX_BYTES);
}

void outbox_init(void)
{
    outbox.oldest = outbox.next = outbox.end = 0;
    outbox.waiting = outbox.unanswered = 0;
}

uint32_t outbox_used_bytes(void) { return (uint32_t)(outbox.end - outbox.oldest); }

static uint32_t entry_bytes(size_t count)
{
    return (uint32_t)((sizeof(struct outbox_entry) + count + ENTRY_ALIGN - 1) / ENTRY_ALIGN * ENTRY_ALIGN);
}

/* Steps over what was dropped. The oldest place never passes the next one. */
static void skip_dropped(uint64_t *place, uint64_t limit)
{
    while (*place < limit && entry_at(*place)->dropped)
        *place += entry_at(*place)->bytes;
}

/* What must be filled before the ring's end so that an entry lies in one piece. */
static uint64_t filler_bytes(uint32_t bytes)
{
    uint64_t to_edge = OUTBOX_BYTES - outbox.end % OUTBOX_BYTES;
    return to_edge < bytes ? to_edge : 0;
}

bool outbox_has_room(size_t count)
{
    uint32_t bytes = entry_bytes(count);
    skip_dropped(&outbox.oldest, outbox.next);
    return outbox.end + filler_bytes(bytes) + bytes - outbox.oldest <= OUTBOX_BYTES;
}

bool outbox_put(const uint8_t *digits, size_t count, uint64_t now_ns)
{
    if (!outbox_has_room(count))
        return false;
    uint32_t bytes = entry_bytes(count);
    uint64_t filler = filler_bytes(bytes);
    if (filler) {
        struct outbox_entry *rest = entry_at(outbox.end);
        rest->bytes = (uint32_t)filler;
        rest->dropped = true;
        outbox.end += filler;
    }
    struct outbox_entry *entry = entry_at(outbox.end);
    entry->offered_ns = now_ns;
    entry->sent_ns = 0;
    entry->bytes = bytes;
    entry->count = (uint16_t)count;
    entry->dropped = false;
    memcpy(entry->digits, digits, count);
    outbox.end += bytes;
    outbox.waiting++;
    return true;
}

struct outbox_entry *outbox_next(void)
{
    skip_dropped(&outbox.next, outbox.end);
    return outbox.next < outbox.end ? entry_at(outbox.next) : NULL;
}

void outbox_sent(uint64_t now_ns, uint64_t stream_end)
{
    struct outbox_entry *entry = outbox_next();
    ASSERT(entry);
    entry->sent_ns = now_ns;
    entry->stream_end = stream_end;
    outbox.next += entry->bytes;
    outbox.waiting--;
    outbox.unanswered++;
}

void outbox_drop(void)
{
    struct outbox_entry *entry = outbox_next();
    ASSERT(entry);
    entry->dropped = true;
    outbox.next += entry->bytes;
    outbox.waiting--;
}

struct outbox_entry *outbox_oldest(void)
{
    skip_dropped(&outbox.oldest, outbox.next);
    return outbox.oldest < outbox.next ? entry_at(outbox.oldest) : NULL;
}

void outbox_answered(void)
{
    struct outbox_entry *entry = outbox_oldest();
    ASSERT(entry);
    outbox.oldest += entry->bytes;
    outbox.unanswered--;
    if (outbox.oldest == outbox.end)
        outbox.oldest = outbox.next = outbox.end = 0;   /* empty: keep using the same, warm lines */
}

void outbox_take_back(void)
{
    outbox.next = outbox.oldest;
    outbox.waiting += outbox.unanswered;
    outbox.unanswered = 0;
}

uint32_t outbox_waiting_count(void) { return outbox.waiting; }
uint32_t outbox_unanswered_count(void) { return outbox.unanswered; }
