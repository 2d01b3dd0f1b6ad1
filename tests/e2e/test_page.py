"""The status page during a game: requested all the time, read by Prometheus' own parser, compared with the board. The
requests must not disturb the game."""
import http.client
import pathlib
import shutil
import socket
import subprocess
import threading
import time

import pytest

from command_line import VERSION
from workshop.vm import machine
from workshop.vm import ports
from workshop.vm import qemu
from servers.contest import rounds
from workshop.vm.game import Game, outcome
from prometheus_client.parser import text_string_to_metric_families

HERE = pathlib.Path(__file__).resolve().parent

KEY, USER = "a-key-for-tests", "peregrine"
KERNEL_ALONE = {"peregrine_watchdog_age_seconds", "peregrine_watchdog_timeout_seconds",
                "peregrine_loop_turn_max_seconds"}      # series that a program on Linux lacks


def get(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=qemu.PATIENCE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def get_with_retries(*words):
    """Returns the page as `get` does. Tries again if the server is full, because old connections may be closing."""
    end = time.monotonic() + qemu.PATIENCE_S
    while True:
        try:
            return get(*words)
        except ConnectionError:
            assert time.monotonic() < end, "the page accepts no connection"
            time.sleep(0.05)


def wait_for_last_answers(game):
    """Waits until all offered answers have been found, or for 5 s: the record shows the missed ones."""
    for _ in range(50):
        board = game.board()
        if any(user["found"] == board["offered"] for user in board["users"]):
            return
        time.sleep(0.1)


def samples(text):
    """Returns {(name, labels): value}; the parser refuses all that Prometheus would."""
    return {(s.name, tuple(sorted(s.labels.items()))): s.value
            for family in text_string_to_metric_families(text) for s in family.samples}


def promtool(name="promtool"):
    """Returns Prometheus' linter, or Prometheus: the installed one, or the one that tools/setup.sh unpacked."""
    unpacked = HERE.parents[1] / f"build/third-party/{name}/usr/bin/{name}"
    return shutil.which(name) or (str(unpacked) if unpacked.exists() else None)


def check_by_promtool(text):
    assert (program := promtool()), "no promtool: tools/setup.sh check unpacks it"
    done = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


class Asker(threading.Thread):
    """Requests both pages again and again. A third of the connections close without a request. On a slow machine four
    connections may still be closing. The page then resets the fifth, and the next one succeeds."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping, self.answers, self.error = port, False, 0, None

    def run(self):
        while not self.stopping and self.error is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=qemu.PATIENCE_S).close()
                status, text = get(self.port, "/metrics")
                assert status == 200 and samples(text)
                assert get(self.port, "/")[0] == 200
                self.answers += 2
            except ConnectionError:     # http.client.RemoteDisconnected, too
                time.sleep(0.05)
            except Exception as error:  # the test reports the error
                self.error = error


@pytest.mark.parametrize("stack, cpus", [("lwip", 1), ("own", 2)])
def test_status_page_while_playing(stack, cpus):
    http_port, udp_port = ports.free_port(ports.TCP), ports.free_port(ports.UDP)
    server = ["--begin", "player", "--bursts", 60, "--burst", "20-150", "--interval", "0.05-0.1", "--rate", "6"]
    with Game("127.0.0.1", server) as game:
        setup = machine.Setup(stack=stack)
        words = machine.settings_text(setup, rounds.ROUNDS["online"], game.endpoints(setup.host), USER, KEY,
                                      ["http.port=8080", f"cpus={cpus}"])
        forward = f"hostfwd=tcp:127.0.0.1:{http_port}-:8080,hostfwd=udp:127.0.0.1:{udp_port}-:{machine.CONTROL_PORT}"
        options = qemu.kernel(words, image=machine.image_of(stack)) + [
            "-vga", "none", "-netdev", f"user,id=net0,{forward}", "-device", "virtio-net-pci,netdev=net0"]
        with qemu.Machine(options, cpus=cpus) as guest:
            guest.wait_for("network: up|input stream 1: HTTP 200")
            asker = Asker(http_port)
            asker.start()
            assert game.wait_over(qemu.PATIENCE_S), guest.log
            wait_for_last_answers(game)
            asker.stopping = True
            asker.join(qemu.PATIENCE_S)
            assert asker.error is None and asker.answers >= 4, (asker.error, asker.answers)
            metrics, plain = get_with_retries(http_port, "/metrics")[1], get_with_retries(http_port, "/")[1]
            check_by_promtool(metrics)
            values = samples(metrics)
            assert get_with_retries(http_port, "/metrics", "HEAD") == (200, "")
            assert get_with_retries(http_port, "/favicon.ico")[0] == 404
            _, error = machine.send_gg(("127.0.0.1", udp_port), KEY)
            assert error is None, error
            guest.wait_reset()
        result = outcome(game.stop(), USER)
    assert not result["missed"] and not result["wrong"] and not result["repeated"], result
    answers = sum(value for (name, _), value in values.items() if name == "peregrine_answers_total")
    assert answers == len(result["submitted"]) >= 5
    in_buckets = values["peregrine_latency_seconds_bucket", (("le", "+Inf"), ("stage", "answer.seen_to_kicked"))]
    assert 0 < in_buckets <= answers
    assert values["peregrine_kicks_per_answer", ()] > 0
    assert KERNEL_ALONE <= {name for name, _ in values}
    assert values["peregrine_program_uptime_seconds", ()] > 1
    assert any(name == "peregrine_drops_total" for name, _ in values)
    assert any(name == "peregrine_pool_rx_buffers_free" for name, _ in values)
    build = next(dict(labels) for name, labels in values if name == "peregrine_build_info")
    assert build["version"] == VERSION and f"peregrine {VERSION}, program player, build" in guest.log
    assert f"build {build['build']}\n" in plain and f"build {build['build']}" in guest.log
    assert f"\nsubmit.posts {len(result['submitted'])}\n" in plain
