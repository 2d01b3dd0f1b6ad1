/* TCP connections as a program uses them: listen, connect, read, write, close. RFC 9293 §3.9.1.
 *
 * Everything belongs to one `struct net_stack` (net/stack.h). Nothing is global, nothing blocks, nothing calls back,
 * and time is an argument. Calls change state and queue output. Data, FIN and RST leave in the call itself;
 * acknowledgements and timers wait for net_idle. Outcomes are read from the state: tcp_poll_bits reports the effect
 * that a call would have now.
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

/* Changes the backlog and the policy for later connections. Connections that wait already stay. */
void tcp_listen_change(struct net_stack *stack, int listener, uint32_t backlog, const struct tcp_policy *policy);

/* Returns true if a connection of ours, or one in TIME-WAIT, has this port. */
bool tcp_port_in_use(const struct net_stack *stack, uint16_t port);

/* Stops listening; connections not yet accepted are reset. */
void tcp_unlisten(struct net_stack *stack, int listener, uint64_t now_ns);

/* Returns the oldest connection that waits, or TCP_AGAIN. */
int tcp_accept(struct net_stack *stack, int listener);

/* Starts a connection. If `from_port` is 0, RFC 6056 chooses the port. Returns the connection, in SYN-SENT, or
 * TCP_NO_ROUTE, TCP_NO_ROOM, TCP_IN_USE. */
int tcp_connect(struct net_stack *stack, uint32_t address, uint16_t port, uint16_t from_port,
                const struct tcp_policy *policy, uint64_t now_ns);

/* Takes up to `bytes` received bytes in order. Returns their count; 0 if the peer has sent FIN and all was read;
 * TCP_AGAIN; or the reason of the connection's end (once the bytes before the end are read). `peek` leaves the
 * bytes. */
int64_t tcp_read(struct net_stack *stack, int connection, void *out, size_t bytes, bool peek, uint64_t now_ns);

/* Returns received bytes without a copy: the longest run that lies in one piece. The run is valid until the next call
 * on this connection or the next net_input. tcp_read_done takes `bytes` of the run. */
int64_t tcp_read_in_place(struct net_stack *stack, int connection, const uint8_t **data);
void tcp_read_done(struct net_stack *stack, int connection, size_t bytes, uint64_t now_ns);

/* Puts bytes into the send buffer (as many as fit) and sends as much as may be sent. Returns the count taken, at
 * least 1 if `bytes` is; or TCP_AGAIN, TCP_PIPE, TCP_NOT_CONNECTED, or the reason of the connection's end. Bytes
 * written while connecting are sent once connected. */
int64_t tcp_write(struct net_stack *stack, int connection, const void *data, size_t bytes, uint64_t now_ns);

/* Sends FIN after the data written; the peer's data still arrives. Returns TCP_OK, TCP_PIPE or TCP_NOT_CONNECTED. */
int tcp_shutdown(struct net_stack *stack, int connection, uint64_t now_ns);

/* Notes that the application will read no more. Later data is stored all the same: a peer that still sends shall end in
 * order. Once our FIN has left, such data is answered with RST: nobody waits for it (RFC 9293 §3.6.1). */
void tcp_shutdown_read(struct net_stack *stack, int connection);

/* Gives the connection back. Sends FIN after the data written, or RST if received bytes are unread (RFC 9293 §3.6.1,
 * SHLD-3). The index is invalid from here on. */
void tcp_close(struct net_stack *stack, int connection, uint64_t now_ns);

/* Ends the connection with an RST (in states that call for one): CLOSED, with the error TCP_ABORTED. The caller must
 * still give the connection back. */
void tcp_reset(struct net_stack *stack, int connection, uint64_t now_ns);

/* Calls tcp_reset and tcp_close. SO_LINGER with 0 s. */
void tcp_abort(struct net_stack *stack, int connection, uint64_t now_ns);

enum tcp_poll_bit {
    TCP_POLL_READ = 1,    /* tcp_read has bytes, end or error; tcp_accept has a connection */
    TCP_POLL_WRITE = 2,   /* tcp_write takes bytes, or returns an error at once */
    TCP_POLL_ENDED = 4,   /* the peer sent FIN (POLLRDHUP) */
    TCP_POLL_HUNG_UP = 8, /* neither direction is open any more (POLLHUP) */
    TCP_POLL_ERROR = 16,  /* tcp_take_error has one (POLLERR) */
};
/* Returns an OR of tcp_poll_bit. An unused index has "error" and "hung up"; an unused listener has none. */
uint32_t tcp_poll_bits(const struct net_stack *stack, int connection);
uint32_t tcp_listener_poll_bits(const struct net_stack *stack, int listener);

/* Returns the reason of the connection's end once (SO_ERROR); then TCP_OK. */
enum tcp_result tcp_take_error(struct net_stack *stack, int connection);
/* Returns the last ICMP error against a connection that goes on (RFC 9293, SHLD-25), once. Acknowledged data clears
 * the error. If the connection ends without an answer, an unread error becomes the reason of the end. */
enum tcp_result tcp_take_soft_error(struct net_stack *stack, int connection);

/* Returns the state; TCP_CLOSED also for an unused index. */
enum tcp_state tcp_state(const struct net_stack *stack, int connection);
const char *tcp_state_name(enum tcp_state state); /* "SYN-SENT" */

struct tcp_endpoints {
    uint32_t address, peer_address;
    uint16_t port, peer_port;
};
/* Reads both endpoints of a connection. Returns false for an unused index. */
bool tcp_endpoints(const struct net_stack *stack, int connection, struct tcp_endpoints *endpoints);

/* Sets options of an open connection. */
void tcp_set_nodelay(struct net_stack *stack, int connection, bool nodelay, uint64_t now_ns);
void tcp_set_ack_policy(struct net_stack *stack, int connection, enum tcp_ack_policy policy, uint32_t delay_us);
void tcp_set_cork(struct net_stack *stack, int connection, bool cork, uint64_t now_ns);
void tcp_set_receive_buffer(struct net_stack *stack, int connection, uint32_t bytes);
void tcp_set_send_buffer(struct net_stack *stack, int connection, uint32_t bytes);
void tcp_set_keepalive(struct net_stack *stack, int connection, bool on, uint64_t now_ns);
/* Sets the policy's keepalive_idle_us, keepalive_interval_us and keepalive_count. */
void tcp_set_keepalive_times(struct net_stack *stack, int connection, const struct tcp_policy *policy, uint64_t now_ns);
void tcp_set_mss(struct net_stack *stack, int connection, uint16_t mss);
/* Sets the policy's data_give_up_us, user_timeout and fin_wait_2_us. */
void tcp_set_patience(struct net_stack *stack, int connection, const struct tcp_policy *policy);

/* Sets the policy's ttl, tos and path_mtu, from the next packet on. */
void tcp_set_packets(struct net_stack *stack, int connection, const struct tcp_policy *policy, uint64_t now_ns);

/* TCP_INFO's main fields. */
struct tcp_info {
    enum tcp_state state;
    bool timestamps, sack, window_scaling, ecn; /* agreed */
    bool ecn_seen;                              /* a mark of congestion has come */
    uint8_t snd_scale, rcv_scale;
    uint32_t rto_us, srtt_us, rttvar_us, rtt_min_us;
    uint32_t snd_mss, rcv_mss, path_mtu_bytes;
    uint32_t cwnd_bytes, ssthresh_bytes; /* UINT32_MAX: not set yet */
    uint32_t snd_wnd, rcv_wnd;
    uint32_t unsent_bytes, unacked_bytes, in_flight_bytes, sacked_bytes, lost_bytes;
    uint32_t resent_bytes;                  /* in flight again */
    uint32_t unacked_segments, retransmits; /* retransmits: of the segment at the front, in a row */
    uint32_t window_probes;                 /* unanswered */
    uint32_t mss_offered;
    uint32_t reordering_segments;     /* largest distance by which a segment came late; at least 3 */
    uint64_t window_limited_ns;       /* time in which only the peer's window kept data back */
    uint64_t window_limited_since_ns; /* start of the present such time; 0: none */
    uint32_t unread_bytes;
    uint32_t reordering_count; /* segments that have come late */
    uint64_t busy_ns;          /* time in which data was written and not yet acknowledged */
    uint64_t busy_since_ns;    /* start of the present such time; 0: none */
    uint64_t last_data_received_ns;
    uint64_t retransmits_total, bytes_acked, bytes_received;
    bool in_recovery; /* fast recovery, or repair after a timeout */
    bool in_loss;
    bool in_disorder; /* SACKs or duplicate ACKs, but nothing believed lost yet */
};
/* Fills in `info`. Returns false for an unused index. */
bool tcp_info(const struct net_stack *stack, int connection, struct tcp_info *info);
