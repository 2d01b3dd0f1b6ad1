/* A fake transport. The test queues the events, and reads the bytes sent. Time is an argument of the test. A test may
 * define transport_idle and transport_counter_group itself; transport_init is the test's in any case. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/transport_path.h"

enum {
    FAKE_STREAM_BYTES = 64 * 1024,
    FAKE_DATAGRAM_COUNT = 64,
    FAKE_CONNECTION_COUNT = 272,
    FAKE_REHEARSED = FAKE_CONNECTION_COUNT, /* the connection of rehearsals */
};

struct fake_connection {
    bool used, connected, closed_by_us, aborted_by_us, over; /* over: TRANSPORT_CLOSED is queued */
    uint32_t address;
    uint16_t port;                /* the peer's, if we opened the connection */
    uint16_t own_port;            /* ours, if we accepted the connection */
    char sent[FAKE_STREAM_BYTES]; /* everything given to transport_send, NUL-terminated */
    uint32_t sent_bytes;
    uint32_t acked_bytes;  /* the test's: of sent_bytes */
    uint32_t window_bytes; /* the test's: more than this unacknowledged is refused */
    bool held;             /* by transport_hold: data and the end wait in the queue */
    bool no_message;       /* the test's: transport_message gives NULL */
    uint8_t message[TRANSPORT_MESSAGE_BYTES_MAX];
    uint32_t prepared_from, prepared_bytes; /* transport_message_prepare's; the bytes must not change until sent */
    uint8_t prepared[TRANSPORT_MESSAGE_BYTES_MAX];
};

struct fake_datagram {
    uint32_t address;
    uint16_t from_port, to_port;
    uint32_t bytes;
    uint8_t data[TRANSPORT_DATAGRAM_BYTES_MAX];
};

struct fake {
    struct fake_connection connections[FAKE_CONNECTION_COUNT + 1];
    struct transport_network network; /* from here on fake_reset clears all */
    bool many;                        /* the test's: all places are given out, not TRANSPORT_CONNECTION_COUNT_MAX */
    uint32_t connect_count;           /* calls, refused ones too */
    uint32_t close_count, abort_count;
    uint32_t warmed_count;          /* calls of transport_warm */
    uint32_t rehearsal_count;       /* calls of transport_rehearsal_begin */
    uint32_t rehearsed_bytes;       /* given to transport_send and transport_udp_send in rehearsals */
    bool rehearses;                 /* the test's: there are rehearsals */
    bool rehearsal_lost;            /* the test's: their made-up frames bring no event */
    struct fake_datagram rehearsed; /* the last that a rehearsal sent */
    uint16_t listening;             /* the port last given to transport_listen */
    bool refuse_connect, refuse_listen, refuse_udp_bind, refuse_udp, refuse_join;
    uint32_t bind_count;                                     /* UDP ports that were bound */
    uint32_t groups[TRANSPORT_GROUP_COUNT_MAX], group_count; /* joined */
    bool linger; /* peers never close their side: transport_close is not the end */
    struct fake_datagram datagrams[FAKE_DATAGRAM_COUNT];
    uint32_t datagram_count; /* sent in all; the first FAKE_DATAGRAM_COUNT are kept */
    bool neighbour;          /* the test's: there is somebody for transport_ask_neighbour */
    uint32_t asked_count;    /* calls of it */
};
extern struct fake fake;

void fake_reset(void);

/* Returns the newest connection to a port that is open or opening; -1: none. */
int fake_to(uint16_t port);

/* Queues an event, as all functions below. Data is copied to a buffer of exactly its size, freed at the next poll. */
void fake_connected(int id);
void fake_data(int id, const void *data, size_t bytes);
void fake_text(int id, const char *text);
void fake_ended(int id);
/* Connects a peer to a port with a listener; returns the connection. */
int fake_accepted(uint16_t port);
int fake_accepted_from(uint32_t address, uint16_t port);
void fake_closed(int id, enum transport_reason reason);
void fake_datagram(uint32_t address, uint16_t peer_port, uint16_t port, const void *data, size_t bytes);
/* Queues a datagram to another address than ours: to a multicast group. */
void fake_datagram_to(uint32_t to, uint32_t address, uint16_t peer_port, uint16_t port, const void *data, size_t bytes);
