#!/usr/bin/python3
"""Times app/digest/ over Linux sockets at several counts of CPUs, and Go's net/http with GOMAXPROCS the same.

`make bench-digest` runs this program. CPUS=1,2 are the counts, measured in turn REPEAT times; the table keeps the best
of the runs, because other work on the machine only takes. Writes build/bench/digest_cpus.json. Without the package
golang-go Go's rows are left out.

The load is wrk's, and one sender of 64 MiB, on the same machine. If all CPUs are the service's, the load takes part of
them. With one CPU of two the service has that one for itself, and the load takes a share L of the other. Two CPUs can
then give at most 2 / (1 + L) times as much, not 2, and the factor asked for shrinks with it. wrk has real-time priority
where that is permitted: else its own wait for a CPU would be measured.

With AVX-512 the way of a body over Linux sockets takes longer than its hash. The rows mercha-scalar show what a second
CPU gives where the hash dominates."""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from tests.bench.bench_digest_wire import SCRIPT
from tests.bench.bench_rows import ROOT, Rows
from workshop.vm import ports

BUILD = ROOT / os.environ.get("BUILD", "build")
OUT = BUILD / "bench/digest_cpus.json"
CPUS = [int(count) for count in os.environ.get("CPUS", "1,2").split(",")]
REPEAT = int(os.environ.get("REPEAT", "5"))
SECONDS = 1 if os.environ.get("QUICK") else 3
BODY_BYTES, GO_PORT, LONG_CHAINS, PATIENCE_S = 64 << 20, 8080, 2, 30

# Figures asked for with two CPUs: the row, and its factor over that with one CPU. A bound of more than 1.5 is the
# least, for a rate; else it is the most, for a time.
ASKED = {"rounds-1000/16": 1.8, "mercha": 1.7, "mercha-scalar": 1.7,
         "rounds-1-beside-long/p50": 1.1, "rounds-1-beside-long/p99": 1.1}


@contextlib.contextmanager
def served(command, port, environment=None):
    """Runs a service until its port can be reached."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, **(environment or {})}) as program:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                assert program.poll() is None and time.monotonic() < deadline, command
                time.sleep(0.05)
            yield
        finally:
            program.kill()


def take_priority():
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def wrk(script, port, connections, rounds, seconds=SECONDS):
    return subprocess.Popen(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script,
                             f"http://127.0.0.1:{port}/sha256?rounds={rounds}"], stdout=subprocess.PIPE, text=True,
                            preexec_fn=take_priority)


def result(load):
    found = json.loads(load.communicate()[0].splitlines()[-1])
    assert found["failed"] == 0, found
    return found


def cpu_seconds(of):
    usage = resource.getrusage(of)
    return usage.ru_utime + usage.ru_stime


def rate(script, port, connections):
    """Returns requests a second, and the share of a CPU that the load took."""
    before = cpu_seconds(resource.RUSAGE_CHILDREN)
    found = result(wrk(script, port, connections, 1000))
    seconds = found["us"] / 1e6
    return found["requests"] / seconds, (cpu_seconds(resource.RUSAGE_CHILDREN) - before) / seconds


def mercha_rate(port):
    """Returns MB/s of one body, and the share of a CPU that its sender took."""
    body, head = bytes(BODY_BYTES), f"POST /mercha?key={'00' * 32}&nonce={'00' * 12} HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        begin, before = time.perf_counter(), cpu_seconds(resource.RUSAGE_SELF)
        connection.sendall(f"{head}Content-Length: {BODY_BYTES}\r\n\r\n".encode())
        connection.sendall(body)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        seconds = time.perf_counter() - begin
    return BODY_BYTES / seconds / 1e6, (cpu_seconds(resource.RUSAGE_SELF) - before) / seconds


def mercha_rows(name, port):
    per_second, load = max(mercha_rate(port) for _ in range(5))
    yield name, "MB/s", per_second
    yield f"{name}/load", "CPUs", load


def beside_long(script, port):
    """Returns p50 and p99 of one round, in us, while chains of 100,000 rounds run."""
    long_ones = wrk(script, port, LONG_CHAINS, 100_000, SECONDS + 1)
    time.sleep(0.3)
    found = result(wrk(script, port, 1, 1))
    result(long_ones)
    return found["p50"], found["p99"]


def measure_digest(cpus, script):
    port, scalar_port = ports.free_port(), ports.free_port()
    command = [BUILD / "host/digest-linux", f"cpus={cpus}", "deadline=120"]
    with served([*command, f"port={port}"], port):
        for connections in (16, 64):
            per_second, load = rate(script, port, connections)
            yield f"rounds-1000/{connections}", "requests/s", per_second
            yield f"rounds-1000/{connections}/load", "CPUs", load
        yield from mercha_rows("mercha", port)
        p50, p99 = beside_long(script, port)
        yield "rounds-1-beside-long/p50", "us", p50
        yield "rounds-1-beside-long/p99", "us", p99
    with served([*command, f"port={scalar_port}", "simd=scalar"], scalar_port):
        yield from mercha_rows("mercha-scalar", scalar_port)


def measure_go(program, cpus, script):
    with served([program], GO_PORT, {"GOMAXPROCS": str(cpus)}):
        for connections in (16, 64):
            yield f"go/rounds-1000/{connections}", "requests/s", rate(script, GO_PORT, connections)[0]


def measure(script, go):
    """Returns {(row, cpus): (unit, values)} of all runs in turn."""
    found = {}
    for _ in range(REPEAT):
        for cpus in CPUS:
            rows = [*measure_digest(cpus, script), *(measure_go(go, cpus, script) if go else ())]
            for name, unit, value in rows:
                found.setdefault((name, cpus), (unit, []))[1].append(value)
                print(f"cpus={cpus} {name}: {value:.2f} {unit}", flush=True)
    return found


def best(unit, values):
    return max(values) if unit.endswith("/s") else min(values)


def asked_lines(found):
    machine = os.cpu_count()
    for name, factor in ASKED.items():
        if (name, 1) not in found or (name, 2) not in found:
            continue
        is_least = factor > 1.5
        ratio = best(*found[name, 2]) / best(*found[name, 1])
        if is_least and machine == 2:
            load = best(*found[f"{name}/load", 1])
            factor = round(factor / (1 + load), 2)
            name = f"{name} (load {load:.2f} CPUs)"
        met = ratio >= factor if is_least else ratio <= factor
        yield f"{name:36}{ratio:6.2f} of one CPU, asked {factor}: {'met' if met else 'MISSED'}"


def main():
    if not shutil.which("wrk"):
        sys.exit("wrk is not installed: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        script, go = pathlib.Path(folder) / "post.lua", None
        script.write_text(SCRIPT)
        if shutil.which("go"):
            go = f"{folder}/go"
            subprocess.run(["go", "build", "-o", go, ROOT / "tests/bench/digest_server.go"], check=True,
                           env={**os.environ, "GO111MODULE": "off", "GOCACHE": f"{folder}/cache"})
        found = measure(script, go)
    rows = Rows(OUT)
    print(f"{rows.machine}, {rows.commit}; the best of {REPEAT} runs in turn")
    for (name, cpus), (unit, values) in found.items():
        value = best(unit, values)
        if not name.endswith("/load"):
            rows.keep(f"digest/cpus-{cpus}/{name}", unit, len(values), round(value, 2), None, "make bench-digest")
        print(f"{name:26}{cpus:4} CPUs{value:12.5g} {unit}")
    print("\n".join(asked_lines(found)))


if __name__ == "__main__":
    main()
