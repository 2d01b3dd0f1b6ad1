#include "app/service/rehearsal.h"

#include <string.h>

#include "app/service/settings.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "base/trace.h"

enum {
    PART_FETCH = TRANSPORT_REHEARSAL_KIND_COUNT, /* the parts before are the frames */
    PART_WORK,
    PART_COUNT,
};

static struct {
    struct transport_rehearsal frames[TRANSPORT_REHEARSAL_KIND_COUNT];
    /* NULL for a frame that the stack answers itself, and for work that is not there. */
    bool (*plays[PART_COUNT])(uint64_t now_ns);
    uint64_t done_ns[PART_COUNT]; /* when each part was last played; 0: never */
    size_t next;
    uint64_t next_ns;
    bool busy; /* the latest turn had work */
} rehearsal;

struct rehearsal_counters rehearsal_counters;
const struct counter_group rehearsal_counter_group = COUNTER_GROUP("rehearsal.", "Rehearsals", REHEARSAL_COUNTERS,
                                                                   rehearsal_counters);
struct histogram rehearsal_age;

/* ---- The stack's own ---- */

/* Fetches the path's code, and the stack's memory. */
static bool fetch(uint64_t now_ns)
{
    (void)now_ns;
    hot_fetch_code();
    transport_warm();
    return true;
}

static bool answer_datagram(uint64_t now_ns)
{
    struct transport_event event;
    if (!transport_poll(now_ns, &event))
        return false;
    return transport_udp_send(event.port, event.address, event.peer_port, event.payload.data, event.payload.count,
                              now_ns);
}

/* Answers with a message that is prepared first. */
static bool answer_segment(uint64_t now_ns)
{
    struct transport_event event;
    uint8_t *message = transport_poll(now_ns, &event) ? transport_message(event.connection) : NULL;
    if (message == NULL)
        return false;
    const uint32_t bytes = (uint32_t)event.payload.count;
    memcpy(message, event.payload.data, bytes);
    transport_message_prepare(event.connection, 0, bytes / 2);
    return transport_send(event.connection, 0, bytes, now_ns);
}

/* ---- Parts and slices ---- */

void rehearsal_init(void)
{
    static const char line[] = "a line of text that comes from nowhere, and is summed and copied";
    memset(&rehearsal, 0, sizeof rehearsal);
    memset(&rehearsal_counters, 0, sizeof rehearsal_counters);
    histogram_clear(&rehearsal_age);
    for (unsigned kind = 0; kind < TRANSPORT_REHEARSAL_KIND_COUNT; kind++)
        rehearsal.frames[kind] = (struct transport_rehearsal){
            .kind = (enum transport_rehearsal_kind)kind,
            .port = 1,
            .payload = { (const uint8_t *)line, sizeof line - 1 },
        };
    rehearsal.plays[TRANSPORT_REHEARSAL_DATAGRAM] = answer_datagram;
    rehearsal.plays[TRANSPORT_REHEARSAL_SEGMENT] = answer_segment;
    rehearsal.plays[PART_FETCH] = fetch;
}

void rehearsal_add_frame(enum transport_rehearsal_kind kind, uint16_t port, struct bytes payload,
                         bool (*play)(uint64_t now_ns))
{
    ASSERT(kind == TRANSPORT_REHEARSAL_DATAGRAM || kind == TRANSPORT_REHEARSAL_SEGMENT);
    ASSERT(payload.count <= TRANSPORT_MESSAGE_BYTES_MAX);
    rehearsal.frames[kind].port = port;
    if (payload.count > 0)
        rehearsal.frames[kind].payload = payload;
    rehearsal.plays[kind] = play;
}

void rehearsal_add_work(bool (*work)(uint64_t now_ns)) { rehearsal.plays[PART_WORK] = work; }

static void part_run(size_t part, uint64_t now_ns)
{
    bool (*const play)(uint64_t) = rehearsal.plays[part];
    const bool has_frame = part < TRANSPORT_REHEARSAL_KIND_COUNT;
    if (has_frame && !transport_rehearsal_begin(&rehearsal.frames[part], now_ns)) {
        rehearsal_counters.refused_stack++;
        return;
    }
    const bool played = play == NULL || play(now_ns);
    if (has_frame)
        transport_rehearsal_end(now_ns);
    if (!played) {
        rehearsal_counters.refused_program++;
        return;
    }
    rehearsal_counters.done++;
    rehearsal.done_ns[part] = now_ns;
}

/* Records how long the path has rested when an event comes after a pause: the age of the part that was played first. */
static void record_age(uint64_t now_ns)
{
    uint64_t oldest_ns = UINT64_MAX;
    for (size_t part = 0; part < PART_COUNT; part++)
        if (rehearsal.done_ns[part] != 0 && rehearsal.done_ns[part] < oldest_ns)
            oldest_ns = rehearsal.done_ns[part];
    if (oldest_ns <= now_ns)
        histogram_add(&rehearsal_age, now_ns - oldest_ns);
}

void rehearsal_poll(bool idle, uint64_t now_ns)
{
    const bool due = now_ns >= rehearsal.next_ns, was_busy = rehearsal.busy;
    rehearsal.busy = !idle;
    if (!idle && !was_busy)
        record_age(now_ns);
    if (idle && !due)
        return;
    rehearsal.next_ns = now_ns + REHEARSAL_SLICE_NS;
    if (service_settings.wait == SERVICE_WAIT_SLEEP) {
        rehearsal_counters.refused_sleep += due;
        return;
    }
    if (!idle) {
        rehearsal_counters.refused_busy += due;
        return;
    }
    trace_work(TRACE_WORK_WARM);
    if (rehearsal.next == PART_WORK && rehearsal.plays[PART_WORK] == NULL)
        rehearsal.next = 0; /* the program has none */
    part_run(rehearsal.next, now_ns);
    rehearsal.next = (rehearsal.next + 1) % PART_COUNT;
}
