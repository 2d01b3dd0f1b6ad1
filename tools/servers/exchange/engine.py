"""The matching engine: books with price-time priority, continuous matching and crosses. Knows no clock and no sockets.

An order that comes in meets the best orders of the other side, the oldest first, at their prices. The rest of it
waits in the book, unless it is immediate-or-cancel. While a book does not match (before the opening cross, and in a
halt) orders only rest, and may cross. A cross then executes at one price all that can be: the price at which the most
shares trade.

Every change of a book is published as one ITCH message. An order's owner, if there is one, has two methods:
`executed(order, shares, price, liquidity, match)` and `canceled(order, shares, reason)`.
"""
import bisect
import collections
import itertools

from servers.exchange import itch

TRADES_KEPT = 40
# The flag of an execution: the order had rested, or it came and took.
ADDED, REMOVED = b"A", b"R"
OPENING, CLOSING, HALT = b"O", b"C", b"H"       # kinds of a cross, ITCH 5.0 §1.5.2
USER, IMMEDIATE, CLOSED = b"U", b"I", b"E"      # reasons of a cancel, OUCH 5.0 appendix


class Order:
    __slots__ = ("reference", "book", "side", "price", "shares", "attribution", "owner")

    def __init__(self, reference, book, side, price, shares, attribution, owner):
        self.reference, self.book, self.side = reference, book, side        # side: b"B" or b"S"
        self.price, self.shares = price, shares                             # shares: those that are open
        self.attribution, self.owner = attribution, owner                   # four bytes or none; an object or None


class Side:
    """One side of a book. A level's key is its price, negated for offers, so that the best key is the highest."""

    def __init__(self, sign):
        self.sign = sign
        self.keys = []              # ascending
        self.levels = {}            # key -> {reference: order}, the oldest first

    @property
    def best(self):
        """Returns the best price; None without orders."""
        return self.sign * self.keys[-1] if self.keys else None

    def add(self, order):
        key = self.sign * order.price
        level = self.levels.get(key)
        if level is None:
            level = self.levels[key] = {}
            bisect.insort(self.keys, key)
        level[order.reference] = order

    def remove(self, order):
        key = self.sign * order.price
        level = self.levels[key]
        del level[order.reference]
        if not level:
            del self.levels[key]
            if self.keys[-1] == key:
                self.keys.pop()
            else:
                del self.keys[bisect.bisect_left(self.keys, key)]

    def crosses(self, price):
        """Returns true if an order of the other side with this limit meets the best order here."""
        return bool(self.keys) and self.keys[-1] >= self.sign * price

    def orders(self):
        """Yields the orders by priority."""
        for key in reversed(self.keys):
            yield from self.levels[key].values()

    def depth(self, levels):
        """Returns (price, shares, orders) of the best levels."""
        return [(self.sign * key, sum(order.shares for order in self.levels[key].values()), len(self.levels[key]))
                for key in self.keys[:-levels - 1:-1]]


def shares_within(levels, sign):
    """Returns a function: the shares that trade at a price, of levels (price, shares) from the best one on. Thousands
    of levels are no reason for anybody to wait."""
    keys, sums = [sign * price for price, _ in levels], [0, *itertools.accumulate(shares for _, shares in levels)]
    return lambda price: sums[bisect.bisect_right(keys, sign * price)]


class Book:
    def __init__(self, locate, symbol):
        self.locate, self.symbol, self.stock = locate, symbol, itch.stock_field(symbol)
        self.bids, self.offers = Side(1), Side(-1)
        self.is_open, self.state, self.reason = False, b"T", b"    "
        self.last_price = 0
        self.traded_shares = 0

    @property
    def matching(self):
        return self.is_open and self.state == b"T"

    def side(self, side):
        return self.bids if side == b"B" else self.offers

    def other(self, side):
        return self.offers if side == b"B" else self.bids


class Engine:
    def __init__(self, symbols, publish):
        """Makes the books. `publish(message, book)` takes each ITCH message; the book may be None."""
        self.publish = publish
        self.books = {symbol: Book(locate, symbol) for locate, symbol in enumerate(symbols, 1)}
        self.orders = {}            # reference -> order, those in the books
        self.ns = 0                 # the time of the current change, since midnight
        self.reference = self.match = 0
        self.event = itch.BEGIN_OF_MESSAGES     # the latest system event
        self.trades = collections.deque(maxlen=TRADES_KEPT)     # (ns, symbol, side of the one that came, shares, price)

    def at(self, ns):
        """Sets the time of what follows. Time does not go back."""
        self.ns = max(self.ns, ns)

    # ---- orders ----

    def make_order(self, book, side, price, shares, attribution=b"", owner=None):
        """Returns an order with a reference number, which is not in the book yet."""
        assert shares > 0 and 0 < price <= itch.PRICE_MAX
        self.reference += 1
        return Order(self.reference, book, side, price, shares, attribution, owner)

    def submit(self, order, is_immediate=False):
        """Matches an order; the rest waits in the book, or is cancelled."""
        book = order.book
        if book.matching:
            self._match(order)
        if order.shares and is_immediate:
            shares, order.shares = order.shares, 0
            if order.owner:
                order.owner.canceled(order, shares, IMMEDIATE)
        elif order.shares:
            self._rest(order)
            self.publish(itch.add_order(book.locate, self.ns, order.reference, order.side, order.shares, book.stock,
                                        order.price, order.attribution), book)

    def reduce(self, order, shares, reason=USER):
        """Leaves `shares` of an order open, fewer than there are; 0 deletes it. The order keeps its priority."""
        assert 0 <= shares < order.shares
        book, gone, order.shares = order.book, order.shares - shares, shares
        if shares:
            self.publish(itch.order_cancel(book.locate, self.ns, order.reference, gone), book)
        else:
            self._remove(order)
            self.publish(itch.order_delete(book.locate, self.ns, order.reference), book)
        if order.owner:
            order.owner.canceled(order, gone, reason)

    def replace(self, old, new, is_immediate=False):
        """Puts a new order in the place of an old one. Its owner learns nothing of the old one's end."""
        book = old.book
        self._remove(old)
        if is_immediate or book.matching and book.other(new.side).crosses(new.price):
            self.publish(itch.order_delete(book.locate, self.ns, old.reference), book)
            self.submit(new, is_immediate)
        else:
            new.attribution = old.attribution
            self._rest(new)
            self.publish(itch.order_replace(book.locate, self.ns, old.reference, new.reference, new.shares, new.price),
                         book)
        old.shares = 0

    def _rest(self, order):
        order.book.side(order.side).add(order)
        self.orders[order.reference] = order

    def _remove(self, order):
        order.book.side(order.side).remove(order)
        del self.orders[order.reference]

    # ---- matching ----

    def _match(self, order):
        book = order.book
        other = book.other(order.side)
        while order.shares and other.crosses(order.price):
            resting = next(iter(other.levels[other.keys[-1]].values()))
            shares = min(order.shares, resting.shares)
            self.match += 1
            self._take(resting, shares)
            order.shares -= shares
            self.publish(itch.order_executed(book.locate, self.ns, resting.reference, shares, self.match), book)
            self._note_trade(book, order.side, shares, resting.price)
            if resting.owner:
                resting.owner.executed(resting, shares, resting.price, ADDED, self.match)
            if order.owner:
                order.owner.executed(order, shares, resting.price, REMOVED, self.match)

    def _take(self, resting, shares):
        resting.shares -= shares
        if not resting.shares:
            self._remove(resting)

    def _note_trade(self, book, side, shares, price):
        book.last_price = price
        book.traded_shares += shares
        self.trades.append((self.ns, book.symbol, side.decode(), shares, price))

    def cross(self, book, kind):
        """Executes all that crosses in a book, at one price, and publishes the cross."""
        price, crossed = self._cross_price(book), 0
        while price and book.bids.crosses(price) and book.offers.crosses(price):
            bid, offer = next(book.bids.orders()), next(book.offers.orders())
            shares = min(bid.shares, offer.shares)
            crossed += shares
            self.match += 1
            for order in (bid, offer):
                self._take(order, shares)
                self.publish(itch.order_executed_with_price(book.locate, self.ns, order.reference, shares, self.match,
                                                            b"N", price), book)
                if order.owner:
                    order.owner.executed(order, shares, price, kind, self.match)
        self.match += 1
        self.publish(itch.cross_trade(book.locate, self.ns, crossed, book.stock, price, self.match, kind), book)
        if crossed:
            self._note_trade(book, kind, crossed, price)

    @staticmethod
    def _cross_price(book):
        """Returns the price at which the most shares trade, of several the one with the smallest surplus, then the
        lowest; 0 if nothing crosses."""
        bids, offers = ([(price, shares) for price, shares, _ in side.depth(len(side.keys))]
                        for side in (book.bids, book.offers))
        if not bids or not offers or bids[0][0] < offers[0][0]:
            return 0
        low, high = offers[0][0], bids[0][0]
        demand, supply = shares_within(bids, -1), shares_within(offers, 1)
        return min((-min(demand(price), supply(price)), abs(demand(price) - supply(price)), price)
                   for price, _ in bids + offers if low <= price <= high)[2]

    # ---- the session ----

    def system_event(self, code):
        self.event = code
        self.publish(itch.system_event(self.ns, code), None)

    def list_stocks(self):
        """Publishes the directory, and the trading state, of all stocks."""
        for book in self.books.values():
            self.publish(itch.stock_directory(book.locate, self.ns, book.stock), book)
        for book in self.books.values():
            self._publish_state(book)

    def open(self):
        """Begins continuous matching, with the opening cross of each book."""
        self.system_event(itch.BEGIN_OF_MARKET)
        for book in self.books.values():
            if book.state == b"T":
                self.cross(book, OPENING)
            book.is_open = True

    def close(self):
        """Ends the market: no matching, no orders."""
        self.system_event(itch.END_OF_MARKET)
        for book in self.books.values():
            book.is_open = False
        for order in list(self.orders.values()):
            self.reduce(order, 0, CLOSED)

    def halt(self, book, reason=b"T1  "):
        book.state, book.reason = b"H", reason
        self._publish_state(book)

    def resume(self, book):
        """Ends a halt, with a cross if the market is open."""
        book.state, book.reason = b"T", b"    "
        self._publish_state(book)
        if book.is_open:
            self.cross(book, HALT)

    def _publish_state(self, book):
        self.publish(itch.trading_action(book.locate, self.ns, book.stock, book.state, book.reason), book)

    def snapshot(self):
        """Returns the messages from which a reader that knows nothing gets the books: directory, states, orders."""
        messages = [itch.system_event(self.ns, self.event)]
        for book in self.books.values():
            messages.append(itch.stock_directory(book.locate, self.ns, book.stock))
            messages.append(itch.trading_action(book.locate, self.ns, book.stock, book.state, book.reason))
        for book in self.books.values():
            for side in (book.bids, book.offers):
                messages += [itch.add_order(book.locate, self.ns, order.reference, order.side, order.shares, book.stock,
                                            order.price, order.attribution) for order in side.orders()]
        return messages

    def check(self):
        """Asserts that books and orders agree, and that no book that matches is crossed."""
        count = 0
        for book in self.books.values():
            for side in (book.bids, book.offers):
                assert side.keys == sorted(side.levels)
                for order in side.orders():
                    assert order.shares > 0 and self.orders[order.reference] is order
                    count += 1
            assert not book.matching or None in (book.bids.best, book.offers.best) \
                or book.bids.best < book.offers.best
        assert count == len(self.orders)
