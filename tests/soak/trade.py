"""The soak of the trading program: it trades for long over a faulty network. `make soak PROGRAM=trade` runs this.

The kernel trades in QEMU by `join` at the simulated exchange. Both lines of the feed lose, repeat and reorder packets,
and the exchange resets its TCP connections at random. In each cycle the wire is faulty for a while, too. Both lines are
cut off for a moment, once with the answers to requests. The exchange is killed and goes on from its journal.

Exits with 0 if the position by the program's count is the exchange's, each response was taken once, each order once
sent, and none was outside the limits: tests/soak/judge_trade.py. Pools and memory must not grow. Prints its seed and a
line a minute; writes build/bench/soak-trade.json."""
import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import time

from deploy import control
from tests.exchange.running import WAIT_S, Running
from tests.soak import faulty_run, judge_trade
from workshop.vm import machine, qemu

GROUPS, LINES, REREQUEST = ("239.1.1.1", "239.1.1.2"), (26400, 26401), 26410
PORTS = {"rerequest": 26402, "snapshot": 26403, "orders": 26404}
USER, PASSWORD = "TRADER", "PEREGRINE"
SYMBOLS = ("ACME", "BOLT")
RATE = 200                          # orders of others, a second
# The strategy has one order of each symbol and side on its way, and waits for the response.
LIMITS = judge_trade.Limits(shares=100, notional=50_000, collar=1, position=300, open=3, rate=20,
                            in_flight=2 * len(SYMBOLS))
FAULTS = ("--loss-a 0.02 --loss-b 0.02 --reorder-a 0.01 --reorder-b 0.01 --repeat-a 0.01 --repeat-b 0.01 "
          "--loss-requests 0.1 --reset 10")
CUT_S = 0.3                         # the time without both lines
TRADES_S = 10                       # after a start of the exchange the program trades again
UNANSWERED_S = 2.0                  # without answers to requests; the program gives up after 0.4 s


class FeedLines:
    """The lines' groups, as the exchange is given them."""

    def words(self):
        return [word for name, group, port in zip("ab", GROUPS, LINES)
                for word in (f"--line-{name}", f"{group}:{port}")]


class TradeSoak(faulty_run.FaultyRun):
    def __init__(self, seconds, seed, directory, tools):
        super().__init__(seconds, directory, tools, f"soak {seed}")
        self.seed = seed
        self.cycle_s = 60.0 if seconds > 120 else 20.0
        self.journal = self.directory / "journal"
        self.restarts = self.cuts = self.lost = 0
        self.accepted = []          # before each kill of an exchange that had time to trade
        self.last, self.counts, self.account = {}, {}, {}
        self.exchange, self.since = self.new_exchange(), time.monotonic()
        words = [*(f"feed.{name}={group}:{port}" for name, group, port in zip("ab", GROUPS, LINES)),
                 *(f"{name}={machine.TAP_HOST}:{port}" for name, port in PORTS.items()),
                 f"rerequest.port={REREQUEST}", f"user={USER}", f"passwd={PASSWORD}", f"symbols={','.join(SYMBOLS)}",
                 "strategy=join", f"shares={LIMITS.shares}", "risk.short=on", f"risk.shares={LIMITS.shares}",
                 f"risk.notional={LIMITS.notional}", f"risk.collar={LIMITS.collar}",
                 f"risk.position={LIMITS.position}", f"risk.open={LIMITS.open}", f"risk.rate={LIMITS.rate}",
                 "risk.day.orders=4000000000", "risk.day.shares=1000000000000", "risk.loss=1000000000",
                 f"key={self.key}", "wait=sleep", *machine.Setup(net="tap").words()]
        self.start_guest(" ".join(words), qemu.BUILD / "trade/peregrine.elf")

    def new_exchange(self):
        words = ["--seed", self.seed, "--symbols", ",".join(SYMBOLS), "--rate", RATE, "--preopen", 0.5,
                 "--account", f"{USER}:{PASSWORD}", "--interface", machine.TAP_HOST, "--journal", self.journal]
        exchange = Running(FeedLines(), *words, *FAULTS.split(), ports=PORTS, host=machine.TAP_HOST)
        self.tools.callback(exchange.close)
        return exchange

    # ---- the faults

    def schedule(self):
        cycle, number = self.cycle_s, 0
        while (start := 5 + number * cycle) + cycle <= self.seconds:
            yield start + 0.05 * cycle, lambda: self.set_faulty(True)
            yield start + 0.30 * cycle, lambda: self.set_faulty(False)
            yield start + 0.35 * cycle, lambda: self.cut(LINES)
            yield start + 0.35 * cycle + CUT_S, lambda: self.cut(())
            yield start + 0.50 * cycle, lambda: self.cut(LINES)
            yield start + 0.50 * cycle + CUT_S, lambda: self.cut((REREQUEST,))
            yield start + 0.50 * cycle + CUT_S + UNANSWERED_S, lambda: self.cut(())
            yield start + 0.80 * cycle, self.restart_exchange
            number += 1

    def cut(self, ports):
        self.cuts += ports == LINES
        self.lost += ports == (REREQUEST,)
        self.wire.cut = ports

    def end_faults(self):
        super().end_faults()
        self.wire.cut = ()

    def restart_exchange(self):
        if self.samples and self.samples[-1][0] > self.since + TRADES_S:
            self.accepted.append(self.samples[-1][1]["ouch.accepted"])
        self.exchange.kill()
        self.restarts += 1
        self.exchange, self.since = self.new_exchange(), time.monotonic()

    def line(self):
        values = self.samples[-1][1] if self.samples else {}
        shown = ", ".join(f"{name} {values.get(name)}" for name in (
            "trade.orders", "ouch.executed", "mold.gaps", "mold.requests", "trade.snapshots", "soup.logins",
            "ouch.never_arrived", "pool.orders_sure"))
        return f"exchange killed {self.restarts} times, {shown}, QEMU {values.get('rss', 0) >> 20} MiB"

    # ---- the end

    def end(self):
        """Lets the guest and then the exchange end in order; keeps the last word of both."""
        with contextlib.suppress(AssertionError):
            self.wait_ready()
        self.send_home()
        self.last = {name: int(value) for name, value in re.findall(r"stats: ([\w.]+) (\d+)$", self.guest.log, re.M)}
        self.counts, accounts = self.exchange.end()
        self.account = accounts[USER]

    def wait_ready(self):
        """Waits until feed and session are well again."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until and self.guest.process.poll() is None:
            with contextlib.suppress(control.ControlError):
                values = control.parse(self.client().status())
                if values["pool.trade_session_ready"] and values["pool.trade_feed_current"]:
                    return
            time.sleep(0.2)
        self.problems.append("feed and orders' session are not well at the end")

    # ---- the verdict

    def evaluate(self):
        """Returns the figures. Adds to the problems."""
        found = judge_trade.judge(self.journal, LIMITS)
        self.problems += [f"{kind}: {count} orders, the first: {found.first[kind]}"
                          for kind, count in found.problems.items()]
        if found.open_at_end:
            self.problems.append(f"the program has left {found.open_at_end} orders")
        if "pool.orders_open" in self.last:
            self.compare()
        else:
            self.problems.append("the machine has left no statistics")
        return {"orders": found.orders, "outside_limits": found.problems.total(), "executed": self.answers("E"),
                "refused": {name: value for name, value in self.last.items() if name.startswith("risk.refused_")},
                "restarts": self.restarts, "cuts": self.cuts, "requests_unanswered": self.lost,
                "positions": {symbol: position["shares"] for symbol, position in self.account["positions"].items()},
                "exchange": self.counts, "account": self.account["counts"]}

    def answers(self, kinds):
        return sum(self.account["counts"].get(f"answer {kind}", 0) for kind in kinds)

    def compare(self):
        """Compares the program's last statistics with what the exchange knows."""
        last, positions = self.last, self.account["positions"]
        for symbol in SYMBOLS:
            ours = last[f"market.{symbol}.long"] - last[f"market.{symbol}.short"]
            theirs = positions.get(symbol, {"shares": 0})["shares"]
            if ours != theirs:
                self.problems.append(f"{symbol}: {ours} shares by the program, {theirs} by the exchange")
        pairs = [(f"ouch.{name}", self.answers(kinds)) for name, kinds in (
            ("accepted", "AU"), ("executed", "E"), ("cancels", "C"), ("rejected", "J"))]
        pairs += [(f"ouch.shares_{kind}", sum(position[kind] for position in positions.values()))
                  for kind in ("bought", "sold")]
        pairs += [("pool.orders_sure", 1), ("pool.book_whole", 1), ("pool.orders_open", 0)]
        self.problems += [f"{name} is {last[name]} instead of {value}" for name, value in pairs if last[name] != value]
        self.problems += [f"{count} requests were {kind}" for kind, count in self.account["counts"].items()
                          if kind in ("malformed", "repeated")]
        if last["trade.snapshots"] < self.lost or last["soup.logins"] <= self.restarts or not last["ouch.executed"]:
            self.problems.append(f"{last['trade.snapshots']} snapshots, {last['soup.logins']} logins and "
                                 f"{last['ouch.executed']} executions are too few")
        if any(late <= early for early, late in zip(self.accepted, self.accepted[1:])):
            self.problems.append(f"no trade between two kills: {self.accepted} accepted orders")

    def keep(self):
        shutil.copy(self.journal, faulty_run.KEPT / "journal")
        (faulty_run.KEPT / "guest.log").write_text(self.guest.log, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--inside", action="store_true", help="the network namespace is there already")
    options = parser.parse_args()
    if not options.inside:
        os.execvp("unshare", [*machine.unshare_words(), sys.executable, __file__, *sys.argv[1:], "--inside"])
    print(f"soak: seed {options.seed}", flush=True)
    soak, figures = faulty_run.run(TradeSoak, options.seconds, options.seed)
    soak.rows("soak-trade").keep(
        "soak/trade", "orders", figures["orders"], None, None,
        f"make soak PROGRAM=trade SECONDS={options.seconds:g} SEED={options.seed}", **figures,
        **soak.figures(("pool.", "clock.", "trade.", "ouch.", "mold.", "soup.", "book.", "market.")))
    print("soak: " + json.dumps(figures))
    sys.exit(soak.report())


if __name__ == "__main__":
    main()
