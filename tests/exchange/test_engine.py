"""The matching engine: priority by price, then by time; partial fills; crosses; random orders as in a plain book."""
import random
import time
import types

import pytest

from servers.exchange import flow, generate, itch
from tests.exchange.market_of import Market, Owner, fields_of


def test_the_best_price_comes_first_and_then_the_oldest():
    market = Market()
    late, better, early = (market.enter("S", 100, price) for price in (1010, 1000, 1010))
    market.enter("S", 100, 1020)
    market.news()
    market.enter("B", 250, 1010)
    assert market.news() == [("E", better.reference, 100, 1), ("E", late.reference, 100, 2),
                             ("E", early.reference, 50, 3)]
    assert (market.book.offers.best, market.book.bids.best, early.shares) == (1010, None, 50)


def test_the_rest_of_an_order_waits_in_the_book():
    market = Market()
    sale = market.enter("S", 100, 1000)
    purchase = market.enter("B", 300, 1000)
    assert market.news() == [("A", sale.reference, "S", 100, "ACME", 1000), ("E", sale.reference, 100, 1),
                             ("A", purchase.reference, "B", 200, "ACME", 1000)]


def test_an_immediate_order_leaves_nothing():
    market, owner = Market(), Owner()
    sale = market.enter("S", 100, 1000)
    market.news()
    purchase = market.enter("B", 300, 1000, is_immediate=True, owner=owner)
    assert market.news() == [("E", sale.reference, 100, 1)]
    assert owner.seen == [("executed", purchase.reference, 100, 1000, "R"), ("canceled", purchase.reference, 200, "I")]
    assert not market.engine.orders


def test_a_reduced_order_keeps_its_place_and_a_replaced_one_loses_it():
    market = Market()
    first, second = market.enter("B", 300, 1000), market.enter("B", 300, 1000)
    market.engine.reduce(first, 100)
    market.news()
    market.enter("S", 150, 1000)
    assert market.news() == [("E", first.reference, 100, 1), ("E", second.reference, 50, 2)]
    again = market.engine.make_order(market.book, b"B", 1000, 250)
    third = market.enter("B", 100, 1000)
    market.engine.replace(second, again)
    market.news()
    market.enter("S", 100, 1000)
    assert market.news() == [("E", third.reference, 100, 3)]


def test_a_replacement_that_is_marketable_is_a_deletion_and_an_order():
    market = Market()
    purchase, sale = market.enter("B", 100, 990), market.enter("S", 100, 1000)
    market.news()
    market.engine.replace(purchase, market.engine.make_order(market.book, b"B", 1000, 150))
    assert market.news() == [("D", purchase.reference), ("E", sale.reference, 100, 1), ("A", 3, "B", 50, "ACME", 1000)]


def test_the_opening_cross_is_at_the_price_of_the_most_shares():
    market, owner = Market(is_open=False), Owner()
    for side, shares, price in (("B", 100, 1030), ("B", 100, 1020), ("S", 150, 1010), ("S", 100, 1040)):
        market.enter(side, shares, price, owner=owner)
    assert [message[0] for message in market.news()] == ["A"] * 4       # nothing trades before the cross
    market.engine.open()
    assert market.news() == [
        ("S", "Q"), ("C", 1, 100, 1, "N", 1010), ("C", 3, 100, 1, "N", 1010), ("C", 2, 50, 2, "N", 1010),
        ("C", 3, 50, 2, "N", 1010), ("Q", 150, "ACME", 1010, 3, "O")]
    assert {price for _, _, _, price, _ in owner.seen} == {1010}
    assert (market.book.bids.best, market.book.offers.best) == (1020, 1040)
    market, begun_s = Market(is_open=False), time.process_time()
    for place in range(12_000):
        market.enter("BS"[place % 2], 100, 1000 + place // 2)
    market.engine.open()                                    # thousands of prices keep nobody waiting
    assert market.book.offers.best == 4000 and time.process_time() - begun_s < 2


def test_a_halted_book_takes_orders_and_crosses_when_it_resumes():
    market = Market()
    market.engine.halt(market.book)
    market.enter("B", 100, 1010)
    market.enter("S", 100, 1000)
    assert [message[0] for message in market.news()] == ["H", "A", "A"]
    market.engine.resume(market.book)
    assert market.news() == [("H", "ACME", "T", "", ""), ("C", 1, 100, 1, "N", 1000), ("C", 2, 100, 1, "N", 1000),
                             ("Q", 100, "ACME", 1000, 2, "H")]


def test_the_close_cancels_all_orders():
    market, owner = Market(), Owner()
    order = market.enter("B", 100, 1000, owner=owner)
    market.news()
    market.engine.close()
    assert market.news() == [("S", "M"), ("D", order.reference)]
    assert owner.seen == [("canceled", order.reference, 100, "E")]


class PlainBook:
    """A book as a list: each order is looked for among all. The reference for the engine."""

    def __init__(self):
        self.orders = []                # [reference, side, price, shares], the oldest first

    def enter(self, reference, side, price, shares, is_immediate):
        """Returns the fills: (reference of the one that rested, shares, price)."""
        fills = []
        while shares:
            other = [order for order in self.orders if order[1] != side and (
                order[2] <= price if side == "B" else order[2] >= price)]
            if not other:
                break
            best = min(other, key=lambda order: order[2] if side == "B" else -order[2])
            count = min(shares, best[3])
            fills.append((best[0], count, best[2]))
            shares -= count
            best[3] -= count
            if not best[3]:
                self.orders.remove(best)
        if shares and not is_immediate:
            self.orders.append([reference, side, price, shares])
        return fills


@pytest.mark.parametrize("seed", range(5))
def test_random_orders_fill_as_in_a_plain_book(seed):
    draw, market, plain = random.Random(seed), Market(), PlainBook()
    for _ in range(600):
        side, shares = draw.choice("BS"), draw.randint(1, 500)
        price = 10_000 + draw.randint(-8, 8) * 100
        owner, is_immediate = Owner(), draw.random() < 0.2
        order = market.enter(side, shares, price, is_immediate, owner)
        fills = [(shares, price) for kind, _, shares, price, *_ in owner.seen if kind == "executed"]
        executed = [message[1:3] for message in market.news() if message[0] == "E"]
        expected = plain.enter(order.reference, side, price, shares, is_immediate)
        assert fills == [fill[1:] for fill in expected], f"seed {seed}"
        assert executed == [fill[:2] for fill in expected], f"seed {seed}"
        market.engine.check()
    assert {reference: order.shares for reference, order in market.engine.orders.items()} == {
        order[0]: order[3] for order in plain.orders}


def options_of(**changed):
    return types.SimpleNamespace(**{"symbols": ["ACME", "BOLT"], "seed": "5", "rate": 1000.0, "orders_max": 100,
                                    "preopen": 1.0, "halt": [("ACME", 3.0, 1.0)], "messages": 8_000, **changed})


def test_the_seed_decides_the_whole_day():
    days = []
    for seed in ("5", "5", "6"):
        messages = []
        generate.generate(options_of(seed=seed), lambda message, _: messages.append(message))
        days.append(messages)
    assert days[0] == days[1] != days[2]
    assert {message[:1] for message in days[0]} == set(LENGTHS_OF_A_DAY)
    assert all(len(message) == LENGTHS_OF_A_DAY[message[:1]] for message in days[0])


# ITCH 5.0: the length of each message that a day with a halt has before its end.
LENGTHS_OF_A_DAY = {b"S": 12, b"R": 39, b"H": 25, b"A": 36, b"F": 40, b"E": 31, b"C": 36, b"X": 23, b"D": 19, b"U": 35,
                    b"Q": 40}


def test_a_recorded_day_played_again_has_the_same_trades(tmp_path):
    """The orders of a file without crosses give each book the same executions, at the same times."""
    path, messages = tmp_path / "day", []
    generate.main([str(path), "--messages", "5000", "--preopen", "0", "--seed", "3", "--symbols", "ACME"])
    path.write_bytes(path.read_bytes() + bytes(2))      # the end of the session
    market = Market(is_open=False)
    foreign = itch.add_order(1, 0, 1, b"B", 100, b"\xff" * 8, 1000, b"")
    recorded = flow.RecordedFlow(market.engine, [*itch.read_file(path), foreign], 0)
    market.engine.open()
    market.news()
    while recorded.next_ns < flow.END_NS:
        market.engine.at(recorded.next_ns)
        recorded.step()
    for message in itch.read_file(path):
        if message[:1] == b"E":
            messages.append(fields_of(message)[2])
    assert len(messages) > 100
    assert [message[2] for message in market.news() if message[0] == "E"] == messages
    market.engine.check()


@pytest.mark.parametrize("content, complaint", [
    (b"\0\x0cS", "the message at byte 0 is cut off"), (b"\0\0", "the message at byte 0 is empty"),
    (b"\0\x0bS" + bytes(10), "the message at byte 0 has 11 bytes, which no 'S' has")])
def test_a_damaged_file_is_refused(tmp_path, content, complaint):
    path = tmp_path / "day"
    path.write_bytes(content)
    with pytest.raises(itch.FileError, match=complaint):
        list(itch.read_file(path))
