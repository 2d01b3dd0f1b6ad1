#!/usr/bin/python3
"""Runs bench_net with our stack and with lwIP in turn, prints a table, writes build/bench/net.json.

`make bench-net` runs this program. A row is measured REPEAT times with each stack in turn. The table keeps the least
median and the least 99th percentile of these runs, because other work on the machine only adds time. `spread` is the
largest median less the least. QUICK=1 measures a tenth. tests/bench/bench_net.c says which time each row measures. Rows
named `timer` are the time of two readings of the clock, which the other rows do not include."""
import os
import subprocess
import sys

from tests.bench.bench_rows import ROOT, Rows

BUILD = ROOT / os.environ.get("BUILD", "build")
OUT = BUILD / "bench/net.json"
REPEAT = int(os.environ.get("REPEAT", "5"))
QUICK = bool(os.environ.get("QUICK"))
STACKS = ("own", "lwip")
WARM, COLD, BULK = (1000, 30, 100) if QUICK else (10000, 150, 1000)

# Row, kind of run, samples, and the bounds for our stack: ns, and times lwIP's.
ROWS = [("segment-in", "warm", WARM, 60, 0.25), ("segment-in-sum", "warm", WARM, 60, 0.25),
        ("answer-out", "warm", WARM, 80, 0.25), ("burst-to-post", "warm", WARM, "500 (1000)", None),
        ("segment-in", "cold", COLD, None, 0.5), ("answer-out", "cold", COLD, None, 0.5),
        ("burst-to-post", "cold", COLD, None, 0.5), ("burst-to-post", "rested", COLD, None, None),
        ("bulk", "warm", BULK, None, None), ("bulk-sum", "warm", BULK, None, None)]
BATCH_BITS = 40 * 1460 * 8      # a `bulk` batch: BULK_COUNT full frames; timestamps take 12 bytes of each


def run(stack, row, kind, count):
    """Returns {name: (p50, p99)} of one run, and its command."""
    command = [f"build/host/tests/bench/bench_net-{stack}", row, kind, str(count)]
    done = subprocess.run([BUILD.parent / command[0], *command[1:]], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    found = {name: (float(p50), float(p99)) for name, p50, p99 in map(str.split, done.stdout.splitlines())}
    return found, " ".join(command)


def measure(row, kind, count):
    """Measures both stacks in turn. Returns {stack: ({name: the least (p50, p99)}, a command, the medians' spread)}."""
    runs = {stack: [] for stack in STACKS}
    for _ in range(REPEAT):
        for stack in STACKS:
            found, command = run(stack, row, kind, count)
            runs[stack].append(found)
    best = {}
    for stack, done in runs.items():
        least = {name: tuple(map(min, zip(*(found[name] for found in done)))) for name in done[0]}
        best[stack] = least, command.replace(STACKS[-1], stack), max(found[row][0] for found in done) - least[row][0]
    return best


def main():
    rows = Rows(OUT)

    def keep(name, unit, count, p50, p99, spread, command):
        rows.keep(name, unit, count, round(p50, 1), round(p99, 1), command, spread=round(spread, 1))

    print(f"{rows.machine}, {rows.commit}; ns: p50 (p99), the least of {REPEAT} runs in turn")
    print(f"{'':24}{'own':>18}{'lwIP':>18}{'ratio':>8}   asked")
    for row, kind, count, asked_ns, asked_ratio in ROWS:
        best = measure(row, kind, count)
        name = row if kind == "warm" else f"{row}/{kind}"
        if row.startswith("bulk"):
            gbits = {stack: (BATCH_BITS / found[row][0], BATCH_BITS / found[row][1])
                     for stack, (found, _, _) in best.items()}
            for stack, (found, command, spread) in best.items():
                keep(f"net/{stack}/{name}", "Gbit/s", count, *gbits[stack],
                     gbits[stack][0] - BATCH_BITS / (found[row][0] + spread), command)
            print(f"{name:24}{gbits['own'][0]:18.1f}{gbits['lwip'][0]:18.1f}"
                  f"{gbits['own'][0] / gbits['lwip'][0]:8.2f}   >= 40 Gbit/s", flush=True)
            continue
        for stack, (found, command, spread) in best.items():
            for part, (p50, p99) in found.items():
                path = f"net/{stack}/{name}" + ("" if part == row else f"/{part}")
                keep(path, "ns", count, p50, p99, spread, command)
        own, lwip = best["own"][0], best["lwip"][0]
        asked = [f"<= {asked_ns} ns"] * bool(asked_ns) + [f"<= {asked_ratio} of lwIP"] * bool(asked_ratio)
        for part in [part for part in own if part != "timer"]:
            print(f"{name if part == row else '  ' + part:24}{own[part][0]:9.1f} ({own[part][1]:6.0f})"
                  f"{lwip[part][0]:9.1f} ({lwip[part][1]:6.0f}){own[part][0] / lwip[part][0]:8.2f}   "
                  f"{', '.join(asked) if part == row else ''}", flush=True)


if __name__ == "__main__":
    main()
