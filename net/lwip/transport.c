/* net/transport.h over lwIP's callback interface: connections, and the loop's calls. net/lwip/port.h lists the other
 * files.
 *
 * lwIP would acknowledge every second segment before the application reads the data. The callback delays the
 * acknowledgement, and transport_idle sends the acknowledgement as soon as the loop has no other work. */
#include "net/transport_path.h"

#include "net/lwip/port.h"

#include "lwip/init.h"
#include "lwip/priv/tcp_priv.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"

_Static_assert(LWIP_PORT_CONNECTIONS == TRANSPORT_CONNECTION_COUNT_MAX, "lwipopts.h sizes its pools by it");
_Static_assert(LWIP_PORT_MESSAGES == 32, "free_areas has a bit for each");

enum {
    /* Frames without an event (ACKs, ARP) that are processed before the loop gets its turn. */
    FRAMES_PER_POLL_MAX = 32,
    /* Random local ports that are tried before giving up. At most 40 of 16384 are in use. */
    PORT_TRIES_MAX = 16,
    PORT_FIRST = 49152, /* RFC 6335 §6: dynamic ports */
    PORT_COUNT = 16384,
    NO_AREA = -1,
};

enum phase { FREE, CONNECTING, OPEN, FIN_SENT, GONE /* TRANSPORT_CLOSED is queued */ };

struct connection {
    enum phase phase;
    struct tcp_pcb *pcb; /* NULL in FREE and GONE */
    uint32_t local_address, address;
    uint16_t port, peer_port;
    bool held;               /* transport_hold: lwIP keeps the data that come, and gives them again */
    bool held_end;           /* the peer's FIN came meanwhile */
    bool held_done;          /* so did the end in order: TRANSPORT_CLOSED waits for the held data */
    struct pbuf *held_chain; /* data of a queued event, and data that came with the FIN */

    /* Message areas. An area is sent in place, so it is in use until all its bytes are acknowledged. The lowest free
     * area is taken next: with one answer in flight two areas alternate, and stay in the cache. */
    uint32_t free_areas;              /* a bit each */
    int area;                         /* the area that the application writes, or NO_AREA */
    uint64_t sent_bytes, acked_bytes; /* positions in the stream since it opened */
    uint32_t sent_first, sent_count;  /* ring of areas in flight */
    struct {
        uint64_t end_bytes; /* the area is free once acked_bytes reaches this position */
        uint8_t area;
    } sent[LWIP_PORT_MESSAGES];
};

static struct connection connections[TRANSPORT_CONNECTION_COUNT_MAX];
static uint8_t areas[TRANSPORT_CONNECTION_COUNT_MAX][LWIP_PORT_MESSAGES][TRANSPORT_MESSAGE_BYTES_MAX]
    __attribute__((aligned(64)));
static uint32_t acks_due; /* a bit per connection */
static struct netdev *device;

static int index_of(const struct connection *c) { return (int)(c - connections); }

/* Checks the whole state of one connection. */
static void connection_check(const struct connection *c)
{
    ASSERT(c >= connections && c < connections + TRANSPORT_CONNECTION_COUNT_MAX);
    ASSERT((c->pcb == NULL) == (c->phase == FREE || c->phase == GONE));
    ASSERT(c->acked_bytes <= c->sent_bytes);
    ASSERT(c->sent_count <= LWIP_PORT_MESSAGES);
    ASSERT(c->sent_first < LWIP_PORT_MESSAGES);
    if (c->area != NO_AREA && c->phase != FREE) {
        ASSERT(c->area >= 0 && c->area < LWIP_PORT_MESSAGES);
        ASSERT((c->free_areas & (uint32_t)BIT(c->area)) == 0);
    }
    if (c->sent_count > 0)
        ASSERT(c->sent[(c->sent_first + c->sent_count - 1) % LWIP_PORT_MESSAGES].end_bytes == c->sent_bytes);
}

/* Adds an event of a connection to the queue. */
static struct queued_event *connection_report(const struct connection *c, enum transport_event_kind kind)
{
    struct queued_event *queued = events_add(kind);
    queued->event.connection = index_of(c);
    queued->event.address = c->address;
    queued->event.port = c->port;
    queued->event.peer_port = c->peer_port;
    return queued;
}

static void held_free(struct connection *c)
{
    if (c->held_chain != NULL)
        pbuf_free(c->held_chain);
    c->held_chain = NULL;
}

static void held_add(struct connection *c, struct pbuf *chain)
{
    if (c->held_chain == NULL)
        c->held_chain = chain;
    else
        pbuf_cat(c->held_chain, chain);
}

static void connection_end(struct connection *c, enum transport_reason reason)
{
    ASSERT(c->phase != FREE && (c->phase != GONE || c->held_done));
    c->pcb = NULL;
    c->phase = GONE;
    acks_due &= ~(uint32_t)BIT(index_of(c));
    c->held_done = c->held && reason == TRANSPORT_DONE;
    if (c->held_done)
        return;
    held_free(c);
    connection_report(c, TRANSPORT_CLOSED)->event.reason = reason;
}

/* ---- Callbacks of lwIP ---- */

static err_t on_received(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
    struct connection *c = arg;
    (void)err;
    ASSERT(c->pcb == pcb);
    if (p == NULL) {
        if (c->held)
            c->held_end = true;
        else
            connection_report(c, TRANSPORT_ENDED);
        return ERR_OK;
    }
    if (c->held) {
        if (pcb->state <= FIN_WAIT_2)
            return ERR_MEM;
        held_add(c, p); /* the FIN came with them: lwIP would free them with the pcb */
        return ERR_OK;
    }
    connection_report(c, TRANSPORT_DATA)->chain = p;
    tcp_recved(pcb, p->tot_len); /* the application will take all of it before the next frame */
    if (pcb->state != TIME_WAIT && (pcb->flags & (TF_ACK_NOW | TF_ACK_DELAY))) { /* TIME-WAIT leaves the connection */
        tcp_clear_flags(pcb, TF_ACK_NOW);
        tcp_set_flags(pcb, TF_ACK_DELAY);
        acks_due |= (uint32_t)BIT(index_of(c));
    }
    return ERR_OK;
}

static err_t on_acked(void *arg, struct tcp_pcb *pcb, u16_t bytes)
{
    struct connection *c = arg;
    ASSERT(c->pcb == pcb);
    c->acked_bytes += bytes;
    while (c->sent_count > 0 && c->sent[c->sent_first].end_bytes <= c->acked_bytes) {
        c->free_areas |= (uint32_t)BIT(c->sent[c->sent_first].area);
        c->sent_first = (c->sent_first + 1) % LWIP_PORT_MESSAGES;
        c->sent_count--;
    }
    connection_check(c);
    return ERR_OK;
}

/* Ends a connection that lwIP has given up. The pcb is freed already. */
static void on_error(void *arg, err_t err)
{
    struct connection *c = arg;
    enum transport_reason reason;
    ASSERT(c->phase != FREE && c->phase != GONE);
    switch (err) {
    case ERR_CLSD:
        reason = TRANSPORT_DONE; /* the last ACK, after FINs both ways */
        break;
    case ERR_RST:
        reason = c->phase == CONNECTING ? TRANSPORT_REFUSED : TRANSPORT_RESET;
        break;
    default: /* lwIP gave up, or the connection's local address is no longer ours */
        reason = c->local_address != transport_network()->address               ? TRANSPORT_UNREACHABLE
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
    ASSERT(c->phase == CONNECTING);
    ASSERT(c->pcb == pcb);
    if (pcb->nrtx == 0) /* RFC 6928 §2: ten segments, unless the SYN was lost */
        pcb->cwnd = (tcpwnd_size_t)min_size(10u * pcb->mss, 0xffff);
    connection_opened(c, pcb);
    connection_report(c, TRANSPORT_CONNECTED);
    return ERR_OK;
}

/* ---- Connections ---- */

static struct connection *connection_take(struct tcp_pcb *pcb, uint32_t address, uint16_t peer_port)
{
    for (size_t i = 0; i < ARRAY_COUNT(connections); i++) {
        struct connection *c = &connections[i];
        if (c->phase != FREE)
            continue;
        *c = (struct connection){
            .phase = CONNECTING,
            .pcb = pcb,
            .local_address = transport_network()->address,
            .address = address,
            .port = pcb->local_port,
            .peer_port = peer_port,
            .free_areas = UINT32_MAX,
            .area = NO_AREA,
        };
        tcp_arg(pcb, c);
        tcp_recv(pcb, on_received);
        tcp_sent(pcb, on_acked);
        tcp_err(pcb, on_error);
        tcp_nagle_disable(pcb);
        connection_check(c);
        return c;
    }
    return NULL;
}

static err_t on_accepted(void *arg, struct tcp_pcb *pcb, err_t err)
{
    (void)arg;
    if (err != ERR_OK || pcb == NULL)
        return ERR_VAL; /* lwIP had no pcb for the connection, and has counted it */
    struct connection *c = connection_take(pcb, lwip_ntohl(ip_addr_get_ip4_u32(&pcb->remote_ip)), pcb->remote_port);
    if (c == NULL) {
        port_counters.accept_drop_no_connection++;
        return ERR_MEM; /* lwIP resets the connection */
    }
    ASSERT(c->pcb == pcb);
    connection_opened(c, pcb);
    connection_report(c, TRANSPORT_ACCEPTED);
    return ERR_OK;
}

static struct connection *connection_at(int id)
{
    ASSERT(id >= 0 && id < TRANSPORT_CONNECTION_COUNT_MAX);
    return &connections[id];
}

/* RFC 6056 §3.3.1: Binds to a random port; tries another if the port is taken. tcp_bind also refuses ports in
 * TIME-WAIT. */
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
    bool subnet_broadcast = network->mask < 0xfffffffe && (address | network->mask) == 0xffffffff
                            && (address & network->mask) == (network->address & network->mask);
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
        tcp_abort(pcb); /* before the connection is up, tcp_abort only frees the pcb */
        return -1;
    }
    ip_addr_t to = IPADDR4_INIT(lwip_htonl(address));
    if (!network_has_route(address) || tcp_connect(pcb, &to, port, on_connected) != ERR_OK) {
        tcp_err(pcb, NULL);
        tcp_abort(pcb);
        connection_end(c, TRANSPORT_UNREACHABLE);
    }
    connection_check(c);
    return index_of(c);
}

bool transport_listen(uint16_t port)
{
    ASSERT(port != 0);
    struct tcp_pcb *pcb = tcp_new();
    if (pcb == NULL)
        return false;
    ip_set_option(pcb, SOF_REUSEADDR); /* connections of a run before may still be in TIME-WAIT */
    if (tcp_bind(pcb, IP4_ADDR_ANY, port) == ERR_OK) {
        struct tcp_pcb *listener = tcp_listen(pcb); /* frees `pcb`, except without memory */
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
        tcp_shutdown(c->pcb, 0, 1); /* without memory for the FIN, lwIP's timer tries again */
    }
    connection_check(c);
}

void transport_abort(int connection, uint64_t now_ns)
{
    struct connection *c = connection_at(connection);
    hooks_now_ns = now_ns;
    if (c->phase == FREE || (c->phase == GONE && !c->held_done))
        return;
    if (c->pcb != NULL) {
        tcp_err(c->pcb, NULL);
        tcp_abort(c->pcb);
    }
    events_forget(index_of(c));
    connection_end(c, TRANSPORT_ABORTED);
    connection_check(c);
}

/* RFC 5927 §4.1: Ends the connection whose SYN has the quoted sequence number. Sends no RST: the peer has no
 * connection. */
static void unreachable_received(const struct icmp_error *error)
{
    for (size_t i = 0; i < ARRAY_COUNT(connections); i++) {
        struct connection *c = &connections[i];
        if (c->phase != CONNECTING || c->local_address != error->local_address || c->port != error->local_port
            || c->address != error->address || c->peer_port != error->port || c->pcb->lastack != error->seq)
            continue;
        ASSERT(c->pcb->state == SYN_SENT);
        tcp_err(c->pcb, NULL);
        tcp_abandon(c->pcb, 0);
        connection_end(c, error->reason);
    }
}

/* ---- Messages ---- */

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
    connection_check(c);
    return areas[connection][c->area];
}

/* Returns true if the whole message could leave now, or if nothing is in flight. In that case nobody else would act on
 * a window smaller than the message: lwIP probes a closed window, and sends in pieces through a small one. */
static bool window_allows(const struct tcp_pcb *pcb, uint32_t bytes)
{
    if (pcb->unacked == NULL && pcb->unsent == NULL)
        return true;
    uint32_t window = min_u32(pcb->cwnd, pcb->snd_wnd);
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
    connection_check(c);
    tcp_output(c->pcb); /* a segment that finds no transmit buffer leaves in transport_idle */
    return true;
}

/* Lets lwIP keep what the callback refuses (refused_data). It drops the segments after that; the peer sends them
 * again. */
void transport_hold(int connection, bool held)
{
    struct connection *c = connection_at(connection);
    ASSERT(c->phase != FREE);
    if (c->held == held)
        return;
    c->held = held;
    if (held) {
        c->held_chain = events_set_aside(connection, &c->held_end, &c->held_done);
        return;
    }
    if (c->held_chain != NULL)
        connection_report(c, TRANSPORT_DATA)->chain = c->held_chain;
    c->held_chain = NULL;
    if (c->pcb != NULL && c->pcb->refused_data != NULL)
        tcp_process_refused_data(c->pcb);
    if (c->held_end && (c->pcb != NULL || c->held_done))
        connection_report(c, TRANSPORT_ENDED);
    if (c->held_done)
        connection_report(c, TRANSPORT_CLOSED)->event.reason = TRANSPORT_DONE;
    c->held_end = c->held_done = false;
}

uint32_t transport_unacked_bytes(int connection)
{
    struct connection *c = connection_at(connection);
    return (uint32_t)(c->sent_bytes - c->acked_bytes);
}

/* ---- The loop's calls ---- */

bool transport_init(const struct transport_config *config, uint64_t now_ns)
{
    ASSERT(config->device != NULL);
    if (config->connection_count > LWIP_PORT_CONNECTIONS) {
        log_line("lwip: the program needs %u connections, the port of lwIP has %u: build it with STACK=own",
                 config->connection_count, LWIP_PORT_CONNECTIONS);
        return false;
    }
    hooks_now_ns = now_ns;
    device = config->device;
    hooks_init(config->secret);
    lwip_init();
    timers_init((uint32_t)(config->rto_min_ns / NS_PER_US), now_ns);
    return network_init(config, now_ns);
}

/* Ends a connection that the last frame brought into TIME-WAIT. lwIP makes no callback then, and keeps the pcb. */
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
    if (event->kind == TRANSPORT_CLOSED) {
        held_free(&connections[event->connection]);
        connections[event->connection].phase = FREE;
    }
    return true;
}

bool transport_poll(uint64_t now_ns, struct transport_event *event)
{
    ASSERT(device != NULL);
    hooks_now_ns = now_ns;
    if (next_event(event))
        return true;
    struct icmp_error refused;
    for (int i = 0; i < FRAMES_PER_POLL_MAX && interface_input(&refused); i++) {
        if (refused.port != 0)
            unreachable_received(&refused);
        notice_time_wait();
        if (next_event(event))
            return true;
    }
    *event = (struct transport_event){ .kind = TRANSPORT_NONE, .connection = -1 };
    return false;
}

static void acks_send(void)
{
    for (; acks_due != 0; acks_due &= acks_due - 1) {
        struct tcp_pcb *pcb = connections[__builtin_ctz(acks_due)].pcb;
        ASSERT(pcb != NULL);
        if (pcb->flags & TF_ACK_DELAY) { /* else a segment sent since then has carried the acknowledgement */
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
    network_poll(now_ns);
    device->ops->poll(device);
    ASSERT(acks_due == 0);
}

uint64_t transport_next_deadline_ns(void)
{
    if (acks_due != 0 || events_waiting())
        return 0;
    uint64_t timers_ns = timers_next_deadline_ns(), network_ns = network_next_deadline_ns();
    return timers_ns < network_ns ? timers_ns : network_ns;
}

const char *transport_name(void) { return "lwip 2.1.3"; }

bool transport_alters_frames(void) { return true; } /* lwIP: tcp_input turns the header's numbers into host order */

bool transport_counter_group(size_t index, struct counter_group *group) { return counters_group(index, group); }
