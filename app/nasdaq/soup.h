/* The client's side of a session of numbered messages over TCP. Nasdaq SoupBinTCP 3.00 and 4.00. Knows no connection
 * and no clock: bytes in, messages out, and the packets to send as bytes.
 *
 * The session counts the sequenced messages. After a connection's end the next one asks for the next message, so none
 * is lost and none comes twice. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/time.h"

enum { SOUP_USER_BYTES = 6, SOUP_PASSWORD_BYTES = 10, SOUP_SESSION_BYTES = 10, SOUP_SEQUENCE_BYTES = 20 };

/* Begins each packet. */
struct soup_head_wire {
    uint16_t bytes; /* that follow, big-endian */
    uint8_t type;
} __attribute__((packed));
static_assert(sizeof(struct soup_head_wire) == 3, "SoupBinTCP 4.00 §2.1");

/* The fields are text: padded with blanks, numbers on their left. */
struct soup_login_wire {
    struct soup_head_wire head; /* 'L' */
    uint8_t user[SOUP_USER_BYTES], password[SOUP_PASSWORD_BYTES];
    uint8_t session[SOUP_SESSION_BYTES];
    uint8_t sequence[SOUP_SEQUENCE_BYTES]; /* the message that is asked for */
} __attribute__((packed));
static_assert(sizeof(struct soup_login_wire) == 49, "SoupBinTCP 4.00 §2.3.1");

struct soup_accepted_wire { /* after the head, 'A' */
    uint8_t session[SOUP_SESSION_BYTES];
    uint8_t sequence[SOUP_SEQUENCE_BYTES]; /* the next message's */
} __attribute__((packed));
static_assert(sizeof(struct soup_accepted_wire) == 30, "SoupBinTCP 4.00 §2.2.1");

enum {
    SOUP_HEAD_BYTES = sizeof(struct soup_head_wire),
    SOUP_LOGIN_BYTES = sizeof(struct soup_login_wire),
    SOUP_PACKET_BYTES_MAX = 512, /* longer ones end the connection; OUCH's and ITCH's have less than 100 */
};
#define SOUP_SEQUENCE_MAX (UINT64_C(1) << 62)
#define SOUP_HEARTBEAT_NS (1 * NS_PER_S)  /* §2.2: after this time without a packet */
#define SOUP_SILENCE_NS   (15 * NS_PER_S) /* §2.2: then the connection is dead */

enum soup_state {
    SOUP_DOWN,
    SOUP_CONNECTED, /* the login is due */
    SOUP_LOGIN,     /* sent, and not answered yet */
    SOUP_UP,
};

enum soup_event {
    SOUP_NOTHING,     /* all bytes are taken */
    SOUP_MESSAGE,     /* the next sequenced message */
    SOUP_LOGGED_IN,   /* to the session of before, or the first one */
    SOUP_NEW_SESSION, /* logged in to another session than before */
    SOUP_REFUSED,     /* the login was rejected: close */
    SOUP_ENDED,       /* the session ends: close */
    SOUP_MALFORMED,   /* the stream makes no sense: close */
};

struct soup {
    enum soup_state state;
    const char *user, *password;
    char session[SOUP_SESSION_BYTES];
    uint64_t next_sequence; /* the next sequenced message's number */
    uint64_t received_ns, sent_ns;
    bool lost_session;  /* the server does not have our session any more */
    bool keeps_session; /* the owner's: the server is not the one that had our session */
    /* The server has sent a heartbeat, and no message since: all earlier messages have come. */
    bool idle;
    struct bytes input;    /* borrowed between soup_data and SOUP_NOTHING */
    uint32_t packet_bytes; /* gathered so far, or of the packet that was returned */
    union {
        struct soup_head_wire head;
        uint8_t bytes[sizeof(uint16_t) + SOUP_PACKET_BYTES_MAX];
    } packet;
};

/* Begins down, before the first login. The texts are borrowed for the run. */
void soup_init(struct soup *soup, const char *user, const char *password);

/* Forgets the session, so that the next login asks for the first message of any. */
void soup_forget(struct soup *soup);

/* Notes that a connection is up, or gone. */
void soup_connected(struct soup *soup, uint64_t now_ns);
void soup_closed(struct soup *soup);

/* Gives bytes of the connection, borrowed until soup_next has returned SOUP_NOTHING. */
void soup_data(struct soup *soup, struct bytes data, uint64_t now_ns);
/* Returns the next event in the bytes. The message is borrowed until the next call. */
enum soup_event soup_next(struct soup *soup, struct bytes *message);

/* Writes the packet that is due, the login or a heartbeat. Returns its bytes; 0: none is due. After it has been sent
 * the caller calls soup_sent. */
uint32_t soup_due(const struct soup *soup, uint64_t now_ns, uint8_t packet[SOUP_LOGIN_BYTES]);
/* Notes that a packet was sent, of any kind. */
void soup_sent(struct soup *soup, uint64_t now_ns);
/* Returns true if the server has been silent for too long. */
bool soup_is_silent(const struct soup *soup, uint64_t now_ns);

/* Reads a sequence number: decimal digits among blanks, perhaps with leading zeros. Returns false if it is none. */
bool soup_read_number(struct bytes text, uint64_t *number);

/* Writes the head of a client's unsequenced message of `bytes`. */
static inline void soup_head(uint8_t packet[SOUP_HEAD_BYTES], uint32_t bytes)
{
    struct soup_head_wire *head = (struct soup_head_wire *)packet;
    store_be16(&head->bytes, (uint16_t)(sizeof head->type + bytes));
    head->type = 'U';
}

/* Asserts the invariant. */
void soup_check(const struct soup *soup);

/* All sessions' together. */
#define SOUP_COUNTERS(X)                                                                                               \
    X(COUNT, logins), X(COUNT, messages), X(COUNT, heartbeats), X(COUNT, debug), X(COUNT, unsequenced),                \
        X(ALERT, new_sessions), X(ALERT, refused_user), X(ALERT, refused_session), X(COUNT, ended),                    \
        X(DROP_FRAME, drop_length), X(DROP_FRAME, drop_type)
extern struct soup_counters {
    uint64_t SOUP_COUNTERS(COUNTER_MEMBER);
} soup_counters;
extern const struct counter_group soup_counter_group;
