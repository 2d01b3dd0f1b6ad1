#!/usr/bin/python3
"""Our TCP against Linux': a table of paths, each played Linux to Linux, ours to Linux and Linux to ours (interop.c).

    against_linux.py [NAME ...]      all rows, or the rows named; prints a table

A row passes if every byte arrived, and our TCP took at most 1.5 times as long as Linux to Linux over the same seeds.
The table compares geometric means, because one loss at the wrong moment costs more than all other losses. Runs of a
row go in parallel if the path limits them, and one by one if the processor does."""
import argparse
import concurrent.futures
import dataclasses
import statistics
import subprocess
import sys

from tests.lib.paths import BUILD
from workshop.vm import machine

INTEROP = BUILD / "host/tests/linux/interop"
PAIRS = (("linux", "linux"), ("own", "linux"), ("linux", "own"))
RATIO_MAX = 1.5


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    words: str
    check_bytes: int = 0            # bytes of a run in `make check`; 0: it is left out
    side_by_side: int = 9
    bytes: int = 10 << 20
    give_up_s: int = 300
    seeds: int = 5


ROWS = [
    Row("as fast as it goes, 1 ms", "mbit=0", side_by_side=1),
    Row("20 ms", "mbit=0 delay_us=20000", side_by_side=1),
    Row("100 ms", "mbit=0 delay_us=100000", side_by_side=1),
    Row("a line of 200 Mbit/s, 1 ms", "", side_by_side=1),
    Row("1 % lost, 1 ms", "lose=100", 4 << 20),
    Row("5 % lost, 1 ms", "lose=500", 2 << 20),
    Row("20 % lost, 1 ms", "lose=2000", bytes=512 << 10, give_up_s=3600, seeds=10),
    Row("1 % lost, 10 ms", "lose=100 delay_us=10000"),
    Row("5 % lost, 10 ms", "lose=500 delay_us=10000"),
    Row("10 % late by up to 6 ms, 1 ms", "reorder=1000", 4 << 20),
    Row("10 % late by up to 15 ms, 10 ms", "reorder=1000 delay_us=10000"),
    Row("5 % twice, 1 ms", "repeat=500", 4 << 20),
    Row("1 % lost, 5 % late, 2 % twice, 10 ms", "lose=100 reorder=500 repeat=200 delay_us=10000", 1 << 20),
    Row("a window of 4 KiB, 1 ms", "window=4096", 1 << 20),
    Row("a window of 4 KiB, 5 % lost, 1 ms", "window=4096 lose=500", bytes=2 << 20),
]


def run_once(pair, row, seed, count):
    """Returns the seconds that one run took."""
    words = [*row.words.split(), f"bytes={count}", f"seed={seed}", f"give_up_s={row.give_up_s}"]
    done = subprocess.run([*machine.unshare_words(), INTEROP, *pair, *words], capture_output=True, text=True)
    if done.returncode != 0 or " exact " not in done.stdout:
        raise AssertionError(f"interop {' '.join((*pair, *words))}: {done.stdout}{done.stderr}")
    return float(done.stdout.split()[4])


def play(row, seeds, count):
    """Returns the seconds of each pair's runs, by seed."""
    jobs = [(pair, seed) for seed in seeds for pair in PAIRS]
    with concurrent.futures.ThreadPoolExecutor(row.side_by_side) as pool:
        took = list(pool.map(lambda job: run_once(job[0], row, job[1], count), jobs))
    return {pair: [s for (p, _), s in zip(jobs, took) if p == pair] for pair in PAIRS}


def ratios(took):
    base = statistics.geometric_mean(took[PAIRS[0]])
    return [statistics.geometric_mean(took[pair]) / base for pair in PAIRS[1:]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    print("| path | Linux to Linux, s | ours to Linux, s | Linux to ours, s | ratios |\n|---|---|---|---|---|")
    slow = 0
    for row in ROWS:
        if options.names and row.name not in options.names:
            continue
        took = play(row, range(1, row.seeds + 1), row.bytes)
        columns = [f"{statistics.geometric_mean(took[p]):.2f} ({min(took[p]):.2f}-{max(took[p]):.2f})" for p in PAIRS]
        both = ratios(took)
        slow += max(both) > RATIO_MAX
        print(f"| {row.name} | {' | '.join(columns)} | {both[0]:.2f}, {both[1]:.2f} |", flush=True)
    sys.exit(f"{slow} rows are slower than {RATIO_MAX} times Linux" if slow else 0)


if __name__ == "__main__":
    main()
