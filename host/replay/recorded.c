#include "host/replay/recorded.h"

#include <string.h>

#include "app/nasdaq/soup.h"
#include "app/trade/settings.h"
#include "base/assert.h"
#include "host/replay/network.h"
#include "host/replay/report.h"

enum { MESSAGE_BYTES_MAX = 64, MESSAGE_COUNT_MAX = 1 << 14, HELD_COUNT_MAX = 256, HELD_BYTES_MAX = 1460 };

/* One direction of a connection: the numbers of the first and of the next byte, the packet that is gathered, and the
 * segments that have overtaken others. */
struct stream {
    bool began;
    uint32_t first, next;
    uint32_t packet_bytes;
    uint8_t packet[2 + SOUP_PACKET_BYTES_MAX];
    uint32_t held_count;
    struct held {
        uint32_t sequence;
        uint16_t bytes;
        uint8_t flags, data[HELD_BYTES_MAX];
    } held[HELD_COUNT_MAX];
};

/* Messages that the other side has not had yet: the day's if `of_day`, else the replay's. */
static struct {
    bool of_day;
    uint32_t allowed[LINK_HOST_COUNT_MAX]; /* messages of the day that the host may get from recorded_allow on */
    uint32_t first, count;
    struct message {
        uint64_t time_ns;
        uint8_t bytes, data[MESSAGE_BYTES_MAX];
    } ring[MESSAGE_COUNT_MAX];
} waiting;
static struct stream theirs[NETWORK_PEER_COUNT_MAX], ours[NETWORK_PEER_COUNT_MAX];
struct recorded recorded;
static const char missing[] = "a segment of the orders' or the snapshots' session is missing in it";

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

/* Keeps a segment until those before it have come, as the machine has. */
static const char *hold(struct stream *s, const struct recording_packet *segment)
{
    struct held *const h = &s->held[s->held_count];
    ASSERT(s->held_count <= HELD_COUNT_MAX);
    if (s->held_count == HELD_COUNT_MAX || segment->payload.count > HELD_BYTES_MAX)
        return missing;
    *h = (struct held){ segment->sequence, (uint16_t)segment->payload.count, segment->flags, { 0 } };
    memcpy(h->data, segment->payload.data, segment->payload.count);
    s->held_count++;
    return NULL;
}

/* Takes a kept segment out that comes next in its stream, or repeats what has come; borrowed until the next call.
 * Returns false if there is none. */
static bool release(struct stream *s, struct recording_packet *segment)
{
    static struct held found;
    ASSERT(s->held_count <= HELD_COUNT_MAX);
    for (uint32_t i = 0; i < s->held_count; i++) {
        if ((int32_t)(s->held[i].sequence - s->next) > 0)
            continue;
        found = s->held[i];
        s->held[i] = s->held[--s->held_count];
        segment->sequence = found.sequence;
        segment->flags = found.flags;
        segment->payload = (struct bytes){ found.data, found.bytes };
        return true;
    }
    return false;
}

void recorded_allow(void)
{
    for (uint32_t i = 0; i < LINK_HOST_COUNT_MAX; i++) {
        const struct endpoint *host = &trade_settings.orders[i];
        ASSERT(i > 0 || host->address != 0);
        if (host->address != 0)
            network_allow(network_peer(host->address, host->port), waiting.allowed[i]);
        waiting.allowed[i] = 0;
    }
}

bool recorded_concerns(const struct recording_packet *segment, bool *is_ours)
{
    const struct endpoint *servers[] = { &trade_settings.orders[0], &trade_settings.orders[1],
                                         &trade_settings.snapshot };
    for (size_t i = 0; i < ARRAY_COUNT(servers); i++) {
        ASSERT(servers[i]->address == 0 || servers[i]->port != 0);
        *is_ours = segment->to == servers[i]->address && segment->to_port == servers[i]->port;
        if (*is_ours || (segment->from == servers[i]->address && segment->from_port == servers[i]->port))
            return servers[i]->address != 0;
    }
    return false;
}

/* Returns which host of the orders a connection goes to; LINK_HOST_COUNT_MAX: none of them. */
static uint32_t host_of(int connection)
{
    const struct endpoint *hosts = trade_settings.orders;
    uint32_t i = 0;
    ASSERT(connection >= 0);
    while (i < LINK_HOST_COUNT_MAX
           && (hosts[i].address == 0 || network_peer(hosts[i].address, hosts[i].port) != connection))
        i++;
    return i;
}

/* Takes a segment: the bytes of it that come next in its stream, without those that are repeated. */
static const char *take_segment(struct stream *s, int connection, const struct recording_packet *segment, bool is_ours,
                                uint64_t time_ns)
{
    const uint32_t host = host_of(connection);
    const bool has_data = s->began && segment->payload.count > 0, ends = segment->flags & RECORDING_FIN;
    const int32_t ahead = (int32_t)(segment->sequence - s->next);
    const size_t old = ahead < 0 ? min_size((size_t) - (int64_t)ahead, segment->payload.count) : 0;
    const struct bytes data = { segment->payload.data + old, has_data ? segment->payload.count - old : 0 };
    const uint64_t of_day = recorded.of_day;
    ASSERT(connection >= 0);
    if (data.count > 0 && !segment->is_whole)
        return "it has only the first bytes of a segment: capture=1514 keeps all";
    if (s->began && ahead > 0 && (has_data || ends))
        return hold(s, segment);
    s->next += (uint32_t)data.count;
    if (host < LINK_HOST_COUNT_MAX && !split(s, data, !is_ours, time_ns))
        return "the orders' session in it is no SoupBinTCP";
    if (is_ours) {
        if (host < LINK_HOST_COUNT_MAX)
            waiting.allowed[host] += (uint32_t)(recorded.of_day - of_day);
        return NULL;
    }
    if (!network_send(connection, data))
        return "the program does not take the exchange's responses";
    if (ends)
        network_end(connection);
    if (segment->flags & RECORDING_RST)
        network_lose(connection, TRANSPORT_RESET);
    return NULL;
}

const char *recorded_end(void)
{
    uint32_t held = 0;
    for (size_t i = 0; i < NETWORK_PEER_COUNT_MAX; i++)
        held += theirs[i].held_count + ours[i].held_count;
    ASSERT(held <= 2 * NETWORK_PEER_COUNT_MAX * HELD_COUNT_MAX);
    return held == 0 ? NULL : missing;
}

const char *recorded_take(const struct recording_packet *segment, uint64_t time_ns)
{
    bool is_ours;
    const bool concerns = recorded_concerns(segment, &is_ours);
    ASSERT(segment->kind == RECORDING_SEGMENT && concerns);
    const int connection = is_ours ? network_peer(segment->to, segment->to_port)
                                   : network_peer(segment->from, segment->from_port);
    ASSERT(connection >= 0);
    struct stream *s = is_ours ? &ours[connection] : &theirs[connection];
    const bool is_repeated = s->began && s->first == segment->sequence + 1;
    if (segment->flags & RECORDING_SYN && !is_repeated) {
        s->began = true;
        s->first = s->next = segment->sequence + 1;
        s->packet_bytes = s->held_count = 0;
        recorded.began |= host_of(connection) < LINK_HOST_COUNT_MAX;
        if (!is_ours)
            network_accept(connection);
    }
    struct recording_packet next = *segment;
    const char *failure;
    do
        failure = take_segment(s, connection, &next, is_ours, time_ns);
    while (failure == NULL && release(s, &next));
    return failure;
}
