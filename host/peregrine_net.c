/* libperegrine-net.so: sockets in the small, with Linux' errors, over net/tcp.h. The words are read in
 * host/peregrine_net_words.c. */
#include "host/peregrine_net.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "host/peregrine_net_words.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "net/netdev_ip.h"
#include "net/stack.h"
#include "net/stack_state.h"

enum {
    CONNECTION_COUNT = 192,         /* most sockets of a suite's test are connections */
    LISTENER_COUNT = 64,
    HALF_OPEN_COUNT = 256,
    TIME_WAIT_COUNT = 1024,
    SEGMENT_COUNT = 4096,           /* a send buffer of 2 MiB in segments of 536 bytes */
    EPHEMERAL_FIRST = 32768,        /* what pnet_bind gives for port 0; Linux' ip_local_port_range */
    EPHEMERAL_COUNT = 28232,
};

/* Linux' names for level IPPROTO_TCP; <netinet/tcp.h> cannot be had beside net/tcp.h, whose states it names alike. */
enum {
    OPTION_NODELAY = 1,
    OPTION_MAXSEG = 2,
    OPTION_KEEPIDLE = 4,
    OPTION_KEEPINTVL = 5,
    OPTION_KEEPCNT = 6,
    OPTION_LINGER2 = 8,
    OPTION_QUICKACK = 12,
    OPTION_USER_TIMEOUT = 18,
};
enum { FIN_WAIT_2_S_MAX = 120 };        /* Linux: TCP_FIN_TIMEOUT_MAX */
/* The stack's clock is this far ahead of the caller's: nothing in it happens at 0, which some of its times mean "never"
 * by. */
#define CLOCK_AHEAD_NS UINT64_C(1000000000)
#define NOW_US_MAX (UINT64_C(1) << 53)  /* 285 years; in nanoseconds, with any timeout added, it still fits */

enum socket_kind { SOCKET_FREE, SOCKET_FRESH, SOCKET_LISTENER, SOCKET_CONNECTION };

struct socket {
    enum socket_kind kind;
    int id;                         /* listener or connection */
    bool asked;                     /* tcp_connect was called: a failed one is not a fresh one */
    bool read_shut, write_shut, linger, quick_ack_set, reuse_address;
    int linger_s;
    uint16_t port;                  /* bound to; 0: none */
    struct tcp_policy policy;
};

struct pnet {
    uint64_t now_ns;
    struct net_stack *stack;
    void *memory;
    struct socket sockets[PNET_SOCKET_COUNT_MAX];
    struct netdev_ip device;
};

/* A mistake of ours. The kernel's platform panics; so does this. */
_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "libperegrine-net: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

static int errno_of(int64_t result)
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

/* ---- The stack ---- */

static uint32_t power_of_two(uint32_t bytes)
{
    uint32_t power = 4096;
    while (power < bytes)
        power *= 2;
    return power;
}

/* What a ring keeps to spare, so that a SYN can offer all of the buffer. See tcp_receive_buffer_of. */
static uint32_t scale_unit(const struct tcp_policy *policy)
{
    if (!policy->window_scaling)
        return 0;
    return policy->window_scale <= 14 ? UINT32_C(1) << policy->window_scale : policy->receive_buffer_bytes >> 15;
}

struct pnet *pnet_open(const char *words, const char **why)
{
    struct pnet_words read;
    const char *message = pnet_words_read(words, &read);
    if (message == NULL) {
        struct net_config *config = &read.config;
        config->capacity = (struct net_capacity){
            .connection_count = CONNECTION_COUNT,
            .listener_count = LISTENER_COUNT,
            .half_open_count = HALF_OPEN_COUNT,
            .time_wait_count = TIME_WAIT_COUNT,
            .segment_count = SEGMENT_COUNT,
            .receive_bytes = power_of_two(config->policy.receive_buffer_bytes + scale_unit(&config->policy)),
            .send_bytes = power_of_two(config->policy.send_buffer_bytes),
        };
        size_t bytes = (net_stack_bytes(&config->capacity) + NET_STACK_ALIGN - 1) & -(size_t)NET_STACK_ALIGN;
        struct pnet *net = calloc(1, sizeof *net);
        void *memory = aligned_alloc(NET_STACK_ALIGN, bytes);
        message = "out of memory";
        if (net != NULL && memory != NULL) {
            net->now_ns = read.start_us * 1000 + CLOCK_AHEAD_NS;
            net->memory = memory;
            netdev_ip_init(&net->device, read.mtu_bytes);
            config->device = &net->device.device;
            net->stack = net_stack_init(memory, bytes, config, net->now_ns, &message);
            if (net->stack != NULL) {
                net->stack->interface.mask = UINT32_MAX << (32 - read.prefix_bits);     /* its routes stay: no ARP */
                return net;
            }
        }
        free(memory);
        free(net);
    }
    if (why != NULL)
        *why = message;
    return NULL;
}

void pnet_close(struct pnet *net)
{
    if (net != NULL) {
        free(net->memory);
        free(net);
    }
}

int pnet_packet_in(struct pnet *net, const void *packet, size_t bytes)
{
    if (net == NULL)
        return -EINVAL;
    if (packet == NULL)
        return -EFAULT;
    if (bytes > NETDEV_IP_PACKET_BYTES_MAX)
        return -EMSGSIZE;
    if (!netdev_ip_push(&net->device, packet, bytes))
        return -ENOBUFS;
    net_input(net->stack, net->now_ns);
    net_idle(net->stack, net->now_ns);
    return 0;
}

int pnet_packet_out(struct pnet *net, void *packet, size_t room)
{
    const uint8_t *data;
    if (net == NULL)
        return -EINVAL;
    if (packet == NULL)
        return -EFAULT;
    if (room < net->device.device.mtu_bytes)
        return -EMSGSIZE;
    size_t bytes = netdev_ip_pop(&net->device, &data);
    if (bytes > 0)
        memcpy(packet, data, bytes);
    netdev_ip_release(&net->device);
    return (int)bytes;
}

int pnet_set_time_us(struct pnet *net, uint64_t now_us)
{
    if (net == NULL || now_us > NOW_US_MAX || now_us < pnet_time_us(net))
        return -EINVAL;
    net->now_ns = now_us * 1000 + CLOCK_AHEAD_NS;
    return 0;
}

uint64_t pnet_time_us(const struct pnet *net) { return net != NULL ? (net->now_ns - CLOCK_AHEAD_NS) / 1000 : 0; }

uint64_t pnet_next_timer_us(const struct pnet *net)
{
    uint64_t wake_ns = net != NULL ? net_wake_ns(net->stack) : UINT64_MAX;
    if (wake_ns == UINT64_MAX)
        return UINT64_MAX;
    return wake_ns <= CLOCK_AHEAD_NS ? 0 : (wake_ns - CLOCK_AHEAD_NS + 999) / 1000;     /* never before it is due */
}

void pnet_run_timers(struct pnet *net)
{
    if (net != NULL)
        net_idle(net->stack, net->now_ns);
}

int pnet_counter(struct pnet *net, size_t index, const char **name, uint64_t *value)
{
    static const char *const names[] = {
#define NAME(module, counter) #module "." #counter,
        NET_COUNTERS(NAME)
#undef NAME
    };
    if (net == NULL)
        return -EINVAL;
    if (name == NULL || value == NULL)
        return -EFAULT;
    if (index >= ARRAY_COUNT(names))
        return -ENOENT;
    *name = names[index];
    *value = ((const uint64_t *)&net->stack->counters)[index];
    return 0;
}

/* ---- Sockets: making and ending ---- */

static struct socket *socket_of(struct pnet *net, int number)
{
    bool valid = net != NULL && number >= 0 && number < PNET_SOCKET_COUNT_MAX && net->sockets[number].kind != SOCKET_FREE;
    return valid ? &net->sockets[number] : NULL;
}

int pnet_socket(struct pnet *net)
{
    if (net == NULL)
        return -EINVAL;
    for (int i = 0; i < PNET_SOCKET_COUNT_MAX; i++) {
        if (net->sockets[i].kind == SOCKET_FREE) {
            net->sockets[i] = (struct socket){ .kind = SOCKET_FRESH, .id = -1, .policy = *tcp_policy_get(net->stack) };
            return i;
        }
    }
    return -EMFILE;
}

static bool port_is_listened_on(const struct pnet *net, uint16_t port)
{
    for (int i = 0; i < PNET_SOCKET_COUNT_MAX; i++)
        if (net->sockets[i].kind == SOCKET_LISTENER && net->sockets[i].port == port)
            return true;
    return false;
}

static bool port_is_bound(const struct pnet *net, uint16_t port)
{
    for (int i = 0; i < PNET_SOCKET_COUNT_MAX; i++)
        if (net->sockets[i].kind != SOCKET_FREE && net->sockets[i].port == port)
            return true;
    return false;
}

int pnet_bind(struct pnet *net, int number, uint32_t address, uint16_t port)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (s->kind != SOCKET_FRESH || s->port != 0)
        return -EINVAL;
    if (address != 0 && address != net->stack->interface.address)
        return -EADDRNOTAVAIL;
    uint64_t from = port == 0 ? secret_random(&net->stack->secret) % EPHEMERAL_COUNT : 0;     /* RFC 6056 §3.3.1 */
    for (uint64_t tries = 0; port == 0 && tries < EPHEMERAL_COUNT; tries++) {
        uint16_t candidate = (uint16_t)(EPHEMERAL_FIRST + (from + tries) % EPHEMERAL_COUNT);
        if (!port_is_bound(net, candidate))
            port = candidate;
    }
    if (port == 0 || port_is_listened_on(net, port))
        return -EADDRINUSE;
    s->port = port;
    return 0;
}

int pnet_listen(struct pnet *net, int number, int backlog)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (s->kind == SOCKET_LISTENER)
        return 0;
    if (s->kind != SOCKET_FRESH || s->asked)
        return -EINVAL;
    if (s->port == 0) {
        int bound = pnet_bind(net, number, 0, 0);
        if (bound < 0)
            return bound;
    }
    int id = tcp_listen(net->stack, s->port, backlog < 1 ? 1 : (uint32_t)backlog, &s->policy);
    if (id < 0)
        return -errno_of(id);
    s->kind = SOCKET_LISTENER;
    s->id = id;
    return 0;
}

static void report_peer(struct pnet *net, int connection, uint32_t *address, uint16_t *port)
{
    struct tcp_endpoints ends = { 0 };
    tcp_endpoints(net->stack, connection, &ends);
    if (address != NULL)
        *address = ends.peer_address;
    if (port != NULL)
        *port = ends.peer_port;
}

int pnet_accept(struct pnet *net, int number, uint32_t *address, uint16_t *port)
{
    struct socket *listener = socket_of(net, number);
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
        return -errno_of(id);
    }
    *s = *listener;                 /* its options hold for what it accepts */
    s->kind = SOCKET_CONNECTION;
    s->id = id;
    s->asked = true;
    tcp_set_nodelay(net->stack, id, s->policy.nodelay, net->now_ns);
    if (s->policy.keepalive)
        tcp_set_keepalive(net->stack, id, true, net->now_ns);
    report_peer(net, id, address, port);
    return accepted;
}

int pnet_connect(struct pnet *net, int number, uint32_t address, uint16_t port)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (s->kind == SOCKET_CONNECTION) {
        enum tcp_state state = tcp_state(net->stack, s->id);
        if (state == TCP_SYN_SENT || state == TCP_SYN_RECEIVED)
            return -EALREADY;
        int error = errno_of(tcp_take_error(net->stack, s->id));
        if (state != TCP_CLOSED || net->stack->tcp.connections[s->id].was_open)
            return error != 0 ? -error : -EISCONN;
        tcp_close(net->stack, s->id, net->now_ns);      /* as Linux: told once, the next call tries anew */
        s->kind = SOCKET_FRESH;
        s->id = -1;
        s->asked = false;
        return error != 0 ? -error : -ECONNABORTED;
    }
    if (s->kind != SOCKET_FRESH)
        return -EISCONN;
    int id = tcp_connect(net->stack, address, port, s->port, &s->policy, net->now_ns);
    if (id == TCP_IN_USE)
        return -EADDRNOTAVAIL;
    if (id < 0)
        return -errno_of(id);
    s->kind = SOCKET_CONNECTION;
    s->id = id;
    s->asked = true;
    return -EINPROGRESS;
}

static int socket_end(struct pnet *net, int number, bool abort)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
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

/* A connection for reading and writing, or -1 with the errno to return. */
static int connection_of(struct pnet *net, int number, int *error)
{
    struct socket *s = socket_of(net, number);
    *error = s == NULL ? EBADF : ENOTCONN;
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
        return 0;                   /* as Linux has it, what still comes can be read */
    if (result == TCP_NOT_CONNECTED)
        return -EAGAIN;             /* connecting, as Linux has it */
    return result < 0 ? -errno_of(result) : result;
}

int64_t pnet_write(struct pnet *net, int number, const void *data, size_t bytes)
{
    int error, id = connection_of(net, number, &error);
    if (id < 0)
        return error == ENOTCONN ? -EPIPE : -error;
    if (data == NULL && bytes != 0)
        return -EFAULT;
    enum tcp_state state = tcp_state(net->stack, id);
    if (state == TCP_SYN_SENT || state == TCP_SYN_RECEIVED)
        return -EAGAIN;
    int64_t result = bytes == 0 ? 0 : tcp_write(net->stack, id, data, bytes, net->now_ns);
    return result < 0 ? -errno_of(result) : result;
}

/* Linux' inet_shutdown: a listener whose reading is shut listens no longer; what is only connecting is given up. */
int pnet_shutdown(struct pnet *net, int number, int how)
{
    struct socket *s = socket_of(net, number);
    int error, id = connection_of(net, number, &error);
    if (s != NULL && (how < PNET_SHUT_RD || how > PNET_SHUT_RDWR))
        return -EINVAL;
    if (s != NULL && s->kind == SOCKET_LISTENER) {
        if (how != PNET_SHUT_WR) {
            tcp_unlisten(net->stack, s->id, net->now_ns);
            s->kind = SOCKET_FRESH;
            s->id = -1;
        }
        return 0;
    }
    if (id < 0)
        return -error;
    if (tcp_state(net->stack, id) == TCP_SYN_SENT) {
        tcp_reset(net->stack, id, net->now_ns);
        return 0;
    }
    if (how != PNET_SHUT_WR)
        net->sockets[number].read_shut = true;
    if (how != PNET_SHUT_RD)
        net->sockets[number].write_shut = true;
    int result = how == PNET_SHUT_RD ? TCP_OK : tcp_shutdown(net->stack, id, net->now_ns);
    return result == TCP_PIPE ? 0 : -errno_of(result);      /* a second FIN is not asked for twice */
}

int pnet_poll(struct pnet *net, int number)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (s->kind == SOCKET_FRESH)
        return POLLOUT | POLLHUP;
    uint32_t bits = s->kind == SOCKET_LISTENER ? tcp_listener_poll_bits(net->stack, s->id)
                                               : tcp_poll_bits(net->stack, s->id);
    static const struct { uint32_t ours; int theirs; } table[] = {
        { TCP_POLL_READ, POLLIN }, { TCP_POLL_WRITE, POLLOUT }, { TCP_POLL_ENDED, 0x2000 },
        { TCP_POLL_HUNG_UP, POLLHUP }, { TCP_POLL_ERROR, POLLERR },
    };
    int theirs = s->read_shut ? POLLIN | 0x2000 : 0;        /* POLLRDHUP: net/tcp.h's TCP_POLL_ENDED */
    if (s->read_shut && s->write_shut)
        theirs |= POLLHUP;
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        if (bits & table[i].ours)
            theirs |= table[i].theirs;
    return theirs;
}

int pnet_local(struct pnet *net, int number, uint32_t *address, uint16_t *port)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    struct tcp_endpoints ends = { .address = net->stack->interface.address, .port = s->port };
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
    int error, id = connection_of(net, number, &error);
    if (id < 0)
        return -error;
    report_peer(net, id, address, port);
    return 0;
}

/* ---- Options ---- */

int pnet_set_linger(struct pnet *net, int number, int on, int seconds)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    s->linger = on != 0;
    s->linger_s = seconds;
    return 0;
}

static int set_socket_option(struct pnet *net, struct socket *s, int name, int value)
{
    bool open = s->kind == SOCKET_CONNECTION;
    switch (name) {
    case SO_REUSEADDR:
        s->reuse_address = value != 0;
        return 0;
    case SO_RCVBUF:
        if (value <= 0)
            return -EINVAL;
        s->policy.receive_buffer_bytes = (uint32_t)value;
        s->policy.window_scale = TCP_WINDOW_SCALE_AUTO;         /* as Linux: no more than this will ever be offered */
        if (open)
            tcp_set_receive_buffer(net->stack, s->id, (uint32_t)value);
        return 0;
    case SO_KEEPALIVE:
        s->policy.keepalive = value != 0;
        if (open)
            tcp_set_keepalive(net->stack, s->id, value != 0, net->now_ns);
        return 0;
    default:
        return -ENOPROTOOPT;
    }
}

static int set_tcp_option(struct pnet *net, struct socket *s, int name, int value)
{
    bool open = s->kind == SOCKET_CONNECTION;
    switch (name) {
    case OPTION_NODELAY:
        s->policy.nodelay = value != 0;
        if (open)
            tcp_set_nodelay(net->stack, s->id, value != 0, net->now_ns);
        return 0;
    case OPTION_MAXSEG:
        if (value < 88 || value > 32767)        /* Linux: TCP_MIN_MSS, MAX_TCP_WINDOW */
            return -EINVAL;
        s->policy.mss = (uint16_t)value;
        if (open)
            tcp_set_mss(net->stack, s->id, (uint16_t)value);
        return 0;
    case OPTION_QUICKACK:
        s->policy.ack = value != 0 ? TCP_ACK_QUICK : TCP_ACK_DELAYED;
        if (open)
            tcp_set_ack_policy(net->stack, s->id, s->policy.ack, s->policy.ack_delay_us);
        return 0;
    case OPTION_KEEPIDLE:
    case OPTION_KEEPINTVL:
        if (open)
            return -EISCONN;                    /* these hold for what is opened later */
        if (value < 1 || value > 32767)
            return -EINVAL;
        *(name == OPTION_KEEPIDLE ? &s->policy.keepalive_idle_us : &s->policy.keepalive_interval_us)
            = (uint64_t)value * 1000000;
        return 0;
    case OPTION_KEEPCNT:
        if (open)
            return -EISCONN;
        if (value < 1 || value > 127)
            return -EINVAL;
        s->policy.keepalive_count = (uint32_t)value;
        return 0;
    case OPTION_LINGER2:                        /* below 0, "not at all" in Linux, is the least here */
        if (value != 0)
            s->policy.fin_wait_2_us = value < 0 ? 1 : (uint32_t)min_size((size_t)value, FIN_WAIT_2_S_MAX) * 1000000;
        else
            s->policy.fin_wait_2_us = tcp_policy_get(net->stack)->fin_wait_2_us;
        break;
    case OPTION_USER_TIMEOUT:                   /* milliseconds; 0: the default */
        if (value < 0)
            return -EINVAL;
        s->policy.data_give_up_us = value == 0 ? tcp_policy_get(net->stack)->data_give_up_us
                                               : (uint32_t)min_size((size_t)value * 1000, UINT32_MAX);
        break;
    default:
        return -ENOPROTOOPT;
    }
    if (open)
        tcp_set_patience(net->stack, s->id, s->policy.data_give_up_us, s->policy.fin_wait_2_us);
    return 0;
}

int pnet_set_option(struct pnet *net, int number, int level, int name, int value)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    return level == SOL_SOCKET    ? set_socket_option(net, s, name, value)
           : level == IPPROTO_TCP ? set_tcp_option(net, s, name, value)
                                  : -ENOPROTOOPT;
}

static int get_max_segment(struct pnet *net, const struct socket *s)
{
    struct tcp_info info;
    if (s->kind == SOCKET_CONNECTION && tcp_info(net->stack, s->id, &info))
        return (int)info.snd_mss;
    return s->policy.mss != 0 ? s->policy.mss : 536;        /* MUST-15: before the peer has said */
}

int pnet_get_option(struct pnet *net, int number, int level, int name, int *value)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (value == NULL)
        return -EFAULT;
    const struct tcp_policy *p = &s->policy;
    if (level == SOL_SOCKET) {
        switch (name) {
        case SO_ERROR:
            *value = s->kind == SOCKET_CONNECTION ? errno_of(tcp_take_error(net->stack, s->id)) : 0;
            return 0;
        case SO_REUSEADDR: *value = s->reuse_address; return 0;
        case SO_RCVBUF: *value = (int)p->receive_buffer_bytes; return 0;
        case SO_KEEPALIVE: *value = p->keepalive; return 0;
        }
    } else if (level == IPPROTO_TCP) {
        switch (name) {
        case OPTION_NODELAY: *value = p->nodelay; return 0;
        case OPTION_MAXSEG: *value = get_max_segment(net, s); return 0;
        case OPTION_QUICKACK: *value = p->ack == TCP_ACK_QUICK; return 0;
        case OPTION_KEEPIDLE: *value = (int)(p->keepalive_idle_us / 1000000); return 0;
        case OPTION_KEEPINTVL: *value = (int)(p->keepalive_interval_us / 1000000); return 0;
        case OPTION_KEEPCNT: *value = (int)p->keepalive_count; return 0;
        case OPTION_LINGER2: *value = (int)(p->fin_wait_2_us / 1000000); return 0;
        case OPTION_USER_TIMEOUT: *value = (int)(p->data_give_up_us / 1000); return 0;
        }
    }
    return -ENOPROTOOPT;
}

static uint8_t linux_state(enum tcp_state state)
{
    static const uint8_t states[] = {
        [TCP_CLOSED] = 7, [TCP_LISTEN] = 10, [TCP_SYN_SENT] = 2, [TCP_SYN_RECEIVED] = 3, [TCP_ESTABLISHED] = 1,
        [TCP_FIN_WAIT_1] = 4, [TCP_FIN_WAIT_2] = 5, [TCP_CLOSE_WAIT] = 8, [TCP_CLOSING] = 11, [TCP_LAST_ACK] = 9,
        [TCP_TIME_WAIT] = 6,
    };
    return states[state];
}

static uint32_t in_segments(uint32_t bytes, uint32_t mss) { return mss == 0 ? 0 : (bytes + mss - 1) / mss; }

int pnet_tcp_info(struct pnet *net, int number, struct pnet_tcp_info *out)
{
    struct socket *s = socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (out == NULL)
        return -EFAULT;
    struct tcp_info info;
    if (s->kind != SOCKET_CONNECTION || !tcp_info(net->stack, s->id, &info)) {
        *out = (struct pnet_tcp_info){
            .tcpi_state = linux_state(s->kind == SOCKET_LISTENER ? TCP_LISTEN : TCP_CLOSED),
        };
        return 0;
    }
    *out = (struct pnet_tcp_info){
        .tcpi_state = linux_state(info.state),
        .tcpi_ca_state = info.in_loss ? 4 : info.in_recovery ? 3 : info.in_disorder ? 1 : 0,
        .tcpi_retransmits = (uint8_t)min_size(info.retransmits, 255),
        .tcpi_options = (uint8_t)(info.timestamps | info.sack << 1 | info.window_scaling << 2),
        .tcpi_snd_wscale = info.snd_scale,
        .tcpi_rcv_wscale = info.rcv_scale,
        .tcpi_rto = info.rto_us,
        .tcpi_rtt = info.srtt_us,
        .tcpi_rttvar = info.rttvar_us,
        .tcpi_min_rtt = info.rtt_min_us,
        .tcpi_snd_mss = info.snd_mss,
        .tcpi_rcv_mss = info.rcv_mss,
        .tcpi_pmtu = info.path_mtu_bytes,
        .tcpi_snd_cwnd = info.snd_mss == 0 ? 0 : info.cwnd_bytes / info.snd_mss,
        .tcpi_snd_ssthresh = info.ssthresh_bytes == UINT32_MAX || info.snd_mss == 0
                                 ? 0x7fffffff : info.ssthresh_bytes / info.snd_mss,
        .tcpi_unacked = info.unacked_segments,
        .tcpi_sacked = in_segments(info.sacked_bytes, info.snd_mss),
        .tcpi_lost = in_segments(info.lost_bytes, info.snd_mss),
        .tcpi_total_retrans = (uint32_t)info.retransmits_total,
        .tcpi_notsent_bytes = info.unsent_bytes,
        .tcpi_unread_bytes = info.unread_bytes,
        .tcpi_snd_wnd = info.snd_wnd,
        .tcpi_rcv_wnd = info.rcv_wnd,
        .tcpi_bytes_acked = info.bytes_acked,
        .tcpi_bytes_received = info.bytes_received,
    };
    return 0;
}
