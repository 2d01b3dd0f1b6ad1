#include "app/digest/connection.h"

#include "app/digest/settings.h"
#include "app/digest/variants.h"
#include "app/service/slow.h"
#include "base/assert.h"
#include "base/text.h"
#include "base/time.h"
#include "net/http/request.h"

struct digest_connection_counters digest_connection_counters;
const struct counter_group digest_connection_counter_group = COUNTER_GROUP(
    "digest.", "Compute service", DIGEST_CONNECTION_COUNTERS, digest_connection_counters);

void digest_connection_check(const struct connection *c)
{
    ASSERT(c->phase <= CONNECTION_LEAVING);
    ASSERT(c->in_begin + c->in_count <= CONNECTION_IN_BYTES);
    ASSERT(c->reply.bytes <= sizeof c->reply.text);
    ASSERT(c->message_count <= CONNECTION_MESSAGES_MAX);
    ASSERT(c->held || c->in_count <= CONNECTION_HEAD_BYTES_MAX || c->phase == CONNECTION_FREE);
    ASSERT((c->phase != CONNECTION_BODY && c->phase != CONNECTION_CHAIN) || c->method != NULL);
}

bool digest_connection_is_out(const struct connection *c) { return digest_pieces_are_out(&c->pieces); }

/* ---- Bytes in ---- */

static void hold(struct connection *c)
{
    bool held = c->in_count > CONNECTION_HEAD_BYTES_MAX;
    ASSERT(c->phase != CONNECTION_FREE);
    if (held == c->held)
        return;
    c->held = held;
    transport_hold(c->id, held);
}

static void in_skip(struct connection *c, size_t bytes)
{
    ASSERT(bytes <= c->in_count);
    c->in_begin += bytes;
    c->in_count -= bytes;
    hold(c);
}

void digest_connection_begin(struct connection *c, int id, uint32_t address, bool refuse, uint64_t now_ns)
{
    ASSERT(c->phase == CONNECTION_FREE && id >= 0 && !digest_connection_is_out(c));
    c->phase = refuse ? CONNECTION_REPLY : CONNECTION_HEAD;
    c->id = id;
    c->address = address;
    c->ended = c->expired = c->dropped = c->held = c->reply_begun = c->has_asked = false;
    c->keep_alive = !refuse;
    c->request_ns = 0;
    c->progress_ns = now_ns;
    c->method = NULL;
    c->in_begin = c->in_count = c->reply.bytes = 0;
    c->acked_ns = now_ns;
    c->sent_bytes = 0;
    c->message_first = c->message_count = 0;
    if (refuse)
        digest_reply_add_error(&c->reply, 503, "all connections of this machine are in use", false);
    digest_connection_counters.responses_refused += refuse;
}

void digest_connection_take(struct connection *c, const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(c->phase != CONNECTION_FREE);
    if (c->phase == CONNECTION_HEAD && c->in_count == 0) /* a head has one time-out, not one a byte */
        c->progress_ns = now_ns;
    if (event->kind == TRANSPORT_ENDED) {
        c->ended = true;
        c->ended_ns = now_ns;
    }
    if (event->kind != TRANSPORT_DATA || c->phase == CONNECTION_LEAVING)
        return;
    ASSERT(c->in_count <= CONNECTION_HEAD_BYTES_MAX && event->payload.count <= TRANSPORT_DATA_BYTES_MAX);
    memmove(c->in, c->in + c->in_begin, c->in_count);
    memcpy(c->in + c->in_count, event->payload.data, event->payload.count);
    c->in_begin = 0;
    c->in_count += event->payload.count;
    hold(c);
    digest_connection_check(c);
}

/* ---- Bytes out ---- */

uint32_t digest_connection_messages_out(struct connection *c, uint64_t now_ns)
{
    uint64_t unacked_bytes = transport_unacked_bytes(c->id), acked_bytes = c->sent_bytes - unacked_bytes;
    uint32_t before = c->message_count;
    ASSERT(c->phase != CONNECTION_FREE && unacked_bytes <= c->sent_bytes);
    for (; c->message_count > 0 && c->message_ends[c->message_first] <= acked_bytes; c->message_count--)
        c->message_first = (c->message_first + 1) % CONNECTION_MESSAGES_MAX;
    if (c->message_count == 0 || c->message_count < before)
        c->acked_ns = now_ns;
    return c->message_count;
}

/* Sends the written part of a response. */
static enum step_result reply_send(struct connection *c, uint32_t messages_max, uint64_t now_ns,
                                   struct digest_step *step)
{
    uint32_t bytes = (uint32_t)c->reply.bytes;
    ASSERT(bytes > 0 && bytes <= sizeof c->reply.text);
    if (digest_connection_messages_out(c, now_ns) >= min_size(messages_max, CONNECTION_MESSAGES_MAX))
        return STEP_BLOCKED;
    uint8_t *message = transport_message(c->id);
    step->no_buffer = message == NULL;
    if (message == NULL)
        return STEP_BLOCKED;
    memcpy(message, c->reply.text, bytes);
    if (!transport_send(c->id, 0, bytes, now_ns))
        return STEP_BLOCKED;
    digest_connection_counters.sent_bytes += bytes;
    c->sent_bytes += bytes;
    c->message_ends[(c->message_first + c->message_count++) % CONNECTION_MESSAGES_MAX] = c->sent_bytes;
    c->reply.bytes = 0;
    c->progress_ns = now_ns;
    step->sent = true;
    return STEP_DONE;
}

/* Returns true if the bytes of a request's head say HEAD, however malformed they are. */
static bool asks_for_head(const struct connection *c)
{
    struct bytes text = { c->in + c->in_begin, c->in_count };
    ASSERT(c->in_begin + c->in_count <= CONNECTION_IN_BYTES);
    (void)(text_skip(&text, "\r\n") || text_skip(&text, "\n")); /* RFC 9112 §2.2: an empty line before it */
    return text_starts(text, "HEAD ");
}

/* Refuses the request and, with it, all that may follow: where the next one begins is not known. A response that has
 * begun cannot be taken back: the connection breaks off. */
static void refuse(struct connection *c, unsigned status, const char *reason, uint64_t now_ns)
{
    const bool head_only = c->phase == CONNECTION_HEAD && asks_for_head(c);
    ASSERT(reason != NULL);
    c->phase = CONNECTION_REPLY;
    c->keep_alive = false;
    c->request_ns = 0;
    if (c->reply_begun) {
        digest_connection_counters.broken_off++;
        digest_connection_drop(c, now_ns);
        return;
    }
    digest_connection_counters.responses_refused++;
    digest_reply_add_error(&c->reply, status, reason, head_only);
}

/* ---- Requests ---- */

static const char *refusal_of(const struct http_request *request, unsigned *status)
{
    *status = request->refused;
    if (request->refused == 501)
        return "this transfer coding is not known here; chunked is";
    if (request->refused == 505)
        return "the version of HTTP must be 1.0 or 1.1";
    if (request->refused != 0)
        return "the request is malformed";
    size_t index;
    *status = 404;
    if (digest_method_of(request->path, &index) == NULL)
#define METHOD_WAY(name, keys) " /" #name keys
        return "there are" DIGEST_METHODS(METHOD_WAY);
    *status = 405;
    if (!text_is(request->method, "POST"))
        return "the method must be POST";
    *status = 411;
    if (!request->has_length && !request->chunked)
        return "the request needs Content-Length, or chunks";
    *status = 413;
    if (digest_settings.body_max != 0 && request->has_length && request->length > digest_settings.body_max)
        return "the body is longer than the setting body.max= allows";
    return NULL;
}

/* Begins the body of a request that is in order so far. */
static void request_begin(struct connection *c, const struct http_request *request, uint64_t now_ns)
{
    const struct method_request asked = { request->query, request->has_length, request->length };
    c->method = digest_method_of(request->path, &c->method_index);
    ASSERT(c->method != NULL && !digest_connection_is_out(c));
    const char *reason = c->method->begin(&c->job, &asked);
    if (reason != NULL) {
        refuse(c, 400, reason, now_ns);
        return;
    }
    http_body_begin(&c->body, request);
    digest_pieces_begin(&c->pieces, c->method, &c->job, c->body.left);
    c->body_bytes = 0;
    c->streams_chunks = request->version_minor != 0;
    c->keep_alive = request->keep_alive && (c->streams_chunks || !c->method->streams);
    c->phase = CONNECTION_BODY;
    c->progress_ns = c->period_begins_ns = c->request_ns = c->begun_ns = now_ns;
    c->period_bytes = 0;
    if (request->expects_continue && request->version_minor != 0 && c->body.state != HTTP_BODY_DONE)
        digest_reply_add(&c->reply, text_of("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* Takes a request's head. */
static enum step_result head_step(struct connection *c, uint64_t now_ns)
{
    size_t bytes = http_request_head_bytes(c->in + c->in_begin, c->in_count);
    ASSERT(bytes <= c->in_count);
    if (bytes == 0 && c->in_count < CONNECTION_HEAD_BYTES_MAX) {
        if (!c->ended)
            return STEP_STARVED;
        c->keep_alive = false; /* nothing that could be answered */
        c->phase = CONNECTION_REPLY;
        return STEP_DONE;
    }
    digest_connection_counters.requests++;
    c->has_asked = true;
    if (bytes == 0 || bytes > CONNECTION_HEAD_BYTES_MAX) {
        refuse(c, 431, "the head of a request is at most 4096 bytes", now_ns);
        return STEP_DONE;
    }
    struct http_request request = http_request_parse(c->in + c->in_begin, bytes);
    unsigned status;
    const char *reason = refusal_of(&request, &status);
    if (reason != NULL)
        refuse(c, status, reason, now_ns);
    else
        request_begin(c, &request, now_ns);
    in_skip(c, bytes);
    return STEP_DONE;
}

/* Ends the body: writes the response, or hands over to the chains. */
static void body_end(struct connection *c, uint64_t now_ns)
{
    struct method_result result = { .bytes = 0 };
    enum method_end end = c->method->end(&c->job, &result);
    c->body_ns = c->result_ns = now_ns;
    ASSERT(result.bytes <= sizeof result.text);
    if (end == METHOD_REFUSED) {
        refuse(c, 400, result.refusal, now_ns);
        return;
    }
    if (end == METHOD_CHAIN) {
        memcpy(c->chain.digest, c->job.sha256.state, sizeof c->chain.digest);
        c->chain.rounds_left = c->job.sha256.rounds - 1;
        c->phase = CONNECTION_CHAIN;
        digest_chains_add(&c->chain);
        return;
    }
    c->phase = CONNECTION_REPLY;
    digest_connection_counters.responses_200++;
    if (!c->method->streams) {
        digest_reply_add_result(&c->reply, (struct bytes){ result.text, result.bytes }, !c->keep_alive);
        return;
    }
    memcpy(digest_reply_stream_begin(&c->reply), result.text, result.bytes);
    digest_reply_stream_end(&c->reply, result.bytes, c->streams_chunks);
    digest_reply_add(&c->reply, text_of(c->streams_chunks ? "0\r\n\r\n" : ""));
}

/* Returns true if a run takes longer than a hand-over. A method that streams writes a message's bytes at a time, which
 * is too little. */
static bool is_long(const struct connection *c, size_t bytes)
{
    return !c->method->streams && bytes >= digest_variants.given_bytes_min[c->method_index];
}

/* Returns true if a run is worth a hand-over. A worker that has work already would only delay it: then this CPU takes
 * the run itself. */
static bool is_worth_giving(const struct connection *c, size_t bytes, uint64_t now_ns)
{
    const uint32_t depth = digest_chains_count() > 0 ? 1 : digest_pieces_depth(&c->pieces, now_ns);
    return is_long(c, bytes) && work_has_room(depth) && digest_pieces_have_room(&c->pieces);
}

/* Returns how many bytes of the body may be taken now; 0: the reply must be sent first. */
static size_t run_bytes_max(const struct connection *c, uint64_t now_ns)
{
    size_t slice = digest_variants.slice_bytes[c->method_index], room = digest_reply_stream_room(&c->reply) / 4 * 3;
    if (c->method->streams)
        return room > 3 ? min_size(slice, room - 3) : 0;
    slice *= is_worth_giving(c, c->in_count, now_ns) ? WORK_JOB_NS / VARIANTS_SLICE_NS : 1;
    slice = min_size(slice, METHOD_RUN_BYTES_MAX);
    return c->pieces.in_parts ? max_size(slice - slice % c->method->part_bytes, c->method->part_bytes) : slice;
}

/* Takes a run of the body, or gives it to a worker. */
static void run_take(struct connection *c, struct bytes run, uint64_t now_ns, struct digest_step *step)
{
    const uint64_t at = c->body_bytes;
    c->body_bytes += run.count;
    digest_connection_counters.body_bytes += run.count;
    step->bytes_here = run.count;
    if (c->method->streams) {
        size_t written = c->method->take(&c->job, run.data, run.count, digest_reply_stream_begin(&c->reply));
        digest_reply_stream_end(&c->reply, written, c->streams_chunks);
    } else if (is_worth_giving(c, run.count, now_ns)) {
        digest_connection_counters.given_bytes += run.count;
        step->bytes_here = 0;
        digest_pieces_give(&c->pieces, at, run);
    } else {
        if (!c->pieces.in_parts && is_long(c, run.count) && work_worker_count() > 0)
            digest_pieces_note_wait(now_ns);
        digest_pieces_take_here(&c->pieces, at, run);
    }
}

/* Goes on with the body by a run. */
static enum step_result body_step(struct connection *c, uint32_t messages_max, uint64_t now_ns,
                                  struct digest_step *step)
{
    struct bytes run;
    if (digest_connection_is_out(c) && !(c->pieces.in_parts && digest_pieces_have_room(&c->pieces)))
        return STEP_STARVED;
    if (c->in_count > 0 && (c->reply.bytes == 0 || !c->method->streams)) /* else a reader is awaited */
        c->progress_ns = now_ns;
    if (c->method->streams && !c->reply_begun)
        digest_reply_add_stream_head(&c->reply, c->streams_chunks, !c->keep_alive);
    c->reply_begun = c->method->streams;
    size_t most = run_bytes_max(c, now_ns);
    if (most == 0)
        return reply_send(c, messages_max, now_ns, step);
    const size_t ready = c->in_count - (c->pieces.in_parts ? c->in_count % c->method->part_bytes : 0);
    size_t taken = http_body_step(&c->body, c->in + c->in_begin, ready, most, &run);
    ASSERT(run.count <= most);
    if (run.count > 0)
        run_take(c, run, now_ns, step);
    in_skip(c, taken);
    if (digest_settings.body_max != 0 && c->body_bytes > digest_settings.body_max)
        refuse(c, 413, "the body is longer than the setting body.max= allows", now_ns);
    else if (c->body.state == HTTP_BODY_BAD)
        refuse(c, 400, "the chunks of the body are malformed", now_ns);
    else if (c->body.state == HTTP_BODY_DONE && digest_connection_is_out(c))
        return STEP_STARVED;
    else if (c->body.state == HTTP_BODY_DONE)
        body_end(c, now_ns);
    else if (ready > taken)
        return STEP_DONE;
    else if (c->ended)
        refuse(c, 400, "the body ends before its length", now_ns);
    else if (c->reply.bytes > 0)
        return reply_send(c, messages_max, now_ns, step);
    else
        return STEP_STARVED;
    return STEP_DONE;
}

/* Hands the way of an answered request to the slowest ones. */
static void note_request(struct connection *c, uint64_t now_ns)
{
    if (c->request_ns == 0)
        return;
    ASSERT(c->request_ns <= c->body_ns && c->body_ns <= c->result_ns && c->result_ns <= now_ns);
    const uint64_t stage_ns[] = { c->body_ns - c->request_ns, c->result_ns - c->body_ns, now_ns - c->result_ns };
    slow_note(now_ns - c->request_ns, stage_ns, now_ns);
    c->request_ns = 0;
}

/* Goes on after a complete response: to the next request, or to the end. */
static enum step_result reply_step(struct connection *c, uint32_t messages_max, uint64_t now_ns,
                                   struct digest_step *step)
{
    ASSERT(c->phase == CONNECTION_REPLY);
    if (c->reply.bytes > 0 && reply_send(c, messages_max, now_ns, step) == STEP_BLOCKED)
        return STEP_BLOCKED;
    c->reply_begun = false;
    note_request(c, now_ns);
    if (c->keep_alive) {
        c->phase = CONNECTION_HEAD;
        return STEP_DONE;
    }
    c->phase = CONNECTION_LEAVING;
    c->progress_ns = now_ns;
    in_skip(c, c->in_count);
    transport_close(c->id, now_ns);
    return STEP_STARVED;
}

struct digest_step digest_connection_step(struct connection *c, uint32_t messages_max, uint64_t now_ns)
{
    struct digest_step step = { .result = STEP_STARVED };
    digest_connection_check(c);
    if (c->phase == CONNECTION_HEAD)
        step.result = head_step(c, now_ns);
    else if (c->phase == CONNECTION_BODY)
        step.result = body_step(c, messages_max, now_ns, &step);
    else if (c->phase == CONNECTION_REPLY)
        step.result = reply_step(c, messages_max, now_ns, &step);
    digest_connection_check(c);
    return step;
}

void digest_connection_chain_ended(struct connection *c, uint64_t now_ns)
{
    uint8_t digest[sizeof c->chain.digest], line[2 * sizeof digest];
    ASSERT(c->phase == CONNECTION_CHAIN && c->chain.rounds_left == 0);
    for (size_t i = 0; i < ARRAY_COUNT(c->chain.digest); i++)
        store_be32(digest + 4 * i, c->chain.digest[i]);
    digest_method_hex_write(line, digest, sizeof digest);
    digest_reply_add_result(&c->reply, (struct bytes){ line, sizeof line }, !c->keep_alive);
    digest_connection_counters.responses_200++;
    c->phase = CONNECTION_REPLY;
    c->progress_ns = c->result_ns = now_ns;
}

void digest_connection_expire(struct connection *c, uint64_t now_ns)
{
    bool is_asking = (c->phase == CONNECTION_HEAD && c->in_count > 0) || c->phase == CONNECTION_BODY;
    ASSERT(c->phase != CONNECTION_FREE && !c->dropped);
    c->progress_ns = now_ns;
    c->expired = true;
    if (is_asking && !c->reply_begun) {
        refuse(c, 408, "the request did not come within the setting client.timeout=, or a body too slowly", now_ns);
    } else if (c->phase == CONNECTION_HEAD) {
        c->keep_alive = false;
        c->phase = CONNECTION_REPLY;
    } else {
        digest_connection_drop(c, now_ns);
    }
}

bool digest_connection_is_spare(struct connection *c, uint64_t now_ns)
{
    ASSERT(c->phase != CONNECTION_FREE);
    if (c->dropped)
        return false;
    if (c->phase == CONNECTION_CHAIN)
        return c->ended;
    return c->phase == CONNECTION_LEAVING && digest_connection_messages_out(c, now_ns) == 0;
}

void digest_connection_drop(struct connection *c, uint64_t now_ns)
{
    ASSERT(c->phase != CONNECTION_FREE && !c->dropped);
    if (c->phase == CONNECTION_CHAIN)
        digest_chains_remove(&c->chain);
    in_skip(c, c->in_count);
    c->reply.bytes = 0;
    c->phase = CONNECTION_LEAVING;
    c->dropped = true;
    transport_abort(c->id, now_ns);
}

void digest_connection_end(struct connection *c)
{
    ASSERT(c->phase != CONNECTION_FREE);
    if (c->phase == CONNECTION_CHAIN)
        digest_chains_remove(&c->chain);
    c->phase = CONNECTION_FREE;
}

/* ---- Rehearsal ---- */

bool digest_connection_rehearse(const struct transport_event *event, uint64_t now_ns)
{
    enum { STEPS_MAX = 8 }; /* head, body, reply, and the end of the bytes */
    static struct connection c;
    const struct digest_connection_counters before = digest_connection_counters;
    if (event->kind != TRANSPORT_DATA)
        return false;
    digest_connection_begin(&c, event->connection, event->address, false, now_ns);
    digest_connection_take(&c, event, now_ns);
    for (int i = 0; i < STEPS_MAX && digest_connection_step(&c, CONNECTION_MESSAGES_MAX, now_ns).result == STEP_DONE;
         i++)
        c.request_ns = 0; /* none of the slowest ways */
    ASSERT(!digest_connection_is_out(&c));
    digest_connection_end(&c);
    digest_connection_counters = before;
    return c.sent_bytes > 0;
}
