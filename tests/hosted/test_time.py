"""The time program over Linux sockets: build/host/time-linux, chronyd as its client, hostile datagrams."""
import contextlib
import random
import socket
import subprocess

import pytest

from tests.lib import ntp
from tests.hosted.test_echo import page
from tests.lib.paths import BUILD, ROOT
from workshop.vm import ports

PROGRAM = BUILD / "host/time-linux"
KEY, PATIENCE_S = "a-key-for-tests", 30
REQUEST = bytes([0x23]) + bytes(47)


class Server:
    """A running time-linux on loopback, which GG ends."""

    def __init__(self, *words):
        self.port, self.status = ports.free_port(ports.UDP), ports.free_port()
        self.control = ports.free_port(ports.UDP)
        self.process = subprocess.Popen(
            [PROGRAM, f"port={self.port}", f"http.port={self.status}", f"control.port={self.control}", f"key={KEY}",
             "wait=sleep", "deadline=120", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "time: running" not in (line := self.process.stderr.readline()):
            assert line, "the program ended"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            done = subprocess.run([ROOT / "tools/gg", "127.0.0.1", "--port", str(self.control), "--key", KEY,
                                   "--timeout", "20", "--all"], capture_output=True, text=True, timeout=PATIENCE_S)
            assert done.returncode == 0 and "ntp.requests " in done.stdout, done.stderr
            assert "leaving: gg" in self.process.communicate(timeout=PATIENCE_S)[1]
        self.process.kill()
        self.process.wait()

    def probe(self):
        return ntp.Probe("127.0.0.1", self.port)


def test_chronyd_finds_the_clock_of_this_host(tmp_path):
    with Server("rate=0", "stratum=2") as server, server.probe() as probe:
        reply = probe.wait_for(lambda reply: reply.stratum == 2)
        assert (reply.leap, reply.version, len(reply.data)) == (0, 4, 48) and abs(reply.offset_s) < 0.05
        assert abs(ntp.chronyd_offset_s("127.0.0.1", tmp_path, server.port)) < 0.05
        assert int(page(server.status)["ntp.requests_v4"]) >= 3


def test_server_behind_a_peer_is_unsynchronised_and_then_one_stratum_below():
    with Server("rate=0", "stratum=4", "root.dispersion=20ms") as peer, \
            Server("rate=0", "peer=127.0.0.1", f"peer.port={peer.port}", "peer.poll=1") as server, \
            server.probe() as probe:
        first = probe.wait_for(lambda reply: True)
        assert (first.leap, first.stratum, first.reference_id) == (3, 0, b"INIT")
        reply = probe.wait_for(lambda reply: reply.stratum == 5)
        assert reply.leap == 0 and reply.reference_id == bytes([127, 0, 0, 1]) and reply.root_dispersion_s >= 0.02
        assert page(server.status)["ntp.peer.steps"] == "1"


def is_request(data):
    """Returns true if the server must answer a datagram. Version 1 has no modes: 0 is a client, too."""
    version, mode = (data[0] >> 3 & 7, data[0] & 7) if data else (0, 0)
    return len(data) >= 48 and (1 <= version <= 4 and mode == 3 or (version, mode) == (1, 0))


def test_no_reply_is_longer_than_its_request():
    chance = random.Random(5)
    with Server("rate=0") as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, \
            server.probe() as probe:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(PATIENCE_S)
        for _ in range(500):
            data = bytearray(chance.randbytes(chance.choice([0, 1, 47, 48, 49, 68, 100, 1400])))
            if data and chance.random() < 0.5:
                data[0] = chance.randrange(8) << 3 | 3
            client.send(data)
            if is_request(data):
                assert len(client.recv(2048)) == 48 <= len(data)
        assert probe.ask() is not None
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(2048)                               # all others got nothing
        found = page(server.status)
        assert int(found["ntp.drop_length"]) > 0 and int(found["ntp.drop_mode"]) > 0


def test_address_over_its_rate_gets_one_kiss():
    with Server("rate=1", "rate.burst=5") as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(0.3)
        replies = []
        with contextlib.suppress(TimeoutError):
            while True:
                client.send(REQUEST)
                replies.append(client.recv(2048))
        kiss, = (reply for reply in replies if reply[1] != 10)
        assert replies.index(kiss) >= 5 and kiss[1] == 0
        assert kiss[12:16] == b"RATE" and kiss[0] >> 6 == 3
        assert page(server.status)["ntp.kisses"] == "1"


def test_private_sources_are_refused_on_request():
    with Server("refuse.private=on") as server, server.probe() as probe:
        assert probe.ask(seconds=0.3) is None
        assert page(server.status)["ntp.drop_private"] == "1"


def test_settings_that_make_no_sense_are_refused():
    for words, message in (["stratum=16"], "stratum"), (["peer=300.1.1.1"], "peer"), (["rate.burst=0"], "rate.burst"), \
            (["peer.port=99"], "peer.port= goes with peer="):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and message in done.stderr, (words, done.stderr)
