"""Half round trips of an echo by protocol and payload, back to back, as vendors of kernel bypass publish them.

The systems own, lwip and guest are timed by the probe's device (vhost_probe.c), from descriptor to descriptor. `linux`
is the same echo as a program of this machine, and ADDRESS:PORT an echo anywhere: both by sockets (echo_probe.c), so the
client's own stack counts on both ways. The times of `peregrine bench` end before that, at the kernel's stamp."""
import contextlib
import fractions
import ipaddress
import subprocess
import time

from latencies import quantile
from workshop.probe import vhost
from workshop.probe.wire import ProbeError

PROGRAM = vhost.BUILD / "host/tools/workshop/probe/echo_probe"
ECHO = vhost.BUILD / "host/echo-linux"
PAYLOADS = (4, 64, 256, 1024)
PLAYS = tuple(f"{protocol}:{count}" for protocol in ("udp", "tcp") for count in PAYLOADS)
PERCENTS = {"p50": 50, "p99": 99, "p99_9": fractions.Fraction("99.9"), "p99_99": fractions.Fraction("99.99")}
NAMES = ("own", "lwip", "guest", "linux")
LINUX_PORT = 10007
LISTENS_S = 10


def address_of(text):
    """Reads ADDRESS:PORT; ValueError if it is none."""
    address, _, port = text.rpartition(":")
    if not 0 < int(port) < 65536:
        raise ValueError(f"{port}: no port")
    return str(ipaddress.IPv4Address(address)), int(port)


def is_address(text):
    with contextlib.suppress(ValueError):
        return bool(address_of(text))
    return False


@contextlib.contextmanager
def linux_echo(core):
    with vhost.on_core(core):
        echo = subprocess.Popen([ECHO, f"port={LINUX_PORT}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True)
    try:
        yield "127.0.0.1", LINUX_PORT
    finally:
        echo.terminate()
        echo.communicate(timeout=LISTENS_S)


def by_sockets(address, port, core, shots):
    words = [PROGRAM, address, port, -1 if core is None else core, shots, ",".join(PLAYS)]
    end = time.monotonic() + LISTENS_S
    while True:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=vhost.VISIT_S_MAX)
        if done.returncode == 0:
            break
        if done.stdout or time.monotonic() > end:       # an echo that has just been started does not listen yet
            raise ProbeError(f"{address}:{port}: {done.stderr.strip()}")
        time.sleep(0.05)
    times = {}
    for play, _, ns in map(str.split, done.stdout.splitlines()):
        times.setdefault(play, []).append(int(ns))
    return times


def measure(name, shots, accelerator):
    """Returns {play: [ns]} of whole round trips."""
    guest_core, probe_core = vhost.two_cores()
    if name in vhost.SYSTEMS:
        more = vhost.LINUX_ON_TCG if (name, accelerator) == ("guest", "tcg") else ""
        found = vhost.visit(vhost.SYSTEMS[name], "echo", shots, (0,), "", accelerator, nic_more=more, plays=PLAYS)
        return {play: values for (play, _), values in found.items()}
    if name == "linux":
        with linux_echo(guest_core) as (address, port):
            return by_sockets(address, port, probe_core, shots)
    return by_sockets(*address_of(name), probe_core, shots)


def rows_of(system, times, common):
    rows = []
    for play, values in times.items():
        halves = [ns / 2000 for ns in sorted(values)]
        protocol, _, count = play.partition(":")
        rows.append({"name": f"halfrtt/{system}/{protocol}/{count}", "unit": "us", "n": len(halves),
                     **{name: quantile(halves, percent) for name, percent in PERCENTS.items()}, **common})
    return rows


def show(rows):
    print(f"{'half round trip':32} {'n':>7} " + " ".join(f"{key.replace('_', '.'):>9}" for key in PERCENTS) + " us")
    for row in rows:
        print(f"{row['name'].partition('/')[2]:32} {row['n']:7} " + " ".join(f"{row[key]:9.2f}" for key in PERCENTS))
