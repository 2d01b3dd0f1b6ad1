"""The time program as a kernel on a TAP device, and programs of others. Runs inside a network namespace of its own:

    time_on_tap.py clients            chronyd, ntpdate, ntpdig and ntpd ask the kernel for its own clock
    time_on_tap.py drift SECONDS      the kernel is a client of this host's chronyd; a client measures its offset

Prints one JSON object."""
import contextlib
import json
import subprocess
import sys
import tempfile
import time

from tests.lib import ntp
from tests.lib.paths import ROOT
from workshop.vm import machine, qemu

IMAGE = qemu.BUILD / "time/peregrine.elf"
KEY = "a-key-for-tests"
SAMPLE_S = 0.1
FILTER_COUNT = 40               # a client takes the one with the least delay (RFC 5905 §10)
START_S = 8                    # after the step: the rest of the burst, and its slew


@contextlib.contextmanager
def kernel(*words):
    """Boots the kernel on the TAP device, and ends it by GG."""
    setup = machine.Setup(net="tap", nic="modern")
    text = " ".join([f"key={KEY}", *setup.words(), "rate=0", *words])
    options = [*qemu.kernel(text, image=IMAGE), *machine.network_options(setup), "-vga", "none"]
    with qemu.Machine(options) as guest:
        guest.wait_for("time: running, TCP/IP stack")
        yield guest
        done = subprocess.run([ROOT / "tools/gg", machine.TAP_GUEST, "--key", KEY, "--timeout", "20"],
                              capture_output=True, text=True, timeout=ntp.PATIENCE_S)
        assert done.returncode == 0, done.stderr
        guest.wait_reset()
        assert "back to Linux: gg" in guest.log, guest.log


def clients(directory):
    """Runs each client. The kernel's clock comes from the RTC: whole seconds, plus half a second."""
    with kernel("stratum=3") as guest:
        with ntp.Probe(machine.TAP_GUEST) as probe:
            first = probe.wait_for(lambda reply: reply.stratum == 3)
        with ntp.ntpd_client(machine.TAP_GUEST, directory):
            found = {"offset_s": first.offset_s, "dispersion_s": first.root_dispersion_s,
                     "chronyd_s": ntp.chronyd_offset_s(machine.TAP_GUEST, directory),
                     "ntpdate": ntp.ntpdate_offset_s(machine.TAP_GUEST),
                     "ntpq": ntp.ntpq_peer(machine.TAP_GUEST)}
    return {**found, "log": guest.log}


def drift(directory, seconds):
    """Runs the kernel as a client of chronyd. Returns another client's offsets in us, raw and after its clock
    filter."""
    raw = []
    with ntp.chronyd_server(machine.TAP_HOST, directory), \
            kernel(f"peer={machine.TAP_HOST}", "peer.poll=4") as guest, ntp.Probe(machine.TAP_GUEST) as probe:
        before = probe.wait_for(lambda reply: True)
        probe.wait_for(lambda reply: reply.stratum == 9)
        settled = time.monotonic() + START_S
        end = settled + seconds
        while time.monotonic() < end:
            reply = probe.ask()
            if reply and time.monotonic() >= settled:
                raw.append((reply.delay_s * 1e6, reply.offset_s * 1e6))
            time.sleep(SAMPLE_S)
        chronyd_s = ntp.chronyd_offset_s(machine.TAP_GUEST, directory)
        last = probe.ask()
    filtered = [min(raw[i:i + FILTER_COUNT]) for i in range(len(raw) - FILTER_COUNT + 1)]
    return {"before": [before.leap, before.stratum], "reference_id": last.reference_id.hex(),
            "chronyd_us": chronyd_s * 1e6,
            "raw_us": [offset for _, offset in raw], "delay_us": [delay for delay, _ in raw],
            "filtered_us": [offset for _, offset in filtered],
            "certain_us": [abs(offset) - delay / 2 for delay, offset in filtered], "log": guest.log}


def main(words):
    machine.set_up_namespace()
    with tempfile.TemporaryDirectory(prefix="peregrine-time-") as directory:
        found = drift(directory, float(words[1])) if words[0] == "drift" else clients(directory)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
