#include "app/time/server.h"

#include <string.h>

#include "app/time/rate_limit.h"
#include "base/assert.h"
#include "base/bytes.h"

static struct ntp_server_config server;

struct ntp_server_counters ntp_server_counters;
const struct counter_group ntp_server_counter_group = COUNTER_GROUP("ntp.", "NTP server", NTP_SERVER_COUNTERS,
                                                                    ntp_server_counters);

void ntp_server_init(const struct ntp_server_config *config)
{
    ASSERT(config->precision < 0);
    server = *config;
    memset(&ntp_server_counters, 0, sizeof ntp_server_counters);
}

/* Returns true for an address that is not of the public Internet: RFC 1918, RFC 6598, RFC 3927, RFC 1122 §3.2.1.3. */
static bool is_private(uint32_t address)
{
    static const struct {
        uint32_t network, bits;
    } ranges[] = { { 0x0a000000, 8 },  { 0xac100000, 12 }, { 0xc0a80000, 16 },
                   { 0x64400000, 10 }, { 0xa9fe0000, 16 }, { 0x7f000000, 8 } };
    for (size_t i = 0; i < ARRAY_COUNT(ranges); i++) {
        ASSERT(ranges[i].bits > 0);
        if ((address ^ ranges[i].network) >> (32 - ranges[i].bits) == 0)
            return true;
    }
    return false;
}

/* Returns true if this is a question. Version 1 knows no modes (RFC 1059 appendix B): its clients leave the bits 0,
 * and ask from a port of their own. */
static bool is_client(const struct ntp_packet *request, uint16_t port)
{
    return request->mode == NTP_MODE_CLIENT
           || (request->version == 1 && request->mode == NTP_MODE_RESERVED && port != NTP_PORT);
}

/* Returns the counter of the reason to ignore a datagram; NULL: it is a request to answer. */
static uint64_t *refuse(const struct transport_event *event, const struct ntp_packet *request)
{
    struct ntp_server_counters *count = &ntp_server_counters;
    if (request->version < NTP_VERSION_MIN || request->version > NTP_VERSION)
        return &count->drop_version;
    if (!is_client(request, event->peer_port))
        return &count->drop_mode; /* so two servers never answer each other */
    if (event->peer_port == 0)
        return &count->drop_source;
    if (server.refuse_private && is_private(event->address))
        return &count->drop_private;
    ASSERT(event->payload.count >= NTP_PACKET_BYTES);
    return NULL;
}

static void count_request(uint8_t version)
{
    static uint64_t *const counts[] = { &ntp_server_counters.requests_v1, &ntp_server_counters.requests_v2,
                                        &ntp_server_counters.requests_v3, &ntp_server_counters.requests_v4 };
    ASSERT(version >= NTP_VERSION_MIN && version <= ARRAY_COUNT(counts));
    ntp_server_counters.requests++;
    ++*counts[version - 1];
}

bool ntp_server_reply(const struct transport_event *event, uint64_t seen_ns, const struct ntp_clock *clock,
                      const struct ntp_reference *reference, uint8_t reply[NTP_PACKET_BYTES])
{
    struct ntp_packet packet;
    if (event->payload.count < NTP_PACKET_BYTES) {
        ntp_server_counters.drop_length++;
        return false;
    }
    ntp_packet_read(&packet, event->payload.data);
    uint64_t *refused = refuse(event, &packet);
    enum rate_verdict rate = refused ? RATE_DROP : rate_limit_take(event->address, seen_ns);
    if (rate == RATE_DROP) {
        ++*(refused ? refused : &ntp_server_counters.drop_rate);
        return false;
    }

    /* RFC 5905 §9.2, fast_xmit: version and poll as they came, the request's transmit stamp as origin. */
    ASSERT(refused == NULL);
    packet.mode = NTP_MODE_SERVER;
    packet.precision = server.precision;
    packet.origin = packet.transmit;
    packet.receive = ntp_stamp(ntp_clock_ns(clock, seen_ns));
    packet.transmit = 0;
    ntp_reference_fill(reference, &packet, seen_ns);
    if (rate == RATE_KISS) { /* §7.4 */
        ntp_server_counters.kisses++;
        packet.leap = NTP_LEAP_UNKNOWN;
        packet.stratum = 0;
        packet.reference_id = NTP_KISS_RATE;
    } else {
        count_request(packet.version);
        ntp_server_counters.leaks += rate == RATE_LEAK;
    }
    ntp_packet_write(&packet, reply);
    return true;
}
