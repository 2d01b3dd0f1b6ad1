/* Floods at full ring speed while a game is on: the player and the matcher over our stack and the kernel's driver. The
 * device is a model in memory (tests/lib/), the servers are the benchmark's (tests/bench/bench_peer.h).
 *
 *     flood KIND BURSTS          KIND: syn, syn-closed, rst, ack, arp, icmp, fragments, tiny-fragments, hello, mixed
 *
 * Before each turn of the loop flood frames fill the receive ring, as from a wire that never pauses. A burst of digits
 * goes after all of them, into the last place but one. The measured time is that of the player's turns from there
 * until the POST of the answer is published, without the device's own work. Quiet and flooded bursts alternate in
 * blocks of fifty. A burst during which Linux ran another process is played again.
 *
 * Asserts that each burst is answered, that no connection of the game is lost, that no buffer is lost, and that nothing
 * is allocated. Prints both distributions, in nanoseconds, and the counters that moved. */
#define _GNU_SOURCE
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "app/player/player.h"
#include "app/service/control.h"
#include "app/service/settings.h"
#include "base/assert.h"
#include "base/cycles.h"
#include "base/hmac.h"
#include "base/siphash.h"
#include "drivers/virtio/net.h"
#include "host/platform.h"
#include "net/ip/icmp_wire.h"
#include "net/ip/udp_wire.h"
#include "net/transport_path.h"
#include "tests/bench/bench_peer.h"
#include "tests/lib/packet.h"
#include "tests/lib/player_setup.h"
#include "tests/lib/random.h"
#include "tests/lib/virtio_model.h"

enum {
    FEED_PORT = 10001,
    SUBMIT_PORT = 10002,
    LISTEN_PORT = 8080,
    DIGITS = 60,
    SPARE = 8,        /* places that the flood leaves to the game */
    BLOCK = 50,       /* bursts, quiet or flooded */
    PAUSE_TURNS = 50, /* between bursts, at least */
    TURNS_MAX = 100000,
    FRAGMENT_BYTES = 1480, /* with the header, the MTU */
    OPERATOR_PORT = 999,   /* the flood has none below 1024 */
    OPERATORS_HELLOS = 50,
};

#define KEY      "a-key-of-the-flood"
#define CONSTANT "104648257118348370704723119" /* the online final's */

enum kind { SYN, SYN_CLOSED, RST, ACK, ARP, ICMP, FRAGMENTS, TINY_FRAGMENTS, HELLO, MIXED };
static const char *const kind_names[] = { "syn",       "syn-closed",     "rst",   "ack",  "arp", "icmp",
                                          "fragments", "tiny-fragments", "hello", "mixed" };

static struct virtio_model model;
static struct virtio_net net;
static enum kind kind;
static uint64_t random_state = 1, flood_frames;
static uint64_t kicked_cycles, interrupted;
static bool challenged; /* the operator's HELLO has been answered */

/* ---- The device ---- */

static void on_kick(uint16_t queue)
{
    if (queue == VIRTIO_NET_TRANSMITQ)
        kicked_cycles = cycles_now_serialised();
}

static void deliver(const uint8_t *frame, uint32_t bytes) { ASSERT(virtio_model_receive(&model, frame, bytes, 0)); }

static uint32_t now_ms(void) { return (uint32_t)(platform_now_ns() / 1000000); }

/* Sends the frames that the device holds, and brings the servers' answers back. */
static void wire_turn(void)
{
    struct virtio_model_packet packet;
    uint8_t reply[128];
    uint32_t reply_bytes;
    while (virtio_model_transmit_take(&model, &packet)) {
        challenged = challenged || (packet.frame[23] == 17 && load_be16(packet.frame + 36) == OPERATOR_PORT);
        bench_peer_take(packet.frame, packet.bytes, now_ms(), reply, &reply_bytes);
        virtio_model_transmit_done(&model, &packet);
        if (reply_bytes != 0)
            deliver(reply, reply_bytes);
    }
    virtio_model_want_kick(&model, VIRTIO_NET_TRANSMITQ);
    ASSERT(model.violation == NULL);
}

/* ---- The flood ---- */

static uint32_t draw(void) { return (uint32_t)random_from(&random_state); }

static uint32_t ipv4_frame(uint8_t *frame, uint32_t source, uint8_t protocol, const void *payload, uint32_t bytes)
{
    packet_ethernet(frame, net.device.mac, bench_peer_mac, ETHERNET_TYPE_IPV4);
    return 14 + packet_around(frame + 14, protocol, source, BENCH_ADDRESS, payload, bytes);
}

struct flood_segment {
    uint32_t source, seq, ack;
    uint16_t port, peer_port; /* the flood's, and the stack's */
    uint8_t flags;
};

static uint32_t tcp_frame(uint8_t *frame, const struct flood_segment *s)
{
    struct tcp_wire tcp = { .offset = sizeof tcp / 4 << 4, .flags = s->flags };
    store_be16(&tcp.source_port, s->port);
    store_be16(&tcp.destination_port, s->peer_port);
    store_be32(&tcp.seq, s->seq);
    store_be32(&tcp.ack, s->ack);
    store_be16(&tcp.window, 65535);
    return ipv4_frame(frame, s->source, 6, &tcp, sizeof tcp);
}

static uint32_t syn_frame(uint8_t *frame, uint16_t port)
{
    return tcp_frame(frame, &(struct flood_segment){ .source = 0x0b000000 | draw() % 0xffffff,
                                                     .seq = draw(),
                                                     .port = (uint16_t)(1024 + draw() % 60000),
                                                     .peer_port = port,
                                                     .flags = TCP_SYN });
}

/* Makes a frame for a connection of the game: never the exact RST, which only its server can send. */
static uint32_t play_frame(uint8_t *frame, bool reset)
{
    const struct bench_peer *peer = bench_peer_of(draw() % 2 ? FEED_PORT : SUBMIT_PORT);
    struct flood_segment s = { .source = BENCH_PEER_ADDRESS,
                               .port = peer->port,
                               .peer_port = peer->peer_port,
                               .seq = peer->seq,
                               .ack = peer->ack,
                               .flags = TCP_ACK };
    uint32_t how = draw() % 3;
    if (reset) {
        s.flags = how == 0 ? TCP_RST | TCP_ACK : TCP_RST;
        s.seq += how == 1 ? 0x40000000 + draw() % 0x40000000 : 2000 + draw() % 50000; /* outside; in the window */
    } else if (how == 1) {
        s.ack += 1 + draw() % 0x40000000; /* beyond the bytes sent */
    } else if (how == 2) {
        s.seq -= 1 + draw() % 0x40000000; /* from long ago; how 0: a duplicate */
    }
    return tcp_frame(frame, &s);
}

static uint32_t arp_frame(uint8_t *frame)
{
    uint8_t mac[6] = { 2 };
    memset(frame, 0, 60);
    store_be32(mac + 2, draw());
    packet_ethernet(frame, (const uint8_t[6]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, mac, ETHERNET_TYPE_ARP);
    *(struct arp_wire *)(frame + 14) = packet_arp(draw() % 2 ? ARP_OPERATION_REQUEST : ARP_OPERATION_REPLY, mac,
                                                  0x0a000200 | draw() % 0xffff, BENCH_ADDRESS);
    return 60;
}

static uint32_t icmp_frame(uint8_t *frame)
{
    struct {
        struct icmp_wire head;
        uint8_t data[56];
    } echo = { .head.type = ICMP_ECHO };
    return ipv4_frame(frame, 0x0b000000 | draw() % 0xffffff, 1, &echo, sizeof echo);
}

/* Makes the first fragment of a new datagram each time, to the echo service or to a port without a listener. */
static uint32_t fragment_frame(uint8_t *frame, uint32_t bytes)
{
    static const uint8_t payload[FRAGMENT_BYTES];
    uint32_t frame_bytes = ipv4_frame(frame, 0x0b000000 | draw() % 0xffffff, draw() % 2 ? 1 : 17, payload, bytes);
    store_be16(frame + 14 + 4, (uint16_t)draw());
    store_be16(frame + 14 + 6, IPV4_MORE_FRAGMENTS);
    packet_sum(frame + 14, frame_bytes - 14);
    return frame_bytes;
}

/* Makes a HELLO of the control channel. The key's owner adds a tag (docs/control.md). */
static uint32_t hello_frame(uint8_t *frame, uint16_t port, bool keyed)
{
    struct {
        struct udp_wire udp;
        struct control_hello_wire hello;
    } out = { .hello.header = { .version = CONTROL_VERSION,
                                .type = CONTROL_HELLO,
                                .bytes = { 0, sizeof(struct control_hello_wire) } } };
    memcpy(out.hello.header.magic, "PGRN", 4);
    store_be16(&out.udp.source_port, port);
    store_be16(&out.udp.destination_port, service_settings.control_port);
    store_be16(&out.udp.bytes, sizeof out);
    store_be32(out.hello.nonce, draw());
    if (keyed) {
        struct hmac_key key;
        uint8_t digest[SHA256_BYTES];
        hmac_key_set(&key, KEY, sizeof KEY - 1);
        hmac(&key, "hello", 5, digest);
        store_be64(out.hello.tag, siphash(siphash_key_from(digest), out.hello.nonce, sizeof out.hello.nonce));
    }
    return ipv4_frame(frame, 0x0b000000 | draw() % 0xffffff, 17, &out, sizeof out);
}

static uint32_t flood_frame(uint8_t *frame)
{
    switch (kind == MIXED ? (enum kind)(draw() % MIXED) : kind) {
    case SYN:
        return syn_frame(frame, LISTEN_PORT);
    case SYN_CLOSED:
        return syn_frame(frame, (uint16_t)(20000 + draw() % 1000));
    case RST:
        return play_frame(frame, true);
    case ACK:
        return play_frame(frame, false);
    case ARP:
        return arp_frame(frame);
    case FRAGMENTS:
        return fragment_frame(frame, FRAGMENT_BYTES);
    case TINY_FRAGMENTS:
        return fragment_frame(frame, 8);
    case HELLO:
        return hello_frame(frame, (uint16_t)(1024 + draw() % 60000), false);
    default:
        return icmp_frame(frame);
    }
}

/* Returns true if the receive ring is empty and no buffer is lost. The driver posts buffers again in eighths of the
 * ring. */
static bool ring_is_drained(void)
{
    uint16_t size = model.queue[VIRTIO_NET_RECEIVEQ].size;
    return virtio_model_available(&model, VIRTIO_NET_RECEIVEQ) > size - size / 8;
}

static void flood(bool on)
{
    uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    while (on && virtio_model_available(&model, VIRTIO_NET_RECEIVEQ) > SPARE) {
        deliver(frame, flood_frame(frame));
        flood_frames++;
    }
}

/* ---- The game ---- */

static void turn(bool flooded)
{
    flood(flooded);
    ASSERT(player_turn(platform_now_ns()) == PROGRAM_ON);
    wire_turn();
}

static void serve(uint16_t port, const char *text)
{
    uint8_t frame[256];
    deliver(frame, bench_peer_segment(bench_peer_of(port), frame, text, (uint32_t)strlen(text), now_ms()));
}

static void game_start(void)
{
    static const char words[] = "feed=10.0.2.2:10001 submit=10.0.2.2:10002 user=swift passwd=secret n=256 early=off "
                                "feed.timeout=0 key=" KEY " m=" CONSTANT;
    virtio_model_init(&model, VIRTIO_MODEL_MODERN);
    model.on_kick = on_kick;
    ASSERT(virtio_net_init(&net, &model.bus) == VIRTIO_NET_OK);
    virtio_model_want_kick(&model, VIRTIO_NET_TRANSMITQ);
    struct transport_config config = {
        .device = &net.device, .address = BENCH_ADDRESS, .mask = 0xffffffff, .gateway = BENCH_GATEWAY
    };
    random_secret(1, config.secret, sizeof config.secret);
    memcpy(config.gateway_mac, bench_peer_mac, 6);
    ASSERT(transport_init(&config, platform_now_ns()) && transport_listen(LISTEN_PORT));

    player_setup(words, false, platform_tsc_khz(), platform_now_ns());
    for (int i = 0; bench_peer_of(FEED_PORT) == NULL || bench_peer_of(SUBMIT_PORT) == NULL || i < PAUSE_TURNS; i++) {
        ASSERT(i < TURNS_MAX);
        turn(false);
    }
    serve(FEED_PORT, "HTTP/1.1 200 OK\r\nServer: Most\r\n\r\n");
    for (int i = 0; i < PAUSE_TURNS; i++)
        turn(false);
}

/* Draws digits that end in a multiple of the modulus, another one each time. They do not begin with 0: ten times the
 * multiple before would be another answer. */
static void burst_fill(char digits[DIGITS + 1])
{
    static uint64_t factor = 1;
    uint64_t carry = 0;
    factor += 10;
    for (int i = 0; i < DIGITS; i++)
        digits[i] = (char)(i == 0 ? '1' + draw() % 9 : '0' + draw() % 10);
    for (int i = 0; i < (int)sizeof CONSTANT - 1 || carry != 0; i++, carry /= 10) { /* from the last digit on */
        carry += i < (int)sizeof CONSTANT - 1 ? (uint64_t)(CONSTANT[sizeof CONSTANT - 2 - i] - '0') * factor : 0;
        digits[DIGITS - 1 - i] = (char)('0' + carry % 10);
    }
    digits[DIGITS] = '\0';
}

static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/* Plays a burst and returns the cycles of the player's turns from the burst's arrival in the ring to the POST. */
static uint64_t burst_once(bool flooded)
{
    char digits[DIGITS + 1];
    struct bench_peer *submit = bench_peer_of(SUBMIT_PORT);
    uint64_t posted_bytes = submit->bytes, cycles = 0;
    burst_fill(digits);
    for (int turns = 0; !flooded && !ring_is_drained(); turns++) {
        ASSERT(turns < TURNS_MAX);
        turn(false);
    }
    flood(flooded);
    serve(FEED_PORT, digits);
    for (int turns = 0; submit->bytes == posted_bytes; turns++) {
        ASSERT(turns < TURNS_MAX); /* an answer is lost */
        uint64_t now_ns = platform_now_ns(), from_cycles = cycles_now_serialised();
        kicked_cycles = 0;
        player_turn(now_ns);
        uint64_t end_cycles = cycles_now_serialised();
        wire_turn();
        cycles += (submit->bytes != posted_bytes ? kicked_cycles : end_cycles) - from_cycles;
        flood(flooded);
    }
    serve(SUBMIT_PORT, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n+8");
    for (int turns = 0; turns < PAUSE_TURNS; turns++)
        turn(flooded);
    return cycles;
}

static uint64_t burst(bool flooded)
{
    for (int tries = 0;; tries++) {
        long before = switches();
        uint64_t cycles = burst_once(flooded);
        if (switches() == before || tries == 10)
            return cycles;
        interrupted++;
    }
}

/* Asks as the operator in the midst of the flood. Each HELLO is answered, although the counts of strangers are full. */
static void operator_asks(void)
{
    uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    for (int i = 0; i < OPERATORS_HELLOS; i++) {
        flood(true);
        challenged = false;
        deliver(frame, hello_frame(frame, OPERATOR_PORT, true));
        for (int turns = 0; !challenged; turns++) {
            ASSERT(turns < TURNS_MAX);
            turn(true);
        }
    }
    ASSERT(control_counters.drop_rate_keyed == 0);
}

/* ---- The command ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_quantiles(const char *name, uint64_t *cycles, size_t count)
{
    double ns = 1e6 / (double)platform_tsc_khz();
    qsort(cycles, count, sizeof *cycles, compare);
    printf("%s answers %zu p50 %.0f p99 %.0f\n", name, count, (double)cycles[count / 2] * ns,
           (double)cycles[count * 99 / 100] * ns);
}

static uint64_t counter(const char *name)
{
    struct counter_group group;
    for (size_t g = 0; transport_counter_group(g, &group); g++)
        for (size_t i = 0; i < group.count; i++)
            if (strncmp(name, group.prefix, strlen(group.prefix)) == 0
                && strcmp(name + strlen(group.prefix), group.counters[i].name) == 0)
                return group.values[i];
    ASSERT(!"no such counter");
}

static void print_counters(void)
{
    struct counter_group group;
    for (size_t g = 0; transport_counter_group(g, &group); g++)
        for (size_t i = 0; i < group.count; i++)
            if (group.values[i] != 0)
                printf("counter %s%s %llu\n", group.prefix, group.counters[i].name,
                       (unsigned long long)group.values[i]);
}

int main(int argc, char **argv)
{
    size_t count = argc == 3 ? (size_t)atol(argv[2]) / BLOCK * BLOCK : 0, k = 0;
    while (argc == 3 && k < ARRAY_COUNT(kind_names) && strcmp(argv[1], kind_names[k]) != 0)
        k++;
    if (count == 0 || k == ARRAY_COUNT(kind_names)) {
        fprintf(stderr, "usage: flood syn|syn-closed|rst|ack|arp|icmp|hello|mixed BURSTS   (at least %d)\n", BLOCK);
        return 2;
    }
    kind = (enum kind)k;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    platform_init();
    uint64_t *cycles[2] = { calloc(count, sizeof **cycles), calloc(count, sizeof **cycles) };
    game_start();
    for (size_t i = 0; i < 2 * BLOCK; i++)
        burst(i >= BLOCK);
    uint64_t connects = counter("tcp.connects"), allocated = mallinfo2().uordblks;
    for (size_t i = 0; i < 2 * count; i++)
        cycles[i / BLOCK % 2][i / (2 * BLOCK) * BLOCK + i % BLOCK] = burst(i / BLOCK % 2 == 1);
    if (kind == HELLO)
        operator_asks();
    for (int i = 0; i < PAUSE_TURNS; i++)
        turn(false);
    ASSERT(mallinfo2().uordblks == allocated);
    ASSERT(counter("tcp.connects") == connects && counter("tcp.resets_in_open") == 0);
    ASSERT(ring_is_drained());
    print_quantiles("quiet", cycles[0], count);
    print_quantiles("flood", cycles[1], count);
    printf("frames %llu interrupted %llu\n", (unsigned long long)flood_frames, (unsigned long long)interrupted);
    print_counters();
    printf("counter control.drop_rate %llu\n", (unsigned long long)control_counters.drop_rate);
    return 0;
}
