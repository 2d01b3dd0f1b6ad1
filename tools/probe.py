#!/usr/bin/env python3
"""The wire probe: how long a player takes from a burst to its POST, seen from outside the player's machine.

    tools/probe.py kernel linux             the unikernel in QEMU over TAP, then the Linux player over TAP's host side
    tools/probe.py --listen 192.0.2.1       any player: prints its settings, waits for it

The players of one run are shot at in turns of ROUND_SHOTS, so that what the machine does besides hits all of them.
Prints a table and writes build/bench/wire.json. NET=tap's namespace is made here: run it as root or where user
namespaces work."""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import random
import re
import secrets
import subprocess
import sys
import tempfile
import time

import machine
from contest import rounds
from contest.scoring import quantile
from wire import ProbeError, Wire

ROOT = machine.ROOT
ROUND = rounds.ONLINE
USER = "probe"
WARM_SHOTS, ROUND_SHOTS = 20, 100
PAUSE_S = (0.005, 0.02)
IN_NAMESPACE = "PEREGRINE_PROBE_IN_NAMESPACE"


def settings(setup, wire, more=()):
    endpoints = [f"feed={setup.host}:{wire.ports['input']}", f"submit={setup.host}:{wire.ports['output']}"]
    return machine.settings_text(setup, ROUND, endpoints, USER, "0x" + secrets.token_hex(32), ("early=off", *more))


@contextlib.contextmanager
def unikernel(setup, directory, seed):
    """The kernel in QEMU, playing against a wire of its own."""
    with Wire(setup.bind, ROUND, seed) as wire:
        host, _ = machine.start(setup, settings(setup, wire), directory)
        with host:
            wire.wait_player(90)
            yield wire


@contextlib.contextmanager
def linux_player(setup, directory, seed):
    """The same player as a program on this machine: no virtual machine between it and the wire."""
    with Wire(setup.bind, ROUND, seed) as wire:
        words = [w for w in settings(setup, wire).split() if not w.startswith(("ip=", "gw="))]
        process = subprocess.Popen([ROOT / "build/host/peregrine-linux", *words], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            wire.wait_player(20)
            yield wire
        finally:
            process.terminate()
            process.wait(10)


PLAYERS = {"kernel": unikernel, "linux": linux_player}


def shoot_in_turns(wires, count, seed):
    """{name: [delay in us]} of `count` shots at each, in turns."""
    pauses = random.Random(f"pauses {seed}")
    delays = {name: [] for name in wires}
    for name, wire in wires.items():
        for _ in range(WARM_SHOTS):
            wire.shoot(seconds=10)
    while any(len(d) < count for d in delays.values()):
        for name, wire in wires.items():
            for _ in range(min(ROUND_SHOTS, count - len(delays[name]))):
                time.sleep(pauses.uniform(*PAUSE_S))
                delays[name].append(wire.shoot(seconds=10).delay_us)
    return delays


def cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    match = re.search(r"model name\s*: (.*)", text)
    return match[1] if match else platform.machine()


def commit():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def rows_of(delays, where):
    rows = []
    for name, values in delays.items():
        ordered = sorted(values)
        rows.append({"name": f"wire/{name}/burst-to-post", "unit": "us", "n": len(ordered),
                     "p10": quantile(ordered, 10), "p50": quantile(ordered, 50), "p90": quantile(ordered, 90),
                     "p99": quantile(ordered, 99), "machine": f"{cpu_name()}, {where[name]}", "commit": commit(),
                     "command": " ".join(["tools/probe.py", *sys.argv[1:]])})
    return rows


def show(rows):
    print(f"{'player':32} {'n':>6} {'p10':>9} {'p50':>9} {'p90':>9} {'p99':>9} us   ratio of p50")
    for row in rows:
        ratio = row["p50"] / rows[0]["p50"] if rows[0]["p50"] else 0
        print(f"{row['name']:32} {row['n']:6} " + " ".join(f"{row[p]:9.1f}" for p in ("p10", "p50", "p90", "p99"))
              + f"      {ratio:.2f}")


def enter_namespace():
    if os.environ.get(IN_NAMESPACE):
        machine.set_up_namespace()
        return
    unshare = machine.unshare_words()
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, IN_NAMESPACE: "1"})


def probe_players(names, count, seed):
    kvm, finding = machine.probe_kvm()
    print(f"KVM: {finding}")
    setup = machine.Setup(net="tap", nic="modern", accelerator="kvm" if kvm else "tcg")
    where = {"kernel": f"QEMU {setup.accelerator}", "linux": "host, no virtual machine"}
    with tempfile.TemporaryDirectory(prefix="peregrine-probe-") as directory, contextlib.ExitStack() as stack:
        wires = {name: stack.enter_context(PLAYERS[name](setup, directory, f"{seed} {name}")) for name in names}
        return shoot_in_turns(wires, count, seed), where


def probe_anybody(bind, count, seed):
    with Wire(bind, ROUND, seed) as wire:
        print("waiting for a player with: feed={0}:{1} submit={0}:{2} n={3} m={4} early=off".format(
            bind, wire.ports["input"], wire.ports["output"], ROUND.n, ",".join(map(str, ROUND.constants))), flush=True)
        wire.wait_player(600)
        return shoot_in_turns({"player": wire}, count, seed), {"player": "elsewhere"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("players", nargs="*", metavar="kernel|linux", help="which to shoot at, in turns")
    parser.add_argument("--listen", metavar="ADDRESS", help="shoot at any player that connects here")
    parser.add_argument("--count", type=int, default=1000, help="shots at each (default 1000)")
    parser.add_argument("--seed", default="1")
    words = parser.parse_args()
    if unknown := set(words.players) - set(PLAYERS):
        parser.error(f"'{min(unknown)}' is no player; {', '.join(PLAYERS)} are")
    if bool(words.players) == bool(words.listen) or words.count < 1:
        parser.error("name players, or --listen; and at least one shot")
    try:
        if words.listen:
            delays, where = probe_anybody(words.listen, words.count, words.seed)
        else:
            enter_namespace()
            delays, where = probe_players(words.players, words.count, words.seed)
    except (ProbeError, OSError, machine.qemu.Timeout) as error:
        sys.exit(f"probe: {error}")
    rows = rows_of(delays, where)
    show(rows)
    path = ROOT / "build/bench/wire.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
