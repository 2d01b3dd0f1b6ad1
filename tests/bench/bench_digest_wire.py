#!/usr/bin/python3
"""Times /sha256?rounds=1 over the wire: app/digest/ as a kernel, the same in a Linux guest, and Go's net/http there.

`make bench-digest-wire` runs this program. It measures in a network namespace of its own. Each guest is QEMU without
KVM, on a TAP device; wrk sends from this side on 1, 16 and 64 connections for 3 s. The guests take turns REPEAT times.
Prints a table and writes build/bench/digest_wire.json. Go's guest is left out without the package golang-go."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from tests.bench.bench_rows import ROOT, Rows
from workshop.vm import linux_guest, machine, qemu

BUILD = ROOT / os.environ.get("BUILD", "build")
OUT = BUILD / "bench/digest_wire.json"
CONNECTIONS, SECONDS, PATIENCE_S = (1, 16, 64), 3, 60
REPEAT = int(os.environ.get("REPEAT", "2"))
URL = f"http://{machine.TAP_GUEST}:8080/sha256?rounds=1"
SCRIPT = """
wrk.method = "POST"
wrk.body = "hello"
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('{"requests": %d, "us": %d, "failed": %d, "p50": %d, "p99": %d}\\n', summary.requests,
    summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""


def linux_options(initramfs, words):
    return ["-kernel", str(linux_guest.KERNEL), "-initrd", str(initramfs), "-append", f"quiet peregrine: {words}"]


def guests(folder):
    """Returns {name: QEMU's options}."""
    hosted = linux_guest.WORK / "digest-initramfs"
    linux_guest.build(BUILD / "host/digest-linux", hosted)
    found = {"kernel": qemu.kernel(f"port=8080 http.port=80 ip={machine.TAP_GUEST}/{machine.TAP_BITS} "
                                   f"gw={machine.TAP_HOST}", image=BUILD / "digest/peregrine.elf"),
             "linux": linux_options(hosted, "port=8080 http.port=80 wait=sleep")}
    if not shutil.which("go"):
        print("go: not installed, its guest is left out")
        return found
    subprocess.run(["go", "build", "-o", f"{folder}/go", ROOT / "tests/bench/digest_server.go"], check=True,
                   env={**os.environ, "GO111MODULE": "off", "GOCACHE": f"{folder}/cache"})
    linux_guest.build(f"{folder}/go", linux_guest.WORK / "go-initramfs")
    return {**found, "linux-go": linux_options(linux_guest.WORK / "go-initramfs", "")}


def wait_until_it_answers():
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return urllib.request.urlopen(urllib.request.Request(URL, b"abc"), timeout=2).read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def load(connections, script):
    done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "-s", script, URL], capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(plans, folder):
    """Returns {(guest, connections): the runs}."""
    script, found = folder / "post.lua", {}
    script.write_text(SCRIPT)
    for _ in range(REPEAT):
        for name, options in plans.items():
            net = ["-vga", "none", *machine.network_options(machine.Setup(net="tap"))]
            with qemu.Machine([*options, *net]):
                assert wait_until_it_answers().strip() == \
                    b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
                for connections in CONNECTIONS:
                    found.setdefault((name, connections), []).append(load(connections, script))
                    print(f"{name}, {connections} connections: {found[name, connections][-1]}", flush=True)
    return found


def main():
    """Makes the guests, which may fetch packages; then measures, as the same program in a namespace."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "plans").write_text(json.dumps(guests(folder)))
        subprocess.run([*machine.unshare_words(), sys.executable, __file__, folder], check=True)


def main_in_namespace(folder):
    machine.set_up_namespace()
    found = measure(json.loads((folder / "plans").read_text()), folder)
    rows = Rows(OUT)
    print(f"{rows.machine}, {rows.commit}; QEMU without KVM; the best of {REPEAT} runs in turn")
    print(f"{'guest':12}{'connections':>12}{'p50 us':>10}{'p99 us':>10}{'requests/s':>12}{'failed':>8}")
    for (name, connections), runs in found.items():
        rate = max(run["requests"] / run["us"] * 1e6 for run in runs)
        p50, p99 = min(run["p50"] for run in runs), min(run["p99"] for run in runs)
        failed, count = sum(run["failed"] for run in runs), sum(run["requests"] for run in runs)
        command = f"wrk -t1 -c{connections} -d{SECONDS}s {URL}"
        rows.keep(f"digest/wire/{name}/{connections}/response", "us", count, p50, p99, command)
        rows.keep(f"digest/wire/{name}/{connections}/rate", "requests/s", count, round(rate), None, command)
        print(f"{name:12}{connections:12}{p50:10}{p99:10}{rate:12.0f}{failed:8}", flush=True)


if __name__ == "__main__":
    main_in_namespace(pathlib.Path(sys.argv[1])) if len(sys.argv) > 1 else main()
