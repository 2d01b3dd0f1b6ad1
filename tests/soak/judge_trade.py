"""Judges the orders of a trading program on the exchange's side: plays the exchange's journal again, and holds each
request against the limits at the moment when it arrived."""
import collections
import dataclasses
import types

from servers.exchange import journal, ouch
from servers.exchange.market import Exchange

S_NS = 10**9
UNITS = 10_000              # a price has four implied decimals
COLLAR_NS = 5 * S_NS        # the longest way of a price in and of the order out


@dataclasses.dataclass(frozen=True)
class Limits:
    """The program's settings that begin with `risk.`, and the number of orders that may be on their way at once."""
    shares: int
    notional: int
    collar: int
    position: int
    open: int
    rate: int
    in_flight: int


class Judge(Exchange):
    """`problems`: by kind, the number and the first as text. `open_at_end`: orders that the program has left."""

    def __init__(self, limits, session, begin_ns, options):
        self.limits = limits
        self.problems, self.first = collections.Counter(), {}
        self.newest = self.orders = self.open_at_end = 0
        self.prices = {symbol: collections.deque() for symbol in options.symbols}     # (ns, price) of the latest trades
        self.arrivals = collections.deque()     # ns of the orders of the latest second
        self.live = []                          # entries
        self.trade = None
        super().__init__(options, session, begin_ns)

    def problem(self, kind, request, text):
        self.problems[kind] += 1
        self.first.setdefault(kind, f"{text}, at {self.engine.ns / S_NS:.6f} s: {request}")

    # ---- trades

    def _publish(self, message, book):
        super()._publish(message, book)
        self._note_trade()

    def _note_trade(self):
        trades = self.engine.trades
        if trades and trades[-1] is not self.trade:
            self.trade = trades[-1]
            ns, symbol, _, _, price = self.trade
            self.prices[symbol].append((ns, price))

    def _is_in_collar(self, symbol, price):
        """Returns true if one of the latest prices allows this one. The oldest of them is from before COLLAR_NS."""
        prices, since_ns = self.prices[symbol], self.engine.ns - COLLAR_NS
        while len(prices) > 1 and prices[1][0] < since_ns:
            prices.popleft()
        return any(abs(price - last) * 100 <= last * self.limits.collar for _, last in prices)

    # ---- requests

    def take(self, account, message, ns):
        self.engine.at(ns)
        self._note_trade()
        request = ouch.decode(message)
        if request.kind in ("enter", "replace"):
            self._judge_order(account, request)
        elif request.kind == "query":
            self.arrivals.clear()       # after a login: the exchange's clock stood still while it was dead
        super().take(account, message, ns)
        self._judge_account(account, request)

    def _judge_order(self, account, request):
        limits, ns = self.limits, self.engine.ns
        self.orders += 1
        if request.number <= self.newest:
            self.problem("repeated", request, f"after {self.newest}")
        self.newest = max(self.newest, request.number)
        original = account.entries.get(request.original)
        if request.kind == "replace" and original is None:
            self.problem("unknown", request, "there never was the order that it replaces")
            return
        symbol = original.request.symbol if original else request.symbol
        if not 0 < request.quantity <= limits.shares:
            self.problem("shares", request, f"{request.quantity} shares")
        if request.quantity * request.price > limits.notional * UNITS:
            self.problem("notional", request, f"{request.quantity * request.price / UNITS} dollars")
        if not self._is_in_collar(symbol, request.price):
            self.problem("collar", request, f"{symbol} at {request.price} after {list(self.prices[symbol])}")
        self.arrivals.append(ns)
        while self.arrivals[0] <= ns - S_NS:
            self.arrivals.popleft()
        if len(self.arrivals) > limits.rate + limits.in_flight:
            self.problem("rate", request, f"{len(self.arrivals)} orders in a second")

    def _judge_account(self, account, request):
        """Judges what the account has and may still get, after each request."""
        entry = account.entries.get(request.number)
        if request.kind in ("enter", "replace") and entry is not None and entry not in self.live:
            self.live.append(entry)
        self.live = [entry for entry in self.live if entry.is_live]
        if len(self.live) > self.limits.open:
            self.problem("open", request, f"{len(self.live)} open orders")
        worst = {symbol: [position.shares, position.shares] for symbol, position in account.positions.items()}
        for entry in self.live:
            buys = entry.request.side == ouch.BUY
            worst[entry.order.book.symbol][not buys] += entry.order.shares if buys else -entry.order.shares
        for symbol, (long, short) in worst.items():
            if long > self.limits.position or short < -self.limits.position:
                self.problem("position", request, f"{symbol}: from {short} to {long} with all open orders")

    def end(self, ns):
        self.open_at_end = sum(len(account.open_entries()) for account in self.accounts.values())
        super().end(ns)


def judge(path, limits):
    """Returns the judge of a whole journal."""
    session, begin_ns, options = journal.read_begin(path)
    found = Judge(limits, session, begin_ns, types.SimpleNamespace(**options))
    journal.replay(path, found)
    found.check()
    return found
