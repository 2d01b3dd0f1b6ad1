#include "app/player/session.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"

_Alignas(64) struct session_owner session_owners[TRANSPORT_CONNECTION_COUNT_MAX];

/* Connections that we have closed and the server has not, the oldest first. */
static struct left {
    int connection;
    struct session *session; /* the connection's before, for the log */
    uint64_t since_ns;
} left[SESSION_LEFT_COUNT_MAX];
static unsigned left_count;

struct session_counters session_counters;
const struct counter_group session_counter_group = COUNTER_GROUP("session.", "Connections kept up", SESSION_COUNTERS,
                                                                 session_counters);

void session_init_all(void)
{
    memset(session_owners, 0, sizeof session_owners);
    left_count = 0;
    memset(&session_counters, 0, sizeof session_counters);
}

void session_init(struct session *session, const char *name, struct session_owner owner, const struct endpoint *to)
{
    ASSERT(owner.kind != SESSION_OF_NOBODY);
    *session = (struct session){ .name = name, .owner = owner, .to = *to, .state = SESSION_DOWN, .connection = -1 };
}

static bool is_owned(int connection) { return session_owners[connection].kind != SESSION_OF_NOBODY; }

void session_check(const struct session *session)
{
    ASSERT((session->state == SESSION_DOWN) == (session->connection == -1));
    ASSERT(session->connection < TRANSPORT_CONNECTION_COUNT_MAX);
    if (session->connection >= 0) {
        struct session_owner owner = session_owners[session->connection];
        ASSERT(owner.kind == session->owner.kind && owner.index == session->owner.index);
    }
    ASSERT(left_count <= SESSION_LEFT_COUNT_MAX);
    for (unsigned i = 0; i < left_count; i++)
        ASSERT(!is_owned(left[i].connection));
}

/* Returns the time from a failure to the next attempt. The first failure in a row is retried at once: a server that
 * closed has most likely just restarted or shed load. Then it is 10 ms, 20 ms, ... 1 s. */
static uint64_t retry_delay_ns(uint32_t failures_before)
{
    enum { DOUBLINGS_MAX = 7 }; /* 10 ms * 2^7 is more than SESSION_RETRY_MAX_NS */
    if (failures_before == 0)
        return 0;
    if (failures_before > DOUBLINGS_MAX)
        return SESSION_RETRY_MAX_NS;
    return min_size((uint64_t)SESSION_RETRY_FIRST_NS << (failures_before - 1), SESSION_RETRY_MAX_NS);
}

/* Logs a failure, a line a second at most. */
static void log_failure(struct session *session, const char *why, uint64_t now_ns)
{
    if (session->logged_ns && now_ns - session->logged_ns < NS_PER_S) {
        session->unlogged++;
        return;
    }
    if (session->unlogged)
        log_line("%s %pI4h:%u: %s, retrying (%u times more since this was last said)", session->name,
                 &session->to.address, session->to.port, why, session->unlogged);
    else
        log_line("%s %pI4h:%u: %s, retrying", session->name, &session->to.address, session->to.port, why);
    session->logged_ns = now_ns;
    session->unlogged = 0;
}

/* Sets the session down and plans the next attempt. */
static void went_down(struct session *session, const char *why, uint64_t now_ns)
{
    ASSERT(session->connection >= 0);
    if (session->state == SESSION_UP && now_ns - session->since_ns >= SESSION_STABLE_NS)
        session->failures = 0;
    else if (session->state == SESSION_UP && session->useful && session->failures > 0)
        session->failures = 1;
    session_owners[session->connection] = (struct session_owner){ SESSION_OF_NOBODY, 0 };
    session->connection = -1;
    session->state = SESSION_DOWN;
    session->since_ns = now_ns;
    session->retry_ns = now_ns + retry_delay_ns(session->failures);
    session->failures++;
    log_failure(session, why, now_ns);
    session_check(session);
}

void session_poll(struct session *session, uint64_t now_ns)
{
    if (session->state == SESSION_CONNECTING && now_ns - session->since_ns >= SESSION_CONNECT_TIMEOUT_NS) {
        session_leave(session, "no answer to the connection request", false, now_ns);
    } else if (session->state == SESSION_DOWN && now_ns >= session->retry_ns && transport_network()->up) {
        int connection = transport_connect(session->to.address, session->to.port, now_ns);
        if (connection < 0) {
            session->retry_ns = now_ns + SESSION_RETRY_FIRST_NS; /* no place is free until TRANSPORT_CLOSED frees one */
            return;
        }
        ASSERT(connection < TRANSPORT_CONNECTION_COUNT_MAX && !is_owned(connection));
        session_owners[connection] = session->owner;
        session->connection = connection;
        session->state = SESSION_CONNECTING;
        session->since_ns = now_ns;
        session_counters.attempts++;
    }
}

void session_connected(struct session *session, uint64_t now_ns)
{
    ASSERT(session->state == SESSION_CONNECTING);
    session->state = SESSION_UP;
    session->useful = false;
    session->since_ns = now_ns;
    session_counters.connected++;
}

void session_closed(struct session *session, enum transport_reason reason, uint64_t now_ns)
{
    ASSERT(session->state != SESSION_DOWN);
    static const char *const names[] = {
        [TRANSPORT_DONE] = "closed",         [TRANSPORT_REFUSED] = "refused", [TRANSPORT_RESET] = "reset",
        [TRANSPORT_TIMED_OUT] = "timed out", [TRANSPORT_ABORTED] = "aborted", [TRANSPORT_UNREACHABLE] = "unreachable",
    };
    ASSERT(reason < ARRAY_COUNT(names));
    uint64_t *counters[] = {
        [TRANSPORT_DONE] = &session_counters.lost_closed, [TRANSPORT_REFUSED] = &session_counters.lost_refused,
        [TRANSPORT_RESET] = &session_counters.lost_reset, [TRANSPORT_TIMED_OUT] = &session_counters.lost_timed_out,
        [TRANSPORT_ABORTED] = &session_counters.left,     [TRANSPORT_UNREACHABLE] = &session_counters.lost_unreachable,
    };
    ++*counters[reason];
    went_down(session, names[reason], now_ns);
}

void session_left_closed(int connection)
{
    for (unsigned i = 0; i < left_count; i++) {
        if (left[i].connection != connection)
            continue;
        memmove(&left[i], &left[i + 1], (left_count - i - 1) * sizeof left[0]);
        left_count--;
        return;
    }
}

static void reset_oldest_left(uint64_t now_ns)
{
    ASSERT(left_count > 0);
    struct session *session = left[0].session;
    int connection = left[0].connection;
    ASSERT(!is_owned(connection));
    session_counters.left_reset++;
    if (!session->lingering_logged) {
        session->lingering_logged = true;
        log_line("%s: the server does not close its side of connections that have ended; they are reset",
                 session->name);
    }
    session_left_closed(connection);
    transport_abort(connection, now_ns);
}

void session_poll_left(uint64_t now_ns)
{
    while (left_count > 0 && now_ns - left[0].since_ns >= SESSION_LEFT_PATIENCE_NS)
        reset_oldest_left(now_ns);
}

static void close_in_order(struct session *session, int connection, uint64_t now_ns)
{
    if (left_count == SESSION_LEFT_COUNT_MAX)
        reset_oldest_left(now_ns);
    left[left_count++] = (struct left){ connection, session, now_ns };
    transport_close(connection, now_ns);
}

void session_leave(struct session *session, const char *why, bool in_order, uint64_t now_ns)
{
    ASSERT(session->state != SESSION_DOWN);
    session_counters.left++;
    int connection = session->connection;
    in_order = in_order && transport_unacked_bytes(connection) == 0;
    went_down(session, why, now_ns);
    if (in_order)
        close_in_order(session, connection, now_ns);
    else
        transport_abort(connection, now_ns);
}

uint64_t session_next_deadline_ns(const struct session *session)
{
    switch (session->state) {
    case SESSION_DOWN:
        return transport_network()->up ? session->retry_ns : UINT64_MAX;
    case SESSION_CONNECTING:
        return session->since_ns + SESSION_CONNECT_TIMEOUT_NS;
    case SESSION_UP:
        break;
    }
    return UINT64_MAX;
}
