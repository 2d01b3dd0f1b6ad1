"""docs/debugging.md, section by section, as written, in a network of its own; and the crash of docs/tutorial/."""
import fcntl
import os
import re
import shutil
import subprocess

import pytest

from tests.lib.paths import ROOT
from workshop.vm import machine

PAGE = (ROOT / "docs/debugging.md").read_text()
BUILD_AND_PLAY_S = 400


def blocks(heading, page=PAGE):
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)[1]
    return re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def play(*parts):
    """Plays blocks as a reader would, in one shell. Returns what they print."""
    clean = {name: value for name, value in os.environ.items()
             if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "CC", "CFLAGS_EXTRA", "WERROR", "PYTHONPATH")}
    ending = "trap 'for job in $(jobs -p); do kill $job || :; done' EXIT; ip link set lo up"
    words = [*machine.unshare_words(), "bash", "-ec", "\n".join((ending, *parts))]
    with open(ROOT / "build/debugging.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)        # the sections build in one folder; workers take turns
        done = subprocess.run(words, cwd=ROOT, env=clean, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=BUILD_AND_PLAY_S)
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def test_the_kernel_under_gdb():
    shown = play(*blocks("An image for gdb"), *blocks("The kernel under gdb"))
    assert re.search(r"#0  tcp_input .* at net/tcp/input\.c:\d+", shown), shown
    assert "in turn (" in shown and "at app/echo/program.c" in shown, shown
    assert "payload_bytes = 20," in shown and "snd_una = " in shown, shown
    assert "source = 167772674" in shown and "rehearsal" not in shown[shown.index("#0"):], shown      # from 10.0.2.2
    assert (ROOT / "build/debug/echo.pcap").stat().st_size > 500


@pytest.mark.skipif(not shutil.which("tshark"), reason="no tshark: tools/setup.sh check installs it")
def test_a_dropped_frame_is_shown_with_its_reason():
    shown = play(*blocks("An image for gdb"), *blocks("A frame that does not come, or a wrong one"))
    assert re.search(r"7009 Len=5\tudp\.rx_drop_no_port$", shown, re.MULTILINE), shown
    assert "DHCP ACK" in shown, shown


def test_a_hang_is_walked_to_its_line():
    shown = play(*blocks("An image for gdb"), *blocks("A loop that hangs, a trap, a failed assertion"))
    assert "back to Linux: watchdog: the loop stood still" in shown
    lines = shown[shown.index("back to Linux:"):]
    assert re.search(r"^0x0*1\w+: trap_hang at selftest\.c:\d+", lines, re.MULTILINE), shown
    assert re.search(r"kernel_main at main\.c:\d+", lines), shown


def test_the_tutorials_crash_is_walked_to_its_line():
    shown = play(*blocks("A crash", (ROOT / "docs/tutorial/README.md").read_text()))
    assert "assertion failed: bytes <= NAME_BYTES_MAX" in shown
    assert re.search(r"read_name at program\.c:\d+\n.*read_question at program\.c:", shown), shown


def test_the_program_on_linux_under_gdb_and_the_sanitizers():
    gdb, sanitizers, _ = blocks("The program on Linux")
    shown = play(gdb, sanitizers)
    assert re.search(r"#0  service_poll .* at app/service/service\.c:\d+", shown), shown
    assert shown.count("leaving: deadline") == 2 and "exited normally" in shown, shown


def test_the_program_on_linux_under_perf(tmp_path):
    found = shutil.which("perf") and subprocess.run(["perf", "record", "-o", tmp_path / "perf.data", "true"],
                                                    capture_output=True, text=True, timeout=60)
    if not found or found.returncode:
        pytest.skip(f"perf: {found.stderr.strip()[-300:] if found else 'not installed'}")
    assert re.search(r"%  echo-linux +echo-linux .*transport_poll", play(blocks("The program on Linux")[2]))
