/* libperegrine-net.so: options of sockets by Linux' names and numbers, TCP_INFO, and the bytes in the queues. */
#include "host/library/internal.h"

#include "base/time.h"

#include <errno.h>
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

static int set_socket_option(struct pnet *net, struct socket *s, int name, int value)
{
    ASSERT(s->kind != SOCKET_FREE);
    bool open = s->kind == SOCKET_CONNECTION;
    switch (name) {
    case SO_REUSEADDR:
        s->reuse_address = value != 0;
        return 0;
    case SO_SNDBUF:
        if (value <= 0)
            return -EINVAL;
        s->policy.send_buffer_bytes = (uint32_t)value;
        if (open)
            tcp_set_send_buffer(net->stack, s->id, (uint32_t)value);
        return 0;
    case SO_RCVBUF:
        if (value <= 0)
            return -EINVAL;
        s->policy.receive_buffer_bytes = (uint32_t)value;
        s->policy.window_scale = TCP_WINDOW_SCALE_AUTO; /* as in Linux: the window never grows beyond this buffer */
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

static bool in_range(int value, int least, int most) { return value >= least && value <= most; }

static int set_keepalive_option(struct pnet *net, struct socket *s, int name, int value)
{
    ASSERT(name == OPTION_KEEPIDLE || name == OPTION_KEEPINTVL || name == OPTION_KEEPCNT);
    if (!in_range(value, 1, name == OPTION_KEEPCNT ? 127 : 32767)) /* Linux: MAX_TCP_KEEPCNT, MAX_TCP_KEEPIDLE */
        return -EINVAL;
    if (name == OPTION_KEEPIDLE)
        s->policy.keepalive_idle_us = (uint64_t)value * 1000000;
    else if (name == OPTION_KEEPINTVL)
        s->policy.keepalive_interval_us = (uint64_t)value * 1000000;
    else
        s->policy.keepalive_count = (uint32_t)value;
    if (s->kind == SOCKET_CONNECTION)
        tcp_set_keepalive_times(net->stack, s->id, &s->policy, net->now_ns);
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

static int set_tcp_option(struct pnet *net, struct socket *s, int name, int value)
{
    ASSERT(s->kind != SOCKET_FREE);
    bool open = s->kind == SOCKET_CONNECTION;
    switch (name) {
    case OPTION_NODELAY:
        s->policy.nodelay = value != 0;
        if (open)
            tcp_set_nodelay(net->stack, s->id, value != 0, net->now_ns);
        return 0;
    case OPTION_CORK:
        s->policy.cork = value != 0;
        if (open)
            tcp_set_cork(net->stack, s->id, value != 0, net->now_ns);
        return 0;
    case OPTION_MAXSEG:
        if (value != 0 && !in_range(value, 88, 32767)) /* Linux: TCP_MIN_MSS, MAX_TCP_WINDOW */
            return -EINVAL;
        s->policy.mss = value != 0 ? (uint16_t)value : tcp_policy_get(net->stack)->mss;
        if (open)
            tcp_set_mss(net->stack, s->id, s->policy.mss);
        return 0;
    case OPTION_SYNCNT:
        if (!in_range(value, 1, SYN_COUNT_MAX))
            return -EINVAL;
        s->policy.syn_give_up_us = syn_patience_us(&s->policy, value);
        return 0;
    case OPTION_QUICKACK:
        s->policy.ack = value != 0 ? TCP_ACK_QUICK : TCP_ACK_DELAYED;
        if (open)
            tcp_set_ack_policy(net->stack, s->id, s->policy.ack, s->policy.ack_delay_us);
        return 0;
    case OPTION_KEEPIDLE:
    case OPTION_KEEPINTVL:
    case OPTION_KEEPCNT:
        return set_keepalive_option(net, s, name, value);
    case OPTION_LINGER2: /* below 0: "not at all" in Linux, the shortest time here */
        s->linger2_s = value < 0 ? -1 : (int)min_size((size_t)value, FIN_WAIT_2_S_MAX);
        s->policy.fin_wait_2_us = value < 0    ? 1
                                  : value == 0 ? tcp_policy_get(net->stack)->fin_wait_2_us
                                               : (uint32_t)s->linger2_s * 1000000;
        break;
    case OPTION_USER_TIMEOUT: /* milliseconds; 0: the default */
        if (value < 0)
            return -EINVAL;
        s->user_timeout_ms = value;
        s->policy.user_timeout = value != 0;
        s->policy.data_give_up_us = value == 0 ? tcp_policy_get(net->stack)->data_give_up_us
                                               : (uint32_t)min_size((size_t)value * 1000, UINT32_MAX);
        break;
    default:
        return -ENOPROTOOPT;
    }
    if (open)
        tcp_set_patience(net->stack, s->id, &s->policy);
    return 0;
}

static int set_ip_option(struct pnet *net, struct socket *s, int name, int value)
{
    ASSERT(s->kind != SOCKET_FREE);
    switch (name) {
    case IP_TOS: /* the last two bits are TCP's own, for ECN */
        s->policy.tos = (uint8_t)(value & ~TOS_ECN_MASK);
        break;
    case IP_TTL:
        if (value != -1 && !in_range(value, 1, 255))
            return -EINVAL;
        s->policy.ttl = value != -1 ? (uint8_t)value : tcp_policy_get(net->stack)->ttl;
        break;
    case IP_MTU_DISCOVER:
        if (!in_range(value, IP_PMTUDISC_DONT, IP_PMTUDISC_DO))
            return -EINVAL;
        s->policy.path_mtu = value != IP_PMTUDISC_DONT;
        break;
    default:
        return -ENOPROTOOPT;
    }
    if (s->kind == SOCKET_CONNECTION)
        tcp_set_packets(net->stack, s->id, &s->policy, net->now_ns);
    return 0;
}

int pnet_set_option(struct pnet *net, int number, int level, int name, int value)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    int result = level == SOL_SOCKET    ? set_socket_option(net, s, name, value)
                 : level == IPPROTO_TCP ? set_tcp_option(net, s, name, value)
                 : level == IPPROTO_IP  ? set_ip_option(net, s, name, value)
                                        : -ENOPROTOOPT;
    if (result == 0 && s->kind == SOCKET_LISTENER)
        tcp_listen_change(net->stack, s->id, s->backlog, &s->policy);
    pnet_socket_check(s);
    return result;
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

static int get_max_segment(struct pnet *net, const struct socket *s)
{
    struct tcp_info info;
    if (s->kind == SOCKET_CONNECTION && tcp_info(net->stack, s->id, &info))
        return (int)info.snd_mss;
    return s->policy.mss != 0 ? s->policy.mss : 536; /* RFC 9293 MUST-15: until the peer has announced one */
}

int pnet_get_option(struct pnet *net, int number, int level, int name, int *value)
{
    struct socket *s = pnet_socket_of(net, number);
    if (s == NULL)
        return -EBADF;
    if (value == NULL)
        return -EFAULT;
    const struct tcp_policy *p = &s->policy;
    pnet_socket_check(s);
    if (level == SOL_SOCKET) {
        switch (name) {
        case SO_ERROR:
            *value = take_error(net, s);
            return 0;
        case SO_TYPE:
            *value = SOCK_STREAM;
            return 0;
        case SO_ACCEPTCONN:
            *value = s->kind == SOCKET_LISTENER;
            return 0;
        case SO_REUSEADDR:
            *value = s->reuse_address;
            return 0;
        case SO_SNDBUF:
            *value = (int)p->send_buffer_bytes;
            return 0;
        case SO_RCVBUF:
            *value = (int)p->receive_buffer_bytes;
            return 0;
        case SO_KEEPALIVE:
            *value = p->keepalive;
            return 0;
        }
    } else if (level == IPPROTO_IP) {
        switch (name) {
        case IP_TOS:
            *value = p->tos;
            return 0;
        case IP_TTL:
            *value = p->ttl;
            return 0;
        case IP_MTU_DISCOVER:
            *value = p->path_mtu ? IP_PMTUDISC_WANT : IP_PMTUDISC_DONT;
            return 0;
        }
    } else if (level == IPPROTO_TCP) {
        switch (name) {
        case OPTION_NODELAY:
            *value = p->nodelay;
            return 0;
        case OPTION_CORK:
            *value = p->cork;
            return 0;
        case OPTION_SYNCNT:
            *value = syn_count(p);
            return 0;
        case OPTION_MAXSEG:
            *value = get_max_segment(net, s);
            return 0;
        case OPTION_QUICKACK:
            *value = p->ack != TCP_ACK_DELAYED;
            return 0;
        case OPTION_KEEPIDLE:
            *value = (int)(p->keepalive_idle_us / 1000000);
            return 0;
        case OPTION_KEEPINTVL:
            *value = (int)(p->keepalive_interval_us / 1000000);
            return 0;
        case OPTION_KEEPCNT:
            *value = (int)p->keepalive_count;
            return 0;
        case OPTION_LINGER2:
            *value = s->linger2_s != 0 ? s->linger2_s : (int)(p->fin_wait_2_us / 1000000);
            return 0;
        case OPTION_USER_TIMEOUT:
            *value = s->user_timeout_ms;
            return 0;
        }
    }
    return -ENOPROTOOPT;
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
