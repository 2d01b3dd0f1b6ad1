/* One connection that is kept up: connects, backs off, connects again. Knows the transport, not the bytes that it
 * carries.
 *
 * A connection that its session has left keeps its id until the transport returns TRANSPORT_CLOSED. The table of owners
 * tells which session an event belongs to, if any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/settings.h"
#include "base/time.h"
#include "net/transport.h"

enum {
    SESSION_RETRY_FIRST_NS = 10 * NS_PER_MS, /* the first retry is immediate, the second after this, then doubling */
    SESSION_RETRY_MAX_NS = NS_PER_S,
    SESSION_STABLE_NS = NS_PER_S, /* up for so long: the next retry is a first one, immediate */
    SESSION_LEFT_COUNT_MAX = 3,   /* left connections that the server still has to close: session_leave */
};
#define SESSION_CONNECT_TIMEOUT_NS (3 * NS_PER_S)
#define SESSION_LEFT_PATIENCE_NS   (5 * NS_PER_S)

enum session_state { SESSION_DOWN, SESSION_CONNECTING, SESSION_UP };

/* The user of a session: a part of the player, and its index among several. */
enum session_owner_kind { SESSION_OF_NOBODY, SESSION_OF_INPUT, SESSION_OF_SUBMIT };
struct session_owner {
    uint8_t kind;
    uint8_t index;
};

/* The owner of each connection. */
extern struct session_owner session_owners[TRANSPORT_CONNECTION_COUNT_MAX];

static inline struct session_owner session_owner_of(int connection) { return session_owners[connection]; }

struct session {
    enum session_state state;
    bool useful; /* this connection has served its purpose: the next retry comes soon */
    struct session_owner owner;
    int connection;   /* -1: SESSION_DOWN */
    const char *name; /* for the log: "input stream 1", "submit" */
    struct endpoint to;
    uint64_t since_ns;     /* when it came into its state */
    uint64_t retry_ns;     /* while down: when to connect next */
    uint32_t failures;     /* in a row */
    uint64_t logged_ns;    /* when the last failure was logged: at most one a second */
    uint32_t unlogged;     /* failures since then */
    bool lingering_logged; /* the log says that this server does not close its side */
};

/* Forgets all connections. */
void session_init_all(void);

/* Sets the session up, down and to be connected at once. `name` must stay valid. */
void session_init(struct session *session, const char *name, struct session_owner owner, const struct endpoint *to);

/* Connects if it is time to; gives up a connection attempt that takes too long. */
void session_poll(struct session *session, uint64_t now_ns);

/* Takes the events of the session's connection. */
void session_connected(struct session *session, uint64_t now_ns);
void session_closed(struct session *session, enum transport_reason reason, uint64_t now_ns);

/* Lets go of the connection, ending it in order (FIN) or not (RST), and prepares the next. `why` is for the log. With
 * bytes that the server has not acknowledged it is RST in any case: they would hold transmit buffers.
 *
 * A connection that ends in order keeps its place until the server closes its side too. At most SESSION_LEFT_COUNT_MAX
 * keep one, and for SESSION_LEFT_PATIENCE_NS: then session_poll_left resets the connection, and the next one to be left
 * resets the oldest. */
void session_leave(struct session *session, const char *why, bool in_order, uint64_t now_ns);

void session_poll_left(uint64_t now_ns);

/* Notes that a connection without an owner has ended. */
void session_left_closed(int connection);

/* Returns when session_poll has something to do if the network stays as it is. */
uint64_t session_next_deadline_ns(const struct session *session);

/* Asserts the session's invariant. */
void session_check(const struct session *session);

/* `left` are closed by us, by session_leave; `left_reset` are those whose server did not close its side in time. */
#define SESSION_COUNTERS(X)                                                                                            \
    X(COUNT, attempts), X(COUNT, connected), X(COUNT, lost_closed), X(COUNT, lost_refused), X(COUNT, lost_reset),      \
        X(COUNT, lost_timed_out), X(COUNT, lost_unreachable), X(COUNT, left), X(COUNT, left_reset)
extern struct session_counters {
    uint64_t SESSION_COUNTERS(COUNTER_MEMBER);
} session_counters;
extern const struct counter_group session_counter_group;
