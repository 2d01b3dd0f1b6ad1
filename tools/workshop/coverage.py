#!/usr/bin/python3
"""Counts which lines and branches the tests reach, and writes build/bench/coverage.json. Run by `make coverage`.

Builds build/coverage, and plays there the unit programs, the timelines, the simulation, and the tests of the hosted
player and of the library. Prints the folders below 95 % of lines, and the functions there that nothing reaches. Exits
1 if app, base, drivers or net is such a folder."""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys

from command_line import add_version, until_enough
from workshop import measured

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = "build/coverage"
FOLDERS = ("unit", "wire", "sim", "hosted", "netlib")
# Hosted programs that their folders' tests play among slow ones.
PROGRAMS = (("test/transport/contract_test-own",), ("host/tests/flood/flood", "mixed", "100"))
PRODUCT = ("net", "app", "drivers", "base", "kernel", "host")
LINES_PERCENT_MIN = 95
HELD = ("app", "base", "drivers", "net")       # the run fails if a folder of these has less


def measure():
    """Builds, plays, and returns gcovr's report."""
    environment = {**os.environ, "BUILD": TREE, "COVERAGE": "1", "CCACHE_DISABLE": "1"}
    shutil.rmtree(ROOT / TREE, ignore_errors=True)        # counts of files that are gone, too
    make = ["make", "-s", "--no-print-directory", f"-j{os.cpu_count()}", f"BUILD={TREE}", "COVERAGE=1"]
    programs = [f"{TREE}/{program}" for program, *_ in PROGRAMS]
    subprocess.run([*make, "needs", *programs, "IN=" + " ".join(FOLDERS)], cwd=ROOT, env=environment, check=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "--dist", "loadgroup", "-m", "not slow"]
    subprocess.run([*pytest, *(f"tests/{folder}" for folder in FOLDERS)], cwd=ROOT, env=environment)
    for program, *words in PROGRAMS:
        subprocess.run([ROOT / TREE / program, *words], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    filters = [word for folder in PRODUCT for word in ("--filter", f"{folder}/")]
    report = ROOT / TREE / "coverage.json"
    # No test takes the branch of an assertion that fails.
    gcovr = ["gcovr", "--root", ".", *filters, "--exclude", "net/lwip/", "--exclude-throw-branches",
             "--exclude-branches-by-pattern", r".*\bASSERT\(.*", "-j", str(os.cpu_count()), "--json", report, TREE]
    subprocess.run(gcovr, cwd=ROOT, check=True)
    return json.loads(report.read_text())


def folder_of(path):
    return "/".join(path.split("/")[:-1][:2])


def count(report):
    """Returns {folder: [lines, lines reached, branches, branches taken]} and {folder: functions not reached}."""
    table, missed = collections.defaultdict(lambda: [0, 0, 0, 0]), collections.defaultdict(list)
    for file in report["files"]:
        path = file["file"]
        lines = {}
        for line in file["lines"]:
            if line.get("gcovr/noncode"):
                continue
            known = lines.setdefault(line["line_number"], [0, {}])
            known[0] += line["count"]
            for index, branch in enumerate(line["branches"]):
                known[1][index] = known[1].get(index, 0) + branch["count"]
        for folder in {folder_of(path), path.split("/")[0]}:
            row = table[folder]
            row[0] += len(lines)
            row[1] += sum(1 for hits, _ in lines.values() if hits)
            row[2] += sum(len(branches) for _, branches in lines.values())
            row[3] += sum(1 for _, branches in lines.values() for hits in branches.values() if hits)
        reached = collections.defaultdict(int)
        where = {}
        for function in file.get("functions", []):
            reached[function["name"]] += function["execution_count"]
            where[function["name"]] = function["lineno"]
        missed[folder_of(path)] += [f"{path}:{where[name]}: {name}" for name, hits in reached.items() if not hits]
    return dict(sorted(table.items())), missed


def percent(part, whole):
    return 100 * part / whole if whole else 100.0


def write(table):
    more = {"p99": None, "machine": measured.processor(), "commit": measured.commit(), "command": "make coverage"}
    rows = []
    for folder, (lines, reached, branches, taken) in table.items():
        for kind, part, whole in (("lines", reached, lines), ("branches", taken, branches)):
            rows.append({"name": f"coverage/{folder}/{kind}", "unit": "%", "n": whole,
                         "p50": round(percent(part, whole), 1), **more})
    out = ROOT / "build/bench/coverage.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_version(parser)
    parser.parse_args()
    table, missed = count(measure())
    write(table)
    print(f"{'folder':20} {'lines':>7} {'reached':>8} {'branches':>9} {'taken':>7}")
    for folder, (lines, reached, branches, taken) in table.items():
        print(f"{folder:20} {lines:7} {percent(reached, lines):6.1f} % {branches:9} {percent(taken, branches):5.1f} %")
    for folder, functions in sorted(missed.items()):
        lines, reached = table[folder][:2]
        if functions and percent(reached, lines) < LINES_PERCENT_MIN:
            print(f"\n{folder}: below {LINES_PERCENT_MIN} % of lines; nothing reaches")
            print("\n".join(f"  {function}" for function in functions))
    return [folder for folder in HELD if percent(*table[folder][1::-1]) < LINES_PERCENT_MIN]


if __name__ == "__main__":
    sys.exit(1 if until_enough(main) else 0)
