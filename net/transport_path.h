/* The network as the service sees it, and a program that prepares its answers: the calls beyond net/transport.h. Each
 * has a default (net/transport_path.c), for a transport that cannot do better: no memory, no counters, nothing to warm,
 * to prepare or to rehearse. */
#pragma once

#include "base/counters.h"
#include "net/transport.h"

/* Prepares the next message: `bytes` bytes that stand at `from` in the area now. The stack writes the frame's head in
 * front of them and sums their part of the checksum before the rest is known. The preparation holds until the next
 * transport_send of the connection; another message may still be sent. From this call on the area before `from`
 * belongs to the stack. After a change of the prepared bytes the caller must call again. Idle work. */
void transport_message_prepare(int connection, uint32_t from, uint32_t bytes);

/* Fetches into the caches the memory that the next frame and the next message touch. Other work may have displaced
 * that memory. Idle work. */
void transport_warm(void);

/* A made-up frame, which a rehearsal receives. */
enum transport_rehearsal_kind {
    TRANSPORT_REHEARSAL_ARP,      /* a request */
    TRANSPORT_REHEARSAL_ICMP,     /* an echo request */
    TRANSPORT_REHEARSAL_DATAGRAM, /* to `port`, from TRANSPORT_REHEARSAL_PEER_PORT */
    TRANSPORT_REHEARSAL_SEGMENT,  /* with data, on a connection to `port` */
};

/* ---- for the service ---- */

/* Returns the bytes of memory that the caller must lend for `connection_count` connections; 0: none. */
size_t transport_memory_bytes(uint32_t connection_count);

/* Returns the stack's counters, group by group: `index` counts from 0; false past the last group. The groups are the
 * same each time. Their values are live, or at most a few milliseconds old; each call brings them up to date. */
bool transport_counter_group(size_t index, struct counter_group *group);

/* Returns true if the stack changes received frames in place while it has them. */
bool transport_alters_frames(void);

/* Asks the gateway, or else the DHCP server, for its hardware address, whatever is known of it: a sign of life. Returns
 * false if there is nobody to ask on the link, or if Linux has the frames. */
bool transport_ask_neighbour(void);

enum { TRANSPORT_REHEARSAL_KIND_COUNT = TRANSPORT_REHEARSAL_SEGMENT + 1, TRANSPORT_REHEARSAL_PEER_PORT = 40000 };
struct transport_rehearsal {
    enum transport_rehearsal_kind kind;
    uint16_t port;
    struct bytes payload; /* up to TRANSPORT_MESSAGE_BYTES_MAX; lent for as long as it is rehearsed */
};

/* Begins a rehearsal, while no event's payload is borrowed. Until its end all calls act on another stack, which shares
 * no memory with the real one and sends nothing. transport_poll returns the event of the made-up frame. The program's
 * answer is acknowledged. Returns false if there is no other stack here, or none for this frame now. Idle work. */
bool transport_rehearsal_begin(const struct transport_rehearsal *rehearsal, uint64_t now_ns);
void transport_rehearsal_end(uint64_t now_ns);

/* Leaves a rehearsal that a failure has cut short, if there is one: calls act on the real stack again. */
void transport_rehearsal_abandon(void);
