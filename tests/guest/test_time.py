"""The time program as a kernel, on a TAP device under TCG: NTP clients of others, and the clock set by a peer."""
import json
import subprocess
import sys

from tests.guest import time_on_tap
from workshop.vm import machine, qemu

SHORT_S = 8


def on_tap(*words):
    """Plays one case of time_on_tap.py in a network namespace."""
    done = subprocess.run([*machine.unshare_words(), sys.executable, time_on_tap.__file__, *map(str, words)],
                          capture_output=True, text=True, timeout=240, cwd=time_on_tap.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_clients_of_others_read_the_clock_of_the_kernel():
    found = on_tap("clients")
    assert "by rtc, to half a second" in found["log"]
    assert 0.5 <= found["dispersion_s"] < 0.6 and abs(found["offset_s"]) < 0.7
    offsets = [found["chronyd_s"], found["ntpq"]["offset_s"]] + [offset for offset, _ in found["ntpdate"]]
    assert all(abs(offset - found["offset_s"]) < 0.02 for offset in offsets), found
    assert [stratum for _, stratum in found["ntpdate"]] == [3, 3]
    assert found["ntpq"]["stratum"] == 3 and found["ntpq"]["refid"] == "127.127.1.1" and found["ntpq"]["reach"]


def test_clock_behind_a_peer_stays_near_on_a_busy_machine():
    found = on_tap("drift", SHORT_S)
    assert found["before"] == [3, 0]                        # unsynchronised, until the peer has answered
    assert found["reference_id"] == "0a4d0001" and "ntp: clock stepped by" in found["log"]
    # Queues may cause half of a delay. `make drift-time` asserts 500 us on a quiet machine.
    assert max(found["certain_us"]) < 5000, found
    assert abs(found["chronyd_us"]) < 20000                 # four samples only


def test_unknown_key_names_the_mistake():
    with qemu.Machine(qemu.kernel("feed=10.0.2.2:10001", image=time_on_tap.IMAGE) + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert '"feed": there is no such key' in guest.log, guest.log
