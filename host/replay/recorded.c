#include "host/replay/recorded.h"

#include <string.h>

#include "app/nasdaq/soup.h"
#include "app/trade/settings.h"
#include "base/assert.h"
#include "host/replay/network.h"
#include "host/replay/report.h"

enum { MESSAGE_BYTES_MAX = 64, MESSAGE_COUNT_MAX = 1 << 14 };

/* One direction of a connection: the number of the next byte, and the packet that is gathered. */
struct stream {
    bool began;
    uint32_t next;
    uint32_t packet_bytes;
    uint8_t packet[2 + SOUP_PACKET_BYTES_MAX];
};

/* Messages that the other side has not had yet: the day's if `of_day`, else the replay's. */
static struct {
    bool of_day;
    uint32_t allowed; /* messages of the day that the program may send from recorded_allow on */
    uint32_t first, count;
    struct message {
        uint64_t time_ns;
        uint8_t bytes, data[MESSAGE_BYTES_MAX];
    } ring[MESSAGE_COUNT_MAX];
} waiting;
static struct stream theirs[NETWORK_PEER_COUNT_MAX], ours[NETWORK_PEER_COUNT_MAX];
struct recorded recorded;

/* ---- the comparison ---- */

/* Compares a message with the oldest of the other side, or lets it wait for that. Returns the other's time; 0: none. */
static uint64_t compare(struct bytes message, bool of_day, uint64_t time_ns)
{
    ASSERT(waiting.count <= MESSAGE_COUNT_MAX);
    if (recorded.differs || message.count > MESSAGE_BYTES_MAX)
        return 0;
    if (waiting.count > 0 && waiting.of_day != of_day) {
        const struct message *m = &waiting.ring[waiting.first];
        waiting.first = (waiting.first + 1) % MESSAGE_COUNT_MAX;
        waiting.count--;
        recorded.differs = m->bytes != message.count || memcmp(m->data, message.data, message.count) != 0;
        recorded.same += !recorded.differs;
        return m->time_ns;
    }
    if (waiting.count == MESSAGE_COUNT_MAX) {
        recorded.differs = true;
    } else {
        struct message *m = &waiting.ring[(waiting.first + waiting.count++) % MESSAGE_COUNT_MAX];
        waiting.of_day = of_day;
        m->time_ns = time_ns;
        m->bytes = (uint8_t)message.count;
        memcpy(m->data, message.data, message.count);
    }
    return 0;
}

uint64_t recorded_compare(struct bytes message)
{
    ASSERT(message.count > 0);
    recorded.replayed++;
    return compare(message, false, 0);
}

/* ---- streams ---- */

/* Takes a whole packet of an orders' session. */
static void take_packet(const struct stream *s, bool is_theirs, uint64_t time_ns)
{
    const struct bytes message = { s->packet + SOUP_HEAD_BYTES, s->packet_bytes - SOUP_HEAD_BYTES };
    ASSERT(s->packet_bytes >= SOUP_HEAD_BYTES);
    if (message.count == 0 || s->packet[2] != (is_theirs ? 'S' : 'U'))
        return;
    if (is_theirs) {
        report_response(message, time_ns);
    } else {
        recorded.of_day++;
        compare(message, true, time_ns);
    }
}

/* Cuts bytes of an orders' session into packets. Returns false if they are none. */
static bool split(struct stream *s, struct bytes data, bool is_theirs, uint64_t time_ns)
{
    for (size_t i = 0; i < data.count; i++) {
        s->packet[s->packet_bytes++] = data.data[i];
        const uint32_t whole = s->packet_bytes < 2 ? 2 : 2 + load_be16(s->packet);
        ASSERT(s->packet_bytes <= sizeof s->packet);
        if (whole == 2 && s->packet_bytes == 2)
            return false;
        if (whole > sizeof s->packet)
            return false;
        if (s->packet_bytes < whole || whole == 2)
            continue;
        take_packet(s, is_theirs, time_ns);
        s->packet_bytes = 0;
    }
    return true;
}

/* Returns the bytes of a segment that come next in its stream: those of a repetition are cut off. */
static const char *next_bytes(struct stream *s, const struct recording_packet *segment, struct bytes *data)
{
    *data = segment->payload;
    if (!s->began || data->count == 0) {
        data->count = 0;
        return NULL;
    }
    const int32_t ahead = (int32_t)(segment->sequence - s->next);
    if (ahead > 0)
        return "a segment of the orders' or the snapshots' session is missing in it";
    const size_t old = min_size((size_t) - (int64_t)ahead, data->count);
    *data = (struct bytes){ data->data + old, data->count - old };
    if (data->count > 0 && !segment->is_whole)
        return "it has only the first bytes of a segment: capture=1514 keeps all";
    ASSERT(data->count <= segment->payload.count);
    s->next += (uint32_t)data->count;
    return NULL;
}

void recorded_allow(void)
{
    const int connection = network_peer(trade_settings.orders[0].address, trade_settings.orders[0].port);
    ASSERT(connection >= 0);
    network_allow(connection, waiting.allowed);
    waiting.allowed = 0;
}

bool recorded_concerns(const struct recording_packet *segment, bool *is_ours)
{
    const struct endpoint *servers[] = { &trade_settings.orders[0], &trade_settings.snapshot };
    for (size_t i = 0; i < ARRAY_COUNT(servers); i++) {
        ASSERT(servers[i]->address == 0 || servers[i]->port != 0);
        *is_ours = segment->to == servers[i]->address && segment->to_port == servers[i]->port;
        if (*is_ours || (segment->from == servers[i]->address && segment->from_port == servers[i]->port))
            return servers[i]->address != 0;
    }
    return false;
}

const char *recorded_take(const struct recording_packet *segment, uint64_t time_ns)
{
    bool is_ours;
    struct bytes data;
    const bool concerns = recorded_concerns(segment, &is_ours);
    ASSERT(segment->kind == RECORDING_SEGMENT && concerns);
    const int connection = is_ours ? network_peer(segment->to, segment->to_port)
                                   : network_peer(segment->from, segment->from_port);
    ASSERT(connection >= 0);
    const bool is_orders = connection == network_peer(trade_settings.orders[0].address, trade_settings.orders[0].port);
    struct stream *s = is_ours ? &ours[connection] : &theirs[connection];
    if (segment->flags & RECORDING_SYN) {
        *s = (struct stream){ .began = true, .next = segment->sequence + 1 };
        recorded.began |= is_orders;
        if (!is_ours)
            network_accept(connection);
    }
    const char *failure = next_bytes(s, segment, &data);
    const uint64_t of_day = recorded.of_day;
    if (failure != NULL)
        return failure;
    if (is_orders && !split(s, data, !is_ours, time_ns))
        return "the orders' session in it is no SoupBinTCP";
    if (is_ours) {
        waiting.allowed += (uint32_t)(recorded.of_day - of_day);
        return NULL;
    }
    if (!network_send(connection, data))
        return "the program does not take the exchange's responses";
    if (segment->flags & RECORDING_FIN)
        network_end(connection);
    if (segment->flags & RECORDING_RST)
        network_lose(connection, TRANSPORT_RESET);
    return NULL;
}
