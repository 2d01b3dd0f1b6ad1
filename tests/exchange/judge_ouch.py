"""Decodes OUCH messages, a line of hex each, by SimpleOUCH; prints a line of JSON for each: the fields as they stand.

SimpleOUCH 0.0.2 cannot be called as its page says: `Parser.parse` looks for its decoders in the class Parser, and
they are in the class Cache. So they are called there, one for a type. They have faults, which test_judges.py knows.
A price is divided by 1,000 instead of 10,000, and a UserRefNum is a text without the zeros at its end. The decoder of
a replaced message raises IndexError: it takes the capacity from bytes[49:49]. Such a message is decoded as an
accepted one, which has the same fields after the first UserRefNum (§3.2, §3.3)."""
import json
import sys

from SimpleOUCH.Parser import Parser

DECODERS = {"O": "_enter_order", "X": "_cancel_order_request", "S": "_system_event", "A": "_order_accepted",
            "C": "_order_canceled", "E": "_order_executed", "J": "_rejected",
            "Q": "_account_query_response"}
cache = Parser.Cache()
for line in sys.stdin:
    data = bytes.fromhex(line)
    if data[:1] == b"U":
        data = b"A" + data[1:9] + data[13:]
    left = [bytes([byte]) for byte in data]
    fields = getattr(cache, DECODERS[chr(data[0])])(left)
    print(json.dumps([*fields, len(left)]))     # the last: bytes that no field has
