"""Rounds of the wire probe as the network device itself (vhost_probe.c): no main loop of QEMU in between.

A round visits every system in a shuffled order. A visit starts the system in QEMU once for each of its programs,
pinned to one core; the probe polls on another. A figure is the least of the rounds, because other work on the
machine only adds time; the median of the rounds stands beside it."""
import contextlib
import os
import pathlib
import random
import secrets
import statistics
import subprocess
import tempfile

from servers.contest import rounds
from latencies import quantile
from workshop.probe import trade_session
from workshop.probe.bursts import Bursts
from workshop.probe.wire import ProbeError
from workshop.vm import linux_guest
from workshop.vm import machine
from workshop.vm import qemu

BUILD = qemu.BUILD
PROGRAM = BUILD / "host/tools/workshop/probe/vhost_probe"
ROUND = rounds.ONLINE
PLAYS = {"player": ("ethernet", "icmp", "burst"), "echo": ("udp:64", "tcp:64"), "time": ("ntp",),
         "digest": ("sha256",), "trade": ("trade",)}
WORDS = {"echo": "port=7", "time": "rate=0", "digest": "port=7", "trade": trade_session.WORDS}
GAPS_MS = (1, 10)
WARM_SHOTS = 20         # vhost_probe.c: WARM_UP_SHOTS
VISIT_S_MAX = 600
# The input stream is silent while others are played.
PLAYER_WORDS = ("early=off", "feed.timeout=0", "server.timeout=0")
# A guest that is set up for one program that polls. linux_guest.py does the rest at `tuned`.
TUNED = "quiet mitigations=off idle=poll nohz=off nowatchdog nosoftlockup audit=0 tuned"
# QEMU 7.2 crashes under TCG when Linux uses MSI-X of a vhost-user device: it gets the pin's interrupt.
LINUX_ON_TCG = ",vectors=0"


def kernel_image(stack, program):
    if program == "player":
        return machine.image_of(stack)
    folder = program if (BUILD / program / f"kernel/parts-{stack}").exists() else f"other/{program}"
    return BUILD / folder / "peregrine.elf"


def initramfs(program):
    return linux_guest.INITRAMFS if program == "player" else linux_guest.WORK / f"{program}-initramfs"


def settings(setup, program):
    if program in WORDS:
        return " ".join([WORDS[program], "key=a-key-for-the-probe", *setup.words()])
    endpoints = [f"feed={setup.host}:10001", f"submit={setup.host}:10002"]
    return machine.settings_text(setup, ROUND, endpoints, "probe", "0x" + secrets.token_hex(32), PLAYER_WORDS)


def kernel_options(stack):
    return lambda setup, program: qemu.kernel(settings(setup, program), image=kernel_image(stack, program))


def linux_options(kernel_words):
    def options(setup, program):
        words = " ".join(word for word in settings(setup, program).split() if not word.startswith(("ip=", "gw=")))
        return ["-kernel", linux_guest.KERNEL, "-append", f"{kernel_words} peregrine: {words}",
                "-initrd", initramfs(program)]
    return options


SYSTEMS = {"own": kernel_options("own"), "lwip": kernel_options("lwip"), "guest": linux_options("quiet"),
           "tuned": linux_options(TUNED)}
LINUX = ("guest", "tuned")
# The port of lwIP has too few connections for digest.
PROGRAMS = {"own": tuple(PLAYS), "lwip": ("player", "echo", "time", "trade"), "guest": ("player", "echo", "trade"),
            "tuned": ("trade",)}


def build_linux():
    for program in PROGRAMS["guest"]:
        name = "peregrine" if program == "player" else program
        linux_guest.build(BUILD / f"host/{name}-linux", initramfs(program))


@contextlib.contextmanager
def on_core(core):
    """Pins the programs that are started inside to a core; None: to none."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def ahead_of_others(autogroup=pathlib.Path("/proc/self/autogroup")):
    """Gives this session most of the processors' time, if Linux divides it by session and lets us: sched(7), "The
    autogroup feature". `nice` alone counts within a session only."""
    try:
        group = autogroup.read_text().split()           # "/autogroup-15 nice 0"; empty for a session without one
        if group:
            autogroup.write_text("-20")
    except OSError:
        group = []
    if not group:
        yield
        return
    try:
        yield
    finally:
        autogroup.write_text(group[-1])


def two_cores():
    """Returns the guest's core and the probe's; without two cores, none."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[:2] if len(cores) > 1 else (None, None)


def write_bursts(path, count, seed):
    bursts = Bursts(ROUND, seed)
    lines = [" ".join((digits, *answers)) for digits, answers in (bursts.draw() for _ in range(count))]
    path.write_text("\n".join(lines) + "\n")


SCRIPTS = {"player": write_bursts, "trade": trade_session.write}


def visit(options_of, program, shots, gaps_ms, seed, accelerator="tcg", nic="modern", nic_more="", plays=None):
    """Starts a system once, and plays `plays`, or what its program answers, or the play of the program's name.

    Returns {(play, gap in ms): [ns]}."""
    guest_core, probe_core = two_cores()
    with tempfile.TemporaryDirectory(prefix="peregrine-vhost-") as directory, contextlib.ExitStack() as stack:
        script, socket = pathlib.Path(directory) / "script", pathlib.Path(directory) / "device"
        setup = machine.Setup(net="vhost-user", socket=str(socket), nic=nic, nic_more=nic_more, accelerator=accelerator,
                              memory="512M")
        words = [PROGRAM, socket, -1 if probe_core is None else probe_core, shots, ",".join(map(str, gaps_ms)),
                 ",".join(plays or PLAYS.get(program, (program,)))]
        if program in SCRIPTS:
            SCRIPTS[program](script, len(gaps_ms) * (shots + WARM_SHOTS), seed)
            words.append(script)
        probe = stack.enter_context(subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE,
                                                     stderr=subprocess.PIPE, text=True))
        stack.callback(probe.kill)
        probe.stdout.readline()         # the server listens
        with on_core(guest_core):
            guest = stack.enter_context(qemu.Machine(
                [*options_of(setup, program), *machine.network_options(setup)], memory=setup.memory,
                accelerator=accelerator, cpu=machine.CPUS[accelerator]))
        said, errors = probe.communicate(timeout=VISIT_S_MAX)
        if probe.returncode:
            raise ProbeError(f"{errors.strip() or probe.returncode}\n--- the guest ---\n{guest.log[-3000:]}")
    times = {}
    for play, gap, ns in map(str.split, said.splitlines()):
        times.setdefault((play, int(gap)), []).append(int(ns))
    return times


@ahead_of_others()
def measure(names, shots, round_count, seed, accelerator):
    """Returns {(system, play, gap): [sorted times of a round]}."""
    order, times = random.Random(f"order {seed}"), {}
    for number in range(round_count):
        for name in order.sample(names, len(names)):
            for program in PROGRAMS[name]:
                more = LINUX_ON_TCG if name in LINUX and accelerator == "tcg" else ""
                found = visit(SYSTEMS[name], program, shots, GAPS_MS, f"{seed} {name} {number}", accelerator,
                              nic_more=more)
                for (play, gap), values in found.items():
                    times.setdefault((name, play, gap), []).append(sorted(values))
    return times


def rows_of(times, common):
    rows = []
    for (name, play, gap), found in sorted(times.items(), key=lambda item: (item[0][1], item[0][2], item[0][0])):
        of = {percent: [quantile(values, percent) / 1000 for values in found] for percent in (10, 50, 99)}
        protocol = play.partition(":")[0]
        rows.append({"name": f"wire/vhost-user/{name}/{protocol}/{gap}ms", "unit": "us", "n": sum(map(len, found)),
                     "p10": min(of[10]), "p50": min(of[50]), "p50_median": statistics.median(of[50]),
                     "spread": max(of[50]) - min(of[50]), "p99": min(of[99]), **common})
    return rows


def show(rows):
    names = ("p10", "p50", "median", "p99", "spread")
    print(f"{'guest and play':40} {'n':>6} " + " ".join(f"{name:>9}" for name in names) + " us")
    for row in rows:
        values = [row[key] for key in ("p10", "p50", "p50_median", "p99", "spread")]
        print(f"{row['name']:40} {row['n']:6} " + " ".join(f"{value:9.1f}" for value in values))
    p50 = {row["name"]: row["p50"] for row in rows}
    for gap in GAPS_MS:
        above = {name: p50[f"wire/vhost-user/{name}/burst/{gap}ms"] - p50[f"wire/vhost-user/{name}/ethernet/{gap}ms"]
                 for name in SYSTEMS if f"wire/vhost-user/{name}/burst/{gap}ms" in p50}
        print(f"burst above ethernet, {gap} ms: "
              + ", ".join(f"{name} {value:.1f} us" for name, value in above.items()))
