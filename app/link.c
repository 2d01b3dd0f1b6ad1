#include "app/link.h"

#include <string.h>

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"

static struct link *owners[TRANSPORT_CONNECTION_COUNT_MAX];

struct link_counters link_counters;
static const struct counter link_counter_table[] = {
    COUNTER("link.", link_counters, attempts),
    COUNTER("link.", link_counters, connected),
    COUNTER("link.", link_counters, lost_closed),
    COUNTER("link.", link_counters, lost_refused),
    COUNTER("link.", link_counters, lost_reset),
    COUNTER("link.", link_counters, lost_timed_out),
    COUNTER("link.", link_counters, lost_unreachable),
    COUNTER("link.", link_counters, left),
};
const struct counter_group link_counter_group = { link_counter_table, ARRAY_COUNT(link_counter_table) };

void link_init_all(void)
{
    memset(owners, 0, sizeof owners);
    memset(&link_counters, 0, sizeof link_counters);
}

void link_init(struct link *link, const char *name, const struct settings_endpoint *to)
{
    *link = (struct link){ .name = name, .to = *to, .state = LINK_DOWN, .connection = -1 };
}

struct link *link_of(int connection)
{
    ASSERT(connection >= 0 && connection < TRANSPORT_CONNECTION_COUNT_MAX);
    return owners[connection];
}

/* The first failure in a row is retried at once, since a server that closed has most likely just restarted or shed
 * load; then 10 ms, 20 ms, ... 1 s. At most one line a second tells of it. */
static void went_down(struct link *link, const char *why, uint64_t now_ns)
{
    if (link->state == LINK_UP && now_ns - link->since_ns >= LINK_STABLE_NS)
        link->failures = 0;
    else if (link->state == LINK_UP && link->useful && link->failures > 0)
        link->failures = 1;
    owners[link->connection] = NULL;
    link->connection = -1;
    link->state = LINK_DOWN;
    link->since_ns = now_ns;

    uint64_t delay_ns = link->failures == 0 ? 0 : LINK_RETRY_MAX_NS;
    if (link->failures > 0 && link->failures < 8)
        delay_ns = (uint64_t)LINK_RETRY_FIRST_NS << (link->failures - 1);
    if (delay_ns > LINK_RETRY_MAX_NS)
        delay_ns = LINK_RETRY_MAX_NS;
    link->retry_ns = now_ns + delay_ns;
    link->failures++;

    if (link->logged_ns && now_ns - link->logged_ns < 1000000000) {
        link->unlogged++;
        return;
    }
    uint32_t a = link->to.address;
    if (link->unlogged)
        log_line("%s %u.%u.%u.%u:%u: %s, retrying (%u times more since this was last said)", link->name, a >> 24,
                 a >> 16 & 255, a >> 8 & 255, a & 255, link->to.port, why, link->unlogged);
    else
        log_line("%s %u.%u.%u.%u:%u: %s, retrying", link->name, a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255,
                 link->to.port, why);
    link->logged_ns = now_ns;
    link->unlogged = 0;
}

void link_tend(struct link *link, uint64_t now_ns)
{
    if (link->state == LINK_CONNECTING && now_ns - link->since_ns >= LINK_CONNECT_TIMEOUT_NS) {
        link_leave(link, "no answer to the connection request", false, now_ns);
    } else if (link->state == LINK_DOWN && now_ns >= link->retry_ns && transport_network()->up) {
        int connection = transport_connect(link->to.address, link->to.port, now_ns);
        if (connection < 0) {
            link->retry_ns = now_ns + LINK_RETRY_FIRST_NS;      /* old ones are still closing */
            return;
        }
        ASSERT(link_of(connection) == NULL);
        owners[connection] = link;
        link->connection = connection;
        link->state = LINK_CONNECTING;
        link->since_ns = now_ns;
        link_counters.attempts++;
    }
}

void link_connected(struct link *link, uint64_t now_ns)
{
    ASSERT(link->state == LINK_CONNECTING);
    link->state = LINK_UP;
    link->useful = false;
    link->since_ns = now_ns;
    link_counters.connected++;
}

void link_closed(struct link *link, enum transport_reason reason, uint64_t now_ns)
{
    ASSERT(link->state != LINK_DOWN);
    static const char *const names[] = {
        [TRANSPORT_DONE] = "closed", [TRANSPORT_REFUSED] = "refused", [TRANSPORT_RESET] = "reset",
        [TRANSPORT_TIMED_OUT] = "timed out", [TRANSPORT_ABORTED] = "aborted", [TRANSPORT_UNREACHABLE] = "unreachable",
    };
    ASSERT(reason < ARRAY_COUNT(names));
    uint64_t *counters[] = {
        [TRANSPORT_DONE] = &link_counters.lost_closed, [TRANSPORT_REFUSED] = &link_counters.lost_refused,
        [TRANSPORT_RESET] = &link_counters.lost_reset, [TRANSPORT_TIMED_OUT] = &link_counters.lost_timed_out,
        [TRANSPORT_ABORTED] = &link_counters.left, [TRANSPORT_UNREACHABLE] = &link_counters.lost_unreachable,
    };
    ++*counters[reason];
    went_down(link, names[reason], now_ns);
}

void link_leave(struct link *link, const char *why, bool in_order, uint64_t now_ns)
{
    ASSERT(link->state != LINK_DOWN);
    link_counters.left++;
    int connection = link->connection;
    went_down(link, why, now_ns);
    if (in_order)
        transport_close(connection, now_ns);
    else
        transport_abort(connection, now_ns);
}

uint64_t link_wake_ns(const struct link *link)
{
    switch (link->state) {
    case LINK_DOWN: return link->retry_ns;
    case LINK_CONNECTING: return link->since_ns + LINK_CONNECT_TIMEOUT_NS;
    default: return UINT64_MAX;
    }
}
