#!/usr/bin/env python3
"""The wire probe: how long a player takes from a burst to its POST, seen from outside the player's machine.

    tools/wire_probe.py kernel guest linux                  each of the players named here
    tools/wire_probe.py --listen 192.0.2.1                  any player: prints its settings, waits for it
    tools/wire_probe.py --wire vhost-user own lwip guest    the probe is the network device, and polls the rings on a
                                                            core of its own; times echoes of all protocols, too, and
                                                            market data to an order
    tools/wire_probe.py --table own lwip guest linux        half round trips of an echo by payload, back to back
    tools/wire_probe.py --table 192.0.2.9:7                 the same of any echo, such as `make PROGRAM=echo` elsewhere

The player `kernel` is the unikernel in QEMU. `guest` is the Linux player in a Linux guest in the same QEMU, and `linux`
the Linux player on this host, without a virtual machine. By vhost-user there is `tuned`, too: a guest whose Linux is
set up for one program that polls its sockets. It trades, and nothing else.

One player runs at a time, as they all spin; they take turns, so that what the machine does besides hits all of them.
Prints a table and writes build/bench/wire.json, or half_rtt.json. Makes a network namespace: run it as root or where
user namespaces work."""
import argparse
import contextlib
import json
import os
import pathlib
import random
import secrets
import subprocess
import sys
import tempfile
import time

from command_line import add_version, until_enough
from workshop.measured import commit, processor
from workshop.vm import linux_guest
from workshop.vm import machine
from servers.contest import rounds
from latencies import quantile
from workshop.probe import half_rtt
from workshop.probe import vhost
from workshop.probe.wire import ProbeError, Wire

ROOT = machine.ROOT
BENCH = ROOT / "build/bench"
LINUX_PLAYER = ROOT / "build/host/peregrine-linux"
ROUND = rounds.ONLINE
USER = "probe"
WARM_SHOTS, TURNS = 20, 3
PAUSE_S = (0.005, 0.02)
IN_NAMESPACE = "PEREGRINE_PROBE_IN_NAMESPACE"


def settings(setup, wire, more=()):
    endpoints = [f"feed={setup.host}:{wire.ports['input']}", f"submit={setup.host}:{wire.ports['output']}"]
    return machine.settings_text(setup, ROUND, endpoints, USER, "0x" + secrets.token_hex(32), ("early=off", *more))


def player_words(setup, wire):
    """Returns the same settings for the Linux player, whose address is its system's."""
    return " ".join(word for word in settings(setup, wire).split() if not word.startswith(("ip=", "gw=")))


@contextlib.contextmanager
def unikernel(setup, directory, seed):
    """Starts the kernel in QEMU, playing against a wire of its own."""
    with Wire(setup.bind, ROUND, seed) as wire:
        host, _ = machine.start(setup, settings(setup, wire), directory)
        with host:
            wire.wait_player(90)
            yield wire


@contextlib.contextmanager
def linux_player(setup, directory, seed):
    """Starts the same player as a program on this machine: no virtual machine between it and the wire."""
    with Wire(setup.bind, ROUND, seed) as wire:
        process = subprocess.Popen([LINUX_PLAYER, *player_words(setup, wire).split()], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            wire.wait_player(20)
            yield wire
        finally:
            process.terminate()
            process.wait(10)


@contextlib.contextmanager
def linux_guest_player(setup, directory, seed):
    """Starts the Linux player in a Linux guest: the same QEMU, the same NIC, the same wire."""
    with Wire(setup.bind, ROUND, seed) as wire:
        options = ["-kernel", linux_guest.KERNEL, "-initrd", linux_guest.INITRAMFS,
                   "-append", f"quiet peregrine: {player_words(setup, wire)}",
                   *machine.network_options(setup)]
        with machine.qemu.Machine(options, memory="512M", cpus=setup.cpus, accelerator=setup.accelerator,
                                  cpu=machine.CPUS[setup.accelerator]):
            wire.wait_player(120)
            yield wire


PLAYERS = {"kernel": unikernel, "guest": linux_guest_player, "linux": linux_player}


def shoot(wire, count, pauses):
    """Measures `count` delays in us, after some shots that do not count."""
    delays = []
    for i in range(WARM_SHOTS + count):
        time.sleep(pauses.uniform(*PAUSE_S))
        shot = wire.shoot(seconds=10)
        if i >= WARM_SHOTS:
            delays.append(shot.delay_us)
    return delays


def command():
    return " ".join(["tools/wire_probe.py", *sys.argv[1:]])


def path_of(name):
    """Returns a player's part of a row's name; the unikernel's says which stack the image was linked with."""
    stacks = [path.name.split("-")[1] for path in (ROOT / "build/kernel").glob("parts-*")]
    return f"{name}-{stacks[0]}" if name == "kernel" and stacks else name


def rows_of(delays, where):
    rows = []
    for name, values in delays.items():
        ordered = sorted(values)
        rows.append({"name": f"wire/{path_of(name)}/burst-to-post", "unit": "us", "n": len(ordered),
                     "p10": quantile(ordered, 10), "p50": quantile(ordered, 50), "p90": quantile(ordered, 90),
                     "p99": quantile(ordered, 99), "machine": f"{processor()}, {where[name]}", "commit": commit(),
                     "command": command()})
    return rows


def probe_devices(names, count, turns, seed):
    load = os.getloadavg()[0]
    if any(name in vhost.LINUX for name in names):
        vhost.build_linux()
    kvm, finding = machine.probe_kvm()
    print(f"KVM: {finding}; load {load:.2f}", flush=True)
    accelerator = "kvm" if kvm else "tcg"
    rows = vhost.rows_of(vhost.measure(names, -(-count // turns), turns, seed, accelerator),
                         {"machine": processor(), "load": load, "commit": commit(), "command": command()})
    vhost.show(rows)
    return rows


def probe_echoes(names, count):
    if "guest" in names:
        vhost.build_linux()
    kvm, finding = machine.probe_kvm()
    load = os.getloadavg()[0]
    print(f"KVM: {finding}; load {load:.2f}", flush=True)
    common = {"machine": processor(), "load": load, "commit": commit(), "command": command()}
    rows = []
    with vhost.ahead_of_others():
        for name in names:
            rows += half_rtt.rows_of(name, half_rtt.measure(name, count, "kvm" if kvm else "tcg"), common)
    half_rtt.show(rows)
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


def probe_players(names, count, turns, seed):
    kvm, finding = machine.probe_kvm()
    print(f"KVM: {finding}")
    setup = machine.Setup(net="tap", nic="modern", accelerator="kvm" if kvm else "tcg")
    in_qemu = f"QEMU {setup.accelerator}"
    where = {"kernel": in_qemu, "guest": in_qemu, "linux": "host, no virtual machine"}
    delays = {name: [] for name in names}
    pauses = random.Random(f"pauses {seed}")
    for turn in range(turns):
        for name in names:
            with tempfile.TemporaryDirectory(prefix="peregrine-probe-") as directory, \
                    PLAYERS[name](setup, directory, f"{seed} {name} {turn}") as wire:
                delays[name] += shoot(wire, -(-count // turns), pauses)
    return delays, where


def probe_anybody(bind, count, seed):
    try:
        wire = Wire(bind, ROUND, seed)
    except OSError as error:
        raise ProbeError(f"--listen {bind}: {error.strerror}") from error
    with wire:
        print("waiting for a player with: feed={0}:{1} submit={0}:{2} n={3} m={4} early=off".format(
            bind, wire.ports["input"], wire.ports["output"], ROUND.n, ",".join(map(str, ROUND.constants))), flush=True)
        wire.wait_player(600)
        return {"player": shoot(wire, count, random.Random(seed))}, {"player": "elsewhere"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("players", nargs="*", metavar="kernel|guest|linux", help="which to shoot at, in turns")
    parser.add_argument("--wire", choices=("tap", "vhost-user"), default="tap", help="the network (default tap)")
    parser.add_argument("--table", action="store_true", help="half round trips of echoes: own, lwip, guest, linux, "
                        "or ADDRESS:PORT; 100,000 of each, or --count")
    parser.add_argument("--listen", metavar="ADDRESS", help="shoot at any player that connects here")
    parser.add_argument("--count", type=int, help="shots at each (default 1000)")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"turns of each player (default {TURNS})")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="file for the rows; -: standard output")
    add_version(parser)
    words = parser.parse_args()
    known = half_rtt.NAMES if words.table else PLAYERS if words.wire == "tap" else vhost.SYSTEMS
    if unknown := {name for name in words.players
                   if name not in known and not (words.table and half_rtt.is_address(name))}:
        parser.error(f"'{min(unknown)}' is no player; {', '.join(known)} are")
    count = words.count if words.count is not None else 100000 if words.table else 1000
    if bool(words.players) == bool(words.listen) or min(count, words.turns) < 1:
        parser.error("name players, or --listen; at least one shot, at least one turn")
    try:
        if words.table:
            return write(probe_echoes(words.players, count), words.out or BENCH / "half_rtt.json")
        if words.wire == "vhost-user":
            rows = probe_devices(words.players, count, words.turns, words.seed)
            return write(rows, words.out or BENCH / "wire.json")
        if words.listen:
            delays, where = probe_anybody(words.listen, count, words.seed)
        else:
            if "guest" in words.players and not os.environ.get(IN_NAMESPACE):
                linux_guest.build(LINUX_PLAYER)         # needs the network, which the namespace has not
            enter_namespace()
            delays, where = probe_players(words.players, count, words.turns, words.seed)
    except (ProbeError, OSError, machine.qemu.Timeout, subprocess.SubprocessError) as error:
        sys.exit(f"probe: {error}")
    rows = rows_of(delays, where)
    show(rows)
    write(rows, words.out or BENCH / "wire.json")


def write(rows, path):
    text = json.dumps(rows, indent=1) + "\n"
    if str(path) == "-":
        print(text, end="")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    sys.exit(until_enough(main))
