/* One bulk transfer between two endpoints over an impaired path, in real time. Each endpoint is our TCP (the hosted
 * library) or Linux' TCP in a network namespace of its own behind a TUN device. Needs the right to make network
 * namespaces.
 *
 *     interop SENDER RECEIVER [key=value ...]        SENDER, RECEIVER: own | linux
 *
 *     bytes=10485760   seed=1   give_up_s=120
 *     lose=0 repeat=0 reorder=0   in 10,000 packets of each direction   delay_us=1000   one way
 *     mbit=200 queue=256          the line, and the packets that may wait before it; mbit=0: no limit
 *     window=0                    the receiver's buffer; 0: Linux chooses, and our TCP has 6 MiB
 *
 * Our TCP delays ACKs here, as Linux does. Without the delay the library acknowledges each packet before the
 * application has read the packet. The window that reading opens then takes another ACK. Through a small window each
 * loss of that ACK costs a probe's 200 ms.
 *
 * The sender connects, sends, half-closes and waits for the receiver's FIN; the receiver checks each byte. Prints the
 * seconds from connect to that FIN, and the counters of the path. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/library/peregrine_net.h"
#include "tests/linux/relay.h"

enum {
    ADDRESS = 0x0a080001, /* 10.8.0.1 sends, 10.8.0.2 receives */
    PORT = 5001,
    CHUNK_BYTES = 65536,
    SEGMENT_BYTES = 1448,
    PACKETS_A_TURN = 64,
};

struct end {
    bool own, sends, done;
    uint64_t took_ns; /* the sender's time; 0: the sender failed */
    /* Linux: */
    pid_t child;
    int tun, go, report;
    /* ours: */
    struct pnet *net;
    int listener, socket;
    uint64_t offset, began_ns;
    bool shut;
};

static struct {
    uint64_t bytes, seed, give_up_s, window;
    struct relay_faults faults;
    uint64_t delay_us, mbit;
} plan = {
    .bytes = 10 << 20,
    .seed = 1,
    .give_up_s = 120,
    .delay_us = 1000,
    .mbit = 200,
    .faults.queue_packets = 256,
};
static struct relay relay;
static struct end ends[2];

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "interop: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- The stream: a function of the offset ---- */

static void stream_fill(uint64_t offset, uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)((offset + i) * 31 + ((offset + i) >> 8) * 17 + ((offset + i) >> 16));
}

static bool stream_is(uint64_t offset, const uint8_t *data, size_t bytes)
{
    uint8_t wanted[CHUNK_BYTES];
    stream_fill(offset, wanted, bytes);
    return memcmp(wanted, data, bytes) == 0;
}

/* ---- Linux ---- */

/* Makes a network namespace for the next child, with a TUN device. Returns the other end of the device. */
static int tun_open(uint32_t address)
{
    if (unshare(CLONE_NEWNET) != 0)
        fail("unshare");
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK), any = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = { .ifr_name = "tun0", .ifr_flags = IFF_TUN | IFF_NO_PI };
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request) != 0)
        fail("/dev/net/tun");
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };
    memcpy(&request.ifr_addr, &in, sizeof in);
    if (ioctl(any, SIOCSIFADDR, &request) != 0)
        fail("SIOCSIFADDR");
    in.sin_addr.s_addr = htonl(0xffffff00);
    memcpy(&request.ifr_netmask, &in, sizeof in);
    if (ioctl(any, SIOCSIFNETMASK, &request) != 0)
        fail("SIOCSIFNETMASK");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(any, SIOCSIFFLAGS, &request) != 0)
        fail("SIOCSIFFLAGS");
    close(any);
    return tun;
}

/* Opens a socket with CUBIC, which this machine's default may differ from. Our stack has CUBIC by default. */
static int linux_socket(void)
{
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
        fail("socket");
    return s;
}

static uint64_t linux_send(void)
{
    uint8_t data[CHUNK_BYTES];
    struct sockaddr_in to = { AF_INET, htons(PORT), { htonl(ADDRESS + 1) }, { 0 } };
    uint64_t began_ns = wall_ns();
    int s = linux_socket();
    if (connect(s, (struct sockaddr *)&to, sizeof to) != 0)
        return 0;
    for (uint64_t offset = 0; offset < plan.bytes;) {
        size_t bytes = plan.bytes - offset < sizeof data ? plan.bytes - offset : sizeof data;
        stream_fill(offset, data, bytes);
        for (size_t sent = 0; sent < bytes;) {
            ssize_t count = send(s, data + sent, bytes - sent, MSG_NOSIGNAL);
            if (count <= 0)
                return 0;
            sent += (size_t)count;
        }
        offset += bytes;
    }
    shutdown(s, SHUT_WR);
    return read(s, data, sizeof data) == 0 ? wall_ns() - began_ns : 0;
}

static uint64_t linux_receive(int listener)
{
    uint8_t data[CHUNK_BYTES];
    uint64_t offset = 0;
    int s = accept(listener, NULL, NULL);
    for (ssize_t count; (count = read(s, data, sizeof data)) != 0; offset += (uint64_t)count)
        if (count < 0 || !stream_is(offset, data, (size_t)count))
            return 0;
    close(s);
    return offset == plan.bytes;
}

static void linux_open(struct end *end)
{
    int go[2], report[2], listener = -1;
    end->tun = tun_open(ADDRESS + !end->sends);
    if (pipe(go) != 0 || pipe(report) != 0)
        fail("pipe");
    if (!end->sends) {
        struct sockaddr_in at = { AF_INET, htons(PORT), { htonl(INADDR_ANY) }, { 0 } };
        int size = (int)plan.window;
        listener = linux_socket();
        if (size != 0)
            setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0)
            fail("listen");
    }
    end->child = fork();
    if (end->child == 0) {
        char word;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(go[0], &word, 1) != 1)
            _exit(1);
        uint64_t took_ns = end->sends ? linux_send() : linux_receive(listener);
        _exit(write(report[1], &took_ns, sizeof took_ns) != sizeof took_ns);
    }
    end->go = go[1];
    end->report = report[0];
    close(go[0]);
    close(report[1]);
    if (listener >= 0)
        close(listener);
}

/* ---- Ours ---- */

static void own_open(struct end *end)
{
    char words[200];
    const char *why;
    uint64_t window = 6 << 20;
    if (plan.window != 0 && !end->sends) /* whole segments, as in Linux: a last segment is seldom alone */
        window = (plan.window + SEGMENT_BYTES - 1) / SEGMENT_BYTES * SEGMENT_BYTES;
    snprintf(words, sizeof words,
             "address=10.8.0.%d ack=delayed rcvbuf=%" PRIu64 " sndbuf=4194304 start_us=%" PRIu64 " secret=%" PRIu64,
             1 + !end->sends, window, wall_ns() / 1000, plan.seed);
    end->net = pnet_open(words, &why);
    if (end->net == NULL) {
        fprintf(stderr, "interop: %s\n", why);
        exit(2);
    }
    end->tun = end->report = -1;
    end->listener = end->socket = -1;
    if (!end->sends) {
        end->listener = pnet_socket(end->net);
        if (pnet_bind(end->net, end->listener, 0, PORT) != 0 || pnet_listen(end->net, end->listener, 1) != 0)
            fail("pnet_listen");
    }
}

static void own_send(struct end *end, uint64_t now_ns)
{
    uint8_t data[CHUNK_BYTES];
    int64_t count = 1;
    while (end->offset < plan.bytes && count > 0 && (pnet_poll(end->net, end->socket) & POLLOUT) != 0) {
        size_t bytes = plan.bytes - end->offset < sizeof data ? plan.bytes - end->offset : sizeof data;
        stream_fill(end->offset, data, bytes);
        count = pnet_write(end->net, end->socket, data, bytes);
        end->offset += count > 0 ? (uint64_t)count : 0;
    }
    if (count < 0 && count != -EAGAIN)
        end->done = true;
    if (end->offset < plan.bytes)
        return;
    if (!end->shut && pnet_shutdown(end->net, end->socket, PNET_SHUT_WR) == 0)
        end->shut = true;
    int64_t last = pnet_read(end->net, end->socket, data, sizeof data, 0);
    if (last != -EAGAIN) {
        end->done = true;
        end->took_ns = last == 0 ? now_ns - end->began_ns : 0;
    }
}

static void own_receive(struct end *end)
{
    uint8_t data[CHUNK_BYTES];
    if (end->socket < 0 && (end->socket = pnet_accept(end->net, end->listener, NULL, NULL)) < 0)
        return;
    for (;;) {
        int64_t count = pnet_read(end->net, end->socket, data, sizeof data, 0);
        if (count == -EAGAIN)
            return;
        if (count <= 0 || !stream_is(end->offset, data, (size_t)count)) {
            end->took_ns = count == 0 && end->offset == plan.bytes;
            end->done = true;
            pnet_close_socket(end->net, end->socket);
            return;
        }
        end->offset += (uint64_t)count;
    }
}

static void own_turn(struct end *end, uint64_t now_ns)
{
    uint8_t packet[RELAY_PACKET_BYTES_MAX];
    pnet_set_time_us(end->net, now_ns / 1000);
    if (pnet_next_timer_us(end->net) <= now_ns / 1000)
        pnet_run_timers(end->net);
    if (!end->done && end->sends && end->socket >= 0)
        own_send(end, now_ns);
    else if (!end->done && !end->sends)
        own_receive(end);
    for (int bytes; (bytes = pnet_packet_out(end->net, packet, sizeof packet)) > 0;)
        relay_put(&relay, !end->sends, packet, (uint32_t)bytes, now_ns);
}

/* ---- The path ---- */

static void end_start(struct end *end, uint64_t now_ns)
{
    end->began_ns = now_ns;
    if (!end->own) {
        if (write(end->go, "g", 1) != 1)
            fail("go");
    } else if (end->sends) {
        end->socket = pnet_socket(end->net);
        pnet_set_time_us(end->net, now_ns / 1000);
        pnet_connect(end->net, end->socket, ADDRESS + 1, PORT);
    }
}

/* Hands the packets that an endpoint has sent to the relay, and drops Linux' IPv6. */
static void end_take(struct end *end, uint64_t now_ns)
{
    uint8_t packet[RELAY_PACKET_BYTES_MAX];
    ssize_t bytes;
    for (int i = 0; end->tun >= 0 && i < PACKETS_A_TURN && (bytes = read(end->tun, packet, sizeof packet)) > 0; i++)
        if (packet[0] >> 4 == 4)
            relay_put(&relay, !end->sends, packet, (uint32_t)bytes, now_ns);
}

static void end_give(struct end *end, const uint8_t *packet, uint32_t bytes, uint64_t now_ns)
{
    if (end->own) {
        pnet_set_time_us(end->net, now_ns / 1000);
        pnet_packet_in(end->net, packet, bytes);
        if (!end->sends)
            own_turn(end, now_ns); /* an application that reads late announces a small window */
    } else if (write(end->tun, packet, bytes) < 0 && errno != EAGAIN) {
        fail("tun0");
    }
}

/* Reads the time that the endpoint's process has taken. */
static void end_read_report(struct end *end)
{
    if (end->report < 0 || end->done)
        return;
    end->done = true;
    if (read(end->report, &end->took_ns, sizeof end->took_ns) != sizeof end->took_ns)
        end->took_ns = 0;
}

static void wait_for_more(uint64_t now_ns)
{
    uint64_t next_ns = transit_next_ns(&relay.transit);
    struct pollfd fds[4] = { { ends[0].tun, POLLIN, 0 },
                             { ends[1].tun, POLLIN, 0 },
                             { ends[0].done ? -1 : ends[0].report, POLLIN, 0 },
                             { ends[1].done ? -1 : ends[1].report, POLLIN, 0 } };
    for (int i = 0; i < 2; i++)
        if (ends[i].own && pnet_next_timer_us(ends[i].net) < next_ns / 1000)
            next_ns = pnet_next_timer_us(ends[i].net) * 1000;
    uint64_t left_ns = next_ns <= now_ns ? 0 : next_ns - now_ns < 100000000 ? next_ns - now_ns : 100000000;
    const struct timespec timeout = { .tv_nsec = (long)left_ns };
    ppoll(fds, 4, &timeout, NULL);
    for (int i = 0; i < 2; i++)
        if (fds[2 + i].revents != 0)
            end_read_report(&ends[i]);
}

static void play(void)
{
    uint64_t began_ns = wall_ns();
    end_start(&ends[1], began_ns);
    end_start(&ends[0], began_ns);
    while (!ends[0].done || !ends[1].done) {
        uint64_t now_ns = wall_ns();
        if (now_ns - began_ns > plan.give_up_s * 1000000000)
            return;
        uint32_t to, bytes;
        for (int i = 0; i < 2; i++)
            end_take(&ends[i], now_ns);
        for (const uint8_t *packet; (packet = transit_get(&relay.transit, &to, &bytes, now_ns)) != NULL;)
            end_give(&ends[to], packet, bytes, now_ns);
        for (int i = 0; i < 2; i++)
            if (ends[i].own)
                own_turn(&ends[i], now_ns);
        wait_for_more(wall_ns());
    }
}

/* ---- The command ---- */

static bool plan_word(const char *word)
{
    const struct {
        const char *name;
        uint64_t *number;
        uint32_t *chance;
    } words[] = {
        { "bytes", &plan.bytes, NULL },
        { "seed", &plan.seed, NULL },
        { "give_up_s", &plan.give_up_s, NULL },
        { "delay_us", &plan.delay_us, NULL },
        { "mbit", &plan.mbit, NULL },
        { "window", &plan.window, NULL },
        { "lose", NULL, &plan.faults.lose },
        { "repeat", NULL, &plan.faults.repeat },
        { "reorder", NULL, &plan.faults.reorder },
        { "queue", NULL, &plan.faults.queue_packets },
    };
    const char *equals = strchr(word, '=');
    for (size_t i = 0; equals != NULL && i < sizeof words / sizeof *words; i++) {
        size_t bytes = (size_t)(equals - word);
        if (strncmp(word, words[i].name, bytes) != 0 || words[i].name[bytes] != '\0')
            continue;
        char *end;
        uint64_t value = strtoull(equals + 1, &end, 10);
        if (words[i].number != NULL)
            *words[i].number = value;
        else
            *words[i].chance = (uint32_t)value;
        return end != equals + 1 && *end == '\0';
    }
    return false;
}

int main(int argc, char **argv)
{
    bool good = argc >= 3;
    for (int i = 1; i < argc && good; i++)
        good = i < 3 ? strcmp(argv[i], "own") == 0 || strcmp(argv[i], "linux") == 0 : plan_word(argv[i]);
    if (!good) {
        fprintf(stderr, "usage: interop own|linux own|linux [key=value ...]\n");
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1000);
    plan.faults.delay_ns = plan.delay_us * 1000;
    plan.faults.bits_per_s = plan.mbit * 1000000;
    relay_init(&relay, &plan.faults, plan.seed);
    for (int i = 0; i < 2; i++) {
        ends[i].own = strcmp(argv[1 + i], "own") == 0;
        ends[i].sends = i == 0;
        if (ends[i].own)
            own_open(&ends[i]);
        else
            linux_open(&ends[i]);
    }
    play();
    for (int i = 0; i < 2; i++)
        if (!ends[i].own)
            kill(ends[i].child, SIGKILL);
    bool exact = ends[0].done && ends[1].done && ends[0].took_ns != 0 && ends[1].took_ns != 0;
    const struct relay_direction *there = &relay.directions[0], *back = &relay.directions[1];
    printf("%s %s %s seconds %.3f packets %" PRIu64 " %" PRIu64 " lost %" PRIu64 " %" PRIu64 " overflowed %" PRIu64
           " repeated %" PRIu64 " reordered %" PRIu64 "\n",
           argv[1], argv[2], exact ? "exact" : "FAILED", (double)ends[0].took_ns / 1e9, there->packets, back->packets,
           there->lost, back->lost, there->overflowed + back->overflowed, there->repeated + back->repeated,
           there->reordered + back->reordered);
    return !exact;
}
