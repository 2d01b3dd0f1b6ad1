#include "app/service/start.h"

#include "app/program.h"
#include "app/service/agent.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "app/service/syslog.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/secrets.h"
#include "base/version.h"
#include "net/capture/capture.h"
#include "net/settings.h"
#include "net/transport_path.h"

enum { CACHE_LINE_BYTES = 64 };

/* Returns how many connections the service takes. */
static uint32_t service_connection_count(void)
{
    return SERVICE_CONNECTION_COUNT + (program.free_percent != NULL ? AGENT_CONNECTION_COUNT_MAX : 0);
}

/* Returns NULL if the transport can have what the program and the service ask for, else a message. */
static const char *check_capacities(void)
{
    static char message[160];
    const struct {
        const char *member;
        uint32_t wanted, service, most;
    } capacities[] = {
        { "connection_count", program.connection_count, service_connection_count(), TRANSPORT_CONNECTION_COUNT_LIMIT },
        { "listener_count", program.listener_count, SERVICE_LISTENER_COUNT, TRANSPORT_LISTENER_COUNT_MAX },
        { "udp_port_count", program.udp_port_count, SERVICE_UDP_PORT_COUNT, TRANSPORT_UDP_PORT_COUNT_MAX },
    };
    for (size_t i = 0; i < ARRAY_COUNT(capacities); i++) {
        ASSERT(capacities[i].service < capacities[i].most);
        if (capacities[i].wanted <= capacities[i].most - capacities[i].service)
            continue;
        format(message, sizeof message, "the program %s asks for a %s of %u: %u is the most (net/transport.h)",
               program.name, capacities[i].member, capacities[i].wanted, capacities[i].most - capacities[i].service);
        return message;
    }
    return NULL;
}

/* A switch with a spanning tree may forward nothing for 30 s after the link is up (IEEE 802.1D-2004 §8.4). */
#define CARD_PATIENCE_NS (30 * NS_PER_S)

/* Waits for the network as long as there are other cards to try, each for half of net.timeout=, or for 30 s if that is
 * "never". The loop waits for the last one. The stack sees another card as a cable that was pulled and put in again. */
static void find_network(const struct start_platform *platform)
{
    const bool is_limited = service_settings.net_timeout_ns != 0;
    const uint64_t patience_ns = is_limited ? service_settings.net_timeout_ns / 2 : CARD_PATIENCE_NS;
    while (platform->cards_left != NULL && platform->cards_left() != 0) {
        const struct transport_network *network;
        const uint64_t end_ns = platform->now_ns() + patience_ns;
        struct transport_event event;
        ASSERT(platform->device != NULL);
        while (!(network = transport_network())->up && platform->now_ns() < end_ns) {
            transport_poll(platform->now_ns(), &event); /* nobody listens yet */
            transport_idle(platform->now_ns());
            if (platform->beat)
                platform->beat();
        }
        if (network->up)
            return;
        log_line("network: no %s within %s; trying the next card", network->waiting_for,
                 is_limited ? "half of net.timeout=" : "30 s");
        /* Again if the device's poll has read the link as up before the stack saw it go. */
        do {
            platform->device->link_up = false;
            transport_idle(platform->now_ns());
        } while (platform->device->link_up);
        platform->card_next();
        capture_attach(platform->device);
    }
}

/* ---- the capture ---- */

/* Brings the stack's counters up to date, without a copy of a group. */
static void refresh_counters(void)
{
    struct counter_group none;
    bool any = transport_counter_group(SIZE_MAX, &none);
    ASSERT(!any);
}

/* Begins a capture if one is asked for, before the stack knows the device. NULL, or a message. */
static const char *capture_begin(const struct start_platform *platform)
{
    const struct service_settings *s = &service_settings;
    if (s->capture_bytes == 0)
        return NULL;
    if (platform->device == NULL)
        return "capture= is for the kernel: over Linux sockets there are no frames; tcpdump captures those of Linux";
    ASSERT(platform->memory_take != NULL);
    const size_t bytes = capture_memory_bytes(s->capture_bytes, s->capture_frames);
    void *memory = platform->memory_take(bytes, CACHE_LINE_BYTES, "capture=");
    secrets_hold(memory, bytes); /* parts of logins, cut by capture= */
    capture_init(&(struct capture_config){
        .bytes = s->capture_bytes,
        .frames = s->capture_frames,
        .memory = memory,
        .now_ns = platform->now_ns,
        .refresh = refresh_counters,
        .early = transport_alters_frames(),
    });
    capture_attach(platform->device);
    return NULL;
}

/* Returns how many counters are registered. */
static size_t counter_count(void)
{
    size_t count = 0;
    struct counter_group counter;
    while (stats_counter(NULL, count, &counter))
        count++;
    return count;
}

/* Watches the drops of stack, service and program. `first`: the counters before are the machine's. Its device counts
 * drops of frames that never reach the stack. */
static void watch_drops(size_t first)
{
    struct counter_group counter;
    ASSERT(first <= counter_count());
    for (size_t i = first; stats_counter(NULL, i, &counter); i++)
        capture_watch(&counter);
}

const char *program_start(const struct start_platform *platform)
{
    struct program_machine machine = {
        .tsc_khz = platform->tsc_khz,
        .now_ns = platform->now_ns,
        .wall_error_ns = platform->wall_error_ns,
        .beat = platform->beat,
    };
    uint8_t secret[32];
    ASSERT(platform->tsc_khz > 0);
    platform->random(machine.secret, sizeof machine.secret);
    const size_t machine_counters = counter_count();
    const char *mistake = check_capacities();
    if (!mistake)
        mistake = capture_begin(platform);
    if (!mistake && program.prepare)
        mistake = program.prepare(&machine);
    if (mistake)
        return mistake;
    if (platform->beat)
        platform->beat();

    stats_add_fact("version", version_text);
    stats_add_fact("program", program.name);
    stats_add_fact("stack", transport_name());
    network_settings.device = platform->device;
    network_settings.connection_count = max_u32(program.connection_count + service_connection_count(),
                                                TRANSPORT_CONNECTION_COUNT_MAX);
    network_settings.memory_bytes = transport_memory_bytes(network_settings.connection_count);
    if (network_settings.memory_bytes > 0)
        network_settings.memory = platform->memory_take(network_settings.memory_bytes, CACHE_LINE_BYTES,
                                                        "connection_count of the program");
    platform->random(network_settings.secret, sizeof network_settings.secret);
    if (!transport_init(&network_settings, platform->now_ns()))
        return "the network cannot be used as it is set";
    stats_add_transport();
    find_network(platform);

    platform->random(secret, sizeof secret);
    platform->random(machine.secret, sizeof machine.secret); /* others than program.prepare had */
    mistake = service_init(secret, platform->has_helper, platform->now_ns());
    if (mistake)
        return mistake;
    mistake = program.init(&machine, platform->now_ns());
    watch_drops(machine_counters);
    if (!mistake)
        log_line("%s: running, TCP/IP stack %s", program.name, transport_name());
    return mistake;
}

bool program_flush_step(uint64_t now_ns)
{
    struct transport_event event;
    transport_rehearsal_abandon();
    transport_poll(now_ns, &event); /* ARP may have something to do; the program's connections are over */
    bool more = syslog_flush_step(now_ns);
    transport_idle(now_ns);
    return more;
}
