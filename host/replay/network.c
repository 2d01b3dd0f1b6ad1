#include "host/replay/network.h"

#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "base/trace.h"

enum { SOUP_TYPE_AT = 2 };

struct peer {
    uint32_t address;
    uint16_t port;
    bool asked, accepted, open; /* by the program; by the peer; both, and reported */
    bool ended, end_reported, lost;
    bool limited;
    uint32_t allowed; /* messages, if limited */
    enum transport_reason reason;
    uint32_t stream_bytes, taken_bytes; /* that wait; that the latest event has */
    uint8_t message[TRANSPORT_MESSAGE_BYTES_MAX];
    uint8_t stream[NETWORK_STREAM_BYTES];
};

static struct {
    int peer_count;
    struct peer peers[NETWORK_PEER_COUNT_MAX];
    uint32_t port_count;
    uint16_t ports[TRANSPORT_UDP_PORT_COUNT_MAX];
    bool datagram_waits;
    struct transport_event datagram;
    uint64_t seen_cycles; /* when the turn's latest packet was handed out; 0: none */
    struct transport_network network;
} net;

/* ---- the replay's side ---- */

static struct peer *peer_at(int connection)
{
    ASSERT(connection >= 0 && connection < net.peer_count);
    return &net.peers[connection];
}

int network_peer(uint32_t address, uint16_t port)
{
    for (int i = 0; i < net.peer_count; i++)
        if (net.peers[i].address == address && net.peers[i].port == port)
            return i;
    if (net.peer_count == NETWORK_PEER_COUNT_MAX)
        return -1;
    ASSERT(port != 0);
    net.peers[net.peer_count].address = address;
    net.peers[net.peer_count].port = port;
    return net.peer_count++;
}

void network_accept(int connection) { peer_at(connection)->accepted = true; }
void network_end(int connection) { peer_at(connection)->ended = true; }

bool network_send(int connection, struct bytes data)
{
    struct peer *p = peer_at(connection);
    ASSERT(p->stream_bytes <= sizeof p->stream);
    if (data.count > sizeof p->stream - p->stream_bytes)
        return false;
    memcpy(p->stream + p->stream_bytes, data.data, data.count);
    p->stream_bytes += (uint32_t)data.count;
    return true;
}

void network_lose(int connection, enum transport_reason reason)
{
    struct peer *p = peer_at(connection);
    p->lost = p->asked;
    p->accepted = p->accepted && p->lost;
    p->reason = reason;
}

void network_allow(int connection, uint32_t messages)
{
    struct peer *p = peer_at(connection);
    ASSERT(messages <= UINT32_MAX - p->allowed);
    p->limited = true;
    p->allowed += messages;
}

bool network_is_bound(uint16_t port)
{
    for (uint32_t i = 0; i < net.port_count; i++)
        if (net.ports[i] == port)
            return true;
    return false;
}

bool network_datagram(const struct transport_event *datagram)
{
    ASSERT(datagram->kind == TRANSPORT_DATAGRAM && !net.datagram_waits);
    net.datagram = *datagram;
    net.datagram_waits = network_is_bound(datagram->port);
    return net.datagram_waits;
}

void network_begin_turn(void) { net.seen_cycles = 0; }

uint64_t network_ns(uint64_t tsc_khz)
{
    ASSERT(tsc_khz > 0);
    return net.seen_cycles == 0 ? 0 : (trace.cycles[TRACE_KICKED] - net.seen_cycles) * NS_PER_MS / tsc_khz;
}

/* ---- events ---- */

static void stamp(void)
{
    trace_stamp(TRACE_FRAME_SEEN);
    net.seen_cycles = trace.cycles[TRACE_FRAME_SEEN];
}

/* Removes the bytes that the latest event has borrowed. */
static void forget_taken(struct peer *p)
{
    ASSERT(p->taken_bytes <= p->stream_bytes);
    if (p->taken_bytes == 0)
        return;
    p->stream_bytes -= p->taken_bytes;
    memmove(p->stream, p->stream + p->taken_bytes, p->stream_bytes);
    p->taken_bytes = 0;
}

/* Ends a connection: the peer may be asked again. */
static void close_peer(struct peer *p)
{
    ASSERT(p->asked);
    p->asked = p->accepted = p->open = p->ended = p->end_reported = p->lost = false;
    p->stream_bytes = p->taken_bytes = 0;
}

/* Fills in the next event of a peer. Returns false if there is none. */
static bool poll_peer(struct peer *p, struct transport_event *event)
{
    forget_taken(p);
    if (!p->asked)
        return false;
    ASSERT(p->port != 0);
    if (p->accepted && !p->open) {
        p->open = true;
        event->kind = TRANSPORT_CONNECTED;
    } else if (p->open && p->stream_bytes > 0) {
        p->taken_bytes = min_u32(p->stream_bytes, TRANSPORT_DATA_BYTES_MAX);
        event->kind = TRANSPORT_DATA;
        event->payload = (struct bytes){ p->stream, p->taken_bytes };
        stamp();
    } else if (p->lost) {
        event->kind = TRANSPORT_CLOSED;
        event->reason = p->reason;
        close_peer(p);
    } else if (p->open && p->ended && !p->end_reported) {
        p->end_reported = true;
        event->kind = TRANSPORT_ENDED;
    }
    return event->kind != TRANSPORT_NONE;
}

bool transport_poll(uint64_t now_ns, struct transport_event *event)
{
    (void)now_ns;
    ASSERT(net.peer_count <= NETWORK_PEER_COUNT_MAX);
    for (int i = 0; i < net.peer_count; i++) {
        *event = (struct transport_event){ .connection = i,
                                           .address = net.peers[i].address,
                                           .peer_port = net.peers[i].port };
        if (poll_peer(&net.peers[i], event))
            return true;
    }
    *event = (struct transport_event){ .kind = TRANSPORT_NONE, .connection = -1 };
    if (!net.datagram_waits)
        return false;
    net.datagram_waits = false;
    *event = net.datagram;
    stamp();
    return true;
}

/* ---- connections ---- */

int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns)
{
    (void)now_ns;
    const int connection = network_peer(address, port);
    if (connection < 0 || net.peers[connection].asked)
        return -1;
    ASSERT(!net.peers[connection].open);
    net.peers[connection].asked = true;
    network_on_connect(connection, address, port);
    return connection;
}

uint8_t *transport_message(int connection)
{
    struct peer *p = peer_at(connection);
    return p->open && !p->lost ? p->message : NULL;
}

bool transport_send(int connection, uint32_t from, uint32_t bytes, uint64_t now_ns)
{
    struct peer *p = peer_at(connection);
    ASSERT(from + bytes <= sizeof p->message);
    const bool is_message = bytes > SOUP_TYPE_AT && p->message[from + SOUP_TYPE_AT] == 'U';
    if (!p->open || p->lost || (p->limited && is_message && p->allowed == 0))
        return false;
    p->allowed -= p->limited && is_message;
    trace_stamp_fine(TRACE_PUBLISHED);
    trace_stamp(TRACE_KICKED);
    network_on_message(connection, (struct bytes){ p->message + from, bytes }, now_ns);
    return true;
}

void transport_close(int connection, uint64_t now_ns)
{
    (void)now_ns;
    network_lose(connection, TRANSPORT_DONE);
}

void transport_abort(int connection, uint64_t now_ns)
{
    (void)now_ns;
    network_lose(connection, TRANSPORT_ABORTED);
}

void transport_hold(int connection, bool held) { ASSERT(connection < net.peer_count && !held); }
uint32_t transport_unacked_bytes(int connection) { return ASSERT(connection < net.peer_count), 0; }

/* ---- the rest: nobody listens, and nothing waits ---- */

bool transport_init(const struct transport_config *config, uint64_t now_ns)
{
    ASSERT(config != NULL && now_ns > 0);
    memset(&net, 0, sizeof net);
    net.network = (struct transport_network){ .up = true, .mtu_bytes = 1500, .waiting_for = "nothing" };
    return true;
}

bool transport_udp_bind(uint16_t port)
{
    if (net.port_count == TRANSPORT_UDP_PORT_COUNT_MAX || network_is_bound(port))
        return false;
    ASSERT(port != 0);
    net.ports[net.port_count++] = port;
    return true;
}

bool transport_udp_join(uint32_t group) { return group >> 28 == 0xe; }
void transport_udp_leave(uint32_t group) { ASSERT(group >> 28 == 0xe); }

bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(data != NULL || bytes == 0);
    return from_port != 0 && to_address != 0 && to_port != 0; /* nobody gets it */
}

bool transport_listen(uint16_t port) { return port != 0; }
void transport_idle(uint64_t now_ns) { (void)now_ns; }
uint64_t transport_next_deadline_ns(void) { return UINT64_MAX; }
const struct transport_network *transport_network(void) { return &net.network; }
const char *transport_name(void) { return "a replay"; }
