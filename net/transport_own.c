/* net/transport.h over our own stack: the one stack of the program, in static memory, its connections as events.
 *
 * What the application has been told of a connection is kept here; what is true of it, in the connection. An event is
 * the difference. `tcp.changed` says that looking is worth while, so an idle turn looks at nothing. */
#include "net/transport.h"

#include "kernel/base/hot.h"
#include "kernel/base/log.h"
#include "net/tcp_internal.h"

enum {
    OWN_CONNECTIONS = TRANSPORT_CONNECTION_COUNT_MAX,   /* the ids are theirs; TIME-WAIT has a table of its own */
    OWN_LISTENERS = 4,
    OWN_HALF_OPENS = 64,                /* a SYN flood's: 64 handshakes under way */
    OWN_TIME_WAITS = 256,
    OWN_SEGMENTS = 64,                  /* in flight: 64 answers nobody has acknowledged */
    OWN_RECEIVE_BYTES = 64 * 1024,      /* the largest window without scaling; out-of-order data lies there */
    OWN_SEND_BYTES = 16 * 1024,         /* for messages that must be cut: eleven of the longest */
    OWN_BYTES = NET_ALIGNED(sizeof(struct net_stack))
        + TCP_BYTES(OWN_CONNECTIONS, OWN_LISTENERS, OWN_HALF_OPENS, OWN_TIME_WAITS, OWN_SEGMENTS, OWN_RECEIVE_BYTES,
                    OWN_SEND_BYTES),
    FRAMES_PER_POLL_MAX = 32,           /* frames without an event looked at before the loop gets its turn */
};

/* How far the application's knowledge of a connection goes. */
enum told { TOLD_NOTHING, TOLD_OPENING, TOLD_OPEN, TOLD_ENDED };

static struct {
    struct net_stack *stack;
    struct frame frame;                 /* lent to the application until the next poll */
    bool lent;                          /* the last event's data are: in the frame, or in a ring */
    bool frame_lent;
    int read_connection;                /* whose ring the last event's data lay in; -1: nobody's */
    uint32_t read_bytes;
    enum told told[OWN_CONNECTIONS];
    uint32_t unacked_at_end[OWN_CONNECTIONS];
    int listeners[OWN_LISTENERS];
    uint32_t listener_count, udp_port_count;
    struct transport_network network;
} own = { .read_connection = -1 };

static _Alignas(NET_STACK_ALIGN) uint8_t own_memory[OWN_BYTES];
#define OWN_STACK (*(struct net_stack *)own_memory)

/* ---- Counters ---- */

static const struct counter own_counter_table[] = {
#define OWN_COUNTER(module, name) { #module "." #name, &OWN_STACK.counters.module##_##name },
    NET_COUNTERS(OWN_COUNTER)
#undef OWN_COUNTER
};

bool transport_counter_group(size_t index, struct counter_group *group)
{
    tcp_fast_count(&OWN_STACK);
    if (index == 0)
        *group = (struct counter_group){ own_counter_table, ARRAY_COUNT(own_counter_table) };
    else if (index == 1)
        *group = dhcp_counter_group;
    return index < 2;
}

const char *transport_name(void) { return "own"; }

/* ---- The network ---- */

bool transport_init(const struct transport_config *config, uint64_t now_ns)
{
    struct net_config net = {
        .capacity = {
            .connection_count = OWN_CONNECTIONS,
            .listener_count = OWN_LISTENERS,
            .half_open_count = OWN_HALF_OPENS,
            .time_wait_count = OWN_TIME_WAITS,
            .segment_count = OWN_SEGMENTS,
            .receive_bytes = OWN_RECEIVE_BYTES,
            .send_bytes = OWN_SEND_BYTES,
        },
        .device = config->device,
        .address = config->address,
        .mask = config->mask,
        .gateway = config->gateway,
        .mtu_bytes = config->mtu_bytes,
    };
    const char *why = "";
    memcpy(net.gateway_mac, config->gateway_mac, sizeof net.gateway_mac);
    memcpy(net.secret, config->secret, sizeof net.secret);
    tcp_policy_default(&net.policy);
    net.policy.nodelay = true;
    net.policy.tail_probe_without_sack = true;
    net.policy.tlp_ack_delay_us = 0;            /* the round trips measured contain what a server takes to answer */
    net.policy.syn_give_up_us = 20000000;       /* against MUST-23: a player would rather try anew */
    net.policy.data_give_up_us = 100000000;     /* SHLD-11's least */
    net.policy.receive_buffer_bytes = UINT16_MAX;
    if (config->rto_min_us != 0)
        net.policy.rto_min_us = config->rto_min_us;
    own.stack = net_stack_init(own_memory, sizeof own_memory, &net, now_ns, &why);
    if (own.stack == NULL)
        log_line("net: %s", why);
    return own.stack != NULL;
}

const struct transport_network *transport_network(void)
{
    const struct ipv4_interface *interface = &own.stack->interface;
    const struct net_address *address = &own.stack->address;
    const struct dhcp_lease *lease = address->from_dhcp ? dhcp_lease(&address->dhcp) : NULL;
    own.network = (struct transport_network){
        .up = interface->up && own.stack->device->link_up,
        .from_dhcp = address->from_dhcp,
        .address = interface->address,
        .mask = interface->mask,
        .gateway = address->gateway,
        .mtu_bytes = interface->mtu_bytes,
        .lease_ends_ns = lease != NULL && lease->ends_ns != UINT64_MAX ? lease->ends_ns : 0,
        .waiting_for = net_address_waiting_for(own.stack),
    };
    return &own.network;
}

void transport_idle(uint64_t now_ns) { net_idle(own.stack, now_ns); }
uint64_t transport_wake_ns(void) { return net_wake_ns(own.stack); }

/* ---- Events ---- */

static struct tcp_connection *connection_of(int connection)
{
    ASSERT(connection >= 0 && connection < OWN_CONNECTIONS);
    return tcp_connection_of(own.stack, connection);
}

static void event_begin(struct transport_event *event, enum transport_event_kind kind, const struct tcp_connection *c)
{
    *event = (struct transport_event){
        .kind = kind,
        .connection = c->index,
        .address = c->peer_address,
        .peer_port = c->peer_port,
        .port = c->port,
    };
}

static enum transport_reason reason_of(enum tcp_result error)
{
    switch (error) {
    case TCP_OK:
        return TRANSPORT_DONE;
    case TCP_REFUSED:
        return TRANSPORT_REFUSED;
    case TCP_RESET:
        return TRANSPORT_RESET;
    case TCP_ABORTED:
        return TRANSPORT_ABORTED;
    case TCP_NO_ROUTE:
    case TCP_UNREACHABLE:
        return TRANSPORT_UNREACHABLE;
    default:
        return TRANSPORT_TIMED_OUT;
    }
}

static uint32_t unacked_bytes(const struct tcp_connection *c)
{
    bool syn_out = c->snd_una == c->iss, fin_acked = seq_gt(c->snd_una, c->snd_end);
    return fin_acked ? 0 : c->snd_end - c->snd_una - (syn_out ? 1 : 0);
}

static bool event_closed(struct transport_event *event, struct tcp_connection *c, uint64_t now_ns)
{
    event_begin(event, TRANSPORT_CLOSED, c);
    event->reason = reason_of(c->error);
    own.unacked_at_end[c->index] = unacked_bytes(c);
    own.told[c->index] = TOLD_NOTHING;
    tcp_close(own.stack, c->index, now_ns);
    return true;
}

/* The next thing the application does not know of a connection. They are in this order on each. */
static bool event_of(struct transport_event *event, struct tcp_connection *c, uint64_t now_ns)
{
    bool over = c->state == TCP_CLOSED || c->state == TCP_TIME_WAIT;
    bool opening = c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED;
    enum told *told = &own.told[c->index];

    if (*told == TOLD_OPENING && (over || !opening)) {
        if (!c->was_open)
            return event_closed(event, c, now_ns);
        event_begin(event, TRANSPORT_CONNECTED, c);
        *told = TOLD_OPEN;
        c->direct = true;
        return true;
    }
    if (*told == TOLD_NOTHING || *told == TOLD_OPENING)
        return false;
    if (tcp_receive_unread(c) != 0) {
        event_begin(event, TRANSPORT_DATA, c);
        event->bytes = own.read_bytes = (uint32_t)tcp_read_in_place(own.stack, c->index, &event->data);
        own.read_connection = c->index;
        own.lent = true;
        return true;
    }
    if (c->fin_received && *told == TOLD_OPEN) {
        event_begin(event, TRANSPORT_ENDED, c);
        *told = TOLD_ENDED;
        return true;
    }
    return over && event_closed(event, c, now_ns);
}

static bool event_accepted(struct transport_event *event)
{
    for (uint32_t i = 0; i < own.listener_count; i++) {
        int connection = tcp_accept(own.stack, own.listeners[i]);
        if (connection < 0)
            continue;
        struct tcp_connection *c = connection_of(connection);
        event_begin(event, TRANSPORT_ACCEPTED, c);
        own.told[connection] = TOLD_OPEN;
        c->direct = true;
        return true;
    }
    return false;
}

/* Looks for something to tell; until nothing is found, no further frame is taken. */
static bool event_find(struct transport_event *event, uint64_t now_ns)
{
    struct tcp *tcp = &own.stack->tcp;
    if (event_accepted(event))
        return true;
    for (uint32_t i = 0; i < tcp->connection_end; i++) {
        struct tcp_connection *c = &tcp->connections[i];
        if (c->used && !c->orphan && c->listener < 0 && event_of(event, c, now_ns))
            return true;
    }
    tcp->changed = false;
    return false;
}

/* What the last event lent comes back. */
__attribute__((noinline)) static void lent_take_back(uint64_t now_ns)
{
    if (own.frame_lent) {
        own.stack->device->ops->rx_release(own.stack->device, &own.frame);
        own.frame_lent = false;
    }
    if (own.read_connection >= 0 && connection_of(own.read_connection) != NULL)
        tcp_read_done(own.stack, own.read_connection, own.read_bytes, now_ns);
    own.read_connection = -1;
    own.lent = false;
}

__attribute__((noinline)) static bool event_datagram(struct transport_event *event)
{
    const struct udp_datagram *datagram = &own.stack->datagram;
    own.stack->datagram_ready = false;
    if (datagram->bytes > TRANSPORT_DATAGRAM_BYTES_MAX) {
        NET_COUNT(own.stack, udp_rx_drop_length);
        return false;
    }
    own.lent = own.frame_lent = true;
    *event = (struct transport_event){
        .kind = TRANSPORT_DATAGRAM,
        .connection = -1,
        .data = datagram->data,
        .bytes = datagram->bytes,
        .address = datagram->source,
        .peer_port = datagram->source_port,
        .port = datagram->destination_port,
    };
    return true;
}

static bool event_data(struct transport_event *event)
{
    struct net_lent *lent = &OWN_STACK.lent;
    const struct tcp_connection *c = &OWN_STACK.tcp.connections[lent->connection];
    *event = (struct transport_event){
        .kind = TRANSPORT_DATA,
        .reason = TRANSPORT_DONE,       /* every member: nothing is to be cleared first */
        .connection = lent->connection,
        .data = lent->data,
        .bytes = lent->bytes,
        .address = c->peer_address,
        .peer_port = c->peer_port,
        .port = c->port,
    };
    own.lent = own.frame_lent = true;
    lent->connection = -1;
    return true;
}

static bool event_none(struct transport_event *event)
{
    *event = (struct transport_event){ .kind = TRANSPORT_NONE, .connection = -1 };
    return false;
}

/* What has come of the frame just taken. False: nothing to tell, and it has gone back. */
static inline __attribute__((always_inline)) bool event_of_frame(struct transport_event *event)
{
    if (__builtin_expect(OWN_STACK.lent.connection >= 0, 1))
        return event_data(event);
    if (OWN_STACK.datagram_ready && event_datagram(event))
        return true;
    OWN_STACK.device->ops->rx_release(OWN_STACK.device, &own.frame);
    return false;
}

/* Frame after frame until there is something to tell; `in_hand`: the first is there, and not the predicted one. */
__attribute__((noinline)) static bool poll_long(uint64_t now_ns, struct transport_event *event, bool in_hand)
{
    struct net_stack *const stack = &OWN_STACK;
    struct netdev *const device = stack->device;
    for (int frames = 0; frames < FRAMES_PER_POLL_MAX; frames++, in_hand = false) {
        if (!in_hand && stack->tcp.changed && event_find(event, now_ns))
            return true;
        if (!in_hand && !device->ops->rx_borrow(device, &own.frame))
            break;
        if (in_hand || !tcp_fast_receive(stack, &own.frame, now_ns))
            net_input_frame_long(stack, &own.frame, now_ns);
        if (event_of_frame(event))
            return true;
    }
    return event_none(event);
}

/* Nearly always nothing has come, or the one segment that was predicted. */
HOT bool transport_poll(uint64_t now_ns, struct transport_event *event)
{
    struct net_stack *const stack = &OWN_STACK;         /* own.stack, without asking */
    struct netdev *const device = stack->device;
    bool in_hand = false;
    if (__builtin_expect(own.lent, 0))
        lent_take_back(now_ns);
    if (__builtin_expect(!stack->tcp.changed, 1)) {
        if (__builtin_expect(!device->ops->rx_borrow(device, &own.frame), 0))
            return event_none(event);
        in_hand = !tcp_fast_receive(stack, &own.frame, now_ns);
        if (__builtin_expect(!in_hand, 1) && event_of_frame(event))
            return true;
    }
    return poll_long(now_ns, event, in_hand);
}

/* ---- Connections ---- */

/* A connection that cannot be opened is told of as any other that failed. */
static int connect_nowhere(uint32_t address, uint16_t port, uint64_t now_ns)
{
    struct tcp_connection *c = tcp_connection_take(own.stack, address, port, 0, tcp_policy_get(own.stack), now_ns);
    if (c == NULL)
        return -1;
    tcp_connection_end(own.stack, c, TCP_UNREACHABLE);
    return c->index;
}

int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns)
{
    const struct ipv4_interface *interface = &own.stack->interface;
    uint32_t next_hop;
    if (!interface->up || !own.stack->device->link_up)
        return -1;
    bool host = ipv4_address_is_unicast(address) && !ipv4_is_broadcast(own.stack, address) && port != 0;
    int connection = host && !ipv4_next_hop(own.stack, address, &next_hop)
        ? connect_nowhere(address, port, now_ns)
        : tcp_connect(own.stack, address, port, 0, NULL, now_ns);
    if (connection < 0)
        return -1;
    own.told[connection] = TOLD_OPENING;
    return connection;
}

bool transport_listen(uint16_t port)
{
    if (own.listener_count == OWN_LISTENERS)
        return false;
    int listener = tcp_listen(own.stack, port, TRANSPORT_CONNECTION_COUNT_MAX, NULL);
    if (listener < 0)
        return false;
    own.listeners[own.listener_count++] = listener;
    return true;
}

void transport_close(int connection, uint64_t now_ns)
{
    struct tcp_connection *c = connection_of(connection);
    if (c == NULL)
        return;
    if (own.told[connection] == TOLD_OPENING)
        tcp_reset(own.stack, connection, now_ns);
    else
        tcp_shutdown(own.stack, connection, now_ns);
}

void transport_abort(int connection, uint64_t now_ns)
{
    if (connection_of(connection) != NULL)
        tcp_reset(own.stack, connection, now_ns);
}

uint32_t transport_unacked_bytes(int connection)
{
    const struct tcp_connection *c = connection_of(connection);
    return c != NULL ? unacked_bytes(c) : own.unacked_at_end[connection];
}

uint8_t *transport_message(int connection)
{
    struct tcp_connection *c = connection_of(connection);
    return c != NULL && own.told[connection] >= TOLD_OPEN ? tcp_message(own.stack, c) : NULL;
}

void transport_message_prepare(int connection, uint32_t from, uint32_t bytes)
{
    struct tcp_connection *c = connection_of(connection);
    ASSERT(from <= TRANSPORT_MESSAGE_BYTES_MAX && bytes <= TRANSPORT_MESSAGE_BYTES_MAX - from);
    if (c != NULL && c->message != NULL)
        tcp_fast_prepare(own.stack, c, from, bytes);
}

void transport_warm(void)
{
    enum { ANSWER_BYTES = 128 };
    const struct tcp *tcp = &OWN_STACK.tcp;
    hot_fetch(tcp->keys, tcp->connection_end * sizeof tcp->keys[0]);
    for (uint32_t i = 0; i < tcp->connection_end; i++) {
        const struct tcp_connection *c = &tcp->connections[i];
        hot_fetch(c, TCP_HOT_BYTES);
        if (c->message != NULL) {
            hot_fetch(c->message, sizeof *c->message);
            hot_fetch(c->message->data, TCP_MESSAGE_OFFSET + c->ready.from + c->ready.bytes + ANSWER_BYTES);
        }
    }
}

HOT bool transport_send(int connection, uint32_t from, uint32_t bytes, uint64_t now_ns)
{
    ASSERT(connection >= 0 && connection < OWN_CONNECTIONS);
    ASSERT(bytes > 0 && bytes <= TRANSPORT_MESSAGE_BYTES_MAX && from <= TRANSPORT_MESSAGE_BYTES_MAX - bytes);
    struct tcp_connection *c = &OWN_STACK.tcp.connections[connection];
    return c->direct && c->message != NULL      /* so the application has it */
        && tcp_message_send(&OWN_STACK, c, from, bytes, now_ns);
}

/* ---- Datagrams ---- */

bool transport_udp_bind(uint16_t port)
{
    if (own.udp_port_count == TRANSPORT_UDP_PORT_COUNT_MAX || !udp_bind(own.stack, port))
        return false;
    own.udp_port_count++;
    return true;
}

bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    return bytes <= TRANSPORT_DATAGRAM_BYTES_MAX
        && udp_send(own.stack, from_port, to_address, to_port, data, bytes, now_ns);
}
