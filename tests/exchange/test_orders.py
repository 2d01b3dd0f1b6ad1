"""Order entry by OUCH 5.0: what each request does to the book, and what the account hears of it. Messages are built
and taken apart here by the tables of the specification, not by the product's."""
import random
import struct

import pytest

from servers.exchange.accounts import Account
from tests.exchange.market_of import Market, S_NS

ANSWERS = {"S": ">c", "A": ">IcI8sQccQcccc14sH", "U": ">IIcI8sQccQcccc14sH", "C": ">IIc", "E": ">IIQcQH",
           "J": ">IH14s", "M": ">IcI", "Q": ">I"}


def enter(number, side="B", quantity=100, price=10_000, symbol="ACME", time_in_force="0", display="Y", cross="N",
          appendage=b""):
    return struct.pack(">cIcI8sQ5c14sH", b"O", number, side.encode(), quantity, symbol.encode().ljust(8), price,
                       time_in_force.encode(), display.encode(), b"P", b"N", cross.encode(), b"mine".ljust(14),
                       len(appendage)) + appendage


def replace(original, number, quantity, price, time_in_force="0"):
    return struct.pack(">cIIIQ3c14sH", b"U", original, number, quantity, price, time_in_force.encode(), b"Y", b"N",
                       b"mine".ljust(14), 0)


def cancel(number, quantity=0):
    return struct.pack(">cII", b"X", number, quantity)


class Desk:
    """An account at an open market, and the answers since the last look, without their times."""

    def __init__(self):
        self.market = Market()
        self.market.engine.at(34_200 * S_NS)
        self.account = Account(self.market.engine, "trader", "secret")
        self.seen = len(self.account.answers)

    def ask(self, *requests):
        for request in requests:
            self.account.take(request)
            self.market.engine.check()
            self.account.check()
        answers = []
        for answer in self.account.answers[self.seen:]:
            kind = chr(answer[0])
            values = struct.unpack(ANSWERS[kind], answer[9:])
            answers.append((kind, *(value.decode().rstrip() if isinstance(value, bytes) else value
                                    for value in values)))
            assert int.from_bytes(answer[1:9], "big") == 34_200 * S_NS
        self.seen = len(self.account.answers)
        return answers


@pytest.fixture(name="desk")
def make_desk():
    return Desk()


def test_an_order_is_accepted_and_published(desk):
    answers = desk.ask(enter(1))
    assert answers == [("A", 1, "B", 100, "ACME", 10_000, "0", "Y", 1, "P", "N", "N", "L", "mine", 0)]
    assert desk.market.news() == [("A", 1, "B", 100, "ACME", 10_000)]


def test_an_attributed_order_shows_its_firm(desk):
    desk.ask(enter(1, display="A"), enter(2, display="A", appendage=b"\5\2ABCD"))
    assert [message[-1] for message in desk.market.news()] == ["TRAD", "ABCD"]


def test_an_execution_is_heard_by_both_sides(desk):
    answers = desk.ask(enter(1, "S"), enter(2, "B", 60))
    assert answers[2:] == [("E", 1, 60, 10_000, "A", 1, 0), ("E", 2, 60, 10_000, "R", 1, 0)]
    position = desk.account.positions["ACME"]
    assert (position.shares, position.cash, position.bought, position.sold) == (0, 0, 60, 60)


def test_profit_is_cash_and_the_worth_of_the_shares(desk):
    desk.market.enter("S", 100, 10_000)
    desk.ask(enter(1, quantity=100))
    position = desk.account.positions["ACME"]
    assert (position.shares, position.cash, position.profit(10_100)) == (100, -1_000_000, 10_000)


def test_a_number_that_was_used_is_ignored(desk):
    assert desk.ask(enter(1, symbol="NONE"), enter(1)) == [("J", 1, 0x17, "mine")]      # a rejected order uses it, too
    desk.ask(enter(5))
    assert desk.ask(enter(5), enter(4), enter(5, "S")) == []
    assert desk.account.counts["repeated"] == 4
    assert desk.ask(b"Q") == [("Q", 6)]
    assert desk.ask(enter(0xffffffff), b"Q")[1] == ("Q", 0xffffffff)     # there is no further one


@pytest.mark.parametrize("request_, reason", [
    (enter(1, symbol="NONE"), 0x17), (enter(1, side="X"), 0x09), (enter(1, quantity=0), 0x13),
    (enter(1, quantity=1_000_000), 0x13), (enter(1, price=0), 0x1d), (enter(1, price=1_999_999_901), 0x1d),
    (enter(1, price=2_000_000_000), 0x1d), (enter(1, price=1 << 40), 0x1d), (enter(1, display="N"), 0x03),
    (enter(1, cross="O"), 0x14), (enter(1, time_in_force="6"), 0x0f), (enter(1, appendage=b"\2\x0cP"), 0x0f)])
def test_a_fault_of_an_order_has_its_reason(desk, request_, reason):
    assert desk.ask(request_) == [("J", 1, reason, "mine")]
    assert desk.market.news() == []


def test_a_market_order_takes_any_price(desk):
    desk.market.enter("S", 100, 5_000_000)
    answers = desk.ask(enter(1, price=2_000_000_000, time_in_force="3"))
    assert answers[1] == ("E", 1, 100, 5_000_000, "R", 1, 0)


def test_an_immediate_order_is_rejected_in_a_halt_and_another_waits(desk):
    desk.market.engine.halt(desk.market.book)
    answers = desk.ask(enter(1, time_in_force="3"), enter(2))
    assert [answer[0] for answer in answers] == ["J", "A"]
    assert answers[0][2] == 0x07


def test_the_close_cancels_and_then_rejects(desk):
    desk.ask(enter(1))
    desk.market.engine.close()
    assert desk.ask(enter(2)) == [("C", 1, 100, "E"), ("J", 2, 0x07, "mine")]


def test_a_cancel_says_the_new_size_with_the_shares_executed(desk):
    desk.ask(enter(1, quantity=500))
    desk.market.enter("S", 200, 10_000)
    assert desk.ask(cancel(1, 300))[1:] == [("C", 1, 200, "U")]         # 200 executed, 100 stay open
    assert desk.market.engine.orders[1].shares == 100
    assert desk.ask(cancel(1)) == [("C", 1, 100, "U")]


def test_a_superfluous_cancel_has_no_answer(desk):
    desk.ask(enter(1, quantity=100))
    assert desk.ask(cancel(1, 100), cancel(1, 900), cancel(7)) == []
    assert desk.ask(cancel(1), cancel(1)) == [("C", 1, 100, "U")]


def test_a_replacement_is_liable_for_the_whole_chain(desk):
    """§2.2's own example: 500 entered, 100 executed; a replacement by 500 leaves 400 open, one by 600 leaves 500."""
    desk.ask(enter(1, quantity=500))
    desk.market.enter("S", 100, 10_000)
    desk.ask()
    answers = desk.ask(replace(1, 2, 500, 9_900))
    assert answers == [("U", 1, 2, "B", 400, "ACME", 9_900, "0", "Y", 3, "P", "N", "N", "L", "mine", 0)]
    assert desk.ask(replace(2, 3, 600, 9_900))[0][4] == 500
    desk.market.enter("S", 500, 9_900)
    assert desk.ask()[0][:3] == ("E", 3, 500)
    assert desk.ask(replace(3, 4, 900, 9_900)) == []


def test_a_replacement_of_what_is_gone_leaves_its_number(desk):
    desk.ask(enter(1), cancel(1))
    assert desk.ask(replace(1, 2, 100, 9_900)) == []
    assert desk.ask(b"Q") == [("Q", 2)]


@pytest.mark.parametrize("request_", [replace(1, 2, 0, 9_900), replace(1, 2, 1_000_000, 9_900), replace(1, 2, 100, 0)])
def test_a_replacement_with_a_fault_cancels_the_original(desk, request_):
    desk.ask(enter(1))
    assert desk.ask(request_) == [("C", 1, 100, "U")]
    assert desk.ask(b"Q") == [("Q", 2)]


def test_a_replacement_can_trade_at_once(desk):
    desk.market.enter("S", 100, 10_100)
    desk.ask(enter(1))
    answers = desk.ask(replace(1, 2, 100, 10_100))
    assert [answer[0] for answer in answers] == ["U", "E"]


def test_a_modification_changes_the_kind_of_a_sale_and_the_size(desk):
    desk.ask(enter(1, "S", 300))
    assert desk.ask(struct.pack(">cIcI", b"M", 1, b"T", 200)) == [("C", 1, 100, "U"), ("M", 1, "T", 200)]
    assert desk.ask(struct.pack(">cIcI", b"M", 1, b"B", 200)) == []


@pytest.mark.parametrize("message, complaint", [
    (b"", "an empty message"), (b"Z", "'Z' is no request"), (b"O" + bytes(45), "'O' of 46 bytes; it has 47 at least"),
    (enter(1)[:-2] + b"\0\1", "with an appendage of 0 bytes that says 1"),
    (enter(1, appendage=b"\0"), "an element of 0 bytes"), (enter(1, appendage=b"\5\2AB"), "an element of 5 bytes"),
    (cancel(1) + b"\0", "half a length of an appendage"), (cancel(1) + b"\0\1", "that says 1")])
def test_a_message_that_is_none_is_logged_and_counted(desk, caplog, message, complaint):
    assert desk.ask(message) == []
    assert desk.account.counts["malformed"] == 1
    assert complaint in caplog.text


@pytest.mark.parametrize("seed", range(4))
def test_random_requests_and_damaged_ones_keep_the_books_whole(desk, seed):
    """Each request is one of a client's, sometimes with a byte changed, cut off or sent again."""
    draw = random.Random(seed)
    for number in range(1, 1500):
        before, price = max(number - draw.randint(1, 8), 1), draw.randrange(9_000, 11_000, 100)
        kind = draw.choice(("enter", "enter", "replace", "cancel", "modify"))
        if kind == "enter":
            message = enter(number, draw.choice("BSTE"), draw.randint(1, 900), price, time_in_force=draw.choice("03"),
                            display=draw.choice("YA"))
        elif kind == "replace":
            message = replace(before, number, draw.randint(1, 900), price)
        elif kind == "cancel":
            message = cancel(before, draw.choice((0, draw.randint(1, 900))))
        else:
            message = struct.pack(">cIcI", b"M", before, draw.choice((b"B", b"S", b"T")), draw.randint(1, 900))
        if draw.random() < 0.1:
            at = draw.randrange(9, len(message) + 1)            # the numbers stay, or no later one would count
            message = message[:at] + bytes([draw.randrange(256)]) + message[at + 1:draw.choice((None, None, at + 1))]
        desk.account.take(message)
        if draw.random() < 0.05:
            desk.account.take(message)
        desk.market.engine.check()
    desk.account.check()
    open_shares = {entry.order.reference: entry.order.shares for entry in desk.account.open_entries()}
    assert open_shares == {reference: order.shares for reference, order in desk.market.engine.orders.items()}
    counts = desk.account.counts
    assert min(counts[f"answer {kind}"] for kind in "AUCEM") > 10 and counts["malformed"] > 10, f"seed {seed}: {counts}"
