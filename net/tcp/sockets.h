/* The calls of TCP that an interface of sockets needs beside those of tcp.h: host/library, and tests. The kernel's
 * transport uses none of them. Outcomes are read from the state: tcp_poll_bits reports the effect that a call would
 * have now. */
#pragma once

#include "net/tcp/tcp.h"

/* Changes the backlog and the policy for later connections. Connections that wait already stay. */
void tcp_listen_change(struct net_stack *stack, int listener, uint32_t backlog, const struct tcp_policy *policy);

/* Returns true if a connection of ours, or one in TIME-WAIT, has this port. */
bool tcp_port_in_use(const struct net_stack *stack, uint16_t port);

/* Stops listening; connections not yet accepted are reset. */
void tcp_unlisten(struct net_stack *stack, int listener, uint64_t now_ns);

/* Takes up to `bytes` received bytes in order. Returns their count; 0 if the peer has sent FIN and all was read;
 * TCP_AGAIN; or the reason of the connection's end (once the bytes before the end are read). `peek` leaves the
 * bytes. */
int64_t tcp_read(struct net_stack *stack, int connection, void *out, size_t bytes, bool peek, uint64_t now_ns);

/* Puts bytes into the send buffer (as many as fit) and sends as much as may be sent. Returns the count taken, at
 * least 1 if `bytes` is; or TCP_AGAIN, TCP_PIPE, TCP_NOT_CONNECTED, or the reason of the connection's end. Bytes
 * written while connecting are sent once connected. */
int64_t tcp_write(struct net_stack *stack, int connection, const void *data, size_t bytes, uint64_t now_ns);

/* Notes that the application will read no more. Later data is stored all the same: a peer that still sends shall end in
 * order. Once our FIN has left, such data is answered with RST: nobody waits for it (RFC 9293 §3.6.1). */
void tcp_shutdown_read(struct net_stack *stack, int connection);

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
