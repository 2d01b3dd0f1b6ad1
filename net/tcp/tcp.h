/* TCP connections as a program uses them: listen, connect, read, write, close. RFC 9293 §3.9.1.
 *
 * Everything belongs to one `struct net_stack` (net/stack.h). Nothing is global, nothing blocks, nothing calls back,
 * and time is an argument. Calls change state and queue output. Data, FIN and RST leave in the call itself;
 * acknowledgements and timers wait for net_idle. net/tcp/sockets.h has the calls beside these that an interface of
 * sockets needs.
 *
 * A connection is a small index, valid from tcp_connect or tcp_accept until tcp_close or tcp_abort gives the index
 * back. After tcp_close the stack finishes the protocol's work by itself. IPv4 addresses are host order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_stack;

/* Results of calls that return no count. Negative, so that a count and a result share one integer. TCP_UNREACHABLE has
 * three causes: no ARP answer, an ICMP error after which no answer came, and the loss of our address. */
enum tcp_result {
    TCP_OK = 0,
    TCP_AGAIN = -1,         /* nothing to read, no room to write, no connection to accept now */
    TCP_INVALID = -2,       /* no connection or listener of this index, or a wrong state */
    TCP_IN_USE = -3,        /* the port, or the pair of address and port, is taken */
    TCP_NO_ROOM = -4,       /* the table (connections, listeners, ports) is full */
    TCP_NO_ROUTE = -5,      /* no address yet, or none for this destination; broadcast and multicast too */
    TCP_NOT_CONNECTED = -6, /* still connecting, or never connected */
    TCP_PIPE = -7,          /* we have sent FIN, or the connection is gone */
    TCP_REFUSED = -8,       /* RST, or ICMP port or protocol unreachable, answered our SYN */
    TCP_RESET = -9,         /* RST in an open connection */
    TCP_TIMED_OUT = -10,    /* SYN, data or probes unanswered for too long */
    TCP_UNREACHABLE = -11,  /* no way to the peer, or no address of ours any more */
    TCP_ABORTED = -12,      /* tcp_reset, tcp_abort */
};

/* RFC 9293 §3.3.2. */
enum tcp_state {
    TCP_CLOSED,
    TCP_LISTEN,
    TCP_SYN_SENT,
    TCP_SYN_RECEIVED,
    TCP_ESTABLISHED,
    TCP_FIN_WAIT_1,
    TCP_FIN_WAIT_2,
    TCP_CLOSE_WAIT,
    TCP_CLOSING,
    TCP_LAST_ACK,
    TCP_TIME_WAIT,
};

enum tcp_ack_policy {
    TCP_ACK_QUICK,   /* every batch of received data is acknowledged by the next net_idle */
    TCP_ACK_DELAYED, /* RFC 9293 §3.8.6.3: every second full segment, or after ack_delay_us */
    /* Linux's policy: quick for 16 ACKs at first, and for 16 more after a repetition. The policy changes to delayed
     * after these ACKs, and as soon as the application answers received data. A FIN is acknowledged at once, unlike in
     * Linux. */
    TCP_ACK_ADAPTIVE,
};

enum tcp_congestion_policy {
    TCP_CUBIC,   /* RFC 9438 */
    TCP_NEWRENO, /* RFC 5681 */
};

enum { TCP_WINDOW_SCALE_AUTO = 255 };

/* The choices at run time. A stack has one policy as its default. A connection takes a copy when the connection, or
 * its listener, is opened. Fields of 0 do not mean "default": begin from tcp_policy_default. */
struct tcp_policy {
    enum tcp_ack_policy ack;
    enum tcp_congestion_policy congestion;
    uint32_t ack_delay_us; /* TCP_ACK_DELAYED: at most 500 ms (MUST-40) */

    /* RFC 6298, the retransmission time-out. The default is Linux's: the time-out is longer than SRTT by at least
     * rto_min_us, 200 ms, and is at most rto_max_us, 120 s. */
    uint32_t rto_initial_us; /* (2.1): 1 s */
    uint32_t rto_min_us;     /* (2.4): SHOULD be 1 s */
    uint32_t rto_max_us;     /* (2.5): at least 60 s */
    /* RFC 8985 §7.2, TLP.max_ack_delay: the longest time by which the peer delays the ACK of a lone segment. */
    uint32_t tlp_ack_delay_us;

    uint32_t initial_window_segments; /* RFC 6928: 10 */
    /* RFC 3465, L: the most segments by which slow start grows with one ACK. 0: as many as the ACK acknowledges. */
    uint32_t slow_start_ack_segments;
    uint32_t receive_buffer_bytes; /* at most the capacity given to net_stack_init */
    uint32_t send_buffer_bytes;    /* at most the capacity given to net_stack_init */

    /* Options that we offer and accept. The shift that we offer, window_scale, is 0 to 14. TCP_WINDOW_SCALE_AUTO is the
     * shift that the receive buffer needs. */
    uint8_t window_scale;
    bool window_scaling; /* RFC 7323 */
    bool timestamps;     /* RFC 7323 */
    bool sack;           /* RFC 2018 */
    bool ecn;            /* RFC 3168 */

    bool slow_start_after_idle; /* RFC 5681 §4.1: begins again after a pause longer than the RTO */
    /* RFC 8985 §7: tail loss probes on connections with SACK. Without SACK, only a lone segment can have a probe, which
     * no RFC foresees. */
    bool tail_probe;
    bool tail_probe_without_sack;
    bool nodelay;         /* Nagle's algorithm off (MUST-17) */
    bool cork;            /* TCP_CORK: holds short segments back, for one RTO at most */
    bool keepalive;       /* off by default (MUST-25) */
    bool syn_soft_errors; /* soft ICMP errors end an opening, as in Linux, against MUST-56 */
    bool path_mtu;        /* honour ICMP fragmentation needed; packets carry DF */
    /* The application has chosen data_give_up_us. That limit then holds for keepalive, too, and for data that waits for
     * a window although the peer answers probes (MUST-36). */
    bool user_timeout;
    uint16_t mss; /* largest segment we announce and send; 0: by the MTU */
    uint8_t ttl;  /* time to live of the connection's packets (MUST-49); 0: 64 */
    uint8_t tos;  /* differentiated services field of its packets (MUST-48) */

    uint32_t syn_give_up_us;    /* R2 for a SYN: at least 3 min (MUST-23) */
    uint32_t data_give_up_us;   /* R2 for data: at least 100 s (SHLD-11) */
    uint32_t time_wait_us;      /* 2 MSL: 60 s, as Linux */
    uint32_t fin_wait_2_us;     /* wait for the peer's FIN after a close: 60 s, as Linux */
    uint64_t keepalive_idle_us; /* at least 2 h by default (MUST-28) */
    uint64_t keepalive_interval_us;
    uint32_t keepalive_count; /* probes unanswered before the connection is dead */
};

void tcp_policy_default(struct tcp_policy *policy);

/* Returns the stack's default policy, for connections that are opened without one. */
const struct tcp_policy *tcp_policy_get(const struct net_stack *stack);

/* Listens on a port with room for `backlog` connections that wait for tcp_accept (at least 1). A NULL `policy` means
 * the stack's policy. Returns a listener, or TCP_IN_USE, TCP_NO_ROOM, TCP_INVALID (port 0). */
int tcp_listen(struct net_stack *stack, uint16_t port, uint32_t backlog, const struct tcp_policy *policy);

/* Returns the oldest connection that waits, or TCP_AGAIN. */
int tcp_accept(struct net_stack *stack, int listener);

/* Starts a connection. If `from_port` is 0, RFC 6056 chooses the port. Returns the connection, in SYN-SENT, or
 * TCP_NO_ROUTE, TCP_NO_ROOM, TCP_IN_USE. */
int tcp_connect(struct net_stack *stack, uint32_t address, uint16_t port, uint16_t from_port,
                const struct tcp_policy *policy, uint64_t now_ns);

/* Returns received bytes without a copy: the longest run that lies in one piece. The run is valid until the next call
 * on this connection or the next net_input. tcp_read_done takes `bytes` of the run. */
int64_t tcp_read_in_place(struct net_stack *stack, int connection, const uint8_t **data);
void tcp_read_done(struct net_stack *stack, int connection, size_t bytes, uint64_t now_ns);

/* Sends FIN after the data written; the peer's data still arrives. Returns TCP_OK, TCP_PIPE or TCP_NOT_CONNECTED. */
int tcp_shutdown(struct net_stack *stack, int connection, uint64_t now_ns);

/* Gives the connection back. Sends FIN after the data written, or RST if received bytes are unread (RFC 9293 §3.6.1,
 * SHLD-3). The index is invalid from here on. */
void tcp_close(struct net_stack *stack, int connection, uint64_t now_ns);

/* Ends the connection with an RST (in states that call for one): CLOSED, with the error TCP_ABORTED. The caller must
 * still give the connection back. */
void tcp_reset(struct net_stack *stack, int connection, uint64_t now_ns);
