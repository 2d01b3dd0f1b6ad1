/* libperegrine-net.so: sockets over net/tcp/tcp.h, with Linux' rules and errors. */
#include "host/library/internal.h"

#include <errno.h>
#include <poll.h>

enum {
    EPHEMERAL_FIRST = 32768, /* the ports that pnet_bind chooses from for port 0; Linux' ip_local_port_range */
    EPHEMERAL_COUNT = 28232,
    BACKLOG_MAX = 4096, /* Linux: net.core.somaxconn */
};

int pnet_errno_of(int64_t result)
{
    static const int errnos[] = {
        [TCP_OK] = 0,
        [-TCP_AGAIN] = EAGAIN,
        [-TCP_INVALID] = EINVAL,
        [-TCP_IN_USE] = EADDRINUSE,
        [-TCP_NO_ROOM] = ENOBUFS,
        [-TCP_NO_ROUTE] = ENETUNREACH,
        [-TCP_NOT_CONNECTED] = ENOTCONN,
        [-TCP_PIPE] = EPIPE,
        [-TCP_REFUSED] = ECONNREFUSED,
        [-TCP_RESET] = ECONNRESET,
        [-TCP_TIMED_OUT] = ETIMEDOUT,
        [-TCP_UNREACHABLE] = EHOSTUNREACH,
        [-TCP_ABORTED] = ECONNABORTED,
    };
    ASSERT(result <= 0 && -result < (int64_t)ARRAY_COUNT(errnos));
    return errnos[-result];
}

void pnet_socket_check(const struct socket *s)
{
    ASSERT(s->kind != SOCKET_FREE);
    ASSERT((s->id < 0) == (s->kind == SOCKET_FRESH));
    ASSERT(!s->connecting || s->kind == SOCKET_CONNECTION);
    ASSERT(s->error >= 0);

    ASSERT(s->kind != SOCKET_LISTENER || (s->port != 0 && s->backlog > 0));
}

/* ---- Sockets: creation and end ---- */

struct socket *pnet_socket_of(struct pnet *net, int number)
{
    bool valid = net != NULL && number >= 0 && number < PNET_SOCKET_COUNT_MAX
                 && net->sockets[number].kind != SOCKET_FREE;
    return valid ? &net->sockets[number] : NULL;
}

int pnet_socket(struct pnet *net)
{
    if (net == NULL)
        return -EINVAL;
    for (int i = 0; i < PNET_SOCKET_COUNT_MAX; i++) {
        if (net->sockets[i].kind == SOCKET_FREE) {
            net->sockets[i] = (struct socket){ .kind = SOCKET_FRESH, .id = -1, .policy = *tcp_policy_get(net->stack) };
            pnet_socket_check(&net->sockets[i]);
            return i;
        }
    }
    return -EMFILE;
}

/* Linux: inet_csk_get_port. Returns true if another socket or connection excludes a socket from a port. Two sockets may
 * share a port if both have SO_REUSEADDR and neither listens. Connections whose sockets are closed, in TIME-WAIT too,
 * exclude only a socket without SO_REUSEADDR. */
static bool port_is_taken(const struct pnet *net, const struct socket *s, uint16_t port)
{
    ASSERT(port != 0);
    for (int i = 0; i < PNET_SOCKET_COUNT_MAX; i++) {
        const struct socket *other = &net->sockets[i];
        if (other->kind != SOCKET_FREE && other->port == port
            && !(s->reuse_address && other->reuse_address && other->kind != SOCKET_LISTENER))
            return true;
    }
    return !s->reuse_address && tcp_port_in_use(net->stack, port);
}

static uint16_t port_choose(struct pnet *net)
{
    const struct socket alone = { .kind = SOCKET_FRESH };
    uint64_t from = secret_random(&net->stack->ip.secret) % EPHEMERAL_COUNT; /* RFC 6056 §3.3.1 */
    for (uint64_t tries = 0; tries < EPHEMERAL_COUNT; tries++) {
        uint16_t port = (uint16_t)(EPHEMERAL_FIRST + (from + tries) % EPHEMERAL_COUNT);
        ASSERT(port >= EPHEMERAL_FIRST);
        if (!port_is_taken(net, &alone, port))
            return port;
    }
    return 0;
}

/* Returns true if the socket has no connection, or one that is over. In Linux a socket in TIME-WAIT counts as
 * closed. */
static bool socket_is_over(const struct pnet *net, const struct socket *s)
{
    if (s->kind != SOCKET_CONNECTION)
        return true;
    enum tcp_state state = tcp_state(net->stack, s->id);
    return state == TCP_CLOSED || state == TCP_TIME_WAIT;
}

static bool socket_is_opening(const struct pnet *net, const struct socket *s)
{
    if (s->kind != SOCKET_CONNECTION)
        return false;
    enum tcp_state state = tcp_state(net->stack, s->id);
    return state == TCP_SYN_SENT || state == TCP_SYN_RECEIVED;
}

int pnet_bind(struct pnet *net, int number, uint32_t address, uint16_t port)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (address != 0 && address != net->stack->ip.interface.address)
        return -EADDRNOTAVAIL;
    bool failed = s->kind == SOCKET_CONNECTION && s->connecting && socket_is_over(net, s);
    if ((s->kind != SOCKET_FRESH && !failed) || s->port != 0)
        return -EINVAL;
    if (port == 0)
        port = port_choose(net);
    if (port == 0 || port_is_taken(net, s, port))
        return -EADDRINUSE;
    s->port = port;
    pnet_socket_check(s);
    return 0;
}

int pnet_listen(struct pnet *net, int number, int backlog)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (s->kind == SOCKET_CONNECTION)
        return -EINVAL;
    /* As in Linux, the queue takes one more than asked for, and a negative number counts as a large one. */
    uint32_t count = min_u32((uint32_t)backlog, BACKLOG_MAX) + 1;
    if (s->kind == SOCKET_LISTENER) {
        s->backlog = count;
        tcp_listen_change(net->stack, s->id, count, &s->policy);
        return 0;
    }
    if (s->port == 0) {
        int bound = pnet_bind(net, number, 0, 0);
        if (bound < 0)
            return bound;
    }
    int id = tcp_listen(net->stack, s->port, count, &s->policy);
    if (id < 0)
        return -pnet_errno_of(id);
    s->kind = SOCKET_LISTENER;
    s->id = id;
    s->backlog = count;
    pnet_socket_check(s);
    return 0;
}

static void report_peer(struct pnet *net, int connection, uint32_t *address, uint16_t *port)
{
    struct tcp_endpoints ends = { 0 };
    ASSERT(connection >= 0);
    tcp_endpoints(net->stack, connection, &ends);
    if (address != NULL)
        *address = ends.peer_address;
    if (port != NULL)
        *port = ends.peer_port;
}

int pnet_accept(struct pnet *net, int number, uint32_t *address, uint16_t *port)
{
    struct socket *listener = pnet_socket_of(net, number);
    if (listener == NULL)
        return -EBADF;
    if (listener->kind != SOCKET_LISTENER)
        return -EINVAL;
    int accepted = pnet_socket(net);
    if (accepted < 0)
        return accepted;
    struct socket *s = &net->sockets[accepted];
    int id = tcp_accept(net->stack, listener->id);
    if (id < 0) {
        s->kind = SOCKET_FREE;
        return -pnet_errno_of(id);
    }
    *s = *listener; /* an accepted socket inherits the listener's options */
    s->kind = SOCKET_CONNECTION;
    s->id = id;
    tcp_set_nodelay(net->stack, id, s->policy.nodelay, net->now_ns);
    if (s->policy.keepalive)
        tcp_set_keepalive(net->stack, id, true, net->now_ns);
    report_peer(net, id, address, port);
    pnet_socket_check(s);
    return accepted;
}

/* Reports the outcome of an earlier pnet_connect, once, like Linux' inet_stream_connect. */
static int connect_again(struct pnet *net, struct socket *s)
{
    ASSERT(s->kind == SOCKET_CONNECTION);
    if (!s->connecting)
        return -EISCONN;
    if (socket_is_opening(net, s))
        return -EALREADY;
    s->connecting = false;
    if (!socket_is_over(net, s))
        return 0;
    int error = pnet_errno_of(tcp_take_error(net->stack, s->id));
    tcp_close(net->stack, s->id, net->now_ns); /* the next call tries again */
    s->kind = SOCKET_FRESH;
    s->id = -1;
    s->read_shut = s->write_shut = false;
    pnet_socket_check(s);
    return error != 0 ? -error : -ECONNABORTED;
}

int pnet_connect(struct pnet *net, int number, uint32_t address, uint16_t port)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (s->kind == SOCKET_CONNECTION)
        return connect_again(net, s);
    if (s->kind == SOCKET_LISTENER)
        return -EISCONN;
    int id = tcp_connect(net->stack, address, port, s->port, &s->policy, net->now_ns);
    if (id == TCP_IN_USE)
        return -EADDRNOTAVAIL;
    if (id < 0)
        return -pnet_errno_of(id);
    s->kind = SOCKET_CONNECTION;
    s->id = id;
    s->error = 0;
    s->connecting = true;
    pnet_socket_check(s);
    return -EINPROGRESS;
}

static int socket_end(struct pnet *net, int number, bool abort)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    pnet_socket_check(s);
    if (s->kind == SOCKET_LISTENER)
        tcp_unlisten(net->stack, s->id, net->now_ns);
    else if (s->kind == SOCKET_CONNECTION && (abort || (s->linger && s->linger_s == 0)))
        tcp_abort(net->stack, s->id, net->now_ns);
    else if (s->kind == SOCKET_CONNECTION)
        tcp_close(net->stack, s->id, net->now_ns);
    s->kind = SOCKET_FREE;
    return 0;
}

int pnet_close_socket(struct pnet *net, int number) { return socket_end(net, number, false); }
int pnet_abort(struct pnet *net, int number) { return socket_end(net, number, true); }

/* ---- Sockets: data ---- */

/* Returns the connection that a socket reads and writes, or -1 with the errno to return. */
static int connection_of(struct pnet *net, int number, int *error)
{
    struct socket *s = pnet_socket_of(net, number);
    *error = s == NULL ? EBADF : s->error != 0 ? pnet_error_take(s) : ENOTCONN;
    return s != NULL && s->kind == SOCKET_CONNECTION ? s->id : -1;
}

int64_t pnet_read(struct pnet *net, int number, void *out, size_t bytes, int flags)
{
    int error, id = connection_of(net, number, &error);
    if (id < 0)
        return -error;
    if (out == NULL && bytes != 0)
        return -EFAULT;
    int64_t result = tcp_read(net->stack, id, out, bytes, (flags & PNET_PEEK) != 0, net->now_ns);
    if (net->sockets[number].read_shut && (result == TCP_AGAIN || result == TCP_NOT_CONNECTED))
        return 0; /* as in Linux, bytes that still come can be read */
    if (result == TCP_NOT_CONNECTED)
        return -EAGAIN; /* connecting: Linux' result */
    ASSERT(result < 0 || (uint64_t)result <= bytes);
    return result < 0 ? -pnet_errno_of(result) : result;
}

int64_t pnet_write(struct pnet *net, int number, const void *data, size_t bytes)
{
    int error, id = connection_of(net, number, &error);
    if (id < 0)
        return error == ENOTCONN ? -EPIPE : -error;
    if (data == NULL && bytes != 0)
        return -EFAULT;
    if (socket_is_opening(net, &net->sockets[number]))
        return -EAGAIN;
    int64_t result = tcp_write(net->stack, id, data, bytes, net->now_ns);
    ASSERT(result < 0 || (uint64_t)result <= bytes);
    return result < 0 ? -pnet_errno_of(result) : result;
}

/* Shuts one direction or both, like Linux' inet_shutdown. A listener whose reading is shut listens no longer. A
 * connection attempt is given up. */
int pnet_shutdown(struct pnet *net, int number, int how)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (how < PNET_SHUT_RD || how > PNET_SHUT_RDWR)
        return -EINVAL;
    if (s->kind == SOCKET_LISTENER) {
        if (how != PNET_SHUT_WR) {
            tcp_unlisten(net->stack, s->id, net->now_ns);
            s->kind = SOCKET_FRESH;
            s->id = -1;
        }
        return 0;
    }
    if (socket_is_over(net, s))
        return -ENOTCONN;
    if (tcp_state(net->stack, s->id) == TCP_SYN_SENT) {
        tcp_abort(net->stack, s->id, net->now_ns);
        s->kind = SOCKET_FRESH; /* as tcp_disconnect leaves it */
        s->id = -1;
        s->connecting = false;
        s->error = ECONNRESET;
        pnet_socket_check(s);
        return 0;
    }
    s->connecting = false; /* SS_CONNECTED: pnet_connect returns -EISCONN from now on */
    if (how != PNET_SHUT_WR) {
        s->read_shut = true;
        tcp_shutdown_read(net->stack, s->id);
    }
    if (how != PNET_SHUT_RD) {
        s->write_shut = true;
        tcp_shutdown(net->stack, s->id, net->now_ns); /* a second call changes nothing */
    }
    pnet_socket_check(s);
    return 0;
}

int pnet_poll(struct pnet *net, int number)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    pnet_socket_check(s);
    if (s->kind == SOCKET_FRESH)
        return POLLOUT | POLLHUP | (s->error != 0 ? POLLERR : 0);
    uint32_t bits = s->kind == SOCKET_LISTENER ? tcp_listener_poll_bits(net->stack, s->id)
                                               : tcp_poll_bits(net->stack, s->id);
    static const struct {
        uint32_t ours;
        int theirs;
    } table[] = {
        { TCP_POLL_READ, POLLIN },     { TCP_POLL_WRITE, POLLOUT }, { TCP_POLL_ENDED, 0x2000 },
        { TCP_POLL_HUNG_UP, POLLHUP }, { TCP_POLL_ERROR, POLLERR },
    };
    int theirs = s->read_shut ? POLLIN | 0x2000 : 0; /* POLLRDHUP: net/tcp/tcp.h's TCP_POLL_ENDED */
    if (s->read_shut && s->write_shut)
        theirs |= POLLHUP;
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        if (bits & table[i].ours)
            theirs |= table[i].theirs;
    return theirs;
}

int pnet_local(struct pnet *net, int number, uint32_t *address, uint16_t *port)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    struct tcp_endpoints ends = { .address = net->stack->ip.interface.address, .port = s->port };
    if (s->kind == SOCKET_CONNECTION)
        tcp_endpoints(net->stack, s->id, &ends);
    if (address != NULL)
        *address = ends.address;
    if (port != NULL)
        *port = ends.port;

    return 0;
}

int pnet_peer(struct pnet *net, int number, uint32_t *address, uint16_t *port)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (socket_is_over(net, s) || tcp_state(net->stack, s->id) == TCP_SYN_SENT)
        return -ENOTCONN;
    report_peer(net, s->id, address, port);
    return 0;
}
