/* A key-value store in memory that speaks RESP2, the protocol of Redis: PING, GET, SET and DEL. */
#include "app/program.h"

#include <string.h>

#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/stats.h"
#include "base/assert.h"
#include "base/format.h"
#include "base/siphash.h"
#include "base/time.h"
#include "net/transport.h"

enum {
    CONNECTION_COUNT = 32,
    ENTRY_COUNT = 4096,
    PROBE_COUNT = 16, /* the entries that may hold a key: from its hash on */
    KEY_BYTES_MAX = 64,
    VALUE_BYTES_MAX = 1024,
    WORD_COUNT_MAX = 8,
    REQUEST_BYTES_MAX = 4096,
    DIGIT_COUNT_MAX = 8,
    /* A request, or enough to show that it is too long. */
    WAITING_BYTES_MAX = REQUEST_BYTES_MAX + DIGIT_COUNT_MAX + 4,
    INPUT_BYTES = WAITING_BYTES_MAX + TRANSPORT_DATA_BYTES_MAX,
    REPLY_BYTES_MAX = VALUE_BYTES_MAX + 16,
    EVENTS_PER_TURN_MAX = 16,
};

struct entry {
    bool used;
    uint16_t key_bytes, value_bytes;
    uint8_t key[KEY_BYTES_MAX], value[VALUE_BYTES_MAX];
};

/* A connection: the bytes that came and are not executed, and the replies in the message area that are not sent. */
struct connection {
    bool used, ended; /* ended: by the peer */
    bool wrong;       /* the peer speaks no RESP, and is cut off after its replies */
    bool more;        /* whole requests wait for the next message */
    int id;
    uint64_t active_ns; /* when bytes last came or left */
    size_t reply_bytes, input_bytes;
    uint8_t input[INPUT_BYTES];
};

struct request {
    size_t count, bytes; /* bytes: of the whole request */
    struct bytes words[WORD_COUNT_MAX];
};

static struct store_settings {
    uint16_t port;
    uint64_t silent_ns;
} settings;
#define STORE_COUNTERS(X)                                                                                              \
    X(COUNT, accepted), X(COUNT, refused), X(COUNT, silent), X(COUNT, requests), X(LEVEL, keys), X(COUNT, full),       \
        X(COUNT, wrong)
static struct store_counters {
    uint64_t STORE_COUNTERS(COUNTER_MEMBER);
} counters;
static struct {
    struct siphash_key key; /* nobody can choose keys that share a place */
    struct entry entries[ENTRY_COUNT];
    struct connection connections[CONNECTION_COUNT];
    struct connection rehearsed; /* by rehearse alone */
} state;

static const struct setting rows[] = {
    { "port", SETTING_NUMBER, SETTING_AT(struct store_settings, port), .min = 1, .max = UINT16_MAX, .initial = "6379",
      .noun = "a TCP port", .help = "where clients connect" },
    { "silent", SETTING_TIME, SETTING_AT(struct store_settings, silent_ns), .min = NS_PER_MS, .max = 3600 * NS_PER_S,
      .initial = "60", .help = "the time without a byte after which a connection is reset" },
};
static const struct settings_table settings_table = { rows, ARRAY_COUNT(rows), &settings, sizeof settings, NULL, NULL };

static const struct counter_group counter_group = COUNTER_GROUP("store.", "Store", STORE_COUNTERS, counters);

/* ---- requests: an array of bulk strings, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" ---- */

enum progress { MORE, WHOLE, WRONG };

/* Reads a line of a kind and a number, "$3\r\n", and moves *at past it. */
static enum progress read_number(struct bytes input, size_t *at, char kind, size_t max, size_t *number)
{
    size_t i = *at;
    *number = 0;
    if (i == input.count)
        return MORE;
    if (input.data[i++] != kind)
        return WRONG;
    for (; i < input.count && text_digit_is(input.data[i]); i++) {
        *number = *number * 10 + (size_t)(input.data[i] - '0');
        if (*number > max || i - *at > DIGIT_COUNT_MAX)
            return WRONG;
    }
    if (i + 2 > input.count)
        return MORE;
    if (i == *at + 1 || memcmp(input.data + i, "\r\n", 2) != 0)
        return WRONG;
    *at = i + 2;
    return WHOLE;
}

/* Reads a request from its first byte: cheap to begin again when more bytes have come, as it jumps over the words. */
static enum progress read_request(struct bytes input, struct request *r)
{
    size_t at = 0, bytes;
    enum progress progress = read_number(input, &at, '*', WORD_COUNT_MAX, &r->count);
    for (size_t i = 0; progress == WHOLE && i < r->count; i++) {
        progress = read_number(input, &at, '$', REQUEST_BYTES_MAX, &bytes);
        if (progress != WHOLE)
            break;
        if (at + bytes + 2 > REQUEST_BYTES_MAX)
            return WRONG;
        if (at + bytes + 2 > input.count)
            return MORE;
        r->words[i] = (struct bytes){ input.data + at, bytes };
        at += bytes + 2;
        if (memcmp(input.data + at - 2, "\r\n", 2) != 0)
            return WRONG;
    }
    r->bytes = at;
    return progress == WHOLE && r->count == 0 ? WRONG : progress;
}

/* ---- the table ---- */

/* Returns the entry of a key. Without one, *free is a place for it; NULL: there is none. */
static struct entry *find(struct bytes key, struct entry **free)
{
    const uint64_t hash = siphash(state.key, key.data, key.count);
    *free = NULL;
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        struct entry *e = &state.entries[(hash + i) % ENTRY_COUNT];
        if (e->used && e->key_bytes == key.count && memcmp(e->key, key.data, key.count) == 0)
            return e;
        if (!e->used && !*free)
            *free = e;
    }
    return NULL;
}

static const char *set(struct bytes key, struct bytes value)
{
    struct entry *free, *e;
    if (key.count > KEY_BYTES_MAX || value.count > VALUE_BYTES_MAX)
        return "-ERR a key has 64 bytes at most, a value 1024\r\n";
    e = find(key, &free);
    if (!e && !free) {
        counters.full++;
        return "-OOM no place is left for this key\r\n";
    }
    if (!e) {
        e = free;
        e->used = true;
        e->key_bytes = (uint16_t)key.count;
        memcpy(e->key, key.data, key.count);
        counters.keys++;
    }
    e->value_bytes = (uint16_t)value.count;
    memcpy(e->value, value.data, value.count);
    return "+OK\r\n";
}

static size_t delete_all(const struct request *r)
{
    size_t count = 0;
    struct entry *free;
    for (size_t i = 1; i < r->count; i++) {
        struct entry *e = find(r->words[i], &free);
        if (e) {
            e->used = false;
            counters.keys--;
            count++;
        }
    }
    return count;
}

/* ---- replies ---- */

static size_t write_text(uint8_t *out, const char *text)
{
    const size_t bytes = strlen(text);
    ASSERT(bytes <= REPLY_BYTES_MAX);
    memcpy(out, text, bytes);
    return bytes;
}

static size_t write_bulk(uint8_t *out, const uint8_t *data, size_t bytes)
{
    const size_t head_bytes = format((char *)out, REPLY_BYTES_MAX, "$%zu\r\n", bytes);
    ASSERT(head_bytes + bytes + 2 <= REPLY_BYTES_MAX);
    memcpy(out + head_bytes, data, bytes);
    memcpy(out + head_bytes + bytes, "\r\n", 2);
    return head_bytes + bytes + 2;
}

/* Returns true if a word is this command, in letters of either size. */
static bool is_command(struct bytes word, const char *command)
{
    bool same = word.count == strlen(command);
    for (size_t i = 0; same && i < word.count; i++)
        same = (word.data[i] & ~0x20) == command[i];
    return same;
}

/* Executes a request and writes its reply, REPLY_BYTES_MAX at most; returns the reply's bytes. */
static size_t execute(const struct request *r, uint8_t *out)
{
    struct entry *free, *e;
    counters.requests++;
    if (is_command(r->words[0], "PING") && r->count == 1)
        return write_text(out, "+PONG\r\n");
    if (is_command(r->words[0], "GET") && r->count == 2) {
        e = find(r->words[1], &free);
        return e ? write_bulk(out, e->value, e->value_bytes) : write_text(out, "$-1\r\n");
    }
    if (is_command(r->words[0], "SET") && r->count == 3)
        return write_text(out, set(r->words[1], r->words[2]));
    if (is_command(r->words[0], "DEL") && r->count >= 2)
        return format((char *)out, REPLY_BYTES_MAX, ":%zu\r\n", delete_all(r));
    return write_text(out, "-ERR PING, GET key, SET key value and DEL key... are known here\r\n");
}

/* ---- connections ---- */

/* Executes the whole requests that wait, as long as their replies fit into one message. */
static void execute_waiting(struct connection *c, uint8_t *message)
{
    struct request request;
    size_t done = 0;
    c->more = true;
    while (c->more && c->reply_bytes + REPLY_BYTES_MAX <= TRANSPORT_MESSAGE_BYTES_MAX) {
        const struct bytes input = { c->input + done, c->input_bytes - done };
        const enum progress progress = read_request(input, &request);
        if (progress == WHOLE) {
            c->reply_bytes += execute(&request, message + c->reply_bytes);
            done += request.bytes;
            continue;
        }
        c->more = false;
        if (progress == WRONG) {
            c->wrong = true;
            counters.wrong++;
            c->reply_bytes += write_text(message + c->reply_bytes, "-ERR Protocol error\r\n");
        }
    }
    c->input_bytes -= done;
    memmove(c->input, c->input + done, c->input_bytes);
}

/* Sends replies, after it has written them if there are none. A client that does not read holds up its own requests:
 * nothing is executed before the last replies have left. */
static void serve(struct connection *c, uint64_t now_ns)
{
    uint8_t *message = transport_message(c->id);
    if (!message)
        return;
    if (c->reply_bytes == 0 && !c->wrong)
        execute_waiting(c, message);
    if (c->reply_bytes > 0 && transport_send(c->id, 0, (uint32_t)c->reply_bytes, now_ns)) {
        c->reply_bytes = 0;
        c->active_ns = now_ns;
    }
}

/* Lets data come only while there is room for the largest piece: else the client's window closes. */
static void hold(const struct connection *c) { transport_hold(c->id, c->input_bytes > WAITING_BYTES_MAX); }

static void take_data(struct connection *c, struct bytes data, uint64_t now_ns)
{
    if (c->wrong)
        return;
    ASSERT(c->input_bytes + data.count <= INPUT_BYTES);
    memcpy(c->input + c->input_bytes, data.data, data.count);
    c->input_bytes += data.count;
    c->active_ns = now_ns;
    hold(c);
}

static void take_connection(int id, uint64_t now_ns)
{
    struct connection *c = state.connections;
    while (c < state.connections + CONNECTION_COUNT && c->used)
        c++;
    if (c == state.connections + CONNECTION_COUNT) {
        counters.refused++;
        transport_abort(id, now_ns);
        return;
    }
    memset(c, 0, offsetof(struct connection, input));
    c->used = true;
    c->id = id;
    c->active_ns = now_ns;
    counters.accepted++;
}

/* Takes an event of the store's port. */
static void take_event(const struct transport_event *event, uint64_t now_ns)
{
    struct connection *c = state.connections;
    if (event->kind == TRANSPORT_ACCEPTED) {
        take_connection(event->connection, now_ns);
        return;
    }
    while (c < state.connections + CONNECTION_COUNT && !(c->used && c->id == event->connection))
        c++;
    if (c == state.connections + CONNECTION_COUNT) /* one that was refused */
        return;
    if (event->kind == TRANSPORT_DATA)
        take_data(c, event->payload, now_ns);
    else if (event->kind == TRANSPORT_ENDED)
        c->ended = true;
    else if (event->kind == TRANSPORT_CLOSED)
        c->used = false;
}

static void poll_connection(struct connection *c, uint64_t now_ns)
{
    ASSERT(c->active_ns <= now_ns);
    if (now_ns - c->active_ns >= settings.silent_ns) {
        c->active_ns = now_ns; /* TRANSPORT_CLOSED follows */
        counters.silent++;
        transport_abort(c->id, now_ns);
        return;
    }
    serve(c, now_ns);
    hold(c);
    if ((c->wrong || (c->ended && !c->more)) && c->reply_bytes == 0)
        transport_close(c->id, now_ns);
}

/* ---- turns ---- */

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    for (; events < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); events++)
        if (event.kind != TRANSPORT_DATAGRAM && event.port == settings.port)
            take_event(&event, now_ns);
        else
            service_event(&event, now_ns);
    for (struct connection *c = state.connections; c < state.connections + CONNECTION_COUNT; c++)
        if (c->used)
            poll_connection(c, now_ns);
    transport_idle(now_ns);
    return service_poll(events == 0, now_ns);
}

/* Returns now while a connection has work; else the earlier of the service's time and the first silence's. */
static uint64_t next_deadline_ns(uint64_t now_ns)
{
    uint64_t next_ns = service_next_deadline_ns(now_ns);
    for (const struct connection *c = state.connections; c < state.connections + CONNECTION_COUNT; c++)
        if (c->used)
            next_ns = min_ns(next_ns, c->more || c->reply_bytes > 0 ? now_ns : c->active_ns + settings.silent_ns);
    return next_ns;
}

/* Answers a made-up request in idle time, and puts back what that counts. */
static bool rehearse(uint64_t now_ns)
{
    const struct store_counters before = counters;
    struct connection *c = &state.rehearsed;
    struct transport_event event;
    if (!transport_poll(now_ns, &event))
        return false;
    memset(c, 0, offsetof(struct connection, input));
    c->id = event.connection;
    take_data(c, event.payload, now_ns);
    serve(c, now_ns);
    counters = before;
    return c->input_bytes == 0 && c->reply_bytes == 0;
}

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    static const char request[] = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    (void)now_ns;
    memset(&state, 0, sizeof state);
    memset(&counters, 0, sizeof counters);
    state.key = siphash_key_from(machine->secret);
    stats_add_counters(&counter_group);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_SEGMENT, settings.port, text_of(request), rehearse);
    return transport_listen(settings.port) ? NULL : "port=: this port cannot be had";
}

const struct program program = { .name = "store",
                                 .settings = &settings_table,
                                 .connection_count = CONNECTION_COUNT,
                                 .listener_count = 1,
                                 .init = init,
                                 .turn = turn,
                                 .next_deadline_ns = next_deadline_ns };
