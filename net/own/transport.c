/* net/transport.h over our own stack: the one stack of the program, in static memory, its connections as events.
 *
 * The problem: TCP is a set of connections whose states change at any moment. An application wants one event after the
 * other, in the order in which things happened to a connection.
 *
 * The first idea is a queue of events. It needs memory for the most events that can wait, and a rule for a full queue.
 * An event may also be out of date when its turn comes, such as data of a connection that has been closed meanwhile.
 *
 * The second idea keeps no events. This file holds the part of each connection's life that the application knows
 * (`reported`), the connection holds its state, and an event is the difference between the two. Nothing can overflow,
 * and a report is true at its moment. No frame is taken from the ring before all differences are reported, so the order
 * holds between connections as well.
 *
 * That idea looks at every connection in each turn. `tcp.changed` is set wherever a difference may arise and cleared
 * when none was found, so an idle turn looks at none. The predicted segment takes no part in it: its payload lies in
 * the frame, and the event is made from the frame at once (event_data).
 *
 * The bound: a poll takes 32 frames that cause no event, then returns to the loop. The application borrows the payload,
 * in the frame or in a connection's ring, until the next poll takes it back. */
#include "net/transport_path.h"

#include "base/hot_section.h"
#include "base/log.h"
#include "base/time.h"
#include "net/fast.h"
#include "net/own/twin.h"
#include "net/stack_state.h"
#include "net/tcp/message.h"
#include "net/tcp/seq.h"
#include "net/tcp/table.h"
#include "net/tcp/window.h"

enum {
    OWN_CONNECTIONS = TRANSPORT_CONNECTION_COUNT_LIMIT,
    FRAMES_PER_POLL_MAX = 32, /* frames without an event, before poll returns to the loop */
    LISTENERS = TRANSPORT_LISTENER_COUNT_MAX,
    SEGMENTS = 64,                          /* in flight: 64 answers that nobody has acknowledged */
    TIME_WAITS = 256,                       /* TIME-WAIT has a table of its own */
    MESSAGES = NETDEV_TX_BUFFER_COUNT - 32, /* the rest is for ARP, ICMP, UDP and acknowledgements */

    /* The player and its like: few connections, one for each id, with large buffers. */
    FEW = TRANSPORT_CONNECTION_COUNT_MAX,
    FEW_HALF_OPENS = 64,           /* handshakes under way: the bound for a SYN flood */
    FEW_RECEIVE_BYTES = 64 * 1024, /* the largest window without scaling; holds out-of-order data */
    FEW_SEND_BYTES = 16 * 1024,    /* for messages that must be cut: eleven of the longest */

    /* A server: more connections, 40 KiB each. */
    MANY_HALF_OPENS = 256, /* all clients may come at once */
    /* The window of a slow round trip is smaller. Memory for the fast ones is saved. */
    MANY_RECEIVE_BYTES = 32 * 1024,
    MANY_SEND_BYTES = 4 * 1024,
};

static_assert((int)NET_BORROWED_BYTES_MAX <= TRANSPORT_DATA_BYTES_MAX, "borrowed payload is one event");
static_assert((int)IGMP_GROUP_COUNT_MAX == (int)TRANSPORT_GROUP_COUNT_MAX, "transport_udp_join");

/* The part of a connection's life that has been reported to the application. */
enum reported { REPORTED_NOTHING, REPORTED_OPENING, REPORTED_OPEN, REPORTED_ENDED };

static struct {
    struct net_stack *stack;
    struct frame frame; /* borrowed by the application until the next poll */
    bool borrowed;      /* the last event's data is borrowed, from frame or ring */
    bool frame_borrowed;
    int read_connection; /* the owner of the ring of the last event's data; -1: none */
    uint32_t read_bytes;
    enum reported reported[OWN_CONNECTIONS];
    bool held[OWN_CONNECTIONS];
    uint32_t unacked_at_end[OWN_CONNECTIONS];
    int listeners[TRANSPORT_LISTENER_COUNT_MAX];
    uint32_t listener_count, udp_port_count;
    uint32_t warm_next; /* the connection whose lines were fetched last */
    struct transport_network network;
} own;

/* ---- Memory ---- */

enum {
    FEW_BYTES = NET_ALIGNED(sizeof(struct net_stack))
                + TCP_BYTES(FEW, LISTENERS, FEW_HALF_OPENS, TIME_WAITS, SEGMENTS, FEW_RECEIVE_BYTES, FEW_SEND_BYTES)
                + ARP_BYTES(FEW),
};
static _Alignas(NET_STACK_ALIGN) uint8_t few_memory[FEW_BYTES]; /* more connections lie in the caller's memory */

static struct net_capacity capacity_of(uint32_t connection_count)
{
    bool few = connection_count <= FEW;
    return (struct net_capacity){
        .connection_count = few ? (uint32_t)FEW : connection_count,
        .listener_count = LISTENERS,
        .half_open_count = few ? FEW_HALF_OPENS : MANY_HALF_OPENS,
        .time_wait_count = TIME_WAITS,
        .segment_count = SEGMENTS,
        .receive_bytes = few ? FEW_RECEIVE_BYTES : MANY_RECEIVE_BYTES,
        .send_bytes = few ? FEW_SEND_BYTES : MANY_SEND_BYTES,
        .message_count = MESSAGES,
    };
}

size_t transport_memory_bytes(uint32_t connection_count)
{
    struct net_capacity capacity = capacity_of(connection_count);
    return connection_count <= FEW ? 0 : net_stack_bytes(&capacity);
}

/* ---- Counters ---- */

bool transport_counter_group(size_t index, struct counter_group *group)
{
    tcp_fast_count(own.stack);
    if (index < NET_GROUP_COUNT)
        *group = net_counter_group(&own.stack->ip.counters, index);
    else if (index == NET_GROUP_COUNT)
        *group = dhcp_counter_group;
    return index <= NET_GROUP_COUNT;
}

const char *transport_name(void) { return "own"; }

/* ---- The network ---- */

bool transport_init(const struct transport_config *config, uint64_t now_ns)
{
    struct net_config net = {
        .capacity = capacity_of(config->connection_count),
        .device = config->device,
        .address = config->address,
        .mask = config->mask,
        .gateway = config->gateway,
        .lease_seconds = config->lease_seconds,
        .lease_server = config->lease_server,
        .dhcp_identity = config->dhcp_identity,
        .mtu_bytes = config->mtu_bytes,
    };
    const char *why = "";
    own.read_connection = -1;
    bool few = transport_memory_bytes(config->connection_count) == 0;
    ASSERT(few || config->memory != NULL);
    memcpy(net.gateway_mac, config->gateway_mac, sizeof net.gateway_mac);
    memcpy(net.secret, config->secret, sizeof net.secret);
    tcp_policy_default(&net.policy);
    net.policy.nodelay = true;
    net.policy.tail_probe_without_sack = true;
    net.policy.tlp_ack_delay_us = 0;        /* the round trips measured include the server's thinking time */
    net.policy.syn_give_up_us = 20000000;   /* less than MUST-23 asks: a player would rather connect again */
    net.policy.data_give_up_us = 100000000; /* the least that SHLD-11 allows */
    net.policy.receive_buffer_bytes = UINT16_MAX;
    net.policy.ecn = config->ecn;
    if (config->rto_min_ns != 0)
        net.policy.rto_min_us = (uint32_t)(config->rto_min_ns / NS_PER_US);
    own.stack = net_stack_init(few ? few_memory : config->memory, few ? sizeof few_memory : config->memory_bytes, &net,
                               now_ns, &why);
    if (own.stack == NULL) {
        log_line("net: %s", why);
        return false;
    }
    twin_init(&net, now_ns);
    return true;
}

const struct transport_network *transport_network(void)
{
    ASSERT(own.stack != NULL);
    const struct ipv4_interface *interface = &own.stack->ip.interface;
    const struct net_address *address = &own.stack->ip.address;
    const struct dhcp_lease *lease = address->from_dhcp ? dhcp_lease(&address->dhcp) : NULL;
    own.network = (struct transport_network){
        .up = interface->up && own.stack->ip.device->link_up,
        .from_dhcp = address->from_dhcp,
        .address = interface->address,
        .mask = interface->mask,
        .gateway = address->gateway,
        .mtu_bytes = interface->mtu_bytes,
        .lease_ends_ns = lease != NULL && lease->ends_ns != UINT64_MAX ? lease->ends_ns : 0,
        .waiting_for = net_address_waiting_for(&own.stack->ip),
        .heard_count = own.stack->ip.counters.ethernet_rx_frames + own.stack->fast_received_count,
        .arp_count = own.stack->ip.arp.answer_count,
    };
    return &own.network;
}

bool transport_ask_neighbour(void)
{
    struct net_ip *ip = &own.stack->ip;
    const struct dhcp_lease *lease = ip->address.from_dhcp ? dhcp_lease(&ip->address.dhcp) : NULL;
    uint32_t neighbour = ip->address.gateway, next_hop;
    if (neighbour == 0 && lease != NULL && ipv4_next_hop(ip, lease->server, &next_hop) && next_hop == lease->server)
        neighbour = lease->server;
    if (!ip->interface.up || ip->device->point_to_point || neighbour == 0)
        return false;
    arp_request(ip, neighbour);
    return true;
}

void transport_idle(uint64_t now_ns)
{
    own.stack->ip.udp.latest_source = 0; /* an answer to the latest datagram has left */
    net_idle(own.stack, now_ns);
}

uint64_t transport_next_deadline_ns(void) { return own.stack->tcp.changed ? 0 : net_next_deadline_ns(own.stack); }

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
    case TCP_PIPE: /* RST in CLOSE-WAIT */
        return TRANSPORT_RESET;
    case TCP_ABORTED:
        return TRANSPORT_ABORTED;
    case TCP_NO_ROUTE:
    case TCP_UNREACHABLE:
        return TRANSPORT_UNREACHABLE;
    case TCP_AGAIN:
    case TCP_INVALID:
    case TCP_IN_USE:
    case TCP_NOT_CONNECTED:
    case TCP_NO_ROOM:
    case TCP_TIMED_OUT:
        break;
    }
    return TRANSPORT_TIMED_OUT;
}

static uint32_t unacked_bytes(const struct tcp_connection *c)
{
    ASSERT(seq_le(c->snd_una, c->snd_end + 1));
    bool fin_acked = seq_gt(c->snd_una, c->snd_end);
    return c->was_open && !fin_acked ? c->snd_end - c->snd_una : 0;
}

static bool event_closed(struct transport_event *event, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(own.reported[c->index] != REPORTED_NOTHING);
    event_begin(event, TRANSPORT_CLOSED, c);
    event->reason = reason_of(c->error);
    own.unacked_at_end[c->index] = unacked_bytes(c);
    own.reported[c->index] = REPORTED_NOTHING;
    own.held[c->index] = false;
    tcp_close(own.stack, c->index, now_ns);
    return true;
}

/* Builds the next event of a connection that the application does not know yet. On each connection the events come in
 * the order of the tests below. */
static bool event_of(struct transport_event *event, struct tcp_connection *c, uint64_t now_ns)
{
    ASSERT(c->index < OWN_CONNECTIONS);
    bool over = tcp_is_over(c);
    enum reported *reported = &own.reported[c->index];

    if (*reported == REPORTED_OPENING && !tcp_is_opening(c)) {
        if (!c->was_open)
            return event_closed(event, c, now_ns);
        event_begin(event, TRANSPORT_CONNECTED, c);
        *reported = REPORTED_OPEN;
        c->zero_copy = true;
        return true;
    }
    if (*reported == REPORTED_NOTHING || *reported == REPORTED_OPENING)
        return false;
    if (own.held[c->index]) /* data that another end than one in order meets here is lost */
        return over && c->error != TCP_OK && event_closed(event, c, now_ns);
    if (tcp_receive_unread(c) != 0) {
        int64_t readable;
        event_begin(event, TRANSPORT_DATA, c);
        readable = tcp_read_in_place(own.stack, c->index, &event->payload.data);
        ASSERT(readable > 0);
        own.read_bytes = (uint32_t)min_size((size_t)readable, TRANSPORT_DATA_BYTES_MAX);
        event->payload.count = own.read_bytes;
        own.read_connection = c->index;
        own.borrowed = true;
        return true;
    }
    if (c->fin_received && *reported == REPORTED_OPEN) {
        event_begin(event, TRANSPORT_ENDED, c);
        *reported = REPORTED_ENDED;
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
        ASSERT(own.reported[connection] == REPORTED_NOTHING);
        own.reported[connection] = REPORTED_OPEN;
        c->zero_copy = true;
        return true;
    }
    return false;
}

/* Finds an event among all connections. Until no event is found, no further frame is taken. */
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

/* Takes back the memory that the application borrowed with the last event. */
__attribute__((noinline)) static void borrowed_take_back(uint64_t now_ns)
{
    ASSERT(own.borrowed);
    if (own.frame_borrowed) {
        own.stack->ip.device->ops->rx_release(own.stack->ip.device, &own.frame);
        own.frame_borrowed = false;
    }
    if (own.read_connection >= 0 && connection_of(own.read_connection) != NULL)
        tcp_read_done(own.stack, own.read_connection, own.read_bytes, now_ns);
    own.read_connection = -1;
    own.borrowed = false;
}

static inline bool event_datagram(struct transport_event *event)
{
    ASSERT(own.stack->datagram_ready);
    const struct udp_datagram *datagram = &own.stack->datagram;
    own.stack->datagram_ready = false;
    if (datagram->payload.count > TRANSPORT_DATAGRAM_BYTES_MAX) {
        NET_COUNT(own.stack, udp_rx_drop_length);
        return false;
    }
    own.borrowed = own.frame_borrowed = true;
    *event = (struct transport_event){
        .kind = TRANSPORT_DATAGRAM,
        .connection = -1,
        .to_address = datagram->destination,
        .payload = datagram->payload,
        .address = datagram->source,
        .peer_port = datagram->source_port,
        .port = datagram->destination_port,
    };
    return true;
}

static bool event_data(struct transport_event *event)
{
    struct net_borrowed *borrowed = &own.stack->borrowed;
    const struct tcp_connection *c = &own.stack->tcp.connections[borrowed->connection];
    *event = (struct transport_event){
        .kind = TRANSPORT_DATA,
        .reason = TRANSPORT_DONE, /* every member is named: nothing has to be cleared first */
        .connection = borrowed->connection,
        .payload = borrowed->payload,
        .address = c->peer_address,
        .peer_port = c->peer_port,
        .port = c->port,
    };
    own.borrowed = own.frame_borrowed = true;
    borrowed->connection = -1;
    return true;
}

static bool event_none(struct transport_event *event)
{
    *event = (struct transport_event){ .kind = TRANSPORT_NONE, .connection = -1 };
    return false;
}

/* Builds the event that the frame just taken has caused. Returns false if there is none; the frame has then been
 * released. */
static inline __attribute__((always_inline)) bool event_of_frame(struct transport_event *event)
{
    if (__builtin_expect(own.stack->borrowed.connection >= 0, 1))
        return event_data(event);
    if (own.stack->datagram_ready && event_datagram(event))
        return true;
    own.stack->ip.device->ops->rx_release(own.stack->ip.device, &own.frame);
    return false;
}

/* Takes frame after frame until there is an event. `in_hand`: the first frame is taken already, and net_fast_receive
 * has refused it. */
__attribute__((noinline)) static bool poll_long(uint64_t now_ns, struct transport_event *event, bool in_hand)
{
    ASSERT(!own.borrowed);
    struct net_stack *const stack = own.stack;
    struct netdev *const device = stack->ip.device;
    for (int frames = 0; frames < FRAMES_PER_POLL_MAX; frames++, in_hand = false) {
        if (!in_hand && stack->tcp.changed && event_find(event, now_ns))
            return true;
        if (!in_hand && !device->ops->rx_borrow(device, &own.frame))
            break;
        if (in_hand || !net_fast_receive(stack, &own.frame, now_ns))
            net_input_frame_long(stack, &own.frame, now_ns);
        if (event_of_frame(event))
            return true;
    }
    return event_none(event);
}

/* Polls for an event. Nearly always no frame has come, or one that net_fast_receive takes. */
HOT bool transport_poll(uint64_t now_ns, struct transport_event *event)
{
    struct net_stack *const stack = own.stack;
    struct netdev *const device = stack->ip.device;
    bool in_hand = false;
    if (__builtin_expect(own.borrowed, 0))
        borrowed_take_back(now_ns);
    if (__builtin_expect(!stack->tcp.changed, 1)) {
        if (__builtin_expect(!device->ops->rx_borrow(device, &own.frame), 0))
            return event_none(event);
        in_hand = !net_fast_receive(stack, &own.frame, now_ns);
        if (__builtin_expect(!in_hand, 1) && event_of_frame(event))
            return true;
    }
    return poll_long(now_ns, event, in_hand);
}

/* ---- Connections ---- */

/* Makes a connection that has failed already. It is reported like any other that failed. */
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
    const struct ipv4_interface *interface = &own.stack->ip.interface;
    uint32_t next_hop;
    if (!interface->up || !own.stack->ip.device->link_up)
        return -1;
    bool host = ipv4_address_is_unicast(address) && !ipv4_is_broadcast(&own.stack->ip, address) && port != 0;
    int connection = host && !ipv4_next_hop(&own.stack->ip, address, &next_hop)
                         ? connect_nowhere(address, port, now_ns)
                         : tcp_connect(own.stack, address, port, 0, NULL, now_ns);
    if (connection < 0)
        return -1;
    ASSERT(own.reported[connection] == REPORTED_NOTHING);
    own.reported[connection] = REPORTED_OPENING;
    return connection;
}

bool transport_listen(uint16_t port)
{
    if (own.listener_count == LISTENERS)
        return false;
    int listener = tcp_listen(own.stack, port, own.stack->tcp.capacity.connection_count, NULL);
    if (listener < 0)
        return false;
    own.listeners[own.listener_count++] = listener;
    ASSERT(own.listener_count <= ARRAY_COUNT(own.listeners));
    return true;
}

void transport_close(int connection, uint64_t now_ns)
{
    struct tcp_connection *c = connection_of(connection);
    if (c == NULL)
        return;
    if (own.reported[connection] == REPORTED_OPENING)
        tcp_reset(own.stack, connection, now_ns);
    else
        tcp_shutdown(own.stack, connection, now_ns);
}

void transport_abort(int connection, uint64_t now_ns)
{
    struct tcp_connection *c = connection_of(connection);
    if (c == NULL)
        return;
    tcp_reset(own.stack, connection, now_ns);
    if (own.held[connection] && c->error == TCP_OK) /* the end in order waits for data that nobody wants now */
        tcp_connection_end(own.stack, c, TCP_ABORTED);
}

uint32_t transport_unacked_bytes(int connection)
{
    const struct tcp_connection *c = connection_of(connection);
    return c != NULL ? unacked_bytes(c) : own.unacked_at_end[connection];
}

/* Lets the data go to the ring, whose filling closes the window. */
void transport_hold(int connection, bool held)
{
    struct tcp_connection *c = connection_of(connection);
    if (c == NULL)
        return;
    ASSERT(own.reported[connection] >= REPORTED_OPEN);
    own.held[connection] = held;
    c->zero_copy = !held;
    own.stack->tcp.changed = true;
}

uint8_t *transport_message(int connection)
{
    struct tcp_connection *c = connection_of(connection);
    return c != NULL && own.reported[connection] >= REPORTED_OPEN ? tcp_message(own.stack, c) : NULL;
}

void transport_message_prepare(int connection, uint32_t from, uint32_t bytes)
{
    struct tcp_connection *c = connection_of(connection);
    ASSERT(from <= TRANSPORT_MESSAGE_BYTES_MAX && bytes <= TRANSPORT_MESSAGE_BYTES_MAX - from);
    if (c != NULL && c->message != NULL)
        tcp_fast_prepare(own.stack, c, from, bytes);
}

/* Fetches what each frame touches, and the lines of a few connections, the next ones each time. */
NOT_HOT void transport_warm(void)
{
    enum { CONNECTIONS = FEW, NEIGHBOURS = 8, ANSWER_BYTES = 128 };
    const struct net_stack *stack = own.stack;
    const struct tcp *tcp = &stack->tcp;
    ASSERT(tcp->connection_end <= tcp->capacity.connection_count);
    hot_fetch(stack, offsetof(struct net_stack, ip.reassembly));
    hot_fetch(stack->ip.arp.entries, min_size(NEIGHBOURS, stack->ip.arp.entry_count) * sizeof(struct arp_entry));
    hot_fetch(tcp->keys, tcp->connection_end * sizeof tcp->keys[0]);
    for (uint32_t i = 0; i < min_u32(CONNECTIONS, tcp->connection_end); i++) {
        own.warm_next = own.warm_next + 1 < tcp->connection_end ? own.warm_next + 1 : 0;
        const struct tcp_connection *c = &tcp->connections[own.warm_next];
        if (!c->used)
            continue;
        hot_fetch(c, sizeof *c);
        hot_fetch(&c->segments[(c->queue.head + c->segment_count) & c->segment_mask], 1);
        if (c->message != NULL) {
            hot_fetch(c->message, sizeof *c->message);
            hot_fetch(c->message->data,
                      min_size((size_t)c->ready.from + c->ready.bytes + TCP_MESSAGE_OFFSET + ANSWER_BYTES,
                               NETDEV_FRAME_BYTES_MAX));
        }
    }
}

HOT bool transport_send(int connection, uint32_t from, uint32_t bytes, uint64_t now_ns)
{
    ASSERT(connection >= 0 && (uint32_t)connection < own.stack->tcp.capacity.connection_count);
    ASSERT(bytes > 0 && bytes <= TRANSPORT_MESSAGE_BYTES_MAX && from <= TRANSPORT_MESSAGE_BYTES_MAX - bytes);
    struct tcp_connection *c = &own.stack->tcp.connections[connection];
    return !c->orphan && c->message != NULL /* the application has the connection */
           && tcp_message_send(own.stack, c, from, bytes, now_ns);
}

/* ---- Datagrams ---- */

bool transport_udp_bind(uint16_t port)
{
    if (own.udp_port_count == TRANSPORT_UDP_PORT_COUNT_MAX || !udp_bind(&own.stack->ip, port))
        return false;
    own.udp_port_count++;
    return true;
}

bool transport_udp_join(uint32_t group) { return igmp_join(&own.stack->ip, group); }

void transport_udp_leave(uint32_t group) { igmp_leave(&own.stack->ip, group); }

bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    return bytes <= TRANSPORT_DATAGRAM_BYTES_MAX
           && udp_send(&own.stack->ip, from_port, to_address, to_port, data, bytes, now_ns);
}

/* ---- Rehearsals ---- */

/* The members of `own` that a rehearsal replaces. Its connection has an index that a real one may have as well. */
static struct {
    struct net_stack *stack; /* NULL: no rehearsal is under way */
    enum reported reported;
    bool held;
    uint32_t unacked_at_end;
} real;

NOT_HOT bool transport_rehearsal_begin(const struct transport_rehearsal *rehearsal, uint64_t now_ns)
{
    ASSERT(real.stack == NULL);
    struct net_stack *stack = own.borrowed ? NULL : twin_receive(rehearsal, own.stack->ip.device, now_ns);
    if (stack == NULL)
        return false;
    real.stack = own.stack;
    real.reported = own.reported[TWIN_CONNECTION];
    real.held = own.held[TWIN_CONNECTION];
    real.unacked_at_end = own.unacked_at_end[TWIN_CONNECTION];
    own.stack = stack;
    own.reported[TWIN_CONNECTION] = connection_of(TWIN_CONNECTION) != NULL ? REPORTED_OPEN : REPORTED_NOTHING;
    own.held[TWIN_CONNECTION] = false;
    return true;
}

NOT_HOT static void real_put_back(void)
{
    ASSERT(real.stack != NULL);
    own.stack = real.stack;
    own.reported[TWIN_CONNECTION] = real.reported;
    own.held[TWIN_CONNECTION] = real.held;
    own.unacked_at_end[TWIN_CONNECTION] = real.unacked_at_end;
    real.stack = NULL;
}

NOT_HOT void transport_rehearsal_end(uint64_t now_ns)
{
    enum { EVENTS_MAX = 4 }; /* that the program has not taken */
    struct transport_event event;
    ASSERT(real.stack != NULL);
    twin_acknowledge();
    for (int i = 0; i < EVENTS_MAX && transport_poll(now_ns, &event); i++)
        continue;
    if (own.borrowed)
        borrowed_take_back(now_ns);
    transport_idle(now_ns);
    real_put_back();
    struct netdev *device = own.stack->ip.device;
    if (device->ops->rehearse != NULL)
        device->ops->rehearse(device);
}

void transport_rehearsal_abandon(void)
{
    if (real.stack == NULL)
        return;
    own.borrowed = own.frame_borrowed = false; /* from the other stack */
    own.read_connection = -1;
    real_put_back();
}
