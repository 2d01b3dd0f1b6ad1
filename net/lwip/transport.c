/* net/transport.h over lwIP's callback interface: connections, and the loop's calls. Frames, addresses, timers,
 * datagrams and the queue of events are the other files' (net/lwip/port.h).
 *
 * lwIP would acknowledge every second segment before the callback's data has been looked at. The callback turns that
 * into a delayed acknowledgement, and transport_idle, which the loop calls as soon as it has nothing better to do,
 * sends it. */
#include "net/transport.h"

#include "net/lwip/port.h"

#include "lwip/init.h"
#include "lwip/priv/tcp_priv.h"

#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"

_Static_assert(LWIP_PORT_CONNECTIONS == TRANSPORT_CONNECTION_COUNT_MAX, "lwipopts.h sizes its pools by it");
_Static_assert(LWIP_PORT_MESSAGES == 32, "free_areas has a bit for each");

enum {
    FRAMES_PER_POLL_MAX = 32,   /* frames without an event (ACKs, ARP) looked at before the loop gets its turn */
    PORT_TRIES_MAX = 16,        /* random local ports tried before giving up; at most 40 of 16384 are in use */
    PORT_FIRST = 49152,         /* RFC 6335 §6: dynamic ports */
    PORT_COUNT = 16384,
    NO_AREA = -1,
};

enum phase { FREE, CONNECTING, OPEN, FIN_SENT, GONE /* TRANSPORT_CLOSED is queued */ };

struct connection {
    enum phase phase;
    struct tcp_pcb *pcb;                /* NULL in FREE and GONE */
    uint32_t local_address, address;
    uint16_t port, peer_port;

    /* Message areas. They are sent where they lie, so one is in use until all of it is acknowledged. The lowest free
     * one is taken next: with one answer in flight two areas alternate, and stay in the cache. */
    uint32_t free_areas;                /* a bit each */
    int area;                           /* being written by the application, or NO_AREA */
    uint64_t sent_bytes, acked_bytes;   /* of the stream, since it opened */
    uint32_t sent_first, sent_count;    /* ring of areas in flight */
    struct {
        uint64_t end_bytes;             /* of the stream: the area is free again when acked_bytes reaches it */
        uint8_t area;
    } sent[LWIP_PORT_MESSAGES];
};

static struct connection connections[TRANSPORT_CONNECTION_COUNT_MAX];
static uint8_t areas[TRANSPORT_CONNECTION_COUNT_MAX][LWIP_PORT_MESSAGES][TRANSPORT_MESSAGE_BYTES_MAX]
    __attribute__((aligned(64)));
static uint32_t acks_due;               /* a bit per connection */
static struct netdev *device;

static int index_of(const struct connection *c) { return (int)(c - connections); }

/* An event of a connection, to be told when its turn comes. */
static struct queued_event *connection_tell(const struct connection *c, enum transport_event_kind kind)
{
    struct queued_event *queued = events_add(kind);
    queued->event.connection = index_of(c);
    queued->event.address = c->address;
    queued->event.port = c->port;
    queued->event.peer_port = c->peer_port;
    return queued;
}

static void connection_end(struct connection *c, enum transport_reason reason)
{
    c->pcb = NULL;
    c->phase = GONE;
    acks_due &= ~(uint32_t)BIT(index_of(c));
    connection_tell(c, TRANSPORT_CLOSED)->event.reason = reason;
}

/* --- What lwIP calls ------------------------------------------------------------------------------------------- */

static err_t on_received(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
    struct connection *c = arg;
    (void)err;
    if (p == NULL) {
        connection_tell(c, TRANSPORT_ENDED);
        return ERR_OK;
    }
    connection_tell(c, TRANSPORT_DATA)->chain = p;
    tcp_recved(pcb, p->tot_len);        /* the application will take all of it before the next frame */
    if (pcb->flags & (TF_ACK_NOW | TF_ACK_DELAY)) {
        tcp_clear_flags(pcb, TF_ACK_NOW);
        tcp_set_flags(pcb, TF_ACK_DELAY);
        acks_due |= (uint32_t)BIT(index_of(c));
    }
    return ERR_OK;
}

static err_t on_acked(void *arg, struct tcp_pcb *pcb, u16_t bytes)
{
    struct connection *c = arg;
    (void)pcb;
    c->acked_bytes += bytes;
    while (c->sent_count > 0 && c->sent[c->sent_first].end_bytes <= c->acked_bytes) {
        c->free_areas |= (uint32_t)BIT(c->sent[c->sent_first].area);
        c->sent_first = (c->sent_first + 1) % LWIP_PORT_MESSAGES;
        c->sent_count--;
    }
    return ERR_OK;
}

/* The pcb is gone already when this is called. */
static void on_error(void *arg, err_t err)
{
    struct connection *c = arg;
    enum transport_reason reason;
    switch (err) {
    case ERR_CLSD:
        reason = TRANSPORT_DONE;        /* the last ACK, after FINs both ways */
        break;
    case ERR_RST:
        reason = c->phase == CONNECTING ? TRANSPORT_REFUSED : TRANSPORT_RESET;
        break;
    default:                            /* lwIP gave up, or the address it was opened from is no longer ours */
        reason = c->local_address != transport_network()->address                   ? TRANSPORT_UNREACHABLE
                 : c->phase == CONNECTING && !network_has_neighbour(c->address) ? TRANSPORT_UNREACHABLE
                                                                                : TRANSPORT_TIMED_OUT;
    }
    connection_end(c, reason);
}

static void connection_opened(struct connection *c, struct tcp_pcb *pcb)
{
    c->phase = OPEN;
    timers_first_sample(pcb);
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
    struct connection *c = arg;
    (void)err;
    if (pcb->nrtx == 0)                 /* RFC 6928 §2: ten segments, unless the SYN was lost */
        pcb->cwnd = (tcpwnd_size_t)min_size(10u * pcb->mss, 0xffff);
    connection_opened(c, pcb);
    connection_tell(c, TRANSPORT_CONNECTED);
    return ERR_OK;
}

/* --- Connections ----------------------------------------------------------------------------------------------- */

static struct connection *connection_take(struct tcp_pcb *pcb, uint32_t address, uint16_t peer_port)
{
    for (size_t i = 0; i < ARRAY_COUNT(connections); i++) {
        struct connection *c = &connections[i];
        if (c->phase != FREE)
            continue;
        *c = (struct connection){
            .phase = CONNECTING, .pcb = pcb, .local_address = transport_network()->address, .address = address,
            .port = pcb->local_port, .peer_port = peer_port, .free_areas = UINT32_MAX, .area = NO_AREA,
        };
        tcp_arg(pcb, c);
        tcp_recv(pcb, on_received);
        tcp_sent(pcb, on_acked);
        tcp_err(pcb, on_error);
        tcp_nagle_disable(pcb);
        return c;
    }
    return NULL;
}

static err_t on_accepted(void *arg, struct tcp_pcb *pcb, err_t err)
{
    (void)arg;
    if (err != ERR_OK || pcb == NULL)
        return ERR_VAL;                 /* lwIP had no pcb for it; counted by lwIP */
    struct connection *c = connection_take(pcb, lwip_ntohl(ip_addr_get_ip4_u32(&pcb->remote_ip)), pcb->remote_port);
    if (c == NULL) {
        port_counters.accept_drop_no_connection++;
        return ERR_MEM;                 /* lwIP resets it */
    }
    connection_opened(c, pcb);
    connection_tell(c, TRANSPORT_ACCEPTED);
    return ERR_OK;
}

static struct connection *connection_at(int id)
{
    ASSERT(id >= 0 && id < TRANSPORT_CONNECTION_COUNT_MAX);
    return &connections[id];
}

/* RFC 6056 §3.3.1: a random port, and another one if it is taken. tcp_bind also refuses one in TIME-WAIT. */
static bool bind_random_port(struct tcp_pcb *pcb)
{
    for (int i = 0; i < PORT_TRIES_MAX; i++)
        if (tcp_bind(pcb, IP4_ADDR_ANY, (u16_t)(PORT_FIRST + lwip_port_random() % PORT_COUNT)) == ERR_OK)
            return true;
    return false;
}

static bool is_unicast(uint32_t address)
{
    const struct transport_network *network = transport_network();
    bool subnet_broadcast = network->mask < 0xfffffffe && (address | network->mask) == 0xffffffff &&
                            (address & network->mask) == (network->address & network->mask);
    return address >> 24 != 0 && address >> 28 < 14 && !subnet_broadcast;
}

int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns)
{
    hooks_now_ns = now_ns;
    if (!transport_network()->up || !is_unicast(address) || port == 0)
        return -1;
    struct tcp_pcb *pcb = tcp_new();
    if (pcb == NULL)
        return -1;
    struct connection *c = bind_random_port(pcb) ? connection_take(pcb, address, port) : NULL;
    if (c == NULL) {
        tcp_abort(pcb);                 /* not connected yet: frees it, sends nothing, calls nothing */
        return -1;
    }
    ip_addr_t to = IPADDR4_INIT(lwip_htonl(address));
    if (!network_has_route(address) || tcp_connect(pcb, &to, port, on_connected) != ERR_OK) {
        tcp_err(pcb, NULL);
        tcp_abort(pcb);
        connection_end(c, TRANSPORT_UNREACHABLE);
    }
    return index_of(c);
}

bool transport_listen(uint16_t port)
{
    struct tcp_pcb *pcb = tcp_new();
    if (pcb == NULL)
        return false;
    ip_set_option(pcb, SOF_REUSEADDR);  /* connections of a run before may still be in TIME-WAIT */
    if (tcp_bind(pcb, IP4_ADDR_ANY, port) == ERR_OK) {
        struct tcp_pcb *listener = tcp_listen(pcb);     /* frees the given pcb, unless there is no memory */
        if (listener != NULL) {
            tcp_accept(listener, on_accepted);
            return true;
        }
    }
    tcp_abort(pcb);
    return false;
}

void transport_close(int connection, uint64_t now_ns)
{
    struct connection *c = connection_at(connection);
    hooks_now_ns = now_ns;
    if (c->phase == CONNECTING) {
        transport_abort(connection, now_ns);
    } else if (c->phase == OPEN) {
        c->phase = FIN_SENT;
        tcp_shutdown(c->pcb, 0, 1);     /* if it has no memory for the FIN now, lwIP's timer tries again */
    }
}

void transport_abort(int connection, uint64_t now_ns)
{
    struct connection *c = connection_at(connection);
    hooks_now_ns = now_ns;
    if (c->phase == FREE || c->phase == GONE)
        return;
    tcp_err(c->pcb, NULL);
    tcp_abort(c->pcb);
    events_forget(index_of(c));
    connection_end(c, TRANSPORT_ABORTED);
}

/* The quoted sequence number must be that of the SYN: RFC 5927 §4.1. Quietly: who turned it away has no use for a RST. */
void transport_unreachable_heard(const struct icmp_error *error)
{
    for (size_t i = 0; i < ARRAY_COUNT(connections); i++) {
        struct connection *c = &connections[i];
        if (c->phase != CONNECTING || c->local_address != error->local_address || c->port != error->local_port ||
            c->address != error->address || c->peer_port != error->port || c->pcb->lastack != error->seq)
            continue;
        tcp_err(c->pcb, NULL);
        tcp_abandon(c->pcb, 0);
        connection_end(c, error->reason);
    }
}

/* --- Messages -------------------------------------------------------------------------------------------------- */

uint8_t *transport_message(int connection)
{
    struct connection *c = connection_at(connection);
    if (c->phase != OPEN)
        return NULL;
    if (c->area == NO_AREA) {
        if (c->free_areas == 0)
            return NULL;
        c->area = __builtin_ctz(c->free_areas);
        c->free_areas &= c->free_areas - 1;
    }
    return areas[connection][c->area];
}

/* lwIP makes its heads when it sends. */
void transport_message_prepare(int connection, uint32_t from, uint32_t bytes)
{
    (void)connection, (void)from, (void)bytes;
}

/* Whether all of it could leave now. With nothing in flight it is taken in any case: lwIP then probes a closed window, or
 * sends in pieces through one that is smaller than the message, which nobody would do otherwise. */
static bool window_allows(const struct tcp_pcb *pcb, uint32_t bytes)
{
    if (pcb->unacked == NULL && pcb->unsent == NULL)
        return true;
    uint32_t window = (uint32_t)min_size(pcb->cwnd, pcb->snd_wnd);
    return pcb->unsent == NULL && pcb->snd_nxt - pcb->lastack + bytes <= window;
}

bool transport_send(int connection, uint32_t from, uint32_t bytes, uint64_t now_ns)
{
    struct connection *c = connection_at(connection);
    hooks_now_ns = now_ns;
    ASSERT(bytes > 0 && bytes <= TRANSPORT_MESSAGE_BYTES_MAX && from <= TRANSPORT_MESSAGE_BYTES_MAX - bytes);
    if (c->phase != OPEN || !window_allows(c->pcb, bytes))
        return false;
    ASSERT(c->area != NO_AREA);
    if (tcp_write(c->pcb, areas[connection][c->area] + from, (u16_t)bytes, 0) != ERR_OK)
        return false;
    c->sent_bytes += bytes;
    uint32_t last = (c->sent_first + c->sent_count++) % LWIP_PORT_MESSAGES;
    c->sent[last].end_bytes = c->sent_bytes;
    c->sent[last].area = (uint8_t)c->area;
    c->area = NO_AREA;
    tcp_output(c->pcb);                 /* what cannot leave for want of a transmit buffer does so in transport_idle */
    return true;
}

uint32_t transport_unacked_bytes(int connection)
{
    struct connection *c = connection_at(connection);
    return (uint32_t)(c->sent_bytes - c->acked_bytes);
}

/* --- The loop's calls ------------------------------------------------------------------------------------------ */

bool transport_init(const struct transport_config *config, uint64_t now_ns)
{
    hooks_now_ns = now_ns;
    device = config->device;
    hooks_init(config->secret);
    lwip_init();
    timers_init(config->rto_min_us, now_ns);
    return network_init(config, now_ns);
}

/* A connection whose FINs have crossed goes into TIME-WAIT without a callback; lwIP keeps the pcb for itself. */
static void notice_time_wait(void)
{
    struct connection *c = hooks_take_segment_owner();
    if (c == NULL || c->pcb == NULL || c->pcb->state != TIME_WAIT)
        return;
    tcp_arg(c->pcb, NULL);
    connection_end(c, TRANSPORT_DONE);
}

static bool next_event(struct transport_event *event)
{
    if (!events_take(event))
        return false;
    if (event->kind == TRANSPORT_CLOSED)
        connections[event->connection].phase = FREE;
    return true;
}

bool transport_poll(uint64_t now_ns, struct transport_event *event)
{
    hooks_now_ns = now_ns;
    if (next_event(event))
        return true;
    for (int i = 0; i < FRAMES_PER_POLL_MAX && interface_input(); i++) {
        notice_time_wait();
        if (next_event(event))
            return true;
    }
    *event = (struct transport_event){.kind = TRANSPORT_NONE, .connection = -1};
    return false;
}

static void acks_send(void)
{
    for (; acks_due != 0; acks_due &= acks_due - 1) {
        struct tcp_pcb *pcb = connections[__builtin_ctz(acks_due)].pcb;
        if (pcb->flags & TF_ACK_DELAY) {        /* else something that was sent since has carried it */
            tcp_ack_now(pcb);
            tcp_output(pcb);
        }
    }
}

void transport_idle(uint64_t now_ns)
{
    hooks_now_ns = now_ns;
    acks_send();
    if (interface_take_stalled())
        tcp_txnow();
    timers_run(now_ns);
    network_tend(now_ns);
    device->ops->tend(device);
}

void transport_warm(void) { }           /* what lwIP touches is its own business */

uint64_t transport_wake_ns(void)
{
    if (acks_due != 0 || events_waiting())
        return 0;
    uint64_t timers_ns = timers_wake_ns(), network_ns = network_wake_ns();
    return timers_ns < network_ns ? timers_ns : network_ns;
}

const char *transport_name(void) { return "lwip 2.1.3"; }

bool transport_counter_group(size_t index, struct counter_group *group) { return counters_group(index, group); }
