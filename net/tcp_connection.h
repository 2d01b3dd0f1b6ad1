/* The transmission control block, and what the files of TCP ask of each other. Not for users of the stack.
 *
 *   tcp_input.c        a segment arrives: which connection, and RFC 9293 §3.10.7 step by step
 *   tcp_ack.c          its acknowledgement: what it frees, measures and detects
 *   tcp_receive.c      its payload: order, overlap, the window
 *   tcp_output.c       what may be sent now, and whether it should be
 *   tcp_frame.c        one segment onto the wire
 *   tcp_sendqueue.c    the segments in flight: marks and sums
 *   tcp_recovery.c     RFC 8985 (RACK-TLP), RFC 6675, RFC 6937 (PRR)
 *   tcp_congestion.c   RFC 5681, RFC 9438 (CUBIC)
 *   tcp_timer.c        RFC 6298 and every other deadline
 *   tcp_listen.c       half-open connections; tcp_time_wait.c: closed ones
 *   tcp_path.c         ICMP errors and the path MTU
 *   tcp_fast.c         the predicted segment, and the prepared answer
 *   tcp_table.c        control blocks; tcp_policy.c: what is chosen for them
 *   tcp_open.c, tcp_stream.c, tcp_info.c: the calls of net/tcp.h
 *
 * Names are RFC 9293's. Sequence numbers are compared with net/tcp_seq.h only. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ipv4.h"
#include "net/stack.h"
#include "net/tcp_congestion.h"
#include "net/tcp_wire.h"

struct net_stack;

enum {
    TCP_RANGE_COUNT_MAX = 32,       /* holes a receiver keeps track of: 4 are told in an ACK, the rest is patience */
    TCP_PORT_FIRST = 32768,         /* RFC 6056 §3.2: a large range, here SECRET_PORT_COUNT ports; servers are below */
    TCP_PATH_MTU_MIN = 552,         /* ICMP cannot push us below this (Linux: route/min_pmtu) */
    TCP_ACK_QUICK_COUNT = 16,       /* TCP_ACK_ADAPTIVE. Linux: TCP_MAX_QUICKACKS */
    TCP_REORDERING_LEAST = 3,       /* RFC 5681 §3.2, DupThresh */
    TCP_R1_RETRANSMITS = 3,         /* RFC 9293 §3.8.3 (a): ask the neighbour again */
};
#define TCP_NEVER_NS UINT64_MAX

/* RFC 5961 §7, for each connection: its example, 10 in 5 s, and nothing for a segment that has just been answered, as in
 * Linux (tcp_invalid_ratelimit), so that two ends that misunderstand each other do not do it at line speed. */
#define TCP_CHALLENGES_NS UINT64_C(5000000000)
#define TCP_CHALLENGE_AGAIN_NS UINT64_C(500000000)
enum { TCP_CHALLENGES_MAX = 10 };
struct tcp_challenges {
    uint64_t until_ns;              /* those counted are of the time up to there */
    uint64_t again_ns;              /* before this not for another segment with these: */
    uint32_t seq, ack;
    uint8_t flags, count;
};

enum tcp_mark {
    TCP_MARK_SACKED = 1,            /* the peer holds it, but may still drop it (RFC 2018 §8) */
    TCP_MARK_LOST = 2,              /* believed lost */
    TCP_MARK_RESENT = 4,            /* a retransmission is in flight */
    TCP_MARK_EVER_RESENT = 8,       /* Karn: no RTT from it */
    TCP_MARK_SHARED = 16,           /* the segment after it lies in the same transmit buffer, and will release it */
    TCP_MARK_CUT = 32,              /* the one before it did: a head in front of it would lie on that one's payload */
};

/* A segment sent and not yet acknowledged. Its payload lies in the send ring at its sequence number, or in a
 * transmit buffer that the stack still holds. */
struct tcp_segment {
    uint32_t seq;
    uint16_t bytes;                 /* payload */
    uint8_t flags;                  /* TCP_SYN, TCP_FIN: each takes a sequence number; TCP_PSH */
    uint8_t marks;
    uint64_t sent_ns;               /* last time */
    struct tx_buffer *buffer;       /* NULL: in the ring */
    uint16_t offset;                /* of the payload, from buffer->data */
};

static inline uint32_t tcp_segment_space(const struct tcp_segment *s)
{
    return s->bytes + ((s->flags & TCP_SYN) != 0) + ((s->flags & TCP_FIN) != 0);
}
static inline uint32_t tcp_segment_end(const struct tcp_segment *s) { return s->seq + tcp_segment_space(s); }

struct tcp_range {
    uint32_t left, right;           /* left <= seq < right */
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
    uint32_t address;               /* the peer's */
    uint16_t peer_port, port;
    uint32_t seq, ack;
    uint8_t flags;
    uint16_t window;                /* as on the wire */
    const uint8_t *data;
    uint32_t bytes;
    struct tcp_options options;
};

/* SEG.LEN: SYN and FIN count. */
static inline uint32_t tcp_received_space(const struct tcp_received *r)
{
    return r->bytes + ((r->flags & TCP_SYN) != 0) + ((r->flags & TCP_FIN) != 0);
}

/* Which of the deadlines that exclude each other is set. RFC 8985 §8, Linux's icsk_pending. */
enum tcp_timer {
    TCP_TIMER_NONE,
    TCP_TIMER_RTO,
    TCP_TIMER_TAIL_PROBE,
    TCP_TIMER_REORDER,
    TCP_TIMER_WINDOW_PROBE,
};

enum tcp_recovery_state {
    TCP_OPEN,                       /* nothing is believed lost */
    TCP_RECOVERY,                   /* fast recovery, until snd_una reaches `recover` */
    TCP_LOSS,                       /* after a timeout, likewise */
};

/* The first three lines are all that the predicted segment touches of it, and the fourth and sixth what a prepared
 * message touches besides (tcp_fast.c). */
struct tcp_connection {
    /* Identity. The key of the connection is in tcp.keys. */
    _Alignas(NET_STACK_ALIGN) uint8_t state;    /* enum tcp_state */
    bool fin_received;              /* rcv_nxt is past it */
    bool direct;                    /* payload may be lent in place: net/transport_own.c */
    bool timestamps_on;             /* agreed in the SYNs, as sack_on, scaling_on below */
    uint16_t index;
    uint16_t head_bytes;            /* from Ethernet to the first payload byte */

    /* What keeps a connection from being quiet. It is when all of it is 0. */
    union {
        uint64_t unrest;
        struct {
            bool fin_wanted;        /* FIN follows snd_end */
            bool fin_seen;          /* it came, perhaps out of order, at fin_seq */
            bool blocked;           /* output found no buffer: try again at the next net_idle */
            bool tail_probe_on;
            uint8_t range_count;
            uint8_t timer;          /* enum tcp_timer */
            uint8_t recovery;       /* enum tcp_recovery_state */
            uint8_t probe_count;    /* window probes since the window closed */
        };
    };

    uint32_t rcv_nxt;
    uint32_t rcv_read;              /* next to be read by the application; rcv_nxt - rcv_read lie in the ring */
    uint32_t rcv_adv;               /* right edge we have advertised; never moves left (SHLD-14) */
    uint32_t last_ack_sent;         /* RFC 7323 §4.3 */
    uint32_t snd_una, snd_nxt;
    uint32_t snd_end;               /* one past the last byte the application wrote */
    uint32_t segment_count;         /* in flight */
    uint32_t ts_recent;
    uint16_t snd_mss;               /* payload of a full segment, options taken off */
    uint8_t rcv_scale, snd_scale;
    struct tx_buffer *message;      /* transport_message's area */

    uint32_t snd_wnd, snd_wl1, snd_wl2;
    uint32_t snd_wnd_max;
    uint64_t ts_recent_ns;
    uint64_t last_received_ns;
    uint64_t bytes_received;
    uint64_t ack_timer_ns;
    uint32_t ack_unsent_bytes;      /* received since the last ACK */
    uint16_t rcv_mss;               /* the largest payload seen, for the delayed ACK's "full-sized" */
    bool ack_now;                   /* at the next net_idle at the latest */
    uint8_t keepalive_count;        /* keepalive probes unanswered */
    struct tcp_congestion congestion;   /* its cwnd is in the second line, the rest in the third */
    uint32_t peer_address;
    uint16_t port, peer_port;
    bool orphan;                    /* the application has given it back */
    int16_t listener;               /* waiting for tcp_accept there; -1: no longer, or never */
    struct tcp_policy policy;       /* `ack` is in the third line, too */

    /* What a message takes besides. The message area is ready when its frame stands in the buffer up to the payload's
     * first bytes, save for what changes from segment to segment: */
    _Alignas(NET_STACK_ALIGN) struct {
        bool on;
        uint16_t from, bytes;       /* so much of the payload, from there in the area */
        uint32_t ipv4_sum, tcp_sum; /* partial checksums of it; of TCP the pseudo-header's alone if the device sums */
    } ready;
    bool neighbour_known;           /* head.ethernet.destination is filled in */
    uint16_t path_mtu_bytes;
    uint32_t rcv_buffer_bytes;      /* how much of the ring the window may promise */
    uint32_t rcv_mask;
    uint32_t timestamp_offset;
    uint32_t sacked_bytes, lost_bytes, resent_bytes;    /* sums over the marks */
    struct tcp_segment *segments;   /* in flight: a ring, in order of seq */
    uint32_t segment_mask, segment_head;

    /* How it came to be, and how it ended. */
    bool used;
    bool passive;                   /* from a listener (MUST-11) */
    bool was_open;                  /* has been ESTABLISHED */
    uint32_t accept_stamp;          /* the lowest is the oldest */
    uint32_t address;
    enum tcp_result error;          /* why it ended; TCP_OK: not, or in order */
    bool error_taken;
    enum tcp_result soft_error;

    /* Receive. */
    uint32_t irs;
    bool read_shut;                 /* the application will read no more */
    uint32_t fin_seq;
    uint8_t *rcv_ring;
    bool dsack_pending;
    struct tcp_range dsack;         /* RFC 2883: what came twice */
    struct tcp_range ranges[TCP_RANGE_COUNT_MAX];       /* out of order; the latest first (RFC 2018 §4) */

    /* Acknowledgements owed. */
    struct tcp_challenges challenges;
    bool ack_adaptive;              /* policy.ack changes between quick and delayed: */
    uint8_t ack_quick_left;         /* quick for so many ACKs more */
    uint64_t ack_data_ns;           /* when the last one for text left */

    /* Send. */
    uint32_t iss;
    uint32_t snd_small_end;         /* end of the last segment sent that was not full (Nagle by Minshall) */
    uint16_t peer_mss;
    uint8_t *snd_ring;
    uint32_t snd_mask;
    uint32_t snd_buffer_bytes;
    uint32_t duplicate_bytes;       /* without SACK: what duplicate ACKs say has left the network */
    bool sack_on, scaling_on;       /* agreed in the SYNs */

    /* Round trip and retransmission. */
    uint64_t srtt_ns, rttvar_ns, rto_ns;
    uint64_t rtt_min_ns;
    uint64_t rtt_min_until_ns;
    uint8_t backoff;                /* timeouts in a row */
    bool syn_resent;
    uint64_t timer_ns;              /* when `timer` is due */
    uint64_t rto_at_ns;             /* RFC 6298 (5.1): when the oldest segment times out; 0: nothing in flight */
    uint64_t unanswered_ns;         /* since when the peer owes an answer, for R2 */
    uint64_t last_sent_ns, last_data_sent_ns;
    bool tail_probe_wanted;         /* new data has been sent, or acknowledged, since the last was set */
    uint64_t keepalive_ns;
    uint64_t state_ns;              /* FIN-WAIT-2 of an orphan: when it is given up */

    /* Recovery. */
    uint8_t duplicate_acks;
    uint32_t recover;               /* RFC 6582 */
    struct {
        uint64_t sent_ns, rtt_ns;   /* of the latest-sent segment delivered */
        uint32_t end_seq;
        uint32_t fack;              /* highest sequence delivered */
        bool reordering_seen;
        uint32_t reordering_segments;   /* Linux: tp->reordering. Told, not used: RACK goes by time */
        bool dsack_round_on;
        uint8_t window_multiplier, window_persist;
        uint32_t dsack_round;
    } rack;
    struct {
        uint32_t end_seq;
        bool is_resend;
    } tail_probe;                   /* while tail_probe_on */
    struct {
        uint32_t delivered, out, flight;
    } prr;
    struct {                        /* what a spurious recovery gives back (RFC 3522, RFC 2883) */
        bool on, resent;
        uint32_t cwnd, ssthresh, una;
        uint32_t resends;           /* not yet shown needless by a DSACK */
        uint32_t resend_timestamp;
    } undo;
    uint64_t window_limited_since_ns;   /* the peer's window is what keeps data back; 0: it does not */
    uint64_t window_limited_ns;     /* and did so before, in all */
    bool cwnd_limited;              /* cwnd is what ended the last output */
    uint32_t flight_max;            /* the most in flight in this window, */
    uint32_t flight_max_seq;        /* which ends when this is acknowledged (Linux: max_packets_out) */

    uint64_t retransmits_total, bytes_acked;

    /* Everything before the payload, ready to be copied. */
    bool fragment_ok;               /* the path is narrower than TCP_PATH_MTU_MIN: routers must cut */
    uint32_t next_hop;              /* 0: not resolved yet */
    struct tcp_head_wire head;
};

static_assert(offsetof(struct tcp_connection, snd_wnd) == 64, "the first line of a connection");
static_assert(offsetof(struct tcp_connection, congestion.ssthresh) < 128, "the second line of a connection");
static_assert(offsetof(struct tcp_connection, policy) + offsetof(struct tcp_policy, ack) < 192, "the third");
static_assert(offsetof(struct tcp_connection, segment_head) - offsetof(struct tcp_connection, ready) < 64, "one line");
enum { TCP_HOT_BYTES = offsetof(struct tcp_connection, segment_head) };    /* what precedes is all the fast path's */

/* A SYN received and answered, RFC 9293's SYN-RECEIVED of a passive open. */
struct tcp_half_open {
    uint8_t listener;
    uint8_t resends;
    bool sent_twice;                /* the SYN,ACK, for a SYN that came twice */
    bool timestamps_on, sack_on, scaling_on;
    uint8_t peer_scale, our_scale;
    uint16_t peer_mss, our_mss;
    uint32_t address, peer_address;
    uint16_t port, peer_port;
    uint32_t irs, iss;
    uint32_t ts_recent, timestamp_offset;
    uint32_t window;                /* what we offered, unscaled */
    uint64_t sent_ns, first_sent_ns, timer_ns, timeout_ns, timeout_max_ns;
    uint64_t again_ns;              /* until then a repeated SYN is not answered */
    struct tcp_challenges challenges;
};

struct tcp_time_wait {
    bool timestamps_on;
    uint8_t ttl, tos;
    uint16_t window;                /* as the wire has it */
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
    uint16_t waiting_count;         /* connections not yet accepted */
    uint32_t half_open_count;
    struct tcp_policy policy;
};

/* A path found narrower than its first link. */
struct tcp_path {
    uint32_t peer_address;
    uint16_t mtu_bytes;
    bool fragment_ok;
    uint64_t until_ns;              /* 0: free */
};
enum { TCP_PATH_COUNT = 8 };        /* a player has one server; the rest is for tests and guests */

/* All of TCP in a stack. Tables are searched by key: the peer's address and both ports; our address is one. */
struct tcp {
    uint64_t *keys;                 /* of connections; 0: free (no port is 0) */
    struct tcp_connection *connections;
    uint64_t due_ns;                /* no deadline is earlier than this */
    uint32_t connection_end;        /* one past the highest index in use */
    bool changed;                   /* something the application can see may have changed */
    struct tcp_path paths[TCP_PATH_COUNT];

    struct tcp_policy policy;
    struct net_capacity capacity;
    uint64_t *half_open_keys, *time_wait_keys;
    struct tcp_half_open *half_open;
    struct tcp_time_wait *time_wait;
    struct tcp_listener *listeners;
    uint32_t half_open_used, time_wait_used;
    uint32_t half_open_turn;        /* which half-open connection gives way next, */
    uint64_t half_open_next_ns;     /* and not before this */
    uint64_t cookies_until_ns;      /* an answer to a cookie may come until then */
    uint32_t accept_order;          /* stamps connections that wait for tcp_accept */
    bool isn_above_on;              /* the segment in hand took the place of a TIME-WAIT, */
    uint32_t isn_above;             /* so its connection's ISN is this at least */
    uint16_t port_number;           /* of the next connection's port, for secret_port */
};

static inline uint64_t tcp_key(uint32_t peer_address, uint16_t peer_port, uint16_t port)
{
    return (uint64_t)peer_address << 32 | (uint32_t)peer_port << 16 | port;
}

/* The memory of the tables and rings: one term each, in the order in which tcp_init cuts them. */
#define NET_ALIGNED(bytes) (((size_t)(bytes) + NET_STACK_ALIGN - 1) / NET_STACK_ALIGN * NET_STACK_ALIGN)
#define TCP_BYTES(connections, listeners, half_opens, time_waits, segments, receive, send) \
    (NET_ALIGNED((connections) * sizeof(uint64_t)) + NET_ALIGNED((half_opens) * sizeof(uint64_t)) \
     + NET_ALIGNED((time_waits) * sizeof(uint64_t)) \
     + NET_ALIGNED((connections) * sizeof(struct tcp_connection)) \
     + NET_ALIGNED((half_opens) * sizeof(struct tcp_half_open)) \
     + NET_ALIGNED((time_waits) * sizeof(struct tcp_time_wait)) \
     + NET_ALIGNED((listeners) * sizeof(struct tcp_listener)) \
     + (connections) * (NET_ALIGNED((segments) * sizeof(struct tcp_segment)) + NET_ALIGNED(receive) \
                        + NET_ALIGNED(send)))
