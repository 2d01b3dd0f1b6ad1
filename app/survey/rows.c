#include "app/survey/rows.h"

#include <assert.h>
#include <string.h>

#include "app/machine.h"
#include "app/matcher/matcher.h"
#include "app/service/stats.h"
#include "app/survey/echo.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "base/format.h"
#include "base/histogram.h"
#include "base/log.h"
#include "base/time.h"

enum {
    SLICE_US = 50,
    SPIN_US = 20,
    FACT_BYTES_MAX = 90, /* the statistics' */
    N_DIGITS = 256,
    PORT_FIRST = 49152, /* RFC 6335 §6: dynamic ports */
};
#define ECHO_PAUSE_NS NS_PER_MS

static struct {
    uint64_t tsc_khz, (*now_ns)(void);
    uint8_t seed[MATCHER_SEED_BYTES];
    struct endpoint echo;
    uint16_t echo_port;
    uint64_t share_ns, row_ends_ns;
    size_t row;   /* the one at work */
    bool working; /* the row at work has begun */
    struct matcher *matcher;
    uint64_t digits_state;
} survey;

/* A method of measuring, with the row's argument. */
struct method {
    const char *(*refusal)(uint32_t argument); /* NULL: it can be measured */
    void (*begin)(uint32_t argument, uint64_t now_ns);
    uint64_t (*sample)(uint32_t argument); /* TSC cycles; 0: it came to nothing. NULL: samples come as datagrams */
    void (*end)(void);
};

static const char *no_refusal(uint32_t argument) { return (void)argument, NULL; }
static void no_begin(uint32_t argument, uint64_t now_ns) { (void)argument, (void)now_ns; }
static void no_end(void) {}

/* ---- the clock, and the longest time in which it stands ---- */

static uint64_t reading_sample(uint32_t argument)
{
    (void)argument;
    uint64_t begin = cycles_now_serialised();
    return cycles_now_serialised() - begin;
}

static uint64_t gap_sample(uint32_t argument)
{
    const uint64_t begin = cycles_now(), end = begin + survey.tsc_khz * SPIN_US / 1000;
    uint64_t longest = 0;
    ASSERT(argument == 0);
    for (uint64_t before = begin, now; before < end; before = now) {
        now = cycles_now();
        longest = now - before > longest ? now - before : longest;
    }
    return longest;
}

static const struct method reading_method = { no_refusal, no_begin, reading_sample, no_end };
static const struct method gap_method = { no_refusal, no_begin, gap_sample, no_end };

/* ---- what the machine does ---- */

static const char *machine_refusal(uint32_t argument) { return machine_probe_refusal(argument); }
static void machine_begin(uint32_t argument, uint64_t now_ns) { (void)now_ns, machine_probe_begin(argument); }
static uint64_t machine_sample(uint32_t argument) { return machine_probe_cycles(argument); }
static const struct method machine_method = { machine_refusal, machine_begin, machine_sample, machine_probe_end };

/* ---- the matcher, with the moduli of the contest's default round (tools/servers/contest/rounds.py) ---- */

static const char *const moduli[] = {
    "20220217214410",
    "104648257118348370704723119",
    "125000000000000140750000000000052207500000000006359661",
    "10885732038215355481752285039386319187390558900925053798518152998488201",
};

static const char *matcher_refusal(uint32_t simd)
{
    return matcher_simd_usable(simd) ? NULL : "the processor has no such vectors";
}

static void matcher_row_begin(uint32_t simd, uint64_t now_ns)
{
    struct matcher_config config = { .n_digits_max = N_DIGITS, .modulus_count = ARRAY_COUNT(moduli), .simd = simd };
    (void)now_ns;
    memcpy(config.moduli, moduli, sizeof moduli);
    memcpy(config.seed, survey.seed, sizeof config.seed);
    const char *fault = matcher_init(&survey.matcher, &config);
    ASSERT(fault == NULL);
    survey.digits_state = 1;
}

static uint64_t matcher_sample(uint32_t simd)
{
    ASSERT(matcher_simd_usable(simd));
    return matcher_time_burst(survey.matcher, &survey.digits_state, 100);
}

static const struct method matcher_method = { matcher_refusal, matcher_row_begin, matcher_sample, no_end };

/* ---- the same with the widest vectors, while the second CPU spins: as a hyperthread it takes from the first ---- */

static const char *beside_refusal(uint32_t argument) { return (void)argument, machine_probe_refusal(MACHINE_SPIN); }

static void beside_begin(uint32_t argument, uint64_t now_ns)
{
    ASSERT(beside_refusal(argument) == NULL);
    matcher_row_begin(matcher_simd_best(), now_ns);
    machine_probe_begin(MACHINE_SPIN);
}

static uint64_t beside_sample(uint32_t argument) { return (void)argument, matcher_sample(matcher_simd_best()); }

static const struct method beside_method = { beside_refusal, beside_begin, beside_sample, machine_probe_end };

/* ---- round trips ---- */

enum echo_kind {
    /* The time from one datagram a millisecond to its reply, while the loop spins. */
    ECHO_AWAKE,
    /* The time to the reply, while the machine sleeps until the reply comes. */
    ECHO_ASLEEP,
    /* The time that the machine takes to wake for the reply. */
    ECHO_WAKE,
    /* The time from a datagram to its reply; the next datagram leaves when the reply is seen. */
    ECHO_REPLY,
};

static const char *echo_refusal(uint32_t kind)
{
    if (survey.echo.address == 0)
        return "echo= is not given";
    return kind == ECHO_ASLEEP ? machine_sleep_refusal()
           : kind == ECHO_WAKE ? machine_probe_refusal(MACHINE_WAKE_MSI)
                               : NULL;
}

static void echo_begin(uint32_t kind, uint64_t now_ns)
{
    ASSERT(survey.echo_port != 0);
    survey_echo_begin(kind == ECHO_REPLY ? 0 : ECHO_PAUSE_NS, now_ns);
    if (kind == ECHO_WAKE)
        machine_probe_begin(MACHINE_WAKE_MSI);
}

static const struct method echo_method = { echo_refusal, echo_begin, NULL, machine_probe_end };

/* ---- the rows ---- */

static const struct row {
    const char *name, *sample; /* a sample in words, at most 90 bytes */
    const struct method *method;
    uint32_t argument;
} rows[] = {
    { "survey.reading", "two readings of the TSC with nothing in between", &reading_method, 0 },
    { "survey.exit", "CPUID, which always leaves the guest", &machine_method, MACHINE_EXIT },
    { "survey.port_write", "OUT to port 0x80, which the VMM handles", &machine_method, MACHINE_PORT_WRITE },
    { "survey.notification", "notification of the transmit queue, no frame", &machine_method, MACHINE_NOTIFICATION },
    { "survey.line_transfer", "a cache line to the second CPU, half of there and back", &machine_method,
      MACHINE_LINE_TRANSFER },
    { "survey.wake_ipi", "from the second CPU's interrupt until HLT has ended", &machine_method, MACHINE_WAKE_IPI },
    { "survey.gap", "the longest gap between two readings of the clock in 20 us", &gap_method, 0 },
    { "survey.matcher_scalar", "search of 100 digits, without vectors", &matcher_method, MATCHER_SIMD_SCALAR },
    { "survey.matcher_avx2", "search of 100 digits, with AVX2", &matcher_method, MATCHER_SIMD_AVX2 },
    { "survey.matcher_avx512", "search of 100 digits, with AVX-512", &matcher_method, MATCHER_SIMD_AVX512 },
    { "survey.matcher_beside", "search of 100 digits, with the widest vectors, while the second CPU spins",
      &beside_method, 0 },
    { "survey.echo", "UDP datagram there and back, the loop spins", &echo_method, ECHO_AWAKE },
    { "survey.echo_asleep", "the same, the machine sleeps until the reply's MSI", &echo_method, ECHO_ASLEEP },
    { "survey.wake_msi", "from the reply in the ring until its MSI has ended the sleep", &echo_method, ECHO_WAKE },
    { "survey.ring_to_ring", "from the turn that sees a datagram until the next one is sent", &echo_method,
      ECHO_REPLY },
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };
static_assert((int)ROW_COUNT < (int)STATS_HISTOGRAM_COUNT_MAX, "a histogram each, and the rehearsals' age");

static struct histogram histograms[ROW_COUNT];
static char facts[ROW_COUNT][FACT_BYTES_MAX + 1];

static bool is_measured(size_t row) { return rows[row].method->refusal(rows[row].argument) == NULL; }

/* Returns true if the row at work is that round trip. */
static bool is_echo(enum echo_kind kind)
{
    ASSERT(survey.row <= ROW_COUNT);
    return survey.row < ROW_COUNT && survey.working && rows[survey.row].method == &echo_method
           && rows[survey.row].argument == kind;
}

const char *survey_rows_init(const struct survey_config *config, uint64_t now_ns)
{
    const struct program_machine *machine = config->machine;
    size_t measured = 0;
    ASSERT(machine->tsc_khz > 0 && config->duration_ns > 0);
    memset(&survey, 0, sizeof survey);
    survey.tsc_khz = machine->tsc_khz;
    survey.now_ns = machine->now_ns;
    survey.echo = config->echo;
    memcpy(survey.seed, machine->secret, sizeof survey.seed);
    if (config->echo.address != 0) {
        const uint8_t *random = machine->secret + sizeof survey.seed;
        survey.echo_port = (uint16_t)(PORT_FIRST + load_be16(random) % (UINT16_MAX - PORT_FIRST));
        const struct survey_echo_config echo = { config->echo, survey.echo_port, machine->now_ns };
        if (!survey_echo_init(&echo))
            return "there is no port for round trips";
        stats_add_counters(&survey_echo_counter_group);
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const char *refusal = rows[i].method->refusal(rows[i].argument);
        measured += refusal == NULL;
        format(facts[i], sizeof facts[i], "%s%s", refusal ? "not measured: " : "", refusal ? refusal : rows[i].sample);
        histogram_clear(&histograms[i]);
        stats_add_fact(rows[i].name, facts[i]);
        stats_add_histogram(rows[i].name, &histograms[i]);
    }
    survey.share_ns = config->duration_ns / measured;
    survey.row_ends_ns = now_ns;
    return NULL;
}

uint16_t survey_rows_echo_port(void) { return survey.echo_port; }

static void add_cycles(uint64_t cycles)
{
    ASSERT(survey.working);
    if (cycles > 0)
        histogram_add(&histograms[survey.row], cycles * NS_PER_MS / survey.tsc_khz);
}

void survey_rows_datagram(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->port == survey.echo_port);
    uint64_t round_trip_ns = survey_echo_datagram(event, now_ns);
    if (round_trip_ns == 0)
        return;
    if (is_echo(ECHO_AWAKE) || is_echo(ECHO_ASLEEP))
        histogram_add(&histograms[survey.row], round_trip_ns);
    if (is_echo(ECHO_WAKE))
        add_cycles(machine_probe_cycles(MACHINE_WAKE_MSI));
    if (is_echo(ECHO_REPLY)) {
        const uint64_t sent = survey_echo_counters.sent;
        survey_echo_poll(now_ns);
        if (survey_echo_counters.sent != sent)
            histogram_add(&histograms[survey.row], survey.now_ns() - now_ns);
    }
}

static void row_end(size_t i)
{
    const struct histogram *h = &histograms[i];
    ASSERT(i < ROW_COUNT);
    rows[i].method->end();
    log_line("%s: %llu samples, p50 %llu ns, p99 %llu ns, longest %llu ns", rows[i].name, (unsigned long long)h->count,
             (unsigned long long)histogram_quantile(h, 5000), (unsigned long long)histogram_quantile(h, 9900),
             (unsigned long long)h->max);
}

/* Ends the row at work and begins the next one that can be measured. Returns false if there is none. */
static bool row_next(uint64_t now_ns)
{
    ASSERT(survey.row < ROW_COUNT);
    if (survey.working) {
        row_end(survey.row);
        survey.row++;
    }
    survey.working = false;
    while (survey.row < ROW_COUNT && !is_measured(survey.row))
        survey.row++;
    if (survey.row == ROW_COUNT)
        return false;
    rows[survey.row].method->begin(rows[survey.row].argument, now_ns);
    survey.working = true;
    survey.row_ends_ns = survey.now_ns() + survey.share_ns; /* the matcher's tables take their time */
    return true;
}

bool survey_rows_work(uint64_t now_ns)
{
    ASSERT(survey.share_ns > 0);
    if (survey.row == ROW_COUNT || (now_ns >= survey.row_ends_ns && !row_next(now_ns)))
        return false;
    const struct row *row = &rows[survey.row];
    const uint64_t begin = cycles_now(), slice_cycles = survey.tsc_khz * SLICE_US / 1000;
    if (row->method->sample == NULL) {
        if (is_echo(ECHO_WAKE) && now_ns >= survey_echo_next_deadline_ns())
            machine_probe_cycles(MACHINE_WAKE_MSI); /* a frame of others, or a late reply */
        survey_echo_poll(now_ns);
        return true;
    }
    do {
        add_cycles(row->method->sample(row->argument));
    } while (cycles_now() - begin < slice_cycles);
    return true;
}

uint64_t survey_rows_next_deadline_ns(uint64_t now_ns)
{
    if (!is_echo(ECHO_ASLEEP) && !is_echo(ECHO_WAKE))
        return now_ns;
    uint64_t echo_ns = survey_echo_next_deadline_ns();
    return echo_ns < survey.row_ends_ns ? echo_ns : survey.row_ends_ns;
}
