#include "app/time/client.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"

enum {
    PORT_FIRST = 49152, /* RFC 6335 §6: dynamic ports */
    PORT_COUNT = 16384,
    PORT_TRIES = 8,
    UNANSWERED_MAX = 8, /* RFC 5905 §9: then a server is unreachable */
};
#define RETRY_NS     (100 * NS_PER_MS) /* the network is not up */
#define POLL_SLOW_NS (NS_PER_S << NTP_POLL_MAX)
#define STAMP_FAR_NS (3600 * (int64_t)NS_PER_S) /* no exchange takes as long */

static struct {
    struct ntp_client_config config;
    struct ntp_discipline discipline;
    uint16_t port;
    uint64_t poll_ns; /* between two questions, after the burst */
    bool kissed;      /* by a RATE: no burst any more */
    uint64_t drawn;   /* random numbers so far */
    uint64_t next_ns; /* the next question's time */

    /* the latest question */
    bool waits;     /* nobody has answered it */
    uint64_t nonce; /* the query's transmit stamp */
    uint64_t sent_ns;
    uint32_t unanswered; /* in a row */
    uint32_t fruitless;  /* questions since the last sample, the latest included */
} client;

struct ntp_client_counters ntp_client_counters;
const struct counter_group ntp_client_counter_group = COUNTER_GROUP("ntp.peer.", "NTP client", NTP_CLIENT_COUNTERS,
                                                                    ntp_client_counters);

static struct ntp_client_levels levels;
const struct counter_group ntp_client_level_group = COUNTER_GROUP("clock.", "Clocks", NTP_CLIENT_LEVELS, levels);

static uint64_t draw(void)
{
    uint64_t count = client.drawn++;
    return siphash(client.config.key, &count, sizeof count);
}

bool ntp_client_init(const struct ntp_client_config *config, uint64_t now_ns)
{
    ASSERT(config->address != 0 && config->poll_ns > 0);
    memset(&client, 0, sizeof client);
    memset(&levels, 0, sizeof levels);
    memset(&ntp_client_counters, 0, sizeof ntp_client_counters);
    client.config = *config;
    client.poll_ns = config->poll_ns;
    client.next_ns = now_ns;
    for (int i = 0; i < PORT_TRIES && client.port == 0; i++) {
        uint16_t port = (uint16_t)(PORT_FIRST + draw() % PORT_COUNT);
        client.port = transport_udp_bind(port) ? port : 0;
    }
    return client.port != 0;
}

uint16_t ntp_client_port(void) { return client.port; }

uint64_t ntp_client_next_deadline_ns(void) { return client.port ? client.next_ns : UINT64_MAX; }

/* Returns the time from a question to the next: short until the filter is full, if questions bring samples. */
static uint64_t interval_ns(void)
{
    bool is_burst = client.discipline.filter.added_count < NTP_FILTER_COUNT && client.fruitless <= NTP_BURST_COUNT
                    && !client.kissed;
    ASSERT(client.poll_ns > 0);
    return is_burst && client.poll_ns > NTP_BURST_NS ? NTP_BURST_NS : client.poll_ns;
}

void ntp_client_poll(uint64_t now_ns)
{
    if (!client.port || now_ns < client.next_ns)
        return;
    if (client.waits) {
        ntp_client_counters.unanswered++;
        if (++client.unanswered == UNANSWERED_MAX)
            log_line("ntp: %pI4h does not answer", &client.config.address);
    }
    uint8_t wire[NTP_PACKET_BYTES];
    struct ntp_packet question = { .version = NTP_VERSION, .mode = NTP_MODE_CLIENT };
    client.nonce = question.transmit = draw();
    ntp_packet_write(&question, wire);
    client.sent_ns = client.config.now_ns();
    ASSERT(client.sent_ns >= now_ns);
    client.waits = transport_udp_send(client.port, client.config.address, client.config.port, wire, sizeof wire,
                                      now_ns);
    client.fruitless += client.waits;
    client.next_ns = now_ns + (client.waits ? interval_ns() : RETRY_NS);
    ++*(client.waits ? &ntp_client_counters.requests : &ntp_client_counters.send_failed);
}

/* Obeys a kiss-o'-death. RFC 5905 §7.4: RATE asks for less, DENY and RSTR for none; others say nothing that binds. */
static void obey_kiss(const struct ntp_packet *packet)
{
    ASSERT(client.port != 0);
    ntp_client_counters.kisses++;
    if (packet->reference_id == NTP_KISS_RATE) {
        client.kissed = true;
        client.poll_ns = client.poll_ns * 2 < POLL_SLOW_NS ? client.poll_ns * 2 : POLL_SLOW_NS;
        client.next_ns = client.sent_ns + client.poll_ns;
    } else if (packet->reference_id == NTP_KISS_DENY || packet->reference_id == NTP_KISS_RESTRICT) {
        client.next_ns = UINT64_MAX;
        log_line("ntp: %pI4h refuses to serve us", &client.config.address);
    }
}

/* Returns true if this is an answer. Version 1 knows no modes (RFC 1059 appendix B): its servers leave the bits 0. */
static bool is_server(const struct ntp_packet *packet)
{
    return packet->mode == NTP_MODE_SERVER || (packet->version == 1 && packet->mode == NTP_MODE_RESERVED);
}

/* Returns the counter of the reason to ignore a datagram; NULL: it answers our latest question. */
static uint64_t *refuse(const struct transport_event *event, struct ntp_packet *packet)
{
    struct ntp_client_counters *count = &ntp_client_counters;
    if (event->address != client.config.address || event->peer_port != client.config.port)
        return &count->drop_stranger;
    if (event->payload.count < NTP_PACKET_BYTES)
        return &count->drop_length;
    ntp_packet_read(packet, event->payload.data);
    if (packet->version < NTP_VERSION_MIN || packet->version > NTP_VERSION) /* RFC 5905 A.5.1 takes lower versions */
        return &count->drop_version;
    if (!is_server(packet))
        return &count->drop_mode;
    if (!client.waits || packet->origin != client.nonce)
        return &count->drop_origin; /* forged, or for the second time: RFC 5905 §8, "bogus" and "duplicate" */
    ASSERT(client.port != 0);
    return NULL;
}

/* Measures by the four stamps, of which the outer two are the machine's. Returns false if they make no sense. */
static bool measure(const struct ntp_packet *packet, uint64_t seen_ns, struct ntp_sample *sample)
{
    ASSERT(seen_ns >= client.sent_ns);
    int64_t receive_ns = ntp_stamp_ns(packet->receive), transmit_ns = ntp_stamp_ns(packet->transmit);
    int64_t away_ns = (int64_t)(seen_ns - client.sent_ns), there_ns = transmit_ns - receive_ns;
    if (packet->receive == 0 || packet->transmit == 0 || there_ns < 0 || there_ns > STAMP_FAR_NS
        || away_ns > STAMP_FAR_NS)
        return false;
    sample->at_ns = client.sent_ns + (uint64_t)away_ns / 2;
    sample->ahead_ns = receive_ns + there_ns / 2 - (int64_t)sample->at_ns;
    sample->delay_ns = away_ns > there_ns ? (uint64_t)(away_ns - there_ns) : 0; /* the server's clock is another */
    return true;
}

/* Notes how good the clock is after an update. RFC 5905 §11.2.3. */
static void update_reference(struct ntp_reference *reference, const struct ntp_packet *packet,
                             const struct ntp_clock *clock, uint64_t now_ns)
{
    const struct ntp_discipline *d = &client.discipline;
    uint64_t offset_ns = d->offset_ns < 0 ? -(uint64_t)d->offset_ns : (uint64_t)d->offset_ns;
    ASSERT(packet->stratum >= NTP_STRATUM_PRIMARY && packet->stratum < NTP_STRATUM_UNSYNCHRONISED);
    *reference = (struct ntp_reference){
        .leap = packet->leap,
        .stratum = packet->stratum + 1,
        .id = client.config.address,
        .root_delay_ns = packet->root_delay_ns + d->delay_ns,
        .root_dispersion_ns = packet->root_dispersion_ns + d->jitter_ns
                              + (now_ns - d->used.at_ns) / NS_PER_MS * NTP_PHI_PPM,
        .updated_ns = now_ns,
        .stamp = ntp_stamp(ntp_clock_ns(clock, now_ns)),
    };
    levels = (struct ntp_client_levels){
        .peer_ahead_ns = d->offset_ns > 0 ? offset_ns : 0,
        .peer_behind_ns = d->offset_ns < 0 ? offset_ns : 0,
        .delay_ns = d->delay_ns,
        .jitter_ns = d->jitter_ns,
    };
    uint64_t rate = (uint64_t)(clock->frequency < 0 ? -clock->frequency : clock->frequency);
    *(clock->frequency < 0 ? &levels.machine_fast_ppb : &levels.machine_slow_ppb) = rate * NS_PER_S >> 32;
}

static void take_sample(const struct ntp_packet *packet, const struct ntp_sample *sample, uint64_t seen_ns,
                        struct ntp_clock *clock, struct ntp_reference *reference)
{
    struct ntp_discipline *d = &client.discipline;
    client.fruitless = 0;
    enum ntp_update update = ntp_discipline_add(d, clock, sample, interval_ns(), seen_ns);
    if (update == NTP_UPDATE_NONE)
        return;
    update_reference(reference, packet, clock, seen_ns);
    if (update == NTP_UPDATE_STEPPED) {
        ntp_client_counters.steps++;
        log_line("ntp: clock stepped by %lld us to the time of %pI4h, delay %llu us", (long long)(d->offset_ns / 1000),
                 &client.config.address, (unsigned long long)(d->delay_ns / 1000));
    } else { /* the offset is still there, wholly or for a while */
        reference->root_dispersion_ns += levels.peer_ahead_ns + levels.peer_behind_ns;
    }
    ASSERT(d->is_set);
}

void ntp_client_datagram(const struct transport_event *event, uint64_t seen_ns, struct ntp_clock *clock,
                         struct ntp_reference *reference)
{
    struct ntp_packet packet;
    struct ntp_sample sample;
    uint64_t *refused = refuse(event, &packet);
    if (refused) {
        ++*refused;
        return;
    }
    ASSERT(client.waits);
    client.waits = false;
    client.unanswered = 0;
    ntp_client_counters.replies++;
    if (packet.stratum == 0)
        obey_kiss(&packet);
    if (packet.leap == NTP_LEAP_UNKNOWN || packet.stratum == 0 || packet.stratum >= NTP_STRATUM_UNSYNCHRONISED
        || packet.root_delay_ns / 2 + packet.root_dispersion_ns >= NTP_DISPERSION_MAX_NS)
        ntp_client_counters.unsynchronised++;
    else if (!measure(&packet, seen_ns, &sample))
        ntp_client_counters.drop_stamps++;
    else
        take_sample(&packet, &sample, seen_ns, clock, reference);
}
