#!/usr/bin/python3
"""Runs bench_net with our stack and with lwIP in turn, and bench_card with each card; prints a table, writes
build/bench/net.json.

`make bench-net` runs this program. A row is measured REPEAT times with each stack in turn. The table keeps the least
median and the least 99th percentile of these runs, because other work on the machine only adds time. `spread` is the
largest median less the least, of each part by itself. QUICK=1 measures a tenth. tests/bench/bench_net.c says which time
each row measures, and of how many events a sample of a short row is the mean. tests/bench/bench_card.c has the rows of
cards: net/CARD/receive, net/CARD/send."""
import os
import subprocess
import sys

from tests.bench.bench_rows import ROOT, Rows

BUILD = ROOT / os.environ.get("BUILD", "build")
OUT = BUILD / "bench/net.json"
REPEAT = int(os.environ.get("REPEAT", "5"))
QUICK = bool(os.environ.get("QUICK"))
STACKS = ("own", "lwip")
WARM, COLD, BULK, RATE = (1000, 30, 100, 10000) if QUICK else (10000, 150, 1000, 100000)
MANY = 100000       # have quantiles beyond p99: the part `tail` has p99.9 and p99.99

# Row, kind of run, samples, and the bounds for our stack: ns, and times lwIP's.
ROWS = [("segment-in", "warm", WARM, 60, 0.25), ("segment-in-sum", "warm", WARM, 60, 0.25),
        ("answer-out", "warm", WARM, 80, 0.25), ("burst-to-post", "warm", WARM, "500 (1000)", None),
        ("segment-in", "cold", COLD, None, 0.5), ("answer-out", "cold", COLD, None, 0.5),
        ("burst-to-post", "cold", COLD, None, 0.5), ("burst-to-post", "rested", COLD, None, None),
        ("bulk", "warm", BULK, None, None), ("bulk-sum", "warm", BULK, None, None),
        ("trade", "warm", WARM, 150, None), ("trade", "rested", COLD, 500, None),
        ("trade", "single", MANY, None, None), ("trade-bulk", "warm", BULK, 30, None),
        ("trade-rate", "warm", RATE, None, None),
        ("segment-in", "captured", WARM, None, None), ("answer-out", "captured", WARM, None, None),
        ("burst-to-post", "captured", WARM, None, None), ("bulk", "captured", BULK, None, None)]
CARDS = ("virtio", "gqi-lists", "gqi-raw", "dqo-raw")
CARD_ROWS = ("receive", "send")
SLOWER_NS = 20      # a gVNIC than virtio's card, at most
BATCH_BITS = 40 * 1460 * 8      # a `bulk` batch: BULK_COUNT full frames; timestamps take 12 bytes of each


def run(*command):
    """Returns {part: (p50, p99, samples, events a sample)} of one run, and the clock's (step, reading)."""
    done = subprocess.run([BUILD.parent / command[0], *command[1:]], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    found = {part: tuple(map(float, figures)) for part, *figures in map(str.split, done.stdout.splitlines())}
    return found, found.pop("clock")


def measure(commands):
    """Runs commands, {name: words}, in turn. Returns {name: ({part: figures}, a command)}, the clock's (step, reading).

    The figures of a part are those that Rows.keep takes."""
    runs = {name: [] for name in commands}
    for _ in range(REPEAT):
        for name, command in commands.items():
            found, clock = run(*command)
            runs[name].append(found)
    best = {}
    for name, done in runs.items():
        parts = {}
        for part in done[0]:
            p50, p99, samples, events = zip(*(found[part] for found in done))
            parts[part] = {"p50": min(p50), "p99": min(p99), "spread": max(p50) - min(p50), "n": int(samples[0]),
                           "events": int(events[0])}
        best[name] = parts, " ".join(commands[name])
    return best, clock


def main():
    rows = Rows(OUT)

    def keep(name, unit, figures, command):
        rows.keep(name, unit, command=command, clock_step_ns=clock[0],
                  **{key: round(value, 1) for key, value in figures.items()})

    print(f"{rows.machine}, {rows.commit}; ns: p50 (p99), the least of {REPEAT} runs in turn")
    for number, (row, kind, count, asked_ns, asked_ratio) in enumerate(ROWS):
        best, clock = measure({stack: [f"build/host/tests/bench/bench_net-{stack}", row, kind, str(count)]
                               for stack in STACKS})
        if number == 0:
            print(f"the clock steps by {clock[0]:.1f} ns; rows leave out {clock[1]:.1f} ns for two readings")
            print(f"{'':24}{'own':>18}{'lwIP':>18}{'ratio':>8}   asked")
        name = row if kind == "warm" else f"{row}/{kind}"
        if row.startswith("bulk"):
            gbits = {}
            for stack, (parts, command) in best.items():
                ns = parts[row]
                gbits[stack] = BATCH_BITS / ns["p50"]
                keep(f"net/{stack}/{name}", "Gbit/s",
                     {**ns, "p50": gbits[stack], "p99": BATCH_BITS / ns["p99"],
                      "spread": gbits[stack] - BATCH_BITS / (ns["p50"] + ns["spread"])}, command)
            print(f"{name:24}{gbits['own']:18.1f}{gbits['lwip']:18.1f}{gbits['own'] / gbits['lwip']:8.2f}"
                  "   >= 40 Gbit/s", flush=True)
            continue
        for stack, (parts, command) in best.items():
            for part, figures in parts.items():
                keep(f"net/{stack}/{name}" + ("" if part == row else f"/{part}"),
                     "datagrams" if part == "lost" else "ns", figures, command)
        asked = [f"<= {asked_ns} ns"] * bool(asked_ns) + [f"<= {asked_ratio} of lwIP"] * bool(asked_ratio)
        for part, own in best["own"][0].items():
            lwip = best["lwip"][0][part]
            ratio = f"{own['p50'] / lwip['p50']:8.2f}" if lwip["p50"] else f"{'':8}"
            asked_here = {row: ", ".join(asked), "lost": "0 lost",
                          "tail": f"p99.9 <= {3 * best['own'][0][row]['p50']:.0f} ns"}.get(part, "")
            print(f"{name if part == row else '  ' + part:24}{own['p50']:9.1f} ({own['p99']:6.0f})"
                  f"{lwip['p50']:9.1f} ({lwip['p99']:6.0f}){ratio}   {asked_here}", flush=True)
    print("".join(f"{name:>18}" for name in ("", *CARDS)))
    for row in CARD_ROWS:
        best, clock = measure({card: ["build/host/tests/bench/bench_card", row, card, "warm", str(WARM)]
                               for card in CARDS})
        for card, (parts, command) in best.items():
            keep(f"net/{card}/{row}", "ns", parts[row], command)
        print(f"{row:18}" + "".join(f"{best[card][0][row]['p50']:9.1f} ({best[card][0][row]['p99']:6.0f})"
                                    for card in CARDS)
              + f"   <= {best['virtio'][0][row]['p50'] + SLOWER_NS:.1f} ns", flush=True)


if __name__ == "__main__":
    main()
