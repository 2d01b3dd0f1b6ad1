/* What happened and has not been told yet.
 *
 * lwIP calls back from inside its input and its timers. Each callback only notes here what happened and returns;
 * transport_poll hands the events out one by one, and looks at the next frame when there is none left. So nothing of the
 * application runs inside lwIP, and the queue is bounded by what one frame can cause. */
#include "net/lwip/port.h"

#include "kernel/base/assert.h"

enum {
    /* At most one event of each of CONNECTED or ACCEPTED, DATA, ENDED and CLOSED is queued for a connection: a frame is
     * looked at only when the queue is empty, and it is for one connection; timers and calls of the application only
     * ever close. One DATAGRAM. The next power of two. */
    EVENT_COUNT = 128,
};
_Static_assert(EVENT_COUNT >= 4 * TRANSPORT_CONNECTION_COUNT_MAX + 1, "see above");

static struct queued_event events[EVENT_COUNT];
static uint32_t first, count;
static struct pbuf *lent;               /* what the application looks at until the next transport_poll */

struct queued_event *events_add(enum transport_event_kind kind)
{
    ASSERT(count < EVENT_COUNT);
    struct queued_event *queued = &events[(first + count++) % EVENT_COUNT];
    if (count > port_counters.events_max)
        port_counters.events_max = count;
    *queued = (struct queued_event){.event = {.kind = kind, .connection = -1}};
    return queued;
}

bool events_waiting(void) { return count > 0; }

void events_forget(int connection)
{
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

static void lent_take_back(void)
{
    if (lent != NULL)
        pbuf_free(lent);
    lent = NULL;
}

/* The first pbuf of the event's chain is lent; the rest stays for the next time. */
static void chain_lend(struct queued_event *queued, struct transport_event *event)
{
    lent = queued->chain;
    event->data = lent->payload;
    event->bytes = lent->len;
    queued->chain = lent->next;
    if (queued->chain != NULL)
        pbuf_ref(queued->chain);        /* pbuf_dechain lets go of the rest on lent's behalf */
    pbuf_dechain(lent);
}

bool events_take(struct transport_event *event)
{
    lent_take_back();
    while (count > 0) {
        struct queued_event *queued = &events[first];
        *event = queued->event;
        if (queued->chain != NULL)
            chain_lend(queued, event);
        if (queued->chain == NULL) {
            first = (first + 1) % EVENT_COUNT;
            count--;
        }
        bool is_empty_data = event->kind == TRANSPORT_DATA && event->bytes == 0;
        if (event->kind != TRANSPORT_NONE && !is_empty_data)
            return true;
        lent_take_back();
    }
    return false;
}
