/* libperegrine-net.so: our TCP/IP stack as a library, for programs that test it or that want it in user space.
 *
 * IP packets in, IP packets out, and a clock that the caller turns; nothing blocks, nothing runs by itself, no file,
 * no thread. Several stacks live side by side. Not thread-safe: one thread at a time for each stack.
 *
 *     const char *why;
 *     struct pnet *net = pnet_open("address=192.168.0.1 rto_min_us=200000 sack=on", &why);
 *     pnet_set_time_us(net, now);                  -- forwards only
 *     pnet_packet_in(net, packet, bytes);          -- replies that are due at once are in the queue afterwards
 *     while ((bytes = pnet_packet_out(net, packet, sizeof packet)) > 0) ...;
 *     if (pnet_next_timer_us(net) <= now) pnet_run_timers(net);
 *
 * Addresses and ports are host order (192.168.0.1 is 0xc0a80001). Calls return 0 or a count, or a negative errno of
 * Linux, with Linux' meaning for a non-blocking socket; besides, -EINVAL without a stack, -EBADF for a socket that is
 * none (closed, never made), -EFAULT for a NULL that must not be. A stack sends only in pnet_packet_in, in
 * pnet_run_timers and in the socket calls; what it sends waits for pnet_packet_out, at most 1024 packets, later ones are lost. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PNET_API __attribute__((visibility("default")))

struct pnet;

/* Makes a stack. `words` are `key=value`, separated by blanks; an unknown or bad one is refused, and *why (if given)
 * then points at a message that quotes it, valid until the next pnet_open. NULL when it cannot be made.
 *
 *   address=A.B.C.D        ours; required. Every peer is reached directly, no ARP is spoken.
 *   mtu=BYTES              576..65535; 1500
 *   ack=quick|delayed|adaptive  acknowledge every batch at once; or RFC 9293 §3.8.6.3, FIN behind text, too; or as Linux:
 *                          quick for 16 ACKs and after a repetition, delayed then, and as soon as the application answers
 *                          within ack_delay_us what it gets (until one waits in vain), or the peer sends FIN; quick
 *   ack_delay_us=US        for ack=delayed and adaptive; 40000
 *   rto_initial_us=US      RFC 6298 (2.1); 1000000
 *   rto_min_us=US          200000; above SRTT as in Linux, up to 200 ms of it: RTO = SRTT + max(4 RTTVAR, minimum)
 *   rto_max_us=US          120000000
 *   initial_window=N       segments; 10
 *   slow_start_ack_segments=N  most growth for one ACK, RFC 3465's L; 0: all that it acknowledges, as Linux (default)
 *   congestion=cubic|newreno
 *   rcvbuf=BYTES           1..16777216; 65535
 *   sndbuf=BYTES           1..16777216; 65536
 *   wscale=auto|off|0..14  the shift we announce; auto: the least that can name rcvbuf. off: the option is not used
 *   mss=BYTES              largest segment announced and sent; 0: what the MTU gives
 *   ttl=1..255  tos=0..255 of what connections send; 64, 0
 *   timestamps=on|off  sack=on|off  nodelay=on|off(default)  path_mtu=on|off  keepalive=on|off(default)
 *   syn_soft_errors=on|off(default)  whether ICMP host or network unreachable, time exceeded and the like end a connection
 *                          that is opening, as in Linux; RFC 9293, MUST-56, forbids it
 *   time_wait_us=US        2 MSL; 60000000
 *   syn_give_up_us=US      180000000
 *   data_give_up_us=US     900000000
 *   start_us=US            what the clock shows at the start; 0
 *   prefix=1..32           the width of our network, whose broadcast addresses are then known; 32: it has none
 *   secret=TEXT            what initial sequence numbers, ports and timestamp offsets are made from (up to 32 bytes);
 *                          random by default; give a text to make runs repeat */
PNET_API struct pnet *pnet_open(const char *words, const char **why);
PNET_API void pnet_close(struct pnet *net);

/* One IPv4 packet of up to 65535 bytes (copied). -ENOBUFS when it could not be taken in, -EMSGSIZE. */
PNET_API int pnet_packet_in(struct pnet *net, const void *packet, size_t bytes);
/* The oldest packet sent: its bytes, 0 when there is none, -EMSGSIZE when `room` is less than the MTU. */
PNET_API int pnet_packet_out(struct pnet *net, void *packet, size_t room);

/* -EINVAL, and the clock stays, if it would run backwards (or past 2^53). */
PNET_API int pnet_set_time_us(struct pnet *net, uint64_t now_us);
PNET_API uint64_t pnet_time_us(const struct pnet *net);
/* When pnet_run_timers has something to do: at most pnet_time_us if now, UINT64_MAX if never. It stays "now" while
 * something waits for room in the queue of packets sent: take some out. */
PNET_API uint64_t pnet_next_timer_us(const struct pnet *net);
PNET_API void pnet_run_timers(struct pnet *net);

/* Sockets: small numbers from 0. */
enum { PNET_SOCKET_COUNT_MAX = 256 };

/* -EMFILE when all are in use. A stack has room for 192 connections, closed ones that are not over yet included, and 64
 * listeners; what does not fit is -ENOBUFS to the caller, RST to a peer. */
PNET_API int pnet_socket(struct pnet *net);
/* Address 0 or ours, else -EADDRNOTAVAIL; port 0: a free one from 32768 on. -EADDRINUSE as in Linux: another socket has the
 * port (unless both have SO_REUSEADDR and the other does not listen), or, without SO_REUSEADDR, a connection that outlived
 * its socket, up to the end of TIME-WAIT. -EINVAL: bound already, or connected. */
PNET_API int pnet_bind(struct pnet *net, int socket, uint32_t address, uint16_t port);
/* So many connections and one more wait for pnet_accept, as in Linux; with that many, SYNs are dropped. Called again it
 * changes that. Not bound: a port is chosen. -EINVAL: connected, or connecting. */
PNET_API int pnet_listen(struct pnet *net, int socket, int backlog);
/* The socket of the connection that has waited longest, or -EAGAIN. `address` and `port` (each may be NULL) get the peer's.
 * One that was reset while it waited is not seen; one whose peer has sent FIN is. */
PNET_API int pnet_accept(struct pnet *net, int socket, uint32_t *address, uint16_t *port);
/* -EINPROGRESS once the SYN is on its way. Then -EALREADY, until the outcome is told, once: 0, or what went wrong, as
 * SO_ERROR has it (-ECONNABORTED if SO_ERROR has been asked before), after which it can be called anew. Then -EISCONN.
 * -ENETUNREACH: no unicast address of another host (there is no way to oneself); -EINVAL: port 0; -EADDRNOTAVAIL: the
 * port bound has a connection to that peer, perhaps in TIME-WAIT. */
PNET_API int pnet_connect(struct pnet *net, int socket, uint32_t address, uint16_t port);

enum { PNET_PEEK = 2 };         /* MSG_PEEK */
/* Bytes, at most as many as there are; or 0 behind the peer's FIN, for ever, and for `bytes` 0. -EAGAIN: nothing yet, or
 * still connecting; -ENOTCONN: never connected, a listener; what ended it, once (-ECONNRESET, -ETIMEDOUT, -ECONNREFUSED,
 * -EHOSTUNREACH, -EPIPE), then 0. What had come is read first. */
PNET_API int64_t pnet_read(struct pnet *net, int socket, void *out, size_t bytes, int flags);
/* As many as there was room for; 0 for `bytes` 0 where more might be written. -EAGAIN: no room, or still connecting; what
 * ended it, once, then -EPIPE, as after our own shutdown and on what was never connected. No signal. */
PNET_API int64_t pnet_write(struct pnet *net, int socket, const void *data, size_t bytes);

enum { PNET_SHUT_RD, PNET_SHUT_WR, PNET_SHUT_RDWR };
/* PNET_SHUT_WR: FIN behind what was written; a second time: 0, nothing more. PNET_SHUT_RD sends nothing: pnet_read then
 * returns 0 instead of -EAGAIN, what still comes can be read; but once both are shut, text from the peer is answered with
 * RST, and the connection ends with -ECONNRESET. -ENOTCONN: not connected, or no longer. On a listener PNET_SHUT_RD ends
 * the listening; while connecting it gives up: the socket is as new, but for -ECONNRESET, told once. */
PNET_API int pnet_shutdown(struct pnet *net, int socket, int how);
/* Gives the number back. FIN after what was written, or RST if received bytes are unread or SO_LINGER is on with 0 s (a
 * longer one is as none: nothing blocks). The connection goes on without its socket as long as TCP asks. A listener: those
 * that wait for pnet_accept get RST. */
PNET_API int pnet_close_socket(struct pnet *net, int socket);
/* The same with RST, at once. */
PNET_API int pnet_abort(struct pnet *net, int socket);

/* Linux' poll bits: POLLIN 1, POLLOUT 4, POLLERR 8, POLLHUP 16, POLLRDHUP 0x2000; or -EBADF.
 *   POLLIN     bytes, the end or an error can be read, a connection accepted
 *   POLLOUT    there is room to write, or writing fails at once; not while connecting
 *   POLLRDHUP  the peer's FIN has come, or reading is shut
 *   POLLHUP    neither direction is open: both FINs, reset, failed; and a socket never connected
 *   POLLERR    SO_ERROR has something to tell */
PNET_API int pnet_poll(struct pnet *net, int socket);

/* Our address and port (0: none yet); the peer's, or -ENOTCONN before the SYN is answered and after the end. NULL: not
 * wanted. */
PNET_API int pnet_local(struct pnet *net, int socket, uint32_t *address, uint16_t *port);
PNET_API int pnet_peer(struct pnet *net, int socket, uint32_t *address, uint16_t *port);

/* Options by Linux' level and name, an int each; -ENOPROTOOPT for others, -EINVAL for a value out of Linux' bounds. Set on a
 * listener they hold for what it accepts later.
 *
 *   SOL_SOCKET 1   SO_REUSEADDR 2: see pnet_bind
 *                  SO_TYPE 3, SO_ACCEPTCONN 30: get
 *                  SO_ERROR 4: get; tells once what ended the connection, as a positive errno; or what ICMP said against one
 *                      that goes on, since data was last acknowledged
 *                  SO_SNDBUF 7, SO_RCVBUF 8: bytes of unacknowledged data, and of the window, not doubled as in Linux; at
 *                      most what sndbuf= and rcvbuf= have made room for. SO_RCVBUF before opening also chooses the window
 *                      scale, whatever the word says
 *                  SO_KEEPALIVE 9; SO_LINGER 13: see pnet_set_linger
 *   IPPROTO_IP 0   IP_TOS 1 (but the two bits of ECN), IP_TTL 2 (-1: ttl=), from the next packet on
 *                  IP_MTU_DISCOVER 10: IP_PMTUDISC_DONT 0; WANT 1 and DO 2 are one, path_mtu=on
 *   IPPROTO_TCP 6  TCP_NODELAY 1, TCP_CORK 3
 *                  TCP_MAXSEG 2: 0 or 88..32767; get: what is sent at most, options not counted
 *                  TCP_KEEPIDLE 4, TCP_KEEPINTVL 5 (seconds), TCP_KEEPCNT 6
 *                  TCP_SYNCNT 7: retransmissions of the SYN
 *                  TCP_LINGER2 8: seconds in FIN-WAIT-2 once closed
 *                  TCP_QUICKACK 12: 1 is ack=quick, 0 ack=delayed, for good
 *                  TCP_USER_TIMEOUT 18: milliseconds that data may wait, for their acknowledgement or for a closed window,
 *                      and that keepalive does; 0: data_give_up_us=, which a window whose probes are answered does not end */
PNET_API int pnet_set_option(struct pnet *net, int socket, int level, int name, int value);
PNET_API int pnet_get_option(struct pnet *net, int socket, int level, int name, int *value);
PNET_API int pnet_set_linger(struct pnet *net, int socket, int on, int seconds);

/* Linux' ioctl requests. FIONREAD: bytes that can be read now; SIOCOUTQ: bytes (and FIN) not acknowledged, SIOCOUTQNSD: of
 * these not sent. -EINVAL for a listener, -ENOTTY for another request. */
enum { PNET_FIONREAD = 0x541b, PNET_SIOCOUTQ = 0x5411, PNET_SIOCOUTQNSD = 0x894b };
PNET_API int pnet_ioctl(struct pnet *net, int socket, unsigned long request, int *value);

/* TCP_INFO's main fields, under Linux' names and in Linux' units (microseconds, segments; sizes in bytes). */
struct pnet_tcp_info {
    uint8_t tcpi_state;                     /* ESTABLISHED 1, SYN_SENT 2, SYN_RECV 3, FIN_WAIT1 4, FIN_WAIT2 5,
                                               TIME_WAIT 6 (Linux tells CLOSE then), CLOSE 7, CLOSE_WAIT 8, LAST_ACK 9, LISTEN 10, CLOSING 11 */
    uint8_t tcpi_ca_state;                  /* Open 0, Disorder 1, Recovery 3, Loss 4 */
    uint8_t tcpi_retransmits;               /* of the oldest segment, in a row */
    uint8_t tcpi_options;                   /* timestamps 1, SACK 2, window scaling 4 */
    uint8_t tcpi_snd_wscale, tcpi_rcv_wscale;
    uint32_t tcpi_rto, tcpi_rtt, tcpi_rttvar, tcpi_min_rtt;
    uint32_t tcpi_snd_mss, tcpi_rcv_mss, tcpi_pmtu;
    uint32_t tcpi_snd_cwnd, tcpi_snd_ssthresh;      /* segments; ssthresh 0x7fffffff: not set yet */
    uint32_t tcpi_unacked, tcpi_sacked, tcpi_lost;  /* segments (sacked and lost: bytes over MSS, rounded up) */
    uint32_t tcpi_total_retrans;
    uint32_t tcpi_notsent_bytes, tcpi_unread_bytes; /* the latter is ours */
    uint32_t tcpi_snd_wnd, tcpi_rcv_wnd;
    uint64_t tcpi_bytes_acked, tcpi_bytes_received;
    uint32_t tcpi_retrans;                  /* segments in flight again */
    uint32_t tcpi_reordering;               /* segments by which one has come late; 3 to begin with */
    uint32_t tcpi_advmss;                   /* what our SYN offers */
    uint32_t tcpi_backoff, tcpi_probes;     /* timeouts in a row; window probes unanswered */
    uint64_t tcpi_rwnd_limited;             /* so long the peer's window alone kept data back */
};
PNET_API int pnet_tcp_info(struct pnet *net, int socket, struct pnet_tcp_info *info);

/* The stack's counters: name and value of number `index` from 0; -ENOENT past the last. */
PNET_API int pnet_counter(struct pnet *net, size_t index, const char **name, uint64_t *value);

#ifdef __cplusplus
}
#endif
