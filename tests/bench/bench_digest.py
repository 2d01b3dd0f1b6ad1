#!/usr/bin/python3
"""Runs bench_digest, and programs of the distribution on the same data; prints a table, writes build/bench/digest.json.

`make bench-digest` runs this program. Each row is measured REPEAT times, the rows in turn; the table keeps the least
median time, because other work on the machine only adds time. QUICK=1 measures a tenth. A program that is not installed
is left out, and a line says so: Go's rows need the package golang-go."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from tests.bench.bench_rows import ROOT, Rows

BUILD = ROOT / os.environ.get("BUILD", "build")
OUT = BUILD / "bench/digest.json"
REPEAT = int(os.environ.get("REPEAT", "5"))
SAMPLES = 100 if os.environ.get("QUICK") else 1000
FILE_BYTES = 64 << 20
GO = ROOT / "tests/bench/bench_digest.go"
TOOLS = {"coreutils/sha256sum": ["sha256sum"], "coreutils/base64": ["base64", "-w0"]}

# The figures asked for: a row, the row it is compared with (None: none), and the factor, or the figure itself. The
# bound is the most for a time, and the least for a rate.
ASKED = [("round/1-chains", "openssl/round", 0.8), ("round/4-chains", "openssl/round", 0.55),
         ("2-cpus/round/4-chains", "1-cpus/round/4-chains", 0.56),
         ("2-cpus/round/64-chains", "1-cpus/round/64-chains", 0.56),
         ("nabhash", "nabhash/bound", 0.85), ("mercha/avx2", None, 1.5), ("base64", None, 5.0)]


def lines_of(command):
    """Returns {name: (unit, p50, p99, n)} of a program's lines."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    fields = (line.split() for line in done.stdout.splitlines())
    return {name: (unit, float(p50), float(p99), int(n)) for name, unit, p50, p99, n in fields}


def tool_rate(command, path):
    """Returns GB/s of a program that reads the file, its start included."""
    begin = time.perf_counter()
    subprocess.run([*command, path], stdout=subprocess.DEVNULL, check=True)
    return FILE_BYTES / (time.perf_counter() - begin) / 1e9


def best(found, row):
    """Keeps the better of two measurements of a row: (unit, p50, p99, n)."""
    name, (unit, p50, p99, n) = row
    had = found.get(name)
    if not had or (p50 < had[1] if unit == "ns" else p50 > had[1]):
        found[name] = (unit, p50, p99, n)


def measure(programs, path):
    """Returns {name: (unit, p50, p99, n)}, {name: command} over all runs in turn."""
    found, commands = {}, {}
    for _ in range(REPEAT):
        for prefix, command in programs:
            for name, values in lines_of(command).items():
                best(found, (prefix + name, values))
                commands[prefix + name] = " ".join(command).removeprefix(f"{ROOT}/")
        for name, command in TOOLS.items():
            rate = tool_rate(command, path)
            best(found, (name, ("GB/s", rate, rate, 1)))
            commands[name] = f"{' '.join(command)} FILE"
    return found, commands


def asked_lines(found):
    for name, other, factor in ASKED:
        rows = {key: values for key, values in found.items() if key == name or key.startswith(name + "/")}
        rows.pop(other, None)
        if not rows or (other and other not in found):
            continue
        key = (min if found[next(iter(rows))][0] == "ns" else max)(rows, key=lambda k: rows[k][1])
        unit, value = rows[key][:2]
        bound = factor * (found[other][1] if other else 1)
        met = value <= bound if unit == "ns" else value >= bound
        compared = f"{value / found[other][1]:.2f} of {other}, asked {factor}" if other else f"asked {factor} {unit}"
        yield f"{key:24}{value:10.2f} {unit:6}{compared}: {'met' if met else 'MISSED'}"


def main():
    programs = [("", [str(BUILD / "host/tests/bench/bench_digest"), str(SAMPLES)])]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "data"
        path.write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))
        if shutil.which("go"):
            subprocess.run(["go", "build", "-o", f"{folder}/go", GO], check=True, cwd=ROOT,
                           env={**os.environ, "GO111MODULE": "off", "GOCACHE": f"{folder}/cache"})
            programs.append(("go/", [f"{folder}/go", str(SAMPLES)]))
        else:
            print("go: not installed, its rows are left out")
        found, commands = measure(programs, path)
    rows = Rows(OUT)
    print(f"{rows.machine}, {rows.commit}; p50 (p99), the best of {REPEAT} runs in turn")
    for name, (unit, p50, p99, n) in found.items():
        command = GO.relative_to(ROOT).as_posix() if name.startswith("go/") else commands[name]
        rows.keep(f"digest/{name}", unit, n, p50, p99, command)
        print(f"{name:24}{p50:10.2f} ({p99:8.2f}) {unit}")
    print("\n".join(asked_lines(found)))


if __name__ == "__main__":
    main()
