/* One connection of the service: bytes in, requests, methods, responses out, one step at a time. Knows no other
 * connection. Nothing here waits: a step that cannot go on returns, and is tried again after the next event. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/digest/chains.h"
#include "app/digest/method.h"
#include "app/digest/pieces.h"
#include "app/digest/reply.h"
#include "base/counters.h"
#include "net/http/body.h"
#include "net/transport.h"

enum {
    CONNECTION_HEAD_BYTES_MAX = 4096,
    /* With more than a head's bytes unread the transport holds back the rest, so one more event always fits. */
    CONNECTION_IN_BYTES = CONNECTION_HEAD_BYTES_MAX + TRANSPORT_DATA_BYTES_MAX,
    CONNECTION_MESSAGES_MAX = 64,   /* out and not acknowledged */
    CONNECTION_BODY_RATE_MIN = 500, /* bytes a second of a body, in each period of client.timeout= */
};

enum connection_phase {
    CONNECTION_FREE,
    CONNECTION_HEAD,    /* the request's head is not complete */
    CONNECTION_BODY,    /* the method takes the body */
    CONNECTION_CHAIN,   /* rounds are left to do */
    CONNECTION_REPLY,   /* the response is complete, and perhaps not sent */
    CONNECTION_LEAVING, /* all is sent, FIN too; what still comes is not read */
};

enum step_result {
    STEP_DONE,    /* go on at once */
    STEP_STARVED, /* nothing to do before an event, or before a worker is done */
    STEP_BLOCKED, /* the transport does not take the response now */
};

/* The outcome of a step. */
struct digest_step {
    enum step_result result;
    size_t bytes_here; /* taken from a body by this CPU */
    bool sent;         /* a message is out */
    bool no_buffer;    /* blocked, because there was none for a message */
};

struct connection {
    enum connection_phase phase;
    int id;
    uint32_t address; /* the client's */
    bool ended;       /* the peer has sent FIN */
    bool expired;     /* timed out: the place is free once the response has left */
    bool dropped;     /* reset: the place is free when the transport says so */
    bool held;        /* transport_hold */
    bool keep_alive;  /* another request may follow this one */
    bool has_asked;   /* a request has come */
    bool streams_chunks;
    bool reply_begun;     /* a part of a streamed response is written */
    uint64_t progress_ns; /* when it last made progress: bytes that nobody waits for are none */
    uint64_t acked_ns;    /* when the client last acknowledged a message, or none was out */
    uint64_t sent_bytes;
    uint64_t message_ends[CONNECTION_MESSAGES_MAX]; /* in sent_bytes: a ring of the messages that are out */
    uint32_t message_first, message_count;
    const struct method *method;
    size_t method_index;
    struct http_body body;
    uint64_t body_bytes; /* so far */
    /* Stamps of the request; `request_ns` 0: it is not answered with a result. */
    uint64_t request_ns, body_ns, result_ns;
    uint64_t begun_ns;         /* as request_ns, without the time in which the machine stood still */
    uint64_t ended_ns;         /* when the peer's FIN came */
    uint64_t period_begins_ns; /* the body's time of CONNECTION_BODY_RATE_MIN */
    uint64_t period_bytes;     /* the bytes that had come then */
    struct pieces pieces;
    _Alignas(WORK_LINE_BYTES) union method_job job; /* workers read it while `pieces` changes */
    struct chain chain;
    size_t in_begin, in_count;
    struct reply reply;
    uint8_t in[CONNECTION_IN_BYTES];
};

#define DIGEST_CONNECTION_COUNTERS(X)                                                                                  \
    X(COUNT, requests), X(COUNT, responses_200), X(COUNT, responses_refused), X(COUNT, body_bytes),                    \
        X(COUNT, given_bytes), X(COUNT, sent_bytes), X(COUNT, broken_off)
extern struct digest_connection_counters {
    uint64_t DIGEST_CONNECTION_COUNTERS(COUNTER_MEMBER);
} digest_connection_counters;
extern const struct counter_group digest_connection_counter_group;

/* Returns true while a worker has a piece of the body. The place may then not be given to another connection, even if
 * it is free. */
bool digest_connection_is_out(const struct connection *c);

/* Begins a connection. With `refuse` its only response says that there are too many. */
void digest_connection_begin(struct connection *c, int id, uint32_t address, bool refuse, uint64_t now_ns);

/* Takes TRANSPORT_DATA and TRANSPORT_ENDED. */
void digest_connection_take(struct connection *c, const struct transport_event *event, uint64_t now_ns);

/* Goes on by one step of at most a slice (variants.h). With `messages_max` messages out nothing is sent. */
struct digest_step digest_connection_step(struct connection *c, uint32_t messages_max, uint64_t now_ns);

/* Returns how many messages are out. Each keeps a transmit buffer until the client acknowledges it. */
uint32_t digest_connection_messages_out(struct connection *c, uint64_t now_ns);

/* Gives the rounds' result as the response. */
void digest_connection_chain_ended(struct connection *c, uint64_t now_ns);

/* Returns true if the connection has waited for a request for a second, or for its first one for half a second. */
bool digest_connection_is_idle(const struct connection *c, uint64_t now_ns);

/* Returns when the request under way began. If none is, the time of the latest progress. */
uint64_t digest_connection_begun_ns(const struct connection *c);

/* Counts a time in which the machine stood still neither against the client nor for it. */
void digest_connection_stall(struct connection *c, uint64_t stall_ns, uint64_t now_ns);

/* Returns true if the connection has made no progress for client.timeout=, or if its body comes too slowly. A chain has
 * all the time while its client waits: that time is ours. It is overdue client.timeout= after its client has ended. */
bool digest_connection_is_overdue(struct connection *c, uint64_t now_ns);

/* Ends a connection that is overdue: with a response, if it is in the middle of a request. */
void digest_connection_expire(struct connection *c, uint64_t now_ns);

/* Returns true if the place may be given to somebody else. Either a chain runs for a client that has ended, or the
 * client has all that was sent and need only close. */
bool digest_connection_is_spare(struct connection *c, uint64_t now_ns);

/* Resets the connection. */
void digest_connection_drop(struct connection *c, uint64_t now_ns);

/* Forgets a connection that the transport has closed. */
void digest_connection_end(struct connection *c);

/* Answers a made-up request with a body of at most a block, which no worker gets, on a connection that nobody else
 * knows: app/service/rehearsal.h. Returns false if no answer has left. */
bool digest_connection_rehearse(const struct transport_event *event, uint64_t now_ns);

/* Asserts the whole invariant. */
void digest_connection_check(const struct connection *c);
