/* The transmission control block, and the structs that the files of TCP share. Not for users of the stack.
 *
 * The files, floor by floor. A file uses files on lower floors alone (tests/structure/test_layout.py), so each can be
 * read, and tested, without those above:
 *
 *   12 input.c      input of a segment: its connection, and RFC 9293 §3.10.7 step by step
 *   12 timer.c      the work of the deadlines that are due
 *   12 fast.c       the predicted segment, and the prepared message
 *   11 receive.c    the payload of a segment: order, overlap, FIN
 *   11 open.c       calls of tcp.h: connect, listen, accept
 *   11 info.c       calls of tcp.h: queries and options
 *   11 path.c       ICMP errors, the path MTU, changes of neighbours and addresses
 *   11 message.c    messages that are sent from where they were written
 *   10 stream.c     calls of tcp.h: read, write, shutdown, close, abort
 *   10 ack.c        the acknowledgement of a segment: segments freed, duplicates
 *   10 listen.c     half-open connections
 *   10 time_wait.c  closed connections
 *    9 challenge.c  challenge ACKs
 *    9 table.c      control blocks: taken, found, ended
 *    8 output.c     choice of the data to send now
 *    8 handshake.c  our SYN, the options agreed on, ESTABLISHED
 *    8 check.c      the invariant of a control block
 *    7 frame.c      one segment onto the wire
 *    7 recovery.c   RFC 8985 (RACK-TLP), RFC 6675, RFC 6937 (PRR)
 *    6 ecn.c        RFC 3168: congestion marks, reductions of our window
 *    6 ranges.c     the received data beyond rcv_nxt: SACK blocks, DSACK
 *    5 deadline.c   every deadline: set, stopped, chosen
 *    4 window.c     both windows, and the size of segments
 *    4 send_queue.c the segments in flight: marks and sums
 *    4 rtt.c        RFC 6298: the round trip and the RTO
 *    4 route.c      the next hop, and path MTUs found earlier
 *    4 policy.c     the defaults of a connection, and the values that follow from them
 *    4 options.c    TCP options, both ways
 *    3 connection.h this file
 *    2 congestion.c RFC 5681, RFC 9438 (CUBIC)
 *    2 sockets.h    further calls, for interfaces of sockets
 *    1 tcp.h        the calls for users of the stack
 *    1 seq.h        sequence numbers
 *    1 wire.h       headers on the wire
 *
 * A call that takes input, runs a timer or ends a connection may free the control block: tcp_connection_end does so if
 * the application has given the connection back. The caller then tests c->used before it touches the connection again.
 * The block itself stays in the table until another connection takes it.
 *
 * Names are RFC 9293's. Sequence numbers are compared with net/tcp/seq.h only. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ip/ipv4.h"
#include "net/stack.h"
#include "net/tcp/congestion.h"
#include "net/tcp/wire.h"

struct net_stack;

enum {
    TCP_RANGE_COUNT_MAX = 32, /* holes that a receiver tracks, for heavy loss; ACKs report 4 */
    TCP_PORT_FIRST = 32768,   /* RFC 6056 §3.2: a large range, here SECRET_PORT_COUNT ports; servers are below */
    TCP_PATH_MTU_MIN = 552,   /* ICMP cannot push us below this (Linux: route/min_pmtu) */
    TCP_ACK_QUICK_COUNT = 16, /* TCP_ACK_ADAPTIVE. Linux: TCP_MAX_QUICKACKS */
    TCP_REORDERING_LEAST = 3, /* RFC 5681 §3.2, DupThresh */
    TCP_R1_RETRANSMITS = 3,   /* RFC 9293 §3.8.3 (a): ask the neighbour again */
};
#define TCP_NEVER_NS           UINT64_MAX

/* RFC 5961 §7: challenge ACKs for each connection: the RFC's example, 10 in 5 s. A segment that has just been
 * answered gets none, as in Linux (tcp_invalid_ratelimit). Two ends that misunderstand each other then do not
 * exchange ACKs at line speed. */
#define TCP_CHALLENGES_NS      UINT64_C(5000000000)
#define TCP_CHALLENGE_AGAIN_NS UINT64_C(500000000)
enum { TCP_CHALLENGES_MAX = 10 };
struct tcp_challenges {
    uint64_t until_ns; /* the end of the interval that `count` counts in */
    uint64_t again_ns; /* until then no challenge for another segment with these fields: */
    uint32_t seq, ack;
    uint8_t flags, count;
};

/* The marks of a segment. The peer may still drop a SACKed segment (RFC 2018 §8). A transmit buffer that segments share
 * is released with the last of the segments. A head in front of a cut segment would overwrite the payload of the
 * previous segment. */
enum tcp_mark {
    TCP_MARK_SACKED = 1,      /* the peer holds the segment */
    TCP_MARK_LOST = 2,        /* believed lost */
    TCP_MARK_RESENT = 4,      /* a retransmission is in flight */
    TCP_MARK_EVER_RESENT = 8, /* Karn: the segment gives no RTT */
    TCP_MARK_SHARED = 16,     /* the next segment lies in the same transmit buffer */
    TCP_MARK_CUT = 32,        /* the previous segment lay in the same transmit buffer */
};

/* A segment sent and not yet acknowledged. Its payload lies in the send ring at its sequence number, or in a
 * transmit buffer that the stack still holds. */
struct tcp_segment {
    uint32_t seq;
    uint16_t bytes; /* payload */
    uint8_t flags;  /* TCP_SYN, TCP_FIN: each takes a sequence number; TCP_PSH */
    uint8_t marks;
    uint64_t sent_ns;         /* time of the last transmission */
    struct tx_buffer *buffer; /* NULL: in the ring */
    uint16_t offset;          /* place of the payload, from buffer->data */
};

static inline uint32_t tcp_segment_space(const struct tcp_segment *s)
{
    return s->bytes + ((s->flags & TCP_SYN) ? 1u : 0u) + ((s->flags & TCP_FIN) ? 1u : 0u);
}
static inline uint32_t tcp_segment_end(const struct tcp_segment *s) { return s->seq + tcp_segment_space(s); }

struct tcp_range {
    uint32_t left, right; /* left <= seq < right */
};

/* Options of a received segment. RFC 9293 §3.2. */
struct tcp_options {
    bool has_mss, has_window_scale, has_timestamps, sack_permitted;
    uint8_t window_scale;
    uint8_t sack_count;
    uint16_t mss;
    uint32_t timestamp, timestamp_echo;
    struct tcp_range sack[TCP_SACK_BLOCK_COUNT_MAX];
};

/* A received segment, host order. */
struct tcp_received {
    const struct ipv4_packet *packet;
    uint32_t address; /* the peer's */
    uint16_t peer_port, port;
    uint32_t seq, ack;
    uint8_t flags;
    bool congested;  /* a router has marked the packet: RFC 3168, CE */
    uint16_t window; /* the wire's value */
    uint8_t scale;   /* RFC 7323 §2.2: snd_scale, the shift of `window`; 0 in SYNs */
    const uint8_t *data;
    uint32_t bytes;
    struct tcp_options options;
    bool replaces_time_wait; /* a SYN whose connection begins at isn_least or above */
    uint32_t isn_least;
};

/* Returns SEG.LEN: SYN and FIN count. */
static inline uint32_t tcp_received_space(const struct tcp_received *r)
{
    return r->bytes + ((r->flags & TCP_SYN) != 0) + ((r->flags & TCP_FIN) != 0);
}

/* The deadlines that exclude each other; one at most is set. RFC 8985 §8, Linux's icsk_pending. */
enum tcp_timer {
    TCP_TIMER_NONE,
    TCP_TIMER_RTO,
    TCP_TIMER_TAIL_PROBE,
    TCP_TIMER_REORDER,
    TCP_TIMER_WINDOW_PROBE,
};

enum tcp_recovery_state {
    TCP_OPEN,     /* nothing is believed lost */
    TCP_RECOVERY, /* fast recovery, until snd_una reaches `recover` */
    TCP_LOSS,     /* after a timeout, likewise */
};

/* A connection. Each file writes its own members, as the comments say; the others call it (test_layout.py holds that).
 * The predicted segment touches the first three cache lines alone; a prepared message also touches the
 * fourth and the sixth (fast.c). */
struct tcp_connection {
    /* Identity. The key of the connection is in tcp.keys. */
    _Alignas(NET_STACK_ALIGN) uint8_t state; /* enum tcp_state */
    bool fin_received;                       /* rcv_nxt is past the peer's FIN; written by receive.c alone */
    bool zero_copy;                          /* payload may be borrowed in place: net/own/transport.c */
    bool timestamps_on;                      /* agreed in the SYNs; written by handshake.c alone */
    uint16_t index;
    uint16_t head_bytes; /* to the first payload byte; 0: no head; written by frame.c alone */

    /* The reasons for which a connection is not quiet. A connection is quiet if all of them are 0. */
    union {
        uint64_t busy;
        struct {
            bool fin_wanted; /* FIN follows snd_end; written by stream.c alone */
            bool fin_seen;   /* a FIN came, perhaps out of order; written by receive.c alone */
            bool blocked; /* no buffer: output tries again; written by output.c, handshake.c, input.c, table.c alone */
            bool tail_probe_on;     /* written by recovery.c alone */
            uint8_t range_count;    /* in ranges.blocks; written by ranges.c alone */
            uint8_t timer;          /* enum tcp_timer; written by deadline.c alone */
            uint8_t recovery_state; /* enum tcp_recovery_state; written by recovery.c alone */
            uint8_t probe_count;    /* window probes since the window closed; written by deadline.c alone */
        };
    };

    /* Sequence numbers. The application reads next at rcv_read; the bytes from there to rcv_nxt lie in the ring. The
     * right edge that we have advertised, rcv_adv, never moves left (SHLD-14). The application has written the bytes
     * before snd_end. The handshake sets the first of each number. Payload moves the edges of both streams where it is
     * taken or sent, on the slow path and on the fast path, so some have several writers. */
    uint32_t rcv_nxt;             /* written by receive.c, ranges.c, handshake.c alone */
    uint32_t rcv_read;            /* written by receive.c, stream.c, handshake.c alone */
    uint32_t rcv_adv;             /* written by window.c, handshake.c alone */
    uint32_t last_ack_sent;       /* RFC 7323 §4.3; written by frame.c, handshake.c, listen.c alone */
    uint32_t snd_una;             /* written by ack.c, handshake.c, listen.c alone */
    uint32_t snd_nxt;             /* written by output.c, message.c, handshake.c alone */
    uint32_t snd_end;             /* written by stream.c, message.c, handshake.c alone */
    uint32_t segment_count;       /* in flight; written by send_queue.c alone */
    uint32_t ts_recent;           /* written by input.c, fast.c, handshake.c alone */
    uint16_t snd_mss;             /* payload of a full segment, options taken off; written by window.c alone */
    uint8_t rcv_scale, snd_scale; /* written by handshake.c alone */
    struct tx_buffer *message;    /* transport_message's area; written by message.c, table.c alone */

    uint32_t snd_wnd, snd_wl1, snd_wl2, snd_wnd_max; /* written by window.c alone */
    uint64_t ts_recent_ns;                           /* written by input.c, fast.c, handshake.c alone */
    uint64_t last_received_ns;                       /* written by deadline.c alone */
    uint64_t bytes_received;                         /* written by receive.c alone */
    /* The ACK of received data. */
    struct {
        uint64_t timer_ns;     /* the delayed ACK is due */
        uint32_t unsent_bytes; /* received since the last ACK */
        bool now;              /* an ACK is due at the next net_idle at the latest */
        bool adaptive;         /* policy.ack changes between quick and delayed */
        uint8_t quick_left;    /* number of further ACKs that are quick */
    } ack;                     /* written by deadline.c alone */
    /* cwnd lies in the second cache line, the rest in the third. */
    struct tcp_congestion congestion; /* written by recovery.c, output.c, handshake.c alone */
    uint32_t peer_address;
    uint16_t port, peer_port;
    bool orphan;              /* given back by the application; written by stream.c, table.c alone */
    uint8_t keepalive_count;  /* keepalive probes unanswered; written by deadline.c alone */
    int16_t listener;         /* the listener whose tcp_accept will return it; -1: none */
    uint16_t rcv_mss;         /* the largest payload seen: full-sized; written by deadline.c, handshake.c alone */
    struct tcp_policy policy; /* `ack` lies in the third cache line, too */

    /* The members that a message touches besides. The message area is ready if its frame stands in the buffer up to
     * the payload's first bytes, without the fields that change from segment to segment: */
    _Alignas(NET_STACK_ALIGN) struct {
        bool on;
        uint16_t from, bytes;       /* the prepared part of the payload: from `from` in the area */
        uint32_t ipv4_sum, tcp_sum; /* partial checksums; TCP's covers the pseudo-header alone if the device sums */
    } ready;
    bool neighbour_known;      /* head.ethernet.destination is filled in; written by frame.c alone */
    uint16_t path_mtu_bytes;   /* written by path.c, route.c alone */
    uint32_t rcv_buffer_bytes; /* the window promises no more; written by info.c, handshake.c alone */
    uint32_t rcv_mask;
    uint32_t timestamp_offset;
    uint32_t segment_mask;
    struct tcp_segment *segments; /* in flight: a ring, in order of seq */
    struct {
        uint32_t sacked_bytes, lost_bytes, resent_bytes; /* sums over the marks */
        uint32_t head;                                   /* index of the oldest segment, before the mask */
    } queue;                                             /* written by send_queue.c alone */

    /* Beginning and end of the connection. */
    bool used;             /* written by table.c alone */
    bool passive;          /* from a listener (MUST-11); written by listen.c alone */
    bool was_open;         /* has been ESTABLISHED; written by handshake.c alone */
    uint32_t accept_stamp; /* the oldest connection has the lowest; written by listen.c alone */
    uint32_t address;
    enum tcp_result error;      /* TCP_OK: no end, or one in order; written by table.c alone */
    bool error_taken;           /* written by info.c, stream.c alone */
    enum tcp_result soft_error; /* written by path.c, ack.c, info.c alone */

    /* Receive. */
    uint32_t irs;     /* written by handshake.c alone */
    bool read_shut;   /* the application will read no more; written by stream.c alone */
    uint32_t fin_seq; /* written by receive.c alone */
    uint8_t *rcv_ring;
    struct {
        bool dsack_pending;
        struct tcp_range dsack;                       /* RFC 2883: the range that came twice */
        struct tcp_range blocks[TCP_RANGE_COUNT_MAX]; /* out of order; the latest first (RFC 2018 §4) */
    } ranges;                                         /* written by ranges.c alone */
    struct tcp_challenges challenges;                 /* written by challenge.c alone */

    /* Send. */
    uint32_t iss;           /* written by handshake.c alone */
    uint32_t snd_small_end; /* Minshall's Nagle: the end of the last short segment sent */
    uint16_t peer_mss;      /* written by handshake.c alone */
    uint8_t *snd_ring;
    uint32_t snd_mask;
    uint32_t snd_buffer_bytes; /* written by info.c alone */
    bool sack_on, scaling_on;  /* agreed in the SYNs; written by handshake.c alone */

    /* Round trip and retransmission. */
    struct {
        uint64_t srtt_ns, rttvar_ns, rto_ns; /* srtt_ns 0: no round trip has been measured */
        uint64_t min_ns, min_until_ns;       /* the least round trip, and the end of its window */
    } rtt;                                   /* written by rtt.c alone */
    bool syn_resent;                         /* written by timer.c, listen.c alone */
    /* RFC 3168. While `echo` or `cwr` is set, no message is made ready: its flags would differ. */
    struct {
        bool on;          /* agreed in the SYNs */
        bool seen;        /* a congestion mark has come at some time */
        bool echo;        /* a congestion mark has come: ECE in each segment, until CWR comes */
        bool cwr;         /* our window has been reduced: CWR in the next new data */
        uint32_t recover; /* snd_nxt at the last reduction: one reduction a window is enough */
    } ecn;                /* written by ecn.c alone */
    /* Deadlines, and what they count from. TCP_NEVER_NS: not set. */
    struct {
        uint64_t timer_ns;      /* time at which `timer` is due */
        uint64_t rto_at_ns;     /* RFC 6298 (5.1): time-out of the oldest segment; 0: nothing in flight */
        uint64_t unanswered_ns; /* time since which the peer owes an answer, for R2 */
        uint64_t keepalive_ns;
        uint64_t fin_wait_2_ends_ns; /* end of an orphan's FIN-WAIT-2 */
        uint64_t stall_ended_ns;     /* the end of our loop's last stall; 0: none yet */
        uint64_t ack_data_ns;        /* time of the last ACK for data */
        uint8_t backoff;             /* timeouts in a row */
        bool tail_probe_wanted;      /* new data sent or acknowledged since the last probe was set */
    } deadline;                      /* written by deadline.c alone */
    uint64_t last_sent_ns;           /* written by frame.c, handshake.c alone */

    /* Output: the limits that it has met, and the times that struct tcp_info reports. */
    struct {
        uint64_t last_data_sent_ns;
        bool cwnd_limited; /* cwnd ended the last output */
        /* The most bytes in flight in the current window of data, which ends when flight_max_seq is acknowledged
         * (Linux: max_packets_out). */
        uint32_t flight_max, flight_max_seq;
        /* Times in which only the peer's window keeps data back, and in which written data is not acknowledged. For
         * each the start of the current one (0: none), and the sum of the earlier ones. */
        uint64_t window_limited_since_ns, window_limited_ns;
        uint64_t busy_since_ns, busy_ns;
    } output; /* written by output.c alone */

    /* Loss detection and repair. */
    struct {
        uint8_t duplicate_acks;
        uint32_t duplicate_bytes; /* without SACK: bytes that have left the network, by duplicate ACKs */
        uint32_t recover;         /* RFC 6582 */
        struct {
            uint64_t sent_ns, rtt_ns; /* for the latest-sent segment among those delivered */
            uint32_t end_seq;
            uint32_t fack;                /* highest sequence delivered */
            uint32_t reordering_count;    /* segments that came late */
            uint32_t reordering_segments; /* Linux: tp->reordering. Reported only: RACK goes by time */
            bool dsack_round_on;
            uint8_t window_multiplier, window_persist;
            uint32_t dsack_round;
        } rack;
        struct {
            uint32_t end_seq;
            bool is_resend;
        } tail_probe; /* while tail_probe_on */
        struct {
            uint32_t delivered, out, flight;
        } prr;
        struct { /* state that a spurious recovery restores (RFC 3522, RFC 2883) */
            bool on, resent, ecn_cwr;
            uint32_t cwnd, ssthresh, una;
            uint32_t resends; /* resends that no DSACK has shown to be needless */
            uint32_t resend_timestamp;
        } undo;
    } recovery; /* written by recovery.c alone */
    /* The latest segment without payload, and the latest one with payload before it: tcp_data_received_ns. */
    uint64_t bare_received_ns, data_received_ns; /* written by input.c alone */

    uint64_t retransmits_total; /* written by output.c, handshake.c alone */
    uint64_t bytes_acked;       /* written by ack.c alone */

    /* The frame's head before the payload, ready to be copied. */
    /* The path is narrower than TCP_PATH_MTU_MIN: routers must fragment. */
    bool fragment_ok; /* written by path.c, route.c alone */
    struct tcp_head_wire head;
};

static_assert(offsetof(struct tcp_connection, snd_wnd) == 64, "the first line of a connection");
static_assert(offsetof(struct tcp_connection, congestion.ssthresh) < 128, "the second line of a connection");
static_assert(offsetof(struct tcp_connection, policy) + offsetof(struct tcp_policy, ack) < 192, "the third");
static_assert(offsetof(struct tcp_connection, queue.head) - offsetof(struct tcp_connection, ready) < 64, "one line");
enum {
    TCP_HOT_BYTES = offsetof(struct tcp_connection, queue.head)
}; /* the fast path touches the members before, and no others */

/* Returns true while the handshake is under way. */
static inline bool tcp_is_opening(const struct tcp_connection *c)
{
    return c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED;
}
/* Returns true if this control block sends nothing more to the peer. The application may still read. */
static inline bool tcp_is_over(const struct tcp_connection *c)
{
    return c->state == TCP_CLOSED || c->state == TCP_TIME_WAIT;
}

/* Returns the time of the latest segment with payload. The fast path, whose segments all have payload, stores
 * last_received_ns alone. */
static inline uint64_t tcp_data_received_ns(const struct tcp_connection *c)
{
    return c->last_received_ns != c->bare_received_ns ? c->last_received_ns : c->data_received_ns;
}

/* A SYN received and answered: SYN-RECEIVED of a passive open in RFC 9293. */
struct tcp_half_open {
    uint8_t listener;
    uint8_t resends;
    bool sent_twice; /* the SYN,ACK was sent twice, for a SYN that came twice */
    bool timestamps_on, sack_on, scaling_on, ecn_on;
    uint8_t peer_scale, our_scale;
    uint16_t peer_mss, our_mss;
    uint32_t address, peer_address;
    uint16_t port, peer_port;
    uint8_t mac[NETDEV_MAC_BYTES]; /* source of the SYN */
    uint32_t irs, iss;
    uint32_t ts_recent, timestamp_offset;
    uint32_t window; /* the window that we offered, unscaled */
    uint64_t sent_ns, first_sent_ns, timer_ns, timeout_ns, timeout_max_ns;
    uint64_t again_ns; /* a repeated SYN before this time gets no answer */
    struct tcp_challenges challenges;
};

struct tcp_time_wait {
    bool timestamps_on;
    uint8_t ttl, tos;
    uint16_t window; /* the wire's value, scaled */
    uint32_t address, peer_address;
    uint16_t port, peer_port;
    uint32_t snd_nxt, rcv_nxt, rcv_wnd;
    uint32_t ts_recent, timestamp_offset;
    uint64_t ends_ns, time_wait_ns;
    struct tcp_challenges challenges;
};

struct tcp_listener {
    bool used;
    uint16_t port;
    uint16_t backlog;
    uint16_t waiting_count; /* connections not yet accepted */
    uint32_t half_open_count;
    struct tcp_policy policy;
};

/* A path that is narrower than its first link. */
struct tcp_path {
    uint32_t peer_address;
    uint16_t mtu_bytes;
    bool fragment_ok;
    uint64_t until_ns; /* 0: free */
};
enum { TCP_PATH_COUNT = 8 }; /* a player has one server; the rest is for tests and guests */

/* The whole TCP of a stack. Tables are searched by key: the peer's address and both ports. Our address is one, so the
 * key omits it. */
struct tcp {
    uint64_t *keys;      /* keys of connections; 0: free (no port is 0) */
    uint32_t *next_hops; /* each connection's neighbour; 0: not resolved, or the connection is over */
    struct tcp_connection *connections;
    uint64_t due_ns;         /* no deadline is earlier than this */
    uint32_t connection_end; /* one past the highest index in use */
    uint32_t message_count;  /* transmit buffers that messages keep */
    bool changed;            /* something the application can see may have changed */
    struct tcp_path paths[TCP_PATH_COUNT];

    struct tcp_policy policy;
    struct net_capacity capacity;
    uint64_t *half_open_keys, *time_wait_keys;
    struct tcp_half_open *half_open;
    struct tcp_time_wait *time_wait;
    struct tcp_listener *listeners;
    uint32_t half_open_used, time_wait_used;
    uint32_t half_open_turn;    /* the half-open connection that gives way next */
    uint64_t half_open_next_ns; /* time before which none gives way */
    uint64_t cookies_until_ns;  /* time until which an answer to a cookie may come */
    uint32_t accept_order;      /* stamps connections that wait for tcp_accept */
    uint16_t port_number;       /* number of the next connection's port, for secret_port */
};

static inline uint64_t tcp_key(uint32_t peer_address, uint16_t peer_port, uint16_t port)
{
    return (uint64_t)peer_address << 32 | (uint32_t)peer_port << 16 | port;
}

/* The memory of the tables and rings: one term each, in the order in which tcp_init cuts them. */
#define NET_ALIGNED(bytes) (((size_t)(bytes) + NET_STACK_ALIGN - 1) / NET_STACK_ALIGN * NET_STACK_ALIGN)
#define TCP_BYTES(connections, listeners, half_opens, time_waits, segments, receive, send)                             \
    (NET_ALIGNED((connections) * sizeof(uint64_t)) + NET_ALIGNED((connections) * sizeof(uint32_t))                     \
     + NET_ALIGNED((half_opens) * sizeof(uint64_t)) + NET_ALIGNED((time_waits) * sizeof(uint64_t))                     \
     + NET_ALIGNED((connections) * sizeof(struct tcp_connection))                                                      \
     + NET_ALIGNED((half_opens) * sizeof(struct tcp_half_open))                                                        \
     + NET_ALIGNED((time_waits) * sizeof(struct tcp_time_wait))                                                        \
     + NET_ALIGNED((listeners) * sizeof(struct tcp_listener))                                                          \
     + (connections)                                                                                                   \
           * (NET_ALIGNED((segments) * sizeof(struct tcp_segment)) + NET_ALIGNED(receive) + NET_ALIGNED(send)))
