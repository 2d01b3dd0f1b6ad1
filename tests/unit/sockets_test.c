/* host/sockets.c keeps the contract of net/transport.h, against plain sockets of the same process on loopback. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "host/sockets.h"
#include "net/transport_path.h"
#include "tests/lib/test.h"

enum { LOOPBACK = 0x7f000001 };
#define MS          UINT64_C(1000000)
#define PATIENCE_NS (60000 * MS) /* for immediate events, on a machine that may stall for seconds */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void start(void)
{
    static const struct transport_config config;
    assert_true(transport_init(&config, now_ns()));
}

BEFORE_EACH() { start(); }

/* Polls for the next event. */
static struct transport_event next(void)
{
    struct transport_event event;
    uint64_t end = now_ns() + PATIENCE_NS;
    while (!transport_poll(now_ns(), &event)) {
        transport_idle(now_ns());
        if (now_ns() > end)
            fail_msg("no event");
        sockets_wait(now_ns(), now_ns() + 10 * MS);
    }
    return event;
}

static struct transport_event expect(enum transport_event_kind kind)
{
    struct transport_event event = next();
    assert_int_equal(event.kind, kind);
    return event;
}

static struct sockaddr_in at_port(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address) };
}

static void no_event(void)
{
    struct transport_event event;
    for (int i = 0; i < 40; i++) {
        assert_false(transport_poll(now_ns(), &event));
        assert_int_equal(event.kind, TRANSPORT_NONE);
    }
}

/* Makes a listening socket of the test, and returns its port. */
static int listener(uint16_t *port)
{
    struct sockaddr_in at = at_port(LOOPBACK, 0);
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 5), 0);
    getsockname(fd, (struct sockaddr *)&at, &bytes);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Returns a port that `take` has opened. Linux chose the port just before for a TCP socket, so it is free. */
static uint16_t taken_by(bool (*take)(uint16_t port))
{
    uint16_t port;
    for (int i = 0; i < 20; i++) {
        close(listener(&port));
        if (take(port))
            return port;
    }
    fail_msg("none of 20 ports is free");
    return 0;
}

/* Makes a connection of the transport, and returns the test's end in *peer. */
static int connected(int *peer)
{
    uint16_t port;
    int server = listener(&port);
    int id = transport_connect(LOOPBACK, port, now_ns());
    assert_true(id >= 0);
    assert_int_equal(expect(TRANSPORT_CONNECTED).connection, id);
    *peer = accept(server, NULL, NULL);
    assert_true(*peer >= 0);
    close(server);
    return id;
}

static void say(int id, const char *text)
{
    uint8_t *message = transport_message(id);
    assert_non_null(message);
    memcpy(message + 100, text, strlen(text));
    assert_true(transport_send(id, 100, (uint32_t)strlen(text), now_ns()));
}

static void assert_closed(int id, enum transport_reason reason)
{
    struct transport_event event = expect(TRANSPORT_CLOSED);
    assert_int_equal(event.connection, id);
    assert_int_equal(event.reason, reason);
}

static void reset_by(int peer)
{
    struct linger linger = { .l_onoff = 1, .l_linger = 0 };
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(peer);
}

TEST(a_refused_connection_is_reported_once)
{
    uint16_t port;
    close(listener(&port));
    int id = transport_connect(LOOPBACK, port, now_ns());
    assert_true(id >= 0);
    assert_closed(id, TRANSPORT_REFUSED);
    no_event();
}

TEST(bytes_go_both_ways)
{
    int peer;
    char got[16] = { 0 };
    int id = connected(&peer);
    say(id, "there");
    assert_int_equal(recv(peer, got, sizeof got, 0), 5);
    assert_string_equal(got, "there");
    assert_int_equal(send(peer, "back", 4, 0), 4);
    struct transport_event event = expect(TRANSPORT_DATA);
    assert_int_equal(event.payload.count, 4);
    assert_memory_equal(event.payload.data, "back", 4);
    no_event();
    transport_abort(id, now_ns());
    assert_closed(id, TRANSPORT_ABORTED);
    assert_int_equal(recv(peer, got, sizeof got, 0), -1); /* RST */
    close(peer);
}

TEST(the_peers_end_is_reported_and_our_close_ends_the_connection)
{
    int peer;
    int id = connected(&peer);
    assert_int_equal(send(peer, "last", 4, 0), 4);
    shutdown(peer, SHUT_WR);
    expect(TRANSPORT_DATA);
    expect(TRANSPORT_ENDED);
    no_event();
    say(id, "still here");
    char got[16];
    assert_int_equal(recv(peer, got, sizeof got, 0), 10);
    transport_close(id, now_ns());
    assert_closed(id, TRANSPORT_DONE);
    no_event();
    assert_int_equal(recv(peer, got, sizeof got, 0), 0); /* FIN */
    close(peer);
}

TEST(our_close_lets_the_peers_data_arrive)
{
    int peer;
    char got[16];
    int id = connected(&peer);
    transport_close(id, now_ns());
    assert_int_equal(recv(peer, got, sizeof got, 0), 0);
    assert_int_equal(send(peer, "late", 4, 0), 4);
    expect(TRANSPORT_DATA);
    close(peer);
    assert_closed(id, TRANSPORT_DONE);
    no_event();
}

TEST(a_peer_that_does_not_close_holds_the_connection_until_we_abort)
{
    int peer;
    char byte;
    int id = connected(&peer);
    transport_close(id, now_ns());
    assert_int_equal(recv(peer, &byte, 1, 0), 0);
    struct transport_event event;
    assert_false(transport_poll(now_ns() + 3600 * 1000 * MS, &event));
    assert_int_equal(send(peer, "late", 4, 0), 4);
    expect(TRANSPORT_DATA);
    transport_abort(id, now_ns());
    assert_closed(id, TRANSPORT_ABORTED);
    no_event();
    assert_int_equal(send(peer, "later", 5, MSG_NOSIGNAL), -1); /* RST */
    close(peer);
}

TEST(a_reset_is_reported_with_the_unacknowledged_bytes)
{
    int peer;
    int id = connected(&peer);
    say(id, "acknowledged by the peer's kernel");
    uint64_t end = now_ns() + PATIENCE_NS;
    while (transport_unacked_bytes(id) > 0 && now_ns() < end)
        sockets_wait(now_ns(), now_ns() + MS);
    assert_int_equal(transport_unacked_bytes(id), 0);
    reset_by(peer);
    assert_closed(id, TRANSPORT_RESET);
    assert_int_equal(transport_unacked_bytes(id), 0);
    no_event();

    /* A peer that has closed answers data with RST, and does not receive the data. */
    start();
    id = connected(&peer);
    close(peer);
    expect(TRANSPORT_ENDED);
    say(id, "never");
    assert_closed(id, TRANSPORT_RESET);
    assert_int_equal(transport_unacked_bytes(id), 5);
    no_event();
}

/* Sends messages until the window has no room for another. Returns their bytes. */
static uint32_t fill_window(int id)
{
    uint32_t sent = 0, refused = 0;
    for (int i = 0; i < 100000 && refused < 3; i++) {
        uint8_t *message = transport_message(id);
        for (uint32_t k = 0; k < 1000; k++)
            message[k] = (uint8_t)((sent + k) * 31 >> 3);
        if (transport_send(id, 0, 1000, now_ns()))
            sent += 1000;
        else
            refused++;
    }
    assert_int_equal(refused, 3);
    assert_true(transport_unacked_bytes(id) > 0);
    transport_idle(now_ns());
    return sent;
}

/* Reads at the peer up to `sent` bytes, or to the stream's end. Returns the bytes. Sets *closed if the transport
 * reported the end. */
static uint32_t drain(int peer, uint32_t sent, uint64_t at_ns, bool *closed)
{
    uint32_t got = 0;
    *closed = false;
    uint64_t end = now_ns() + PATIENCE_NS;
    while (got < sent && now_ns() < end) {
        struct transport_event event;
        uint8_t buffer[5000];
        ssize_t bytes = recv(peer, buffer, sizeof buffer, MSG_DONTWAIT);
        if (bytes == 0)
            break;
        transport_poll(at_ns, &event); /* gives Linux the rest of a message that it took in part */
        *closed |= event.kind == TRANSPORT_CLOSED;
        for (ssize_t k = 0; k < bytes; k++)
            if (buffer[k] != (uint8_t)((got + (uint32_t)k) * 31 >> 3))
                fail_msg("byte %u differs", got + (uint32_t)k);
        got += bytes > 0 ? (uint32_t)bytes : 0;
    }
    return got;
}

TEST(a_full_window_refuses_whole_messages_and_loses_nothing)
{
    int peer;
    int id = connected(&peer);
    uint32_t sent = fill_window(id);
    bool closed;
    assert_int_equal(drain(peer, sent, now_ns(), &closed), sent);
    close(peer);
}

TEST(data_that_a_full_window_delays_goes_before_our_end)
{
    for (int peer_has_ended = 0; peer_has_ended < 2; peer_has_ended++) {
        int peer;
        char byte;
        bool closed;
        start();
        int id = connected(&peer);
        uint32_t sent = fill_window(id);
        if (peer_has_ended) {
            shutdown(peer, SHUT_WR);
            expect(TRANSPORT_ENDED);
        }
        uint64_t at_ns = now_ns(), end = at_ns + PATIENCE_NS;
        transport_close(id, at_ns);
        assert_int_equal(drain(peer, sent, at_ns, &closed), sent);
        if (!peer_has_ended) {
            assert_false(closed);
            shutdown(peer, SHUT_WR);
        }
        for (struct transport_event event; !closed && now_ns() < end;)
            closed = transport_poll(at_ns, &event) && event.kind == TRANSPORT_CLOSED && event.reason == TRANSPORT_DONE;
        assert_true(closed);
        assert_int_equal(recv(peer, &byte, 1, 0), 0);
        close(peer);
    }
}

TEST(a_listener_accepts_and_reports_the_peer)
{
    uint16_t port = taken_by(transport_listen);
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = at_port(LOOPBACK, port);
    assert_int_equal(connect(peer, (struct sockaddr *)&at, sizeof at), 0);
    struct transport_event event = expect(TRANSPORT_ACCEPTED);
    assert_int_equal(event.port, port);
    assert_int_equal(event.address, LOOPBACK);
    say(event.connection, "hello");
    char got[8];
    assert_int_equal(recv(peer, got, sizeof got, 0), 5);
    close(peer);
}

TEST(datagrams_come_and_go)
{
    uint16_t port = taken_by(transport_udp_bind);
    int peer = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = at_port(LOOPBACK, port);
    assert_int_equal(sendto(peer, "ping", 4, 0, (struct sockaddr *)&at, sizeof at), 4);
    struct transport_event event = expect(TRANSPORT_DATAGRAM);
    assert_int_equal(event.port, port);
    assert_memory_equal(event.payload.data, "ping", 4);
    assert_int_equal(event.to_address, LOOPBACK);
    assert_true(transport_udp_send(port, event.address, event.peer_port, "pong", 4, now_ns()));
    static const uint8_t long_data[TRANSPORT_DATAGRAM_BYTES_MAX + 1];
    assert_false(transport_udp_send(port, event.address, event.peer_port, long_data, sizeof long_data, now_ns()));
    assert_false(transport_udp_send((uint16_t)(port + 1), event.address, event.peer_port, "pong", 4, now_ns()));
    char got[8];
    assert_int_equal(recv(peer, got, sizeof got, 0), 4);
    assert_false(transport_udp_bind(port)); /* bound already, by this program */
    assert_int_equal(sendto(peer, long_data, sizeof long_data, 0, (struct sockaddr *)&at, sizeof at), sizeof long_data);
    for (int i = 0; i < 3; i++) /* one call of Linux brings all */
        assert_int_equal(sendto(peer, "ping", 4, 0, (struct sockaddr *)&at, sizeof at), 4);
    for (int i = 0; i < 3; i++) {
        const uint64_t before_ns = now_ns();
        sockets_wait(before_ns, before_ns + PATIENCE_NS);
        assert_true(now_ns() < before_ns + PATIENCE_NS);
        event = next();
        assert_true(event.kind == TRANSPORT_DATAGRAM && event.payload.count == 4);
    }
    no_event();
    for (int i = 0; i < 40; i++) { /* after a datagram the next one waits for no round of polls */
        assert_int_equal(sendto(peer, "ping", 4, 0, (struct sockaddr *)&at, sizeof at), 4);
        assert_true(transport_poll(now_ns(), &event) || transport_poll(now_ns(), &event));
    }
    close(peer);
}

/* Fills the queues of all UDP ports. Their datagrams come in turn, up to 16 of each. */
TEST(a_busy_udp_port_starves_no_other_one)
{
    enum { PORTS = 3, EACH = 48, BATCH = 16 };
    uint16_t ports[PORTS];
    int peer = socket(AF_INET, SOCK_DGRAM, 0);
    for (int i = 0; i < PORTS; i++)
        ports[i] = taken_by(transport_udp_bind);
    for (int i = 0; i < PORTS; i++) {
        struct sockaddr_in at = at_port(LOOPBACK, ports[i]);
        for (int k = 0; k < EACH; k++)
            assert_int_equal(sendto(peer, "x", 1, 0, (struct sockaddr *)&at, sizeof at), 1);
    }
    for (int i = 0; i < PORTS * EACH; i++)
        assert_int_equal(next().port, ports[i / BATCH % PORTS]);
    no_event();
    close(peer);
}

/* Keeps a stream busy: each poll finds bytes. A datagram is not kept waiting, nor is the stream by datagrams. */
TEST(a_busy_stream_and_datagrams_wait_for_each_other_for_16_polls)
{
    enum { POLLS_MAX = 17 };
    int stream, datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    struct transport_event event;
    connected(&stream);
    struct sockaddr_in at = at_port(LOOPBACK, taken_by(transport_udp_bind));
    for (int with_flood = 0; with_flood < 2; with_flood++) {
        int polls_between[2] = { 0, 0 };
        for (int i = 0; i < 20 * POLLS_MAX; i++) {
            assert_int_equal(send(stream, "1", 1, 0), 1);
            if (with_flood || i % 5 == 0)
                assert_int_equal(sendto(datagrams, "x", 1, 0, (struct sockaddr *)&at, sizeof at), 1);
            polls_between[0]++;
            polls_between[1]++;
            if (transport_poll(now_ns(), &event))
                polls_between[event.kind == TRANSPORT_DATAGRAM] = 0;
            assert_in_range(polls_between[0], 0, POLLS_MAX);
            assert_in_range(polls_between[1], 0, POLLS_MAX);
        }
    }
    close(datagrams);
    close(stream);
}

/* Holds a connection: neither its data nor its end come before it is let go. */
TEST(held_data_wait)
{
    int peer;
    int id = connected(&peer);
    transport_hold(id, true);
    assert_int_equal(send(peer, "123", 3, 0), 3);
    shutdown(peer, SHUT_WR);
    no_event();
    transport_hold(id, false);
    struct transport_event event = expect(TRANSPORT_DATA);
    assert_memory_equal(event.payload.data, "123", 3);
    expect(TRANSPORT_ENDED);
    close(peer);
}

/* Holds a connection that both sides close in order, and one that the peer resets; with few connections and with many,
 * for which Linux is asked in another way. The end in order comes after the data, the reset at once. */
TEST(an_end_in_order_waits_for_held_data)
{
    for (uint32_t count = 16; count <= 17; count++) {
        int peer;
        assert_true(transport_init(&(struct transport_config){ .connection_count = count }, now_ns()));
        int id = connected(&peer);
        transport_hold(id, true);
        assert_int_equal(send(peer, "123", 3, 0), 3);
        no_event();
        transport_close(id, now_ns());
        close(peer);
        struct pollfd pause = { .fd = -1 };
        for (int i = 0; i < 5; i++, poll(&pause, 1, 10)) /* loopback's FIN may come a moment later */
            no_event();
        transport_hold(id, false);
        struct transport_event event = expect(TRANSPORT_DATA);
        assert_memory_equal(event.payload.data, "123", 3);
        assert_closed(id, TRANSPORT_DONE);

        id = connected(&peer);
        transport_hold(id, true);
        assert_int_equal(send(peer, "123", 3, 0), 3);
        no_event();
        reset_by(peer);
        assert_closed(id, TRANSPORT_RESET);
    }
}

TEST(ids_run_out_and_come_back)
{
    uint16_t port;
    int server = listener(&port);
    for (int i = 0; i < TRANSPORT_CONNECTION_COUNT_MAX; i++)
        assert_int_equal(transport_connect(LOOPBACK, port, now_ns()), i);
    assert_int_equal(transport_connect(LOOPBACK, port, now_ns()), -1);
    for (int i = 0; i < TRANSPORT_CONNECTION_COUNT_MAX; i++)
        transport_abort(i, now_ns());
    bool reported[TRANSPORT_CONNECTION_COUNT_MAX] = { false };
    for (int i = 0; i < TRANSPORT_CONNECTION_COUNT_MAX; i++) {
        struct transport_event event = expect(TRANSPORT_CLOSED);
        assert_false(reported[event.connection]);
        reported[event.connection] = true;
    }
    no_event();
    assert_true(transport_connect(LOOPBACK, port, now_ns()) >= 0);
    close(server);
}

TEST(calls_that_sockets_leave_out_do_nothing)
{
    assert_false(transport_memory_bytes(17) != 0 || transport_alters_frames() || transport_ask_neighbour());
    assert_false(transport_rehearsal_begin(&(struct transport_rehearsal){ .port = 1 }, now_ns()));
}

/* ---- Multicast groups: last, because the program goes to a network namespace of its own ---- */

#define GROUP UINT32_C(0xef010101) /* 239.1.1.1 */

/* Makes a network whose loopback carries groups. Returns false if this machine allows no namespace. */
static bool own_network(void)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    const struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe0000000) };
    const struct sockaddr_in mask = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xf0000000) };
    struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = up.ifr_name };
    memcpy(&route.rt_dst, &to, sizeof to);
    memcpy(&route.rt_genmask, &mask, sizeof mask);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &up), 0);
    assert_int_equal(ioctl(fd, SIOCADDRT, &route), 0);
    close(fd);
    return true;
}

static void group_send(uint32_t group, uint16_t port)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = at_port(group, port);
    assert_int_equal(sendto(fd, "quote", 5, 0, (struct sockaddr *)&at, sizeof at), 5);
    close(fd);
}

static void expect_quote(uint32_t group, uint16_t port)
{
    group_send(group, port);
    struct transport_event event = expect(TRANSPORT_DATAGRAM);
    assert_int_equal(event.port, port);
    assert_int_equal(event.to_address, group);
    assert_int_equal(event.payload.count, 5);
}

TEST(datagrams_to_joined_groups_alone_come)
{
    static const uint32_t none[] = { 0, LOOPBACK, 0xe0000001, 0xf0000000, 0xffffffff };
    if (!own_network())
        skip();
    start();
    uint16_t port = taken_by(transport_udp_bind);
    for (size_t i = 0; i < ARRAY_COUNT(none); i++)
        assert_false(transport_udp_join(none[i]));
    assert_true(transport_udp_join(GROUP));
    assert_true(transport_udp_join(GROUP));
    expect_quote(GROUP, port);
    uint16_t later = taken_by(transport_udp_bind);
    expect_quote(GROUP, later);

    /* Another program's group comes to the same interface. */
    int other = socket(AF_INET, SOCK_DGRAM, 0);
    const struct ip_mreqn request = { .imr_multiaddr.s_addr = htonl(GROUP + 1) };
    assert_int_equal(setsockopt(other, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request), 0);
    group_send(GROUP + 1, port);
    no_event();

    transport_udp_leave(GROUP + 1);
    transport_udp_leave(GROUP);
    group_send(GROUP, port);
    no_event();
    for (uint32_t i = 0; i < TRANSPORT_GROUP_COUNT_MAX; i++)
        assert_true(transport_udp_join(GROUP + i));
    assert_false(transport_udp_join(GROUP + TRANSPORT_GROUP_COUNT_MAX));
    expect_quote(GROUP + 1, port);
    close(other);
}
