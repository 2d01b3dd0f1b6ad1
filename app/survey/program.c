/* The survey: measures what Linux cannot show of a machine, for as long as `survey.seconds=` says, and ends. The result
 * is in the statistics, so in the crash record: README.md. */
#include "app/program.h"

#include "app/service/service.h"
#include "app/survey/rows.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/time.h"
#include "net/transport.h"

enum { EVENTS_PER_TURN_MAX = 32 };

static struct survey_settings {
    uint64_t duration_ns;
    struct endpoint echo;
} values;
#define AT(member) SETTING_AT(struct survey_settings, member)
static const struct setting rows[] = {
    { "survey.seconds", SETTING_TIME, AT(duration_ns), .min = NS_PER_S, .max = 3600 * NS_PER_S, .initial = "120",
      .help = "how long all measurements take together" },
    { "echo", SETTING_ENDPOINT, AT(echo), .unset = "no round trips",
      .help = "a host that sends UDP datagrams back (RFC 862)" },
};
static const struct settings_table table = { rows, ARRAY_COUNT(rows), &values, sizeof values, NULL, NULL };

static const char *init(const struct program_machine *machine, uint64_t now_ns)
{
    ASSERT(values.duration_ns >= NS_PER_S);
    log_line("survey: measuring for %llu s; the results follow", (unsigned long long)(values.duration_ns / NS_PER_S));
    return survey_rows_init(&(struct survey_config){ machine, values.duration_ns, values.echo }, now_ns);
}

static void take_event(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->kind != TRANSPORT_NONE);
    if (event->kind == TRANSPORT_DATAGRAM && event->port == survey_rows_echo_port())
        survey_rows_datagram(event, now_ns);
    else
        service_event(event, now_ns);
}

static enum program_verdict turn(uint64_t now_ns)
{
    struct transport_event event;
    bool idle = true;
    for (unsigned i = 0; i < EVENTS_PER_TURN_MAX && transport_poll(now_ns, &event); i++, idle = false)
        take_event(&event, now_ns);
    bool more = survey_rows_work(now_ns);
    transport_idle(now_ns);
    enum program_verdict verdict = service_poll(idle, now_ns);
    return verdict == PROGRAM_ON && !more ? PROGRAM_FINISHED : verdict;
}

static uint64_t next_deadline_ns(uint64_t now_ns)
{
    uint64_t service_ns = service_next_deadline_ns(now_ns), rows_ns = survey_rows_next_deadline_ns(now_ns);
    return rows_ns < service_ns ? rows_ns : service_ns;
}

const struct program program = { .name = "survey",
                                 .settings = &table,
                                 .udp_port_count = 1,
                                 .init = init,
                                 .turn = turn,
                                 .next_deadline_ns = next_deadline_ns };
