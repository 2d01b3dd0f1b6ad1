/* A time server: NTP over UDP, with an own client of another server. Joins the parts of this folder, see README.md. */
#include "app/program.h"

#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/slow.h"
#include "app/service/stats.h"
#include "app/time/client.h"
#include "app/time/rate_limit.h"
#include "app/time/server.h"
#include "app/time/settings.h"
#include "base/assert.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "net/transport.h"

enum {
    EVENTS_PER_TURN_MAX = 32, /* some microseconds */
    PRECISION_READINGS = 16,
    PRECISION_MIN = -32,
    LOCAL_CLOCK = 0x7f7f0101, /* 127.127.1.1, which other servers show for a clock of their own */
};

static uint64_t (*machine_ns)(void);
static struct ntp_clock ntp_clock;
static struct ntp_reference reference;

/* Returns the binary logarithm of the seconds that a reading of the clock takes. */
static int8_t precision(void)
{
    uint64_t least_ns = NS_PER_S - 1;
    for (int i = 0; i < PRECISION_READINGS; i++) {
        uint64_t begin_ns = machine_ns(), took_ns = machine_ns() - begin_ns;
        if (took_ns < least_ns)
            least_ns = took_ns;
    }
    int8_t log2 = PRECISION_MIN;
    while (NS_PER_S >> -log2 < least_ns)
        log2++;
    ASSERT(log2 < 0);
    return log2;
}

/* Says how good the machine's own clock is. */
static struct ntp_reference own_reference(uint64_t wall_error_ns, uint64_t now_ns)
{
    const struct time_settings *s = &time_settings;
    uint32_t id = 0;
    ASSERT(s->stratum <= 15);
    if (s->stratum == 0 || log_wall_origin_ns == 0 || s->peer != 0)
        return ntp_reference_none();
    for (int i = 0, end = 0; i < TIME_REFERENCE_ID_BYTES_MAX; i++) { /* shorter ones are filled with zeros */
        end |= s->reference_id[i] == '\0';
        id = id << 8 | (end ? 0 : (uint8_t)s->reference_id[i]);
    }
    return (struct ntp_reference){
        .leap = NTP_LEAP_NONE,
        .stratum = s->stratum,
        .id = s->stratum == NTP_STRATUM_PRIMARY ? id : LOCAL_CLOCK,
        .root_delay_ns = s->root_delay_ns,
        .root_dispersion_ns = s->root_dispersion_ns + wall_error_ns,
        .updated_ns = now_ns,
        .stamp = ntp_stamp(ntp_clock_ns(&ntp_clock, now_ns)),
    };
}

/* Answers a request. The transmit stamp is the last thing before the frame is made. Returns false if there is no reply;
 * else the times of that stamp and of the end in `stamped_ns` and `sent_ns`. */
static bool answer(const struct transport_event *event, uint64_t seen_ns, uint64_t now_ns, uint64_t *stamped_ns,
                   uint64_t *sent_ns)
{
    uint8_t reply[NTP_PACKET_BYTES];
    if (!ntp_server_reply(event, seen_ns, &ntp_clock, &reference, reply))
        return false;
    ASSERT(event->payload.count >= sizeof reply);
    *stamped_ns = machine_ns();
    ntp_packet_set_transmit(reply, ntp_stamp(ntp_clock_ns(&ntp_clock, *stamped_ns)));
    if (!transport_udp_send(event->port, event->address, event->peer_port, reply, sizeof reply, now_ns))
        ntp_server_counters.send_failed++;
    *sent_ns = machine_ns();
    return true;
}

static void serve(const struct transport_event *event, uint64_t seen_ns, uint64_t now_ns)
{
    uint64_t stamped_ns, sent_ns;
    if (!answer(event, seen_ns, now_ns, &stamped_ns, &sent_ns))
        return;
    const uint64_t stage_ns[] = { seen_ns - now_ns, stamped_ns - seen_ns, sent_ns - stamped_ns };
    slow_note(sent_ns - now_ns, stage_ns, now_ns);
}

/* Answers a made-up request: app/service/rehearsal.h. */
static bool rehearse(uint64_t now_ns)
{
    const struct ntp_server_counters before = ntp_server_counters;
    struct transport_event event;
    uint64_t stamped_ns, sent_ns;
    if (!transport_poll(now_ns, &event))
        return false;
    hot_fetch(&time_settings, sizeof time_settings);
    rate_limit_keep(event.address);
    const bool answered = answer(&event, machine_ns(), now_ns, &stamped_ns, &sent_ns)
                          && ntp_server_counters.send_failed == before.send_failed;
    rate_limit_put_back();
    ntp_server_counters = before;
    return answered;
}

static void take_event(const struct transport_event *event, uint64_t now_ns)
{
    uint64_t seen_ns = machine_ns();
    ASSERT(event->kind != TRANSPORT_NONE && seen_ns >= now_ns);
    if (event->kind == TRANSPORT_DATAGRAM && event->port == time_settings.port)
        serve(event, seen_ns, now_ns);
    else if (event->kind == TRANSPORT_DATAGRAM && event->port == ntp_client_port())
        ntp_client_datagram(event, seen_ns, &ntp_clock, &reference);
    else
        service_event(event, now_ns);
}

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    bool idle = true;
    for (unsigned i = 0; i < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); i++, idle = false)
        take_event(&event, now_ns);
    ntp_client_poll(now_ns);
    transport_idle(now_ns);
    return service_poll(idle, now_ns);
}

static uint64_t next_deadline_ns(uint64_t now_ns)
{
    uint64_t service_ns = service_next_deadline_ns(now_ns), client_ns = ntp_client_next_deadline_ns();
    return client_ns < service_ns ? client_ns : service_ns;
}

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    const struct time_settings *s = &time_settings;
    static const uint8_t request[NTP_PACKET_BYTES] = { NTP_VERSION << 3 | NTP_MODE_CLIENT };
    const struct siphash_key rate_key = siphash_key_from(machine->secret);
    machine_ns = machine->now_ns;
    const struct ntp_server_config server = { .refuse_private = s->refuse_private, .precision = precision() };
    const struct ntp_client_config client = { .address = s->peer,
                                              .port = s->peer_port,
                                              .poll_ns = s->peer_poll_ns,
                                              .key = siphash_key_from(machine->secret + 16),
                                              .now_ns = machine_ns };
    ASSERT(s->rate_burst > 0);
    ntp_clock_init(&ntp_clock, (int64_t)(log_wall_origin_ns + now_ns), now_ns);
    reference = own_reference(machine->wall_error_ns, now_ns);
    stats_add_counters(&ntp_server_counter_group);
    stats_set_ways("turn_to_taken_ns taken_to_stamped_ns stamped_to_sent_ns");
    ntp_server_init(&server);
    rate_limit_init(rate_key, s->rate, s->rate_burst);
    rehearsal_add_frame(TRANSPORT_REHEARSAL_DATAGRAM, s->port, (struct bytes){ request, sizeof request }, rehearse);
    if (!transport_udp_bind(s->port))
        return "the port of the time server cannot be had";
    if (s->peer == 0)
        return NULL;
    stats_add_counters(&ntp_client_counter_group);
    stats_add_counters(&ntp_client_level_group);
    return ntp_client_init(&client, now_ns) ? NULL : "there is no port for questions to the peer";
}

const struct program program = { .name = "time",
                                 .settings = &time_settings_table,
                                 .udp_port_count = 2,
                                 .init = init,
                                 .turn = turn,
                                 .next_deadline_ns = next_deadline_ns };
