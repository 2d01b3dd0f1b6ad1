"""Nasdaq TotalView-ITCH 5.0: the messages that the exchange publishes, and those of a recorded day, as bytes.

Every message begins with its type, the stock locate, a tracking number (0 here) and six bytes of nanoseconds since
midnight. Integers are big-endian. Prices are integers with four implied decimals. Stocks are eight bytes, padded with
blanks. A file is a row of messages, each after its length in two bytes, as the files of recorded days are.
"""
import struct

# By type: the fields after the header, and the length of the message. ITCH 5.0 §1.1 to §1.7.
HEADER = ">cHHHI"
SYSTEM_EVENT = struct.Struct(HEADER + "c")
STOCK_DIRECTORY = struct.Struct(HEADER + "8sccIcc2scccccIc")
TRADING_ACTION = struct.Struct(HEADER + "8scc4s")
ADD_ORDER = struct.Struct(HEADER + "QcI8sI")
ADD_ORDER_ATTRIBUTED = struct.Struct(HEADER + "QcI8sI4s")
ORDER_EXECUTED = struct.Struct(HEADER + "QIQ")
ORDER_EXECUTED_WITH_PRICE = struct.Struct(HEADER + "QIQcI")
ORDER_CANCEL = struct.Struct(HEADER + "QI")
ORDER_DELETE = struct.Struct(HEADER + "Q")
ORDER_REPLACE = struct.Struct(HEADER + "QQII")
CROSS_TRADE = struct.Struct(HEADER + "Q8sIQc")

LENGTHS = {b"S": 12, b"R": 39, b"H": 25, b"A": 36, b"F": 40, b"E": 31, b"C": 36, b"X": 23, b"D": 19, b"U": 35, b"Q": 40}
LOW = 0xffffffff
PRICE_MAX = 1_999_999_900       # the highest limit price, $199,999.99
BEGIN_OF_MESSAGES, BEGIN_OF_SYSTEM, BEGIN_OF_MARKET = b"O", b"S", b"Q"
END_OF_MARKET, END_OF_SYSTEM, END_OF_MESSAGES = b"M", b"E", b"C"


def stock_field(symbol):
    return symbol.encode().ljust(8)


def system_event(ns, code):
    return SYSTEM_EVENT.pack(b"S", 0, 0, ns >> 32, ns & LOW, code)


def stock_directory(locate, ns, stock):
    """Returns the message of a common stock of the highest tier, with round lots of 100 shares: a test issue."""
    return STOCK_DIRECTORY.pack(b"R", locate, 0, ns >> 32, ns & LOW, stock, b"Q", b"N", 100, b"N", b"C", b"Z ", b"T",
                                b"N", b"N", b"1", b"N", 0, b"N")


def trading_action(locate, ns, stock, state, reason):
    return TRADING_ACTION.pack(b"H", locate, 0, ns >> 32, ns & LOW, stock, state, b" ", reason)


def add_order(locate, ns, reference, side, shares, stock, price, attribution):
    """Returns an add order message, with attribution if it is not empty."""
    if attribution:
        return ADD_ORDER_ATTRIBUTED.pack(b"F", locate, 0, ns >> 32, ns & LOW, reference, side, shares, stock, price,
                                         attribution)
    return ADD_ORDER.pack(b"A", locate, 0, ns >> 32, ns & LOW, reference, side, shares, stock, price)


def order_executed(locate, ns, reference, shares, match):
    return ORDER_EXECUTED.pack(b"E", locate, 0, ns >> 32, ns & LOW, reference, shares, match)


def order_executed_with_price(locate, ns, reference, shares, match, printable, price):
    return ORDER_EXECUTED_WITH_PRICE.pack(b"C", locate, 0, ns >> 32, ns & LOW, reference, shares, match, printable,
                                          price)


def order_cancel(locate, ns, reference, shares):
    return ORDER_CANCEL.pack(b"X", locate, 0, ns >> 32, ns & LOW, reference, shares)


def order_delete(locate, ns, reference):
    return ORDER_DELETE.pack(b"D", locate, 0, ns >> 32, ns & LOW, reference)


def order_replace(locate, ns, reference, new_reference, shares, price):
    return ORDER_REPLACE.pack(b"U", locate, 0, ns >> 32, ns & LOW, reference, new_reference, shares, price)


def cross_trade(locate, ns, shares, stock, price, match, kind):
    return CROSS_TRADE.pack(b"Q", locate, 0, ns >> 32, ns & LOW, shares, stock, price, match, kind)


def nanoseconds(message):
    return int.from_bytes(message[5:11], "big")


class FileError(Exception):
    pass


def read_file(path):
    """Yields the messages of a file, up to its end or an empty one, which ends the session (Nasdaq BinaryFILE 1.00).
    Raises FileError, OSError."""
    with open(path, "rb") as file:
        at = 0
        while head := file.read(2):
            size = int.from_bytes(head, "big")
            message = file.read(size)
            if len(head) < 2 or len(message) < size:
                raise FileError(f"{path}: the message at byte {at} is cut off")
            if size == 0 and at > 0:
                return
            if size < 11 or LENGTHS.get(message[:1], size) != size:
                raise FileError(f"{path}: the message at byte {at} has {size} bytes, which no '{chr(message[0])}' has"
                                if size else f"{path}: the message at byte {at} is empty")
            yield message
            at += 2 + size
