"""The cases, one a function: a stack with net/transport.h against a Linux peer, or against a peer of raw frames.

test_transport.py runs each case in a namespace of its own. By hand:

    STDIN_DRIVER=build/test/transport/stdin_driver-lwip cases.py NAME"""
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

from tests.lib.packets import ACK, PSH, RST, SYN, checksum, ip_header, tcp, udp, with_checksum
from tests.lib.waiting import PATIENCE_S, wait_for
from tests.transport.inside import (
    LINUX, RAW, STACK, Driver, RawConnection, Wire, accept, captured_dhcp, captured_segments, gaps, listener,
    receive, reset, set_up, sh, stream)

CASES = {}
STACK_NAME = os.environ.get("STACK", "lwip")
PROBES = 1 if STACK_NAME == "own" else 0        # our stack sends a tail probe (RFC 8985) before the first timeout


def case(function=None, set_up=set_up, **words):
    """Marks a case, before which `set_up` is called with these words."""
    def add(function):
        CASES[function.__name__] = lambda: (set_up(**words), function())
        return function
    return add(function) if function else add


@contextlib.contextmanager
def connected():
    """Yields a driver, its connection to Linux, and the accepted socket at the other end."""
    with listener() as server, Driver() as driver:
        connection = driver.connect(LINUX, 8000)
        yield driver, connection, accept(server)


# --- Opening and closing ---------------------------------------------------------------------------------------------

@case
def connection_to_closed_port_is_refused():
    with Driver() as driver:
        connection = driver.connect(LINUX, 8001)
        driver.expect("closed", connection, "refused")


@case
def data_arrives_in_order_both_ways():
    with connected() as (driver, connection, peer):
        driver.expect("connected", connection)
        for i in range(50):
            peer.sendall(b"question %d;" % i)
            text = b"question %d;" % i
            assert driver.data(connection, len(text)) == text
            driver.command(f"send {connection} {(b'answer %d;' % i).hex()}")
            assert receive(peer, len(b"answer %d;" % i)) == b"answer %d;" % i
        wait_for(lambda: driver.unacked(connection) == 0)     # Linux delays its last acknowledgement


@case
def peer_half_closes_and_we_go_on_sending():
    with connected() as (driver, connection, peer):
        peer.sendall(b"last words")
        peer.shutdown(socket.SHUT_WR)
        assert driver.data(connection, 10) == b"last words"
        driver.expect("ended", connection)
        driver.command(f"send {connection} {b'still here'.hex()}")
        assert receive(peer, 10) == b"still here"
        driver.silent("closed")
        driver.command(f"close {connection}")
        assert peer.recv(10) == b""
        driver.expect("closed", connection, "done")


@case
def we_half_close_and_peer_goes_on_sending():
    with connected() as (driver, connection, peer):
        driver.command(f"send {connection} {b'that is all'.hex()}")
        driver.command(f"close {connection}")
        assert receive(peer, 100) == b"that is all"
        peer.sendall(b"but not for me")
        assert driver.data(connection, 14) == b"but not for me"
        driver.silent("closed")
        peer.close()
        driver.expect("ended", connection)
        driver.expect("closed", connection, "done")


@case
def reset_by_the_peer_is_reported():
    with connected() as (driver, connection, peer):
        driver.expect("connected", connection)
        reset(peer)
        driver.expect("closed", connection, "reset")


@case
def peer_half_closes_and_then_resets():
    """Expects "reset", on which a program sends its unacknowledged requests again."""
    with connected() as (driver, connection, peer):
        driver.expect("connected", connection)
        peer.shutdown(socket.SHUT_WR)
        driver.expect("ended", connection)
        reset(peer)
        driver.expect("closed", connection, "reset")


@case
def we_abort_and_peer_is_reset():
    with connected() as (driver, connection, peer):
        driver.command(f"abort {connection}")
        driver.expect("closed", connection, "aborted")
        try:
            peer.recv(10)
            raise AssertionError("the peer saw an end instead of a reset")
        except ConnectionResetError:
            pass
        driver.silent("closed")     # reported once


@case
def closed_connections_are_reported_once_and_ids_come_again():
    """Opens more connections, one after the other, than there are ids and pcbs."""
    with listener() as server, Driver() as driver:
        ports = set()
        for i in range(100):
            connection = driver.connect(LINUX, 8000)
            peer = accept(server)
            ports.add(driver.expect("connected", connection)[2])
            if i % 2:
                driver.command(f"close {connection}")
                assert peer.recv(1) == b""
                peer.close()
            else:
                peer.close()
                driver.expect("ended", connection)
                driver.command(f"close {connection}")
            driver.expect("closed", connection, "done")
        driver.silent("closed")
        assert len(ports) > 95, "local ports are not random"


@case
def connect_beyond_the_last_connection_is_refused_at_once():
    with listener(backlog=64) as server, Driver() as driver:
        connections = [driver.connect(LINUX, 8000) for _ in range(16)]
        assert sorted(connections) == list(range(16))
        driver.command(f"connect {LINUX} 8000")
        assert driver.expect("connect")[1] == "-1"
        driver.expect("connected", 7)           # the server has the connection now
        driver.command("abort 7")
        driver.expect("closed", 7, "aborted")
        assert driver.connect(LINUX, 8000) == 7
        peers = [accept(server) for _ in range(17)]
        assert len(peers) == 17


# --- Streams ---------------------------------------------------------------------------------------------------------

def bulk(driver, server, count, message_bytes_max, timeout=PATIENCE_S):
    """Sends `count` bytes each way at once, and compares them on both sides."""
    connection = driver.connect(LINUX, 8000)
    peer = accept(server)
    peer.settimeout(timeout)
    driver.command(f"sink {connection}")
    driver.command(f"source {connection} {count} 99 {message_bytes_max}")
    driver.command(f"close {connection}")
    ours = stream(7, count)
    received = []
    reader = threading.Thread(target=lambda: received.append(receive(peer, count + 1)))
    reader.start()
    peer.sendall(ours)
    peer.shutdown(socket.SHUT_WR)
    sunk = driver.expect("sunk", connection, timeout=timeout)
    assert (int(sunk[2]), int(sunk[3])) == (count, zlib.crc32(ours))
    reader.join(timeout)
    assert received and received[0] == stream(99, count), f"{len(received[0])} of {count} bytes came, or other ones"
    driver.expect("closed", connection, "done", timeout=timeout)


@case
def megabytes_both_ways_are_exact():
    with listener() as server, Driver() as driver:
        bulk(driver, server, 2_000_000, 1400)
        assert driver.counters().get("lwip.rx_drop_no_pbuf", 0) == 0


@case(offload=True)
def megabytes_with_checksum_offload_are_exact():
    """Offloads checksums: Linux leaves the checksums of its packets partial, and completes the stack's."""
    with listener() as server, Driver("--offload") as driver:
        bulk(driver, server, 2_000_000, 1400)
        assert driver.counters().get("lwip.tcp.chkerr", 0) == 0


@case
def small_messages_are_exact():
    with listener() as server, Driver() as driver:
        bulk(driver, server, 20_000, 3)


@case
def small_mtu_lowers_the_segments():
    sh("ip link set tap0 mtu 600")
    with listener() as server, Driver("--mtu", "600") as driver:
        bulk(driver, server, 100_000, 1400)


@case
def many_small_segments_are_delivered_as_they_come():
    with connected() as (driver, connection, peer):
        text = stream(3, 2000)
        for byte in text:
            peer.send(bytes([byte]))
        assert driver.data(connection, 2000) == text


@case
def lossy_wire_is_survived():
    """Loses 5 %, doubles 2 %, swaps 5 % and corrupts 1 % of the frames in each direction."""
    seed = os.environ.get("SEED", "20220217")
    print("SEED", seed)
    # Linux drops a corrupted frame silently. The minimal RTO of 20 ms keeps the case short.
    with listener() as server, Driver("--faults", "500,200,500,100", "--seed", seed, "--rto-min-us", "20000") as driver:
        bulk(driver, server, 60_000, 1400)


@case
def closed_window_is_probed_until_the_receiver_reads():
    """Lets the receiver stop reading. Probes keep the connection, and all bytes arrive later."""
    with listener() as server, Driver() as driver:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection = driver.connect(LINUX, 8000)
        peer = accept(server)
        driver.command(f"source {connection} 300000 5 1400")
        driver.command(f"close {connection}")
        time.sleep(1.5)
        assert receive(peer, 400_000) == stream(5, 300_000)
        peer.close()
        driver.expect("closed", connection, "done")


# --- Listening -------------------------------------------------------------------------------------------------------

@case
def three_peers_are_accepted_and_served():
    with Driver() as driver:
        driver.listen(80)
        peers = [socket.create_connection((STACK, 80), PATIENCE_S) for _ in range(3)]
        ids = []
        for peer in peers:
            name = peer.getsockname()
            accepted = driver.expect("accepted")
            ids.append(int(accepted[1]))
            assert accepted[2:] == ["80", name[0], str(name[1])]
        for peer, connection in zip(peers, ids):
            peer.sendall(b"GET %d" % connection)
            assert driver.data(connection, 5) == b"GET %d" % connection
            driver.command(f"send {connection} {b'page'.hex()}")
            driver.command(f"close {connection}")
        for peer, connection in zip(peers, ids):
            assert receive(peer, 100) == b"page"
            peer.close()
            driver.expect("closed", connection, "done")


@case
def peers_beyond_the_connections_are_reset():
    with Driver() as driver:
        driver.listen(80)
        peers = [socket.create_connection((STACK, 80), PATIENCE_S) for _ in range(16)]
        for _ in range(16):
            driver.expect("accepted")
        try:
            with socket.create_connection((STACK, 80), PATIENCE_S) as peer:
                assert peer.recv(1) != b"", "an end instead of a reset"
            raise AssertionError("the 17th connection lives")
        except ConnectionResetError:
            pass
        peers[0].close()
        driver.expect("ended")


@case
def half_open_connections_are_bounded():
    """Sends 1000 SYNs from addresses without a host, and checks that a real peer is served afterwards."""
    wire = Wire()
    with Driver() as driver:
        driver.listen(80)
        for i in range(1000):
            wire.send(tcp(RAW, STACK, 1024 + i, 80, i * 7919, 0, SYN))
            if i % 50 == 0:
                time.sleep(0.005)
        driver.silent("accepted", seconds=0.3)
        for i in range(1000):       # the half-open connections give up
            wire.send(tcp(RAW, STACK, 1024 + i, 80, i * 7919 + 1, 0, RST))
            if i % 50 == 0:
                time.sleep(0.005)
        with socket.create_connection((STACK, 80), PATIENCE_S) as peer:
            peer.sendall(b"hello")
            assert driver.data(int(driver.expect("accepted")[1]), 5) == b"hello"


# --- Silence ---------------------------------------------------------------------------------------------------------

@case
def host_that_is_not_there_is_unreachable():
    with Driver("--speed", "20") as driver:
        connection = driver.connect("10.9.0.99", 80)
        driver.expect("closed", connection, "unreachable")


@case
def unanswered_syns_back_off_and_time_out():
    """Expects SYNs at 0, 1, 3, 7 s (RFC 6298: 1 s, doubling)."""
    wire = Wire()
    with tempfile.NamedTemporaryFile() as pcap, Driver("--speed", "10", "--pcap", pcap.name) as driver:
        connection = driver.connect(RAW, 80)
        syns = [wire.tcp(), wire.tcp(), wire.tcp(), wire.tcp()]
        assert all(s.flags == SYN for s in syns) and len({s.seq for s in syns}) == 1
        driver.expect("closed", connection, "timed_out")
        times = captured_segments(pcap.name, lambda s: s.flags == SYN)
        for got, wanted in zip(gaps(times)[:3], [1, 2, 4], strict=True):
            assert abs(got - wanted) < 0.03, times      # within lwIP's ticks of 10 ms


@case
def unanswered_data_backs_off_and_times_out():
    """Expects data again after 0.2, 0.4, 0.8, ... s, the last 51 s after the first. Then the stack gives up, after at
    least RFC 9293's 100 s. Our own stack sends a tail probe before."""
    wire = Wire()
    with tempfile.NamedTemporaryFile() as pcap, Driver("--speed", "25", "--pcap", pcap.name) as driver:
        connection = driver.connect(RAW, 9000)
        RawConnection(wire)
        driver.expect("connected", connection)
        driver.command(f"send {connection} {b'anybody'.hex()}")
        driver.expect("closed", connection, "timed_out", timeout=100)
        closed = driver.stamp_us / 1e6
        times = captured_segments(pcap.name, lambda s: s.data == b"anybody")
        waits = gaps(times[PROBES:])[:6]
        assert 0.19 <= waits[0] <= 0.4, waits       # the minimum and a round trip: 10 ms are 250 ms here
        for shorter, longer in zip(waits, waits[1:]):
            assert 1.9 <= longer / shorter <= 2.1, waits
        assert len(times) >= 9 and 100 <= closed - times[0], (closed, times)


def times_of_lost_text(*options):
    """Returns the times from a lost segment to its tail probes, and from these to the first retransmission. The times
    are of the stack's clock, which a stalled machine slows down (--speed)."""
    wire = Wire()
    with tempfile.NamedTemporaryFile() as pcap, Driver("--speed", "2", "--pcap", pcap.name, *options) as driver:
        connection = driver.connect(RAW, 9000)
        peer = RawConnection(wire)
        driver.command(f"send {connection} {b'lost'.hex()}")
        for _ in range(2 + PROBES):
            assert peer.next().data == b"lost"

        def sent():
            return captured_segments(pcap.name, lambda s: s.data == b"lost")

        wait_for(lambda: len(sent()) >= 2 + PROBES)       # the capture has a frame after the frame has left
        waits = gaps(sent())
    return waits[:PROBES], waits[PROBES]


@case
def lost_segment_is_sent_again_after_200_ms():
    """Expects a retransmission after 200 ms on a new connection: not after lwIP's first estimate of 3 s, nor by ticks
    of half a second. Our own stack has sent a tail probe before, within two round trips."""
    probes, resent_s = times_of_lost_text()
    assert all(wait_s < 0.1 for wait_s in probes), probes
    assert 0.18 < resent_s < 0.5, resent_s


@case
def retransmission_floor_follows_the_configuration():
    _, resent_s = times_of_lost_text("--rto-min-us", "50000")
    assert 0.04 < resent_s < 0.16, resent_s


# --- Segments --------------------------------------------------------------------------------------------------------

@case
def data_is_acknowledged_at_once():
    wire = Wire()
    with Driver() as driver:
        driver.connect(RAW, 9000)
        peer = RawConnection(wire)
        waits = []
        for i in range(21):
            sent = time.monotonic()
            peer.send(PSH | ACK, b"digits")
            peer.seq += 6
            reply = peer.next()
            assert reply.ack == peer.seq and not reply.data, reply
            waits.append(reply.at - sent)
        assert sorted(waits)[5] < 0.01, f"delayed acknowledgements: {waits}"       # a busy machine may delay the rest


@case
def out_of_order_segments_are_put_in_order():
    wire = Wire()
    with Driver() as driver:
        connection = driver.connect(RAW, 9000)
        peer = RawConnection(wire)
        driver.expect("connected", connection)
        text = stream(11, 30 * 100)
        for i in [*range(1, 30, 2), *range(2, 30, 2)]:
            peer.send(PSH | ACK, text[100 * i:100 * i + 100], seq=peer.seq + 100 * i)
        driver.silent("data")
        peer.send(PSH | ACK, text[:100])
        assert driver.data(connection, 3000) == text
        counters = driver.counters()
        assert counters.get("lwip.pool.frame_copies.used", 0) == 0


@case
def frames_held_are_bounded_and_come_back():
    """Sends more out-of-order segments, on several connections, than frames may be borrowed. The stack copies some,
    loses none, and releases all frames."""
    wire = Wire()
    with Driver() as driver:
        peers = []
        for port in (9000, 9001, 9002, 9003, 9004):
            connection = driver.connect(RAW, port)
            peers.append((connection, RawConnection(wire, port=port)))
            driver.expect("connected", connection)
        text = stream(12, 33 * 40)
        for _, peer in peers:
            for i in range(1, 33):
                peer.send(PSH | ACK, text[40 * i:40 * i + 40], seq=peer.seq + 40 * i)
            time.sleep(0.02)
        for connection, peer in peers:
            peer.send(PSH | ACK, text[:40])
            time.sleep(0.05)
            peer.send(PSH | ACK, text, seq=peer.seq)    # the segment that was not kept
            assert driver.data(connection, len(text)) == text
            driver.command(f"abort {connection}")
            driver.expect("closed", connection, "aborted")
        counters = driver.counters()
        if STACK_NAME == "lwip":
            assert counters["lwip.rx_copied"] > 0, counters
        for pool in ("frame_copies", "tcp_segs", "pbufs", "tcp_pcbs"):
            assert counters.get(f"lwip.pool.{pool}.used", 0) == 0, counters


@case
def reset_out_of_sequence_is_challenged():
    """RFC 5961 §3.2: Expects that only a RST at RCV.NXT resets. Elsewhere in the window an ACK answers a RST."""
    wire = Wire()
    with Driver() as driver:
        connection = driver.connect(RAW, 9000)
        peer = RawConnection(wire)
        driver.expect("connected", connection)
        peer.send(RST, seq=peer.seq + 1000)
        challenge = peer.next()
        assert challenge.flags == ACK and challenge.ack == peer.seq, challenge
        peer.send(RST, seq=peer.seq - 70000)
        driver.silent("closed")
        peer.send(RST)
        driver.expect("closed", connection, "reset")


@case
def window_update_lost_is_recovered_by_probes():
    wire = Wire()
    with Driver("--speed", "10" if STACK_NAME == "lwip" else "25") as driver:
        connection = driver.connect(RAW, 9000)
        peer = RawConnection(wire, window=10)
        driver.expect("connected", connection)
        peer.send(ACK, window=0)
        time.sleep(0.05)
        driver.command(f"send {connection} {b'when you can'.hex()}")
        probe = peer.next()
        assert probe and len(probe.data) <= 1, probe
        # The connection stays as long as probes are answered: more probes than lwIP has retransmissions. Our probes are
        # 0.2, 0.4, ... s apart in any case (RFC 9293 §3.8.6.1): eight take 51 s.
        for _ in range(14 if STACK_NAME == "lwip" else 8):
            peer.send(ACK, window=0, seq=peer.seq)
            probe = peer.next()
            assert probe and len(probe.data) <= 1, probe
        peer.send(ACK, window=1000)
        got, ack = b"", peer.ack
        while got != b"when you can":
            segment = peer.next()
            assert segment, got
            if segment.seq == ack:
                got += segment.data
                ack += len(segment.data)
            peer.send(ACK, window=1000, ack=ack)
        driver.silent("closed")


@case
def initial_sequence_numbers_are_a_clock_and_a_keyed_hash():
    """RFC 6528: Expects other ISNs from machines with other secrets. One machine's ISNs of a four-tuple grow with its
    clock."""
    wire = Wire()
    seen = []
    for secret in ("11", "22"):
        with Driver("--secret", secret) as driver:
            for _ in range(8):
                connection = driver.connect(RAW, 9000)
                syn = wire.tcp()
                while syn.flags != SYN:
                    syn = wire.tcp()
                seen.append(syn.seq)
                driver.command(f"abort {connection}")
                driver.expect("closed", connection)
    assert len(set(seen)) == 16
    deltas = {(b - a) & 0xFFFFFFFF for a, b in zip(seen, seen[1:])}
    assert len(deltas) == 15 and sum(d < 1 << 28 for d in deltas) < 6, seen


# --- UDP, ICMP, ARP --------------------------------------------------------------------------------------------------

@case
def datagrams_go_both_ways():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer, Driver() as driver:
        peer.bind((LINUX, 5000))
        peer.settimeout(PATIENCE_S)
        driver.command("udp_bind 4000")
        assert driver.expect("udp_bind")[1] == "1"
        for count in (0, 1, 7, 1471, 1472):
            peer.sendto(stream(count, count), (STACK, 4000))
            got = driver.expect("datagram", 4000, LINUX, 5000)
            assert bytes.fromhex(got[4]) == stream(count, count) and got[5] == STACK
            driver.command(f"udp 4000 {LINUX} 5000 {stream(count + 1, count).hex()}")
            assert driver.expect("udp")[1] == "1"
            assert peer.recvfrom(2000) == (stream(count + 1, count), (STACK, 4000))
        driver.command(f"udp 4001 {LINUX} 5000 {b'unbound'.hex()}")
        assert peer.recvfrom(2000) == (b"unbound", (STACK, 4001))
        peer.sendto(bytes(1473), (STACK, 4000))     # more than TRANSPORT_DATAGRAM_BYTES_MAX, in fragments
        driver.silent("datagram")
        driver.command("udp_bind 4000")             # taken
        assert driver.expect("udp_bind")[1] == "0"
        for port in (4002, 4003, 4004):
            driver.command(f"udp_bind {port}")
            assert driver.expect("udp_bind")[1] == "1"
        driver.command("udp_bind 4005")
        assert driver.expect("udp_bind")[1] == "0"


@case
def datagram_in_fragments_is_put_together():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer, Driver() as driver:
        peer.bind((LINUX, 5000))
        driver.command("udp_bind 4000")
        driver.expect("udp_bind")
        sh(f"ip route add {STACK}/32 dev tap0 mtu 576")
        peer.sendto(stream(1, 1472), (STACK, 4000))
        assert bytes.fromhex(driver.expect("datagram", 4000)[4]) == stream(1, 1472)


@case
def closed_udp_port_is_reported_by_icmp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer, Driver():
        peer.connect((STACK, 4000))
        peer.settimeout(PATIENCE_S)
        peer.send(b"anybody")
        try:
            peer.recv(10)
        except ConnectionRefusedError:
            return
        raise AssertionError("no ICMP port unreachable")


@case
def echo_is_answered():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as ping, Driver():
        ping.settimeout(PATIENCE_S)
        for count in (0, 1, 56, 1472, 4000):
            data = stream(count, count)
            request = struct.pack("!BBHHH", 8, 0, 0, 0x1234, count) + data
            request = with_checksum(request, 2)
            ping.sendto(request, (STACK, 0))
            while True:
                packet = ping.recv(8000)
                icmp = packet[(packet[0] & 15) * 4:]
                if icmp[:2] == b"\0\0":
                    break
            assert checksum(icmp) == 0 and icmp[4:8] == request[4:8] and icmp[8:] == data


@case
def broadcast_and_broken_echo_are_not_answered():
    wire = Wire()
    with Driver():
        echo = struct.pack("!BBHHH", 8, 0, 0, 7, 7) + b"12345678"
        good = with_checksum(echo, 2)
        wire.send(ip_header(RAW, "10.9.0.255", 1, len(good)) + good, b"\xff" * 6)
        wire.send(ip_header(RAW, "255.255.255.255", 1, len(good)) + good, b"\xff" * 6)
        wire.send(ip_header(RAW, STACK, 1, len(echo)) + echo)               # checksum 0 is wrong here
        wire.send(ip_header(RAW, STACK, 1, 4) + good[:4])
        wire.send(ip_header(RAW, STACK, 1, len(good)) + good, b"\x02\0\0\0\0\x99")     # a stranger's MAC
        assert wire.ip(1, timeout=0.3) is None
        wire.send(ip_header(RAW, STACK, 1, len(good)) + good)
        assert wire.ip(1, timeout=PATIENCE_S) is not None


@case
def arp_request_is_answered_and_a_given_gateway_is_used_unasked():
    wire = Wire(address="10.9.0.200", arp=False)
    with Driver("--ip", STACK, "--gw", "10.9.0.200", "--gwmac", "02:00:00:00:00:aa") as driver:
        driver.connect("192.0.2.1", 80)
        frame = wire.frame(PATIENCE_S)
        while frame[12:14] != b"\x08\x00":
            frame = wire.frame(PATIENCE_S)
        assert frame[:6] == wire.mac and frame[30:34] == socket.inet_aton("192.0.2.1"), frame.hex()
        with socket.socket() as probe:
            probe.settimeout(PATIENCE_S)
            assert probe.connect_ex((STACK, 81)) == 111        # ECONNREFUSED: Linux has learnt our MAC by asking


@case
def given_gateway_that_is_a_broadcast_address_stops_nothing():
    """Starts in a network of two addresses, of which lwIP takes the odd one for everybody's."""
    with Driver("--ip", "10.9.0.4", "--mask", "255.255.255.254", "--gw", "10.9.0.5", "--gwmac", "02:00:00:00:00:aa",
                "--speed", "10") as driver:
        driver.expect("network", "up")
        time.sleep(0.5)                                                     # five seconds of lwIP's ageing
        driver.connect("192.0.2.1", 80)


@case
def gateway_that_fails_over_is_found():
    """Pings through a gateway whose MAC is handed over, and which moves twice. The first move is announced. After the
    second one only lwIP's broadcast, 45 s later, and our stack's doubt show where the gateway is."""
    wire = Wire(address="10.9.0.200")
    with Driver("--ip", STACK, "--gw", wire.address, "--gwmac", wire.mac.hex(":"), "--speed", "10") as driver:
        driver.expect("network", "up")

        def answered(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                echo = with_checksum(struct.pack("!BBHHH", 8, 0, 0, 7, 7), 2)
                wire.send(ip_header("192.0.2.1", STACK, 1, len(echo)) + echo)
                while frame := wire.frame(0.1):
                    if frame[12:14] == b"\x08\x00" and frame[:6] == wire.mac:
                        return True
            return False

        assert answered(PATIENCE_S)
        wire.mac = bytes.fromhex("0200000000ab")
        wire.send(struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + wire.mac + socket.inet_aton(wire.address) + bytes(6)
                  + socket.inet_aton(wire.address), b"\xff" * 6, 0x0806)
        assert answered(PATIENCE_S)
        wire.mac = bytes.fromhex("0200000000ac")
        assert answered(PATIENCE_S)


@case
def arp_reply_that_claims_the_own_address_is_not_stored():
    """Sends an ARP reply for the stack's own address from another MAC. The reply is counted, and not stored."""
    wire = Wire()
    with Driver() as driver:
        driver.expect("network", "up")
        wire.send(struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + wire.mac + socket.inet_aton(STACK) +
                  b"\xff" * 6 + socket.inet_aton(STACK), b"\xff" * 6, 0x0806)
        counter = "arp.rx_drop_own_address" if STACK_NAME == "own" else "lwip.rx_drop_bad_arp_sender"
        wait_for(lambda: driver.counters().get(counter, 0) == 1)


GROUP, OTHER_GROUP = "239.1.1.1", "239.1.1.2"
IP_RECVERR = 11         # <linux/in.h>


def set_up_bridge(version):
    """Sets up a Linux bridge before the stack: a querier once a second, and a switch that passes a group on only where
    it is reported. A report holds for 3 s, so that a group stays known only if its queries are answered."""
    sh("ip link set lo up")
    sh(f"ip link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_igmp_version {version} "
       "mcast_query_use_ifaddr 1 mcast_startup_query_interval 50 mcast_query_interval 100 "
       "mcast_query_response_interval 50 mcast_membership_interval 300 mcast_last_member_interval 20")
    sh("ip tuntap add tap0 mode tap")
    sh("ip link set tap0 master br0")
    sh(f"ip addr add {LINUX}/24 dev br0")
    sh("ip link set tap0 up && ip link set br0 up")


def groups_of_the_bridge():
    """Returns the groups that the bridge passes on to the stack."""
    # An ordinary user's PATH has no /sbin.
    command = ["/sbin/bridge", "-json", "mdb", "show", "dev", "br0"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {entry["grp"] for part in json.loads(done.stdout) for entry in part["mdb"] if entry["port"] == "tap0"}


def groups_behind_a_bridge():
    """Joins, answers queries for longer than a report holds, receives, leaves: the bridge's table follows."""
    queries = "igmp.rx_queries" if STACK_NAME == "own" else "lwip.igmp.recv"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer, Driver() as driver:
        peer.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LINUX))
        peer.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)       # an ICMP error would raise
        peer.bind((LINUX, 5000))
        for command, result in (("udp_bind 4000", "1"), (f"join {GROUP}", "1"), (f"join {GROUP}", "1"),
                                ("join 10.9.0.1", "0"), ("join 224.0.0.1", "0")):
            driver.command(command)
            assert driver.expect(command.split()[0])[1] == result, command
        wait_for(lambda: GROUP in groups_of_the_bridge())
        wait_for(lambda: driver.counters().get(queries, 0) >= 6)
        assert groups_of_the_bridge() >= {GROUP} and OTHER_GROUP not in groups_of_the_bridge()
        for group in (OTHER_GROUP, GROUP):
            peer.sendto(group.encode(), (group, 4000))
        got = driver.expect("datagram", 4000, LINUX, 5000)
        assert bytes.fromhex(got[4]) == GROUP.encode() and got[5] == GROUP
        peer.sendto(b"nobody", (GROUP, 4001))       # RFC 1122 §3.2.2: no ICMP error answers this
        driver.command(f"leave {GROUP}")
        driver.expect("leave")
        wait_for(lambda: GROUP not in groups_of_the_bridge())
        peer.sendto(GROUP.encode(), (GROUP, 4000))
        driver.silent("datagram")
        peer.setblocking(False)
        try:
            peer.recv(1)
            raise AssertionError("the datagram to a group was answered")
        except BlockingIOError:
            pass


@case(set_up=set_up_bridge, version=2)
def groups_behind_a_bridge_of_version_2():
    groups_behind_a_bridge()


@case(set_up=set_up_bridge, version=3)
def groups_behind_a_bridge_of_version_3():
    groups_behind_a_bridge()


@case
def all_places_for_groups_are_taken():
    with Driver() as driver:
        for n in range(9):
            driver.command(f"join 239.1.1.{n}")
            assert driver.expect("join")[1] == ("1" if n < 8 else "0")
        driver.command("leave 239.1.1.3")
        driver.command("join 239.1.1.9")
        assert driver.expect("join")[1] == "1"


@case
def addresses_that_no_host_has_are_refused():
    with Driver() as driver:
        driver.expect("network", "up")
        for address in ("0.0.0.0", "255.255.255.255", "224.0.0.1", "10.9.0.255"):
            driver.command(f"connect {address} 80")
            assert driver.expect("connect")[1] == "-1", address


@case
def destination_without_a_route_is_unreachable():
    with Driver("--ip", STACK) as driver:
        connection = driver.connect("192.0.2.1", 80)
        driver.expect("closed", connection, "unreachable")
        assert driver.unacked(connection) == 0
        driver.command(f"udp 4000 192.0.2.1 53 {b'x'.hex()}")
        assert driver.expect("udp")[1] == "0"


@case
def port_unreachable_refuses_a_connection():
    """RFC 1122 §4.2.3.9: Refuses a connection by an ICMP error of a router or firewall that quotes the SYN. An error
    with another sequence number is ignored (RFC 5927 §4.1). A prohibited network counts as unreachable."""
    wire = Wire()
    with Driver() as driver:
        connection = driver.connect(RAW, 80)
        syn = wire.ip(6)

        def unreachable(quoted, code=3):
            message = struct.pack("!BBHI", 3, code, 0, 0) + quoted
            message = with_checksum(message, 2)
            wire.send(ip_header(RAW, STACK, 1, len(message)) + message)

        seq, = struct.unpack("!I", syn[24:28])
        unreachable(syn[:24] + struct.pack("!I", seq + 12345 & 0xFFFFFFFF))
        unreachable(syn[:20])
        unreachable(syn[:10])
        unreachable(b"")
        driver.silent("closed")
        unreachable(syn[:28])
        driver.expect("closed", connection, "refused")
        connection = driver.connect(RAW, 80)
        unreachable(wire.ip(6)[:28], 9)
        driver.expect("closed", connection, "unreachable")


# --- DHCP ------------------------------------------------------------------------------------------------------------

class DhcpServer:
    """A server that answers by a function: `answer(kind, options)` returns (reply kind, address, options), a list of
    these, or None for silence."""

    def __init__(self, answer, address=LINUX, port=67, tag=b""):
        self.answer, self.address, self.port, self.requests, self.times = answer, address, port, [], []
        self.answered = 0       # requests that have an answer
        self.wire = Wire(address="0.0.0.0", mac=bytes.fromhex("0200000000bb"), arp=False, tag=tag)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            frame = self.wire.frame(60)
            if not frame or frame[12:14] != b"\x08\x00" or frame[23] != 17 or frame[36:38] != b"\0\x43":
                continue
            self.take(frame[42:], frame)

    def take(self, message, frame):
        options, at = {}, 240
        while message[at] != 255:
            if message[at]:
                options[message[at]] = message[at + 2:at + 2 + message[at + 1]]
                at += 1 + message[at + 1]
            at += 1
        kind = options[53][0]
        self.times.append(time.monotonic())
        self.requests.append((kind, options, message, frame))
        answer = self.answer(kind, options)
        for reply in answer if isinstance(answer, list) else [answer] if answer else []:
            self.reply(message, *reply)
        self.answered += 1

    def reply(self, message, reply_kind, address, more):
        body = struct.pack("!BBBB4sHH4s4s4s4s16s", 2, 1, 6, 0, message[4:8], 0, 0, bytes(4), socket.inet_aton(address),
                           bytes(4), bytes(4), message[28:44]) + bytes(192) + bytes.fromhex("63825363")
        for code, value in {53: bytes([reply_kind]), 54: socket.inet_aton(self.address), **more}.items():
            body += bytes([code, len(value)]) + value if value is not None else b""
        body += b"\xff"
        # Unicast to the leased address, because the client did not ask for a broadcast.
        destination = address if reply_kind != 6 else "255.255.255.255"
        mac = message[28:34] if reply_kind != 6 else b"\xff" * 6
        self.wire.send(udp(self.address, destination, self.port, 68, body), mac)


def lease(seconds=3600, mask="255.255.255.0", **more):
    options = {51: struct.pack("!I", seconds), 1: socket.inet_aton(mask)}
    options.update({int(k[1:]): v for k, v in more.items()})

    def answer(kind, _):
        return {1: (2, STACK, options), 3: (5, STACK, options)}[kind]
    return answer


@case
def lease_of_a_whole_network_is_taken():
    server = DhcpServer(lease(_3=socket.inet_aton(LINUX)))
    with listener() as tcp_server, Driver(static=False) as driver:
        assert driver.expect("network", "up")[2:] == [STACK, "255.255.255.0", LINUX, "1500", "dhcp"]
        discover = server.requests[0]
        request = next(r for r in server.requests if r[0] == 3)
        assert discover[0] == 1 and discover[3][:6] == b"\xff" * 6 and discover[3][26:34] == bytes(4) + b"\xff" * 4
        assert request[0] == 3
        assert request[1][50] == socket.inet_aton(STACK) and request[1][54] == socket.inet_aton(LINUX)
        assert discover[2][4:8] == request[2][4:8] and discover[2][28:34].hex() == "525400123456"
        connection = driver.connect(LINUX, 8000)
        accept(tcp_server)
        driver.expect("connected", connection)
        assert "lost" not in driver.logged(), "a lease is reported lost before there was one"


@case(address=None)
def lease_of_one_address_with_routes_and_mtu_is_taken():
    """Leases as GCP does: /32, option 121 with the gateway on the link and the default route through it, MTU 1460.
    Names no server (54), as Oracle's cloud does."""
    sh(f"ip addr add {LINUX}/32 dev tap0 && ip route add {STACK}/32 dev tap0 && ip addr add 198.51.100.1/32 dev lo")
    routes = bytes([32]) + socket.inet_aton(LINUX) + bytes(4) + bytes([0]) + socket.inet_aton(LINUX)
    DhcpServer(lease(mask="255.255.255.255", _121=routes, _3=socket.inet_aton("10.9.0.66"),
                     _26=struct.pack("!H", 1460), _54=None))
    with listener(address="198.51.100.1") as far, Driver(static=False) as driver:
        assert driver.expect("network", "up")[2:] == [STACK, "255.255.255.255", LINUX, "1460", "dhcp"]
        connection = driver.connect("198.51.100.1", 8000)
        peer = accept(far)
        driver.expect("connected", connection)
        mss = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        assert mss == 1420 - (12 if STACK_NAME == "own" else 0), mss      # our stack's timestamps take 12 bytes
        driver.command(f"source {connection} 50000 4 1400")
        assert receive(peer, 50000) == stream(4, 50000)


@case(address=None)
def lease_with_everything_on_the_link_reaches_all_addresses():
    """RFC 3442, "Local Subnet Routes": option 121 with 0/0 via 0.0.0.0 and no option 3. The server answers from port
    1067: RFC 2131 §4.1 fixes the destination port alone."""
    sh(f"ip addr add {LINUX}/32 dev tap0 && ip route add {STACK}/32 dev tap0")
    sh("ip addr add 198.51.100.1/32 dev tap0")
    DhcpServer(lease(mask="255.255.255.255", _121=bytes(5)), port=1067)
    with listener(address="198.51.100.1") as far, Driver(static=False) as driver:
        assert driver.expect("network", "up")[2:4] == [STACK, "255.255.255.255"]
        connection = driver.connect("198.51.100.1", 8000)
        accept(far)
        driver.expect("connected", connection)


@case
def priority_tags_of_vlan_0_are_no_vlan():
    """IEEE 802.1Q §9.6: DHCP, ARP and TCP from hosts that send a tag of VLAN 0 in each frame."""
    tag = bytes.fromhex("8100a000")
    DhcpServer(lease(), tag=tag)
    wire = Wire(tag=tag)
    with Driver(static=False) as driver:
        driver.expect("network", "up")
        connection = driver.connect(RAW, 9000)
        peer = RawConnection(wire)
        driver.expect("connected", connection)
        peer.send(ACK, b"tagged")
        assert driver.data(connection, 6) == b"tagged"


@case(address=None)
def second_gateway_of_option_121_is_used_for_its_network():
    sh(f"ip addr add {LINUX}/32 dev tap0 && ip route add {STACK}/32 dev tap0")
    routes = bytes([24, 198, 51, 100]) + socket.inet_aton(RAW) + bytes([0]) + socket.inet_aton(LINUX)
    DhcpServer(lease(mask="255.255.255.255", _121=routes))
    wire = Wire()
    with Driver(static=False) as driver:
        driver.expect("network", "up")
        driver.connect("198.51.100.7", 80)
        frame = wire.frame(PATIENCE_S)
        while frame[12:14] != b"\x08\x00" or frame[23] != 6:
            frame = wire.frame(PATIENCE_S)
        assert frame[:6] == wire.mac and frame[30:34] == socket.inet_aton("198.51.100.7")


@case
def silent_server_is_asked_again_with_back_off():
    """Expects DISCOVERs 1, 2, 4 s apart, each within 25 %."""
    with tempfile.NamedTemporaryFile() as pcap, Driver("--speed", "10", "--pcap", pcap.name, static=False) as driver:
        wait_for(lambda: len(captured_dhcp(pcap.name)) >= 4)
        sent = captured_dhcp(pcap.name)
        assert all((kind, destination) == (1, "255.255.255.255") for _, kind, destination in sent), sent
        for got, wanted in zip(gaps([at for at, *_ in sent]), [1, 2, 4]):
            assert 0.75 * wanted <= got <= 1.25 * wanted + 0.02, sent
        driver.command(f"connect {LINUX} 80")
        assert driver.expect("connect")[1] == "-1"


@case
def refused_request_starts_again():
    refusals = []

    def answer(kind, options):
        if kind == 3 and not refusals:
            refusals.append(1)
            return 6, "0.0.0.0", {}
        return lease()(kind, options)
    server = DhcpServer(answer)
    with Driver("--speed", "10", static=False) as driver:
        driver.expect("network", "up")
        kinds = [kind for kind, *_ in server.requests]
        assert [k for i, k in enumerate(kinds) if i == 0 or k != kinds[i - 1]] == [1, 3, 1, 3], kinds


@case
def lease_is_renewed_rebound_and_lost():
    """Leases for 200 s. The client asks at 100 s by unicast, from 175 s by broadcast, and gives up at 200 s.
    Connections end with the lease, and the search starts again."""
    alive = [True]
    server = DhcpServer(lambda kind, options: lease(seconds=200)(kind, options) if alive[0] else None)
    with tempfile.NamedTemporaryFile() as pcap, listener() as tcp_server, \
            Driver("--speed", "100", "--pcap", pcap.name, static=False) as driver:
        driver.expect("network", "up")
        connection = driver.connect(LINUX, 8000)
        peer = accept(tcp_server)
        driver.expect("connected", connection)
        driver.forget("network")

        def renewals():
            return [r for r in server.requests if r[3][30:34] == socket.inet_aton(LINUX)]

        wait_for(renewals)
        options, message = renewals()[0][1:3]
        assert 50 not in options and 54 not in options and message[12:16] == socket.inet_aton(STACK)
        wait_for(lambda: server.answered == len(server.requests))
        alive[0] = False
        driver.expect("network", "down")
        driver.expect("closed", connection, "unreachable")
        peer.close()
        sent = captured_dhcp(pcap.name)
        asked = [at for at, kind, destination in sent if kind == 3 and destination == "255.255.255.255"]
        renewed = [at for at, kind, destination in sent if destination == LINUX]
        assert abs(renewed[0] - asked[0] - 100) < 10, sent      # the client may have asked twice
        rebound = [at for at in asked if at > renewed[-1]]
        assert rebound and abs(rebound[0] - renewed[0] - 175) < 10, sent
        alive[0] = True
        driver.expect("network", "up")


@case
def handed_over_lease_is_renewed_and_lost():
    """Begins with 200 s of a lease that somebody else got. Nothing is asked before 100 s; then the server renews the
    lease by unicast for another 200 s, and falls silent. The address is given up at 300 s, and DHCP asked again. Every
    message carries the identifier of that somebody."""
    alive = [True]
    server = DhcpServer(lambda kind, options: lease(seconds=200, _3=socket.inet_aton(LINUX))(kind, options)
                        if alive[0] else None)
    with tempfile.NamedTemporaryFile() as pcap, listener() as tcp_server, \
            Driver("--ip", STACK, "--gw", LINUX, "--lease", f"200@{LINUX}", "--client-id", "machine 7",
                   "--speed", "100", "--pcap", pcap.name) as driver:
        assert driver.expect("network", "up")[2:] == [STACK, "255.255.255.0", LINUX, "1500", "dhcp"]
        connection = driver.connect(LINUX, 8000)
        peer = accept(tcp_server)
        driver.expect("connected", connection)
        wait_for(lambda: server.answered == len(server.requests) > 0)
        alive[0] = False
        driver.forget("network")
        options, message, frame = server.requests[0][1:]
        assert server.requests[0][0] == 3 and 50 not in options and 54 not in options
        assert message[12:16] == frame[26:30] == socket.inet_aton(STACK) and frame[30:34] == socket.inet_aton(LINUX)
        driver.expect("network", "down")
        driver.expect("closed", connection, "unreachable")
        peer.close()
        wait_for(lambda: captured_dhcp(pcap.name)[-1][1] == 1)
        alive[0] = True
        driver.expect("network", "up")
        assert {kind for kind, *_ in server.requests} == {1, 3}
        assert all(options.get(61) == b"machine 7" for _, options, *_ in server.requests)


@case
def handed_over_lease_that_is_refused_is_asked_for_anew():
    answers = {3: (6, "0.0.0.0", {})}

    def answer(kind, options):
        return answers.pop(kind, None) or lease()(kind, options)
    server = DhcpServer(answer)
    with Driver("--ip", STACK, "--gw", LINUX, "--lease", f"20@{LINUX}", "--speed", "10") as driver:
        driver.expect("network", "up")
        driver.expect("network", "down")
        driver.expect("network", "up")
        assert [kind for kind, *_ in server.requests][:3] == [3, 1, 3]


@case
def bad_offers_are_ignored():
    """Sends three bad offers before each good one: a loopback address, no lease time, no server."""
    def answer(kind, options):
        good = lease()(kind, options)
        senseless = [(2, "127.0.0.1", good[2]), (2, STACK, {1: good[2][1]}), (2, STACK, {**good[2], 54: bytes(4)})]
        return [*senseless, good] if kind == 1 else good
    DhcpServer(answer)
    with Driver("--speed", "20", static=False) as driver:
        assert driver.expect("network", "up")[2] == STACK
        counters = driver.counters()
        for reason in ("address", "no_lease", "no_server"):
            assert counters.get(f"dhcp.rx_drop_{reason}", 0) >= 1, counters


if __name__ == "__main__":
    CASES[sys.argv[1]]()
