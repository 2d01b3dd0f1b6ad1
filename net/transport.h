/* The network as an application sees it: connections, datagrams, one event at a time.
 *
 * The implementation is chosen at link time (docs/architecture.md lists them). Nothing here blocks, calls back or reads
 * a clock. `now_ns` is monotonic nanoseconds since start. transport_poll returns a connection's events in the order in
 * which they happened.
 *
 * IPv4 addresses are host order (10.0.2.2 is 0x0a000202). A connection id is a small index. The id is valid from
 * transport_connect or TRANSPORT_ACCEPTED until transport_poll returns TRANSPORT_CLOSED for the id. Each closed
 * connection is reported exactly once; afterwards its id may be used again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/netdev.h"

enum {
    /* The player needs 8 input streams, the submit connection, 3 connections that end, and 4 for the status page. */
    TRANSPORT_CONNECTION_COUNT_MAX = 16,
    TRANSPORT_CONNECTION_COUNT_LIMIT = 1024, /* the upper bound, for programs that ask for more */
    TRANSPORT_DATA_BYTES_MAX = 8 * 1024,     /* in one event */
    TRANSPORT_MESSAGE_BYTES_MAX = 1400,      /* head of a POST (<= 376) and 1024 digits */
    TRANSPORT_DATAGRAM_BYTES_MAX = 1472,     /* an Ethernet frame's, after the IPv4 and UDP headers */
    TRANSPORT_DATAGRAM_HEAD_BYTES = 28,      /* the IPv4 and UDP headers within the MTU */
    TRANSPORT_UDP_PORT_COUNT_MAX = 4,
    TRANSPORT_GROUP_COUNT_MAX = NETDEV_GROUP_COUNT_MAX - 1, /* multicast groups */
    TRANSPORT_LISTENER_COUNT_MAX = 4,
};

struct transport_config {
    struct netdev *device; /* NULL: the transport needs none */
    uint32_t address;      /* 0: ask DHCP */
    uint32_t mask;
    uint32_t gateway;                      /* 0: none */
    uint8_t gateway_mac[NETDEV_MAC_BYTES]; /* all 0: ask ARP */
    uint8_t nic_mac[NETDEV_MAC_BYTES];     /* the wanted card, for the search of one; all 0: any */
    uint32_t lease_seconds;                /* the rest of the address's lease, from now; 0: no lease */
    uint32_t lease_server;                 /* the DHCP server that renews it */
    struct bytes dhcp_identity;            /* options of each DHCP message, whole ones; lent for the stack's life */
    uint16_t mtu_bytes;                    /* 0: the device's (and DHCP option 26's) */
    uint64_t rto_min_ns;                   /* 0: 200 ms */
    bool ecn;                              /* offer and accept RFC 3168, if the transport can */
    uint32_t connection_count;             /* 0: TRANSPORT_CONNECTION_COUNT_MAX */
    void *memory;                          /* zeroed, at a cache line, for the stack's life; NULL: none needed */
    size_t memory_bytes;                   /* transport_memory_bytes(connection_count) */
    uint8_t secret[32];                    /* fresh random bytes: ISNs (RFC 6528), ports (RFC 6056), xids */
};

/* The network's state, for the log, the statistics and net.timeout. Host order. */
struct transport_network {
    bool up; /* an address is set and usable */
    bool from_dhcp;
    uint32_t address, mask, gateway;
    uint16_t mtu_bytes;      /* the largest packet sent in one frame, as far as known */
    uint64_t lease_ends_ns;  /* 0: never */
    const char *waiting_for; /* while not up: "link", "DHCP offer", ..., a literal; never NULL */
    uint64_t heard_count;    /* frames received so far */
    uint64_t arp_count;      /* among them ARP replies to us */
};

enum transport_event_kind {
    TRANSPORT_NONE,      /* nothing now */
    TRANSPORT_CONNECTED, /* our connect succeeded */
    TRANSPORT_ACCEPTED,  /* a peer connected to `port` of transport_listen; `connection` is new */
    TRANSPORT_DATA,      /* in-order bytes of the stream: `payload`, 1 to TRANSPORT_DATA_BYTES_MAX */
    TRANSPORT_ENDED,     /* the peer sent FIN: its data ends, ours may go on */
    TRANSPORT_CLOSED,    /* the connection is gone; `reason` says why */
    TRANSPORT_DATAGRAM,  /* UDP to to_address:port: `payload`, from address:peer_port */
};

enum transport_reason {
    TRANSPORT_DONE,        /* each side closed in order, and all data was reported */
    TRANSPORT_REFUSED,     /* RST or port unreachable answered the SYN */
    TRANSPORT_RESET,       /* RST in an open connection */
    TRANSPORT_TIMED_OUT,   /* SYN or data unanswered for too long */
    TRANSPORT_ABORTED,     /* we aborted it */
    TRANSPORT_UNREACHABLE, /* no route, no ARP answer */
};

struct transport_event {
    enum transport_event_kind kind;
    union {
        enum transport_reason reason; /* TRANSPORT_CLOSED */
        uint32_t to_address;          /* TRANSPORT_DATAGRAM: ours, a group that is joined, or a broadcast */
    };
    int connection;
    struct bytes payload; /* borrowed until the next transport_poll */
    uint32_t address;     /* the peer's */
    uint16_t peer_port;
    uint16_t port; /* ours */
};

/* Starts the network. Call once, before everything else. Returns false if the configuration cannot be used, and logs
 * the reason. */
bool transport_init(const struct transport_config *config, uint64_t now_ns);

/* Fills in the next event. Takes frames from the device as needed, at most one data-bearing segment a call. Hands the
 * payload to the caller before acknowledgements, timers and any other work that can wait. Returns false, with kind
 * TRANSPORT_NONE, if there is no event. */
bool transport_poll(uint64_t now_ns, struct transport_event *event);

/* Does the work that may wait: acknowledgements, timers, ARP and DHCP upkeep, refilling the rings. Call after each
 * transport_poll that returns false, and at least every 100 us. Takes a few microseconds at most. */
void transport_idle(uint64_t now_ns);

/* Returns the time at which transport_idle next has a timer to run: perhaps in the past, UINT64_MAX if never. 0 if an
 * event waits. For platforms that sleep, and that wake for events by means of their own. */
uint64_t transport_next_deadline_ns(void);

/* Returns the network's state: the stack's own object, valid until the next call into the stack. */
const struct transport_network *transport_network(void);

/* Starts a connection. Returns its id, or -1 if all ids are taken or the network is down. The outcome comes as an
 * event. */
int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns);

/* Accepts connections on a port. Returns false if the table of listeners is full, or the port has one already. */
bool transport_listen(uint16_t port);

/* Returns the message area of a connection: TRANSPORT_MESSAGE_BYTES_MAX bytes. They become the payload of the
 * connection's next segment without a copy. The bytes persist until transport_send, so a head can be written long
 * before the answer. After transport_send the area is another one, with unspecified contents. NULL: not now (no free
 * buffer, or not connected). */
uint8_t *transport_message(int connection);

/* Sends `bytes` of the message area, starting at `from`. PSH is set, Nagle is off. Returns false if the message
 * cannot be sent whole now (window, buffers): nothing has changed, the area keeps its bytes, try again later. True
 * means that the stack has the message. If the message meets a closed window while nothing is in flight, the stack
 * keeps the only copy and probes. */
bool transport_send(int connection, uint32_t from, uint32_t bytes, uint64_t now_ns);

/* Holds a connection's data back, or lets the data come again. While data is held, neither TRANSPORT_DATA nor
 * TRANSPORT_ENDED is reported, and the peer soon finds its window closed, or its next segments dropped. An end in order
 * waits as well: TRANSPORT_CLOSED with TRANSPORT_DONE comes after the held data, so a caller that leaves a connection
 * lets its data come. Any other end is reported at once, and takes the held data with it. */
void transport_hold(int connection, bool held);

/* Returns the count of bytes that were given to transport_send and that the peer has not acknowledged. After the end
 * of a connection the last count stays available while TRANSPORT_CLOSED is the latest event of the connection. A
 * request that the peer reset before acknowledging its end was never executed, and may be sent again elsewhere, but for
 * a rare case (docs/subtle.md, "Nothing is submitted twice"). */
uint32_t transport_unacked_bytes(int connection);

/* Sends FIN after the data given to transport_send. The peer's data still arrives. TRANSPORT_CLOSED follows when the
 * peer closes its side. The peer may never do so: the caller counts the seconds and then aborts. Before
 * TRANSPORT_CONNECTED this is transport_abort. A call on a connection that is gone does nothing. */
void transport_close(int connection, uint64_t now_ns);

/* Sends RST. TRANSPORT_CLOSED with TRANSPORT_ABORTED follows. */
void transport_abort(int connection, uint64_t now_ns);

/* Receives datagrams to a port. Returns false if the table of ports is full, or the port is bound already. */
bool transport_udp_bind(uint16_t port);

/* Receives the datagrams to a multicast group (host order), from any source, on every port that is bound. Call at any
 * time: the group is reported to routers when the network is up. Returns true if the group is joined, or was before.
 * False: the address is no group or 224.0.0.1, the table of groups is full, or Linux (hosted) has no route to it. */
bool transport_udp_join(uint32_t group);

/* Ends the reception of a group. Does nothing if the group is not joined. */
void transport_udp_leave(uint32_t group);

/* Sends one datagram of up to TRANSPORT_DATAGRAM_BYTES_MAX bytes (copied). Returns false if it is longer, if there is
 * no buffer now, or no route. */
bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns);

/* Returns the stack's name, with its version if it has one. */
const char *transport_name(void);
