#!/usr/bin/python3
"""Compares ways to balance over machines of unequal speed: the variants of balance.py, with the same load in turn.

    unshare -n tests/balance/unequal.py [--check]

Wants a network namespace of its own. Three programs over Linux sockets: `a` has cpus=2, `b` has cpus=1, and `c` has
cpus=1 and simd=scalar, so each of its rounds takes several times as long. They share the processors with HAProxy and
wrk, which sends chains of random length without a pause.

Measures REPEAT times SECONDS for each variant and count of connections, in turn, so that other work meets all of them.
Prints a table, writes build/bench/balance.json and the table of docs/balance.md. `--check`: one variant for a moment;
prints the weights and the counts as JSON."""
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tests.balance import balance
from tests.bench.bench_rows import Rows
from workshop.vm import qemu

OUT = balance.BUILD / "bench/balance.json"
PAGE = balance.ROOT / "docs/balance.md"
FULL = "rounds.full=25000000"                   # two CPUs with AVX-512 have 220 % of it
SECONDS, WARM_S, WEIGHTS_S = 3, 1, 0.25
REPEAT = int(os.environ.get("REPEAT", "8"))
CONNECTIONS = (4, 32)
# Nine of ten requests are short. The seed is fixed: each run sends the same requests.
MIX = """
local paths = {}
function init(args)
  math.randomseed(1)
  for i = 1, 1000 do
    local rounds = i % 10 == 0 and math.random(20000, 40000) or math.random(100, 4000)
    paths[i] = wrk.format(nil, "/sha256?rounds=" .. rounds)
  end
end
local n = 0
function request()
  n = n % 1000 + 1
  return paths[n]
end
"""
TITLE = ("| connections | balancing | requests/s | p50 | p99 | over 1 s, of 1,000 | failed |\n"
         "|--:|---|--:|--:|--:|--:|--:|")
BEGIN, END = "<!-- figures: made by `make bench-balance` -->\n", "<!-- figures: end -->"


def used_s(process):
    """Returns the processor time of all threads of a process: clock_getcpuclockid(3)."""
    return time.clock_gettime(~process << 3 | 2)


def weights_of(folder):
    rows = balance.balancer_rows(folder)
    return [int(rows[name]["weight"]) for name in "abc"]


def wrk(folder, connections, seconds):
    return subprocess.Popen(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "5s", "-s",
                             folder / "mix.lua", "http://127.0.0.1:8080/"], stdout=subprocess.PIPE, text=True,
                            preexec_fn=qemu.die_with_parent)


def result(load):
    return json.loads(load.communicate()[0].splitlines()[-1])


def play(folder, connections, seconds):
    """Returns wrk's counts, and the medians of the weights that the machines had meanwhile."""
    weights = []
    with wrk(folder, connections, seconds) as load:
        while load.poll() is None:
            weights.append(weights_of(folder))
            time.sleep(WEIGHTS_S)
        return {**result(load), "weights": [statistics.median(column) for column in zip(*weights)]}


@contextlib.contextmanager
def machines_in(folder):
    balance.set_up_network("hosted")
    (folder / "mix.lua").write_text(balance.WRK_SCRIPT + MIX)
    machines = [balance.Hosted(0, FULL, "cpus=2"), balance.Hosted(1, FULL), balance.Hosted(2, FULL, "simd=scalar")]
    with contextlib.ExitStack() as stack:
        balance.start_machines(machines, stack)
        yield machines


def measure(machines, folder, variant, connections):
    """Returns the counts of one run, with the processor time of each machine."""
    with balance.balanced(machines, folder, variant):
        play(folder, connections, WARM_S)
        before = [used_s(m.process.pid) for m in machines]
        found = play(folder, connections, SECONDS)
        found["used_s"] = [round(used_s(m.process.pid) - s, 2) for m, s in zip(machines, before)]
    print(f"{variant}, {connections} connections: {json.dumps(found)}", flush=True)
    return found


def check(folder):
    """Returns the weights of idle machines, and the counts of a load that has lowered one of them."""
    with machines_in(folder) as machines, balance.balanced(machines, folder, "leastconn+agent"):
        balance.wait_for(lambda: balance.agents_answered(folder), "the agents answer")
        idle = weights_of(folder)
        for name, states in (("a", ("agent down",)), ("b", ("state maint",)), ("c", ("state drain", "agent down"))):
            for state in states:            # as an agent before the flight may have left it
                assert not balance.ask_balancer(folder, f"set server machines/{name} {state}").strip()
        balance.wait_for(lambda: all(row["status"] == "UP" for name, row in balance.balancer_rows(folder).items()
                                     if name in "abc"), "the agents have ended the states of others")
        with wrk(folder, 16, balance.PATIENCE_S) as load:
            balance.wait_for(lambda: weights_of(folder)[0] < 0.9 * idle[0], "the busy machine has less weight")
            balance.wait_for(lambda: sum(balance.requests_of(folder).values()) > 300, "300 requests")
            load.send_signal(signal.SIGINT)
            return {**result(load), "idle_weights": idle, "requests_of": balance.requests_of(folder)}


def keep_rows(rows, variant, connections, runs):
    """Keeps the medians of the runs, and the sums of what failed and of what was slow."""
    count, (failed, over) = sum(run["requests"] for run in runs), (sum(run[what] for run in runs)
                                                                   for what in ("failed", "over_1_s"))
    name, command = f"balance/{connections}/{variant}", f"wrk -t1 -c{connections} -d{SECONDS}s; make bench-balance"
    p50, p99 = (round(statistics.median(run[what] for run in runs) / 1000, 1) for what in ("p50_us", "p99_us"))
    rate = statistics.median(run["requests"] / run["us"] * 1e6 for run in runs)
    rows.keep(f"{name}/response", "ms", count, p50, p99, command, runs=len(runs), over_1_s=over, failed=failed)
    rows.keep(f"{name}/rate", "requests/s", count, round(rate), None, command)


def table(rows):
    """Returns the table of the page from the rows of the JSON file."""
    lines = [TITLE]
    for response in (row for row in rows if row["name"].endswith("/response")):
        name = response["name"].removesuffix("/response")
        rate = next(row for row in rows if row["name"] == f"{name}/rate")
        _, connections, variant = name.split("/")
        words = variant.replace("+agent", ", weights by agent")
        lines.append(f"| {connections} | {words} | {rate['p50']:,} | {response['p50']} ms | {response['p99']} ms | "
                     f"{response['over_1_s'] * 1000 / response['n']:.1f} | {response['failed']} |")
    first = rows[0]
    note = (f"Commit {first['commit']} on {first['machine']}: medians of {first['runs']} runs of {SECONDS} s in turn; "
            f"the last two\ncolumns are of all runs. Other work kept {first['others']} processors busy.")
    return "\n".join([note, "", *lines, ""])


def write_page(rows):
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + table(rows) + END + rest.partition(END)[2])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if "--check" in sys.argv:
            print(json.dumps(check(folder)))
            return
        rows = Rows(OUT)            # measures other work from here on
        plans = [(variant, connections) for connections in CONNECTIONS for variant in balance.VARIANTS]
        found = {plan: [] for plan in plans}
        with machines_in(folder) as machines:
            for _ in range(REPEAT):
                for plan in plans:
                    found[plan].append(measure(machines, folder, *plan))
    for plan in plans:
        keep_rows(rows, *plan, found[plan])
    print(table(rows.rows))
    write_page(rows.rows)


if __name__ == "__main__":
    main()
