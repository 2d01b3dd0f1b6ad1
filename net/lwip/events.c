/* The queue of events that transport_poll has not returned yet.
 *
 * lwIP calls back from inside its input and its timers. Each callback only adds an event here and returns.
 * transport_poll returns the events one by one, and takes the next frame when the queue is empty. Thus no application
 * code runs inside lwIP, and the events that one frame can cause bound the queue. */
#include "net/lwip/port.h"

#include "base/assert.h"

enum {
    /* A connection has at most five events in the queue: CONNECTED or ACCEPTED, DATA, ENDED, CLOSED, and DATA again if
     * it was held. A frame is taken only when the queue is empty, and belongs to one connection. Timers and calls of
     * the application add only CLOSED, and what was held. One DATAGRAM comes on top. The size is the next power of two.
     */
    EVENT_COUNT = 128,
};
_Static_assert(EVENT_COUNT >= 5 * TRANSPORT_CONNECTION_COUNT_MAX + 1, "see above");

static struct queued_event events[EVENT_COUNT];
static uint32_t first, count;
static struct pbuf *borrowed; /* the pbuf that the application reads until the next transport_poll */

struct queued_event *events_add(enum transport_event_kind kind)
{
    ASSERT(count < EVENT_COUNT);
    struct queued_event *queued = &events[(first + count++) % EVENT_COUNT];
    if (count > port_counters.events_max)
        port_counters.events_max = count;
    *queued = (struct queued_event){ .event = { .kind = kind, .connection = -1 } };
    return queued;
}

bool events_waiting(void) { return count > 0; }

void events_forget(int connection)
{
    ASSERT(connection >= 0 && connection < TRANSPORT_CONNECTION_COUNT_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct queued_event *queued = &events[(first + i) % EVENT_COUNT];
        if (queued->event.connection != connection)
            continue;
        if (queued->chain != NULL)
            pbuf_free(queued->chain);
        queued->chain = NULL;
        queued->event.kind = TRANSPORT_NONE;
    }
}

struct pbuf *events_set_aside(int connection, bool *ended, bool *done)
{
    struct pbuf *chain = NULL;
    ASSERT(connection >= 0 && connection < TRANSPORT_CONNECTION_COUNT_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct queued_event *queued = &events[(first + i) % EVENT_COUNT];
        if (queued->event.connection != connection)
            continue;
        if (queued->event.kind == TRANSPORT_DATA && queued->chain != NULL) {
            if (chain == NULL)
                chain = queued->chain;
            else
                pbuf_cat(chain, queued->chain);
            queued->chain = NULL;
            queued->event.kind = TRANSPORT_NONE;
        } else if (queued->event.kind == TRANSPORT_ENDED) {
            *ended = true;
            queued->event.kind = TRANSPORT_NONE;
        } else if (queued->event.kind == TRANSPORT_CLOSED && queued->event.reason == TRANSPORT_DONE) {
            *done = true;
            queued->event.kind = TRANSPORT_NONE;
        }
    }
    return chain;
}

static void borrowed_free(void)
{
    if (borrowed != NULL)
        pbuf_free(borrowed);
    borrowed = NULL;
}

/* Hands out the first pbuf of the event's chain. The rest stays in the queue for the next call. */
static void chain_hand_out(struct queued_event *queued, struct transport_event *event)
{
    ASSERT(borrowed == NULL);
    borrowed = queued->chain;
    event->payload.data = borrowed->payload;
    event->payload.count = borrowed->len;
    queued->chain = borrowed->next;
    if (queued->chain != NULL)
        pbuf_ref(queued->chain); /* pbuf_dechain drops the reference that the first pbuf had to the rest */
    pbuf_dechain(borrowed);
    ASSERT(borrowed->next == NULL);
}

bool events_take(struct transport_event *event)
{
    ASSERT(first < EVENT_COUNT && count <= EVENT_COUNT);
    borrowed_free();
    while (count > 0) {
        struct queued_event *queued = &events[first];
        *event = queued->event;
        if (queued->chain != NULL)
            chain_hand_out(queued, event);
        if (queued->chain == NULL) {
            first = (first + 1) % EVENT_COUNT;
            count--;
        }
        bool is_empty_data = event->kind == TRANSPORT_DATA && event->payload.count == 0;
        if (event->kind != TRANSPORT_NONE && !is_empty_data)
            return true;
        borrowed_free();
    }
    return false;
}
