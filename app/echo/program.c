/* Sends back what comes to `port=`, over TCP and over UDP (RFC 862). The template of a program:
 * `tools/new-program NAME` makes another one from these files. */
#include "app/program.h"

#include <string.h>

#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/stats.h"
#include "base/assert.h"
#include "base/hot_section.h"
#include "base/siphash.h"
#include "base/time.h"
#include "net/transport.h"

enum {
    CONNECTION_COUNT = 8,
    WAITING_BYTES_MAX = 64 * 1024, /* for each connection */
    EVENTS_PER_TURN_MAX = 16,
    /* The EQUAL_COUNT_MAX-th equal datagram from one address and port is dropped. */
    EQUAL_COUNT_MAX = 1024,
    RECENT_COUNT = 256, /* datagrams whose equals are counted */
    /* Another datagram may be counted in the place of a recent one after RECENT_S without an equal one. After PLACE_S
     * it may if fewer than LOOP_RATE_MIN equal ones have come a second. */
    RECENT_S = 1,
    PLACE_S = 10,
    LOOP_RATE_MIN = 8,
    SILENT_S_MAX = 60,    /* without a byte in either direction; then the connection is reset */
    SILENT_S_FULL = 1,    /* the silence after which a newcomer gets a place */
    PEER_PORT_MIN = 1024, /* datagrams from lower ports may come from another echo */
};

/* A connection, and the bytes that have come and have not been sent back. */
struct connection {
    bool used;
    bool ended; /* by the peer */
    int id;
    uint64_t active_ns; /* when the last byte came or left */
    size_t waiting_bytes;
    uint8_t waiting[WAITING_BYTES_MAX];
};

#define ECHO_COUNTERS(X)                                                                                               \
    X(COUNT, accepted), X(COUNT, refused), X(COUNT, silent), X(COUNT, displaced), X(COUNT, bytes),                     \
        X(COUNT, datagrams), X(DROP_FRAME, drop_equal), X(DROP_FRAME, drop_port), X(DROP_FRAME, drop_unsent)

static struct {
    struct echo_settings {
        uint16_t port;
    } settings;
    struct connection connections[CONNECTION_COUNT];
    struct connection rehearsed; /* by rehearse_segment alone */
    struct siphash_key key;      /* drawn for each run: nobody knows which datagrams share a place */
    struct recent {
        uint64_t hash, first_ns, last_ns, count;
    } recent[RECENT_COUNT];
    struct echo_counters {
        uint64_t ECHO_COUNTERS(COUNTER_MEMBER);
    } counters;
} state;

/* ---- tables: what the program is asked for, and what it counts ---- */

static const struct setting rows[] = {
    { "port", SETTING_NUMBER, SETTING_AT(struct echo_settings, port), .min = 1, .max = UINT16_MAX, .initial = "7",
      .noun = "a port", .help = "of TCP and UDP" },
};
static const struct settings_table settings_table = {
    rows, ARRAY_COUNT(rows), &state.settings, sizeof state.settings, NULL, NULL
};

static const struct counter_group counter_group = COUNTER_GROUP("echo.", "Echo", ECHO_COUNTERS, state.counters);

/* ---- events ---- */

/* Returns the connection with this id; NULL: it has been refused. */
static struct connection *find(int id)
{
    for (size_t i = 0; i < CONNECTION_COUNT; i++)
        if (state.connections[i].used && state.connections[i].id == id)
            return &state.connections[i];
    return NULL;
}

/* Resets a connection: there is no place for it or for its bytes. */
static void refuse(int id, uint64_t now_ns)
{
    state.counters.refused++;
    transport_abort(id, now_ns);
}

/* Returns a free place. If there is none, resets the connection that has been silent the longest, if that is long
 * enough; else returns NULL. */
static struct connection *place_take(uint64_t now_ns)
{
    struct connection *oldest = &state.connections[0];
    for (size_t i = 0; i < CONNECTION_COUNT; i++) {
        struct connection *c = &state.connections[i];
        if (!c->used)
            return c;
        if (c->active_ns < oldest->active_ns)
            oldest = c;
    }
    ASSERT(oldest->active_ns <= now_ns);
    if (now_ns - oldest->active_ns < SILENT_S_FULL * NS_PER_S)
        return NULL;
    state.counters.displaced++;
    transport_abort(oldest->id, now_ns);
    return oldest;
}

static void take_connection(int id, uint64_t now_ns)
{
    ASSERT(find(id) == NULL);
    struct connection *c = place_take(now_ns);
    if (c == NULL) {
        refuse(id, now_ns);
        return;
    }
    c->used = true;
    c->ended = false;
    c->id = id;
    c->active_ns = now_ns;
    c->waiting_bytes = 0;
    state.counters.accepted++;
}

static void take_data(struct connection *c, struct bytes data, uint64_t now_ns)
{
    ASSERT(c->waiting_bytes <= WAITING_BYTES_MAX);
    if (data.count > WAITING_BYTES_MAX - c->waiting_bytes) {
        refuse(c->id, now_ns);
        return;
    }
    memcpy(c->waiting + c->waiting_bytes, data.data, data.count);
    c->waiting_bytes += data.count;
    c->active_ns = now_ns;
}

static uint64_t hash_of(const struct transport_event *event)
{
    ASSERT(event->kind == TRANSPORT_DATAGRAM);
    const uint64_t parts[] = { (uint64_t)event->address << 16 | event->peer_port,
                               siphash(state.key, event->payload.data, event->payload.count) };
    return siphash(state.key, parts, sizeof parts);
}

static struct recent *place_of(uint64_t hash) { return &state.recent[hash % RECENT_COUNT]; }

/* Returns true for each EQUAL_COUNT_MAX-th equal datagram from one address and port. A server that answers our answers,
 * because a datagram was forged in its name, sends the same datagram again and again: a drop ends the loop. Loops that
 * share a place are counted one after the other, if their round trips are shorter than 1 s / LOOP_RATE_MIN. A datagram
 * that comes now and then holds a place for PLACE_S at most; the next one in it is the loop's, which comes far more
 * often. */
static bool is_loop(const struct transport_event *event, uint64_t now_ns)
{
    const uint64_t hash = hash_of(event);
    struct recent *place = place_of(hash);
    ASSERT(place->count < EQUAL_COUNT_MAX);
    const uint64_t held_ns = now_ns - place->first_ns;
    if (place->count > 0 && place->hash != hash && now_ns - place->last_ns < RECENT_S * NS_PER_S
        && (held_ns < PLACE_S * NS_PER_S || place->count * NS_PER_S >= held_ns * LOOP_RATE_MIN))
        return false;
    if (place->hash != hash || place->count == 0)
        *place = (struct recent){ .hash = hash, .first_ns = now_ns };
    place->last_ns = now_ns;
    if (++place->count < EQUAL_COUNT_MAX)
        return false;
    place->count = 0;
    return true;
}

/* Sends a datagram back. A datagram from a server like this one, or one with such a source forged, gets no answer: the
 * two would never stop. */
static void take_datagram(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->port == state.settings.port);
    if (event->peer_port < PEER_PORT_MIN || event->peer_port == state.settings.port) {
        state.counters.drop_port++;
        return;
    }
    if (is_loop(event, now_ns)) {
        state.counters.drop_equal++;
        return;
    }
    if (transport_udp_send(event->port, event->address, event->peer_port, event->payload.data, event->payload.count,
                           now_ns))
        state.counters.datagrams++;
    else
        state.counters.drop_unsent++;
}

/* Handles the events of the program's own port, and hands all others to the service. */
static void take_event(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->kind != TRANSPORT_NONE);
    if (event->port != state.settings.port) {
        service_event(event, now_ns);
        return;
    }
    struct connection *c = event->kind == TRANSPORT_DATAGRAM ? NULL : find(event->connection);
    switch (event->kind) {
    case TRANSPORT_ACCEPTED:
        take_connection(event->connection, now_ns);
        break;
    case TRANSPORT_DATA:
        if (c)
            take_data(c, event->payload, now_ns);
        break;
    case TRANSPORT_ENDED:
        if (c)
            c->ended = true;
        break;
    case TRANSPORT_CLOSED:
        if (c)
            c->used = false;
        break;
    case TRANSPORT_DATAGRAM:
        take_datagram(event, now_ns);
        break;
    case TRANSPORT_NONE:
    case TRANSPORT_CONNECTED: /* to another machine: the echo never connects */
        break;
    }
}

/* ---- turns ---- */

/* Sends one message of the bytes that wait. */
static void send_back(struct connection *c, uint64_t now_ns)
{
    size_t bytes = min_size(c->waiting_bytes, TRANSPORT_MESSAGE_BYTES_MAX);
    uint8_t *message = bytes > 0 ? transport_message(c->id) : NULL;
    ASSERT(c->waiting_bytes <= WAITING_BYTES_MAX);
    if (!message)
        return;
    memcpy(message, c->waiting, bytes);
    if (!transport_send(c->id, 0, (uint32_t)bytes, now_ns))
        return;
    state.counters.bytes += bytes;
    c->active_ns = now_ns;
    c->waiting_bytes -= bytes;
    memmove(c->waiting, c->waiting + bytes, c->waiting_bytes);
}

/* Works on a connection, a few microseconds at most. A peer that has ended gets our end after its last byte. */
static void poll_connection(struct connection *c, uint64_t now_ns)
{
    ASSERT(c->used && c->active_ns <= now_ns);
    if (now_ns - c->active_ns >= SILENT_S_MAX * NS_PER_S) {
        c->active_ns = now_ns; /* TRANSPORT_CLOSED follows */
        state.counters.silent++;
        transport_abort(c->id, now_ns);
        return;
    }
    send_back(c, now_ns);
    if (c->ended && c->waiting_bytes == 0)
        transport_close(c->id, now_ns);
}

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    while (events < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event)) {
        take_event(&event, now_ns);
        events++;
    }
    ASSERT(events <= EVENTS_PER_TURN_MAX);
    for (size_t i = 0; i < CONNECTION_COUNT; i++)
        if (state.connections[i].used)
            poll_connection(&state.connections[i], now_ns);
    transport_idle(now_ns);
    return service_poll(events == 0, now_ns);
}

/* Returns the time of the next turn with work: now while bytes wait. A program with a time-out of its own returns the
 * earlier of the two times. */
static uint64_t next_deadline_ns(uint64_t now_ns)
{
    for (size_t i = 0; i < CONNECTION_COUNT; i++)
        if (state.connections[i].used && state.connections[i].waiting_bytes > 0)
            return now_ns;
    return service_next_deadline_ns(now_ns);
}

/* Returns the free places in percent. For a balancer in front of several echoes (agent.port=). */
static uint32_t free_percent(void)
{
    uint32_t free = 0;
    for (size_t i = 0; i < CONNECTION_COUNT; i++)
        free += !state.connections[i].used;
    ASSERT(free <= CONNECTION_COUNT);
    return free * 100 / CONNECTION_COUNT;
}

/* ---- rehearsals: app/service/rehearsal.h ---- */

static bool rehearse_datagram(uint64_t now_ns)
{
    struct transport_event event;
    if (!transport_poll(now_ns, &event))
        return false;
    struct recent *place = place_of(hash_of(&event));
    const struct recent recent = *place;
    const struct echo_counters before = state.counters;
    ASSERT(event.kind == TRANSPORT_DATAGRAM);
    take_event(&event, now_ns);
    const bool answered = state.counters.datagrams > before.datagrams;
    *place = recent;
    state.counters = before;
    return answered;
}

static bool rehearse_segment(uint64_t now_ns)
{
    struct transport_event event;
    if (!transport_poll(now_ns, &event))
        return false;
    const struct echo_counters before = state.counters;
    for (int i = 0; i < CONNECTION_COUNT; i++)
        hot_fetch(&state.connections[i], offsetof(struct connection, waiting));
    state.rehearsed.id = event.connection;
    state.rehearsed.waiting_bytes = 0;
    take_data(&state.rehearsed, event.payload, now_ns);
    send_back(&state.rehearsed, now_ns);
    ASSERT(!state.rehearsed.used);
    const bool answered = state.counters.bytes > before.bytes;
    state.counters = before;
    return answered;
}

/* ---- the start ---- */

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(state.settings.port != 0);
    memset(state.connections, 0, sizeof state.connections);
    memset(state.recent, 0, sizeof state.recent);
    state.key = siphash_key_from(machine->secret);
    stats_add_counters(&counter_group);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_DATAGRAM, state.settings.port, (struct bytes){ NULL, 0 },
                        rehearse_datagram);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_SEGMENT, state.settings.port, (struct bytes){ NULL, 0 }, rehearse_segment);
    if (!transport_listen(state.settings.port) || !transport_udp_bind(state.settings.port))
        return "port=: this port cannot be had; http.port=, control.port= or another program has it";
    return NULL;
}

const struct program program = {
    .name = "echo",
    .settings = &settings_table,
    .connection_count = CONNECTION_COUNT,
    .listener_count = 1,
    .udp_port_count = 1,
    .init = init,
    .turn = turn,
    .next_deadline_ns = next_deadline_ns,
    .free_percent = free_percent,
};
