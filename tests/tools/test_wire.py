"""tools/workshop/probe/wire.py: the stamps are those of the wire, the answers are checked."""
import socket
import subprocess
import threading
import time

import pytest

from workshop.vm import linux_guest
from servers.contest import rounds
from servers.contest.oracle import Oracle
from tests.contest.plain_player import post, read_reply
from workshop.probe import vhost
from workshop.probe.wire import ProbeError, Wire

ROUND = rounds.ONLINE


def start_player(wire, think_s=0.0, spoil=lambda digits: digits):
    """Starts a player that knows the answers by the oracle, and takes `think_s` for each burst."""
    def play():
        oracle = Oracle(ROUND.n, ROUND.constants)
        with socket.create_connection(("127.0.0.1", wire.ports["input"]), timeout=60) as feed, \
                socket.create_connection(("127.0.0.1", wire.ports["output"]), timeout=60) as output, \
                output.makefile("rb") as replies:
            feed.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            reader = feed.makefile("rb")
            while reader.readline() != b"\r\n":
                pass
            while data := reader.read1(4096):
                time.sleep(think_s)
                for answer in oracle.push(data.decode()):
                    output.sendall(post(spoil(answer.digits)))
                    read_reply(replies)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    return thread


def test_delay_is_the_players():
    with Wire("127.0.0.1", ROUND, seed=1) as wire:
        start_player(wire, think_s=0.02)
        wire.wait_player(60)
        delays_us = [wire.shoot(seconds=60).delay_us for _ in range(10)]
    assert min(delays_us) > 20_000 and sorted(delays_us)[4] < 2_000_000, delays_us


def test_a_wrong_answer_ends_the_probe():
    with Wire("127.0.0.1", ROUND, seed=1) as wire:
        start_player(wire, spoil=lambda digits: digits[:-1] + "x")
        wire.wait_player(60)
        with pytest.raises(ProbeError, match="not offered"):
            wire.shoot(seconds=60)


def test_a_silent_player_ends_the_probe():
    with Wire("127.0.0.1", ROUND, seed=1) as wire:
        with pytest.raises(ProbeError, match="no player"):
            wire.wait_player(0.1)
        start_player(wire, think_s=5)
        wire.wait_player(60)
        with pytest.raises(ProbeError, match="0 of"):
            wire.shoot(seconds=0.2)


def test_an_unknown_guest_kernel_package_is_named(monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 0, stdout=""))
    with pytest.raises(OSError, match="linux-image-cloud-amd64"):
        linux_guest.kernel_tree()


def test_session_is_ahead_of_others_only_while_the_probe_measures(tmp_path):
    autogroup = tmp_path / "autogroup"
    autogroup.write_text("/autogroup-15 nice 5\n")
    with pytest.raises(ProbeError), vhost.ahead_of_others(autogroup):
        assert autogroup.read_text() == "-20"
        raise ProbeError
    assert autogroup.read_text() == "5"


def test_a_session_outside_all_groups_stays_as_it_is(tmp_path):
    with vhost.ahead_of_others(tmp_path / "none"):      # a Linux without such groups
        pass
    assert not (tmp_path / "none").exists()
    autogroup = tmp_path / "autogroup"
    autogroup.write_text("")                            # a session without one: in a container, say
    with vhost.ahead_of_others(autogroup):
        assert autogroup.read_text() == ""
