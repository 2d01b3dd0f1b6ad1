#!/usr/bin/python3
"""What work on another CPU costs the one that plays: prints a table, writes build/bench/sibling.json.

Run by `make bench-sibling`. One CPU plays, the other does one of LOADS (bench_load.c): on two hyperthreads of one core if
/sys tells of any, and on two CPUs that share none. The cases take turns, REPEAT times; each keeps the run with the least
median, because other work on the machine only ever adds. `spread` is the largest median less that one, `ratio` the
median over the one beside nothing, of this very run. A guest's /sys says what its host lets it know: where `spin` costs
much on CPUs that are said to share no core, they share one. QUICK=1 measures a tenth, REPEAT=15 is the default."""
import contextlib
import os
import pathlib
import subprocess
import sys

import bench_matcher
import bench_net
from bench_rows import ROOT, Rows

LOAD = ROOT / "build/host/tests/bench/bench_load"
OUT = ROOT / "build/bench/sibling.json"
SYS = pathlib.Path("/sys/devices/system/cpu")
BURSTS = 200 if bench_net.QUICK else 2000
REPEAT = int(os.environ.get("REPEAT", "15"))
LOADS = {"nothing": "nothing, as in hlt", "idle": "the second CPU's loop, nothing to do", "work": "early answers without end",
         "pause": "a loop of PAUSE", "spin": "an empty loop"}
PAIRS = {"siblings": "two hyperthreads of one core", "apart": "two CPUs that share no core"}


def cpu_list(text):
    """The kernel's list format: "0-2,8" is {0, 1, 2, 8}."""
    cpus = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def pairs(tree, usable):
    """{"siblings": (CPU, CPU) or None, "apart": the same}, the first of each among the CPUs that may be used."""
    cores = {}
    for cpu in sorted(usable):
        listed = tree / f"cpu{cpu}/topology/thread_siblings_list"
        if listed.exists():             # not of a CPU that is off line
            cores[cpu] = cpu_list(listed.read_text())
    both = [(a, b) for a in cores for b in cores if a < b]
    return {"siblings": next((pair for pair in both if pair[1] in cores[pair[0]]), None),
            "apart": next((pair for pair in both if pair[1] not in cores[pair[0]]), None)}


@contextlib.contextmanager
def beside(load, cpu):
    """While `load` runs on `cpu`."""
    if load == "nothing":
        yield
        return
    with subprocess.Popen([LOAD, str(cpu), load], stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout.readline() != f"on CPU {cpu}\n":
                sys.exit(f"bench_load: CPU {cpu} is not to be had")
            yield
        finally:
            process.kill()


def matcher(mode, *second_cpu):
    found, command = bench_matcher.run("online", "auto", 256, 100, mode, BURSTS, *second_cpu)
    if found is None:
        sys.exit(f"{command}: failed")
    return found["path"], command


def burst_to_post():
    found, command = bench_net.run("own", "burst-to-post", "warm", BURSTS)
    return found["burst-to-post"], command


def cases(first, second):
    """(what is timed, beside what, the times' function): one matcher's path beside each load; its path with the early
    answers in its own idle time, and with those on the second CPU, which hand the digits over; and the whole path."""
    table = [("matcher", load, lambda: matcher("warm")) for load in LOADS]
    table += [("matcher", "early, same CPU", lambda: matcher("early")),
              ("matcher", "early, second CPU", lambda: matcher("second", second))]
    return table + [("burst-to-post", load, burst_to_post) for load in LOADS]


def measure(first, second, repeat):
    """{(what, beside what): (p50, p99, spread, command)}"""
    os.sched_setaffinity(0, {first})    # the programs stay where they are started
    runs = {}
    for _ in range(repeat):
        for what, load, times in cases(first, second):
            with beside(load if load in LOADS else "nothing", second):
                runs.setdefault((what, load), []).append(times())
    found = {}
    for case, done in runs.items():
        medians = [p50 for (p50, _), _ in done]
        (p50, p99), command = done[medians.index(min(medians))]
        found[case] = p50, p99, max(medians) - p50, f"taskset -c {first} {command}"
    return found


def main(out=OUT, tree=SYS, repeat=REPEAT):
    usable = os.sched_getaffinity(0)
    rows, found_pairs = Rows(out), pairs(tree, usable)
    print(f"{rows.machine}, {rows.commit}; ns a burst of 100 digits, p50 (p99), ratio, spread; best of {repeat} in turn")
    for name, pair in found_pairs.items():
        if pair is None:
            print(f"{name}: not measured, this machine tells of no {PAIRS[name]}")
            continue
        print(f"{name}: {PAIRS[name]}, CPU {pair[0]} plays, beside it CPU {pair[1]}")
        found = measure(*pair, repeat)
        for (what, load), (p50, p99, spread, command) in found.items():
            ratio = p50 / found[what, "nothing"][0]
            if load in LOADS and load != "nothing":
                command += f"   # beside bench_load {pair[1]} {load}"
            rows.keep(f"sibling/{name}/{what}/{load.replace(', ', '-').replace(' ', '-')}", "ns", BURSTS,
                      round(p50, 1), round(p99, 1), command, spread=round(spread, 1), ratio=round(ratio, 3))
            print(f"  {what:14}{LOADS.get(load, load):38}{p50:9.1f} ({p99:7.1f}){ratio:7.2f}{spread:8.1f}", flush=True)
        os.sched_setaffinity(0, usable)
    print(f"{len(rows.rows)} rows in {out}")


if __name__ == "__main__":
    main()
