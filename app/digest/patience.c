/* The times of a connection: the functions of connection.h that say if it is idle, slow or overdue. */
#include "app/digest/connection.h"

#include "app/digest/settings.h"
#include "base/assert.h"
#include "base/time.h"

bool digest_connection_is_idle(const struct connection *c, uint64_t now_ns)
{
    ASSERT(c->phase != CONNECTION_FREE && c->progress_ns <= now_ns);
    return c->phase == CONNECTION_HEAD && c->in_count == 0
           && now_ns - c->progress_ns >= (c->has_asked ? NS_PER_S : NS_PER_S / 2);
}

uint64_t digest_connection_begun_ns(const struct connection *c)
{
    ASSERT(c->phase != CONNECTION_FREE);
    return c->request_ns != 0 ? c->begun_ns : c->progress_ns;
}

void digest_connection_stall(struct connection *c, uint64_t stall_ns, uint64_t now_ns)
{
    uint64_t *const times[] = { &c->begun_ns, &c->progress_ns, &c->acked_ns, &c->ended_ns, &c->period_begins_ns };
    ASSERT(c->phase != CONNECTION_FREE && stall_ns <= now_ns);
    for (size_t i = 0; i < ARRAY_COUNT(times); i++)
        *times[i] = min_size(*times[i] + stall_ns, now_ns);
}

/* Returns true if a body comes more slowly than CONNECTION_BODY_RATE_MIN. Begins the next period if it does not. */
static bool is_too_slow(struct connection *c, uint64_t now_ns)
{
    const uint64_t period_ns = now_ns - c->period_begins_ns;
    const uint64_t bytes = c->body_bytes + (c->pieces.in_parts ? c->in_count : 0); /* a part is awaited */
    ASSERT(c->phase == CONNECTION_BODY && c->period_bytes <= bytes);
    if (period_ns < digest_settings.client_timeout_ns)
        return false;
    if ((bytes - c->period_bytes) * NS_PER_S < CONNECTION_BODY_RATE_MIN * period_ns)
        return true;
    c->period_begins_ns = now_ns;
    c->period_bytes = bytes;
    return false;
}

bool digest_connection_is_overdue(struct connection *c, uint64_t now_ns)
{
    ASSERT(c->phase != CONNECTION_FREE && c->progress_ns <= now_ns);
    if (c->dropped)
        return false;
    if (c->phase == CONNECTION_CHAIN)
        return c->ended && now_ns - c->ended_ns >= digest_settings.client_timeout_ns;
    if (c->expired) /* 408 is on its way */
        return now_ns - c->progress_ns >= NS_PER_S
               || (c->phase == CONNECTION_LEAVING && digest_connection_messages_out(c, now_ns) == 0);
    return now_ns - c->progress_ns >= digest_settings.client_timeout_ns
           || (c->phase == CONNECTION_BODY && is_too_slow(c, now_ns));
}
