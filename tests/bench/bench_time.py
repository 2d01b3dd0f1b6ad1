#!/usr/bin/python3
"""The time program as a kernel against chronyd in a Linux guest: the same QEMU, the same virtio device, the same probe.

    bench_time.py                    `make bench-time`: a request to its reply, and requests a second
    bench_time.py drift MINUTES      `make drift-time`: the kernel's clock against this host's chronyd, for a client

The probe is the network device itself (tools/workshop/probe/vhost_probe.c), on a core of its own. No system call and no
main loop of QEMU lies between a request and its reply. The systems take turns in ROUNDS=3 rounds. The table keeps the
least p50 and p99 of a round, because other work on the machine only adds time; `spread` is the largest median less the
least. A rate is that of 512 requests, 32 at a time; its p99 is the rate that 99 of 100 runs reach. QUICK=1 measures a
tenth. Writes build/bench/time.json, or time_drift.json."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from latencies import quantile
from workshop.probe import vhost
from tests.bench.bench_rows import ROOT, Rows
from tests.guest import time_on_tap
from tests.lib import ntp
from workshop.vm import linux_guest, machine, qemu

BENCH = ROOT / os.environ.get("BUILD", "build") / "bench"
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SHOTS, RUNS, GAP_MS = (200, 10, 1) if os.environ.get("QUICK") else (2000, 50, 1)
RATE_COUNT = 512                    # vhost_probe.c: NTP_RATE_COUNT
GUEST_INITRAMFS = linux_guest.WORK / "chronyd-initramfs"
CONFIGURATION = "local stratum 8\nallow all\ncmdport 0\nbindcmdaddress /\npidfile /run/chronyd.pid\n"
START = "/chronyd -n -x -u root -f /etc/chrony.conf"


def build_guest():
    """Makes the Linux guest: chronyd is all that it runs. Needs the network once, for the packages."""
    linux_guest.WORK.mkdir(parents=True, exist_ok=True)
    linux_guest.build(ntp.CHRONYD, GUEST_INITRAMFS)         # the kernel beside it
    with tempfile.TemporaryDirectory() as directory:
        files = linux_guest.program_files(chronyd=ntp.CHRONYD)
        for name, text in (("etc/chrony.conf", CONFIGURATION), ("etc/passwd", "root:x:0:0::/:/bin/sh\n"),
                           ("etc/group", "root:x:0:\n"), ("run/empty", "")):
            path = pathlib.Path(directory) / name.replace("/", "-")
            path.write_text(text)
            files[name] = path
        tree = linux_guest.kernel_tree()
        files |= {path.name: path for name in linux_guest.MODULES for path in tree.rglob(f"{name}.ko")}
        lines = linux_guest.INIT.format(modules=" ".join(linux_guest.MODULES), address=machine.TAP_GUEST,
                                        bits=machine.TAP_BITS).splitlines()
        init = "\n".join(START if line.startswith("/player ") else line for line in lines) + "\n"
        GUEST_INITRAMFS.write_bytes(linux_guest.initramfs(files, init))


def kernel_options(setup, _):
    words = " ".join(["rate=0", "key=a-key-for-tests", *setup.words()])
    return qemu.kernel(words, image=time_on_tap.IMAGE)


def guest_options(_, __):
    return ["-kernel", linux_guest.KERNEL, "-append", "quiet", "-initrd", GUEST_INITRAMFS]


SYSTEMS = {"kernel": (kernel_options, ""), "chronyd": (guest_options, vhost.LINUX_ON_TCG)}
ASKED = {"request": ("p50 and p99 at most", 0.25), "requests": ("at least", 3)}


@vhost.ahead_of_others()
def measure():
    """Returns {(system, play): [sorted times in ns of a round]}."""
    times = {}
    for _ in range(ROUNDS):
        for name, (options, more) in SYSTEMS.items():
            for play, shots in (("ntp", SHOTS), ("ntp-rate", RUNS)):
                found = vhost.visit(options, play, shots, (GAP_MS,), "", nic_more=more)
                times.setdefault((name, play), []).append(sorted(found[play, GAP_MS]))
                print(".", end="", file=sys.stderr, flush=True)
    return times


def bench():
    rows = Rows(BENCH / "time.json")
    build_guest()
    times = measure()
    for name in SYSTEMS:
        found = times[name, "ntp"]
        p50 = [quantile(values, 50) / 1000 for values in found]
        rows.keep(f"time/{name}/request", "us", sum(map(len, found)), round(min(p50), 1),
                  round(min(quantile(values, 99) for values in found) / 1000, 1), "make bench-time",
                  spread=round(max(p50) - min(p50), 1))
    for name in SYSTEMS:
        found = times[name, "ntp-rate"]
        rate = [RATE_COUNT * 1e9 / quantile(values, 50) for values in found]
        rows.keep(f"time/{name}/requests", "1/s", sum(map(len, found)), round(max(rate)),
                  round(max(RATE_COUNT * 1e9 / quantile(values, 99) for values in found)), "make bench-time",
                  spread=round(max(rate) - min(rate)))
    print(f"\n{rows.machine}, {rows.commit}; QEMU TCG, the best of {ROUNDS} rounds in turn")
    figures = {row["name"]: row for row in rows.rows}
    for what, (words, bound) in ASKED.items():
        ours, theirs = figures[f"time/kernel/{what}"], figures[f"time/chronyd/{what}"]
        for part in ("p50", "p99"):
            print(f"{what:10} {part}  kernel {ours[part]:12,.1f} {ours['unit']:4} chronyd in Linux "
                  f"{theirs[part]:12,.1f}   ratio {ours[part] / theirs[part]:.2f}, asked: {words} {bound}")


def drift(minutes):
    done = subprocess.run([*machine.unshare_words(), sys.executable, time_on_tap.__file__, "drift", str(minutes * 60)],
                          capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(done.stdout)
    rows = Rows(BENCH / "time_drift.json")
    for name in ("raw", "filtered"):
        sizes = sorted(map(abs, found[f"{name}_us"]))
        rows.keep(f"time/kernel/offset-{name}", "us", len(sizes), round(quantile(sizes, 50), 1),
                  round(quantile(sizes, 99), 1), f"make drift-time MINUTES={minutes:g}", largest=round(sizes[-1], 1))
        print(f"offset, {name:9} n {len(sizes):6}  p50 {quantile(sizes, 50):8.1f}  p99 {quantile(sizes, 99):8.1f}  "
              f"largest {sizes[-1]:8.1f} us")
    print(f"offset by chronyd -Q at the end {found['chronyd_us']:.1f} us; asked: filtered within 500 us")


if __name__ == "__main__":
    if sys.argv[1:2] == ["drift"]:
        drift(float(sys.argv[2]))
    else:
        bench()
