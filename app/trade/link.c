#include "app/trade/link.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"

void link_init(struct link *link, const char *name, const struct endpoint *to, const char *user, const char *password)
{
    memset(link, 0, sizeof *link);
    soup_init(&link->soup, user, password);
    link->connection = -1;
    link->name = name;
    link->to = *to;
}

void link_check(const struct link *link)
{
    soup_check(&link->soup);
    ASSERT(link->connection >= 0 || (!link->connected && link->prepared == NULL));
    ASSERT(link->soup.state == SOUP_DOWN || link->connected);
}

/* Logs a failure, the first of a row alone. */
static void log_failure(struct link *link, const char *why)
{
    if (!link->failure_logged)
        log_line("%s %pI4h:%u: %s, retrying", link->name, &link->to.address, link->to.port, why);
    link->failure_logged = true;
}

/* Ends the connection; TRANSPORT_CLOSED follows. */
static void leave(struct link *link, const char *why, uint64_t pause_ns, uint64_t now_ns)
{
    ASSERT(link->connection >= 0);
    link->retry_ns = now_ns + pause_ns;
    link->ended = true;
    link->prepared = NULL;
    if (why != NULL)
        log_failure(link, why);
    transport_abort(link->connection, now_ns);
}

static void take_closed(struct link *link, enum transport_reason reason, uint64_t now_ns)
{
    static const char *const names[] = {
        [TRANSPORT_DONE] = "closed",         [TRANSPORT_REFUSED] = "refused", [TRANSPORT_RESET] = "reset",
        [TRANSPORT_TIMED_OUT] = "timed out", [TRANSPORT_ABORTED] = "aborted", [TRANSPORT_UNREACHABLE] = "unreachable",
    };
    ASSERT(reason < ARRAY_COUNT(names));
    if (link->wanted)
        log_failure(link, names[reason]);
    soup_closed(&link->soup);
    link->connection = -1;
    link->connected = link->ended = false;
    link->prepared = NULL;
    if (link->retry_ns < now_ns + LINK_RETRY_NS)
        link->retry_ns = now_ns + LINK_RETRY_NS;
}

void link_event(struct link *link, const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->connection == link->connection);
    switch (event->kind) {
    case TRANSPORT_CONNECTED:
        link->connected = true;
        soup_connected(&link->soup, now_ns);
        break;
    case TRANSPORT_DATA:
        if (!link->ended)
            soup_data(&link->soup, event->payload, now_ns);
        break;
    case TRANSPORT_ENDED:
        if (!link->ended)
            leave(link, "closed by the server", LINK_RETRY_NS, now_ns);
        break;
    case TRANSPORT_CLOSED:
        take_closed(link, event->reason, now_ns);
        break;
    case TRANSPORT_NONE:
    case TRANSPORT_ACCEPTED:
    case TRANSPORT_DATAGRAM:
        break;
    }
}

enum soup_event link_next(struct link *link, struct bytes *message, uint64_t now_ns)
{
    if (!link->connected || link->ended)
        return SOUP_NOTHING;
    ASSERT(link->soup.state != SOUP_DOWN);
    enum soup_event event = soup_next(&link->soup, message);
    switch (event) {
    case SOUP_LOGGED_IN:
    case SOUP_NEW_SESSION:
        link->failure_logged = false;
        log_line("%s %pI4h:%u: logged in to session %.10s, next message %llu", link->name, &link->to.address,
                 link->to.port, link->soup.session, (unsigned long long)link->soup.next_sequence);
        break;
    case SOUP_REFUSED:
        leave(link, "the login was refused", LINK_REFUSED_NS, now_ns);
        break;
    case SOUP_ENDED:
        leave(link, "the session has ended", LINK_REFUSED_NS, now_ns);
        break;
    case SOUP_MALFORMED:
        leave(link, "sent a malformed packet", LINK_RETRY_NS, now_ns);
        break;
    case SOUP_NOTHING:
    case SOUP_MESSAGE:
        break;
    }
    return event;
}

/* Sends bytes as they are. The message that the owner has prepared is overwritten. */
static bool send_bytes(struct link *link, const uint8_t *head, uint32_t head_bytes, const uint8_t *rest,
                       uint32_t rest_bytes, uint64_t now_ns)
{
    ASSERT(link->connected && !link->ended);
    uint8_t *area = transport_message(link->connection);
    link->prepared = NULL;
    if (area == NULL)
        return false;
    memcpy(area, head, head_bytes);
    if (rest_bytes > 0)
        memcpy(area + head_bytes, rest, rest_bytes);
    transport_message_prepare(link->connection, 0, head_bytes + rest_bytes);
    if (!transport_send(link->connection, 0, head_bytes + rest_bytes, now_ns))
        return false;
    soup_sent(&link->soup, now_ns);
    return true;
}

bool link_send(struct link *link, const uint8_t *message, uint32_t bytes, uint64_t now_ns)
{
    uint8_t head[SOUP_HEAD_BYTES];
    ASSERT(bytes <= SOUP_PACKET_BYTES_MAX);
    if (!link_is_up(link))
        return false;
    soup_head(head, bytes);
    return send_bytes(link, head, sizeof head, message, bytes, now_ns);
}

void link_poll(struct link *link, uint64_t now_ns)
{
    uint8_t packet[SOUP_LOGIN_BYTES];
    link_check(link);
    if (link->connection < 0) {
        if (!link->wanted || now_ns < link->retry_ns || !transport_network()->up)
            return;
        link->connection = transport_connect(link->to.address, link->to.port, now_ns);
        link->since_ns = now_ns;
        link->retry_ns = now_ns + LINK_RETRY_NS;
        return;
    }
    if (link->ended)
        return;
    if (!link->wanted) {
        leave(link, NULL, 0, now_ns);
    } else if (!link->connected) {
        if (now_ns - link->since_ns >= LINK_CONNECT_NS)
            leave(link, "no answer to the connection request", LINK_RETRY_NS, now_ns);
    } else if (soup_is_silent(&link->soup, now_ns)) {
        leave(link, "silent", LINK_RETRY_NS, now_ns);
    } else {
        uint32_t bytes = soup_due(&link->soup, now_ns, packet);
        if (bytes > 0)
            send_bytes(link, packet, bytes, NULL, 0, now_ns);
    }
}
