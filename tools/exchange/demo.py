"""`make trade`: a simulated exchange with a live page, and the kernel of app/trade/ in QEMU, which trades there.

The program keeps orders at the best bid and ask of each stock (strategy=join). SETTINGS= adds words of its own, and
RATE= is the number of others' orders and changes a second. Ctrl-C ends both; the program cancels its orders first.
QEMU's user networking carries the lines to the guest and its connections to the exchange, without root.
"""
import json
import os
import re
import signal
import subprocess
import sys

from vm import machine, qemu, relay, serve

SYMBOLS = "ACME,BOLT,CRUX,DUNE"
BOARD_PORT = 10000
LINES = (26400, 26401)              # ports of this host and of the guest
ACCOUNT = ("TRADER", "PEREGRINE")

# The limits of the program are for one careful user; here it may sell short, and quotes all stocks at once.
SETTINGS = ("strategy=join", "shares=100", "risk.short=on", "risk.shares=100", "risk.position=1000", "risk.open=32",
            "risk.rate=200", "risk.notional=100000", "risk.day.orders=4000000000", "risk.day.shares=1000000000000",
            "risk.loss=1000000000", "http.port=8080")


def free_port(kind, port):
    """Returns this port, or any other one if it is taken."""
    with relay.bind(kind, port) as bound:
        return bound.getsockname()[1]


def start_exchange(lines, rate):
    """Returns the exchange's process, and its addresses by name."""
    words = [sys.executable, "-m", "exchange", "serve", "--symbols", SYMBOLS, "--rate", rate,
             "--board", f"127.0.0.1:{free_port('tcp', BOARD_PORT)}", "--account", ":".join(ACCOUNT),
             "--rerequest", "127.0.0.1:0", "--snapshot", "127.0.0.1:0", "--orders", "127.0.0.1:0"]
    for name, port in zip("ab", lines):
        words += [f"--line-{name}", f"127.0.0.1:{port}"]
    process = subprocess.Popen(words, preexec_fn=qemu.live_apart, stdout=subprocess.PIPE, text=True)
    addresses = dict(re.findall(r"(\w+)=([\d.]+:\d+)", process.stdout.readline()))
    if not addresses:           # the exchange has said why
        sys.exit(process.wait() or 1)
    return process, addresses


def settings(lines, addresses, more):
    """Returns the program's settings; words of the user replace ours."""
    given = {word.partition("=")[0] for word in more}
    found = {name: address.replace("127.0.0.1", machine.USER_HOST) for name, address in addresses.items()}
    words = [f"feed.a=0.0.0.0:{lines[0]}", f"feed.b=0.0.0.0:{lines[1]}", f"user={ACCOUNT[0]}", f"passwd={ACCOUNT[1]}",
             *(f"{name}={found[name]}" for name in ("rerequest", "snapshot", "orders")), f"symbols={SYMBOLS}",
             *SETTINGS]
    return [*(word for word in words if word.partition("=")[0] not in given), *more]


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lines = [free_port("udp", port) for port in LINES]
    exchange, addresses = start_exchange(lines, os.environ.get("RATE") or "200")
    status = 0
    try:
        words = settings(lines, addresses, os.environ.get("SETTINGS", "").split())
        print(f"trade: the page is at http://{addresses['board']}/ . Ctrl-C ends it.", flush=True)
        status = serve.run(serve.Program("trade", machine.Setup(), words))
    except KeyboardInterrupt:
        pass
    except (serve.Refused, qemu.Timeout, OSError) as error:
        status = f"trade: {error}"
    finally:
        qemu.end_process(exchange)
    for line in exchange.stdout:
        state = json.loads(line)
        if "user" in state:
            print(f"trade: {state['user']}: profit ${state['profit'] / 1e4:.2f}, {state['counts'].get('answer E', 0)} "
                  f"executions, {state['open']} open orders")
    return status


if __name__ == "__main__":
    sys.exit(main())
