"""Runs the fuzz targets for hours, two at a time: `make fuzz HOURS=8`.

The targets take turns of two minutes, each from a fresh seed, and start from what earlier turns have found
(build/fuzz/corpus). A crash is kept in build/fuzz/crashes; build/fuzz/NAME FILE repeats it. Each turn adds a line to
build/fuzz/runs.jsonl. At the end a table gives the sums of all lines: inputs, CPU seconds, edges of code reached."""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
RUNS = BUILD / "fuzz/runs.jsonl"
STACKS = ["lwip", "own"]
TURN_SECONDS = 120
AT_ONCE = 2


@dataclasses.dataclass
class Run:
    """One turn of a target. `edges` counts the edges of code that its corpus reaches."""
    target: str
    seed: int
    status: int
    inputs: int
    cpu_seconds: float
    edges: int


def targets():
    """Yields the names of all targets, as in build/fuzz/NAME."""
    for source in sorted(HERE.glob("*_fuzz.c")):
        name = source.stem.removesuffix("_fuzz")
        if name.endswith("_stack"):
            yield from (f"{name.removesuffix('_stack')}-{stack}" for stack in STACKS)
        else:
            yield name


def play(name, seconds, seed):
    """Plays the committed corpus and what was found before, then new inputs, for `seconds` in all. Returns the run and
    the target's output."""
    crashes, found = BUILD / "fuzz/crashes", BUILD / "fuzz/corpus" / name
    crashes.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    seeds = [folder for folder in (HERE / "corpus" / name.split("-")[0],) if folder.is_dir()]
    log = BUILD / f"fuzz/{name}.log"
    with log.open("w") as output:
        child = subprocess.Popen([BUILD / "fuzz" / name, f"-max_total_time={seconds}", f"-seed={seed}",
                                  "-max_len=4096", "-timeout=30", "-print_final_stats=1",
                                  f"-artifact_prefix={crashes}/{name}-", found, *seeds],
                                 stdout=output, stderr=output, cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    inputs = re.findall(r"number_of_executed_units: (\d+)", text)
    edges = re.findall(r" cov: (\d+)", text)
    run = Run(name, seed, child.returncode, int(inputs[-1]) if inputs else 0,
              round(usage.ru_utime + usage.ru_stime, 1), int(edges[-1]) if edges else 0)
    with RUNS.open("a") as runs:
        runs.write(json.dumps(dataclasses.asdict(run)) + "\n")
    return run, text


def table():
    """Returns the sums of all runs, a row a target, as Markdown."""
    runs = [json.loads(line) for line in RUNS.read_text().splitlines()]
    rows = ["| target | inputs | CPU seconds | edges reached |", "|---|--:|--:|--:|"]
    for name in sorted({run["target"] for run in runs}):
        own = [run for run in runs if run["target"] == name]
        rows.append(f"| {name} | {sum(run['inputs'] for run in own):,} | "
                    f"{sum(run['cpu_seconds'] for run in own):,.0f} | {max(run['edges'] for run in own):,} |")
    rows.append(f"| all | {sum(run['inputs'] for run in runs):,} | "
                f"{sum(run['cpu_seconds'] for run in runs):,.0f} | |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=8, help="hours of CPU in all (%(default)s)")
    parser.add_argument("--seed", type=int, help="the first turn's seed; drawn if not given")
    arguments = parser.parse_args()
    names = list(targets())
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1, 1 << 31)
    each = min(TURN_SECONDS, max(1, int(arguments.hours * 3600 / len(names))))
    turns = max(len(names), round(arguments.hours * 3600 / each))
    print(f"fuzz: {len(names)} targets, {turns} turns of {each} s, {AT_ONCE} at a time, seeds from {seed}", flush=True)
    crashed, spent, begin = [], 0.0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(play, names[turn % len(names)], each, seed + turn) for turn in range(turns)]
        for done in concurrent.futures.as_completed(waiting):
            run, text = done.result()
            spent += run.cpu_seconds
            print(f"fuzz: {run.target}, seed {run.seed}: {run.inputs:,} inputs, {run.edges:,} edges; "
                  f"{spent / 3600:.2f} CPU hours in {(time.monotonic() - begin) / 60:.0f} min", flush=True)
            if run.status != 0:
                crashed.append(run.target)
                print("\n".join(text.splitlines()[-40:]), flush=True)
    print(table())
    if crashed:
        sys.exit(f"fuzz: {len(crashed)} turns failed: {' '.join(sorted(set(crashed)))}; see build/fuzz/crashes")


if __name__ == "__main__":
    main()
