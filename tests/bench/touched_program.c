/* Records the cache lines that a server's answer touches: tests/bench/touched.h. Our stack and the linked program on
 * one end of a wire in memory, a stack of ours on the other.
 *
 *     NAME udp|tcp COUNT   COUNT requests, each after a rest of turns in which idle time rehearses */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/program.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "base/assert.h"
#include "host/platform.h"
#include "net/ip/udp.h"
#include "net/stack.h"
#include "net/stack_state.h"
#include "net/tcp/sockets.h"
#include "net/transport_path.h"
#include "tests/bench/touched.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/random.h"
#include "tests/lib/stack_create.h"

enum { OURS = 0x0a000001, PEER = 0x0a000002, MASK = 0xffffff00, PEER_PORT = 40000, REST_TURNS = 30, TURNS_MAX = 1000 };
#define TURN_NS UINT64_C(100000)

/* The request to each program, and its port. */
static const struct asked {
    const char *name, *words;
    uint16_t port;
    const char *tcp, *udp;
    size_t udp_bytes;
} table[] = {
    { "echo", "", 7, "a line of text\n", "a line of text", 14 },
    { "time", "rate=0", 123, NULL, "\x23", 48 },
    { "digest", "port=80", 80, "POST /sha256?rounds=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", NULL, 0 },
};

static struct netdev_memory wire, peer_wire;
static struct net_stack *peer;
static struct netdev_ops device_ops, watched_ops; /* the device's own; and with `publish` in between */
static uint64_t now_ns = 1000000000;

static uint64_t clock_ns(void) { return now_ns; }

/* Ends the path: the answer has been given to the device. */
static bool publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                    uint16_t csum_offset)
{
    touched_phase(TOUCHED_OFF);
    return device_ops.tx_publish(device, buffer, bytes, csum_start, csum_offset);
}

static void turn(void)
{
    now_ns += TURN_NS;
    ASSERT(program.turn(now_ns) == PROGRAM_ON);
}

static void peer_turn(void)
{
    netdev_memory_exchange(&wire, &peer_wire);
    net_input(peer, now_ns);
    net_idle(peer, now_ns);
    netdev_memory_exchange(&wire, &peer_wire);
}

static const struct asked *begin(void)
{
    static struct settings settings;
    static struct program_machine machine = { .tsc_khz = 1000000, .now_ns = clock_ns };
    const struct asked *asked = table;
    struct transport_config config = { .device = &wire.device, .address = OURS, .mask = MASK };
    struct net_config peer_config = {
        .capacity = { 4, 1, 4, 4, 16, 16384, 16384, 0 }, .device = &peer_wire.device, .address = PEER, .mask = MASK
    };
    while (strcmp(asked->name, program.name) != 0)
        asked++;
    random_secret(1, machine.secret, sizeof machine.secret);
    random_secret(2, config.secret, sizeof config.secret);
    service_settings_begin(&settings, program.name, program.settings, NULL);
    settings_add(&settings, "touched", asked->words, strlen(asked->words));
    ASSERT(settings_finish(&settings));
    netdev_memory_init(&wire, (const uint8_t[]){ 2, 0, 0, 0, 0, 1 }, true);
    device_ops = watched_ops = *wire.device.ops;
    watched_ops.tx_publish = publish;
    wire.device.ops = &watched_ops;
    netdev_memory_init(&peer_wire, (const uint8_t[]){ 2, 0, 0, 0, 0, 2 }, false);
    ASSERT(program.prepare == NULL || program.prepare(&machine) == NULL);
    ASSERT(transport_init(&config, now_ns));
    stats_clear();
    ASSERT(service_init(machine.secret, false, now_ns) == NULL && program.init(&machine, now_ns) == NULL);
    tcp_policy_default(&peer_config.policy);
    peer = stack_create(&peer_config, now_ns, NULL);
    ASSERT(peer != NULL);
    return asked;
}

int main(int argc, char **argv)
{
    static uint8_t text[2048];
    const bool tcp = argc == 3 && strcmp(argv[1], "tcp") == 0;
    const struct asked *asked = begin();
    int connection = -1;
    if (argc != 3 || (tcp ? asked->tcp : asked->udp) == NULL) {
        fprintf(stderr, "usage: %s udp|tcp COUNT\n", program.name);
        return 2;
    }
    if (tcp)
        connection = tcp_connect(peer, OURS, asked->port, PEER_PORT, NULL, now_ns);
    strcpy((char *)text, tcp ? asked->tcp : asked->udp); /* a request of NTP goes on with zeros */
    for (long left = atol(argv[2]); left > 0; left--) {
        for (uint32_t i = 0; i < REST_TURNS; i++) {
            turn();
            peer_turn();
        }
        if (tcp)
            ASSERT(tcp_write(peer, connection, text, strlen(asked->tcp), now_ns) == (int64_t)strlen(asked->tcp));
        else
            ASSERT(udp_send(&peer->ip, PEER_PORT, OURS, asked->port, text, asked->udp_bytes, now_ns));
        touched_phase(TOUCHED_REST);
        for (uint32_t i = 0; i < REST_TURNS; i++)
            turn();
        touched_phase(TOUCHED_OFF);
        peer_turn();
        touched_phase(TOUCHED_PATH);
        for (uint32_t i = 0; wire.sent_count == 0; i++) {
            ASSERT(i < TURNS_MAX);
            turn();
        }
        touched_phase(TOUCHED_OFF);
        peer_turn();
        uint8_t answer[2048];
        while (tcp && tcp_read(peer, connection, answer, sizeof answer, false, now_ns) > 0)
            continue;
    }
    touched_end();
    return 0;
}
