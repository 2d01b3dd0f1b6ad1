#include "app/service/service.h"

#include <assert.h>
#include <string.h>

#include "app/service/agent.h"
#include "app/service/control.h"
#include "app/service/rehearsal.h"
#include "app/service/settings.h"
#include "app/service/silence.h"
#include "app/service/slow.h"
#include "app/service/stats.h"
#include "app/service/status_page.h"
#include "app/service/syslog.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "net/settings.h"

enum {
    POLL_NS = NS_PER_MS, /* from one check of the time-outs to the next */
    /* After BUSY_NS without idle time, page and log get a slice each POLL_NS. */
    BUSY_NS = NS_PER_S,
    SLEEP_NS_MAX = 100 * NS_PER_MS,
};

static struct {
    uint64_t began_ns, next_poll_ns, idle_ns, next_page_ns;
    uint64_t network_up_ns;     /* when the network was last seen up */
    uint64_t network_logged_ns; /* when its absence was last logged */
    bool network_was_up;
    bool postponed_logged;
    enum program_verdict verdict; /* PROGRAM_ON until the end; then stays */
} service;

static_assert((int)SERVICE_CONNECTION_COUNT == (int)STATUS_PAGE_CONNECTION_COUNT_MAX, "all are the status page's");

struct service_counters service_counters;
static const struct counter_group counter_group = COUNTER_GROUP("program.", "The program", SERVICE_COUNTERS,
                                                                service_counters);

const char *service_init(const uint8_t secret[32], bool has_helper, uint64_t now_ns)
{
    ASSERT(service_settings.control_port != 0);
    const struct service_settings *s = &service_settings;
    memset(&service, 0, sizeof service);
    memset(&service_counters, 0, sizeof service_counters);
    service.began_ns = service.network_up_ns = service.idle_ns = now_ns;
    stats_add_counters(&counter_group);
    stats_add_counters(&control_counter_group);
    stats_add_counters(&status_page_counter_group);
    stats_add_counters(&agent_counter_group);
    stats_add_counters(&syslog_counter_group);
    static const uint8_t any[NETDEV_MAC_BYTES];
    silence_init(memcmp(network_settings.gateway_mac, any, sizeof any) != 0);
    stats_add_counters(&silence_counter_group);
    syslog_init(&s->log);
    slow_init();
    rehearsal_init();
    stats_add_counters(&rehearsal_counter_group);
    stats_add_histogram("rehearsal.age", &rehearsal_age);
    if (!control_init(s->key, s->key_bytes, s->control_port, secret))
        return "the control channel's port cannot be had";
    if (!status_page_init(s->http_port, has_helper, s->capture_http))
        return "the port of the status page cannot be had";
    if (s->agent_port != 0 && program.free_percent == NULL)
        return "agent.port= is for programs that measure their free capacity, and this one does not";
    if (!agent_init(s->agent_port, program.free_percent))
        return "the port of the agent check cannot be had";
    if (s->key_bytes == 0)
        log_line("control channel: off, no key= is given");
    return NULL;
}

void service_event(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->kind != TRANSPORT_NONE);
    if (event->kind == TRANSPORT_DATAGRAM) {
        control_datagram(event, now_ns);
        return;
    }
    status_page_event(event, now_ns); /* each ignores connections of others */
    agent_event(event, now_ns);
}

/* Notes when the network is up, and logs its changes. */
static void watch_network(uint64_t now_ns)
{
    ASSERT(service.network_up_ns <= now_ns && service.network_logged_ns <= now_ns);
    const struct transport_network *network = transport_network();
    if (network->up) {
        if (!service.network_was_up && network->address) /* sockets do not say theirs before they connect */
            log_line("network: up, %pI4h mask %pI4h gateway %pI4h mtu %u%s", &network->address, &network->mask,
                     &network->gateway, network->mtu_bytes, network->from_dhcp ? ", by DHCP" : "");
        service.network_was_up = true;
        service.network_up_ns = now_ns;
        return;
    }
    service.network_was_up = false;
    uint64_t down_ns = now_ns - service.network_up_ns;
    if (down_ns >= NS_PER_S && now_ns - service.network_logged_ns >= NS_PER_S) {
        service.network_logged_ns = now_ns;
        log_line("network: down for %llu s, waiting for %s", (unsigned long long)(down_ns / NS_PER_S),
                 network->waiting_for);
    }
}

/* Returns true if a time-out, which 0 switches off, has passed. */
static bool has_passed(uint64_t timeout_ns, uint64_t since_ns, uint64_t now_ns)
{
    ASSERT(since_ns <= now_ns);
    return timeout_ns != 0 && now_ns - since_ns >= timeout_ns;
}

/* Returns true if no operator has asked for idle.timeout=. While HELLOs come faster than they are answered, the
 * operator's own may be among those that are dropped. The time counts from there: strangers must not end a run. */
static bool operator_is_gone(uint64_t now_ns)
{
    const uint64_t timeout_ns = service_settings.idle_timeout_ns, command_ns = control_last_command_ns();
    ASSERT(command_ns <= now_ns && control_last_refused_ns() <= now_ns);
    if (!has_passed(timeout_ns, command_ns > service.began_ns ? command_ns : service.began_ns, now_ns))
        return false;
    if (has_passed(timeout_ns, control_last_refused_ns(), now_ns))
        return true;
    if (!service.postponed_logged)
        log_line("control: more HELLOs come than are answered; idle.timeout= counts from the last one dropped");
    service.postponed_logged = true;
    return false;
}

static enum program_verdict judge(bool is_silent, uint64_t now_ns)
{
    const struct service_settings *s = &service_settings;
    if (control_gg_done())
        return PROGRAM_GG;
    if (has_passed(s->deadline_ns, service.began_ns, now_ns))
        return PROGRAM_DEADLINE;
    if (has_passed(s->net_timeout_ns, service.network_up_ns, now_ns) || is_silent)
        return PROGRAM_NETWORK_LOST;
    if (operator_is_gone(now_ns))
        return PROGRAM_IDLE;
    return PROGRAM_ON;
}

enum program_verdict service_poll(bool idle, uint64_t now_ns)
{
    ASSERT(service.began_ns <= now_ns);
    slow_turn();
    control_poll(now_ns);
    if (idle)
        service.idle_ns = now_ns;
    if (idle || (now_ns - service.idle_ns >= BUSY_NS && now_ns >= service.next_page_ns)) {
        service.next_page_ns = now_ns + POLL_NS;
        status_page_poll(now_ns);
        syslog_poll(now_ns);
    }
    if (now_ns >= service.next_poll_ns && service.verdict == PROGRAM_ON) {
        bool is_silent = silence_poll(service_settings.net_timeout_ns, time_stood_still(service.next_poll_ns, now_ns),
                                      now_ns);
        service.next_poll_ns = now_ns + POLL_NS;
        watch_network(now_ns);
        agent_poll(now_ns);
        service_counters.uptime_ns = now_ns - service.began_ns;
        service.verdict = judge(is_silent, now_ns);
    }
    rehearsal_poll(idle, now_ns);
    return service.verdict;
}

void service_leave(void)
{
    if (service.verdict == PROGRAM_ON)
        service.verdict = PROGRAM_GG;
}

uint64_t service_next_deadline_ns(uint64_t now_ns)
{
    const uint64_t deadlines_ns[] = { transport_next_deadline_ns(), control_next_deadline_ns(now_ns),
                                      status_page_next_deadline_ns(now_ns), syslog_next_deadline_ns() };
    uint64_t next_ns = now_ns + (service.network_was_up ? (uint64_t)SLEEP_NS_MAX : POLL_NS);
    for (size_t i = 0; i < ARRAY_COUNT(deadlines_ns); i++)
        if (deadlines_ns[i] < next_ns)
            next_ns = deadlines_ns[i];
    ASSERT(next_ns <= now_ns + SLEEP_NS_MAX);
    return next_ns;
}

const char *service_verdict_name(enum program_verdict verdict)
{
    static const char *const names[] = {
        [PROGRAM_ON] = "on",
        [PROGRAM_GG] = "gg",
        [PROGRAM_FINISHED] = "finished",
        [PROGRAM_NETWORK_LOST] = "network lost",
        [PROGRAM_DEADLINE] = "deadline",
        [PROGRAM_IDLE] = "nobody asked",
        [PROGRAM_SERVER_LOST] = "server lost",
        [PROGRAM_STOPPED] = NULL,
    };
    ASSERT(verdict < ARRAY_COUNT(names));
    ASSERT(verdict != PROGRAM_STOPPED || program.stopped);
    return verdict == PROGRAM_STOPPED ? program.stopped : names[verdict];
}
