/* The control channel: authenticated commands over UDP, docs/control.md. Five commands: the statistics, the order to
 * give the machine back ("GG"), log and capture from a position on, and a change of one setting of the running program.
 * GG and the change are answered with the statistics too.
 *
 *     HELLO      ->   64 bytes, the client's nonce
 *                <-   CHALLENGE, 56 bytes: never more than was asked with
 *     COMMAND    ->   96 bytes, HMAC-SHA-256 over all of it, the challenge included; SET: a word follows
 *                <-   REPLY, in parts, each with its own HMAC
 *
 * A challenge is a keyed hash of the peer's address and port, its nonce and the time, under a secret of this run.
 * Nothing is kept for those who only ask, so no flood can push out anybody. A HELLO with the right tag is the
 * operator's, and is not counted with those of strangers: however many come, it is answered. A challenge is good for
 * 10 s, and for one command. Challenges that were used are remembered for as long as they would be good, and only
 * holders of the key can fill that memory. Everything else is counted by reason and not answered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "net/transport.h"

/* Lets the program obey SET: `set` changes a setting while the program runs. The word is borrowed for the call, which
 * returns NULL, or a message. A command may come twice if its reply is lost. Without this call every SET is refused. */
void control_on_set(const char *(*set)(struct bytes word));

/* ---- for the service ---- */

enum {
    CONTROL_VERSION = 1,
    CONTROL_HELLO = 1,
    CONTROL_CHALLENGE = 2,
    CONTROL_COMMAND = 3,
    CONTROL_REPLY = 4,

    CONTROL_STATUS = 1, /* commands */
    CONTROL_GG = 2,
    CONTROL_LOG = 3,
    CONTROL_SET = 4,
    CONTROL_CAPTURE = 5,

    CONTROL_DONE = 0, /* results */
    CONTROL_UNKNOWN_COMMAND = 1,
    CONTROL_REFUSED = 2, /* SET and CAPTURE: the text says why */

    /* HELLOs, and commands under a wrong key, of one client and of others in its bucket: CONTROL_RATE_BURST at once,
     * then one each CONTROL_RATE_PERIOD_MS. */
    CONTROL_RATE_BURST = 100,
    CONTROL_RATE_PERIOD_MS = 10,

    CONTROL_NONCE_BYTES = 16,
    CONTROL_CHALLENGE_BYTES = 24,
    CONTROL_MAC_BYTES = 32,
    CONTROL_WORD_BYTES_MAX = 192,        /* SET's */
    CONTROL_REPLY_TEXT_BYTES_MAX = 1200, /* in one part; less where the MTU is below 1316 */

    CONTROL_LOG_TEXT_BYTES_MAX = 8 * CONTROL_REPLY_TEXT_BYTES_MAX, /* the log's in one answer: eight datagrams */
    CONTROL_LOG_HEAD_BYTES = 24,                                   /* "log ", 19 digits, '\n' */

    /* The capture's in one answer. More datagrams at once than the log's: a file has hundreds. */
    CONTROL_CAPTURE_TEXT_BYTES_MAX = 24 * CONTROL_REPLY_TEXT_BYTES_MAX,
    CONTROL_CAPTURE_HEAD_BYTES = 48, /* "capture ", 19 digits, ' ', 19 digits, '\n' */

    CONTROL_CHALLENGE_MS = 10000, /* a challenge is valid for this time */
    CONTROL_USED_COUNT_MAX = 64,  /* commands in that time; more are refused */
    CONTROL_GG_REPEATS = 3,       /* nobody can ask again afterwards */
    CONTROL_GG_PAUSE_MS = 30,
    CONTROL_GG_LINGER_MS = 1000, /* the machine leaves by then even if the answer cannot be sent */
};

/* All fields in network byte order. */
struct control_header_wire {
    uint8_t magic[4]; /* "PGRN" */
    uint8_t version;
    uint8_t type;
    uint8_t bytes[2]; /* the whole datagram's */
};

struct control_hello_wire {
    struct control_header_wire header;
    uint8_t nonce[CONTROL_NONCE_BYTES];
    uint8_t tag[8]; /* SipHash-2-4 of the nonce, under the first 16 bytes of HMAC-SHA-256(key, "hello") */
    /* Pads the HELLO to the size of its answer, against amplification. Ignored. */
    uint8_t zero[32];
};

struct control_challenge_wire {
    struct control_header_wire header;
    uint8_t nonce[CONTROL_NONCE_BYTES]; /* the client's */
    uint8_t time_ms[8];
    uint8_t challenge[CONTROL_CHALLENGE_BYTES];
};

struct control_command_wire {
    struct control_header_wire header;
    uint8_t nonce[CONTROL_NONCE_BYTES];
    uint8_t time_ms[8]; /* these two as they came in the challenge */
    uint8_t challenge[CONTROL_CHALLENGE_BYTES];
    uint8_t command;
    uint8_t argument[7];            /* LOG, CAPTURE: the position from which on */
    uint8_t mac[CONTROL_MAC_BYTES]; /* over the bytes before it and the word */
};                                  /* SET: a word of 1 to CONTROL_WORD_BYTES_MAX bytes follows */

struct control_reply_wire {
    struct control_header_wire header;
    uint8_t nonce[CONTROL_NONCE_BYTES];
    uint8_t challenge[CONTROL_CHALLENGE_BYTES];
    uint8_t command;
    uint8_t result;
    uint8_t part[2], part_count[2]; /* part counts from 0 */
    uint8_t text_bytes[2];
}; /* the text and the MAC follow */

/* Binds the port; with `key_bytes` 0 nothing is bound and nothing answered. False: the port cannot be had. */
bool control_init(const uint8_t *key, size_t key_bytes, uint16_t port, const uint8_t secret[32]);

/* Takes a TRANSPORT_DATAGRAM to our port. */
void control_datagram(const struct transport_event *event, uint64_t now_ns);

/* Renders and sends the replies that are due, a little at a time. */
void control_poll(uint64_t now_ns);

/* Returns true if GG was ordered and its answer has been sent. */
bool control_gg_done(void);

/* Returns when the last genuine command came; 0: none yet. */
uint64_t control_last_command_ns(void);

/* Returns when a HELLO was last refused because too many came; 0: never. A client may have been among them. */
uint64_t control_last_refused_ns(void);

/* Returns when control_poll has something to do. */
uint64_t control_next_deadline_ns(uint64_t now_ns);

/* Asserts the invariant of the reply under way. */
void control_check(void);

#define CONTROL_COUNTERS(X)                                                                                            \
    X(COUNT, hellos), X(COUNT, commands_status), X(COUNT, commands_gg), X(COUNT, commands_log),                        \
        X(COUNT, commands_set), X(COUNT, commands_capture), X(COUNT, commands_unknown), X(DROP_FRAME, drop_length),    \
        X(DROP_FRAME, drop_magic), X(DROP_FRAME, drop_version), X(DROP_FRAME, drop_type), X(DROP_FRAME, drop_stale),   \
        X(DROP_FRAME, drop_challenge), X(DROP_FRAME, drop_mac), X(DROP_FRAME, drop_replayed),                          \
        X(DROP_FRAME, drop_busy), X(DROP_FRAME, drop_rate), X(DROP_FRAME, drop_rate_keyed),                            \
        X(DROP_FRAME, drop_unbound), X(COUNT, sent), X(COUNT, send_failed)
extern struct control_counters {
    uint64_t CONTROL_COUNTERS(COUNTER_MEMBER);
} control_counters;
extern const struct counter_group control_counter_group;
