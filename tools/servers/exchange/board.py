"""The state that the live page shows: books, trades, accounts with position, profit and latency, and the lines.

A process of its own, page_server.py, serves the viewers. However many there are, it asks for one state at a time, and
the exchange spends at most a tenth of its time on states.
"""
import asyncio
import collections
import json
import logging
import sys

from latencies import histogram, quantile

LOG = logging.getLogger("exchange")
PUBLISH_S = 0.25            # between two states
SHARE = 0.1                 # the part of the exchange's time that states take at most
SAMPLE_S = 1
SAMPLES_MAX = 1800          # profits on the curves
LEVELS = 10                 # shown of each side of a book
OPEN_SHOWN = 20             # orders of an account


def phase_of(engine):
    names = {b"O": "before the opening", b"S": "before the opening", b"Q": "open", b"M": "closed", b"E": "closed",
             b"C": "closed"}
    return names[engine.event]


def book_row(book, own):
    """Returns a book's best levels, each [price, shares, orders, own shares]."""
    def levels(side, letter):
        return [[*level, own.get((letter, level[0]), 0)] for level in side.depth(LEVELS)]

    return {"symbol": book.symbol, "state": book.state.decode(), "last": book.last_price, "traded": book.traded_shares,
            "bids": levels(book.bids, b"B"), "offers": levels(book.offers, b"S")}


def account_row(server, account):
    exchange = server.exchange
    latencies = sorted(server.latencies_us[account.user])
    summary = exchange.summary(account)
    orders = [entry.order for entry in account.open_entries()]
    return {**summary, "connected": account.user in server.connected_users(),
            "positions": {symbol: [position.shares, position.profit(exchange.engine.books[symbol].last_price)]
                          for symbol, position in account.positions.items() if position.bought or position.sold},
            "orders": [[order.book.symbol, order.side.decode(), order.shares, order.price]
                       for order in orders[-OPEN_SHOWN:]],
            "us": [round(quantile(latencies, share)) for share in (50, 99)] if latencies else None,
            "histogram": histogram(latencies)}


def state_of(server, samples):
    exchange, engine = server.exchange, server.exchange.engine
    own = collections.defaultdict(collections.Counter)
    for account in exchange.accounts.values():
        for entry in account.open_entries():
            order = entry.order
            own[order.book][order.side, order.price] += order.shares
    return {"session": exchange.feed.session.decode(), "seconds": (server.now_ns() - exchange.begin_ns) / 1e9,
            "note": server.options.note,
            "phase": phase_of(engine), "over": exchange.is_over, "messages": exchange.feed.next - 1,
            "behind_ms": round(server.behind_ns / 1e6, 1),
            "books": [book_row(book, own[book]) for book in engine.books.values()],
            "trades": [[(ns - exchange.begin_ns) / 1e9, *rest] for ns, *rest in reversed(engine.trades)],
            "accounts": [account_row(server, account) for account in exchange.accounts.values()],
            "lines": [line.counts for line in server.lines], "counts": dict(server.counts), "profits": list(samples)}


class Board:
    """The page's process, and what it gets. All of it runs in the exchange's thread."""

    def __init__(self, server):
        self.server, self.process, self.tasks = server, None, []
        self.samples = collections.deque(maxlen=SAMPLES_MAX)        # [s, profit of each account in dollars]

    async def begin(self, address):
        """Starts the page's process. Returns the page's (IP, port). Raises OSError."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "servers.exchange.page_server", *map(str, address), stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE)
        port, fault = json.loads(await self.process.stdout.readline() or '[0, "its process has ended"]')
        if fault:
            raise OSError(0, f"--board {':'.join(map(str, address))}: {fault}")
        self.tasks = [asyncio.ensure_future(task()) for task in (self._sample, self._answer)]
        return address[0], port

    async def _sample(self):
        exchange = self.server.exchange
        while True:
            profits = (exchange.summary(account)["profit"] / 1e4 for account in exchange.accounts.values())
            self.samples.append([round((self.server.now_ns() - exchange.begin_ns) / 1e9), *profits])
            await asyncio.sleep(SAMPLE_S)

    async def _answer(self):
        """Sends a state for each line that the page's process writes, in its turn."""
        loop = asyncio.get_running_loop()
        while await self.process.stdout.readline():
            begun_s = loop.time()
            state = json.dumps(state_of(self.server, self.samples), separators=(",", ":"))
            self.process.stdin.write(state.encode() + b"\n")
            await asyncio.sleep(max(PUBLISH_S, (loop.time() - begun_s) / SHARE))
        LOG.warning("the process of the page has ended; the exchange goes on without it")

    def end(self):
        """Ends the page's process, which sees the end of its input."""
        for task in self.tasks:
            task.cancel()
        if self.process:
            self.process.stdin.close()
