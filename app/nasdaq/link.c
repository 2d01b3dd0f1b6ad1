#include "app/nasdaq/link.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "net/capture/capture.h"
#include "net/transport_path.h"

void link_init(struct link *link, const char *name, const struct endpoint *to, const char *user, const char *password)
{
    memset(link, 0, sizeof *link);
    soup_init(&link->soup, user, password);
    link->connection = -1;
    link->name = name;
    link->host_count = 1;
    link->hosts[0].to = *to;
    capture_note_login(to->address, to->port);
}

void link_add_host(struct link *link, const struct endpoint *to)
{
    ASSERT(link->host_count == 1 && link->connection < 0);
    if (to->address == 0)
        return;
    link->host = link->host_count++; /* the first one is tried first */
    link->hosts[link->host].to = *to;
    capture_note_login(to->address, to->port);
}

void link_check(const struct link *link)
{
    soup_check(&link->soup);
    ASSERT(link->connection >= 0 || link->soup.state == SOUP_DOWN);
    ASSERT(link->soup.state != SOUP_DOWN || link->prepared == NULL);
    ASSERT(link->host < link->host_count && link->host_count <= LINK_HOST_COUNT_MAX);
}

/* Forgets the connection, and lets a pause of its host begin. Logs the failure, the first of a row alone. */
static void lose(struct link *link, const char *why, uint64_t pause_ns, uint64_t now_ns)
{
    struct link_host *host = &link->hosts[link->host];
    ASSERT(link->connection >= 0);
    if (link->wanted && !host->failure_logged)
        log_line("%s %pI4h:%u: %s, retrying", link->name, &host->to.address, host->to.port, why);
    host->failure_logged |= link->wanted;
    soup_closed(&link->soup);
    link->connection = -1;
    link->prepared = NULL;
    host->retry_ns = now_ns + pause_ns;
}

/* Resets the connection, whose further events are nobody's. */
static void leave(struct link *link, const char *why, uint64_t pause_ns, uint64_t now_ns)
{
    transport_abort(link->connection, now_ns);
    lose(link, why, pause_ns, now_ns);
}

void link_leave(struct link *link, const char *why, uint64_t now_ns)
{
    if (link->connection >= 0)
        leave(link, why, LINK_RETRY_NS, now_ns);
}

void link_event(struct link *link, const struct transport_event *event, uint64_t now_ns)
{
    static const char *const reasons[] = {
        [TRANSPORT_DONE] = "closed",         [TRANSPORT_REFUSED] = "refused", [TRANSPORT_RESET] = "reset",
        [TRANSPORT_TIMED_OUT] = "timed out", [TRANSPORT_ABORTED] = "aborted", [TRANSPORT_UNREACHABLE] = "unreachable",
    };
    ASSERT(event->connection == link->connection);
    if (event->kind == TRANSPORT_CONNECTED)
        soup_connected(&link->soup, now_ns);
    else if (event->kind == TRANSPORT_DATA)
        soup_data(&link->soup, event->payload, now_ns);
    else if (event->kind == TRANSPORT_ENDED)
        leave(link, "closed by the server", LINK_RETRY_NS, now_ns);
    else if (event->kind == TRANSPORT_CLOSED)
        lose(link, reasons[event->reason], LINK_RETRY_NS, now_ns);
}

enum soup_event link_next(struct link *link, struct bytes *message, uint64_t now_ns)
{
    static const char *const failures[] = {
        [SOUP_REFUSED] = "the login was refused",
        [SOUP_ENDED] = "the session has ended",
        [SOUP_MALFORMED] = "sent a malformed packet",
    };
    if (link->soup.state == SOUP_DOWN)
        return SOUP_NOTHING;
    ASSERT(link->connection >= 0);
    enum soup_event event = soup_next(&link->soup, message);
    if (event == SOUP_LOGGED_IN || event == SOUP_NEW_SESSION) {
        struct link_host *host = &link->hosts[link->host];
        link->home = link->host;
        host->failure_logged = false;
        log_line("%s %pI4h:%u: logged in to session %.10s, next message %llu", link->name, &host->to.address,
                 host->to.port, link->soup.session, (unsigned long long)link->soup.next_sequence);
    } else if (event != SOUP_NOTHING && event != SOUP_MESSAGE) {
        leave(link, failures[event], event == SOUP_MALFORMED ? LINK_RETRY_NS : LINK_REFUSED_NS, now_ns);
        return SOUP_NOTHING;
    }
    return event;
}

/* Sends a packet. The message that the owner has prepared is overwritten. */
static bool send_packet(struct link *link, const uint8_t *packet, uint32_t bytes, uint64_t now_ns)
{
    ASSERT(link->soup.state != SOUP_DOWN);
    uint8_t *area = transport_message(link->connection);
    link->prepared = NULL;
    if (area == NULL)
        return false;
    memcpy(area, packet, bytes);
    transport_message_prepare(link->connection, 0, bytes);
    if (!transport_send(link->connection, 0, bytes, now_ns))
        return false;
    soup_sent(&link->soup, now_ns);
    return true;
}

bool link_send(struct link *link, const uint8_t *message, uint32_t bytes, uint64_t now_ns)
{
    uint8_t packet[SOUP_HEAD_BYTES + LINK_MESSAGE_BYTES_MAX];
    ASSERT(bytes <= LINK_MESSAGE_BYTES_MAX);
    if (!link_is_up(link))
        return false;
    soup_head(packet, bytes);
    memcpy(packet + SOUP_HEAD_BYTES, message, bytes);
    return send_packet(link, packet, SOUP_HEAD_BYTES + bytes, now_ns);
}

/* Connects to a host whose pause is over, to the other one first. */
static void connect_to_next(struct link *link, uint64_t now_ns)
{
    for (uint32_t i = 0; i < link->host_count; i++) {
        const uint32_t next = (link->host + 1 + i) % link->host_count;
        struct link_host *host = &link->hosts[next];
        if (now_ns < host->retry_ns)
            continue;
        ASSERT(link->connection < 0);
        link->connection = transport_connect(host->to.address, host->to.port, now_ns);
        link->host = next;
        link->soup.keeps_session = next != link->home;
        link->since_ns = now_ns;
        host->retry_ns = now_ns + LINK_RETRY_NS;
        return;
    }
}

static bool is_silent(const struct link *link, uint64_t now_ns)
{
    ASSERT(link->soup.state != SOUP_DOWN);
    return soup_is_silent(&link->soup, now_ns)
           || (link->host_count > 1 && now_ns - link->soup.received_ns >= LINK_SILENCE_NS);
}

void link_poll(struct link *link, uint64_t now_ns)
{
    uint8_t packet[SOUP_LOGIN_BYTES];
    link_check(link);
    if (link->connection < 0) {
        if (link->wanted && transport_network()->up)
            connect_to_next(link, now_ns);
    } else if (!link->wanted) {
        leave(link, "not wanted", 0, now_ns);
    } else if (link->soup.state == SOUP_DOWN) {
        if (now_ns - link->since_ns >= LINK_CONNECT_NS)
            leave(link, "no answer to the connection request", LINK_RETRY_NS, now_ns);
    } else if (is_silent(link, now_ns)) {
        leave(link, "silent", LINK_RETRY_NS, now_ns);
    } else {
        uint32_t bytes = soup_due(&link->soup, now_ns, packet);
        if (bytes > 0)
            send_packet(link, packet, bytes, now_ns);
    }
}
