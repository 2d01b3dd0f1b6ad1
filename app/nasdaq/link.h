/* A SoupBinTCP session and the connection that carries it: kept up while it is wanted, connected again after a pause.
 * Knows the transport, and no message's meaning.
 *
 * A session may have a second host, which has the same numbered messages. Whenever a host is lost, does not answer or
 * refuses the login, the other one is tried next, and asked for the next message. A host that does not have the session
 * makes us forget it only if it is the one where we were logged in. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/nasdaq/soup.h"
#include "base/settings.h"
#include "net/transport.h"

#define LINK_RETRY_NS   (1 * NS_PER_S)
#define LINK_REFUSED_NS (30 * NS_PER_S) /* after a refused login: an account may be locked after a few */
#define LINK_CONNECT_NS (3 * NS_PER_S)

#define LINK_SILENCE_NS (3 * NS_PER_S) /* a host's, if there is another one: three heartbeats */

enum { LINK_HOST_COUNT_MAX = 2 };
enum { LINK_MESSAGE_BYTES_MAX = 64 }; /* that we send; OUCH's have 47 at most */

struct link {
    struct soup soup;
    int connection; /* -1: none */
    bool wanted;
    uint8_t *prepared;               /* the owner's message in the connection's message area; NULL: none */
    const char *name;                /* for the log */
    uint32_t host_count, host, home; /* the host that was tried last; that was logged in to last */
    struct link_host {
        struct endpoint to;
        uint64_t retry_ns;
        bool failure_logged;
    } hosts[LINK_HOST_COUNT_MAX];
    uint64_t since_ns; /* when the latest connection was begun; an owner may clear it */
};

/* Begins without a connection. The texts are borrowed for the run. */
void link_init(struct link *link, const char *name, const struct endpoint *to, const char *user, const char *password);

/* Adds a second host, before the first link_poll; nothing if it has no address. */
void link_add_host(struct link *link, const struct endpoint *to);

/* Returns true if a message can be sent. */
static inline bool link_is_up(const struct link *link) { return link->soup.state == SOUP_UP; }

/* Takes an event of the link's connection. After TRANSPORT_DATA the caller takes messages by link_next until it
 * returns SOUP_NOTHING. */
void link_event(struct link *link, const struct transport_event *event, uint64_t now_ns);

/* Returns the next thing in the bytes that came: SOUP_MESSAGE, SOUP_LOGGED_IN, SOUP_NEW_SESSION; or SOUP_NOTHING. */
enum soup_event link_next(struct link *link, struct bytes *message, uint64_t now_ns);

/* Sends a message of LINK_MESSAGE_BYTES_MAX at most, copied after a SoupBinTCP head. Returns false if it cannot leave
 * now. */
bool link_send(struct link *link, const uint8_t *message, uint32_t bytes, uint64_t now_ns);

/* Connects, sends the packet that is due, and leaves a connection that is dead or not wanted. */
void link_poll(struct link *link, uint64_t now_ns);

/* Resets the connection, if there is one. The other host is tried next. */
void link_leave(struct link *link, const char *why, uint64_t now_ns);

/* Asserts the invariant. */
void link_check(const struct link *link);
