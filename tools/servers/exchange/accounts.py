"""Order entry: each account's orders, position and stream of answers, by OUCH 5.0 §2. Knows no sockets.

A request whose UserRefNum is not above all before it is a repetition, and is ignored: a client may send again what it
does not know to have arrived. The quantity of a replace or cancel counts the shares already executed, also those of
the orders that were replaced before (§2.2, §2.3).
"""
import collections
import dataclasses
import logging

from servers.exchange import ouch
from servers.exchange.engine import CLOSING, HALT, OPENING, USER

LOG = logging.getLogger("exchange")
CROSS_LIQUIDITY = {OPENING: b"O", CLOSING: b"C", HALT: b"H"}       # flags of executions in crosses
START_OF_DAY, END_OF_DAY = b"S", b"E"


class Entry:
    """One order of an account, as the engine's owner of it."""

    def __init__(self, account, request, executed_before):
        self.account, self.request = account, request
        self.total_executed = executed_before           # shares, over all that it replaced
        self.order = None

    @property
    def is_live(self):
        return self.order is not None and self.order.shares > 0

    def executed(self, order, shares, price, liquidity, match):
        account = self.account
        self.total_executed += shares
        account.note_execution(order, shares, price)
        account.answer(ouch.executed(account.engine.ns, self.request.number, shares, price,
                                     CROSS_LIQUIDITY.get(liquidity, liquidity), match))

    def canceled(self, _, shares, reason):
        self.account.answer(ouch.canceled(self.account.engine.ns, self.request.number, shares, reason))


@dataclasses.dataclass
class Position:
    shares: int = 0             # negative: sold more than bought
    cash: int = 0               # 1/10,000 dollars, of all sales less all purchases
    bought: int = 0             # shares
    sold: int = 0

    def profit(self, price):
        """Returns the profit in 1/10,000 dollars if the position were worth this price."""
        return self.cash + self.shares * price


class Account:
    """`answers`: the sequenced stream. `on_answer` is called with each new answer."""

    def __init__(self, engine, user, password):
        self.engine, self.user, self.password = engine, user, password
        self.firm = user.upper().encode()[:4].ljust(4)
        self.entries = {}           # UserRefNum -> Entry
        self.highest = 0            # UserRefNum
        self.positions = {symbol: Position() for symbol in engine.books}
        self.counts = collections.Counter()     # requests and answers by what they are
        self.answers = []
        self.on_answer = lambda answer: None
        self.answer(ouch.system_event(engine.ns, START_OF_DAY))

    def answer(self, message):
        self.counts["answer " + chr(message[0])] += 1
        self.answers.append(message)
        self.on_answer(message)

    def open_entries(self):
        return [entry for entry in self.entries.values() if entry.is_live]

    def note_execution(self, order, shares, price):
        position = self.positions[order.book.symbol]
        sign = 1 if order.side == b"B" else -1
        position.shares += sign * shares
        position.cash -= sign * shares * price
        if sign > 0:
            position.bought += shares
        else:
            position.sold += shares

    def take(self, message):
        """Does what a message asks. A message that is none is logged and counted."""
        try:
            request = ouch.decode(message)
        except ouch.Malformed as error:
            self.counts["malformed"] += 1
            LOG.warning("%s sent no message of OUCH: %s", self.user, error)
            return
        self.counts[request.kind] += 1
        getattr(self, f"_{request.kind}")(request)

    # ---- enter ----

    def _enter(self, request):
        if request.number <= self.highest:
            self.counts["repeated"] += 1
            return
        self.highest = request.number
        book = self.engine.books.get(request.symbol)
        reason = self._fault(request, book)
        if reason:
            self.answer(ouch.rejected(self.engine.ns, request.number, reason, request.client_id))
            return
        entry = self.entries[request.number] = Entry(self, request, 0)
        self._make(entry, book, request.quantity)
        self.answer(ouch.accepted(self.engine.ns, request, entry.order.reference))
        self.engine.submit(entry.order, request.time_in_force == ouch.IMMEDIATE)

    def _make(self, entry, book, shares):
        request = entry.request
        side = b"B" if request.side == ouch.BUY else b"S"
        firm = (request.firm or self.firm) if request.display == ouch.ATTRIBUTABLE else b""
        price = request.price
        if price in ouch.MARKET_PRICES:
            price = ouch.PRICE_MAX if side == b"B" else 1
        entry.order = self.engine.make_order(book, side, price, shares, firm, entry)

    def _fault(self, request, book):
        """Returns the reason to reject an order; 0 if there is none."""
        if book is None:
            return ouch.INVALID_SYMBOL
        if request.side not in (ouch.BUY, ouch.SELL, ouch.SHORT, ouch.SHORT_EXEMPT):
            return ouch.INVALID_SIDE
        if request.cross != ouch.CONTINUOUS:
            return ouch.INVALID_CROSS
        if self._is_closed(book) or request.time_in_force == ouch.IMMEDIATE and not book.matching:
            return ouch.HALTED
        return self._detail_fault(request)

    def _is_closed(self, book):
        return self.engine.event in (b"M", b"E", b"C")

    @staticmethod
    def _detail_fault(request):
        """Returns the reason to refuse the details that a replace has, too; 0 if there is none."""
        is_market = request.price in ouch.MARKET_PRICES
        if not 1 <= request.quantity <= ouch.QUANTITY_MAX:
            return ouch.INVALID_QUANTITY
        if not (1 <= request.price <= ouch.PRICE_MAX or is_market and request.time_in_force == ouch.IMMEDIATE):
            return ouch.INVALID_PRICE
        if request.display not in (ouch.VISIBLE, ouch.ATTRIBUTABLE):
            return ouch.INVALID_DISPLAY
        if request.time_in_force not in (ouch.DAY, ouch.IMMEDIATE) or request.unknown_tag:
            return ouch.OTHER
        return 0

    # ---- replace, cancel, modify, query ----

    def _replace(self, request):
        old = self.entries.get(request.original)
        if old is None or not old.is_live or request.number <= self.highest:
            self.counts["ignored"] += 1             # §2.2: the number is not used up
            return
        request.side, request.symbol = old.request.side, old.request.symbol
        request.capacity, request.cross = old.request.capacity, old.request.cross
        open_shares = request.quantity - old.total_executed
        if self._detail_fault(request) or open_shares <= 0:
            self.engine.reduce(old.order, 0, USER)
            return
        self.highest = request.number
        entry = self.entries[request.number] = Entry(self, request, old.total_executed)
        self._make(entry, old.order.book, open_shares)
        self.answer(ouch.replaced(self.engine.ns, request, entry.order.reference, open_shares))
        self.engine.replace(old.order, entry.order, request.time_in_force == ouch.IMMEDIATE)

    def _cancel(self, request):
        entry = self.entries.get(request.number)
        open_shares = 0
        if entry is not None and entry.is_live:
            open_shares = max(request.quantity - entry.total_executed, 0) if request.quantity else 0
        if entry is None or not entry.is_live or open_shares >= entry.order.shares:
            self.counts["ignored"] += 1             # §2.3: a superfluous cancel has no answer
            return
        self.engine.reduce(entry.order, open_shares, USER)

    def _modify(self, request):
        """Changes the kind of a sale, or the size, without loss of priority. The shares count those executed."""
        entry = self.entries.get(request.number)
        sales = (ouch.SELL, ouch.SHORT, ouch.SHORT_EXEMPT)
        if entry is None or not entry.is_live or request.side != entry.request.side and not (
                request.side in sales and entry.request.side in sales):
            self.counts["ignored"] += 1
            return
        entry.request.side = request.side
        open_shares = max(request.quantity - entry.total_executed, 0)
        if open_shares < entry.order.shares:
            if not open_shares:
                self.engine.reduce(entry.order, 0, USER)
                return
            self.engine.reduce(entry.order, open_shares, USER)
        self.answer(ouch.modified(self.engine.ns, request.number, request.side, entry.order.shares))

    def _query(self, _):
        self.answer(ouch.query_response(self.engine.ns, min(self.highest + 1, ouch.NUMBER_MAX)))

    def check(self):
        """Asserts that positions follow from the executions, and the chains of orders are within what was asked."""
        for entry in self.entries.values():
            assert entry.order.shares >= 0
            assert entry.total_executed + entry.order.shares <= entry.request.quantity
        for position in self.positions.values():
            assert position.shares == position.bought - position.sold
