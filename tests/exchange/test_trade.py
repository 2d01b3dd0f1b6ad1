"""The program of app/trade/ on Linux at this exchange: lines that lose, gaps, resets, and an exchange that is killed.

After each game the exchange's position is the program's, no order was outside the limits, and none is left."""
import contextlib
import http.client
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from servers.contest.die_with_parent import die_with_parent
from tests.exchange.running import WAIT_S, WORDS, Running, Soup
from tests.exchange.test_orders import enter
from tests.lib.paths import BUILD, ROOT
from workshop.vm import ports

PROGRAM = BUILD / "host/trade-linux"
pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(not (ROOT / "app/trade/program.c").exists(), reason="there is no app/trade here")]
SYMBOLS = ("ACME", "BOLT")
SHARES, NOTIONAL, POSITION, OPEN, RATE = 100, 100_000, 500, 8, 100
SETTINGS = ("strategy=join", f"shares={SHARES}", "risk.short=on", f"risk.shares={SHARES}", f"risk.notional={NOTIONAL}",
            f"risk.position={POSITION}", f"risk.open={OPEN}", f"risk.rate={RATE}", "risk.loss=1000000000", "wait=sleep",
            "deadline=600")


class FixedLines:
    """Ports of the lines that the program itself takes."""

    def __init__(self):
        self.ports = [ports.free_port(ports.UDP) for _ in "ab"]

    def words(self):
        return [word for name, port in zip("ab", self.ports) for word in (f"--line-{name}", f"127.0.0.1:{port}")]


class Trader:
    """The program, which trades by `join` within the limits above."""

    def __init__(self, lines, exchange, *more):
        self.page_port = ports.free_port()
        addresses = (f"{name}={ip}:{port}" for name, (ip, port) in exchange.addresses.items()
                     if name in ("rerequest", "snapshot", "orders"))
        words = [f"feed.a=0.0.0.0:{lines.ports[0]}", f"feed.b=0.0.0.0:{lines.ports[1]}", *addresses, "user=TRADER",
                 "passwd=PEREGRINE", f"symbols={','.join(SYMBOLS)}", f"http.port={self.page_port}",
                 f"rerequest.port={ports.free_port(ports.UDP)}", *SETTINGS, *more]
        self.log = tempfile.TemporaryFile("w+")         # a pipe that nobody reads could stop the program
        latest = {word.partition("=")[0]: word for word in words}        # a later word wins
        self.process = subprocess.Popen([PROGRAM, "--all", *latest.values()], stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, preexec_fn=lambda: die_with_parent(signal.SIGKILL))
        self.wait(bool)

    def page(self):
        """Returns the numbers of the status page; none until the program listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.page_port, timeout=WAIT_S)
        with contextlib.closing(connection), contextlib.suppress(ConnectionRefusedError):
            connection.request("GET", "/")
            return numbers_of(connection.getresponse().read().decode())
        assert self.process.poll() is None, self.log_text()
        return {}

    def wait(self, condition):
        end = time.monotonic() + WAIT_S
        while not condition(page := self.page()):
            assert time.monotonic() < end, f"{page}\n{self.log_text()}"
            time.sleep(0.05)
        return page

    def end(self):
        """Ends the program in order; returns its statistics and its log."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, self.log_text()
        return numbers_of(out), self.log_text()

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=WAIT_S)
        self.log.close()


def numbers_of(text):
    return {name: int(value) for name, value in re.findall(r"^([\w.]+) (\d+)$", text, re.MULTILINE)}


def answers_of(exchange):
    """Returns all answers of the account, the oldest first. The last is that to an order of ours, which is rejected.
    Begins again if the exchange resets the connection, as `--reset` asks it to."""
    while True:
        with contextlib.suppress(ConnectionResetError):
            soup = Soup(exchange.addresses["orders"])
            soup.send("U", enter(0xffffffff, symbol="NONE"))
            answers = [soup.message()]
            while answers[-1][:1] != b"J" or answers[-1][9:13] != b"\xff" * 4:
                answers.append(soup.message())
            return answers


def check_limits(answers):
    """Checks each order, each second and the positions by the exchange's answers, and that no order is left. Returns
    shares held by stock."""
    stocks, sides, positions, times, open_shares = {}, {}, {}, [], {}
    for answer in answers:
        kind = answer[:1]
        if kind in (b"A", b"U", b"E", b"C"):
            ns, number = struct.unpack(">QI", answer[1:13])
        if kind == b"U":
            del open_shares[number]
        if kind in (b"E", b"C"):
            open_shares[number] -= struct.unpack(">I", answer[13:17])[0]
        if kind in (b"A", b"U"):
            at = 13 if kind == b"A" else 17
            number = struct.unpack(">I", answer[at - 4:at])[0]
            side, quantity, stock, price = struct.unpack(">cI8sQ", answer[at:at + 21])
            assert quantity <= SHARES and quantity * price <= NOTIONAL * 10_000
            stocks[number], sides[number] = stock.decode().rstrip(), 1 if side == b"B" else -1
            open_shares[number] = quantity
            times.append(ns)
        elif kind == b"E":
            stock = stocks[number]
            positions[stock] = positions.get(stock, 0) + sides[number] * struct.unpack(">I", answer[13:17])[0]
            assert abs(positions[stock]) <= POSITION
    assert not any(open_shares.values()), "the program has left orders"
    # The exchange's times are those of arrival: some orders may wait together.
    assert all(late - early > 0.5e9 for early, late in zip(times, times[2 * RATE:]))
    return positions


def check_the_end(exchange, trader):
    """Ends both, and compares what they know. Returns the program's statistics, its log, and the exchange's counts."""
    statistics, log = trader.end()
    positions = check_limits(answers_of(exchange))
    counts, accounts = exchange.end()
    account = accounts["TRADER"]
    for kind in ("bought", "sold"):
        shares = sum(position[kind] for position in account["positions"].values())
        assert statistics[f"ouch.shares_{kind}"] == shares, log
    assert {stock: shares for stock, shares in positions.items() if shares} == {
        stock: position["shares"] for stock, position in account["positions"].items() if position["shares"]}
    assert statistics["pool.orders_sure"] == 1, log
    return statistics, log, counts


@contextlib.contextmanager
def game(tmp_path, *words, settings=(), starts=True):
    lines = FixedLines()
    exchange = Running(lines, "--symbols", ",".join(SYMBOLS), "--preopen", 0.5, "--journal", tmp_path / "journal",
                       *words)
    with contextlib.ExitStack() as stack:
        stack.callback(exchange.close)
        trader = Trader(lines, exchange, *settings) if starts else None
        if trader:
            stack.callback(trader.close)
        yield lines, exchange, trader


def is_current(page):
    """Returns true if the program has all messages: those before its start it has asked for."""
    return page["pool.trade_feed_current"] and page["pool.trade_market_open"]


def executed(count):
    return lambda page: page["ouch.executed"] >= count


def test_quotes_are_executed_and_positions_agree(tmp_path):
    with game(tmp_path, "--rate", 400) as (_, exchange, trader):
        begun = trader.wait(is_current)
        trader.wait(executed(20))
        statistics, log, _ = check_the_end(exchange, trader)
    assert statistics["mold.requests"] == begun["mold.requests"], log


def test_a_line_that_loses_costs_nothing(tmp_path):
    with game(tmp_path, "--rate", 400, "--loss-a", 0.01, "--repeat-b", 0.01) as (_, exchange, trader):
        begun = trader.wait(is_current)
        trader.wait(executed(20))
        statistics, log, counts = check_the_end(exchange, trader)
    assert counts["lines"][0]["lost"] > 0 and statistics["mold.requests"] == begun["mold.requests"], log


def test_what_both_lines_lose_is_asked_for(tmp_path):
    words = "--rate 400 --loss-a 0.1 --loss-b 0.1 --reorder-a 0.05 --loss-requests 0.2".split()
    with game(tmp_path, *words) as (_, exchange, trader):
        begun = trader.wait(is_current)
        trader.wait(executed(20))
        trader.wait(lambda page: page["mold.requests"] > begun["mold.requests"] + 10)
        statistics, log, _ = check_the_end(exchange, trader)
    assert statistics["trade.snapshots"] == 0, log


def test_a_snapshot_fills_what_nobody_repeats(tmp_path):
    words = "--rate 400 --loss-a 0.1 --loss-b 0.1 --loss-requests 1".split()
    with game(tmp_path, *words) as (_, exchange, trader):
        trader.wait(lambda page: page["trade.snapshots"] >= 3)
        check_the_end(exchange, trader)


def test_resets_of_the_connections_lose_nothing(tmp_path):
    with game(tmp_path, "--rate", 400, "--reset", 1) as (_, exchange, trader):
        trader.wait(executed(20))
        check_the_end(exchange, trader)


def test_gg_names_each_order_that_a_dead_exchange_does_not_cancel(tmp_path):
    key, port = tmp_path / "key", str(ports.free_port(ports.UDP))
    key.write_text("key=12345678\n")
    with game(tmp_path, "--rate", 400, settings=("key=12345678", f"control.port={port}")) as (_, exchange, trader):
        trader.wait(lambda page: page["pool.orders_open"] >= 2)
        exchange.kill()
        done = subprocess.run([ROOT / "tools/gg", "127.0.0.1", "--key-file", key, "--port", port, "--all"],
                              timeout=WAIT_S, capture_output=True, text=True)
    order = r"^order \d+ is open: (?:buy|sell) \d+ (?:ACME|BOLT)     at \d+\.\d{4}$"
    named = re.findall(order, done.stderr, re.MULTILINE)
    assert done.returncode == 6 and len(named) == numbers_of(done.stdout)["pool.orders_open"] > 0, done.stderr


def test_orders_of_a_killed_program_are_cancelled_by_its_log(tmp_path):
    settings = ("strategy=skew", "skew.spread=5")           # so far away nobody trades with them
    with game(tmp_path, "--rate", 400, settings=settings) as (_, exchange, trader):
        trader.wait(lambda page: page["ouch.accepted"] >= 2)
        trader.process.kill()
        trader.process.wait(WAIT_S)
        (tmp_path / "log").write_text(trader.log_text())
        (tmp_path / "conf").write_text("orders=%s:%d user=TRADER passwd=PEREGRINE" % exchange.addresses["orders"])
        done = subprocess.run([*WORDS, "cancel", "--file", tmp_path / "conf", tmp_path / "log"], timeout=WAIT_S,
                              capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.count(": cancelled") >= 1, done.stdout + done.stderr
        check_limits(answers_of(exchange))          # none is open


class Relay:
    """A host in front of another one, until it is cut: then its connections are reset and it listens no more."""

    def __init__(self, to):
        self.to, self.server, self.sockets = to, socket.create_server(("127.0.0.1", 0)), []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                pair = self.server.accept()[0], socket.create_connection(self.to, timeout=WAIT_S)
                self.sockets += pair
                for ends in (pair, pair[::-1]):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    @staticmethod
    def _carry(here, there):
        with contextlib.suppress(OSError):
            while data := here.recv(1 << 16):
                there.sendall(data)

    def cut(self):
        for sock in (self.server, *self.sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def test_the_second_host_takes_over_when_the_first_is_cut(tmp_path):
    with game(tmp_path, "--rate", 400, starts=False) as (lines, exchange, _):
        relay = Relay(exchange.addresses["orders"])
        here, there = relay.server.getsockname(), exchange.addresses["orders"]
        trader = Trader(lines, exchange, "orders=%s:%d" % here, "orders.b=%s:%d" % there)
        try:
            trader.wait(executed(10))
            relay.cut()
            count = trader.page()["ouch.executed"]
            page = trader.wait(executed(count + 10))
            assert page["soup.logins"] == 2 and page["soup.new_sessions"] == 0
            check_the_end(exchange, trader)
        finally:
            trader.close()


def test_an_exchange_that_is_killed_goes_on_with_the_same_positions(tmp_path):
    words = ("--rate", 400, "--symbols", ",".join(SYMBOLS), "--preopen", 0.5, "--journal", tmp_path / "journal")
    with game(tmp_path, *words[:2]) as (lines, exchange, trader), contextlib.ExitStack() as stack:
        for _ in range(3):
            count = trader.page()["ouch.executed"]
            trader.wait(executed(count + 5))
            exchange.kill()
            exchange = Running(lines, *words, ports=exchange.ports)
            stack.callback(exchange.close)
        count = trader.page()["ouch.executed"]
        trader.wait(executed(count + 5))
        check_the_end(exchange, trader)
