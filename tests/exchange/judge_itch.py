"""Decodes a file of ITCH messages by itchfeed; prints a line of JSON for each: class, and the attributes by name."""
import json
import sys

from itch.parser import MessageParser


def plain(value):
    return value.decode().rstrip() if isinstance(value, bytes) else value


with open(sys.argv[1], "rb") as file:
    for message in MessageParser().parse_file(file):
        values = {name: plain(getattr(message, name)) for name in message.get_attributes()
                  if not name.startswith("message_") and name not in ("description", "price_precision")}
        print(json.dumps([type(message).__name__, message.message_type.decode(), values]))
