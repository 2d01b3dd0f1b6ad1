#include "tests/lib/fake_transport.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct fake fake;

struct queued {
    struct transport_event event;
    struct queued *next;
};
static struct queued *first, *last, *borrowed;
static int reported_closed = -1;
static int connection_end;                          /* past the last that was used */
static const struct transport_rehearsal *rehearsal; /* NULL: none is under way */
static bool rehearsal_taken;                        /* the event has been reported */

static void free_borrowed(void)
{
    if (borrowed) {
        free((void *)(uintptr_t)borrowed->event.payload.data);
        free(borrowed);
        borrowed = NULL;
    }
}

void fake_reset(void)
{
    free_borrowed();
    while (first) {
        borrowed = first;
        first = first->next;
        free_borrowed();
    }
    last = NULL;
    reported_closed = -1;
    memset(fake.connections, 0, (size_t)connection_end * sizeof fake.connections[0]);
    connection_end = 0;
    memset(&fake.network, 0, sizeof fake - offsetof(struct fake, network));
    fake.network = (struct transport_network){
        .up = true, .address = 0x0a00020f, .mtu_bytes = 1500, .waiting_for = "nothing"
    };
}

int fake_to(uint16_t port)
{
    for (int id = connection_end - 1; id >= 0; id--) {
        struct fake_connection *c = &fake.connections[id];
        if (c->used && c->port == port && !c->closed_by_us && !c->aborted_by_us)
            return id;
    }
    return -1;
}

static void queue(struct transport_event event, const void *data, size_t bytes)
{
    if (event.connection < 0)
        return; /* the connection does not exist: bytes sent to it are lost */
    struct queued *q = calloc(1, sizeof *q);
    q->event = event;
    if (event.kind != TRANSPORT_DATAGRAM)
        q->event.port = fake.connections[event.connection].own_port;
    if (data) {
        uint8_t *exact = malloc(bytes ? bytes : 1);
        memcpy(exact, data, bytes);
        q->event.payload.data = exact;
        q->event.payload.count = (uint32_t)bytes;
    }
    if (last)
        last->next = q;
    else
        first = q;
    last = q;
}

void fake_connected(int id)
{
    queue((struct transport_event){ .kind = TRANSPORT_CONNECTED, .connection = id }, NULL, 0);
}
void fake_ended(int id) { queue((struct transport_event){ .kind = TRANSPORT_ENDED, .connection = id }, NULL, 0); }

void fake_data(int id, const void *data, size_t bytes)
{
    queue((struct transport_event){ .kind = TRANSPORT_DATA, .connection = id }, data, bytes);
}

void fake_text(int id, const char *text) { fake_data(id, text, strlen(text)); }

void fake_closed(int id, enum transport_reason reason)
{
    queue((struct transport_event){ .kind = TRANSPORT_CLOSED, .connection = id, .reason = reason }, NULL, 0);
}

void fake_datagram_to(uint32_t to, uint32_t address, uint16_t peer_port, uint16_t port, const void *data, size_t bytes)
{
    struct transport_event event = { .kind = TRANSPORT_DATAGRAM, .address = address, .peer_port = peer_port };
    event.port = port;
    event.to_address = to;
    queue(event, data, bytes);
}

void fake_datagram(uint32_t address, uint16_t peer_port, uint16_t port, const void *data, size_t bytes)
{
    fake_datagram_to(fake.network.address, address, peer_port, port, data, bytes);
}

/* Takes the next event out of the queue that is not data, or an end in order, of a connection that is held; NULL:
 * none. */
static struct queued *unqueue(void)
{
    struct queued **at = &first, *before = NULL, *q;
    while ((q = *at)) {
        bool waits = q->event.kind == TRANSPORT_DATA || q->event.kind == TRANSPORT_ENDED
                     || (q->event.kind == TRANSPORT_CLOSED && q->event.reason == TRANSPORT_DONE);
        if (!waits || !fake.connections[q->event.connection].held)
            break;
        before = q;
        at = &q->next;
    }
    if (q) {
        *at = q->next;
        last = q == last ? before : last;
    }
    return q;
}

bool transport_rehearsal_begin(const struct transport_rehearsal *wanted, uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(rehearsal == NULL && borrowed == NULL);
    fake.rehearsal_count++;
    if (!fake.rehearses)
        return false;
    rehearsal = wanted;
    rehearsal_taken = false;
    memset(&fake.connections[FAKE_REHEARSED], 0, sizeof fake.connections[FAKE_REHEARSED]);
    fake.connections[FAKE_REHEARSED].used = fake.connections[FAKE_REHEARSED].connected = true;
    fake.connections[FAKE_REHEARSED].window_bytes = UINT32_MAX;
    return true;
}

void transport_rehearsal_end(uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(rehearsal != NULL);
    rehearsal = NULL;
    fake.rehearsed_bytes += fake.connections[FAKE_REHEARSED].sent_bytes;
}

void transport_rehearsal_abandon(void) { rehearsal = NULL; }

static bool poll_rehearsal(struct transport_event *event)
{
    const bool is_datagram = rehearsal->kind == TRANSPORT_REHEARSAL_DATAGRAM;
    if (rehearsal_taken || fake.rehearsal_lost || (!is_datagram && rehearsal->kind != TRANSPORT_REHEARSAL_SEGMENT))
        return false;
    rehearsal_taken = true;
    *event = (struct transport_event){
        .kind = is_datagram ? TRANSPORT_DATAGRAM : TRANSPORT_DATA,
        .connection = is_datagram ? -1 : FAKE_REHEARSED,
        .address = 0xc0000201, /* 192.0.2.1 */
        .peer_port = TRANSPORT_REHEARSAL_PEER_PORT,
        .port = rehearsal->port,
        .payload = rehearsal->payload,
    };
    return true;
}

bool transport_poll(uint64_t now_ns, struct transport_event *event)
{
    (void)now_ns;
    if (rehearsal != NULL)
        return poll_rehearsal(event);
    free_borrowed();
    reported_closed = -1;
    memset(event, 0, sizeof *event);
    while ((borrowed = unqueue())) {
        struct fake_connection *c = &fake.connections[borrowed->event.connection];
        if (borrowed->event.kind != TRANSPORT_DATAGRAM && !c->used) {
            free_borrowed(); /* the connection is gone: a real stack would not report the event */
            continue;
        }
        *event = borrowed->event;
        if (event->kind == TRANSPORT_CONNECTED)
            c->connected = true;
        if (event->kind == TRANSPORT_CLOSED) {
            c->used = c->held = false;
            reported_closed = event->connection;
        }
        return true;
    }
    return false;
}

int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns)
{
    (void)now_ns;
    fake.connect_count++;
    if (fake.refuse_connect)
        return -1;
    for (int id = 0; id < (fake.many ? FAKE_CONNECTION_COUNT : TRANSPORT_CONNECTION_COUNT_MAX); id++) {
        struct fake_connection *c = &fake.connections[id];
        if (c->used || id == reported_closed)
            continue;
        memset(c, 0, sizeof *c);
        connection_end = id >= connection_end ? id + 1 : connection_end;
        c->used = true;
        c->address = address;
        c->port = port;
        c->window_bytes = UINT32_MAX;
        return id;
    }
    return -1;
}

bool transport_listen(uint16_t port)
{
    fake.listening = port;
    return !fake.refuse_listen;
}

int fake_accepted_from(uint32_t address, uint16_t port)
{
    int id = transport_connect(address, 0, 0);
    if (id >= 0) {
        fake.connections[id].connected = true;
        fake.connections[id].own_port = port;
        queue((struct transport_event){ .kind = TRANSPORT_ACCEPTED, .connection = id, .address = address }, NULL, 0);
    }
    return id;
}

int fake_accepted(uint16_t port) { return fake_accepted_from(0x0a000202, port); }

uint8_t *transport_message(int id)
{
    struct fake_connection *c = &fake.connections[id];
    ASSERT(c->used);
    return c->connected && !c->no_message ? c->message : NULL;
}

void transport_message_prepare(int id, uint32_t from, uint32_t bytes)
{
    struct fake_connection *c = &fake.connections[id];
    ASSERT(c->used && from <= TRANSPORT_MESSAGE_BYTES_MAX && bytes <= TRANSPORT_MESSAGE_BYTES_MAX - from);
    c->prepared_from = from;
    c->prepared_bytes = bytes;
    memcpy(c->prepared, c->message + from, bytes);
}

bool transport_send(int id, uint32_t from, uint32_t bytes, uint64_t now_ns)
{
    (void)now_ns;
    struct fake_connection *c = &fake.connections[id];
    ASSERT(c->used && c->connected && !c->closed_by_us && from + bytes <= TRANSPORT_MESSAGE_BYTES_MAX);
    if (from == c->prepared_from && bytes >= c->prepared_bytes)
        ASSERT(memcmp(c->message + from, c->prepared, c->prepared_bytes) == 0);
    if (c->sent_bytes - c->acked_bytes + bytes > c->window_bytes || c->sent_bytes + bytes >= sizeof c->sent)
        return false;
    memcpy(c->sent + c->sent_bytes, c->message + from, bytes);
    c->sent_bytes += bytes;
    memset(c->message, 0xee, sizeof c->message); /* unspecified contents afterwards */
    c->prepared_bytes = 0;
    return true;
}

void transport_hold(int id, bool held)
{
    ASSERT(fake.connections[id].used);
    fake.connections[id].held = held;
}

uint32_t transport_unacked_bytes(int id)
{
    struct fake_connection *c = &fake.connections[id];
    ASSERT(c->used || id == reported_closed);
    return c->sent_bytes - c->acked_bytes;
}

/* Queues TRANSPORT_CLOSED for a connection, once. */
static void fake_over(int id, enum transport_reason reason)
{
    if (!fake.connections[id].over)
        fake_closed(id, reason);
    fake.connections[id].over = true;
}

void transport_close(int id, uint64_t now_ns)
{
    (void)now_ns;
    struct fake_connection *c = &fake.connections[id];
    ASSERT(c->used);
    c->closed_by_us = true;
    fake.close_count++;
    if (!fake.linger)
        fake_over(id, TRANSPORT_DONE);
}

void transport_abort(int id, uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(fake.connections[id].used);
    fake.connections[id].aborted_by_us = true;
    fake.abort_count++;
    fake_over(id, TRANSPORT_ABORTED);
}

bool transport_udp_bind(uint16_t port) { return port && !fake.refuse_udp_bind && ++fake.bind_count; }

static uint32_t group_index(uint32_t group)
{
    uint32_t i = 0;
    while (i < fake.group_count && fake.groups[i] != group)
        i++;
    return i;
}

bool transport_udp_join(uint32_t group)
{
    ASSERT(fake.group_count <= TRANSPORT_GROUP_COUNT_MAX);
    if (fake.refuse_join || group >> 28 != 0xe)
        return false;
    if (group_index(group) < fake.group_count)
        return true;
    if (fake.group_count == TRANSPORT_GROUP_COUNT_MAX)
        return false;
    fake.groups[fake.group_count++] = group;
    return true;
}

void transport_udp_leave(uint32_t group)
{
    uint32_t i = group_index(group);
    if (i < fake.group_count)
        fake.groups[i] = fake.groups[--fake.group_count];
}

bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    (void)now_ns;
    if (fake.refuse_udp || bytes > TRANSPORT_DATAGRAM_BYTES_MAX
        || bytes + TRANSPORT_DATAGRAM_HEAD_BYTES > fake.network.mtu_bytes)
        return false;
    struct fake_datagram *d = &fake.rehearsed;
    if (rehearsal != NULL)
        fake.rehearsed_bytes += (uint32_t)bytes;
    else
        d = fake.datagram_count++ < FAKE_DATAGRAM_COUNT ? &fake.datagrams[fake.datagram_count - 1] : NULL;
    if (d != NULL) {
        *d = (struct fake_datagram){
            .address = to_address, .from_port = from_port, .to_port = to_port, .bytes = (uint32_t)bytes
        };
        memcpy(d->data, data, bytes);
    }
    return true;
}

__attribute__((weak)) void transport_idle(uint64_t now_ns) { (void)now_ns; }
void transport_warm(void) { fake.warmed_count++; }
uint64_t transport_next_deadline_ns(void) { return UINT64_MAX; }
const struct transport_network *transport_network(void) { return &fake.network; }

bool transport_ask_neighbour(void)
{
    fake.asked_count++;
    return fake.neighbour;
}
