#!/usr/bin/python3
"""Runs bench_base row by row, prints a table, writes build/bench/base.json. `make bench-base` runs this program.

Each row is measured REPEAT=5 times in turn. The table keeps the least p50 and p99, because other work on the machine
only adds time; `spread` is the largest median less the least. QUICK=1 measures a tenth. tests/bench/bench_base.c says
what each row measures."""
import os
import subprocess
import sys

from tests.bench.bench_rows import ROOT, Rows

BUILD = ROOT / os.environ.get("BUILD", "build")
REPEAT = int(os.environ.get("REPEAT", "5"))
COUNT = 10000 if os.environ.get("QUICK") else 100000
# Row, the public program beside it, and the required figure.
ROWS = (("line", "", ""), ("spsc", "spsc-boost", "at most 1.3 of line"),
        ("broadcast", "", "at most 1.3 of line"), ("broadcast-2", "", ""), ("pool", "pool-malloc", "at most 10 ns"),
        ("seqlock-read", "seqlock-read-urcu", ""), ("seqlock-write", "seqlock-write-urcu", ""), ("stamp", "", ""),
        ("clock", "clock-linux", ""))


def run(name):
    command = ["build/host/tests/bench/bench_base", name, str(COUNT)]
    done = subprocess.run([BUILD.parent / command[0], *command[1:]], capture_output=True, text=True, timeout=60)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    p50, p99, count = done.stdout.split()
    return float(p50), float(p99), int(count), " ".join(command)


def main():
    rows = Rows(BUILD / "bench/base.json")
    names = [name for row in ROWS for name in row[:2] if name]
    found = {name: [] for name in names}
    for _ in range(REPEAT):
        for name in names:
            found[name].append(run(name))
    best = {}
    for name in names:
        p50 = [sample[0] for sample in found[name]]
        best[name] = min(p50)
        rows.keep(f"base/{name}", "ns", found[name][0][2], min(p50), min(sample[1] for sample in found[name]),
                  found[name][0][3], spread=round(max(p50) - min(p50), 2))
    print(f"{rows.machine}, {rows.commit}; ns: p50 (p99) +- spread, the least of {REPEAT} runs in turn")
    figures = {row["name"].removeprefix("base/"): "{p50:9.2f} ({p99:8.2f}) +- {spread:6.2f}".format(**row)
               for row in rows.rows}
    for name, other, asked in ROWS:
        print(f"{name:14} {figures[name]}   {other:18} {figures.get(other, ''):30} {asked}")
    for name in ("spsc", "broadcast", "broadcast-2"):
        print(f"{name} is {best[name] / best['line']:.2f} of line")


if __name__ == "__main__":
    main()
