"""tools/workshop/probe/: the kernel over the probe's device behind vhost-user, timed from descriptor to descriptor.

The device shares no code with QEMU's or with tests/lib/virtio_model.c, so the driver meets one more implementation."""
import json
import pathlib
import subprocess

import pytest

from workshop.probe import half_rtt
from workshop.probe import vhost

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/wire_probe.py"

# name: the program; the stack; the NIC in QEMU, and its properties
ROWS = {
    "modern": ("player", "own", "modern", ""),
    "legacy": ("player", "own", "legacy", ""),
    "legacy-plain": ("player", "own", "legacy", ",mrg_rxbuf=off,event_idx=off,csum=off,guest_csum=off"),
    "modern-without-event-index": ("echo", "own", "modern", ",event_idx=off"),
    "modern-without-mergeable-buffers": ("echo", "own", "modern", ",mrg_rxbuf=off"),
    "modern-lwip": ("player", "lwip", "modern", ""), "modern-time": ("time", "own", "modern", ""),
    "modern-digest": ("digest", "own", "modern", ""), "modern-trade": ("trade", "own", "modern", ""),
}
SHOTS = 20


@pytest.mark.parametrize("row", ROWS)
def test_every_request_of_the_probe_is_answered(row):
    program, stack, nic, more = ROWS[row]
    times = vhost.visit(vhost.SYSTEMS[stack], program, SHOTS, (1,), seed=row, nic=nic, nic_more=more)
    assert set(times) == {(play, 1) for play in vhost.PLAYS[program]}
    assert all(len(values) == SHOTS and min(values) > 0 for values in times.values()), times


def test_half_round_trips_of_every_payload():
    done = subprocess.run([TOOL, "--table", "own", "linux", "--count", "40", "--out", "-"], capture_output=True,
                          text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout[done.stdout.index("\n[") + 1:])}
    assert set(rows) == {f"halfrtt/{name}/{play.replace(':', '/')}" for name in ("own", "linux")
                         for play in half_rtt.PLAYS}
    for row in rows.values():
        assert row["n"] == 40 and 0 < row["p50"] <= row["p99"] <= row["p99_9"] <= row["p99_99"], row


@pytest.mark.parametrize("words, reason", [
    (["--table", "127.0.0.1:1"], "127.0.0.1:1"), (["--table", "127.0.0.1:70000"], "'127.0.0.1:70000' is no player"),
    (["--table", "owm"], "'owm' is no player; own, lwip, guest, linux"), (["--table"], "name players"),
    (["--table", "own", "--count", "0"], "at least one shot")])
def test_a_wrong_word_is_quoted(words, reason):
    done = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and reason in done.stderr and "Traceback" not in done.stderr, done.stderr
