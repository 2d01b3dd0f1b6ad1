"""Parts for the tests of the exchange's engine: an engine with one or more stocks, and what it publishes, readable."""
import struct

from servers.exchange.engine import Engine

S_NS = 10**9
# By type: the layout after the 11 bytes that all messages begin with. Written from ITCH 5.0, not from the product.
LAYOUTS = {b"S": ">c", b"R": ">8sccIcc2scccccIc", b"H": ">8scc4s", b"A": ">QcI8sI", b"F": ">QcI8sI4s", b"E": ">QIQ",
           b"C": ">QIQcI", b"X": ">QI", b"D": ">Q", b"U": ">QQII", b"Q": ">Q8sIQc"}


def fields_of(message):
    """Returns the type of a message, and its fields after the header; texts as str."""
    kind = message[:1]
    values = struct.unpack(LAYOUTS[kind], message[11:])
    return (kind.decode(), *(value.decode().rstrip() if isinstance(value, bytes) else value for value in values))


class Market:
    """An engine that is open, and the messages since the last look."""

    def __init__(self, symbols=("ACME",), is_open=True):
        self.messages = []
        self.engine = Engine(symbols, lambda message, book: self.messages.append(message))
        self.book = self.engine.books[symbols[0]]
        if is_open:
            self.engine.open()
        self.engine.match = 0           # the opening cross had a number
        self.messages.clear()

    def enter(self, side, shares, price, is_immediate=False, owner=None):
        order = self.engine.make_order(self.book, side.encode(), price, shares, owner=owner)
        self.engine.submit(order, is_immediate)
        return order

    def news(self):
        """Returns the messages since the last call, as tuples of type and fields."""
        messages, self.messages[:] = [fields_of(message) for message in self.messages], []
        return messages


class Owner:
    def __init__(self):
        self.seen = []

    def executed(self, order, shares, price, liquidity, match):
        self.seen.append(("executed", order.reference, shares, price, liquidity.decode()))

    def canceled(self, order, shares, reason):
        self.seen.append(("canceled", order.reference, shares, reason.decode()))
