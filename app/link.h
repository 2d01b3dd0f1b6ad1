/* One connection that is kept up: connects, backs off, connects again. Knows the transport, not what is said over it.
 *
 * Connection ids live on after a link has let go of them (until the transport tells TRANSPORT_CLOSED), so the events
 * of a connection that nobody owns any more are told apart here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/settings.h"
#include "net/transport.h"

enum {
    LINK_RETRY_FIRST_NS = 10 * 1000 * 1000,     /* the first retry is immediate, the second after this, then doubling */
    LINK_RETRY_MAX_NS = 1000 * 1000 * 1000,
    LINK_STABLE_NS = 1000 * 1000 * 1000,        /* up for so long: the next retry is a first one, immediate */
};
#define LINK_CONNECT_TIMEOUT_NS (UINT64_C(3) * 1000 * 1000 * 1000)

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_UP };

struct link {
    enum link_state state;
    bool useful;                    /* this connection has served its purpose: the next retry comes soon */
    int connection;                 /* -1: LINK_DOWN */
    const char *name;               /* for the log: "feed 1", "submit" */
    struct settings_endpoint to;
    uint64_t since_ns;              /* when it came into its state */
    uint64_t retry_ns;              /* while down: when to connect next */
    uint32_t failures;              /* in a row */
    uint64_t logged_ns;             /* when the last failure was logged: at most one a second */
    uint32_t unlogged;
};

/* Forgets all connections. */
void link_init_all(void);

/* Down, to be connected at once. `name` is lent for ever: a literal, or the caller's for as long as the link. */
void link_init(struct link *link, const char *name, const struct settings_endpoint *to);

/* Connects if it is time to; gives up a connection attempt that takes too long. */
void link_tend(struct link *link, uint64_t now_ns);

/* The link that owns a connection; NULL: nobody does. */
struct link *link_of(int connection);

/* To be told of its connection's events. */
void link_connected(struct link *link, uint64_t now_ns);
void link_closed(struct link *link, enum transport_reason reason, uint64_t now_ns);

/* Lets go of the connection, ending it in order (FIN) or not (RST), and prepares the next. `why` is for the log. */
void link_leave(struct link *link, const char *why, bool in_order, uint64_t now_ns);

/* When link_tend has something to do. */
uint64_t link_wake_ns(const struct link *link);

struct link_counters {
    uint64_t attempts, connected;
    uint64_t lost_closed, lost_refused, lost_reset, lost_timed_out, lost_unreachable;
    uint64_t left;                  /* by us: link_leave */
};
extern struct link_counters link_counters;
extern const struct counter_group link_counter_group;
