"""`make PROGRAM=NAME run`: a program's kernel in QEMU, its ports forwarded, until Ctrl-C or GG."""
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.hosted import test_echo
from workshop.vm import ports, qemu

# One after the other: each run forwards a port of its own number where that is free.
pytestmark = pytest.mark.xdist_group("make-run")

RUN = qemu.ROOT / "tools/run.py"
PATIENCE_S = 120


class Running:
    """tools/run.py with the echo, as far as the line that says how to end it."""

    def __init__(self, settings, **variables):
        environment = {**os.environ, "PROGRAM": "echo", "SETTINGS": settings, **variables}
        self.process = subprocess.Popen([sys.executable, RUN], env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.said, self.reach = "", {}
        for line in self.process.stdout:
            self.said += line
            if found := re.search(r"^run: (\w+) port \d+ is at 127\.0\.0\.1:(\d+)$", line):
                self.reach[found[1]] = int(found[2])
            if found := re.search(r"^run: the status page is http://127\.0\.0\.1:(\d+)/$", line):
                self.reach["page"] = int(found[1])
            if found := re.search(r"^run: tools/gg 127\.0\.0\.1 --port (\d+) --key-file (\S+)", line):
                self.reach["gg"], self.key_file = int(found[1]), found[2]
                break

    def finish(self):
        """Returns the exit code and the last line."""
        try:
            rest, _ = self.process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.terminate()        # the machine ends with it
            raise
        self.said += rest
        return self.process.returncode, self.said.splitlines()[-1]


def port_words():
    return f"port={ports.free_port(ports.TCP, ports.UDP)} http.port={ports.free_port()}"


@pytest.mark.parametrize("net", ["user", "tap"])
def test_ports_are_forwarded_and_gg_ends_the_program(net):
    echo = Running(f"{port_words()} key={test_echo.KEY} capture=600", NET=net)
    assert set(echo.reach) == {"tcp", "udp", "page", "gg"}, echo.said
    assert echo.reach["tcp"] == echo.reach["udp"]
    test_echo.check(echo.reach["tcp"], echo.reach["page"], echo.reach["gg"])
    assert echo.finish() == (0, "run: echo has left (gg); the machine has reset"), echo.said
    assert "program echo, build" in echo.said


@pytest.mark.parametrize("variables", [{}, {"NET": "tap"}, {"BOOT": "iso"}])
def test_ctrl_c_ends_the_program_in_order(variables):
    echo = Running(port_words(), **variables)
    assert echo.reach, echo.said
    data = os.urandom(3000)
    assert test_echo.echo_over_tcp(("127.0.0.1", echo.reach["tcp"]), data) == data
    echo.process.send_signal(signal.SIGINT)
    assert echo.finish() == (0, "run: echo has left (gg); the machine has reset"), echo.said
    assert re.search(r"^echo +.*bytes 3000\b", echo.said, re.MULTILINE), echo.said


@pytest.mark.parametrize("settings, code, last", [
    ("deadline=1", 0, r"run: echo has left \(deadline\)"),
    ("test.trap=panic test.after=0.5", 1, r"run: echo: panic: panic: test\.trap=panic"),
    ("prt=7", 1, r'run: echo-linux: .*"prt": there is no such key in the program echo'),
    ("port=80 http.port=80", 1, r"run: echo-linux: port=: this port cannot be had"),
    ("control.port=x", 1, r'run: echo-linux: .*control\.port=: "x": expected a UDP port'),
])
def test_last_line_says_how_it_ended(settings, code, last):
    found, line = Running(settings).finish()
    assert found == code and re.match(last, line), line


def test_wrong_settings_of_a_game_are_refused_before_the_boot():
    done = subprocess.run([sys.executable, RUN], env={**os.environ, "SETTINGS": "simd=fast"}, capture_output=True,
                          text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == 'run: settings, make run: simd=: "fast": expected auto, scalar, avx2 or avx512\n'


def test_a_panic_in_a_game_is_its_last_line():
    done = subprocess.run([sys.executable, RUN], capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, "SETTINGS": "test.trap=panic test.after=2", "DURATION": "20"})
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("peregrine: FAILED: the machine has left: panic: panic: test.trap=")
