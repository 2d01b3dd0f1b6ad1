"""The live page of a running exchange: books, trades, accounts with position, profit and latency, and the lines.

/             the page (live by server-sent events from /events)
/board.json   the state that the page shows

Threads of web/live_page.py serve the viewers; the state is read in the exchange's own thread, between two turns.
"""
import asyncio
import collections
import pathlib

from latencies import histogram, quantile
from web import live_page

PAGE = pathlib.Path(__file__).resolve().parent / "page"
PUBLISH_S = 0.25
SAMPLE_S = 1
SAMPLES_MAX = 1800          # profits on the curves
LEVELS = 10                 # shown of each side of a book
ANSWER_S = 5                # for a state that a viewer's thread asks for
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
            "phase": phase_of(engine), "over": exchange.is_over, "messages": exchange.feed.next - 1,
            "behind_ms": round(server.behind_ns / 1e6, 1),
            "books": [book_row(book, own[book]) for book in engine.books.values()],
            "trades": [[(ns - exchange.begin_ns) / 1e9, *rest] for ns, *rest in reversed(engine.trades)],
            "accounts": [account_row(server, account) for account in exchange.accounts.values()],
            "lines": [line.counts for line in server.lines], "counts": dict(server.counts), "profits": list(samples)}


class Pages(live_page.Pages):
    """Viewers' threads call all but what `begin` starts."""

    def __init__(self, server):
        super().__init__("Exchange", PAGE)
        self.server, self.loop = server, asyncio.get_running_loop()
        self.samples = collections.deque(maxlen=SAMPLES_MAX)        # [s, profit of each account in dollars]

    def begin(self):
        """Begins to sample and to publish, in the exchange's thread."""
        self._sample()
        self._publish_again()

    def _sample(self):
        exchange = self.server.exchange
        self.samples.append([round((self.server.now_ns() - exchange.begin_ns) / 1e9),
                             *(exchange.summary(account)["profit"] / 1e4 for account in exchange.accounts.values())])
        self.loop.call_later(SAMPLE_S, self._sample)

    def _publish_again(self):
        if self.watchers:
            super().publish()
        self.loop.call_later(PUBLISH_S, self._publish_again)

    def publish(self):
        self.loop.call_soon_threadsafe(super().publish)

    def state(self):
        return live_page.json_bytes(state_of(self.server, self.samples))

    def find(self, path, query):
        if path == "/board.json":
            async def read():
                return self.state()
            return asyncio.run_coroutine_threadsafe(read(), self.loop).result(ANSWER_S), "application/json"
        return super().find(path, query)


def serve(server, address):
    """Begins to serve the page. Returns the server of its port. Raises OSError."""
    web = live_page.Server(address, Pages(server))
    web.pages.begin()
    web.start()
    return web
