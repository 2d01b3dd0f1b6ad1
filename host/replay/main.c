/* The trading program at a recorded day: build/host/trade-replay. A composition root as host/main.c, with the clock of
 * the recording. It reads the recording from standard input, and prints lines of JSON (report.h).
 * tools/servers/exchange/replay.py calls it.
 *
 * Each packet is a turn of the program at the packet's time. Between two packets there are the turns that the program
 * asks for; fewer while the market is quiet, unless the day's own orders are compared. All times follow from the
 * recording, so the same recording gives the same orders at any speed. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/nasdaq/mold.h"
#include "app/nasdaq/soup.h"
#include "app/program.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/start.h"
#include "app/service/stats.h"
#include "app/service/work.h"
#include "app/trade/settings.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/time.h"
#include "base/trace.h"
#include "host/platform.h"
#include "host/replay/exchange.h"
#include "host/replay/network.h"
#include "host/replay/recorded.h"
#include "host/replay/recording.h"
#include "host/replay/report.h"
#include "kernel/settings.h"

enum {
    EXIT_DIFFERS = 1, /* this and any other failure */
    EXIT_SETTINGS = 2,
    STEP_NS = 20 * NS_PER_US,        /* between two turns of a program that has work */
    BEGIN_NS = NS_PER_S,             /* the program's time of the first packet */
    QUIET_STEP_NS = 100 * NS_PER_MS, /* between two after QUIET_NS without a message of the market */
    LOOKS = 1024,                    /* turns between two looks at this machine's clock */
    FILE_BYTES_MAX = 64 * 1024,
    LINE_COUNT_MAX = 8,
};
#define PROGRESS_NS (500 * NS_PER_MS)
#define QUIET_NS    (10 * NS_PER_S)

static struct settings settings;
static volatile sig_atomic_t interrupted;
static struct {
    bool fills_recorded;
    double speed; /* 0: as fast as it goes */
    uint64_t latency_ns;
} options = { .latency_ns = 50 * NS_PER_US };
static struct {
    uint64_t now_ns;
    uint64_t clock_ns; /* within the turn: a message may have taken long */
    uint64_t first_ns, began_ns, progress_ns;
    uint64_t feed_next; /* number of the next message that the exchange sees */
    uint64_t heard_ns;  /* when it saw the latest one */
    int orders;         /* the connection; -1: none yet */
    const char *failure;
    const uint64_t *profit, *loss; /* counters of the program */
    uint64_t taken;                /* datagrams of the lines */
    uint32_t line_count;
    struct endpoint lines[LINE_COUNT_MAX]; /* the addresses of other datagrams */
    bool has_packet, has_next;             /* the packet that comes next, copied, and the one after it */
    struct recording_packet packet, next;
    uint8_t payload[UINT16_MAX];
} replay = { .now_ns = BEGIN_NS, .clock_ns = BEGIN_NS, .orders = -1 };

static uint64_t max_ns(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- settings ---- */

static void add_file(const char *path)
{
    static char words[FILE_BYTES_MAX];
    FILE *file = fopen(path, "r");
    const size_t bytes = file ? fread(words, 1, sizeof words, file) : 0;
    ASSERT(bytes <= sizeof words);
    if (!file || ferror(file))
        settings_fail(&settings, "%.200s: %s", path, strerror(errno));
    else
        settings_add(&settings, path, words, bytes);
    if (file)
        fclose(file);
}

/* Adds the settings that the program requires and that a replay does not depend on, unless they are given. */
static void add_defaults(void)
{
    static const struct {
        const char *key, *word;
    } defaults[] = { { "feed.a", "feed.a=0.0.0.0:26400" },
                     { "orders", "orders=127.0.0.1:26404" },
                     { "user", "user=REPLAY" },
                     { "passwd", "passwd=" } };
    for (size_t i = 0; i < ARRAY_COUNT(defaults); i++)
        for (size_t t = 0; t < settings.table_count; t++)
            for (size_t row = 0; row < settings.tables[t]->count; row++)
                if (!strcmp(settings.tables[t]->rows[row].name, defaults[i].key) && !(settings.seen[t] >> row & 1))
                    settings_add(&settings, "defaults", defaults[i].word, strlen(defaults[i].word));
    ASSERT(settings.table_count > 0);
}

/* Reads an option of our own. Returns false if the word is none. */
static bool read_option(const char *word, const char *value)
{
    char *end = NULL;
    ASSERT(word != NULL);
    if (!strcmp(word, "--fills") && value)
        options.fills_recorded = !strcmp(value, "recorded");
    else if (!strcmp(word, "--speed") && value)
        options.speed = strtod(value, &end);
    else if (!strcmp(word, "--latency-ns") && value)
        options.latency_ns = strtoull(value, &end, 10);
    else if (!strcmp(word, "--file") && value)
        add_file(value);
    else
        return false;
    if (end && *end != '\0')
        settings_fail(&settings, "%.20s: '%.60s' is no number", word, value);
    return true;
}

static bool read_words(int argc, char **argv)
{
    ASSERT(argc >= 1);
    for (int i = 1; i < argc; i++)
        if (read_option(argv[i], argv[i + 1]))
            i++;
        else
            settings_add(&settings, "command line", argv[i], strlen(argv[i]));
    add_defaults();
    return settings_finish(&settings);
}

/* ---- what the program does: network.h ---- */

void network_on_connect(int connection, uint32_t address, uint16_t port)
{
    const struct endpoint *hosts = trade_settings.orders;
    const bool is_first = address == hosts[0].address && port == hosts[0].port;
    const bool is_second = address == hosts[1].address && port == hosts[1].port;
    ASSERT(connection >= 0);
    if (is_first || (is_second && options.fills_recorded))
        replay.orders = connection;
    if (options.fills_recorded)
        return;
    if (is_first)
        exchange_connect(connection);
    else
        network_lose(connection, TRANSPORT_REFUSED);
}

void network_on_message(int connection, struct bytes packet, uint64_t now_ns)
{
    const bool is_request = packet.count > SOUP_HEAD_BYTES && packet.data[2] == 'U';
    const struct bytes message = { packet.data + SOUP_HEAD_BYTES, packet.count - SOUP_HEAD_BYTES };
    ASSERT(packet.count >= SOUP_HEAD_BYTES);
    if (connection != replay.orders)
        return;
    if (is_request)
        report_request(message, network_ns(platform_tsc_khz()), now_ns);
    if (!options.fills_recorded)
        exchange_take(packet, now_ns);
    else if (is_request)
        replay.clock_ns = max_ns(replay.clock_ns, recorded_compare(message));
}

/* ---- the recording's packets ---- */

/* Returns the program's time of a packet. */
static uint64_t time_of(const struct recording_packet *packet)
{
    return BEGIN_NS + (packet->time_ns > replay.first_ns ? packet->time_ns - replay.first_ns : 0);
}

/* Shows the exchange the messages of a datagram that it has not seen on the other line. */
static void observe(struct bytes datagram)
{
    const struct mold_header_wire *head = (const void *)datagram.data;
    if (datagram.count < sizeof *head)
        return;
    uint64_t number = load_be64(&head->sequence);
    uint32_t count = load_be16(&head->count);
    size_t from = MOLD_HEADER_BYTES;
    for (; count > 0 && count <= MOLD_COUNT_MAX && from + MOLD_LENGTH_BYTES <= datagram.count; count--, number++) {
        const struct bytes message = { datagram.data + from + MOLD_LENGTH_BYTES, load_be16(datagram.data + from) };
        from += MOLD_LENGTH_BYTES + message.count;
        ASSERT(message.count <= UINT16_MAX);
        if (from > datagram.count || number < replay.feed_next)
            continue;
        replay.feed_next = number + 1;
        replay.heard_ns = replay.now_ns;
        exchange_observe(message, replay.now_ns);
    }
}

/* Notes where a datagram goes that is of no line, for the message that no line has any. */
static void note_line(const struct recording_packet *packet)
{
    const uint32_t address = packet->to >> 28 == 0xe ? packet->to : 0;
    for (uint32_t i = 0; i < replay.line_count; i++)
        if (replay.lines[i].address == address && replay.lines[i].port == packet->to_port)
            return;
    ASSERT(replay.line_count <= LINE_COUNT_MAX);
    if (replay.line_count < LINE_COUNT_MAX)
        replay.lines[replay.line_count++] = (struct endpoint){ address, packet->to_port };
}

/* Returns true if a datagram is for the program's feed; notes where another one goes. */
static bool is_for_feed(const struct recording_packet *packet)
{
    const uint32_t group = packet->to >> 28 == 0xe ? packet->to : 0;
    ASSERT(packet->kind == RECORDING_DATAGRAM);
    for (uint32_t i = 0; i < 2; i++)
        if (trade_settings.feed[i].port == packet->to_port && trade_settings.feed[i].address == group)
            return ++replay.taken;
    if (trade_settings.rerequest.address != 0 && packet->to_port == trade_settings.rerequest_port)
        return true;
    note_line(packet);
    return false;
}

static void take_datagram(const struct recording_packet *packet)
{
    const struct transport_event event = { .kind = TRANSPORT_DATAGRAM,
                                           .connection = -1,
                                           .to_address = packet->to,
                                           .address = packet->from,
                                           .peer_port = packet->from_port,
                                           .port = packet->to_port,
                                           .payload = packet->payload };
    ASSERT(packet->kind == RECORDING_DATAGRAM);
    if (!packet->is_whole)
        replay.failure = "it has only the first bytes of a datagram of the feed: capture=1514 keeps all";
    if (!options.fills_recorded)
        observe(packet->payload);
    network_datagram(&event);
}

/* Reads on to the next packet that the program gets. The messages that the machine of the day has sent before are taken
 * on the way. */
static void read_next(void)
{
    struct recording_packet *const next = &replay.next;
    bool is_ours;
    while (replay.failure == NULL && (replay.has_next = recording_next(next))) {
        replay.first_ns = recording.packets == 1 ? next->time_ns : replay.first_ns;
        if (next->kind == RECORDING_DATAGRAM) {
            if (is_for_feed(next))
                return;
        } else if (options.fills_recorded && recorded_concerns(next, &is_ours)) {
            if (!is_ours)
                return;
            replay.failure = recorded_take(next, time_of(next));
        }
    }
    ASSERT(!replay.has_next || replay.failure != NULL);
    replay.failure = recording.failure != NULL ? recording.failure : replay.failure;
}

/* Makes the next packet the one that comes, and reads on. */
static void advance_packet(void)
{
    replay.has_packet = replay.has_next;
    replay.packet = replay.next;
    ASSERT(!replay.has_packet || replay.packet.payload.count <= sizeof replay.payload);
    if (!replay.has_packet)
        return;
    memcpy(replay.payload, replay.packet.payload.data, replay.packet.payload.count);
    replay.packet.payload.data = replay.payload;
    read_next();
}

static void take_packet(const struct recording_packet *packet)
{
    if (options.fills_recorded)
        recorded_allow();
    if (packet->kind == RECORDING_DATAGRAM)
        take_datagram(packet);
    else
        replay.failure = recorded_take(packet, replay.now_ns);
    ASSERT(replay.failure == NULL || replay.failure[0] != '\0');
}

/* ---- time ---- */

static uint64_t replay_clock_ns(void) { return replay.clock_ns; }

/* Waits until a time of the recording has come, if it is played at some speed. Says how far the replay is. */
static void pace(void)
{
    static uint32_t turns;
    if (options.speed == 0 && turns++ % LOOKS != 0)
        return;
    const uint64_t now_ns = platform_now_ns();
    if (now_ns >= replay.progress_ns) {
        replay.progress_ns = now_ns + PROGRESS_NS;
        report_progress(replay.now_ns);
    }
    ASSERT(options.speed >= 0);
    if (options.speed == 0)
        return;
    const uint64_t due_ns = replay.began_ns + (uint64_t)((double)(replay.now_ns - BEGIN_NS) / options.speed);
    if (due_ns > now_ns + NS_PER_MS / 10)
        nanosleep(&(struct timespec){ (time_t)((due_ns - now_ns) / NS_PER_S), (long)((due_ns - now_ns) % NS_PER_S) },
                  NULL);
}

/* Plays a turn of the program at the present. */
static enum program_verdict turn(void)
{
    log_clock_ns = replay.now_ns;
    network_begin_turn();
    const enum program_verdict verdict = program.turn(replay.now_ns);
    if (!options.fills_recorded)
        exchange_match(replay.now_ns);
    ASSERT(replay.profit != NULL && replay.loss != NULL);
    report_profit((int64_t)*replay.profit - (int64_t)*replay.loss, replay.now_ns, false);
    return verdict;
}

/* Moves the present to the next thing that happens: a packet at `due_ns`, or what program and exchange do before. */
static void step(uint64_t due_ns)
{
    ASSERT(replay.clock_ns >= replay.now_ns);
    uint64_t next_ns = program.next_deadline_ns(replay.now_ns);
    next_ns = next_ns > replay.now_ns ? next_ns : replay.now_ns + STEP_NS;
    if (!options.fills_recorded) {
        if (replay.now_ns - replay.heard_ns >= QUIET_NS)
            next_ns = max_ns(next_ns, replay.now_ns + QUIET_STEP_NS);
        next_ns = min_ns(next_ns, exchange_next_ns());
    }
    next_ns = min_ns(next_ns, due_ns);
    replay.now_ns = replay.clock_ns = max_ns(next_ns, replay.clock_ns);
    pace();
    if (!options.fills_recorded)
        replay.failure = exchange_advance(replay.now_ns);
}

static enum program_verdict run(void)
{
    enum program_verdict verdict = PROGRAM_ON;
    while (verdict == PROGRAM_ON && replay.failure == NULL) {
        step(replay.has_packet ? time_of(&replay.packet) : UINT64_MAX);
        const bool comes = replay.has_packet && time_of(&replay.packet) <= replay.now_ns;
        if (comes)
            take_packet(&replay.packet);
        verdict = turn();
        if (comes)
            advance_packet();
        if (!replay.has_packet && options.fills_recorded)
            return verdict; /* the day goes on, but the recording does not */
        if (!replay.has_packet || interrupted)
            service_leave();
    }
    ASSERT(verdict != PROGRAM_ON || replay.failure != NULL);
    return verdict;
}

/* ---- the end ---- */

static void find_counters(void)
{
    replay.profit = stats_find(NULL, "pool.trade_profit");
    replay.loss = stats_find(NULL, "pool.trade_loss");
    ASSERT(replay.profit != NULL && replay.loss != NULL);
}

/* Returns why the replay is not one: nothing of the recording was for the program. NULL: it is. */
static const char *unheard(void)
{
    static char message[400];
    if (options.fills_recorded && !recorded.began)
        return "it does not have the beginning of a connection to orders=, which --fills recorded needs";
    if (options.fills_recorded && recorded_end() != NULL)
        return recorded_end();
    if (replay.taken > 0)
        return NULL;
    int at = snprintf(message, sizeof message, "no datagram of it goes to feed.a= or feed.b=; there are some to");
    for (uint32_t i = 0; i < replay.line_count; i++) {
        const uint32_t a = replay.lines[i].address;
        at += snprintf(message + at, sizeof message - (size_t)at, " %u.%u.%u.%u:%u", a >> 24, a >> 16 & 255,
                       a >> 8 & 255, a & 255, replay.lines[i].port);
        ASSERT(at < (int)sizeof message);
    }
    return replay.line_count > 0 ? message : "it has no datagram";
}

static void print_end(enum program_verdict verdict)
{
    struct counter_group counter;
    char path[COUNTER_PATH_BYTES];
    const char *end = interrupted ? "interrupted" : verdict == PROGRAM_ON ? "recording" : service_verdict_name(verdict);
    report_profit((int64_t)*replay.profit - (int64_t)*replay.loss, replay.now_ns, true);
    printf("{\"event\":\"end\",\"end\":\"%s\",\"format\":\"%s\",\"from\":%llu,\"until\":%llu", end, recording.format,
           (unsigned long long)replay.first_ns, (unsigned long long)(replay.first_ns - BEGIN_NS + replay.now_ns));
    printf(",\"packets\":%llu,\"skipped\":%llu", (unsigned long long)recording.packets,
           (unsigned long long)recording.skipped);
    if (options.fills_recorded)
        printf(",\"recorded\":{\"day\":%llu,\"replay\":%llu,\"same\":%llu}", (unsigned long long)recorded.of_day,
               (unsigned long long)recorded.replayed, (unsigned long long)recorded.same);
    printf(",\"statistics\":{");
    for (size_t i = 0; stats_counter(NULL, i, &counter); i++) {
        printf("%s\"", i > 0 ? "," : "");
        snprintf(path, sizeof path, "%s%s", counter.prefix, counter.counters->name);
        for (const char *c = path; *c != '\0'; c++)
            printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
        printf("\":%llu", (unsigned long long)*counter.values);
    }
    puts("}}");
}

static int refuse(int status, const char *message)
{
    ASSERT(message[0] != '\0');
    fflush(stdout);
    printf("{\"event\":\"failure\",\"failure\":\"");
    for (const char *c = message; *c != '\0'; c++)
        printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    puts("\"}");
    return status;
}

int main(int argc, char **argv)
{
    service_settings_begin(&settings, program.name, program.settings, &machine_settings_table);
    if (!read_words(argc, argv))
        return refuse(EXIT_SETTINGS, settings.error);
    service_settings.wait = SERVICE_WAIT_SLEEP; /* nothing to rehearse for */
    service_settings.capture_bytes = 0;         /* the frames are those of the recording */
    service_settings.capture_http = false;
    work_set_workers(0);
    const char *mistake = recording_open(stdin, trade_settings.feed[0].address, trade_settings.feed[0].port);
    if (mistake)
        return refuse(EXIT_DIFFERS, mistake);
    read_next();
    advance_packet();
    replay.failure = replay.failure == NULL && !replay.has_packet ? unheard() : replay.failure;
    if (replay.failure)
        return refuse(EXIT_DIFFERS, replay.failure);
    platform_init();
    struct sigaction action = { .sa_handler = interrupt };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    log_wall_origin_ns = replay.first_ns - min_ns(replay.first_ns, BEGIN_NS);
    log_clock_ns = replay.now_ns;
    report_init(replay.first_ns - BEGIN_NS);
    exchange_init(options.latency_ns, replay.first_ns - BEGIN_NS);
    stats_clear();
    const struct start_platform platform = { .tsc_khz = platform_tsc_khz(),
                                             .now_ns = replay_clock_ns,
                                             .random = platform_random };
    ASSERT(platform.tsc_khz > 0);
    mistake = program_start(&platform);
    if (mistake)
        return refuse(EXIT_SETTINGS, mistake);
    find_counters();
    replay.began_ns = platform_now_ns();
    const enum program_verdict verdict = run();
    log_line("leaving: %s", interrupted             ? "interrupted"
                            : replay.failure        ? replay.failure
                            : verdict == PROGRAM_ON ? "the recording ends"
                                                    : service_verdict_name(verdict));
    if (replay.failure == NULL && !interrupted)
        replay.failure = unheard();
    if (replay.failure)
        return refuse(EXIT_DIFFERS, replay.failure);
    print_end(verdict);
    return options.fills_recorded && (recorded.same != recorded.of_day || recorded.same != recorded.replayed);
}
