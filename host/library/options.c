/* libperegrine-net.so: options of sockets by Linux' names and numbers, TCP_INFO, and the bytes in the queues. */
#include "host/library/internal.h"

#include "base/time.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* Linux' names for level IPPROTO_TCP. <netinet/tcp.h> and net/tcp/tcp.h name the states of TCP alike, and exclude each
 * other. */
enum {
    OPTION_NODELAY = 1,
    OPTION_MAXSEG = 2,
    OPTION_CORK = 3,
    OPTION_KEEPIDLE = 4,
    OPTION_KEEPINTVL = 5,
    OPTION_KEEPCNT = 6,
    OPTION_SYNCNT = 7,
    OPTION_LINGER2 = 8,
    OPTION_QUICKACK = 12,
    OPTION_USER_TIMEOUT = 18,
};
/* The two bits of ECN in the TOS byte. Level IPPROTO_IP has its names in <netinet/in.h>. */
enum { TOS_ECN_MASK = 3 };

enum {
    FIN_WAIT_2_S_MAX = 120, /* Linux: TCP_FIN_TIMEOUT_MAX */
    SYN_COUNT_MAX = 127,    /* Linux: MAX_TCP_SYNCNT */
    US_PER_S = 1000000,
};

int pnet_set_linger(struct pnet *net, int number, int on, int seconds)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    s->linger = on != 0;
    s->linger_s = seconds;
    return 0;
}

/* RFC 6298 (5.5): Returns the time that `count` retransmissions of a SYN take, with the wait for the last. */
static uint32_t syn_patience_us(const struct tcp_policy *policy, int count)
{
    uint64_t patience_us = 0, rto_us = policy->rto_initial_us;
    ASSERT(rto_us > 0);
    ASSERT(count >= 0 && count <= SYN_COUNT_MAX);
    for (int i = 0; i <= count; i++) {
        patience_us += rto_us;
        rto_us = min_u64(2 * rto_us, policy->rto_max_us);
    }
    return (uint32_t)min_u64(patience_us, UINT32_MAX);
}

/* Returns the number of SYN retransmissions that fit into syn_give_up_us. */
static int syn_count(const struct tcp_policy *policy)
{
    int count = 0;
    ASSERT(policy->syn_give_up_us > 0);
    while (count < SYN_COUNT_MAX && syn_patience_us(policy, count) < policy->syn_give_up_us)
        count++;
    return count;
}

/* Returns the error that ended the connection, else the error that ICMP reported for it, as Linux does; and clears
 * it. */
static int take_error(struct pnet *net, struct socket *s)
{
    if (s->kind != SOCKET_CONNECTION)
        return pnet_error_take(s);
    enum tcp_result error = tcp_take_error(net->stack, s->id);
    return pnet_errno_of(error != TCP_OK ? error : tcp_take_soft_error(net->stack, s->id));
}

static int get_max_segment(struct pnet *net, struct socket *s)
{
    struct tcp_info info;
    if (s->kind == SOCKET_CONNECTION && tcp_info(net->stack, s->id, &info))
        return (int)info.snd_mss;
    return s->policy.mss != 0 ? s->policy.mss : 536; /* RFC 9293 MUST-15: until the peer has announced one */
}

static int get_type(struct pnet *net, struct socket *s) { return (void)net, (void)s, SOCK_STREAM; }
static int get_listens(struct pnet *net, struct socket *s) { return (void)net, s->kind == SOCKET_LISTENER; }
static int get_syn_count(struct pnet *net, struct socket *s) { return (void)net, syn_count(&s->policy); }
static int get_quick_ack(struct pnet *net, struct socket *s) { return (void)net, s->policy.ack != TCP_ACK_DELAYED; }

static int get_linger2(struct pnet *net, struct socket *s)
{
    (void)net;
    return s->linger2_s != 0 ? s->linger2_s : (int)(s->policy.fin_wait_2_us / US_PER_S);
}

static int get_mtu_discover(struct pnet *net, struct socket *s)
{
    (void)net;
    return s->policy.path_mtu ? IP_PMTUDISC_WANT : IP_PMTUDISC_DONT;
}

static void set_receive_buffer(struct pnet *net, struct socket *s, int value)
{
    (void)net;
    s->policy.receive_buffer_bytes = (uint32_t)value;
    s->policy.window_scale = TCP_WINDOW_SCALE_AUTO; /* as in Linux: the window never grows beyond this buffer */
}

static void set_syn_count(struct pnet *net, struct socket *s, int value)
{
    (void)net;
    s->policy.syn_give_up_us = syn_patience_us(&s->policy, value);
}

static void set_quick_ack(struct pnet *net, struct socket *s, int value)
{
    (void)net;
    s->policy.ack = value != 0 ? TCP_ACK_QUICK : TCP_ACK_DELAYED;
}

/* Sets the wait for the peer's FIN. Below 0 is "not at all" in Linux, the shortest time here. */
static void set_linger2(struct pnet *net, struct socket *s, int value)
{
    s->linger2_s = value < 0 ? -1 : (int)min_size((size_t)value, FIN_WAIT_2_S_MAX);
    s->policy.fin_wait_2_us = value < 0    ? 1
                              : value == 0 ? tcp_policy_get(net->stack)->fin_wait_2_us
                                           : (uint32_t)s->linger2_s * US_PER_S;
}

/* Sets how long data may stay unacknowledged, in milliseconds; 0: the stack's own time. */
static void set_user_timeout(struct pnet *net, struct socket *s, int value)
{
    s->user_timeout_ms = value;
    s->policy.user_timeout = value != 0;
    s->policy.data_give_up_us = value == 0 ? tcp_policy_get(net->stack)->data_give_up_us
                                           : (uint32_t)min_size((size_t)value * 1000, UINT32_MAX);
}

static void set_tos(struct pnet *net, struct socket *s, int value)
{
    (void)net;
    s->policy.tos = (uint8_t)(value & ~TOS_ECN_MASK); /* the last two bits are TCP's own, for ECN */
}

static void set_mtu_discover(struct pnet *net, struct socket *s, int value)
{
    (void)net;
    s->policy.path_mtu = value != IP_PMTUDISC_DONT;
}

/* ---- The table ---- */

/* Gives a new value to an open connection. */
#define APPLY(what, set, ...)                                                                                          \
    static void apply_##what(struct pnet *net, const struct socket *s) { set(net->stack, s->id, __VA_ARGS__); }
APPLY(send_buffer, tcp_set_send_buffer, s->policy.send_buffer_bytes)
APPLY(receive_buffer, tcp_set_receive_buffer, s->policy.receive_buffer_bytes)
APPLY(keepalive, tcp_set_keepalive, s->policy.keepalive, net->now_ns)
APPLY(keepalive_times, tcp_set_keepalive_times, &s->policy, net->now_ns)
APPLY(nodelay, tcp_set_nodelay, s->policy.nodelay, net->now_ns)
APPLY(cork, tcp_set_cork, s->policy.cork, net->now_ns)
APPLY(mss, tcp_set_mss, s->policy.mss)
APPLY(ack_policy, tcp_set_ack_policy, s->policy.ack, s->policy.ack_delay_us)
APPLY(patience, tcp_set_patience, &s->policy)
APPLY(packets, tcp_set_packets, &s->policy, net->now_ns)

/* The unit of an option's value. The member has microseconds for SECONDS. With OR_ZERO and OR_MINUS_1 that value stands
 * for the stack's own. */
enum unit { READ_ONLY, FLAG, NUMBER, NUMBER_OR_ZERO, NUMBER_OR_MINUS_1, SECONDS };

/* An option. `get` and `set` are for a value that its member does not say alone. */
struct option {
    int level, name;
    enum unit unit;
    uint16_t offset, bytes; /* the member of struct socket */
    int least, most;
    int (*get)(struct pnet *net, struct socket *s);
    void (*set)(struct pnet *net, struct socket *s, int value);
    void (*apply)(struct pnet *net, const struct socket *s);
};
#define MEMBER(member) offsetof(struct socket, member), sizeof(((struct socket *)NULL)->member)
#define POLICY(member) MEMBER(policy.member)

/* Bounds: Linux, MAX_TCP_KEEPIDLE, MAX_TCP_KEEPCNT, TCP_MIN_MSS, MAX_TCP_WINDOW. */
static const struct option options[] = {
    { SOL_SOCKET, SO_ERROR, READ_ONLY, .get = take_error },
    { SOL_SOCKET, SO_TYPE, READ_ONLY, .get = get_type },
    { SOL_SOCKET, SO_ACCEPTCONN, READ_ONLY, .get = get_listens },
    { SOL_SOCKET, SO_REUSEADDR, FLAG, MEMBER(reuse_address), .apply = NULL },
    { SOL_SOCKET, SO_SNDBUF, NUMBER, POLICY(send_buffer_bytes), 1, INT_MAX, .apply = apply_send_buffer },
    { SOL_SOCKET, SO_RCVBUF, NUMBER, POLICY(receive_buffer_bytes), 1, INT_MAX, NULL, set_receive_buffer,
      apply_receive_buffer },
    { SOL_SOCKET, SO_KEEPALIVE, FLAG, POLICY(keepalive), .apply = apply_keepalive },
    { IPPROTO_TCP, OPTION_NODELAY, FLAG, POLICY(nodelay), .apply = apply_nodelay },
    { IPPROTO_TCP, OPTION_CORK, FLAG, POLICY(cork), .apply = apply_cork },
    { IPPROTO_TCP, OPTION_MAXSEG, NUMBER_OR_ZERO, POLICY(mss), 88, 32767, get_max_segment, NULL, apply_mss },
    { IPPROTO_TCP, OPTION_SYNCNT, NUMBER, POLICY(syn_give_up_us), 1, SYN_COUNT_MAX, get_syn_count, set_syn_count,
      NULL },
    { IPPROTO_TCP, OPTION_QUICKACK, FLAG, POLICY(ack), 0, 0, get_quick_ack, set_quick_ack, apply_ack_policy },
    { IPPROTO_TCP, OPTION_KEEPIDLE, SECONDS, POLICY(keepalive_idle_us), 1, 32767, .apply = apply_keepalive_times },
    { IPPROTO_TCP, OPTION_KEEPINTVL, SECONDS, POLICY(keepalive_interval_us), 1, 32767, .apply = apply_keepalive_times },
    { IPPROTO_TCP, OPTION_KEEPCNT, NUMBER, POLICY(keepalive_count), 1, 127, .apply = apply_keepalive_times },
    { IPPROTO_TCP, OPTION_LINGER2, NUMBER, MEMBER(linger2_s), INT_MIN, INT_MAX, get_linger2, set_linger2,
      apply_patience },
    { IPPROTO_TCP, OPTION_USER_TIMEOUT, NUMBER, MEMBER(user_timeout_ms), 0, INT_MAX, NULL, set_user_timeout,
      apply_patience },
    { IPPROTO_IP, IP_TOS, NUMBER, POLICY(tos), INT_MIN, INT_MAX, NULL, set_tos, apply_packets },
    { IPPROTO_IP, IP_TTL, NUMBER_OR_MINUS_1, POLICY(ttl), 1, 255, .apply = apply_packets },
    { IPPROTO_IP, IP_MTU_DISCOVER, NUMBER, POLICY(path_mtu), IP_PMTUDISC_DONT, IP_PMTUDISC_DO, get_mtu_discover,
      set_mtu_discover, apply_packets },
};

static const struct option *option_of(int level, int name)
{
    for (size_t i = 0; i < ARRAY_COUNT(options); i++)
        if (options[i].level == level && options[i].name == name)
            return &options[i];
    return NULL;
}

/* Returns true if a value stands for the stack's own. */
static bool is_own(const struct option *o, int value)
{
    return (o->unit == NUMBER_OR_ZERO && value == 0) || (o->unit == NUMBER_OR_MINUS_1 && value == -1);
}

static void store(const struct pnet *net, const struct option *o, struct socket *s, int value)
{
    uint8_t *member = (uint8_t *)s + o->offset;
    const uint8_t *policy = (const uint8_t *)&s->policy, *own = (const uint8_t *)tcp_policy_get(net->stack);
    uint64_t number = o->unit == FLAG ? value != 0 : (uint64_t)value * (o->unit == SECONDS ? US_PER_S : 1);
    ASSERT(!is_own(o, value) || member >= policy);
    memcpy(member, is_own(o, value) ? own + (member - policy) : (const uint8_t *)&number, o->bytes);
}

int pnet_set_option(struct pnet *net, int number, int level, int name, int value)
{
    struct socket *s = pnet_socket_of(net, number);
    const struct option *o = option_of(level, name);
    if (s == NULL)
        return -EBADF;
    if (o == NULL || o->unit == READ_ONLY)
        return -ENOPROTOOPT;
    if (o->unit != FLAG && !is_own(o, value) && (value < o->least || value > o->most))
        return -EINVAL;
    if (o->set != NULL)
        o->set(net, s, value);
    else
        store(net, o, s, value);
    if (s->kind == SOCKET_CONNECTION && o->apply != NULL)
        o->apply(net, s);
    if (s->kind == SOCKET_LISTENER)
        tcp_listen_change(net->stack, s->id, s->backlog, &s->policy);
    pnet_socket_check(s);
    return 0;
}

int pnet_get_option(struct pnet *net, int number, int level, int name, int *value)
{
    struct socket *s = pnet_socket_of(net, number);
    const struct option *o = option_of(level, name);
    uint64_t stored = 0;
    if (s == NULL)
        return -EBADF;
    if (value == NULL)
        return -EFAULT;
    if (o == NULL)
        return -ENOPROTOOPT;
    pnet_socket_check(s);
    memcpy(&stored, (const uint8_t *)s + o->offset, o->bytes);
    *value = o->get != NULL ? o->get(net, s) : (int)(o->unit == SECONDS ? stored / US_PER_S : stored);
    return 0;
}

static uint8_t linux_state(enum tcp_state state)
{
    static const uint8_t states[] = {
        [TCP_CLOSED] = 7,      [TCP_LISTEN] = 10,    [TCP_SYN_SENT] = 2,   [TCP_SYN_RECEIVED] = 3,
        [TCP_ESTABLISHED] = 1, [TCP_FIN_WAIT_1] = 4, [TCP_FIN_WAIT_2] = 5, [TCP_CLOSE_WAIT] = 8,
        [TCP_CLOSING] = 11,    [TCP_LAST_ACK] = 9,   [TCP_TIME_WAIT] = 6,
    };
    ASSERT((size_t)state < ARRAY_COUNT(states));
    return states[state];
}

static uint32_t in_segments(uint32_t bytes, uint32_t mss) { return mss == 0 ? 0 : (bytes + mss - 1) / mss; }

int pnet_tcp_info(struct pnet *net, int number, struct pnet_tcp_info *out)
{
    struct socket *s = pnet_socket_of(net, number);
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
    ASSERT(info.window_limited_since_ns <= net->now_ns);
    uint64_t busy_ns = info.busy_since_ns != 0 ? net->now_ns - info.busy_since_ns : 0;
    uint64_t limited_ns = info.window_limited_since_ns != 0 ? net->now_ns - info.window_limited_since_ns : 0;
    *out = (struct pnet_tcp_info){
        .tcpi_state = linux_state(info.state),
        .tcpi_ca_state = info.in_loss       ? 4
                         : info.in_recovery ? 3
                         : info.in_disorder ? 1
                                            : 0,
        .tcpi_retransmits = (uint8_t)min_size(info.retransmits, 255),
        .tcpi_options = (uint8_t)(info.timestamps | info.sack << 1 | info.window_scaling << 2 | info.ecn << 3
                                  | info.ecn_seen << 4),
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
                                 ? 0x7fffffff
                                 : info.ssthresh_bytes / info.snd_mss,
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
        .tcpi_retrans = in_segments(info.resent_bytes, info.snd_mss),
        .tcpi_reordering = info.reordering_segments,
        .tcpi_advmss = info.mss_offered,
        .tcpi_backoff = info.retransmits,
        .tcpi_probes = info.window_probes,
        .tcpi_reord_seen = info.reordering_count,
        .tcpi_busy_time = (info.busy_ns + busy_ns) / 1000,
        .tcpi_last_data_recv = (uint32_t)((net->now_ns - info.last_data_received_ns) / NS_PER_MS),
        .tcpi_rwnd_limited = (info.window_limited_ns + limited_ns) / 1000,
    };
    return 0;
}

int pnet_ioctl(struct pnet *net, int number, unsigned long request, int *value)
{
    struct socket *s = pnet_socket_of(net, number);
    struct tcp_info info = { 0 };
    if (s == NULL)
        return -EBADF;
    if (value == NULL)
        return -EFAULT;
    if (request != PNET_FIONREAD && request != PNET_SIOCOUTQ && request != PNET_SIOCOUTQNSD)
        return -ENOTTY;
    if (s->kind == SOCKET_LISTENER)
        return -EINVAL;
    if (s->kind == SOCKET_CONNECTION)
        tcp_info(net->stack, s->id, &info);
    ASSERT(info.unread_bytes <= INT32_MAX);
    bool opening = info.state == TCP_SYN_SENT || info.state == TCP_SYN_RECEIVED;
    switch (request) {
    case PNET_FIONREAD:
        *value = (int)info.unread_bytes;
        return 0;
    case PNET_SIOCOUTQ:
        *value = opening ? 0 : (int)(info.unacked_bytes + info.unsent_bytes);
        return 0;
    default:
        *value = opening ? 0 : (int)info.unsent_bytes;
        return 0;
    }
}
