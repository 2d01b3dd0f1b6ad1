"""The hosted library, used as by a test suite of others: words, packets, clock, sockets, errnos, options."""
import ctypes
import errno
import os
import re
import struct
import subprocess

import pytest

from tests.lib.packets import ACK, RST, SYN, tcp
from tests.lib.paths import BUILD, ROOT
from tests.netlib.pnet import LIBRARY, NEVER, Net, Wire

A, B = 0xC0A80001, 0xC0A80002
SOL_SOCKET, SO_REUSEADDR, SO_ERROR, SO_RCVBUF, SO_KEEPALIVE = 1, 2, 4, 8, 9
IPPROTO_TCP, TCP_NODELAY, TCP_MAXSEG, TCP_KEEPIDLE, TCP_LINGER2, TCP_QUICKACK, TCP_USER_TIMEOUT = 6, 1, 2, 4, 8, 12, 18
POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP = 1, 4, 8, 16, 0x2000


def test_the_example_of_the_readme_connects_two_stacks(tmp_path):
    example = ROOT / "docs/two_stacks.c"
    assert str(example.relative_to(ROOT)) in (ROOT / "README.md").read_text()
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", "-o", tmp_path / "two_stacks", example,
                    BUILD / "host/libperegrine-net.so", f"-Wl,-rpath,{BUILD}/host"], check=True)
    done = subprocess.run([tmp_path / "two_stacks"], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, "hello after 0 us\n"), done.stderr


def pair(words_a="", words_b="", **wire):
    a, b = Net(f"address=192.168.0.1 {words_a}"), Net(f"address=192.168.0.2 {words_b}")
    return a, b, Wire(a, b, **wire)


def connected(words_a="", words_b="", **kind):
    a, b, wire = pair(words_a, words_b, **kind)
    listener, client = b.serve(80), a.socket()
    assert a.dial(client, B, 80) == -errno.EINPROGRESS
    wire.run(20_000)
    server = b.accept(listener, None, None)
    assert server >= 0
    return a, b, wire, client, server, listener


def tcp_fields(packet):
    head = (packet[0] & 15) * 4
    port, to, seq, ack, offset, flags, window = struct.unpack("!HHIIBBH", packet[head:head + 16])
    options = packet[head + 20:head + (offset >> 4) * 4]
    return {"port": port, "to": to, "seq": seq, "ack": ack, "flags": flags, "window": window, "options": options,
            "payload": packet[head + (offset >> 4) * 4:]}


@pytest.mark.parametrize("words, quoted", [
    ("", "address="), ("address=1.2.3", 'address=: "1.2.3"'), ("address=1.2.3.4 ack=slow", 'ack=: "slow"'),
    ("address=1.2.3.4 wscale=15", 'wscale=: "15"'), ("address=1.2.3.4 rto_min=9", '"rto_min"'),
    ("address=1.2.3.4 mss", "mss"), ("address=1.2.3.4 rto_min_us=-1", 'rto_min_us=: "-1"'),
    ("address=1.2.3.255 prefix=24", "prefix="), ("address=1.2.3.4 prefix=33", 'prefix=: "33"'),
])
def test_bad_words_are_refused_by_name(words, quoted):
    with pytest.raises(ValueError, match=quoted.replace(".", r"\.")):
        Net(words)


def test_the_library_exports_the_functions_of_the_header_alone():
    header = (ROOT / "host/library/peregrine_net.h").read_text()
    names = subprocess.run(["nm", "-D", "--defined-only", BUILD / "host/libperegrine-net.so"], capture_output=True,
                           text=True, check=True).stdout
    assert set(re.findall(r" T (\w+)", names)) == set(re.findall(r"PNET_API [^;]*?(pnet_\w+)\(", header))
    assert all(" T pnet_" in line for line in names.splitlines())


@pytest.mark.parametrize("command", ["gcc -std=c99 -x c", "clang++ -std=c++98 -x c++"])
def test_the_header_stands_alone(command):
    subprocess.run([*command.split(), "-pedantic-errors", "-Wall", "-Wextra", "-fsyntax-only", "-I", ROOT, "-"],
                   input='#include "host/library/peregrine_net.h"\nint main(void) { return pnet_open("", 0) != 0; }\n',
                   text=True, check=True)


def test_syn_options_stand_in_linux_order():
    a = Net("address=192.168.0.1 rcvbuf=4194304")
    assert a.dial(a.socket(), B, 80) == -errno.EINPROGRESS
    (syn,) = [tcp_fields(packet) for packet in a.packets()]
    options = syn["options"]
    assert syn["flags"] == SYN
    assert options[:4] == bytes([2, 4]) + (1460).to_bytes(2, "big")
    assert options[4:6] == bytes([4, 2])
    assert options[6:8] == bytes([8, 10])
    assert options[16:20] == bytes([1, 3, 3, 7])        # 4 MiB >> 16: a shift of 7 names it all


@pytest.mark.parametrize("words, present", [
    ("timestamps=off", {2, 4, 3}), ("sack=off", {2, 8, 3}), ("wscale=off", {2, 4, 8}),
    ("timestamps=off sack=off wscale=off", {2}), ("wscale=off wscale=7", {2, 4, 8, 3}),
])
def test_options_switched_off_are_not_sent(words, present):
    a = Net(f"address=192.168.0.1 {words}")
    a.dial(a.socket(), B, 80)
    options, kinds = tcp_fields(next(a.packets()))["options"], set()
    while options:
        if options[0] > 1:
            kinds.add(options[0])
        options = options[1:] if options[0] <= 1 else options[options[1]:]
    assert kinds == present


def test_calls_before_the_handshake_return_as_in_linux():
    a, b, wire = pair()
    listener, client = b.serve(80), a.socket()
    assert b.accept(listener, None, None) == -errno.EAGAIN
    assert a.receive(client) == -errno.ENOTCONN
    assert a.dial(client, B, 80) == -errno.EINPROGRESS
    assert a.dial(client, B, 80) == -errno.EALREADY
    assert a.receive(client) == -errno.EAGAIN and a.send(client, b"x") == -errno.EAGAIN
    assert a.poll(client) & (POLLIN | POLLOUT) == 0
    wire.run(20_000)
    assert [a.dial(client, B, 80) for _ in range(3)] == [0, -errno.EISCONN, -errno.EISCONN]
    assert a.poll(client) == POLLOUT and b.poll(listener) & POLLIN
    assert b.accept(listener, None, None) >= 0
    assert a.info(client).tcpi_state == 1 and a.option(client, SOL_SOCKET, SO_ERROR) == 0


def test_refused_connect_is_reported_once():
    a, b, wire = pair()
    client = a.socket()
    a.dial(client, B, 81)
    wire.run(20_000)
    assert a.poll(client) & (POLLERR | POLLHUP) == POLLERR | POLLHUP
    assert a.option(client, SOL_SOCKET, SO_ERROR) == errno.ECONNREFUSED
    assert a.option(client, SOL_SOCKET, SO_ERROR) == 0
    assert a.info(client).tcpi_state == 7


def test_refused_connect_can_be_called_again():
    a, b, wire = pair()
    client = a.socket()
    for asked_before in (False, True):
        assert a.dial(client, B, 81) == -errno.EINPROGRESS
        wire.run(20_000)
        if asked_before:
            assert a.option(client, SOL_SOCKET, SO_ERROR) == errno.ECONNREFUSED
        assert a.dial(client, B, 81) == -(errno.ECONNABORTED if asked_before else errno.ECONNREFUSED)
    b.serve(81)
    assert a.dial(client, B, 81) == -errno.EINPROGRESS
    wire.run(20_000)
    assert a.dial(client, B, 81) == 0 and a.info(client).tcpi_state == 1
    assert b.dial(b.serve(82), A, 80) == -errno.EISCONN     # a listener


def test_both_directions_shut_down_hang_up():
    a, b, wire, client, server, _ = connected()
    assert a.shutdown(a.socket(), 7) == -errno.EINVAL
    assert a.shutdown(client, 1) == 0 and a.poll(client) & POLLHUP == 0
    assert a.shutdown(client, 0) == 0 and a.poll(client) & (POLLHUP | POLLIN | POLLOUT) == POLLHUP | POLLIN | POLLOUT


def test_linger2_bounds_fin_wait_2():
    a, b, wire, client, server, _ = connected()
    assert a.option(client, IPPROTO_TCP, TCP_LINGER2) == 60
    assert a.set_option(client, IPPROTO_TCP, TCP_LINGER2, 1) == 0 and a.option(client, IPPROTO_TCP, TCP_LINGER2) == 1
    assert a.close_socket(client) == 0
    wire.run(1_500_000)
    assert b.send(server, b"to nobody") == 9
    wire.run(10_000)
    assert b.receive(server) == b"" and b.option(server, SOL_SOCKET, SO_ERROR) == errno.EPIPE


def test_user_timeout_bounds_unanswered_data():
    silent = []
    a, b, wire, client, server, _ = connected(drop=lambda packet, index: bool(silent))
    assert a.set_option(client, IPPROTO_TCP, TCP_USER_TIMEOUT, 3000) == 0
    silent.append(True)
    assert a.send(client, b"anybody") == 7
    wire.run(2_900_000)
    assert a.poll(client) & POLLERR == 0
    wire.run(200_000)
    assert a.send(client, b"x") == -errno.ETIMEDOUT


def test_read_peek_write_shutdown_close():
    a, b, wire, client, server, _ = connected()
    assert a.send(client, b"hello") == 5
    wire.run(10_000)
    assert b.poll(server) & POLLIN
    assert b.receive(server, 3, 2) == b"hel" and b.receive(server) == b"hello"
    assert b.receive(server) == -errno.EAGAIN
    assert a.shutdown(client, 1) == 0 and a.send(client, b"more") == -errno.EPIPE
    wire.run(10_000)
    assert b.receive(server) == b"" and b.poll(server) & POLLRDHUP
    assert b.send(server, b"late") == 4
    wire.run(10_000)
    assert a.receive(client) == b"late"
    assert a.info(client).tcpi_state == 5 and b.info(server).tcpi_state == 8
    assert b.close_socket(server) == 0
    wire.run(10_000)
    assert a.receive(client) == b"" and a.poll(client) & POLLHUP
    assert a.close_socket(client) == 0 and a.close_socket(client) == -errno.EBADF


def test_data_after_shut_rd_can_be_read_as_in_linux():
    a, b, wire, client, server, _ = connected()
    assert a.shutdown(client, 0) == 0
    assert a.receive(client) == b"" and a.poll(client) & (POLLIN | POLLRDHUP) == POLLIN | POLLRDHUP
    assert b.send(server, b"late") == 4
    wire.run(10_000)
    assert a.receive(client) == b"late" and a.receive(client) == b""
    assert a.send(client, b"still") == 5


def test_reset_in_close_wait_fails_the_writing_only():
    a, b, wire, client, server, _ = connected()
    assert b.shutdown(server, 1) == 0
    wire.run(10_000)
    assert b.abort(server) == 0
    wire.run(10_000)
    assert a.receive(client) == b"" and a.poll(client) & POLLERR
    assert a.send(client, b"x") == -errno.EPIPE and a.option(client, SOL_SOCKET, SO_ERROR) == 0


@pytest.mark.parametrize("how", ["abort", "linger", "unread"])
def test_ends_that_reset(how):
    a, b, wire, client, server, _ = connected()
    if how == "unread":
        b.send(server, b"never read")
        wire.run(10_000)
    if how == "linger":
        a.set_linger(client, 1, 0)
    (a.abort if how == "abort" else a.close_socket)(client)
    (reset,) = [tcp_fields(packet) for packet in a.packets()]
    assert reset["flags"] & RST
    wire.in_transit.clear()
    a2, b2, wire2, client2, server2, _ = connected()
    a2.abort(client2)
    wire2.run(10_000)
    assert b2.receive(server2) == -errno.ECONNRESET and b2.receive(server2) == b""
    assert b2.send(server2, b"x") == -errno.EPIPE


def test_reads_and_timers_move_a_megabyte_through_loss():
    seed = int(os.environ.get("SEED", "20261122"))
    state = [seed | 1]

    def drop(packet, index):
        state[0] = state[0] * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
        return index > 10 and state[0] >> 56 < 13       # 5 %
    a, b, wire, client, server, _ = connected("sndbuf=131072", "rcvbuf=131072", drop=drop)
    data, got, sent = bytes(i * 31 + (i >> 8) & 255 for i in range(1 << 20)), bytearray(), 0
    while len(got) < len(data):
        assert wire.now_us < 600_000_000, f"{len(got)} of {len(data)} bytes after 600 s"
        if (count := a.send(client, data[sent:sent + 65536])) > 0:
            sent += count
        wire.run(1000)
        while isinstance(part := b.receive(server), bytes):
            got += part
    assert bytes(got) == data and a.info(client).tcpi_total_retrans > 0
    assert a.info(client).tcpi_bytes_acked <= len(data) + 1 and b.info(server).tcpi_bytes_received == len(data)


def test_silent_peer_meets_rto_policy():
    a = Net("address=192.168.0.1 rto_initial_us=500000 syn_give_up_us=6000000")
    client = a.socket()
    a.dial(client, B, 80)
    times = []
    while True:
        times += [a.time_us() for _ in a.packets()]
        if a.next_timer_us() == NEVER or a.poll(client) & POLLERR:
            break
        a.at(a.next_timer_us())
        a.run_timers()
    assert times[:4] == [0, 500_000, 1_500_000, 3_500_000]
    assert a.option(client, SOL_SOCKET, SO_ERROR) == errno.ETIMEDOUT and a.time_us() == 6_000_000


def test_ack_policy_delays_a_lone_segment():
    a, b, wire, client, server, _ = connected("", "ack=delayed ack_delay_us=40000")
    b.set_option(server, IPPROTO_TCP, TCP_QUICKACK, 0)
    a.send(client, b"x")
    for packet in a.packets():
        b.give(packet)
    assert list(b.packets()) == [] and 0 < b.next_timer_us() - b.time_us() <= 40_000
    b.at(b.next_timer_us())
    b.run_timers()
    assert [tcp_fields(packet)["flags"] for packet in b.packets()] == [ACK]


def test_options_return_their_set_values():
    a, b, wire, client, server, listener = connected("mss=1000")
    assert a.option(client, IPPROTO_TCP, TCP_MAXSEG) == 1000 - 12
    for level, name, value in ((SOL_SOCKET, SO_REUSEADDR, 1), (SOL_SOCKET, SO_RCVBUF, 32768),
                               (SOL_SOCKET, SO_KEEPALIVE, 1), (IPPROTO_TCP, TCP_NODELAY, 1)):
        assert a.set_option(client, level, name, value) == 0 and a.option(client, level, name) == value
    assert a.set_option(client, 41, 1, 1) == -errno.ENOPROTOOPT
    assert b.bind(b.socket(), 0, 80) == -errno.EADDRINUSE
    assert b.bind(b.socket(), A, 99) == -errno.EADDRNOTAVAIL


def test_receive_buffer_set_before_opening_chooses_the_scale():
    """As Linux, which offers at most SO_RCVBUF once that is set; `wscale=` is for a buffer that may grow."""
    net = Net("address=192.168.0.1 wscale=8")
    for bytes_, scale in ((None, 8), (10000, 0), (200000, 2)):      # this stack's memory bounds the last one: 128 KiB
        client = net.socket()
        if bytes_ is not None:
            assert net.set_option(client, SOL_SOCKET, SO_RCVBUF, bytes_) == 0
        net.dial(client, B, 80)
        (syn,) = net.packets()
        assert tcp_fields(syn)["options"][-1] == scale


def test_syn_offers_the_whole_buffer_with_any_scale():
    net = Net("address=192.168.0.1 wscale=7")
    net.dial(net.socket(), B, 80)
    assert [tcp_fields(syn)["window"] for syn in net.packets()] == [65535]


@pytest.mark.parametrize("word, grown", [("", 14), ("slow_start_ack_segments=2", 12)])
def test_slow_start_grows_as_configured(word, grown):
    a, b, wire, client, server, _ = connected(f"mss=1000 timestamps=off {word}")
    assert a.send(client, bytes(10_000)) == 10_000
    for segment in list(a.packets())[:4]:
        b.give(segment)
    *_, last = b.packets()                      # one ACK for all four
    a.give(last)
    assert a.info(client).tcpi_snd_cwnd == grown


def test_congestion_state_has_the_numbers_of_linux():
    """Open 0, Disorder 1, Recovery 3, Loss 4."""
    lost = set()
    a, b, wire, client, server, _ = connected("mss=1000 timestamps=off", drop=lambda packet, index: index in lost)
    assert a.info(client).tcpi_ca_state == 0
    lost.update(range(wire.count, wire.count + 2))
    assert a.send(client, bytes(3000)) == 3000
    wire.run(2_100)
    assert a.info(client).tcpi_ca_state == 1                # one SACK
    wire.run(2_000, lambda: a.info(client).tcpi_ca_state == 3)
    assert a.info(client).tcpi_ca_state == 3                # the reordering window has passed
    lost.update(range(wire.count, wire.count + 100))
    wire.run(400_000)
    assert a.info(client).tcpi_ca_state == 4
    lost.clear()
    wire.run(2_000_000)
    assert a.info(client).tcpi_ca_state == 0 and len(b.receive(server)) == 3000


def tcp_packet(port, to, seq, flags):
    """Returns a segment from B to A, without options and without acknowledgement."""
    return tcp("192.168.0.2", "192.168.0.1", port, to, seq, 0, flags)


def test_a_reply_that_found_the_queue_full_leaves_when_there_is_room():
    """A simultaneous open while the queue is full of RSTs: the SYN,ACK does not wait for its timeout."""
    a = Net("address=192.168.0.1")
    client = a.socket()
    a.dial(client, B, 80)
    (syn,) = [tcp_fields(packet) for packet in a.packets()]
    for port in range(1024):
        a.give(tcp_packet(port + 1, 9, 0, SYN))
    a.give(tcp_packet(80, syn["port"], 5000, SYN))
    assert len(list(a.packets())) == 1024 and a.next_timer_us() <= a.time_us()
    a.run_timers()
    (reply,) = [tcp_fields(packet) for packet in a.packets()]
    assert reply["flags"] == SYN | ACK and reply["ack"] == 5001 and a.next_timer_us() > a.time_us()


def test_nothing_is_special_at_time_0():
    """Segments sent at time 0 count like others: three SACKed segments make the first lost, and no others."""
    a, b, wire = pair("timestamps=off mss=1000")
    b.serve(80)
    client = a.socket()
    a.dial(client, B, 80)
    for _ in range(2):
        for one, other in ((a, b), (b, a)):
            for packet in one.packets():
                other.give(packet)
    assert a.send(client, bytes(10_000)) == 10_000
    first, *rest = a.packets()
    a.at(10_000), b.at(10_000)
    for segment in rest[:3]:
        b.give(segment)
    for ack in b.packets():
        a.give(ack)
    assert a.info(client).tcpi_ca_state == 3 and a.info(client).tcpi_lost == 1
    wire.run(500_000)
    assert a.info(client).tcpi_unacked == 0
    a.at(20_000_000)
    assert a.send(client, bytes(20_000)) == 20_000 and len(list(a.packets())) <= 10     # idle: RFC 5681 §4.1


def test_stacks_are_independent_and_runs_repeat():
    def trace():
        a, b, wire, client, server, _ = connected("secret=one", "secret=two")
        a.send(client, b"same")
        seen = [packet for packet in a.packets()]
        a.close(), b.close()
        return seen
    assert trace() == trace()


def first_of(net, **bound):
    client = net.socket()
    if bound:
        net.bind(client, 0, ctypes.c_uint16(bound["port"]))
    net.dial(client, B, 80)
    (syn,) = net.packets()
    return tcp_fields(syn)


def test_two_starts_differ_in_all_secret_numbers():
    """RFC 6528, RFC 6056, RFC 7323 §7.1: no sequence number, port or timestamp reveals another connection's."""
    one, two = (Net("address=192.168.0.1") for _ in range(2))
    syns = [first_of(one, port=5000), first_of(one, port=5001), first_of(two, port=5000)]
    assert len({syn["seq"] for syn in syns}) == 3
    assert len({syn["options"][8:12] for syn in syns}) == 3
    bound = []
    for net in (one, two):
        sockets = [net.socket() for _ in range(4)]
        ports = [ctypes.c_uint16() for _ in sockets]
        for socket, port in zip(sockets, ports):
            assert net.bind(socket, 0, 0) == 0 and net.local(socket, None, ctypes.byref(port)) == 0
        bound += [port.value for port in ports]
    assert min(bound) >= 32768 and bound[:4] != bound[4:] and bound[1] - bound[0] != bound[3] - bound[2]


def test_misuse_is_reported_by_errno():
    nothing = ctypes.c_void_p(None)
    why = ctypes.c_char_p()
    assert LIBRARY.pnet_open(None, ctypes.byref(why)) is None and why.value
    assert LIBRARY.pnet_open(None, None) is None
    LIBRARY.pnet_close(nothing)
    assert LIBRARY.pnet_socket(nothing) == LIBRARY.pnet_packet_in(nothing, b"x", 1) == -errno.EINVAL
    assert LIBRARY.pnet_packet_out(nothing, None, 0) == LIBRARY.pnet_set_time_us(nothing, 0) == -errno.EINVAL
    assert LIBRARY.pnet_next_timer_us(nothing) == NEVER and LIBRARY.pnet_time_us(nothing) == 0
    LIBRARY.pnet_run_timers(nothing)
    assert LIBRARY.pnet_poll(nothing, 0) == LIBRARY.pnet_listen(nothing, 0, 1) == -errno.EBADF
    assert LIBRARY.pnet_write(nothing, 0, b"x", 1) == -errno.EBADF

    a, b, wire, client, server, listener = connected()
    a.close_socket(client)
    for bad in (client, -1, 256, 2**31 - 1):
        assert a.send(bad, b"x") == a.receive(bad) == a.shutdown(bad, 1) == a.poll(bad) == -errno.EBADF
        assert a.dial(bad, B, 80) == a.bind(bad, 0, 1) == a.listen(bad, 1) == a.accept(bad, None, None) == -errno.EBADF
        assert a.option(bad, SOL_SOCKET, SO_ERROR) == a.set_linger(bad, 1, 0) == a.abort(bad) == -errno.EBADF
        assert a.close_socket(bad) == a.local(bad, None, None) == a.peer(bad, None, None) == -errno.EBADF
    many = ctypes.c_size_t(10)
    assert b.write(server, None, many) == b.read(server, None, many, 0) == b.packet_in(None, many) == -errno.EFAULT
    assert b.packet_out(None, many) == b.tcp_info(server, None) == b.counter(0, None, None) == -errno.EFAULT
    assert b.get_option(server, SOL_SOCKET, SO_ERROR, None) == -errno.EFAULT
    assert b.send(server, b"") == 0 and b.receive(server, 0) == b""
    assert b.send(listener, b"x") == -errno.EPIPE and b.receive(listener) == -errno.ENOTCONN
    assert b.packet_out(ctypes.create_string_buffer(100), ctypes.c_size_t(100)) == -errno.EMSGSIZE
    assert b.give(bytes(65536)) == -errno.EMSGSIZE and b.give(b"") == 0

    before = b.time_us()
    assert b.at(before - 1) == b.at(2**64 - 1) == -errno.EINVAL and b.time_us() == before and b.at(before) == 0


def test_shutdown_of_an_unconnected_socket():
    """Linux: inet_shutdown."""
    a, b, wire = pair()
    listener, client = b.serve(80), a.socket()
    assert a.shutdown(client, 1) == -errno.ENOTCONN
    assert b.shutdown(listener, 1) == 0 and b.info(listener).tcpi_state == 10
    assert a.dial(client, B, 80) == -errno.EINPROGRESS and a.shutdown(client, 1) == 0
    wire.run(20_000)
    assert a.info(client).tcpi_state == 7 and b.accept(listener, None, None) == -errno.EAGAIN
    assert b.shutdown(listener, 0) == 0 and b.accept(listener, None, None) == -errno.EINVAL
    assert b.listen(listener, 1) == 0


def test_a_broadcast_source_is_known_by_the_prefix():
    """MUST-57: no SYN from one. Without a prefix= the library knows the limited broadcast alone."""
    for words, answers in (("", 1), ("prefix=24", 0)):
        net = Net(f"address=192.168.0.1 {words}")
        net.serve(80)
        peer = Net("address=192.168.0.255")
        peer.dial(peer.socket(), A, 80)
        for packet in peer.packets():
            net.give(packet)
        assert len(list(net.packets())) == answers
