/* libperegrine-net.so: our TCP/IP stack as a library, for programs that test the stack or use it in user space.
 *
 * The caller gives and takes IP packets, and sets the clock. Nothing blocks; the library has no file and no thread.
 * Several stacks live side by side. Not thread-safe: one thread at a time for each stack.
 *
 *     const char *why;
 *     struct pnet *net = pnet_open("address=192.168.0.1 rto_min_us=200000 sack=on", &why);
 *     pnet_set_time_us(net, now);                  -- forwards only
 *     pnet_packet_in(net, packet, bytes);          -- replies that are due at once are in the queue afterwards
 *     while ((bytes = pnet_packet_out(net, packet, sizeof packet)) > 0) ...;
 *     if (pnet_next_timer_us(net) <= now) pnet_run_timers(net);
 *
 * Addresses and ports are host order (192.168.0.1 is 0xc0a80001). Calls return 0 or a count, or a negative errno of
 * Linux, with Linux' meaning for a non-blocking socket. Each call also returns -EINVAL without a stack, -EBADF for a
 * number without a socket, and -EFAULT for a NULL that is not allowed. A stack sends only in pnet_packet_in, in
 * pnet_run_timers and in the socket calls. Packets sent wait for pnet_packet_out; beyond 1024, packets are lost. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PNET_API __attribute__((visibility("default")))

struct pnet;

/* Makes a stack; NULL: an error. `words` are `key=value`, separated by blanks. *why (if given) then points at a message
 * that quotes an unknown or bad word. The message is valid until the next pnet_open. A default stands after the last
 * `;`.
 *
 *   address=A.B.C.D        our address; required. Every peer is reached directly, without ARP.
 *   mtu=BYTES              576..65535; 1500
 *   ack=quick              acknowledges every batch at once (default)
 *   ack=delayed            as RFC 9293 §3.8.6.3; also a FIN after text
 *   ack=adaptive           as Linux: quick for 16 ACKs and after a repetition, then delayed. Delayed at once if the
 *                          application answers within ack_delay_us (until one ACK waits in vain), or after a FIN.
 *   ack_delay_us=US        for ack=delayed and adaptive; 40000
 *   rto_initial_us=US      RFC 6298 (2.1); 1000000
 *   rto_min_us=US          200000; above SRTT as in Linux, up to 200 ms of it: RTO = SRTT + max(4 RTTVAR, minimum)
 *   rto_max_us=US          120000000
 *   initial_window=N       segments; 10
 *   slow_start_ack_segments=N  RFC 3465's L: most growth for one ACK; 0: all bytes acknowledged, as Linux (default)
 *   congestion=cubic|newreno
 *   rcvbuf=BYTES           1..16777216; 65535
 *   sndbuf=BYTES           1..16777216; 65536
 *   wscale=auto|off|0..14  the shift we announce; auto: the least that can name rcvbuf; off: the option is not used
 *   mss=BYTES              largest segment announced and sent; 0: derived from the MTU
 *   ttl=1..255             in the packets of connections; 64
 *   tos=0..255             in the packets of connections; 0
 *   ecn=on|off(default)    offer and accept RFC 3168; Linux by default only accepts it
 *   slow_start_after_idle=on|off  RFC 5681 §4.1
 *   timestamps=on|off  sack=on|off  nodelay=on|off(default)  path_mtu=on|off  keepalive=on|off(default)
 *   syn_soft_errors=on|off(default)  on: ICMP host or network unreachable, time exceeded and the like end a connection
 *                          that is opening, as in Linux; RFC 9293 MUST-56 forbids it
 *   time_wait_us=US        2 MSL; 60000000
 *   syn_give_up_us=US      180000000
 *   data_give_up_us=US     900000000
 *   start_us=US            the clock at the start; 0
 *   prefix=1..32           the width of our network, which sets its broadcast addresses; 32: it has none
 *   secret=TEXT            up to 32 bytes, from which initial sequence numbers, ports and timestamp offsets are drawn;
 *                          random by default; a fixed text makes runs repeat */
PNET_API struct pnet *pnet_open(const char *words, const char **why);
PNET_API void pnet_close(struct pnet *net);

/* Gives the stack one IPv4 packet of up to 65535 bytes (copied). -ENOBUFS: no room; -EMSGSIZE: too long. */
PNET_API int pnet_packet_in(struct pnet *net, const void *packet, size_t bytes);
/* Takes the oldest packet sent and returns its length; 0: there is none. -EMSGSIZE: `room` is less than the MTU. */
PNET_API int pnet_packet_out(struct pnet *net, void *packet, size_t room);

/* Sets the clock. -EINVAL if the clock would run backwards or past 2^53; the clock then keeps its time. */
PNET_API int pnet_set_time_us(struct pnet *net, uint64_t now_us);
PNET_API uint64_t pnet_time_us(const struct pnet *net);
/* Returns the time at which pnet_run_timers has work: at most pnet_time_us if now, UINT64_MAX if never. The time stays
 * "now" as long as a packet waits for room in the queue of packets sent: take some out. */
PNET_API uint64_t pnet_next_timer_us(const struct pnet *net);
PNET_API void pnet_run_timers(struct pnet *net);

/* Sockets: small numbers from 0. */
enum { PNET_SOCKET_COUNT_MAX = 256 };

/* Makes a socket and returns its number; -EMFILE: all are in use. A stack has room for 192 connections (with those that
 * are closed and not yet over) and 64 listeners. Beyond that a call returns -ENOBUFS, and a peer gets RST. */
PNET_API int pnet_socket(struct pnet *net);
/* Binds a socket to a port; port 0: a free port from 32768 on. -EADDRNOTAVAIL: the address is neither 0 nor ours.
 * -EADDRINUSE, as in Linux: another socket has the port, unless both have SO_REUSEADDR and the other does not listen.
 * Without SO_REUSEADDR a connection that outlived its socket excludes others too, up to the end of TIME-WAIT.
 * -EINVAL: bound already, or connected. */
PNET_API int pnet_bind(struct pnet *net, int socket, uint32_t address, uint16_t port);
/* Listens for connections. As in Linux, `backlog` connections and one more may wait for pnet_accept; then SYNs are
 * dropped. A second call changes the backlog. A socket that is not bound gets a free port. -EINVAL: connected, or
 * connecting. */
PNET_API int pnet_listen(struct pnet *net, int socket, int backlog);
/* Accepts the connection that has waited longest and returns its socket, or -EAGAIN. `address` and `port` (each may be
 * NULL) get the peer's. A connection that was reset as it waited is not reported; one with the peer's FIN is. */
PNET_API int pnet_accept(struct pnet *net, int socket, uint32_t *address, uint16_t *port);
/* Connects to a peer. Returns -EINPROGRESS after the SYN has been sent, then -EALREADY. Reports the outcome once: 0, or
 * the error as in SO_ERROR (-ECONNABORTED if SO_ERROR has been read before). After success further calls return
 * -EISCONN; after an error the next call tries again. -ENETUNREACH: not a unicast address of another host (a stack has
 * no route to itself). -EINVAL: port 0. -EADDRNOTAVAIL: the bound port has a connection to that peer, perhaps in
 * TIME-WAIT. */
PNET_API int pnet_connect(struct pnet *net, int socket, uint32_t address, uint16_t port);

enum { PNET_PEEK = 2 }; /* MSG_PEEK */
/* Reads and returns the count of bytes; 0: after the peer's FIN, or `bytes` was 0. -EAGAIN: nothing yet, or still
 * connecting. -ENOTCONN: never connected, or a listener. After a connection's end: first the bytes received before,
 * then the error once (-ECONNRESET, -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH, -EPIPE), then 0. */
PNET_API int64_t pnet_read(struct pnet *net, int socket, void *out, size_t bytes, int flags);
/* Writes as many bytes as there is room for, and returns their count. -EAGAIN: no room, or still connecting. After a
 * connection's end: the error once, then -EPIPE. -EPIPE also after our own shutdown and if never connected. No
 * signal. */
PNET_API int64_t pnet_write(struct pnet *net, int socket, const void *data, size_t bytes);

enum { PNET_SHUT_RD, PNET_SHUT_WR, PNET_SHUT_RDWR };
/* Shuts one direction or both. -ENOTCONN: not connected, or no longer. PNET_SHUT_WR sends FIN after the bytes written;
 * a second call does nothing. PNET_SHUT_RD sends nothing: pnet_read then returns 0 instead of -EAGAIN, and bytes that
 * still come can be read. If both are shut, the peer's text is answered with RST, and the connection ends with
 * -ECONNRESET. On a listener PNET_SHUT_RD ends the listening. A connection attempt is given up: the socket is as new,
 * except that it reports -ECONNRESET once. */
PNET_API int pnet_shutdown(struct pnet *net, int socket, int how);
/* Closes a socket and frees its number. Sends FIN after the bytes written, or RST if received bytes are unread or
 * SO_LINGER is on with 0 s. (A longer linger time has no effect: nothing blocks.) The connection goes on without its
 * socket as long as TCP needs. Connections that wait in a listener for pnet_accept get RST. */
PNET_API int pnet_close_socket(struct pnet *net, int socket);
/* Closes a socket with RST, at once. */
PNET_API int pnet_abort(struct pnet *net, int socket);

/* Returns Linux' poll bits: POLLIN 1, POLLOUT 4, POLLERR 8, POLLHUP 16, POLLRDHUP 0x2000.
 *   POLLIN     bytes, the end or an error can be read, a connection accepted
 *   POLLOUT    there is room to write, or writing fails at once; not while connecting
 *   POLLRDHUP  the peer's FIN has come, or reading is shut
 *   POLLHUP    neither direction is open: both FINs, reset, failed; and a socket never connected
 *   POLLERR    SO_ERROR has an error */
PNET_API int pnet_poll(struct pnet *net, int socket);

/* Returns our address and port (0: none yet). NULL: not wanted. */
PNET_API int pnet_local(struct pnet *net, int socket, uint32_t *address, uint16_t *port);
/* Returns the peer's address and port; -ENOTCONN: the SYN is not answered yet, or the connection is over. */
PNET_API int pnet_peer(struct pnet *net, int socket, uint32_t *address, uint16_t *port);

/* Sets an option by Linux' level and name, an int each. -ENOPROTOOPT: another option; -EINVAL: a value out of Linux'
 * bounds. Options of a listener hold for connections that it accepts later.
 *
 *   SOL_SOCKET 1   SO_REUSEADDR 2: see pnet_bind
 *                  SO_TYPE 3, SO_ACCEPTCONN 30: get
 *                  SO_ERROR 4: get; reports once the error that ended the connection, as a positive errno.
 *                      Also reports an ICMP error against a live connection, until data is acknowledged.
 *                  SO_SNDBUF 7, SO_RCVBUF 8: bytes of unacknowledged data, and of the window; not doubled as in Linux.
 *                      Both are bounded by the room that sndbuf= and rcvbuf= have made.
 *                      SO_RCVBUF before opening also chooses the window scale, and overrides the word wscale=.
 *                  SO_KEEPALIVE 9; SO_LINGER 13: see pnet_set_linger
 *   IPPROTO_IP 0   IP_TOS 1 (except the two bits of ECN), IP_TTL 2 (-1: ttl=), from the next packet on
 *                  IP_MTU_DISCOVER 10: IP_PMTUDISC_DONT 0; WANT 1 and DO 2 both mean path_mtu=on.
 *   IPPROTO_TCP 6  TCP_NODELAY 1, TCP_CORK 3.
 *                  TCP_MAXSEG 2: 0 or 88..32767; get: the longest segment sent, without options.
 *                  TCP_KEEPIDLE 4, TCP_KEEPINTVL 5 (seconds), TCP_KEEPCNT 6.
 *                  TCP_SYNCNT 7: retransmissions of the SYN.
 *                  TCP_LINGER2 8: seconds in FIN-WAIT-2 once closed.
 *                  TCP_QUICKACK 12: 1 is ack=quick, 0 ack=delayed, for good.
 *                  TCP_USER_TIMEOUT 18: milliseconds that data may wait for an acknowledgement or for a closed window.
 *                      Holds for keepalive too. 0: data_give_up_us=, and answered window probes wait without end. */
PNET_API int pnet_set_option(struct pnet *net, int socket, int level, int name, int value);
PNET_API int pnet_get_option(struct pnet *net, int socket, int level, int name, int *value);
PNET_API int pnet_set_linger(struct pnet *net, int socket, int on, int seconds);

/* Linux' ioctl requests. FIONREAD: bytes that can be read now. SIOCOUTQ: bytes (and FIN) not acknowledged. SIOCOUTQNSD:
 * bytes not sent. -EINVAL: a listener; -ENOTTY: another request. */
enum { PNET_FIONREAD = 0x541b, PNET_SIOCOUTQ = 0x5411, PNET_SIOCOUTQNSD = 0x894b };
PNET_API int pnet_ioctl(struct pnet *net, int socket, unsigned long request, int *value);

/* TCP_INFO's main fields, under Linux' names and in Linux' units (microseconds, segments; sizes in bytes). */
struct pnet_tcp_info {
    /* ESTABLISHED 1, SYN_SENT 2, SYN_RECV 3, FIN_WAIT1 4, FIN_WAIT2 5, TIME_WAIT 6 (Linux reports CLOSE), CLOSE 7,
     * CLOSE_WAIT 8, LAST_ACK 9, LISTEN 10, CLOSING 11 */
    uint8_t tcpi_state;
    uint8_t tcpi_ca_state;    /* Open 0, Disorder 1, Recovery 3, Loss 4 */
    uint8_t tcpi_retransmits; /* retransmissions of the oldest segment, in a row */
    uint8_t tcpi_options;     /* timestamps 1, SACK 2, scaling 4, ECN 8, ECN mark seen 16 */
    uint8_t tcpi_snd_wscale, tcpi_rcv_wscale;
    uint32_t tcpi_rto, tcpi_rtt, tcpi_rttvar, tcpi_min_rtt;
    uint32_t tcpi_snd_mss, tcpi_rcv_mss, tcpi_pmtu;
    uint32_t tcpi_snd_cwnd, tcpi_snd_ssthresh;     /* segments; ssthresh 0x7fffffff: not set yet */
    uint32_t tcpi_unacked, tcpi_sacked, tcpi_lost; /* segments (sacked and lost: bytes over MSS, rounded up) */
    uint32_t tcpi_total_retrans;
    uint32_t tcpi_notsent_bytes, tcpi_unread_bytes; /* Linux has no tcpi_unread_bytes */
    uint32_t tcpi_snd_wnd, tcpi_rcv_wnd;
    uint64_t tcpi_bytes_acked, tcpi_bytes_received;
    uint32_t tcpi_retrans;              /* segments in flight again */
    uint32_t tcpi_reordering;           /* segments by which one has come late; 3 at first */
    uint32_t tcpi_advmss;               /* the MSS that our SYN offers */
    uint32_t tcpi_backoff, tcpi_probes; /* timeouts in a row; window probes unanswered */
    uint64_t tcpi_rwnd_limited;         /* time for which the peer's window alone kept data back */
    uint64_t tcpi_busy_time;            /* time for which data was written and not yet acknowledged */
    uint32_t tcpi_reord_seen;           /* segments that have come late */
    uint32_t tcpi_last_data_recv;       /* ms since payload last came */
};
PNET_API int pnet_tcp_info(struct pnet *net, int socket, struct pnet_tcp_info *info);

/* Returns the name and value of the stack's counter number `index`, from 0; -ENOENT: past the last. */
PNET_API int pnet_counter(struct pnet *net, size_t index, const char **name, uint64_t *value);

#ifdef __cplusplus
}
#endif
