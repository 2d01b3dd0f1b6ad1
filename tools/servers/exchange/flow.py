"""Order flow: who else trades here. A source has `next_ns`, when its next step is due, and `step()`, which does it.

`RandomFlow` has traders without a plan. Each stock has a hidden value that moves at random. Orders come in around it,
so the ones that rest become marketable as it moves; others are reduced, deleted or replaced, and some take at once.
The seed alone decides all of it. `RecordedFlow` plays the orders of an ITCH file: an execution there becomes an
immediate order against the same resting order.
"""
import math
import random

from servers.exchange import itch

END_NS = 1 << 62            # no further step
TICK = 100                  # a cent
FIRMS = (b"GSCO", b"MSCO", b"CITI", b"VIRT")
ATTRIBUTED_SHARE = 0.1      # a part of the orders
LIVE_MIN = 20               # orders of a book; with fewer, the next step adds one
PRICE_TOP = 900 * 10_000    # values stay between a dollar and this
STEP_TICKS = 0.7            # standard deviation of a value's move at each step of its stock

# The actions of steps, by their share. While a book does not match, nobody takes.
ACTIONS = {"add": 0.46, "delete": 0.22, "reduce": 0.06, "replace": 0.16, "take": 0.10}


class RandomFlow:
    def __init__(self, engine, seed, rate, begin_ns, live_max):
        """Begins at `begin_ns`, with `rate` steps a second at random times, and `live_max` orders in a book at most."""
        self.engine, self.random, self.rate, self.live_max = engine, random.Random(f"flow {seed}"), rate, live_max
        self.books = list(engine.books.values())
        self.values = {book: self.random.randint(10, 400) * 10_000.0 for book in self.books}
        self.live = {book: [] for book in self.books}       # orders of ours; those that ended leave when they are met
        self.actions, self.weights = list(ACTIONS), list(ACTIONS.values())
        self.next_ns = begin_ns
        self._schedule()

    def _schedule(self):
        self.next_ns += max(int(-math.log(1 - self.random.random()) / self.rate * 1e9), 1) if self.rate else END_NS

    def step(self):
        book = self.random.choice(self.books)
        value = self.values[book] + self.random.gauss(0, STEP_TICKS * TICK)
        self.values[book] = min(max(value, 10_000), PRICE_TOP)
        order = self._pick(book)
        action = self.random.choices(self.actions, self.weights)[0]
        if order is None or len(self.live[book]) < LIVE_MIN or action == "take" and not book.matching:
            action = "add"
        elif len(self.live[book]) >= self.live_max and action == "add":
            action = "delete"
        getattr(self, f"_{action}")(book, order)
        self._schedule()

    def _pick(self, book):
        """Returns an order of ours that lives, or None."""
        orders = self.live[book]
        while orders:
            at = self.random.randrange(len(orders))
            if orders[at].shares:
                return orders[at]
            orders[at] = orders[-1]
            orders.pop()
        return None

    def _limit(self, book, side):
        """Returns a passive price: beside the value by some ticks, a few more often than many."""
        away = 1 + int(self.random.expovariate(1 / 6))
        ticks = round(self.values[book] / TICK) + (-away if side == b"B" else away)
        return max(ticks, 1) * TICK

    def _shares(self):
        return self.random.randint(1, 99) if self.random.random() < 0.1 else 100 * self.random.randint(1, 10)

    def _add(self, book, _):
        side = self.random.choice((b"B", b"S"))
        firm = self.random.choice(FIRMS) if self.random.random() < ATTRIBUTED_SHARE else b""
        order = self.engine.make_order(book, side, self._limit(book, side), self._shares(), firm)
        self.engine.submit(order)
        self.live[book].append(order)

    def _take(self, book, _):
        side = self.random.choice((b"B", b"S"))
        best = book.other(side).best
        if best is not None:
            through = self.random.randint(0, 3) * TICK
            price = max(best + through if side == b"B" else best - through, TICK)
            self.engine.submit(self.engine.make_order(book, side, price, self._shares()), is_immediate=True)

    def _delete(self, book, order):
        self.engine.reduce(order, 0)

    def _reduce(self, book, order):
        self.engine.reduce(order, self.random.randrange(order.shares))

    def _replace(self, book, order):
        new = self.engine.make_order(book, order.side, self._limit(book, order.side), self._shares())
        self.engine.replace(order, new)
        self.live[book].append(new)


class RecordedFlow:
    """`skipped` counts the messages that nothing here follows from: other stocks, orders that are gone, trades of
    orders that were hidden. `begin_ns` is the first message's time here."""

    def __init__(self, engine, messages, begin_ns):
        self.engine, self.messages, self.begin_ns = engine, iter(messages), begin_ns
        self.orders = {}            # reference there -> order here
        self.first_ns = None        # the first message's time there
        self.skipped = 0
        self.next_ns = 0
        self._read()

    def _read(self):
        self.message = next(self.messages, None)
        if self.message is None:
            self.next_ns = END_NS
            return
        ns = itch.nanoseconds(self.message)
        self.first_ns = ns if self.first_ns is None else self.first_ns
        self.next_ns = max(self.next_ns, self.begin_ns + ns - self.first_ns)

    def step(self):
        play = self.PLAYS.get(self.message[:1])
        if play is None or not play(self):
            self.skipped += 1
        self._read()

    def _live(self, reference):
        order = self.orders.get(reference)
        if order is not None and not order.shares:
            del self.orders[reference]
            order = None
        return order

    def _play_add(self):
        fields = (itch.ADD_ORDER_ATTRIBUTED if self.message[:1] == b"F" else itch.ADD_ORDER).unpack(self.message)
        reference, side, shares, stock, price, *firm = fields[5:]
        book = self.engine.books.get(stock.decode("latin-1").rstrip())
        if book is None or not shares or not 0 < price <= itch.PRICE_MAX or side not in (b"B", b"S"):
            return False
        order = self.engine.make_order(book, side, price, shares, *firm)
        self.engine.submit(order)
        self.orders[reference] = order
        return True

    def _play_executed(self):
        order = self._live(int.from_bytes(self.message[11:19], "big"))
        shares = int.from_bytes(self.message[19:23], "big")
        if order is None or not shares or not order.book.matching:
            return False
        side = b"S" if order.side == b"B" else b"B"
        self.engine.submit(self.engine.make_order(order.book, side, order.price, shares), is_immediate=True)
        return True

    def _play_cancel(self):
        order = self._live(int.from_bytes(self.message[11:19], "big"))
        shares = int.from_bytes(self.message[19:23], "big")
        if order is None or not shares:
            return False
        self.engine.reduce(order, max(order.shares - shares, 0))
        return True

    def _play_delete(self):
        order = self._live(int.from_bytes(self.message[11:19], "big"))
        if order is None:
            return False
        self.engine.reduce(order, 0)
        return True

    def _play_replace(self):
        reference, new_reference, shares, price = itch.ORDER_REPLACE.unpack(self.message)[5:]
        order = self._live(reference)
        if order is None or not shares or not 0 < price <= itch.PRICE_MAX:
            return False
        new = self.engine.make_order(order.book, order.side, price, shares)
        self.engine.replace(order, new)
        del self.orders[reference]
        self.orders[new_reference] = new
        return True

    PLAYS = {b"A": _play_add, b"F": _play_add, b"E": _play_executed, b"C": _play_executed, b"X": _play_cancel,
             b"D": _play_delete, b"U": _play_replace}


class Schedule:
    """The session's events at their times: (ns, function) each, in order."""

    def __init__(self, events):
        self.events = sorted(events, key=lambda event: event[0])
        self.at = 0

    @property
    def next_ns(self):
        return self.events[self.at][0] if self.at < len(self.events) else END_NS

    def step(self):
        self.at += 1
        self.events[self.at - 1][1]()


class Day:
    """All that happens by the clock, in the order of its time: the schedule, then the flow."""

    def __init__(self, engine, sources):
        self.engine, self.sources = engine, sources
        self.steps = 0

    @property
    def next_ns(self):
        return min(source.next_ns for source in self.sources)

    def step(self):
        source = min(self.sources, key=lambda source: source.next_ns)
        self.engine.at(source.next_ns)
        self.steps += 1
        source.step()
