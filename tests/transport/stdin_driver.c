/* A program that reads commands for a transport from stdin and prints events on stdout. Linked with each stack.
 *
 *     stdin_driver --tap NAME [--mac M] [--ip A --mask M --gw A [--gwmac M]] [--mtu N] [--rto-min-us N] [--offload]
 *            [--faults LOSE,DUPLICATE,SWAP,CORRUPT --seed N] [--pcap FILE] [--speed N] [--secret HEXBYTE]
 *
 * Without --ip the program asks DHCP. --speed N lets its clock run up to N times as fast as the wall clock. Every line
 * printed begins with that clock in microseconds. The commands, and the lines that they print in addition to events:
 *
 *     connect ADDRESS PORT            connect ID
 *     listen PORT | udp_bind PORT     listen OK | udp_bind OK
 *     send ID HEX                     queued, sent as the transport allows
 *     source ID BYTES SEED MAX        queues that many pseudo-random bytes, in messages of 1..MAX bytes
 *     sink ID                         data of ID is summed instead of printed: `sunk ID BYTES CRC` at its end
 *     udp FROM ADDRESS PORT HEX       udp OK
 *     join GROUP | leave GROUP        join OK | leave
 *     close ID | abort ID             (when everything queued has been sent)
 *     unacked ID                      unacked ID BYTES
 *     counters                        counter NAME VALUE, each that is not 0; then: counters
 *     quit */
#define _GNU_SOURCE
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "net/transport_path.h"
#include "tests/lib/netdev_faults.h"
#include "tests/lib/netdev_pcap.h"
#include "tests/lib/netdev_tap.h"
#include "tests/lib/random.h"

enum { LINE_BYTES_MAX = 64 * 1024, QUEUE_BYTES_MAX = 64 * 1024 };

/* The bytes still to be sent on a connection: given bytes, then pseudo-random bytes. */
struct outgoing {
    uint8_t queue[QUEUE_BYTES_MAX];
    size_t queue_first, queue_bytes;
    uint64_t source_left, source_at, source_seed;
    uint32_t source_max;
    bool close, abort;
    bool sinks;
    uint64_t sunk_bytes;
    uint32_t sunk_crc;
};

static struct outgoing outgoing[TRANSPORT_CONNECTION_COUNT_MAX];
static uint64_t speed = 1;
static bool quitting;

static uint64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The clock's largest step, if the clock is faster than the wall clock. The clock moves only between turns of the loop.
 * On a busy machine a late turn slows the clock, so that the stack does not miss its timers. */
enum { CLOCK_STEP_NS = 10000000 };
static uint64_t clock_ns;

static uint64_t now_ns(void) { return clock_ns; }

static void clock_advance(void)
{
    static uint64_t last_ns;
    uint64_t wall = wall_ns(), step_ns = last_ns != 0 ? (wall - last_ns) * speed : 0;
    clock_ns += speed > 1 && step_ns > CLOCK_STEP_NS ? CLOCK_STEP_NS : step_ns;
    last_ns = wall;
}

static void say(const char *form, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *form, ...)
{
    va_list list;
    va_start(list, form);
    printf("%llu ", (unsigned long long)(now_ns() / 1000));
    vprintf(form, list);
    putchar('\n');
    va_end(list);
}

static size_t log_to_stderr(const char *text, size_t bytes) { return fwrite(text, 1, bytes, stderr); }

/* ---- Bytes ---- */

static uint8_t stream_byte(uint64_t seed, uint64_t at)
{
    uint64_t state = seed + at / 8 * RANDOM_STEP; /* the state after at / 8 numbers */
    return (uint8_t)(random_from(&state) >> 8 * (at % 8));
}

static uint32_t crc32_update(uint32_t crc, const uint8_t *data, size_t bytes)
{
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t i = 0; i < 256; i++) {
            table[i] = i;
            for (int bit = 0; bit < 8; bit++)
                table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
        }
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++)
        crc = table[(crc ^ data[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static size_t unhex(const char *hex, uint8_t *out, size_t out_bytes)
{
    size_t count = 0;
    for (unsigned byte; count < out_bytes && sscanf(hex, "%2x", &byte) == 1 && hex[1] != '\0'; hex += 2)
        out[count++] = (uint8_t)byte;
    return count;
}

static const char *hex(const uint8_t *data, size_t bytes)
{
    enum { BYTES_MAX = 64 * 1024 }; /* a whole window, delivered at once when a gap is filled */
    static char text[2 * BYTES_MAX + 1];
    size_t count = min_size(bytes, BYTES_MAX);
    for (size_t i = 0; i < count; i++)
        sprintf(text + 2 * i, "%02x", data[i]);
    text[2 * count] = '\0';
    return text;
}

static uint32_t address_of(const char *text)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (sscanf(text, "%u.%u.%u.%u", &a, &b, &c, &d) != 4)
        fprintf(stderr, "no address: %s\n", text), exit(2);
    return a << 24 | b << 16 | c << 8 | d;
}

static void mac_of(const char *text, uint8_t mac[6])
{
    unsigned b[6];
    if (sscanf(text, "%x:%x:%x:%x:%x:%x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) != 6)
        fprintf(stderr, "no MAC: %s\n", text), exit(2);
    for (int i = 0; i < 6; i++)
        mac[i] = (uint8_t)b[i];
}

static const char *dotted(uint32_t address)
{
    static char text[4][16];
    static int turn;
    char *out = text[turn = (turn + 1) % 4];
    snprintf(out, sizeof text[0], "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
    return out;
}

/* ---- Events ---- */

static void data_received(const struct transport_event *e)
{
    struct outgoing *o = &outgoing[e->connection];
    if (!o->sinks) {
        say("data %d %s", e->connection, hex(e->payload.data, e->payload.count));
        return;
    }
    o->sunk_bytes += e->payload.count;
    o->sunk_crc = crc32_update(o->sunk_crc, e->payload.data, e->payload.count);
}

static void event_print(const struct transport_event *e)
{
    static const char *const reasons[] = {
        [TRANSPORT_DONE] = "done",           [TRANSPORT_REFUSED] = "refused", [TRANSPORT_RESET] = "reset",
        [TRANSPORT_TIMED_OUT] = "timed_out", [TRANSPORT_ABORTED] = "aborted", [TRANSPORT_UNREACHABLE] = "unreachable",
    };
    struct outgoing *o = e->connection >= 0 ? &outgoing[e->connection] : NULL;
    switch (e->kind) {
    case TRANSPORT_NONE:
        break;
    case TRANSPORT_CONNECTED:
        say("connected %d %u", e->connection, e->port);
        break;
    case TRANSPORT_ACCEPTED:
        memset(o, 0, sizeof *o);
        say("accepted %d %u %s %u", e->connection, e->port, dotted(e->address), e->peer_port);
        break;
    case TRANSPORT_DATA:
        data_received(e);
        break;
    case TRANSPORT_ENDED:
        if (o->sinks)
            say("sunk %d %llu %u", e->connection, (unsigned long long)o->sunk_bytes, o->sunk_crc);
        say("ended %d", e->connection);
        break;
    case TRANSPORT_CLOSED:
        say("closed %d %s", e->connection, reasons[e->reason]);
        break;
    case TRANSPORT_DATAGRAM:
        say("datagram %u %s %u %s %s", e->port, dotted(e->address), e->peer_port,
            hex(e->payload.data, e->payload.count), dotted(e->to_address));
        break;
    }
}

static void network_print(void)
{
    static struct transport_network printed;
    const struct transport_network *n = transport_network();
    if (n->up == printed.up && n->address == printed.address && n->gateway == printed.gateway
        && n->mtu_bytes == printed.mtu_bytes)
        return;
    printed = *n;
    say("network %s %s %s %s %u %s", n->up ? "up" : "down", dotted(n->address), dotted(n->mask), dotted(n->gateway),
        n->mtu_bytes, n->from_dhcp ? "dhcp" : "static");
}

/* ---- Sending ---- */

/* Sends one message of the queued bytes, if the transport takes the message. */
static bool pump_message(int id)
{
    struct outgoing *o = &outgoing[id];
    uint8_t *area = transport_message(id);
    if (area == NULL)
        return false;
    if (o->queue_bytes > 0) {
        size_t bytes = min_size(o->queue_bytes, TRANSPORT_MESSAGE_BYTES_MAX);
        memcpy(area, o->queue + o->queue_first, bytes);
        if (!transport_send(id, 0, (uint32_t)bytes, now_ns()))
            return false;
        o->queue_first += bytes;
        o->queue_bytes -= bytes;
        return true;
    }
    if (o->source_left > 0) {
        uint32_t from = (uint32_t)(o->source_at % 8); /* any place in the message area, not only its start */
        uint64_t wanted = 1 + (o->source_at * 2654435761u >> 7) % o->source_max;
        uint32_t bytes = (uint32_t)(wanted < o->source_left ? wanted : o->source_left);
        bytes = min_u32(bytes, TRANSPORT_MESSAGE_BYTES_MAX - from);
        for (uint32_t i = 0; i < bytes; i++)
            area[from + i] = stream_byte(o->source_seed, o->source_at + i);
        if (!transport_send(id, from, bytes, now_ns()))
            return false;
        o->source_at += bytes;
        o->source_left -= bytes;
        return true;
    }
    return false;
}

/* Sends messages and ends connections. Returns true if a connection was ended, because its event is queued already. */
static bool pump(void)
{
    bool ended = false;
    for (int id = 0; id < TRANSPORT_CONNECTION_COUNT_MAX; id++) {
        struct outgoing *o = &outgoing[id];
        for (int i = 0; i < 64 && (o->queue_bytes > 0 || o->source_left > 0) && pump_message(id); i++)
            ;
        if (o->queue_bytes > 0 || o->source_left > 0)
            continue;
        if (o->close)
            transport_close(id, now_ns());
        if (o->abort)
            transport_abort(id, now_ns());
        ended |= o->close || o->abort;
        o->close = o->abort = false;
    }
    return ended;
}

/* ---- Commands ---- */

static void counters_print(void)
{
    struct counter_group group;
    for (size_t i = 0; transport_counter_group(i, &group); i++)
        for (size_t k = 0; k < group.count; k++)
            if (group.values[k] != 0)
                say("counter %s%s %llu", group.prefix, group.counters[k].name, (unsigned long long)group.values[k]);
    say("counters");
}

static void send_queue(struct outgoing *o, const char *text)
{
    if (o->queue_bytes == 0)
        o->queue_first = 0;
    uint8_t *end = o->queue + o->queue_first + o->queue_bytes;
    o->queue_bytes += unhex(text, end, (size_t)(o->queue + QUEUE_BYTES_MAX - end));
}

static void command_do(char *line)
{
    static char word[32], text[LINE_BYTES_MAX], address[64];
    unsigned long long bytes, seed;
    unsigned port, from, max;
    int id;
    text[0] = '\0';
    if (sscanf(line, "connect %63s %u", address, &port) == 2) {
        id = transport_connect(address_of(address), (uint16_t)port, now_ns());
        if (id >= 0)
            memset(&outgoing[id], 0, sizeof outgoing[id]);
        say("connect %d", id);
    } else if (sscanf(line, "listen %u", &port) == 1) {
        say("listen %d", transport_listen((uint16_t)port));
    } else if (sscanf(line, "udp_bind %u", &port) == 1) {
        say("udp_bind %d", transport_udp_bind((uint16_t)port));
    } else if (sscanf(line, "join %63s", address) == 1) {
        say("join %d", transport_udp_join(address_of(address)));
    } else if (sscanf(line, "leave %63s", address) == 1) {
        transport_udp_leave(address_of(address));
        say("leave");
    } else if (sscanf(line, "udp %u %63s %u %s", &from, address, &port, text) >= 3) {
        static uint8_t data[LINE_BYTES_MAX / 2];
        size_t count = unhex(text, data, sizeof data);
        say("udp %d", transport_udp_send((uint16_t)from, address_of(address), (uint16_t)port, data, count, now_ns()));
    } else if (sscanf(line, "source %d %llu %llu %u", &id, &bytes, &seed, &max) == 4) {
        outgoing[id].source_left = bytes;
        outgoing[id].source_at = 0;
        outgoing[id].source_seed = seed;
        outgoing[id].source_max = max;
    } else if (sscanf(line, "send %d %s", &id, text) == 2) {
        send_queue(&outgoing[id], text);
    } else if (sscanf(line, "sink %d", &id) == 1) {
        outgoing[id].sinks = true;
    } else if (sscanf(line, "close %d", &id) == 1) {
        outgoing[id].close = true;
    } else if (sscanf(line, "abort %d", &id) == 1) {
        outgoing[id].abort = true;
    } else if (sscanf(line, "unacked %d", &id) == 1) {
        say("unacked %d %u", id, transport_unacked_bytes(id));
    } else if (sscanf(line, "%31s", word) == 1 && strcmp(word, "counters") == 0) {
        counters_print();
    } else if (strcmp(word, "quit") == 0) {
        quitting = true;
    } else {
        fprintf(stderr, "stdin_driver: unknown command: %s\n", line);
        exit(2);
    }
}

/* Reads whole lines from stdin, as they come, and runs their commands. */
static void commands_read(void)
{
    static char buffer[LINE_BYTES_MAX];
    static size_t filled;
    ssize_t got = read(0, buffer + filled, sizeof buffer - 1 - filled);
    if (got <= 0) {
        quitting = true;
        return;
    }
    filled += (size_t)got;
    char *line = buffer, *newline;
    while ((newline = memchr(line, '\n', filled - (size_t)(line - buffer))) != NULL) {
        *newline = '\0';
        command_do(line);
        line = newline + 1;
    }
    filled -= (size_t)(line - buffer);
    memmove(buffer, line, filled);
}

/* ---- The loop ---- */

static void wait_for_something(void)
{
    struct pollfd fds[] = { { netdev_tap_fd(), POLLIN, 0 }, { 0, POLLIN, 0 } };
    uint64_t now = now_ns(), wake = transport_next_deadline_ns();
    uint64_t longest_ns = speed > 1 ? CLOCK_STEP_NS : 999999999;
    uint64_t wait_ns = wake <= now ? 0 : wake - now < longest_ns ? wake - now : longest_ns;
    struct timespec timeout = { 0, (long)(wait_ns / speed) };
    fflush(stdout);
    if (ppoll(fds, 2, &timeout, NULL) > 0 && fds[1].revents != 0)
        commands_read();
}

static void run(void)
{
    struct transport_event event;
    while (!quitting) {
        bool busy = false;
        clock_advance();
        while (transport_poll(now_ns(), &event)) {
            event_print(&event);
            busy = true;
        }
        log_clock_ns = now_ns();
        transport_idle(log_clock_ns);
        network_print();
        busy |= pump();
        if (!busy)
            wait_for_something();
    }
}

int main(int argc, char **argv)
{
    struct netdev_tap_config tap = { .name = "tap0", .mac = { 0x52, 0x54, 0, 0x12, 0x34, 0x56 } };
    struct transport_config config = { .mask = 0xffffff00 };
    struct faults faults = { 0 };
    uint64_t seed = 1;
    bool faulty = false;
    memset(config.secret, 0x5a, sizeof config.secret);
    const char *pcap_path = NULL;
    for (int i = 1; i < argc; i++) {
        const char *key = argv[i];
        if (strcmp(key, "--offload") == 0) {
            tap.offload = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : "";
        if (strcmp(key, "--tap") == 0)
            tap.name = value;
        else if (strcmp(key, "--mac") == 0)
            mac_of(value, tap.mac);
        else if (strcmp(key, "--ip") == 0)
            config.address = address_of(value);
        else if (strcmp(key, "--mask") == 0)
            config.mask = address_of(value);
        else if (strcmp(key, "--gw") == 0)
            config.gateway = address_of(value);
        else if (strcmp(key, "--gwmac") == 0)
            mac_of(value, config.gateway_mac);
        else if (strcmp(key, "--lease") == 0) {
            config.lease_seconds = (uint32_t)atoi(value);
            config.lease_server = address_of(strchr(value, '@') != NULL ? strchr(value, '@') + 1 : "");
        } else if (strcmp(key, "--client-id") == 0) {
            static uint8_t identity[2 + 32] = { 61 };
            identity[1] = (uint8_t)min_size(strlen(value), sizeof identity - 2);
            memcpy(identity + 2, value, identity[1]);
            config.dhcp_identity = (struct bytes){ identity, 2u + identity[1] };
        } else if (strcmp(key, "--mtu") == 0)
            config.mtu_bytes = (uint16_t)atoi(value);
        else if (strcmp(key, "--rto-min-us") == 0)
            config.rto_min_ns = (uint64_t)atoi(value) * NS_PER_US;
        else if (strcmp(key, "--speed") == 0)
            speed = (uint64_t)atoi(value);
        else if (strcmp(key, "--seed") == 0)
            seed = strtoull(value, NULL, 0);
        else if (strcmp(key, "--secret") == 0)
            memset(config.secret, (int)strtoul(value, NULL, 16), sizeof config.secret);
        else if (strcmp(key, "--pcap") == 0)
            pcap_path = value;
        else if (strcmp(key, "--faults") == 0)
            faulty = sscanf(value, "%u,%u,%u,%u", &faults.lose, &faults.duplicate, &faults.swap, &faults.corrupt) == 4;
        else
            fprintf(stderr, "stdin_driver: unknown option %s\n", key), exit(2);
    }
    log_add_sink(log_to_stderr);
    config.device = netdev_tap_open(&tap);
    if (config.device == NULL)
        return 1;
    static struct netdev_faults faults_device;
    if (faulty) {
        netdev_faults_init(&faults_device, config.device, faults, seed);
        config.device = &faults_device.device;
    }
    static struct netdev_pcap pcap_device;
    FILE *pcap_file = pcap_path != NULL ? fopen(pcap_path, "wb") : NULL;
    if (pcap_file != NULL) {
        netdev_pcap_init(&pcap_device, config.device, pcap_file, now_ns);
        config.device = &pcap_device.device;
    }
    if (!transport_init(&config, now_ns()))
        return 1;
    say("stack %s", transport_name());
    run();
    if (faulty)
        fprintf(stderr, "faults: %llu lost %llu duplicated %llu swapped %llu corrupted\n",
                (unsigned long long)faults_device.counters.lost, (unsigned long long)faults_device.counters.duplicated,
                (unsigned long long)faults_device.counters.swapped,
                (unsigned long long)faults_device.counters.corrupted);
    if (pcap_file != NULL)
        fclose(pcap_file);
    return 0;
}
