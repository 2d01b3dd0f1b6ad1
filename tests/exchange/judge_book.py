"""Keeps the books of a file of ITCH messages by itch-book. Writes its best bids and offers to another file, eight
integers of eight bytes a row, and prints its statistics as JSON. A row is a change of price or shares."""
import datetime
import json
import sys

import itch_book
import numpy

COLUMNS = ("seq", "locate", "bid_px", "bid_sz", "bid_ct", "ask_px", "ask_sz", "ask_ct")
feed = itch_book.open(sys.argv[1], date=datetime.date(2026, 1, 5), price_type="fixed")
with open(sys.argv[2], "wb") as out:
    for batch in feed.batches(tables=("bbo",)):
        out.write(numpy.column_stack([batch.bbo[name].astype("int64") for name in COLUMNS]).tobytes())
print(json.dumps(feed.stats, default=str))
