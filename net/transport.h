/* What an application sees of the network: connections, datagrams, one event at a time.
 *
 * Three implementations, chosen at link time: net/tcp*.c (our own stack), net/lwip/ (lwIP), host/sockets.c (Linux
 * sockets, for the player that runs as a Linux program). Nothing here blocks, nothing calls back, nothing reads a
 * clock: `now_ns` is monotonic nanoseconds since start, and events are returned by transport_poll in the order in
 * which they happened on a connection.
 *
 * IPv4 addresses are host order (10.0.2.2 is 0x0a000202). Connection ids are small indices, valid from
 * transport_connect or TRANSPORT_ACCEPTED until the TRANSPORT_CLOSED event of that id has been returned: a closed
 * connection is always told, exactly once, and its id may be used anew after that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/base/counters.h"
#include "net/netdev.h"

enum {
    TRANSPORT_CONNECTION_COUNT_MAX = 16,    /* 8 feeds, 4 submit connections, 4 for the status page */
    TRANSPORT_MESSAGE_BYTES_MAX = 1400,     /* head of a POST (<= 376) and 1024 digits */
    TRANSPORT_DATAGRAM_BYTES_MAX = 1400,
    TRANSPORT_DATAGRAM_HEAD_BYTES = 28,     /* of the MTU: IPv4 and UDP */
    TRANSPORT_UDP_PORT_COUNT_MAX = 4,
};

struct transport_config {
    struct netdev *device;          /* unused by host/sockets.c */
    uint32_t address;               /* 0: ask DHCP */
    uint32_t mask;
    uint32_t gateway;               /* 0: none */
    uint8_t gateway_mac[NETDEV_MAC_BYTES];  /* all 0: ask ARP */
    uint16_t mtu_bytes;             /* 0: the device's (and DHCP option 26's) */
    uint32_t rto_min_us;            /* 0: 200 ms */
    uint8_t secret[32];             /* fresh random bytes: ISNs (RFC 6528), ports (RFC 6056), xids */
};

/* Where the network stands, for the log, the statistics and net.timeout. Host order. */
struct transport_network {
    bool up;                        /* an address is set and usable */
    bool from_dhcp;
    uint32_t address, mask, gateway;
    uint16_t mtu_bytes;             /* what fits it is sent in one frame; host/sockets.c: 1500 */
    uint64_t lease_ends_ns;         /* 0: never */
    const char *waiting_for;        /* while not up: "link", "DHCP offer", ..., a literal; never NULL */
};

enum transport_event_kind {
    TRANSPORT_NONE,                 /* nothing now */
    TRANSPORT_CONNECTED,            /* our connect succeeded */
    TRANSPORT_ACCEPTED,             /* a peer connected to `port` of transport_listen; `connection` is new */
    TRANSPORT_DATA,                 /* in-order bytes of the stream: `data`, `bytes` */
    TRANSPORT_ENDED,                /* the peer sent FIN: no more data will come; we may still send */
    TRANSPORT_CLOSED,               /* the connection is gone; `reason` says why */
    TRANSPORT_DATAGRAM,             /* UDP to `port`: `data`, `bytes`, from address:peer_port */
};

enum transport_reason {
    TRANSPORT_DONE,                 /* both sides closed in order */
    TRANSPORT_REFUSED,              /* RST or port unreachable answered the SYN */
    TRANSPORT_RESET,                /* RST in an open connection */
    TRANSPORT_TIMED_OUT,            /* SYN or data unanswered for too long */
    TRANSPORT_ABORTED,              /* we aborted it */
    TRANSPORT_UNREACHABLE,          /* no route, no ARP answer */
};

struct transport_event {
    enum transport_event_kind kind;
    enum transport_reason reason;
    int connection;
    const uint8_t *data;            /* lent until the next transport_poll */
    uint32_t bytes;
    uint32_t address;               /* the peer's */
    uint16_t peer_port;
    uint16_t port;                  /* ours */
};

/* Once, before everything else. False when the configuration cannot be used (the reason is logged). */
bool transport_init(const struct transport_config *config, uint64_t now_ns);

/* Fills in the next event. Takes frames from the device as needed, at most one data-bearing segment a call, and
 * hands its payload on before acknowledgements, timers and any other state that can wait. Returns false, with
 * kind TRANSPORT_NONE, when nothing is there. */
bool transport_poll(uint64_t now_ns, struct transport_event *event);

/* Work that may wait: acknowledgements, timers, ARP and DHCP upkeep, refilling the rings. Call whenever
 * transport_poll has returned false, and at least every 100 us; takes a few microseconds at most. */
void transport_idle(uint64_t now_ns);

/* When transport_idle next has a timer to run (may be in the past); UINT64_MAX: never. For sleeping platforms. */
uint64_t transport_wake_ns(void);

/* What the network is now; the stack's own, valid until the next call into it. */
const struct transport_network *transport_network(void);

/* Starts a connection; its id, or -1 when all are taken or the network is down. The outcome comes as an event. */
int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns);

/* Accepts connections on a port. False when the table of listeners is full. */
bool transport_listen(uint16_t port);

/* The message area of a connection: TRANSPORT_MESSAGE_BYTES_MAX bytes that become the payload of its next segment
 * where they lie. Its bytes persist until transport_send, so a head can stand prepared long before the answer;
 * afterwards the area is another one, with unspecified contents. NULL: not now (buffers out, or not connected). */
uint8_t *transport_message(int connection);

/* Says that the next message begins at `from` in the area with the `bytes` that stand there now, so that what depends on
 * them alone can be made before the rest is known: the frame's head in front of them, their part of the checksum. Takes
 * effect until the next transport_send of the connection; to send something else is no mistake. The area before `from` is
 * the stack's from then on, and those bytes must not be changed any more without being told of again. Idle work. */
void transport_message_prepare(int connection, uint32_t from, uint32_t bytes);

/* Fetches what the next segment and the next message touch into the caches, where other work may have displaced it. Idle
 * work. */
void transport_warm(void);

/* Sends `bytes` of the message area starting at `from`. PSH is set, Nagle is off. False when it cannot be sent
 * whole now (window, buffers): nothing has changed, the area keeps its bytes, try again later. True means that the
 * stack has it: of a message that meets a closed window while nothing is in flight it keeps the only copy, and probes. */
bool transport_send(int connection, uint32_t from, uint32_t bytes, uint64_t now_ns);

/* Bytes given to transport_send that the peer has not acknowledged. The last thing known of a connection stays on
 * hand while its TRANSPORT_CLOSED is the latest event: a request that the peer reset without having acknowledged its
 * end was never executed, and may be sent again elsewhere. */
uint32_t transport_unacked_bytes(int connection);

/* FIN after what was sent. The peer's data still arrives. TRANSPORT_CLOSED follows; before TRANSPORT_CONNECTED this is
 * transport_abort. No call on a connection that is gone does anything. */
void transport_close(int connection, uint64_t now_ns);

/* RST; TRANSPORT_CLOSED with TRANSPORT_ABORTED follows. */
void transport_abort(int connection, uint64_t now_ns);

/* Receives datagrams to a port. False when the table of ports is full. */
bool transport_udp_bind(uint16_t port);

/* Sends one datagram of up to TRANSPORT_DATAGRAM_BYTES_MAX bytes (copied). False: not now, or no route. */
bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns);

/* The stack's counters, group by group: index from 0; false past the last. The groups are the same each time; their
 * values are live, or at most a few milliseconds old. */
bool transport_counter_group(size_t index, struct counter_group *group);

/* "lwip 2.1.3", "own", "linux". */
const char *transport_name(void);
