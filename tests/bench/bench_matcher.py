#!/usr/bin/python3
"""Runs bench_matcher over the tables of docs/matcher.md, prints them, and writes build/bench/matcher.json.

Run by `make bench-matcher`. Figures are medians over bursts; a row is measured REPEAT times and the run with the least
median is kept, because other work on the machine only ever adds. QUICK=1 measures a tenth of the bursts."""
import os
import random
import subprocess
import sys

from bench_rows import ROOT, Rows

BENCH = ROOT / "build/host/tests/bench/bench_matcher"
OUT = ROOT / "build/bench/matcher.json"
REPEAT = int(os.environ.get("REPEAT", "5"))
BURSTS = 400 if os.environ.get("QUICK") else 4000
ASKED = {"avx512": {32: 2.5, 100: 2.0, 256: 2.0, 1000: 2.0, "prepare": 1500},
         "avx2": {32: 4, 100: 3, 256: 3, 1000: 3, "prepare": 2000},
         "scalar": {32: 10, 100: 8, 256: 8, 1000: 8, "prepare": 4000}}

def run(constants, simd, n, burst, mode, bursts, *second_cpu):
    """{name: [p50, p99]} of one run (None: the machine cannot), and its command."""
    command = [str(BENCH), constants, simd, str(n), str(burst), mode, str(bursts), *map(str, second_cpu)]
    done = subprocess.run(command, capture_output=True, text=True)
    found, key = {}, None
    for word in done.stdout.split():
        if word[0].isalpha():
            key, found[word] = word, []
        else:
            found[key].append(float(word))
    return found if done.returncode == 0 else None, "build/host/tests/bench/bench_matcher " + " ".join(command[1:])


def measure(constants, simd, n, burst, mode, bursts=None):
    """The best of REPEAT runs as a dict of lists, and the command."""
    bursts = bursts or BURSTS
    best = None
    for _ in range(1 if mode == "cold" else REPEAT):
        found, command = run(constants, simd, n, burst, mode, bursts)
        if found is None:
            return None, None, bursts
        if best is None or found["path"][0] < best["path"][0]:
            best = found
    return best, command, bursts


def usable(simd):
    return measure("online", simd, 16, 32, "warm", 10)[0] is not None


def main():
    rows = Rows(OUT)

    def row(name, unit, n, p50, p99, command):
        rows.keep(name, unit, n, round(p50, 3), round(p99, 3), command)

    variants = [simd for simd in ("avx512", "avx2", "scalar") if usable(simd)]
    print(f"{rows.machine}, {rows.commit}; ns a digit, p50 (p99), asked")
    for simd in variants:
        for constants in ("online", "onsite"):
            line = f"{simd:7} {constants:7}"
            for burst in (32, 100, 256, 1000):
                found, command, bursts = measure(constants, simd, 256, burst, "warm")
                row(f"matcher/{constants}/{simd}/{burst}/warm", "ns/digit", bursts, found["path"][0] / burst,
                    found["path"][1] / burst, command)
                line += f"  {burst}: {found['path'][0] / burst:.2f} ({found['path'][1] / burst:.2f}) {ASKED[simd][burst]}"
                if burst == 100:
                    row(f"matcher/{constants}/{simd}/prepare", "ns", bursts, *found["idle"], command)
                    prepare = f"  prepare: {found['idle'][0]:.0f} ({found['idle'][1]:.0f}) {ASKED[simd]['prepare']}"
                    row(f"matcher/{constants}/{simd}/memory", "bytes", 1, found["memory"][0], found["memory"][0], command)
                    row(f"matcher/{constants}/{simd}/path-memory", "bytes", 1, found["path_bytes"][0],
                        found["path_bytes"][0], command)
                    memory = found["memory"][0], found["path_bytes"][0]
            print(line + prepare, flush=True)
        for burst in (32, 100):
            found, command, bursts = measure("online", simd, 256, burst, "cold", 300 if BURSTS > 400 else 50)
            row(f"matcher/online/{simd}/{burst}/cold", "ns/digit", bursts, found["path"][0] / burst,
                found["path"][1] / burst, command)
            print(f"{simd:7} online, cold, {burst}: {found['path'][0] / burst:.1f} ({found['path'][1] / burst:.1f})"
                  + (" 25" if (simd, burst) == ("avx512", 100) else ""), flush=True)
        print(f"{simd:7} memory {memory[0]:.0f} bytes, of which a burst of 100 digits touches {memory[1]:.0f}")
        found, command, bursts = measure("online", simd, 256, 100, "first")
        row(f"matcher/online/{simd}/first-answer", "ns", bursts, *found["path"], command)
        print(f"{simd:7} first answer, at the last of 100 digits: {found['path'][0]:.0f} ns ({found['path'][1]:.0f}) 250")
        found, command, bursts = measure("online", simd, 256, 100, "early")
        row(f"matcher/online/{simd}/early", "ns", bursts, *found["idle"], command)
        row(f"matcher/online/{simd}/early-slice", "ns", bursts, *found["slice"], command)
        row(f"matcher/online/{simd}/early-path", "ns/digit", bursts, found["path"][0] / 100, found["path"][1] / 100, command)
        print(f"{simd:7} with early answers: path {found['path'][0] / 100:.2f}, idle work {found['idle'][0]:.0f} ns a "
              f"burst ({found['idle'][1]:.0f}) 200000, longest slice {found['slice'][0]:.0f} ({found['slice'][1]:.0f}) 5000")
        if (os.cpu_count() or 1) > 1:
            found, command, bursts = measure("online", simd, 256, 100, "second")
            row(f"matcher/online/{simd}/second", "ns", bursts, *found["idle"], command)
            row(f"matcher/online/{simd}/second-path", "ns/digit", bursts, found["path"][0] / 100, found["path"][1] / 100,
                command)
            print(f"{simd:7} with early answers on a second CPU: path {found['path'][0] / 100:.2f}, idle work "
                  f"{found['idle'][0]:.0f} ns a burst ({found['idle'][1]:.0f}), longest slice {found['slice'][0]:.0f} "
                  f"({found['slice'][1]:.0f})")
        line = f"{simd:7} by N:"
        for n in (16, 64, 128, 256, 512, 1024):
            found, command, bursts = measure("online", simd, n, 100, "warm")
            row(f"matcher/n/{simd}/{n}", "ns/digit", bursts, found["path"][0] / 100, found["path"][1] / 100, command)
            line += f"  {n}: {found['path'][0] / 100:.2f}"
        print(line)
        draw = random.Random(20220217)
        line = f"{simd:7} by bits (one constant):"
        for bits in (44, 64, 128, 256, 512):
            constant = str(draw.getrandbits(bits) | 1 << (bits - 1) | 1)
            found, command, bursts = measure(constant, simd, 256, 100, "warm")
            row(f"matcher/bits/{simd}/{bits}", "ns/digit", bursts, found["path"][0] / 100, found["path"][1] / 100, command)
            line += f"  {bits}: {found['path'][0] / 100:.2f}"
        print(line)
        line = f"{simd:7} by constants (128 bits):"
        for count in (1, 2, 4, 8):
            constants = ",".join(str(draw.getrandbits(128) | 1 << 127 | 1) for _ in range(count))
            found, command, bursts = measure(constants, simd, 256, 100, "warm")
            row(f"matcher/constants/{simd}/{count}", "ns/digit", bursts, found["path"][0] / 100, found["path"][1] / 100, command)
            line += f"  {count}: {found['path'][0] / 100:.2f}"
        print(line, flush=True)
    print(f"{len(rows.rows)} rows in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
