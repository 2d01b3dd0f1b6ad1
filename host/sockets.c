/* net/transport.h over non-blocking Linux sockets. Knows no matcher and no HTTP; the kernel does the TCP.
 *
 * A connection's events come in the order in which Linux reports them. The connections take turns, so that none starves
 * another. */
#define _GNU_SOURCE
#include "net/transport_path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "base/trace.h"
#include "host/sockets.h"

enum {
    EPOLL_EVENTS_MAX = 64,
    /* Datagrams and new connections are asked for at every 16th poll and after a wait: no stream is so busy that GG
     * waits. After a datagram, more are asked for at each poll for about a second: a market's feed is not kept
     * waiting. Streams and datagrams then take turns. */
    UDP_EVERY_POLLS = 16,
    UDP_EAGER_POLLS = 1 << 20,
    UDP_BATCH = 16,    /* datagrams of a call */
    BUSY_POLL_US = 50, /* more than 0: a call that does not wait polls once */
};

enum connection_state {
    FREE,
    CONNECTING,
    OPEN,
    ENDED,   /* the peer's FIN came and was reported */
    CLOSING, /* we send FIN and wait for the peer's */
    OVER,    /* TRANSPORT_CLOSED is to be reported, with `reason` */
};

struct connection {
    enum connection_state state;
    enum transport_reason reason;
    int fd;
    bool quick_ack_due;
    bool fin_sent; /* while CLOSING: nothing of a message was left in front of it */
    bool accepted; /* TRANSPORT_ACCEPTED is to be reported */
    bool held;     /* transport_hold */
    bool quiet;    /* with an epoll: nothing has happened since it was last asked */
    uint16_t port;
    uint32_t address;
    uint16_t peer_port;
    uint32_t unacked_bytes;               /* once OVER */
    uint32_t pending_from, pending_bytes; /* the rest of a message of which the kernel took a part */
    uint8_t pending[TRANSPORT_MESSAGE_BYTES_MAX];
    uint8_t message[TRANSPORT_MESSAGE_BYTES_MAX];
};

static struct {
    struct connection connections[TRANSPORT_CONNECTION_COUNT_LIMIT];
    int connection_count;
    int epoll;           /* -1: with few connections each one is asked. Edge-triggered */
    int cursor;          /* the connection to ask first */
    int reported_closed; /* the connection whose TRANSPORT_CLOSED is the latest event; -1: none */
    int listeners[TRANSPORT_LISTENER_COUNT_MAX], listener_count;
    uint16_t listener_ports[TRANSPORT_LISTENER_COUNT_MAX];
    int udp[TRANSPORT_UDP_PORT_COUNT_MAX], udp_count;
    uint16_t udp_ports[TRANSPORT_UDP_PORT_COUNT_MAX];
    int udp_cursor; /* the UDP socket to ask first */
    unsigned polls;
    uint32_t groups[TRANSPORT_GROUP_COUNT_MAX];
    int group_count;
    unsigned udp_eager; /* polls that ask for datagrams, whatever their number */
    bool streams_first; /* a batch of datagrams has come, and it is the streams' turn */
    struct transport_network network;
    uint8_t rx[TRANSPORT_DATA_BYTES_MAX];
} sockets;
/* The latest batch of a UDP socket, of which `next` have been reported. */
static struct {
    int next, count;
    uint16_t port;
    struct mmsghdr messages[UDP_BATCH];
    struct datagram {
        struct iovec data;
        struct sockaddr_in from;
        _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in_pktinfo))];
        uint8_t bytes[TRANSPORT_DATAGRAM_BYTES_MAX];
    } datagrams[UDP_BATCH];
} batch;
static bool only_note_ports, spins;

#define SOCKETS_COUNTERS(X)                                                                                            \
    X(COUNT, rx_bytes), X(COUNT, rx_calls), X(COUNT, rx_empty), X(COUNT, tx_bytes), X(COUNT, tx_calls),                \
        X(COUNT, tx_refused), X(COUNT, tx_parts), X(COUNT, waits), X(COUNT, udp_in), X(COUNT, udp_out),                \
        X(DROP_FRAME, udp_drop_length)
static struct {
    uint64_t SOCKETS_COUNTERS(COUNTER_MEMBER);
} counters;
static const struct counter_group counter_group = COUNTER_GROUP("sockets.", "Linux sockets", SOCKETS_COUNTERS,
                                                                counters);

void sockets_only_note_ports(void) { only_note_ports = true; }
void sockets_spin(void) { spins = true; }

void sockets_print_ports(void)
{
    ASSERT(only_note_ports);
    for (int i = 0; i < sockets.listener_count; i++)
        printf("tcp %u\n", sockets.listener_ports[i]);
    for (int i = 0; i < sockets.udp_count; i++)
        printf("udp %u\n", sockets.udp_ports[i]);
}

/* Notes a port. Returns false if the port has been noted before. */
static bool note_port(uint16_t *ports, int *count, uint16_t port)
{
    for (int i = 0; i < *count; i++)
        if (ports[i] == port)
            return false;
    ports[(*count)++] = port;
    return true;
}

/* Makes the first messages of the batch ready for a call. */
static void batch_prepare(int count)
{
    ASSERT(count >= 0 && count <= UDP_BATCH);
    for (int i = 0; i < count; i++) {
        struct datagram *d = &batch.datagrams[i];
        d->data = (struct iovec){ d->bytes, sizeof d->bytes };
        batch.messages[i].msg_hdr = (struct msghdr){ .msg_name = &d->from,
                                                     .msg_namelen = sizeof d->from,
                                                     .msg_iov = &d->data,
                                                     .msg_iovlen = 1,
                                                     .msg_control = d->control,
                                                     .msg_controllen = sizeof d->control };
    }
}

bool transport_init(const struct transport_config *config, uint64_t now_ns)
{
    ASSERT(config->mtu_bytes == 0 || config->mtu_bytes >= 576);
    (void)now_ns;
    memset(&sockets, 0, sizeof sockets);
    memset(&counters, 0, sizeof counters);
    memset(&batch, 0, sizeof batch);
    batch_prepare(UDP_BATCH);
    sockets.reported_closed = -1;
    sockets.connection_count = config->connection_count ? (int)config->connection_count
                                                        : TRANSPORT_CONNECTION_COUNT_MAX;
    ASSERT(sockets.connection_count <= TRANSPORT_CONNECTION_COUNT_LIMIT);
    bool many = sockets.connection_count > TRANSPORT_CONNECTION_COUNT_MAX;
    sockets.epoll = many ? epoll_create1(EPOLL_CLOEXEC) : -1;
    ASSERT(!many || sockets.epoll >= 0);
    sockets.network = (struct transport_network){ .up = true, .mtu_bytes = 1500, .waiting_for = "nothing" };
    static const uint8_t any[NETDEV_MAC_BYTES];
    if (config->address || memcmp(config->nic_mac, any, sizeof any) != 0)
        log_line("sockets: ip=, gw=, gwmac=, nic=, mtu= and rto.min= are Linux's to decide here, and are not used");
    return true;
}

const struct transport_network *transport_network(void) { return &sockets.network; }
const char *transport_name(void) { return "linux"; }
uint64_t transport_next_deadline_ns(void) { return UINT64_MAX; }

bool transport_counter_group(size_t index, struct counter_group *group)
{
    *group = counter_group;
    return index == 0;
}

/* ---- connections ---- */

static struct connection *connection_at(int id)
{
    ASSERT(id >= 0 && id < sockets.connection_count);
    return &sockets.connections[id];
}

static struct sockaddr_in wire_address(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address) };
}

static enum transport_reason reason_of(int error, enum connection_state state)
{
    switch (error) {
    case ECONNREFUSED:
        return TRANSPORT_REFUSED;
    case ECONNRESET:
        return state == CONNECTING ? TRANSPORT_REFUSED : TRANSPORT_RESET;
    case EPIPE:
        return TRANSPORT_RESET;
    case ETIMEDOUT:
        return TRANSPORT_TIMED_OUT;
    default:
        return TRANSPORT_UNREACHABLE;
    }
}

/* Returns the bytes that the peer has not acknowledged: SIOCOUTQ, and those that the kernel has not taken. Linux
 * keeps the count through a reset for as long as the socket is open. */
static uint32_t unacked_bytes(const struct connection *c)
{
    int queued = 0;
    if (ioctl(c->fd, SIOCOUTQ, &queued) != 0)
        queued = 0;
    return (uint32_t)queued + c->pending_bytes;
}

static void over(struct connection *c, enum transport_reason reason)
{
    ASSERT(c->fd >= 0);
    c->unacked_bytes = unacked_bytes(c);
    close(c->fd);
    c->fd = -1;
    c->state = OVER;
    c->reason = reason;
}

/* Has Linux poll the device when a socket has nothing, and not wait for its interrupt: socket(7). Linux refuses it to
 * a program without CAP_NET_ADMIN. */
static void busy_poll(int fd)
{
    const int us = BUSY_POLL_US, on = 1;
    ASSERT(fd >= 0);
    if (spins && setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof us) == 0)
        setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof on);
}

/* Takes a free id for a socket and returns it; -1: none. The caller sets the state. */
static int take_id(int fd)
{
    ASSERT(fd >= 0);
    for (int id = 0; id < sockets.connection_count; id++) {
        struct connection *c = connection_at(id);
        if (c->state != FREE || id == sockets.reported_closed)
            continue;
        struct epoll_event wish = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u32 = (uint32_t)id };
        if (sockets.epoll >= 0 && epoll_ctl(sockets.epoll, EPOLL_CTL_ADD, fd, &wish) != 0)
            return -1;
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        busy_poll(fd);
        memset(c, 0, offsetof(struct connection, pending));
        c->fd = fd;
        return id;
    }
    return -1;
}

int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns)
{
    ASSERT(address != 0 && port != 0);
    (void)now_ns;
    int fd = only_note_ports ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int id = take_id(fd);
    if (id < 0) {
        close(fd);
        return -1;
    }
    struct connection *c = connection_at(id);
    struct sockaddr_in to = wire_address(address, port);
    c->state = CONNECTING;
    c->address = address;
    c->peer_port = port;
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        over(c, reason_of(errno, CONNECTING));
    return id;
}

bool transport_listen(uint16_t port)
{
    ASSERT(sockets.listener_count <= TRANSPORT_LISTENER_COUNT_MAX);
    if (sockets.listener_count == TRANSPORT_LISTENER_COUNT_MAX)
        return false;
    if (only_note_ports)
        return note_port(sockets.listener_ports, &sockets.listener_count, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in at = wire_address(INADDR_ANY, port);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, SOMAXCONN) != 0) {
        log_line("sockets: TCP port %u: %s", port, strerror(errno));
        close(fd);
        return false;
    }
    sockets.listener_ports[sockets.listener_count] = port;
    sockets.listeners[sockets.listener_count++] = fd;
    return true;
}

uint8_t *transport_message(int id)
{
    struct connection *c = connection_at(id);
    return c->state == OPEN || c->state == ENDED ? c->message : NULL;
}

/* Gives the kernel the rest of a message. False while some of it is left. */
static bool flush(struct connection *c)
{
    ASSERT(c->pending_from + c->pending_bytes <= sizeof c->pending);
    while (c->pending_bytes > 0) {
        ssize_t sent = send(c->fd, c->pending + c->pending_from, c->pending_bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        c->pending_from += (uint32_t)sent;
        c->pending_bytes -= (uint32_t)sent;
    }
    return true;
}

bool transport_send(int id, uint32_t from, uint32_t bytes, uint64_t now_ns)
{
    (void)now_ns;
    struct connection *c = connection_at(id);
    ASSERT(from + bytes <= TRANSPORT_MESSAGE_BYTES_MAX);
    if ((c->state != OPEN && c->state != ENDED) || !flush(c))
        return false;
    counters.tx_calls++;
    trace_stamp_fine(TRACE_PUBLISHED);
    ssize_t sent = send(c->fd, c->message + from, bytes, MSG_NOSIGNAL);
    trace_stamp(TRACE_KICKED);
    if (sent <= 0) {
        counters.tx_refused++; /* a lost connection shows at the next poll */
        return false;
    }
    counters.tx_bytes += bytes;
    if ((uint32_t)sent < bytes) {
        counters.tx_parts++;
        c->pending_from = 0;
        c->pending_bytes = bytes - (uint32_t)sent;
        memcpy(c->pending, c->message + from + sent, c->pending_bytes);
    }
    return true;
}

void transport_hold(int id, bool held)
{
    struct connection *c = connection_at(id);
    ASSERT(c->state != FREE);
    c->held = held;
    c->quiet = false;
}

uint32_t transport_unacked_bytes(int id)
{
    const struct connection *c = connection_at(id);
    ASSERT(c->state != FREE || id == sockets.reported_closed);
    return c->fd >= 0 ? unacked_bytes(c) : c->unacked_bytes;
}

/* Sends FIN, once the kernel has all that transport_send took. */
static void fin_send(struct connection *c)
{
    if (!c->fin_sent && flush(c)) {
        shutdown(c->fd, SHUT_WR);
        c->fin_sent = true;
    }
}

void transport_close(int id, uint64_t now_ns)
{
    (void)now_ns;
    struct connection *c = connection_at(id);
    switch (c->state) {
    case CONNECTING:
        over(c, TRANSPORT_ABORTED);
        break;
    case OPEN:
    case ENDED:
        fin_send(c);
        if (c->state == ENDED && c->fin_sent) {
            over(c, TRANSPORT_DONE); /* the kernel sends the rest */
            break;
        }
        c->state = CLOSING;
        break;
    case FREE:
    case CLOSING:
    case OVER:
        break;
    }
}

void transport_abort(int id, uint64_t now_ns)
{
    (void)now_ns;
    struct connection *c = connection_at(id);
    ASSERT(c->state != FREE);
    if (c->state == OVER)
        return;
    struct linger linger = { .l_onoff = 1, .l_linger = 0 }; /* RST in place of FIN: socket(7) */
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    over(c, TRANSPORT_ABORTED);
}

/* ---- events ---- */

static bool report(struct transport_event *event, enum transport_event_kind kind, int id)
{
    const struct connection *c = connection_at(id);
    ASSERT(kind != TRANSPORT_NONE && c->state != FREE);
    event->kind = kind;
    event->connection = id;
    event->address = c->address;
    event->peer_port = c->peer_port;
    event->port = c->port;
    return true;
}

static int socket_error(int fd)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    return error;
}

static bool poll_connecting(struct connection *c, int id, struct transport_event *event)
{
    ASSERT(c->state == CONNECTING && c->fd >= 0);
    struct pollfd ready = { .fd = c->fd, .events = POLLOUT };
    if (poll(&ready, 1, 0) <= 0)
        return false;
    int error = socket_error(c->fd);
    if (error) {
        over(c, reason_of(error, CONNECTING));
        return false; /* reported as OVER, in a moment */
    }
    struct sockaddr_in own = { 0 };
    socklen_t bytes = sizeof own;
    getsockname(c->fd, (struct sockaddr *)&own, &bytes);
    c->port = ntohs(own.sin_port);
    sockets.network.address = ntohl(own.sin_addr.s_addr);
    c->state = OPEN;
    return report(event, TRANSPORT_CONNECTED, id);
}

static bool poll_open(struct connection *c, int id, struct transport_event *event)
{
    ASSERT(c->state == OPEN || c->state == CLOSING);
    if (c->state == CLOSING)
        fin_send(c);
    else if (c->pending_bytes)
        flush(c);
    ssize_t got = recv(c->fd, sockets.rx, sizeof sockets.rx, 0);
    counters.rx_calls++;
    if (got > 0) {
        trace_stamp(TRACE_FRAME_SEEN);
        counters.rx_bytes += (uint64_t)got;
        c->quick_ack_due = sockets.epoll < 0; /* a server's response acknowledges */
        event->payload.data = sockets.rx;
        event->payload.count = (uint32_t)got;
        return report(event, TRANSPORT_DATA, id);
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        counters.rx_empty++;
        return false;
    }
    if (got < 0) {
        over(c, reason_of(errno, c->state));
        return false;
    }
    if (c->state == CLOSING) {
        if (c->fin_sent)
            over(c, TRANSPORT_DONE);
        return false;
    }
    c->state = ENDED;
    return report(event, TRANSPORT_ENDED, id);
}

/* Looks at a connection that is held. The kernel keeps its data, and reports an end in order after them. */
static void poll_held(struct connection *c)
{
    struct pollfd ended = { .fd = c->fd };
    ASSERT(c->held && c->fd >= 0);
    if (c->state == CLOSING)
        fin_send(c);
    else
        flush(c);
    int error = poll(&ended, 1, 0) > 0 ? socket_error(c->fd) : 0;
    if (error != 0)
        over(c, reason_of(error, c->state));
}

static bool poll_connection(int id, struct transport_event *event)
{
    struct connection *c = connection_at(id);
    ASSERT(c->state != FREE);
    bool reported = false;
    if (c->accepted) {
        c->accepted = false;
        return report(event, TRANSPORT_ACCEPTED, id);
    }
    if (c->state == CONNECTING) {
        reported = poll_connecting(c, id, event);
    } else if (c->held && c->state != OVER) {
        poll_held(c);
    } else if (c->state == OPEN || c->state == CLOSING) {
        reported = poll_open(c, id, event);
    } else if (c->state == ENDED) {
        int error = socket_error(c->fd);
        flush(c);
        if (error)
            over(c, reason_of(error, c->state));
    }
    if (reported || c->state != OVER)
        return reported;
    event->reason = c->reason;
    report(event, TRANSPORT_CLOSED, id);
    c->state = FREE;
    sockets.reported_closed = id;
    return true;
}

/* Reads a batch of datagrams with the addresses of both ends. Returns false if there is none. */
static bool batch_read(int fd, uint16_t port)
{
    ASSERT(batch.next == batch.count);
    batch_prepare(batch.count);
    const int count = recvmmsg(fd, batch.messages, UDP_BATCH, 0, NULL);
    batch.next = 0;
    batch.count = count > 0 ? count : 0;
    batch.port = port;
    return count > 0;
}

/* Reports the next datagram of the batch. Returns false if none is left. One that is longer than a frame's is dropped,
 * as our own stack drops it. */
static bool batch_report(struct transport_event *event)
{
    ASSERT(batch.next <= batch.count);
    while (batch.next < batch.count) {
        const struct datagram *d = &batch.datagrams[batch.next];
        struct mmsghdr *message = &batch.messages[batch.next++];
        if (message->msg_hdr.msg_flags & MSG_TRUNC) {
            counters.udp_drop_length++;
            continue;
        }
        const struct cmsghdr *head = CMSG_FIRSTHDR(&message->msg_hdr);
        ASSERT(head != NULL && head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_PKTINFO);
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(head), sizeof info);
        counters.udp_in++;
        *event = (struct transport_event){
            .kind = TRANSPORT_DATAGRAM,
            .to_address = ntohl(info.ipi_addr.s_addr),
            .payload = { d->bytes, message->msg_len },
            .address = ntohl(d->from.sin_addr.s_addr),
            .peer_port = ntohs(d->from.sin_port),
            .port = batch.port,
        };
        return true;
    }
    return false;
}

static bool poll_udp(struct transport_event *event)
{
    ASSERT(sockets.udp_count <= TRANSPORT_UDP_PORT_COUNT_MAX);
    for (int i = 0; i < sockets.udp_count; i++) {
        int index = (sockets.udp_cursor + i) % sockets.udp_count;
        if (!batch_read(sockets.udp[index], sockets.udp_ports[index]))
            continue;
        sockets.udp_cursor = (index + 1) % sockets.udp_count;
        sockets.udp_eager = UDP_EAGER_POLLS;
        sockets.streams_first = true;
        if (batch_report(event))
            return true;
    }
    return false;
}

static void accept_some(void)
{
    for (int i = 0; i < sockets.listener_count; i++) {
        struct sockaddr_in from;
        socklen_t bytes = sizeof from;
        int fd = accept4(sockets.listeners[i], (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        int id = take_id(fd);
        if (id < 0) {
            close(fd);
            continue;
        }
        struct connection *c = connection_at(id);
        c->state = OPEN;
        c->accepted = true;
        c->address = ntohl(from.sin_addr.s_addr);
        c->peer_port = ntohs(from.sin_port);
        c->port = sockets.listener_ports[i];
    }
}

/* Notes which connections something has happened to. */
static void notice_ready(void)
{
    struct epoll_event events[EPOLL_EVENTS_MAX];
    int count = epoll_wait(sockets.epoll, events, EPOLL_EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        struct connection *c = connection_at((int)events[i].data.u32);
        if (c->fd >= 0)
            c->quiet = false;
    }
}

/* Returns true if a connection may have an event. */
static bool is_worth_asking(const struct connection *c)
{
    return c->state == OVER || c->accepted || (c->state != FREE && !c->quiet);
}

bool transport_poll(uint64_t now_ns, struct transport_event *event)
{
    ASSERT(sockets.cursor >= 0 && sockets.cursor < sockets.connection_count);
    (void)now_ns;
    memset(event, 0, sizeof *event);
    sockets.reported_closed = -1;
    if (batch_report(event))
        return true;
    const bool is_round = sockets.polls++ % UDP_EVERY_POLLS == 0, asks_udp = is_round || sockets.udp_eager > 0;
    sockets.udp_eager -= sockets.udp_eager > 0;
    if (is_round)
        accept_some();
    const bool streams_first = sockets.streams_first;
    sockets.streams_first = false;
    if (asks_udp && !streams_first && poll_udp(event))
        return true;
    for (int i = 0; i < sockets.connection_count; i++) {
        int id = (sockets.cursor + i) % sockets.connection_count;
        struct connection *c = connection_at(id);
        if (!is_worth_asking(c))
            continue;
        if (poll_connection(id, event)) {
            sockets.cursor = (id + 1) % sockets.connection_count;
            return true;
        }
        c->quiet = sockets.epoll >= 0;
    }
    if (sockets.epoll >= 0)
        notice_ready();
    return asks_udp && streams_first && poll_udp(event);
}

/* tcp(7): quick acknowledgements are not a lasting mode. An acknowledgement at once lets a sender with a small window
 * go on. */
void transport_idle(uint64_t now_ns)
{
    (void)now_ns;
    for (int id = 0; id < sockets.connection_count; id++) {
        struct connection *c = connection_at(id);
        if (!c->quick_ack_due || c->fd < 0)
            continue;
        ASSERT(c->state == OPEN || c->state == ENDED || c->state == CLOSING);
        int one = 1;
        setsockopt(c->fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
        c->quick_ack_due = false;
    }
}

/* Joins or leaves a group on one socket, at the interface that Linux has a route to the group through. */
static bool membership_change(int fd, int what, uint32_t group)
{
    const struct ip_mreqn request = { .imr_multiaddr.s_addr = htonl(group) };
    if (setsockopt(fd, IPPROTO_IP, what, &request, sizeof request) == 0)
        return true;
    log_line("sockets: group %pI4h: %s", &group, strerror(errno));
    return false;
}

/* Returns the place of a group among those that are joined; -1: it is not. */
static int group_index(uint32_t group)
{
    for (int i = 0; i < sockets.group_count; i++)
        if (sockets.groups[i] == group)
            return i;
    return -1;
}

bool transport_udp_join(uint32_t group)
{
    if (!IN_MULTICAST(group) || group == INADDR_ALLHOSTS_GROUP)
        return false;
    if (group_index(group) >= 0)
        return true;
    if (sockets.group_count == TRANSPORT_GROUP_COUNT_MAX)
        return false;
    for (int i = 0; i < sockets.udp_count && !only_note_ports; i++)
        if (!membership_change(sockets.udp[i], IP_ADD_MEMBERSHIP, group)) {
            while (i-- > 0)
                membership_change(sockets.udp[i], IP_DROP_MEMBERSHIP, group);
            return false;
        }
    sockets.groups[sockets.group_count++] = group;
    return true;
}

void transport_udp_leave(uint32_t group)
{
    int index = group_index(group);
    if (index < 0)
        return;
    for (int i = 0; i < sockets.udp_count && !only_note_ports; i++)
        membership_change(sockets.udp[i], IP_DROP_MEMBERSHIP, group);
    sockets.groups[index] = sockets.groups[--sockets.group_count];
}

bool transport_udp_bind(uint16_t port)
{
    ASSERT(port != 0);
    if (sockets.udp_count == TRANSPORT_UDP_PORT_COUNT_MAX)
        return false;
    if (only_note_ports)
        return note_port(sockets.udp_ports, &sockets.udp_count, port);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = wire_address(INADDR_ANY, port);
    if (fd < 0)
        return false;
    /* ip(7): without IP_MULTICAST_ALL a socket receives its own groups, and not those that other programs joined. */
    int on = 1, off = 0;
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
    busy_poll(fd);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        log_line("sockets: UDP port %u: %s", port, strerror(errno));
        close(fd);
        return false;
    }
    for (int i = 0; i < sockets.group_count; i++)
        membership_change(fd, IP_ADD_MEMBERSHIP, sockets.groups[i]);
    sockets.udp_ports[sockets.udp_count] = port;
    sockets.udp[sockets.udp_count++] = fd;
    return true;
}

bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    (void)now_ns;
    struct sockaddr_in to = wire_address(to_address, to_port);
    if (bytes > TRANSPORT_DATAGRAM_BYTES_MAX)
        return false;
    for (int i = 0; i < sockets.udp_count; i++) {
        if (sockets.udp_ports[i] != from_port)
            continue;
        counters.udp_out++;
        return sendto(sockets.udp[i], data, bytes, 0, (struct sockaddr *)&to, sizeof to) == (ssize_t)bytes;
    }
    return false;
}

void sockets_wait(uint64_t now_ns, uint64_t deadline_ns)
{
    struct pollfd
        fds[TRANSPORT_CONNECTION_COUNT_LIMIT + 1 + TRANSPORT_LISTENER_COUNT_MAX + TRANSPORT_UDP_PORT_COUNT_MAX];
    nfds_t count = 0;
    ASSERT(sockets.listener_count <= TRANSPORT_LISTENER_COUNT_MAX && sockets.udp_count <= TRANSPORT_UDP_PORT_COUNT_MAX);
    if (sockets.epoll >= 0)
        fds[count++] = (struct pollfd){ .fd = sockets.epoll, .events = POLLIN };
    for (int id = 0; id < sockets.connection_count; id++) {
        const struct connection *c = connection_at(id);
        if (c->state == OVER || c->accepted || (sockets.epoll >= 0 && is_worth_asking(c)))
            return;
        if (sockets.epoll >= 0)
            continue;
        if (c->state == CONNECTING || c->pending_bytes)
            fds[count++] = (struct pollfd){ .fd = c->fd, .events = POLLIN | POLLOUT };
        else if (c->state == OPEN || c->state == CLOSING)
            fds[count++] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
        else if (c->state == ENDED)
            fds[count++] = (struct pollfd){ .fd = c->fd, .events = 0 }; /* POLLERR alone */
    }
    for (int i = 0; i < sockets.listener_count; i++)
        fds[count++] = (struct pollfd){ .fd = sockets.listeners[i], .events = POLLIN };
    for (int i = 0; i < sockets.udp_count; i++)
        fds[count++] = (struct pollfd){ .fd = sockets.udp[i], .events = POLLIN };
    if (deadline_ns <= now_ns || batch.next < batch.count)
        return;
    struct timespec pause = { .tv_sec = (time_t)((deadline_ns - now_ns) / NS_PER_S),
                              .tv_nsec = (long)((deadline_ns - now_ns) % NS_PER_S) };
    counters.waits++;
    ppoll(fds, count, &pause, NULL);
    sockets.polls = 0;
}
