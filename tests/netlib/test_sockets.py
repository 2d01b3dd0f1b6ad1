"""Sockets of the hosted library keep Linux' rules: each case is the behaviour of Linux 6.18 over loopback."""
import ctypes
import errno
import struct

import pytest

from tests.lib.packets import ip_header, with_checksum
from tests.netlib.pnet import Net
from tests.netlib.test_netlib import (
    B, IPPROTO_TCP, POLLERR, POLLHUP, POLLIN, POLLOUT, RST, SO_ERROR, SO_KEEPALIVE, SO_REUSEADDR, SOL_SOCKET,
    TCP_KEEPIDLE, TCP_LINGER2, TCP_MAXSEG, TCP_NODELAY, TCP_QUICKACK, TCP_USER_TIMEOUT, connected, pair, tcp_fields)

SO_TYPE, SO_SNDBUF, SO_ACCEPTCONN = 3, 7, 30
IPPROTO_IP, IP_TOS, IP_TTL, IP_MTU_DISCOVER = 0, 1, 2, 10
TCP_CORK, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT = 3, 5, 6, 7
FIONREAD, SIOCOUTQ, SIOCOUTQNSD = 0x541B, 0x5411, 0x894B


def bound(net, port, reuse=False):
    socket = net.socket()
    if reuse:
        assert net.set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1) == 0
    return socket, net.bind(socket, 0, ctypes.c_uint16(port))


def asked(net, socket, request):
    value = ctypes.c_int()
    result = net.ioctl(socket, ctypes.c_ulong(request), ctypes.byref(value))
    return value.value if result == 0 else result


def test_a_port_is_for_one_socket():
    net = Net("address=192.168.0.1")
    first, result = bound(net, 80)
    assert result == 0 and bound(net, 80)[1] == bound(net, 80, reuse=True)[1] == -errno.EADDRINUSE
    assert net.listen(first, 1) == 0 and net.close_socket(first) == 0 and bound(net, 80)[1] == 0


def test_a_port_may_be_shared_until_a_socket_listens():
    net = Net("address=192.168.0.1")
    (one, first), (other, second) = bound(net, 80, reuse=True), bound(net, 80, reuse=True)
    assert first == second == 0
    assert net.listen(one, 1) == 0 and net.listen(other, 1) == -errno.EADDRINUSE
    assert bound(net, 80, reuse=True)[1] == -errno.EADDRINUSE


@pytest.mark.parametrize("after", ["open", "closed", "TIME-WAIT"])
def test_a_port_with_open_connections_needs_reuse(after):
    a, b, wire, client, server, listener = connected()
    assert b.close_socket(listener) == 0
    if after != "open":
        assert b.close_socket(server) == 0
    if after == "TIME-WAIT":
        wire.run(10_000)
        a.close_socket(client)
        wire.run(10_000)
    assert bound(b, 80)[1] == -errno.EADDRINUSE
    assert bound(b, 80, reuse=True)[1] == (-errno.EADDRINUSE if after == "open" else 0)
    wire.run(61_000_000)
    assert bound(b, 80)[1] == -errno.EADDRINUSE     # another socket has the port now, or still the same one


def test_a_failed_connect_leaves_a_socket_that_can_be_bound():
    a, b, wire = pair()
    client = a.socket()
    a.dial(client, B, 81)
    assert a.bind(client, 0, ctypes.c_uint16(5000)) == -errno.EINVAL
    wire.run(10_000)
    assert a.bind(client, 0, ctypes.c_uint16(5000)) == 0 and a.listen(client, 1) == -errno.EINVAL


def test_the_outcome_of_connect_is_reported_even_after_the_connection_ended():
    a, b, wire, client, server, _ = connected()
    b.abort(server)
    wire.run(10_000)
    assert a.dial(client, B, 80) == -errno.ECONNRESET and a.poll(client) == POLLOUT | POLLHUP
    assert a.dial(client, B, 80) == -errno.EINPROGRESS
    wire.run(10_000)
    assert a.poll(client) == POLLOUT


def test_shutdown_while_connecting_leaves_a_socket_that_never_was():
    """Linux: tcp_disconnect. The error is reported once, by the first call that asks."""
    for ask in (lambda: net.option(client, SOL_SOCKET, SO_ERROR), lambda: -net.receive(client),
                lambda: -net.send(client, b"x")):
        net = Net("address=192.168.0.1")
        client = net.socket()
        assert net.dial(client, B, 80) == -errno.EINPROGRESS and net.shutdown(client, 2) == 0
        assert net.poll(client) == POLLOUT | POLLERR | POLLHUP and ask() == errno.ECONNRESET
        assert net.poll(client) == POLLOUT | POLLHUP and net.receive(client) == -errno.ENOTCONN
        assert net.dial(client, B, 80) == -errno.EINPROGRESS


def test_a_write_of_no_bytes_reports_why_writing_is_impossible():
    a, b, wire, client, server, _ = connected()
    assert a.send(client, b"") == 0 and a.shutdown(client, 1) == 0 and a.send(client, b"") == -errno.EPIPE
    b.abort(server)
    wire.run(10_000)
    assert a.send(client, b"") == -errno.ECONNRESET and a.send(client, b"") == -errno.EPIPE


def test_an_error_of_any_socket_comes_before_one_of_this_socket():
    net = Net("address=192.168.0.1")
    socket = bound(net, 80)[0]
    assert net.bind(socket, ctypes.c_uint32(B + 100), ctypes.c_uint16(81)) == -errno.EADDRNOTAVAIL
    assert net.listen(socket, 1) == 0
    assert asked(net, socket, FIONREAD) == -errno.EINVAL and asked(net, socket, 0x1234) == -errno.ENOTTY


def test_shutdown_settles_the_outcome_of_connect():
    a, b, wire, client, server, _ = connected()
    b.close_socket(server)
    wire.run(10_000)
    assert a.shutdown(client, 1) == 0
    wire.run(10_000)
    assert a.info(client).tcpi_state == 7 and a.dial(client, B, 80) == -errno.EISCONN


@pytest.mark.parametrize("backlog, queued", [(0, 1), (2, 3), (-1, 20)])
def test_one_more_waits_than_the_backlog_says(backlog, queued):
    a, b, wire = pair()
    listener = b.serve(80, backlog)
    for _ in range(20):
        a.dial(a.socket(), B, 80)
        wire.run(10_000)
    assert [b.accept(listener, None, None) >= 0 for _ in range(20)].count(True) == queued


def test_listen_again_changes_the_backlog():
    a, b, wire = pair()
    listener = b.serve(80, 0)
    assert b.listen(listener, 5) == 0
    for _ in range(3):
        a.dial(a.socket(), B, 80)
        wire.run(10_000)
    assert [b.accept(listener, None, None) >= 0 for _ in range(4)] == [True, True, True, False]


def test_getpeername_works_while_there_is_a_peer():
    a, b, wire, client, server, _ = connected()
    assert a.peer(client, None, None) == 0
    second = a.socket()
    a.dial(second, B, 80)
    assert a.peer(second, None, None) == -errno.ENOTCONN       # the SYN is in transit
    b.abort(server)
    wire.run(10_000)
    assert a.peer(client, None, None) == a.shutdown(client, 0) == a.shutdown(client, 1) == -errno.ENOTCONN


def test_data_after_both_directions_are_shut_is_reset():
    a, b, wire, client, server, _ = connected()
    assert a.shutdown(client, 2) == 0
    wire.run(10_000)
    assert b.send(server, b"late") == 4
    wire.run(10_000)
    assert a.receive(client) == -errno.ECONNRESET and a.receive(client) == b""
    assert b.poll(server) & (POLLERR | POLLHUP) == POLLERR | POLLHUP
    assert b.option(server, SOL_SOCKET, SO_ERROR) == errno.EPIPE


def test_keepalive_times_hold_for_an_open_connection():
    silent = []
    a, b, wire, client, server, _ = connected(drop=lambda packet, index: bool(silent))
    for name, value in ((TCP_KEEPIDLE, 10), (TCP_KEEPINTVL, 3), (TCP_KEEPCNT, 2)):
        assert a.set_option(client, IPPROTO_TCP, name, 0) == -errno.EINVAL
        assert a.set_option(client, IPPROTO_TCP, name, value) == 0 and a.option(client, IPPROTO_TCP, name) == value
    assert a.set_option(client, SOL_SOCKET, SO_KEEPALIVE, 1) == 0
    silent.append(True)
    wire.run(8_000_000)
    assert a.set_option(client, IPPROTO_TCP, TCP_KEEPIDLE, 5) == 0      # overdue by 3 s: now
    before = wire.count
    wire.run(5_900_000)
    assert wire.count - before == 2 and a.poll(client) & POLLERR == 0
    wire.run(200_000)
    assert a.option(client, SOL_SOCKET, SO_ERROR) == errno.ETIMEDOUT


@pytest.mark.parametrize("code, error", [(0, errno.ENETUNREACH), (1, errno.EHOSTUNREACH), (3, errno.ECONNREFUSED)])
def test_an_icmp_error_about_an_open_connection_is_reported_once(code, error):
    a, b, wire, client, server, _ = connected()
    for answered in (False, True):
        assert a.send(client, b"x") == 1
        (packet,) = a.packets()
        message = struct.pack("!BBHI", 3, code, 0, 0) + packet[:28]
        a.give(ip_header("192.168.0.2", "192.168.0.1", 1, len(message)) + with_checksum(message, 2))
        if answered:
            b.give(packet)
            wire.run(10_000)                    # data gets through: the error no longer holds
        assert a.poll(client) == POLLOUT and a.option(client, SOL_SOCKET, SO_ERROR) == (0 if answered else error)
        assert a.option(client, SOL_SOCKET, SO_ERROR) == 0
        b.give(packet)
        wire.run(10_000)


@pytest.mark.parametrize("patience, ended", [(0, False), (3000, True)])
def test_user_timeout_ends_the_wait_for_a_window_though_the_peer_answers(patience, ended):
    a, b, wire, client, server, _ = connected("", "rcvbuf=1000")
    assert a.set_option(client, IPPROTO_TCP, TCP_USER_TIMEOUT, patience) == 0 and a.send(client, bytes(5000)) == 5000
    wire.run(20_000_000)
    assert a.option(client, SOL_SOCKET, SO_ERROR) == (errno.ETIMEDOUT if ended else 0)


def heads(wire, done):
    """Returns (type of service, TTL, don't fragment) of each packet from A and from B while `done` and 10 ms pass."""
    seen = ([], [])
    collect = [end.packets for end in wire.ends]
    for side, end in enumerate(wire.ends):
        def packets(side=side):
            for packet in collect[side]():
                seen[side].append((packet[1], packet[8], packet[6] >> 6))
                yield packet
        end.packets = packets
    done()
    wire.run(10_000)
    for end, packets in zip(wire.ends, collect):
        end.packets = packets
    return [set(side) for side in seen]


def test_time_to_live_and_type_of_service_are_the_applications():
    """RFC 9293, MUST-48 and MUST-49: of SYN, SYN,ACK, text, FIN, of the ACK in TIME-WAIT and of RST."""
    a, b, wire = pair()
    listener, client = b.serve(80), a.socket()
    for name, value in ((IP_TTL, 4), (IP_TOS, 0x23)):
        assert a.set_option(client, IPPROTO_IP, name, value) == b.set_option(listener, IPPROTO_IP, name, value + 4) == 0
    assert [a.option(client, IPPROTO_IP, name) for name in (IP_TTL, IP_TOS, IP_MTU_DISCOVER)] == [4, 0x20, 1]
    assert heads(wire, lambda: a.dial(client, B, 80)) == [{(0x20, 4, 1)}, {(0x24, 8, 1)}]
    server = b.accept(listener, None, None)
    assert heads(wire, lambda: b.send(server, b"x")) == [{(0x20, 4, 1)}, {(0x24, 8, 1)}]
    for name, value in ((IP_TTL, 6), (IP_TOS, 0xE0), (IP_MTU_DISCOVER, 0)):
        assert b.set_option(server, IPPROTO_IP, name, value) == 0
    assert a.set_option(client, IPPROTO_IP, IP_TTL, -1) == 0
    assert heads(wire, lambda: b.send(server, b"y")) == [{(0x20, 64, 1)}, {(0xE0, 6, 0)}]
    assert heads(wire, lambda: b.shutdown(server, 1)) == [{(0x20, 64, 1)}, {(0xE0, 6, 0)}]
    wire.drop = lambda packet, index: index == lost
    lost = wire.count + 1                       # the ACK of A's FIN, which is then repeated
    assert a.receive(client) == b"xy" and heads(wire, lambda: (a.close_socket(client), wire.run(300_000)))[1] \
        == {(0xE0, 6, 0), (0xE0, 6, 1)}
    for bad, result in (((IP_TTL, 0), errno.EINVAL), ((IP_TTL, 256), errno.EINVAL),
                        ((IP_MTU_DISCOVER, 3), errno.EINVAL),
                        ((99, 1), errno.ENOPROTOOPT)):
        assert b.set_option(listener, IPPROTO_IP, *bad) == -result


def test_a_reset_has_the_connections_time_to_live():
    a, b, wire, client, server, _ = connected("ttl=9 tos=64")
    assert heads(wire, lambda: a.abort(client))[0] == {(64, 9, 1)}


def test_options_of_a_fresh_socket():
    net = Net("address=192.168.0.1")
    socket = net.socket()
    assert [net.option(socket, SOL_SOCKET, name) for name in (SO_TYPE, SO_ACCEPTCONN)] == [1, 0]
    assert [net.option(socket, IPPROTO_TCP, name) for name in (TCP_USER_TIMEOUT, TCP_CORK, TCP_MAXSEG)] == [0, 0, 536]
    for name, value, found in ((TCP_USER_TIMEOUT, 7, 7), (TCP_LINGER2, -1, -1), (TCP_LINGER2, 0, 60),
                               (TCP_MAXSEG, 1000, 1000),
                               (TCP_MAXSEG, 0, 536), (TCP_SYNCNT, 3, 3), (TCP_CORK, 5, 1)):
        assert net.set_option(socket, IPPROTO_TCP, name, value) == 0 and net.option(socket, IPPROTO_TCP, name) == found
    assert net.set_option(socket, IPPROTO_TCP, TCP_SYNCNT, 128) == -errno.EINVAL
    assert net.listen(socket, 1) == 0 and net.option(socket, SOL_SOCKET, SO_ACCEPTCONN) == 1


def test_syn_count_ends_the_attempt():
    net = Net("address=192.168.0.1")
    client = net.socket()
    net.set_option(client, IPPROTO_TCP, TCP_SYNCNT, 2)
    net.dial(client, B, 80)
    times = []
    while not net.poll(client) & POLLERR:
        times += [net.time_us() for _ in net.packets()]
        net.at(net.next_timer_us())
        net.run_timers()
    assert times == [0, 1_000_000, 3_000_000] and net.time_us() == 7_000_000


def test_ack_policy_adapts_and_can_be_fixed():
    a, b, wire, client, server, _ = connected("", "ack=adaptive")
    assert b.option(server, IPPROTO_TCP, TCP_QUICKACK) == 1

    def acks_at_once():
        assert a.send(client, b"x") == 1
        for packet in a.packets():
            b.give(packet)
        count = 0
        for packet in b.packets():
            a.give(packet)
            count += 1
        wire.run(200_000)
        return count
    assert [acks_at_once() for _ in range(18)] == [1] * 16 + [0] * 2
    assert b.set_option(server, IPPROTO_TCP, TCP_QUICKACK, 1) == 0
    assert [acks_at_once() for _ in range(18)] == [1] * 18


def test_cork_holds_a_segment_that_is_not_full():
    a, b, wire, client, server, _ = connected("timestamps=off mss=1000")
    assert a.set_option(client, IPPROTO_TCP, TCP_CORK, 1) == 0
    assert a.send(client, bytes(1500)) == 1500
    assert [len(tcp_fields(packet)["payload"]) for packet in a.packets()] == [1000]
    assert a.set_option(client, IPPROTO_TCP, TCP_CORK, 0) == 0
    assert [len(tcp_fields(packet)["payload"]) for packet in a.packets()] == [500]


def test_nodelay_sends_data_that_a_cork_has_held_and_no_later_data():
    a, b, wire, client, server, _ = connected("timestamps=off")
    assert a.set_option(client, IPPROTO_TCP, TCP_CORK, 1) == 0
    for _ in range(2):
        assert a.send(client, bytes(40)) == 40 and not list(a.packets())
        assert a.set_option(client, IPPROTO_TCP, TCP_NODELAY, 1) == 0
        assert [len(tcp_fields(packet)["payload"]) for packet in a.packets()] == [40]


def test_a_cork_holds_no_longer_than_an_rto():
    """With nothing in flight the held segment leaves after an RTO."""
    a, b, wire, client, server, _ = connected()
    assert a.set_option(client, IPPROTO_TCP, TCP_CORK, 1) == 0 and a.send(client, b"small") == 5
    wire.run(100_000)
    assert b.receive(server) == -errno.EAGAIN
    wire.run(200_000)
    assert b.receive(server) == b"small"


def test_options_set_on_a_listener_hold_for_later_connections():
    a, b, wire = pair()
    listener = b.serve(80)
    assert b.set_option(listener, IPPROTO_TCP, TCP_MAXSEG, 700) == 0
    a.dial(a.socket(), B, 80)
    for packet in list(a.packets()):
        b.give(packet)
    (syn_ack,) = b.packets()
    assert tcp_fields(syn_ack)["options"][:4] == bytes([2, 4]) + (700).to_bytes(2, "big")


def test_the_send_buffer_bounds_the_bytes_that_wait():
    a, b, wire, client, server, _ = connected()
    assert a.set_option(client, SOL_SOCKET, SO_SNDBUF, 3000) == 0 and a.option(client, SOL_SOCKET, SO_SNDBUF) == 3000
    assert a.send(client, bytes(5000)) == 3000 and a.send(client, b"x") == -errno.EAGAIN
    assert a.poll(client) & POLLOUT == 0
    wire.run(100_000)
    assert a.send(client, bytes(5000)) == 3000


def test_the_bytes_in_the_queues():
    a, b, wire, client, server, listener = connected()
    assert [asked(a, client, request) for request in (FIONREAD, SIOCOUTQ, SIOCOUTQNSD)] == [0, 0, 0]
    assert asked(b, listener, FIONREAD) == -errno.EINVAL and asked(a, client, 7) == -errno.ENOTTY
    assert asked(a, a.socket(), FIONREAD) == 0 and asked(a, 99, FIONREAD) == -errno.EBADF
    assert a.ioctl(client, ctypes.c_ulong(FIONREAD), None) == -errno.EFAULT
    assert a.send(client, bytes(30_000)) == 30_000
    assert asked(a, client, SIOCOUTQ) == 30_000 and 0 < asked(a, client, SIOCOUTQNSD) < 30_000
    wire.run(100_000)
    assert asked(a, client, SIOCOUTQ) == 0 and asked(b, server, FIONREAD) == 30_000
    b.receive(server, 1000)
    assert asked(b, server, FIONREAD) == 29_000
    assert a.shutdown(client, 1) == 0 and asked(a, client, SIOCOUTQ) == 1       # FIN
    wire.run(10_000)
    b.receive(server)
    assert asked(b, server, FIONREAD) == 0


@pytest.mark.parametrize("mtu", [576, 9000, 15000, 65535])
def test_packets_are_as_large_as_the_mtu(mtu):
    a, b, wire, client, server, _ = connected(f"mtu={mtu} sndbuf=1000000", f"mtu={mtu} rcvbuf=1000000")
    data = bytes(i * 7 & 255 for i in range(300_000))
    assert a.send(client, data) == len(data) and a.info(client).tcpi_snd_mss == mtu - 52
    sizes = [len(packet) for packet in a.packets()]
    assert max(sizes) == mtu
    wire.run(3_000_000)                         # the packets taken above are lost, and sent again
    assert b.receive(server, len(data)) == data


def test_info_shows_reordering_and_the_time_limited_by_the_window():
    a, b, wire, client, server, _ = connected("mss=1000 timestamps=off", "rcvbuf=10000")
    info = a.info(client)
    assert (info.tcpi_advmss, info.tcpi_reordering, info.tcpi_rwnd_limited) == (1000, 3, 0)
    for count in (2, 7):                        # the first comes last; three others alone would look like a loss
        assert a.send(client, bytes(1000 * count)) == 1000 * count
        first, *others = a.packets()
        wire.now_us += 2000
        a.at(wire.now_us), b.at(wire.now_us)
        for segment in [*others, first]:
            b.give(segment)
        for ack in b.packets():
            a.give(ack)
        assert a.info(client).tcpi_reordering == max(count, 3)
    assert a.send(client, bytes(5000)) == 5000        # room for 1000
    wire.run(50_000)
    limited_us = a.info(client).tcpi_rwnd_limited
    assert 40_000 < limited_us <= 50_000
    b.receive(server)
    wire.run(10_000)
    assert limited_us <= a.info(client).tcpi_rwnd_limited < limited_us + 5000


def test_a_segment_is_answered_with_a_challenge_once_in_half_a_second():
    """gVisor, Linux: tcp_invalid_ratelimit. RFC 5961 §7."""
    from tests.netlib.test_netlib import tcp_packet
    a, b, wire, client, server, _ = connected()
    port = ctypes.c_uint16()
    assert a.local(client, None, ctypes.byref(port)) == 0
    syn = tcp_packet(80, port.value, 12345, 2)
    answers = []
    for _ in range(3):
        a.give(syn)
        answers.append(len(list(a.packets())))
        wire.run(300_000)
    assert answers == [1, 0, 1] and a.poll(client) & POLLIN == 0
    assert all(not tcp_fields(packet)["flags"] & RST for packet in a.packets())
