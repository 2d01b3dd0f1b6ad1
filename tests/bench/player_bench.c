/* What the player adds to the matcher and the stack, each piece alone, over a transport that does nothing:
 *
 *     build/host/tests/bench/player_bench [COMMIT]      a table, and build/bench/player.json
 *
 * Each row is the median and the 99th percentile of single calls between serialised readings of the TSC, less the
 * median of two readings with nothing in between; so caches are as warm as in a burst's second answer. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/control.h"
#include "app/feed.h"
#include "app/ledger.h"
#include "app/outbox.h"
#include "app/submit.h"
#include "host/platform.h"
#include "kernel/base/bytes.h"
#include "kernel/base/cycles.h"
#include "net/http.h"
#include "net/transport.h"

enum { N = 20000 };

/* A transport that takes everything and does nothing. */
static uint8_t message[TRANSPORT_MESSAGE_BYTES_MAX];
static struct transport_network network = { .up = true, .waiting_for = "nothing" };
int transport_connect(uint32_t address, uint16_t port, uint64_t now_ns)
{
    (void)address, (void)now_ns;
    return port % 2;
}
uint8_t *transport_message(int connection) { (void)connection; return message; }
void transport_message_prepare(int connection, uint32_t from, uint32_t bytes) { (void)connection, (void)from, (void)bytes; }
bool transport_send(int connection, uint32_t from, uint32_t bytes, uint64_t now_ns)
{
    (void)connection, (void)from, (void)bytes, (void)now_ns;
    __asm__ volatile("" : : "r"(message) : "memory");
    return true;
}
uint32_t transport_unacked_bytes(int connection) { (void)connection; return 0; }
void transport_close(int connection, uint64_t now_ns) { (void)connection, (void)now_ns; }
void transport_abort(int connection, uint64_t now_ns) { (void)connection, (void)now_ns; }
const struct transport_network *transport_network(void) { return &network; }
bool transport_udp_bind(uint16_t port) { return port != 0; }
bool transport_udp_send(uint16_t from_port, uint32_t to_address, uint16_t to_port, const void *data, size_t bytes,
                        uint64_t now_ns)
{
    (void)from_port, (void)to_address, (void)to_port, (void)data, (void)bytes, (void)now_ns;
    return true;
}
bool transport_counter_group(size_t index, struct counter_group *group) { (void)index, (void)group; return false; }

static uint64_t samples[N], empty_cycles;
static FILE *json;
static const char *commit = "unknown";

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double to_ns(uint64_t cycles) { return (double)cycles * 1e6 / (double)platform_tsc_khz(); }

static void report(const char *name)
{
    qsort(samples, N, sizeof *samples, compare);
    uint64_t p50 = samples[N / 2], p99 = samples[N * 99 / 100];
    double p50_ns = to_ns(p50 > empty_cycles ? p50 - empty_cycles : 0), p99_ns = to_ns(p99 > empty_cycles ? p99 - empty_cycles : 0);
    printf("%-28s %8.1f %8.1f  ns  n=%d\n", name, p50_ns, p99_ns, N);
    fprintf(json, "%s{\"name\": \"%s\", \"unit\": \"ns\", \"n\": %d, \"p50\": %.1f, \"p99\": %.1f, \"machine\": \"%llu kHz TSC\", "
            "\"commit\": \"%s\", \"command\": \"build/host/tests/bench/player_bench\"}", ftell(json) > 2 ? ",\n" : "", name, N,
            p50_ns, p99_ns, (unsigned long long)platform_tsc_khz(), commit);
}

#define MEASURE(name, before, call) \
    do { \
        for (size_t sample = 0; sample < N; sample++) { \
            before; \
            uint64_t began = cycles_now_serialised(); \
            call; \
            samples[sample] = cycles_now_serialised() - began; \
        } \
        report(name); \
    } while (0)

static uint8_t digits[1024];
static void fresh_digits(size_t count)
{
    for (size_t i = 0; i < count; i++)
        digits[i] = (uint8_t)('0' + rand() % 10);
    digits[0] = '7';
}

static void bench_http(void)
{
    static const char raw[] = "HTTP/1.1 200 OK\r\n\r\n", chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    static uint8_t burst[128];
    struct http_response r;
    struct http_body body;
    struct settings_endpoint to = { 0x7f000001, 1 };
    struct feed feed;
    struct http_body run;

    memset(burst, '7', sizeof burst);
    http_response_begin(&r);
    const uint8_t *at = (const uint8_t *)raw, *end = at + sizeof raw - 1;
    http_response_step(&r, &at, end, &body);
    MEASURE("player/http/raw/100", at = burst, while (http_response_step(&r, &at, burst + 100, &body) != HTTP_MORE));

    feed_init(&feed, "feed", &to);
    link_init_all();
    feed_tend(&feed, 0, 1);
    feed_connected(&feed, 2);
    at = (const uint8_t *)raw, end = at + sizeof raw - 1;
    feed_next(&feed, &at, end, &run, 3);
    MEASURE("player/feed/raw/100", at = burst, while (feed_next(&feed, &at, burst + 100, &run, 4)));

    http_response_begin(&r);
    at = (const uint8_t *)chunked, end = at + sizeof chunked - 1;
    http_response_step(&r, &at, end, &body);
    memcpy(burst, "64\r\n", 4);
    memcpy(burst + 104, "\r\n", 2);
    MEASURE("player/http/chunked/100", at = burst, while (http_response_step(&r, &at, burst + 106, &body) != HTTP_MORE));
}

static void bench_answers(void)
{
    static const size_t counts[] = { 24, 256, 1024 };
    static struct settings settings = { .submit = { 0x0a000202, 10002 }, .user = "swift", .passwd = "secret" };
    static const uint8_t secret[32] = { 1 };
    struct transport_event connected = { .kind = TRANSPORT_CONNECTED };
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        char name[40];
        size_t count = counts[i];
        ledger_init(secret);
        snprintf(name, sizeof name, "player/ledger/new/%zu", count);
        MEASURE(name, fresh_digits(count), ledger_enter(digits, count));
        snprintf(name, sizeof name, "player/ledger/known/%zu", count);
        MEASURE(name, , ledger_enter(digits, count));

        link_init_all();
        ledger_init(secret);
        submit_init(&settings);
        submit_tend(1);
        submit_event(&connected, 2);
        snprintf(name, sizeof name, "player/answer-out/%zu", count);
        MEASURE(name, fresh_digits(count); submit_tend(3),
                if (ledger_enter(digits, count)) submit_answer(digits, count, 3); if (outbox_oldest()) outbox_answered());
    }
}

static void bench_control(void)
{
    static const uint8_t secret[32] = { 1 };
    uint8_t hello[64] = "PGRN\1\1\0\x40", command[96] = "PGRN\1\3\0\x60";
    struct transport_event event = { .kind = TRANSPORT_DATAGRAM, .port = 1, .address = 2, .peer_port = 3 };
    control_init(secret, 16, 1, secret);
    event.data = hello, event.bytes = sizeof hello;
    MEASURE("player/control/hello", , control_datagram(&event, 1000000));
    event.data = command, event.bytes = sizeof command;
    MEASURE("player/control/forged", , control_datagram(&event, 1000000));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        commit = argv[1];
    platform_init();
    mkdir("build", 0777);
    mkdir("build/bench", 0777);
    json = fopen("build/bench/player.json", "w");
    if (!json)
        return 1;
    fputs("[\n", json);
    for (size_t i = 0; i < N; i++) {
        uint64_t began = cycles_now_serialised();
        samples[i] = cycles_now_serialised() - began;
    }
    qsort(samples, N, sizeof *samples, compare);
    empty_cycles = samples[N / 2];
    bench_http();
    bench_answers();
    bench_control();
    fputs("\n]\n", json);
    return fclose(json) != 0;
}
