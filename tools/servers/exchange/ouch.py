"""Nasdaq OUCH 5.0: the requests of a client decoded, the exchange's answers as bytes.

Integers are big-endian, prices have four implied decimals, times are nanoseconds since midnight. Some messages end
with the length of an optional appendage, in two bytes. Answers whose appendage can only echo a UserRefIdx leave out
that length (§3), since this exchange echoes none.
"""
import dataclasses
import struct

ENTER = struct.Struct(">cIcI8sQccccc14sH")
REPLACE = struct.Struct(">cIIIQccc14sH")
CANCEL = struct.Struct(">cII")
MODIFY = struct.Struct(">cIcI")
QUERY = struct.Struct(">c")

SYSTEM_EVENT = struct.Struct(">cQc")
ACCEPTED = struct.Struct(">cQIcI8sQccQcccc14sH")
REPLACED = struct.Struct(">cQIIcI8sQccQcccc14sH")
CANCELED = struct.Struct(">cQIIc")
EXECUTED = struct.Struct(">cQIIQcQH")
REJECTED = struct.Struct(">cQIH14s")
CANCEL_REJECT = struct.Struct(">cQI")
MODIFIED = struct.Struct(">cQIcI")
QUERY_RESPONSE = struct.Struct(">cQI")

BUY, SELL, SHORT, SHORT_EXEMPT = b"B", b"S", b"T", b"E"
DAY, IMMEDIATE = b"0", b"3"         # times in force that this exchange has
VISIBLE, ATTRIBUTABLE = b"Y", b"A"  # displays
CONTINUOUS = b"N"                   # the cross type of an order of the continuous market
LIVE = b"L"
NUMBER_MAX = (1 << 32) - 1      # a UserRefNum
QUANTITY_MAX = 999_999
PRICE_MAX = 1_999_999_900
MARKET_PRICES = range(2_000_000_000, 1 << 31)
TAG_FIRM = 2

# Reasons of a reject, OUCH 5.0 appendix D.
INVALID_DISPLAY, HALTED, INVALID_SIDE, OTHER = 0x03, 0x07, 0x09, 0x0f
INVALID_QUANTITY, INVALID_CROSS, INVALID_SYMBOL, INVALID_PRICE = 0x13, 0x14, 0x17, 0x1d


class Malformed(Exception):
    """No message of OUCH 5.0: its text says why."""


@dataclasses.dataclass
class Request:
    """One request. Fields that its kind does not have keep their defaults."""
    kind: str                   # enter, replace, cancel, modify, query
    number: int = 0             # UserRefNum
    original: int = 0           # OrigUserRefNum
    side: bytes = b""
    quantity: int = 0
    symbol: str = ""
    price: int = 0
    time_in_force: bytes = DAY
    display: bytes = VISIBLE
    capacity: bytes = b"O"
    sweep: bytes = b"N"
    cross: bytes = CONTINUOUS
    client_id: bytes = b" " * 14
    firm: bytes = b""           # four bytes, or none
    unknown_tag: int = 0        # the first tag of the appendage that this exchange does not take


def decode(message):
    """Returns the request of a message. Raises Malformed."""
    decoder = DECODERS.get(message[:1])
    if decoder is None:
        raise Malformed(f"'{message[:1].decode('latin-1')}' is no request" if message else "an empty message")
    return decoder(message)


def _decode_enter(message):
    _fixed_part(message, ENTER)
    (_, number, side, quantity, symbol, price, time_in_force, display, capacity, sweep, cross, client_id,
     length) = ENTER.unpack_from(message)
    firm, unknown_tag = _appendage(message, ENTER.size, length)
    return Request("enter", number, 0, side, quantity, symbol.decode("latin-1").rstrip(), price, time_in_force, display,
                   capacity, sweep, cross, client_id, firm, unknown_tag)


def _decode_replace(message):
    _fixed_part(message, REPLACE)
    (_, original, number, quantity, price, time_in_force, display, sweep, client_id,
     length) = REPLACE.unpack_from(message)
    firm, unknown_tag = _appendage(message, REPLACE.size, length)
    return Request("replace", number, original, quantity=quantity, price=price, time_in_force=time_in_force,
                   display=display, sweep=sweep, client_id=client_id, firm=firm, unknown_tag=unknown_tag)


def _decode_cancel(message):
    _optional_length(message, CANCEL)
    _, number, quantity = CANCEL.unpack_from(message)
    return Request("cancel", number, quantity=quantity)


def _decode_modify(message):
    _optional_length(message, MODIFY)
    _, number, side, quantity = MODIFY.unpack_from(message)
    return Request("modify", number, side=side, quantity=quantity)


def _decode_query(message):
    _optional_length(message, QUERY)
    return Request("query")


DECODERS = {b"O": _decode_enter, b"U": _decode_replace, b"X": _decode_cancel, b"M": _decode_modify,
            b"Q": _decode_query}


def _fixed_part(message, layout):
    if len(message) < layout.size:
        raise Malformed(f"'{chr(message[0])}' of {len(message)} bytes; it has {layout.size} at least")


def _optional_length(message, layout):
    """Checks a request whose appendage's length may be left out."""
    _fixed_part(message, layout)
    if len(message) > layout.size:
        if len(message) < layout.size + 2:
            raise Malformed(f"'{chr(message[0])}' of {len(message)} bytes: half a length of an appendage")
        _appendage(message, layout.size + 2, int.from_bytes(message[layout.size:layout.size + 2], "big"))


def _appendage(message, at, length):
    """Returns the firm, and the first tag that this exchange does not take. An element: length 1, tag 1, value."""
    if at + length != len(message):
        raise Malformed(f"'{chr(message[0])}' with an appendage of {len(message) - at} bytes that says {length}")
    firm, unknown_tag = b"", 0
    while at < len(message):
        size = message[at]
        if not size or at + 1 + size > len(message):
            raise Malformed(f"'{chr(message[0])}' with an element of {size} bytes at the end of its appendage")
        tag, value = message[at + 1], message[at + 2:at + 1 + size]
        if tag == TAG_FIRM and len(value) == 4:
            firm = value
        else:
            unknown_tag = unknown_tag or tag
        at += 1 + size
    return firm, unknown_tag


def system_event(ns, code):
    return SYSTEM_EVENT.pack(b"S", ns, code)


def accepted(ns, request, reference, state=LIVE):
    return ACCEPTED.pack(b"A", ns, request.number, request.side, request.quantity, request.symbol.encode().ljust(8),
                         request.price, request.time_in_force, request.display, reference, request.capacity,
                         request.sweep, request.cross, state, request.client_id, 0)


def replaced(ns, request, reference, quantity, state=LIVE):
    """Returns the answer to a replace: the fields of the replacement, and its open shares."""
    return REPLACED.pack(b"U", ns, request.original, request.number, request.side, quantity,
                         request.symbol.encode().ljust(8), request.price, request.time_in_force, request.display,
                         reference, request.capacity, request.sweep, request.cross, state, request.client_id, 0)


def canceled(ns, number, shares, reason):
    return CANCELED.pack(b"C", ns, number, shares, reason)


def executed(ns, number, shares, price, liquidity, match):
    return EXECUTED.pack(b"E", ns, number, shares, price, liquidity, match, 0)


def rejected(ns, number, reason, client_id):
    return REJECTED.pack(b"J", ns, number, reason, client_id)


def modified(ns, number, side, quantity):
    return MODIFIED.pack(b"M", ns, number, side, quantity)


def query_response(ns, number):
    return QUERY_RESPONSE.pack(b"Q", ns, number)
