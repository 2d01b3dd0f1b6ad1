"""`make trade`: a simulated exchange with a live page, and the program of app/trade/ that trades there.

The program keeps orders at the best bid and ask of each stock (strategy=join). SETTINGS= adds words of its own, and
RATE= is the number of others' orders and changes a second. Ctrl-C ends both; the program cancels its orders first.
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

from contest.die_with_parent import die_with_parent

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
SYMBOLS = "ACME,BOLT,CRUX,DUNE"
BOARD_PORT = 10000
LINES = (26400, 26401)              # the program's ports
ACCOUNT = ("TRADER", "PEREGRINE")
END_S = 15                          # for a process to end in order

# The limits of the program are for one careful user; here it may sell short, and quotes all stocks at once.
SETTINGS = ("strategy=join", "shares=100", "risk.short=on", "risk.shares=100", "risk.position=1000", "risk.open=32",
            "risk.rate=200", "risk.notional=100000")


def free_port(kind, port):
    """Returns this port, or any other one if it is taken."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind == socket.SOCK_STREAM)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def start(*words, **more):
    return subprocess.Popen([str(word) for word in words], preexec_fn=die_with_parent, **more)


def start_exchange(lines, rate):
    """Returns the exchange's process, and its addresses by name."""
    board = f"127.0.0.1:{free_port(socket.SOCK_STREAM, BOARD_PORT)}"
    words = [sys.executable, "-m", "exchange", "serve", "--symbols", SYMBOLS, "--rate", rate, "--board", board,
             "--account", ":".join(ACCOUNT), "--rerequest", "127.0.0.1:0", "--snapshot", "127.0.0.1:0", "--orders",
             "127.0.0.1:0"]
    for name, port in zip("ab", lines):
        words += [f"--line-{name}", f"127.0.0.1:{port}"]
    process = start(*words, stdout=subprocess.PIPE, text=True)
    addresses = dict(re.findall(r"(\w+)=([\d.]+:\d+)", process.stdout.readline()))
    if not addresses:           # the exchange has said why
        sys.exit(process.wait() or 1)
    return process, addresses


def start_program(lines, addresses, more):
    given = {word.partition("=")[0] for word in more}
    words = [f"feed.a=0.0.0.0:{lines[0]}", f"feed.b=0.0.0.0:{lines[1]}", f"user={ACCOUNT[0]}", f"passwd={ACCOUNT[1]}",
             *(f"{name}={addresses[name]}" for name in ("rerequest", "snapshot", "orders")), f"symbols={SYMBOLS}",
             *SETTINGS]
    return start(BUILD / "host/trade-linux", *(word for word in words if word.partition("=")[0] not in given), *more)


def end(process):
    """Ends a process in order; kills it if that takes too long."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lines = [free_port(socket.SOCK_DGRAM, port) for port in LINES]
    exchange, addresses = start_exchange(lines, os.environ.get("RATE") or "200")
    running = [exchange]
    status = 0
    try:
        program = start_program(lines, addresses, os.environ.get("SETTINGS", "").split())
        running.append(program)
        print(f"trade: the page is at http://{addresses['board']}/ . Ctrl-C ends it.", flush=True)
        status = program.wait()
    except KeyboardInterrupt:
        pass
    finally:
        for process in reversed(running):
            end(process)
    for line in exchange.stdout:
        state = json.loads(line)
        if "user" in state:
            print(f"trade: {state['user']}: profit ${state['profit'] / 1e4:.2f}, {state['counts'].get('answer E', 0)} "
                  f"executions, {state['open']} open orders")
    return status


if __name__ == "__main__":
    sys.exit(main())
