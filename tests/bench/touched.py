#!/usr/bin/python3
"""Prints the cache lines of data that the first answer after a pause touches and idle time before it did not.

`make bench-touched` runs this program. Each line: how many lines an answer touches so, on the mean, by function and by
object. The frame, which the device writes, and the stack are listed, too. tests/bench/touched.h says how the lines are
recorded."""
import bisect
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNT = 50
OFTEN = 0.25            # a line that fewer answers touch is not listed
RUNS = (("player", "bench_net burst-to-post rested"), ("trade", "bench_net trade rested"), ("echo, UDP", "echo udp"),
        ("echo, TCP", "echo tcp"), ("time", "time udp"), ("digest", "digest tcp"))


def functions(binary, places):
    """Returns {place: function}."""
    done = subprocess.run(["addr2line", "-f", "-e", binary, *map(hex, places)], capture_output=True, text=True,
                          check=True)
    return dict(zip(places, done.stdout.splitlines()[::2]))


class Objects:
    """The objects in memory by their addresses."""

    def __init__(self, binary):
        rows = re.findall(r"^(\w+) (\w+) [bBdDrR] (\S+)$", subprocess.run(
            ["nm", "-S", binary], capture_output=True, text=True, check=True).stdout, re.M)
        self.objects = sorted((int(at, 16), int(size, 16), name) for at, size, name in rows)
        self.starts = [at for at, _, _ in self.objects]

    def name(self, line):
        """Returns the object of a line and the place within it."""
        for at, size, name in self.objects[max(bisect.bisect_right(self.starts, line + 63) - 4, 0):]:
            if at > line + 63:
                break
            if at + size > line:
                return f"{name.split('.')[0]}+{max(line - at, 0) // 64 * 64}"
        return "the stack" if line >> 40 == 0x7f else "the heap"


def run(words):
    """Returns the lines that an answer touches, those that the rest did not, and the latter by (function, object)."""
    name, *rest = words.split()
    binary = ROOT / "build/touched" / name
    done = subprocess.run([binary, *rest, str(COUNT)], capture_output=True, text=True, cwd=ROOT)
    total = re.search(r"^events (\d+) lines ([\d.]+) untouched ([\d.]+)$", done.stdout, re.M)
    if done.returncode or not total:
        sys.exit(f"{binary}: {done.stderr[-500:]}")
    found = [(int(code, 16), int(line, 16), int(events)) for code, line, events in
             re.findall(r"^(0x\w+) (0x\w+) (\d+)$", done.stdout, re.M)]
    named = functions(binary, sorted({code for code, *_ in found}))
    objects, sums = Objects(binary), collections.Counter()
    for code, line, events in found:
        sums[named[code], objects.name(line)] += events / int(total[1])
    return float(total[2]), float(total[3]), {place: mean for place, mean in sums.most_common() if mean >= OFTEN}


def main():
    for title, words in RUNS:
        lines, untouched, places = run(words)
        print(f"{title}: an answer touches {lines} lines of data, {untouched} of them not since the rest began")
        for (function, item), mean in places.items():
            print(f"    {mean:5.2f} {function} {item}")


if __name__ == "__main__":
    main()
