/* A compute service over HTTP/1.1: README.md. */
#include "app/program.h"

#include "app/digest/capacity.h"
#include "app/digest/connection.h"
#include "app/digest/method.h"
#include "app/digest/server.h"
#include "app/digest/settings.h"
#include "app/digest/variants.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/stats.h"
#include "app/service/work.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "net/transport.h"

enum { EVENTS_PER_TURN_MAX = 64, EVENTS_NS = 10 * NS_PER_US /* after which the turn takes no further event */ };

static uint64_t (*clock_ns)(void);
static struct counter_group work_counters;

/* Returns true if no vector instructions are to be used. */
static bool wants_plain_cpu(void) { return digest_settings.simd == DIGEST_SIMD_SCALAR; }

static const char *prepare(const struct program_machine *machine)
{
    work_counters = work_init(machine->tsc_khz);
    digest_variants_choose(digest_settings.simd == DIGEST_SIMD_SCALAR, machine->tsc_khz);
#define LOG_VARIANT(name, keys) log_line("digest: %s by %s", #name, digest_variants.names[METHOD_##name]);
    DIGEST_METHODS(LOG_VARIANT)
    log_line("digest: chains of 1, 4, 16 by %s, %s, %s", digest_variants.chains[1]->name,
             digest_variants.chains[4]->name, digest_variants.chains[16]->name);
    return NULL;
}

/* Fetches the lines of the latest client: the next request is often the same client's. */
static bool warm_up(uint64_t now_ns)
{
    (void)now_ns;
    hot_fetch(&clock_ns, sizeof clock_ns);
    digest_server_warm();
    return true;
}

static bool rehearse(uint64_t now_ns)
{
    struct transport_event event;
    return transport_poll(now_ns, &event) && digest_connection_rehearse(&event, now_ns);
}

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    (void)now_ns;
    ASSERT(machine->now_ns != NULL);
    clock_ns = machine->now_ns;
    stats_add_counters(&work_counters);
    const uint32_t workers = work_worker_count();
    log_line("digest: %u worker%s, a hand-over takes %lu ns", workers, workers == 1 ? "" : "s", work_hand_over_ns());
#define ADD_FACT(name, keys) stats_add_fact("digest." #name, digest_variants.names[METHOD_##name]);
    DIGEST_METHODS(ADD_FACT)
    rehearsal_add_frame(TRANSPORT_REHEARSAL_SEGMENT, digest_settings.port,
                        text_of("POST /sha256?rounds=1 HTTP/1.1\r\nHost: rehearsal\r\nContent-Length: 5\r\n\r\nhello"),
                        rehearse);
    rehearsal_add_work(warm_up);
    return digest_server_init(digest_settings.port) ? NULL : "the port of the service cannot be had";
}

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    bool idle = true;
    for (unsigned i = 0; i < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); i++) {
        idle = false;
        if (!digest_server_event(&event, now_ns))
            service_event(&event, now_ns);
        if (clock_ns() >= now_ns + EVENTS_NS)
            break;
    }
    digest_server_work(now_ns);
    transport_idle(now_ns);
    return service_poll(idle, now_ns);
}

static uint64_t next_deadline_ns(uint64_t now_ns)
{
    uint64_t service_ns = service_next_deadline_ns(now_ns), server_ns = digest_server_next_deadline_ns(now_ns);
    ASSERT(service_ns < UINT64_MAX);
    return server_ns < service_ns ? server_ns : service_ns;
}

/* Returns the free capacity in percent of rounds.full=. */
static uint32_t free_percent(void)
{
    ASSERT(digest_settings.rounds_full > 0);
    uint64_t percent = digest_capacity_free() * 100 / digest_settings.rounds_full;
    return (uint32_t)min_u64(percent, UINT32_MAX);
}

const struct program program = { .name = "digest",
                                 .settings = &digest_settings_table,
                                 .connection_count = SERVER_CONNECTION_COUNT + SERVER_REFUSAL_COUNT,
                                 .listener_count = 1,
                                 .wants_plain_cpu = wants_plain_cpu,
                                 .prepare = prepare,
                                 .init = init,
                                 .turn = turn,
                                 .next_deadline_ns = next_deadline_ns,
                                 .free_percent = free_percent };
