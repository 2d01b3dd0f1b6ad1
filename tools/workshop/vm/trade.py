"""`make trade`: a simulated exchange with a live page, and the kernel of app/trade/ in QEMU, which trades there.

The program keeps orders at the best bid and ask of each stock (strategy=join). SETTINGS= adds words of its own, and
RATE= is the number of others' orders and changes a second. Ctrl-C ends both; the program cancels its orders first.
QEMU's user networking carries the lines to the guest and its connections to the exchange, without root.

On a terminal a table is renewed in place; elsewhere a line is printed each ten seconds. The machine's log with its
statistics is build/trade.log, the exchange's build/exchange.log.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

from command_line import until_enough
from workshop.vm import guest_log, machine, qemu, relay, serve

SYMBOLS = "ACME,BOLT,CRUX,DUNE"
BOARD_PORT = 10000
LINES = (26400, 26401)              # ports of this host and of the guest
ACCOUNT = ("TRADER", "PEREGRINE")
LOG_FILE, EXCHANGE_LOG = qemu.BUILD / "trade.log", qemu.BUILD / "exchange.log"
DRAW_S, LINE_S = 1, 10              # between two tables on a terminal, and between two lines elsewhere
ASK_S = 2                           # for the exchange's state
NOTE = ("The strategy `join` only keeps orders at the best prices, to show the machine at work. It loses here: others "
        "trade with it when a stock's value has moved past its order, and that costs more than the spread earns.")

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
    words = [sys.executable, "-m", "servers.exchange", "serve", "--symbols", SYMBOLS, "--rate", rate,
             "--board", f"127.0.0.1:{free_port('tcp', BOARD_PORT)}", "--account", ":".join(ACCOUNT),
             "--note", NOTE, "--rerequest", "127.0.0.1:0", "--snapshot", "127.0.0.1:0", "--orders", "127.0.0.1:0"]
    for name, port in zip("ab", lines):
        words += [f"--line-{name}", f"127.0.0.1:{port}"]
    with open(EXCHANGE_LOG, "w", encoding="utf-8") as log:      # no line of it may stand in the table
        process = subprocess.Popen(words, preexec_fn=qemu.live_apart, stdout=subprocess.PIPE, stderr=log, text=True)
    addresses = dict(re.findall(r"(\w+)=([\d.]+:\d+)", process.stdout.readline()))
    if not addresses:
        process.wait()
        sys.exit(EXCHANGE_LOG.read_text(encoding="utf-8").strip())
    return process, addresses


def settings(lines, addresses, more):
    """Returns the program's settings; words of the user replace ours."""
    given = {word.partition("=")[0] for word in more}
    found = {name: address.replace("127.0.0.1", machine.USER_HOST) for name, address in addresses.items()}
    words = [f"feed.a=0.0.0.0:{lines[0]}", f"feed.b=0.0.0.0:{lines[1]}", f"user={ACCOUNT[0]}", f"passwd={ACCOUNT[1]}",
             *(f"{name}={found[name]}" for name in ("rerequest", "snapshot", "orders")), f"symbols={SYMBOLS}",
             *SETTINGS]
    return [*(word for word in words if word.partition("=")[0] not in given), *more]


def clock(seconds):
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)


def dollars(amount):
    return f"{amount / 1e4:.2f}"


def line_of(state):
    """Returns an account in a line."""
    account = state["accounts"][0]
    counts = account["counts"]
    return (f"{clock(max(state['seconds'], 0))}, {state['messages']} messages, "
            f"{counts.get('enter', 0) + counts.get('replace', 0)} orders, {counts.get('answer E', 0)} executions, "
            f"{account['open']} open, profit ${dollars(account['profit'])}")


def table_of(state):
    yield f"{'stock':8}{'bid':>12}{'offer':>12}{'position':>10}{'profit $':>14}"
    positions = state["accounts"][0]["positions"]
    for book in state["books"]:
        shares, profit = positions.get(book["symbol"], (0, 0))
        prices = (dollars(book[side][0][0]) if book[side] else "-" for side in ("bids", "offers"))
        yield f"{book['symbol']:8}" + "".join(f"{price:>12}" for price in prices) + f"{shares:>10}{dollars(profit):>14}"
    yield line_of(state)


class Screen(guest_log.Log):
    """Writes the machine's log into a file, and shows what the account does."""

    def __init__(self, host, page, file):
        super().__init__(host)
        self.page, self.file = page, file
        self.on_terminal = sys.stdout.isatty()
        self.due_s, self.drawn, self.lines = 0, 0, 0

    def show(self):
        runs = "running, TCP/IP stack" in self.host.log[:100_000] and self.host.process.poll() is None
        for line in self.take():
            self.file.write(line + "\n")
            self.lines += 1
        self.file.flush()
        if not runs or time.monotonic() < self.due_s:
            return
        is_first, self.due_s = not self.due_s, time.monotonic() + (DRAW_S if self.on_terminal else LINE_S)
        if not is_first and (state := self._ask()):     # first the run says how to reach the program
            if self.on_terminal:
                self._draw([*table_of(state), f"the log is in {self.file.name}: {self.lines} lines",
                            f"the page is at {self.page}    Ctrl-C ends it"])
            else:
                guest_log.say(f"trade: {line_of(state)}; {self.page}")

    def _ask(self):
        try:
            with urllib.request.urlopen(f"{self.page}board.json", timeout=ASK_S) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def _draw(self, lines):
        width = shutil.get_terminal_size().columns
        up = f"\x1b[{self.drawn}A" if self.drawn else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{line[:width - 1]}\n" for line in lines))
        sys.stdout.flush()
        self.drawn = len(lines)


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lines = [free_port("udp", port) for port in LINES]
    exchange, addresses = start_exchange(lines, os.environ.get("RATE") or "200")
    status = 0
    try:
        words = settings(lines, addresses, os.environ.get("SETTINGS", "").split())
        page = f"http://{addresses['board']}/"
        print(f"trade: the page is at {page} . Ctrl-C ends it.\ntrade: {NOTE}", flush=True)
        with open(LOG_FILE, "w", encoding="utf-8") as file:
            status = serve.run(serve.Program("trade", machine.Setup(), words), lambda host: Screen(host, page, file))
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        raise
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
    sys.exit(until_enough(main))
