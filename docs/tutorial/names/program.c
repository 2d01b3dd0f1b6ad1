/* Answers DNS queries for IPv4 addresses (RFC 1035) from the table that `name=` gives. */
#include "app/program.h"

#include <string.h>

#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/stats.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "net/transport.h"

enum {
    NAME_COUNT_MAX = 64,
    EVENTS_PER_TURN_MAX = 16,

    HEADER_BYTES = 12, /* RFC 1035 §4.1.1: id, flags, and the counts of four sections */
    NAME_BYTES_MAX = 255,
    LABEL_BYTES_MAX = 63,    /* RFC 1035 §2.3.4; a larger length byte is a compression pointer (§4.1.4) */
    QUESTION_TAIL_BYTES = 4, /* type and class */
    ANSWER_BYTES = 16,
    REPLY_BYTES_MAX = HEADER_BYTES + NAME_BYTES_MAX + QUESTION_TAIL_BYTES + ANSWER_BYTES,

    FLAG_RESPONSE = 0x8000,
    FLAG_AUTHORITATIVE = 0x0400,
    FLAG_RECURSION_DESIRED = 0x0100,
    OPCODE_MASK = 0x7800,
    FLAGS_KEPT = OPCODE_MASK | FLAG_RECURSION_DESIRED, /* a reply repeats these */
    TYPE_A = 1,
    TYPE_ANY = 255,
    CLASS_IN = 1,
    POINTER_TO_QUESTION = 0xc000 | HEADER_BYTES,
};

enum rcode { RCODE_NO_ERROR = 0, RCODE_NAME_ERROR = 3, RCODE_NOT_IMPLEMENTED = 4, RCODE_REFUSED = 5 };

/* A name of the table as the wire has it: labels with a length byte each, then 0. Letters are small. */
struct row {
    uint8_t name[NAME_BYTES_MAX];
    size_t name_bytes;
    uint32_t address;
};

struct question {
    uint8_t name[NAME_BYTES_MAX]; /* letters are small */
    size_t name_bytes, end;       /* end: the byte after the question in the query */
    uint16_t flags, type, class;
};

static struct names_settings {
    uint16_t port;
    uint32_t ttl_s;
    uint32_t row_count;
    struct row rows[NAME_COUNT_MAX];
} settings;

#define NAMES_COUNTERS(X)                                                                                              \
    X(COUNT, queries), X(COUNT, answered), X(COUNT, empty), X(COUNT, unknown), X(COUNT, refused),                      \
        X(DROP_FRAME, drop_malformed), X(DROP_FRAME, drop_response), X(DROP_FRAME, drop_unsent)
static struct names_counters {
    uint64_t NAMES_COUNTERS(COUNTER_MEMBER);
} counters;

/* ---- tables: what the program is asked for, and what it counts ---- */

static uint8_t small_letter(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 'a' - 'A') : c; }

/* Writes "www.example.test" as labels. Returns the bytes; 0: this is no name. */
static size_t name_from_text(struct bytes text, uint8_t name[NAME_BYTES_MAX])
{
    struct bytes label;
    size_t bytes = 0;
    while (text_split(&text, '.', &label)) {
        if (label.count == 0 || label.count > LABEL_BYTES_MAX || bytes + 1 + label.count + 1 > NAME_BYTES_MAX)
            return 0;
        name[bytes++] = (uint8_t)label.count;
        for (size_t i = 0; i < label.count; i++)
            name[bytes++] = small_letter(label.data[i]);
    }
    name[bytes++] = 0;
    ASSERT(bytes <= NAME_BYTES_MAX);
    return bytes;
}

static struct settings_refusal set_name(void *member, struct bytes value)
{
    struct names_settings *s = member;
    struct bytes name;
    if (s->row_count == NAME_COUNT_MAX)
        return settings_refuse("the table is full");
    struct row *row = &s->rows[s->row_count];
    text_split(&value, ':', &name);
    row->name_bytes = name_from_text(name, row->name);
    if (row->name_bytes == 0 || value.data == NULL || !text_address(value, &row->address))
        return settings_refuse(SETTINGS_EXPECTED);
    s->row_count++;
    return settings_accept();
}

static const struct setting rows[] = {
    { "port", SETTING_NUMBER, SETTING_AT(struct names_settings, port), .min = 1, .max = UINT16_MAX, .initial = "53",
      .noun = "a UDP port", .help = "where queries come" },
    { "ttl", SETTING_NUMBER, SETTING_AT(struct names_settings, ttl_s), .max = INT32_MAX, .initial = "60",
      .noun = "seconds", .help = "how long a resolver may keep an answer" },
    { "name", SETTING_CUSTOM, .set = set_name, .repeats = true, .required = true, .noun = "NAME:ADDRESS",
      .help = "a row of the table; for each name once more" },
};
static const struct settings_table settings_table = { rows, ARRAY_COUNT(rows), &settings, sizeof settings, NULL, NULL };

static const struct counter_group counter_group = COUNTER_GROUP("names.", "Names", NAMES_COUNTERS, counters);

/* ---- queries ---- */

/* Reads the question's name, and makes its letters small. False: it has no end, or is compressed. */
static bool read_name(struct bytes query, struct question *question)
{
    const uint8_t *at = query.data + HEADER_BYTES, *end = query.data + query.count;
    size_t bytes = 0, label_bytes;
    do {
        if (at + bytes == end)
            return false;
        label_bytes = at[bytes];
        if (label_bytes > LABEL_BYTES_MAX || label_bytes >= (size_t)(end - at) - bytes)
            return false;
        if (bytes + 1 + label_bytes > NAME_BYTES_MAX)
            return false;
        question->name[bytes++] = (uint8_t)label_bytes;
        for (size_t label_end = bytes + label_bytes; bytes < label_end; bytes++)
            question->name[bytes] = small_letter(at[bytes]);
    } while (label_bytes > 0);
    question->name_bytes = bytes;
    ASSERT(bytes <= NAME_BYTES_MAX);
    return true;
}

/* Reads a query's one question. False: the query is malformed. */
static bool read_question(struct bytes query, struct question *question)
{
    if (query.count < HEADER_BYTES || load_be16(query.data + 4) != 1 || !read_name(query, question))
        return false;
    question->end = HEADER_BYTES + question->name_bytes + QUESTION_TAIL_BYTES;
    if (question->end > query.count)
        return false;
    question->flags = load_be16(query.data + 2);
    question->type = load_be16(query.data + question->end - 4);
    question->class = load_be16(query.data + question->end - 2);
    return true;
}

/* Finds the row of a name. Without one, `exists` says if a name of the table ends in this one: then this is a
 * name, too, and has no address (RFC 8020). */
static const struct row *find(const struct question *q, bool *exists)
{
    *exists = false;
    for (uint32_t i = 0; i < settings.row_count; i++) {
        const struct row *row = &settings.rows[i];
        size_t from = 0;
        while (row->name_bytes - from > q->name_bytes)
            from += 1u + row->name[from];
        ASSERT(from < row->name_bytes);
        if (row->name_bytes - from != q->name_bytes || memcmp(row->name + from, q->name, q->name_bytes) != 0)
            continue;
        *exists = true;
        if (from == 0)
            return row;
    }
    return NULL;
}

/* Decides about a question. `row` is its answer; NULL: it has none. Counts the outcome. */
static enum rcode resolve(const struct question *q, const struct row **row)
{
    bool exists;
    const struct row *found = find(q, &exists);
    *row = NULL;
    if (q->flags & OPCODE_MASK || q->class != CLASS_IN) {
        counters.refused++;
        return q->flags & OPCODE_MASK ? RCODE_NOT_IMPLEMENTED : RCODE_REFUSED;
    }
    if (!exists) {
        counters.unknown++;
        return RCODE_NAME_ERROR;
    }
    if (q->type == TYPE_A || q->type == TYPE_ANY)
        *row = found;
    ++*(*row ? &counters.answered : &counters.empty);
    return RCODE_NO_ERROR;
}

/* Writes the reply: header, question, and one answer at most (RFC 1035 §4.1). It is 16 bytes longer than its query at
 * most, so a query with a forged source gains its sender nothing. Returns the bytes. */
static size_t write_reply(struct bytes query, const struct question *q, uint8_t reply[REPLY_BYTES_MAX])
{
    const struct row *row;
    const enum rcode rcode = resolve(q, &row);
    const bool is_ours = rcode == RCODE_NO_ERROR || rcode == RCODE_NAME_ERROR;
    uint8_t *answer = reply + q->end;
    ASSERT(q->end + ANSWER_BYTES <= REPLY_BYTES_MAX);
    memcpy(reply, query.data, q->end); /* the id and the question, in the client's own letters */
    store_be16(reply + 2,
               (uint16_t)(FLAG_RESPONSE | (is_ours ? FLAG_AUTHORITATIVE : 0) | (q->flags & FLAGS_KEPT) | rcode));
    store_be16(reply + 6, row != NULL);
    store_be32(reply + 8, 0); /* no authorities, and nothing additional: EDNS (RFC 6891) is not spoken here */
    if (!row)
        return q->end;
    store_be16(answer, POINTER_TO_QUESTION);
    store_be16(answer + 2, TYPE_A);
    store_be16(answer + 4, CLASS_IN);
    store_be32(answer + 6, settings.ttl_s);
    store_be16(answer + 10, sizeof row->address);
    store_be32(answer + 12, row->address);
    return q->end + ANSWER_BYTES;
}

static void take_query(const struct transport_event *event, uint64_t now_ns)
{
    const struct bytes query = event->payload;
    struct question question;
    uint8_t reply[REPLY_BYTES_MAX];
    counters.queries++;
    if (query.count >= HEADER_BYTES && load_be16(query.data + 2) & FLAG_RESPONSE) {
        counters.drop_response++; /* to answer an answer would never end */
        return;
    }
    if (!read_question(query, &question)) {
        counters.drop_malformed++;
        return;
    }
    const size_t bytes = write_reply(query, &question, reply);
    if (!transport_udp_send(event->port, event->address, event->peer_port, reply, bytes, now_ns))
        counters.drop_unsent++;
}

/* ---- turns ---- */

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    unsigned events = 0;
    for (; events < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); events++)
        if (event.kind == TRANSPORT_DATAGRAM && event.port == settings.port)
            take_query(&event, now_ns);
        else
            service_event(&event, now_ns);
    transport_idle(now_ns);
    return service_poll(events == 0, now_ns);
}

/* Answers a made-up query in idle time, and puts back what that counts. */
static bool rehearse(uint64_t now_ns)
{
    const struct names_counters before = counters;
    struct transport_event event;
    if (!transport_poll(now_ns, &event))
        return false;
    take_query(&event, now_ns);
    const bool answered = counters.answered > before.answered && counters.drop_unsent == before.drop_unsent;
    counters = before;
    return answered;
}

/* Returns a query for the first name. */
static struct bytes rehearsed_query(void)
{
    static uint8_t query[HEADER_BYTES + NAME_BYTES_MAX + QUESTION_TAIL_BYTES];
    const struct row *row = &settings.rows[0];
    uint8_t *tail = query + HEADER_BYTES + row->name_bytes;
    ASSERT(settings.row_count > 0);
    store_be16(query + 4, 1);
    memcpy(query + HEADER_BYTES, row->name, row->name_bytes);
    store_be16(tail, TYPE_A);
    store_be16(tail + 2, CLASS_IN);
    return (struct bytes){ query, HEADER_BYTES + row->name_bytes + QUESTION_TAIL_BYTES };
}

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    (void)machine, (void)now_ns;
    memset(&counters, 0, sizeof counters);
    stats_add_counters(&counter_group);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_DATAGRAM, settings.port, rehearsed_query(), rehearse);
    return transport_udp_bind(settings.port) ? NULL : "port=: this port cannot be had";
}

const struct program program = { .name = "names",
                                 .settings = &settings_table,
                                 .udp_port_count = 1,
                                 .init = init,
                                 .turn = turn,
                                 .next_deadline_ns = service_next_deadline_ns };
