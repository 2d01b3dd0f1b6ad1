/* The smallest program: sends back what comes to `port=`, over TCP (RFC 862) and UDP. */
#include "app/program.h"

#include <string.h>

#include "app/service/service.h"
#include "app/service/stats.h"
#include "base/assert.h"
#include "base/time.h"
#include "net/transport.h"

enum { CONNECTION_COUNT = 8, WAITING_BYTES_MAX = 64 * 1024, EVENTS_PER_TURN_MAX = 64, SILENT_S = 60, PORT_MIN = 1024 };

static uint16_t echo_port;
static const struct setting rows[] = { { "port", SETTING_NUMBER, .bytes = sizeof echo_port, .min = 1, .max = UINT16_MAX,
                                         .initial = "7", .noun = "a port", .help = "of TCP and UDP" } };
static const struct settings_table table = { rows, ARRAY_COUNT(rows), &echo_port, sizeof echo_port, NULL };

static struct {
    uint64_t accepted, refused, bytes, datagrams;
} counters;
static const struct counter counter_table[] = { COUNTER("echo.", counters, accepted),
                                                COUNTER("echo.", counters, refused), COUNTER("echo.", counters, bytes),
                                                COUNTER("echo.", counters, datagrams) };
static const struct counter_group counter_group = { counter_table, ARRAY_COUNT(counter_table) };

/* A connection, and the bytes that came and have not been sent back. */
static struct echo {
    bool used, ended;
    int id;
    uint64_t count, since_ns; /* bytes that wait; when the last one came or left */
    uint8_t waiting[WAITING_BYTES_MAX];
} echoes[CONNECTION_COUNT];
static bool bytes_wait; /* or did: the next turn has work */

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(machine->tsc_khz > 0);
    stats_add_counters(&counter_group);
    return transport_listen(echo_port) && transport_udp_bind(echo_port) ? NULL : "the port of the echo cannot be had";
}

/* Returns the echo of a connection, with `is_new` a free one; NULL: there is none. */
static struct echo *echo_of(int id, bool is_new)
{
    for (size_t i = 0; i < CONNECTION_COUNT; i++)
        if (is_new ? !echoes[i].used : echoes[i].used && echoes[i].id == id)
            return &echoes[i];
    return NULL;
}

static void take_event(const struct transport_event *event, uint64_t now_ns)
{
    bool is_new = event->kind == TRANSPORT_ACCEPTED, is_datagram = event->kind == TRANSPORT_DATAGRAM;
    bool may_loop = is_datagram && (event->peer_port < PORT_MIN || event->peer_port == echo_port);
    bool is_ours = event->port == echo_port && !may_loop; /* two echoes would never stop */
    struct echo *e = is_datagram || (is_new && !is_ours) ? NULL : echo_of(event->connection, is_new);
    ASSERT(!e || e->count <= WAITING_BYTES_MAX);
    if (is_datagram && is_ours) {
        counters.datagrams += transport_udp_send(event->port, event->address, event->peer_port, event->payload.data,
                                                 event->payload.count, now_ns);
    } else if (is_new && e) {
        e->used = true, e->ended = false, e->id = event->connection, e->count = 0, e->since_ns = now_ns;
        counters.accepted++;
    } else if ((is_new && is_ours) || (e && event->payload.count > WAITING_BYTES_MAX - e->count)) {
        counters.refused++; /* no place is free, or the peer sends and does not read */
        transport_abort(event->connection, now_ns);
    } else if (!e) {
        service_event(event, now_ns);
    } else if (event->kind == TRANSPORT_DATA) {
        memcpy(e->waiting + e->count, event->payload.data, event->payload.count);
        e->count += event->payload.count, e->since_ns = now_ns;
    } else {
        e->used = event->kind != TRANSPORT_CLOSED, e->ended = true;
    }
}

/* Sends one message. A peer that has ended gets our end behind its last byte. True: the next turn has work. */
static bool send_back(struct echo *e, uint64_t now_ns)
{
    ASSERT(e->count <= WAITING_BYTES_MAX);
    size_t count = min_size(e->count, TRANSPORT_MESSAGE_BYTES_MAX);
    uint8_t *message = transport_message(e->id);
    if (message)
        memcpy(message, e->waiting, count);
    if (now_ns - e->since_ns >= SILENT_S * NS_PER_S)
        transport_abort(e->id, now_ns);
    else if (count == 0 && e->ended)
        transport_close(e->id, now_ns);
    if (count > 0 && message && transport_send(e->id, 0, (uint32_t)count, now_ns)) {
        e->count -= count, counters.bytes += count, e->since_ns = now_ns;
        memmove(e->waiting, e->waiting + count, e->count);
    }
    return count > 0;
}

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    bool idle = true;
    for (unsigned i = 0; i < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); i++, idle = false)
        take_event(&event, now_ns);
    bytes_wait = false;
    for (size_t i = 0; i < CONNECTION_COUNT; i++)
        bytes_wait |= echoes[i].used && send_back(&echoes[i], now_ns);
    transport_idle(now_ns);
    return service_poll(idle, now_ns);
}

static uint64_t next_deadline_ns(uint64_t now_ns) { return bytes_wait ? now_ns : service_next_deadline_ns(now_ns); }

const struct program program = { .name = "echo",
                                 .settings = &table,
                                 .connection_count = CONNECTION_COUNT,
                                 .listener_count = 1,
                                 .udp_port_count = 1,
                                 .init = init,
                                 .turn = turn,
                                 .next_deadline_ns = next_deadline_ns };
