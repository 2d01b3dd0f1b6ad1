#!/usr/bin/python3
"""Runs bench_matcher over its tables, prints them, and writes build/bench/matcher.json.

Run by `make bench-matcher`. Each stream is played RUNS times (5), and the least time of each burst counts, because
other work on the machine only ever adds. QUICK=1 measures a tenth of the bursts. RECORDING=FILE measures the bursts of
a recorded contest alone, and keeps no rows."""
import os
import random
import subprocess
import sys

from tests.bench.bench_rows import ROOT, Rows

BENCH = ROOT / "build/host/tests/bench/bench_matcher"
OUT = ROOT / "build/bench/matcher.json"
RUNS = max(5, int(os.environ.get("REPEAT", "5")))
QUICK = bool(os.environ.get("QUICK"))
ASKED = {"avx512": {1000: 4.0}, "avx2": {1000: 4.0}, "scalar": {1000: 12.0}}
PREPARE_ASKED_NS = 3000
SMALL = {"small-823": "823", "small-eight": "3,7,9,11,13,823,1009,99991"}
WORST = {"zeros": "zeros", "nines": "nines", "side-by-side-M1": "side0", "side-by-side-M2": "side1", "hot": "hot0"}
K8 = ",".join(f"65536000000{i}" for i in ("01", "03", "07", "09", "21", "27", "39", "43"))
TAILS = ((42, "digit8"), (42, "random"), (42, "power2:13:4:0"), (42, "power2:21:7:21"), (200, "power2:100:31:95"))
TAILS_1024 = ((511, "random"), (511, "power2:256:78:240"))
switches = 0


def tails(power):
    """Returns eight powers of two."""
    return ",".join(str(2**(power - i)) for i in range(8))


def measure(moduli, simd, n, burst, mode, bursts):
    """Returns {name: [p50, p99]}, the command and the bursts; None first: this machine cannot run the variant."""
    global switches
    if QUICK:
        bursts = max(20, bursts // 10)
    runs = 1 if mode == "cold" else RUNS
    command = [str(BENCH), moduli, simd, str(n), str(burst), mode, str(bursts), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, "", bursts
    found, key = {}, None
    for word in done.stdout.split():
        if word[0].isalpha():
            key, found[word] = word, []
        else:
            found[key].append(float(word))
    switches += int(found["switches"][0])
    return found, "build/host/tests/bench/bench_matcher " + " ".join(command[1:]), bursts


class Table:
    """Measures rows, keeps them, and returns their text."""

    def __init__(self):
        self.rows = Rows(OUT)

    def digits(self, name, moduli, simd, n, burst, mode="warm", bursts=2000):
        found, command, bursts = measure(moduli, simd, n, burst, mode, bursts)
        p50, p99 = (value / burst for value in found["path"])
        self.rows.keep(name, "ns/digit", bursts, round(p50, 3), round(p99, 3), command)
        return found, f"{p50:.2f} ({p99:.2f})"

    def times(self, name, found, key, command, bursts):
        self.rows.keep(name, "ns", bursts, round(found[key][0], 1), round(found[key][1], 1), command)
        return f"{found[key][0]:.0f} ({found[key][1]:.0f})"


def rounds(table, simd):
    for moduli in ("online", "onsite"):
        line = f"{simd:7} {moduli:7}"
        for burst in (32, 100, 256, 1000):
            found, text = table.digits(f"matcher/{moduli}/{simd}/{burst}/warm", moduli, simd, 256, burst,
                                       bursts=2000 if burst < 1000 else 400)
            line += f"  {burst}: {text}" + (f" asked {ASKED[simd][burst]}" if burst in ASKED[simd] else "")
        print(line, flush=True)
    for burst in (32, 100):
        _, text = table.digits(f"matcher/online/{simd}/{burst}/cold", "online", simd, 256, burst, "cold", 300)
        print(f"{simd:7} online, cold, {burst}: {text}", flush=True)
    for mode, key, name in (("first", "path", "first-answer"), ("early", "idle", "early"),
                            ("early", "slice", "early-slice")):
        found, command, bursts = measure("online", simd, 256, 100, mode, 2000)
        print(f"{simd:7} {name}: {table.times(f'matcher/online/{simd}/{name}', found, key, command, bursts)} ns")


def windows(table, simd):
    for n in (16, 64, 128, 256, 257, 300, 512, 768, 1024):
        found, command, bursts = measure("online", simd, n, 100, "warm", 1000)
        table.rows.keep(f"matcher/n/{n}/{simd}", "ns/digit", bursts, round(found["path"][0] / 100, 3),
                        round(found["path"][1] / 100, 3), command)
        text = table.times(f"matcher/n/{n}/{simd}/prepare", found, "idle", command, bursts)
        print(f"{simd:7} N = {n}: {found['path'][0] / 100:.2f} ns a digit, preparation {text} ns, asked "
              f"{PREPARE_ASKED_NS}",
              flush=True)


def steps(table, simd):
    """Measures where a variant's vectors of partial sums become fewer. The table has no step over N."""
    for n in (384, 385, 512, 768, 769, 1024):
        line = f"{simd:7} N = {n}"
        for burst in (32, 100, 256, 1000):
            _, text = table.digits(f"matcher/n/{n}/{simd}/{burst}", "online", simd, n, burst,
                                   bursts=1000 if burst < 256 else 200)
            line += f"  {burst}: {text}"
        print(line, flush=True)


def worst(table, simd, n, scale):
    """Measures the worst cases. The bound is 60 ns a digit and 250 ns an answer at N = 256, four times that at N =
    1024."""
    cases = [(name, "online", mode, 100, 200) for name, mode in WORST.items()]
    cases += [(name, moduli, "warm", 100, 100 if n == 256 else 20) for name, moduli in SMALL.items()]
    cases += [("long-20000", "online", "warm", 20000, 20), ("zeros-K8", K8, "zeros", 1000, 20)]
    cases += [(f"tails-{power}-{mode}", tails(power), mode, 100, 100)
              for power, mode in (TAILS if n == 256 else TAILS_1024)]
    for name, moduli, mode, burst, bursts in cases:
        found, command, bursts = measure(moduli, simd, n, burst, mode, bursts)
        answers = found["answers"][0] / (bursts + 200) / burst
        bound = scale * (60 + 250 * answers)
        label = f"matcher/worst/{name}/{simd}" if n == 256 else f"matcher/n/{n}/worst/{name}/{simd}"
        p50, p99 = (value / burst for value in found["path"])
        table.rows.keep(label, "ns/digit", bursts, round(p50, 3), round(p99, 3), command,
                        answers_a_digit=round(answers, 4),
                        bound=round(bound, 1))
        poll = table.times(label + "/poll", found, "poll", command, bursts) if burst > 256 else "-"
        print(f"{simd:7} N = {n} {name}: {p50:.1f} ns a digit, {answers:.3f} answers a digit, bound {bound:.0f}"
              f"{'' if p50 <= bound else ' EXCEEDED'}; polled each {poll} ns", flush=True)


def moduli_rows(table, simd):
    draw = random.Random(20220217)
    for bits in (13, 14, 15, 20, 30, 43, 44, 64, 128, 256, 512):
        modulus = str(draw.getrandbits(bits) | 1 << (bits - 1) | 1)
        _, text = table.digits(f"matcher/bits/{bits}/{simd}", modulus, simd, 256, 100, bursts=600)
        print(f"{simd:7} one modulus of {bits} bits: {text}")
    for count in (1, 2, 4, 8):
        for bits in (40, 128):
            moduli = ",".join(str(draw.getrandbits(bits) | 1 << bits - 1 | 1) for _ in range(count))
            _, text = table.digits(f"matcher/moduli/{count}/{bits}/{simd}", moduli, simd, 256, 100, bursts=600)
            print(f"{simd:7} {count} moduli of {bits} bits: {text}", flush=True)


def recording(simd, path):
    """Measures the bursts of a recorded contest, in nanoseconds a burst."""
    found, _, bursts = measure(f"recording:{path}", simd, 0, 0, "warm", 2000)
    early = measure(f"recording:{path}", simd, 0, 0, "early", 2000)[0]
    p50, p99 = found["path"]
    print(f"{simd:7} {path}: {p50:.0f} ({p99:.0f}) ns a burst, idle work with early answers {early['idle'][0]:.0f} "
          f"({early['idle'][1]:.0f}), {found['answers'][0]:.0f} answers in {bursts + 200} bursts", flush=True)


def main():
    load = os.getloadavg()[0]
    table = Table()
    print(f"{table.rows.machine}, {table.rows.commit}; p50 (p99) over the least of {RUNS} runs of each burst, ns a "
          f"digit")
    if load > 0.3 * (os.cpu_count() or 1):
        print(f"WARNING: the machine is busy (load {load:.1f}): these figures are upper bounds")
    for simd in ("avx512", "avx2", "scalar"):
        if measure("online", simd, 16, 32, "warm", 20)[0] is None:
            continue
        if os.environ.get("RECORDING"):
            recording(simd, os.environ["RECORDING"])
            continue
        rounds(table, simd)
        windows(table, simd)
        steps(table, simd)
        worst(table, simd, 256, 1)
        worst(table, simd, 1024, 4)
        moduli_rows(table, simd)
    if switches > 100:
        print(f"WARNING: the benchmark lost its CPU {switches} times: somebody else was at work")
    if os.environ.get("RECORDING"):
        return
    print(f"{len(table.rows.rows)} rows in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
