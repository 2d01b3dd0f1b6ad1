"""Programs of others read all that the exchange sends: none of our code judges itself here. itch-book also judges the
books of app/trade/book.c.

    protocol               judge                      knowledge
    MoldUDP64, SoupBinTCP  tshark 4.0                 both; its ITCH is 2 and 3, its OUCH 4.x
    ITCH 5.0               itchfeed 1.6.4             each message
    ITCH 5.0               itch-book 0.2.1            best bid and offer after each message, our program's too
    SoupBinTCP             nasdaq-protocols 1.3.0     a client: login, resume, heartbeats, logout
    OUCH 5.0               SimpleOUCH 0.0.2           all fields, if its decoders are called one by one
    MoldUDP64, SoupBinTCP  nassau 1.0.0               both ways: test_nassau.py

The file judge_ouch.py says why SimpleOUCH is not called as its page says. The package ouch-connect 5.0.1 was
tried in its place, and is wrong. Its symbols have nine bytes, where OUCH 5.0 has eight, and its canceled message has
a second UserRefNum.

MESSAGES=10000000 plays that many with itch-book, 60,000 otherwise, over three seeds:

    make check T=itch_book MESSAGES=10000000
"""
import array
import json
import os
import pathlib
import struct
import subprocess
import types

import pytest

from servers.exchange import generate
from tests.exchange.market_of import fields_of
from tests.exchange.running import Lines, Running, Soup, header_of, messages_of
from tests.exchange.test_orders import cancel, enter, replace
from tests.lib import packets

pytestmark = pytest.mark.slow
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JUDGES = ROOT / "build/third-party/judges"
BOOK_ROWS = ROOT / os.environ.get("BUILD", "build") / "host/tests/exchange/book_rows"
MESSAGES = int(os.environ.get("MESSAGES", 60_000))
SEEDS = ("1", "2", "3")


def judge(name, *words, text=None):
    """Runs a judge with its libraries alone. Returns the lines that it prints. Skips the test if they are missing."""
    if not (JUDGES / ".fetched").exists():
        pytest.skip("the judges are missing: tools/workshop/fetch-judges.sh")
    result = subprocess.run(["/usr/bin/python3", HERE / f"judge_{name}.py", *map(str, words)], input=text, text=True,
                            capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(JUDGES)})
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout.splitlines()


def options_of(seed, messages):
    return types.SimpleNamespace(symbols=["ACME", "BOLT", "C+", "DUNE.A"], seed=seed, rate=1000.0, orders_max=200,
                                 preopen=1.0, halt=[("ACME", 3.0, 2.0), ("BOLT", 4.0, 0.5)], messages=messages)


# itchfeed's names of the fields after the header, in their order.
ITCHFEED = {
    "S": ("SystemEventMessage", "event_code"),
    "R": ("StockDirectoryMessage", "stock", "market_category", "financial_status_indicator", "round_lot_size",
          "round_lots_only", "issue_classification", "issue_sub_type", "authenticity",
          "short_sale_threshold_indicator", "ipo_flag", "luld_ref", "etp_flag", "etp_leverage_factor",
          "inverse_indicator"),
    "H": ("StockTradingActionMessage", "stock", "trading_state", "reserved", "reason"),
    "A": ("AddOrderNoMPIAttributionMessage", "order_reference_number", "buy_sell_indicator", "shares", "stock",
          "price"),
    "F": ("AddOrderMPIDAttribution", "order_reference_number", "buy_sell_indicator", "shares", "stock", "price",
          "attribution"),
    "E": ("OrderExecutedMessage", "order_reference_number", "executed_shares", "match_number"),
    "C": ("OrderExecutedWithPriceMessage", "order_reference_number", "executed_shares", "match_number", "printable",
          "execution_price"),
    "X": ("OrderCancelMessage", "order_reference_number", "cancelled_shares"),
    "D": ("OrderDeleteMessage", "order_reference_number"),
    "U": ("OrderReplaceMessage", "order_reference_number", "new_order_reference_number", "shares", "price"),
    "Q": ("CrossTradeMessage", "shares", "stock", "cross_price", "match_number", "cross_type"),
}


def test_itchfeed_reads_each_message_as_it_is_meant(tmp_path):
    path, messages = tmp_path / "day", []
    with open(path, "wb") as file:
        def write(message, _):
            file.write(len(message).to_bytes(2, "big") + message)
            messages.append(message)
        generate.generate(options_of("4", 10_000), write)
    lines = judge("itch", path)
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages):
        class_name, kind, values = json.loads(line)
        expected = fields_of(message)
        name, *fields = ITCHFEED[kind]
        assert (class_name, kind) == (name, expected[0])
        assert [values[field] for field in fields] == list(expected[1:])
        assert values["stock_locate"] == int.from_bytes(message[1:3], "big")
        assert values["timestamp"] == int.from_bytes(message[5:11], "big")
    assert {chr(message[0]) for message in messages} == set(ITCHFEED)


class BestPrices:
    """The best bid and offer of each book, a row for each change of a price or of shares, as itch-book has them."""

    def __init__(self):
        self.rows, self.latest, self.count = array.array("q"), {}, 0

    def take(self, book):
        self.count += 1
        if book is None:
            return
        row = []
        for side in (book.bids, book.offers):
            best = side.levels[side.keys[-1]] if side.keys else {}
            row += [side.best or 0, sum(order.shares for order in best.values()), len(best)]
        key = row[0], row[1], row[3], row[4]
        if self.latest.get(book.locate, (0, 0, 0, 0)) != key:
            self.latest[book.locate] = key
            self.rows.extend([self.count, book.locate, *row])


def rows_of_our_book(path, symbols, out):
    """Returns the rows of app/trade/book.c for a file of messages."""
    result = subprocess.run([BOOK_ROWS, path, out, *symbols], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    return array.array("q", out.read_bytes())


def check_rows(ours, theirs, name):
    """Compares rows, given by their columns; names the first message that differs."""
    for column, (left, right) in enumerate(zip(ours, theirs)):
        if left != right:
            pairs = enumerate(zip(left, right))
            at = next((at for at, pair in pairs if pair[0] != pair[1]), min(len(left), len(right)))
            rows = [[values[at:at + 1].tolist() for values in columns] for columns in (ours, theirs)]
            raise AssertionError(f"{name}, column {column}, row {at}: {rows[0]} instead of {rows[1]}")


@pytest.mark.parametrize("seed", SEEDS)
def test_itch_book_has_the_same_best_bid_and_offer_after_every_message(tmp_path, seed):
    path, best, options = tmp_path / "day", BestPrices(), options_of(seed, MESSAGES // len(SEEDS))
    with open(path, "wb") as file:
        def write(message, book):
            file.write(len(message).to_bytes(2, "big") + message)
            best.take(book)
        generate.generate(options, write)
    stats = json.loads(judge("book", path, tmp_path / "bbo")[0])
    rows = array.array("q", (tmp_path / "bbo").read_bytes())
    columns = [rows[column::8] for column in range(8)]
    check_rows([best.rows[column::8] for column in range(8)], columns, f"exchange, seed {seed}")
    ours = rows_of_our_book(path, options.symbols, tmp_path / "ours")
    check_rows([ours[column::6] for column in range(6)], [columns[column] for column in (0, 1, 2, 3, 5, 6)],
               f"app/trade/book.c, seed {seed}")
    path.unlink()
    print(best.count, "messages,", len(rows) // 8, "rows", stats)


# ---- over the wire ----

@pytest.fixture(name="exchange", params=[[]])
def run_exchange(request):
    lines = Lines()
    exchange = Running(lines, "--rate", 300, "--preopen", 0.2, *request.param)
    exchange.lines = lines
    yield exchange
    exchange.close()
    lines.close()


def read_answers(soup, kinds):
    """Returns the messages until each of these kinds has come."""
    messages, missing = [], set(kinds)
    while missing:
        messages.append(soup.message())
        missing.discard(chr(messages[-1][0]))
    return messages


def wait_open(exchange):
    """Waits for the opening cross of the last stock, and some orders after it."""
    exchange.lines.read(lambda: any(message[:1] == b"Q" for message in messages_of(exchange.lines.a).values()))


def trade(exchange):
    """Plays orders that have all kinds of answers. Returns the connection and the answers."""
    wait_open(exchange)
    soup = Soup(exchange.addresses["orders"])
    for request in (enter(1, "S", 300, 1_999_999_900), replace(1, 2, 400, 1_999_999_800), cancel(2, 100), cancel(2),
                    enter(3, "B", 200, 1_999_999_900, time_in_force="3"), enter(4, symbol="NONE"), b"Q"):
        soup.send("U", request)
    return soup, read_answers(soup, "SAUCEJQ")


def number_of(text):
    """Returns a UserRefNum as SimpleOUCH has it: zeros at its end are gone."""
    return int.from_bytes(text.encode("latin-1").ljust(4, b"\0"), "big")


# By type: the layout of an answer, and SimpleOUCH's decoders of its fields that differ from ours.
OUCH = {"S": ">cQc", "A": ">cQIcI8sQccQcccc14sH", "U": ">cQIIcI8sQccQcccc14sH", "C": ">cQIIc", "E": ">cQIIQcQH",
        "J": ">cQIH14s", "Q": ">cQI"}
OUCH_PRICES = {"A": 6, "E": 4}           # places of prices


def test_simpleouch_reads_each_answer_as_it_is_meant(exchange):
    _, answers = trade(exchange)
    lines = judge("ouch", text="".join(f"{answer.hex()}\n" for answer in answers))
    assert {chr(answer[0]) for answer in answers} == set(OUCH)
    for line, answer in zip(lines, answers):
        *fields, left = json.loads(line)
        kind = chr(answer[0])
        expected = [value.decode() if isinstance(value, bytes) else value
                    for value in struct.unpack(OUCH[kind], answer)]
        if kind == "U":                         # decoded as an accepted message
            expected = ["A", expected[1], *expected[3:]]
            kind = "A"
        elif kind == "C":
            fields[4] = chr(fields[4])          # the reason, which is one letter
        if kind in OUCH_PRICES:
            fields[OUCH_PRICES[kind]] = round(fields[OUCH_PRICES[kind]] * 1000)
        if kind in "AE":
            assert fields.pop() == []           # the elements of the appendage
        if kind != "S":
            fields[2] = number_of(fields[2])
        assert (fields, left) == (expected, 0), kind


def test_nasdaqs_client_logs_in_and_hears_all(exchange):
    soup, answers = trade(exchange)
    soup.close()
    at = exchange.addresses["orders"]
    lines = judge("soup", *at, "TRADER", "PEREGRINE", exchange.session, 1, len(answers) + 1)
    assert lines[0] == f"login {exchange.session} 1"
    assert lines[1:-2] == [f"message {answer.hex()}" for answer in answers]
    assert lines[-2].startswith("message 51") and lines[-1] == "alive"
    lines = judge("soup", *at, "TRADER", "PEREGRINE", "", 3, len(answers))
    assert lines[:2] == [f"login {exchange.session} 3", f"message {answers[2].hex()}"]
    assert judge("soup", *at, "TRADER", "WRONG", "", 1, 0)[0].startswith("refused")


# ---- tshark ----

def tcp_both_ways(client, server, port):
    """Yields the segments of a connection: what the client sent, then what the server sent."""
    for *ends, data in (("10.0.0.2", "10.0.0.1", 30_000, port, client), ("10.0.0.1", "10.0.0.2", port, 30_000, server)):
        for at in range(0, len(data), 1400):
            yield packets.tcp(*ends, 1 + at, 1, packets.PSH | packets.ACK, data[at:at + 1400])


def dissect(tmp_path, datagrams, decode_as, *fields):
    """Returns tshark's values of the fields, a list for each frame. A frame with a fault that it finds fails.

    Its one remark that is none: it takes the end of a session, since it holds no message, for a request as well."""
    path = tmp_path / "frames.pcap"
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65_535, 101))        # LINKTYPE_RAW
        for at, datagram in enumerate(datagrams):
            file.write(struct.pack("<IIII", at, 0, len(datagram), len(datagram)) + datagram)
    names = ("_ws.malformed", "_ws.expert.message", *fields)
    result = subprocess.run(["tshark", "-n", "-r", path, "-d", decode_as, "-T", "fields", "-E", "occurrence=a",
                             *(word for name in names for word in ("-e", name))],
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[:2] for row in rows if row[0] or row[1] not in ("", "Number of Requested Messages")] == []
    return [[value.split(",") if value else [] for value in row[2:]] for row in rows]


def test_tshark_reads_the_lines_as_moldudp64(exchange, tmp_path):
    lines = exchange.lines
    lines.read(lambda: len(lines.a) > 200)
    exchange.process.terminate()
    lines.read_to_the_end()
    datagrams = [packets.udp("10.0.0.1", "10.0.0.2", 30_000, 26_400, packet) for packet in lines.a]
    rows = dissect(tmp_path, datagrams, "udp.port==26400,moldudp64", "moldudp64.session", "moldudp64.sequence",
                   "moldudp64.count", "moldudp64.msglen", "moldudp64.msgdata")
    assert len(rows) == len(lines.a)
    for (session, sequence, count, lengths, data), packet in zip(rows, lines.a):
        name, first, number = header_of(packet)
        messages = messages_of([packet])
        assert (session, int(sequence[0]), int(count[0], 0)) == ([name.decode()], first, number)
        assert [int(length) for length in lengths] == [len(message) for message in messages.values()]
        assert [bytes.fromhex(text.replace(":", "")) for text in data] == list(messages.values())
    assert rows[-1][2] == ["65535"]


def test_tshark_reads_a_connection_as_soupbintcp(exchange, tmp_path):
    sent, received = [], []
    wait_open(exchange)

    class Recorded(Soup):
        def send(self, kind, payload=b""):
            sent.append(struct.pack(">H", 1 + len(payload)) + kind.encode() + payload)
            super().send(kind, payload)

        def packet(self):
            kind, payload = super().packet()
            received.append(struct.pack(">H", 1 + len(payload)) + kind.encode() + payload)
            return kind, payload

    soup = Recorded(exchange.addresses["orders"], session=exchange.session)
    for request in (enter(1), b"Q"):
        soup.send("U", request)
    read_answers(soup, "SAQ")
    exchange.process.terminate()
    while soup.packet()[0] != "Z":
        pass
    rows = dissect(tmp_path, tcp_both_ways(b"".join(sent), b"".join(received), 26_404), "tcp.port==26404,soupbintcp",
                   "soupbintcp.packet_type", "soupbintcp.session", "soupbintcp.username", "soupbintcp.password",
                   "soupbintcp.next_seq_num", "soupbintcp.req_seq_num", "soupbintcp.packet_length")
    kinds = [kind.strip("'") for row in rows for kind in row[0]]
    assert kinds == [packet[2:3].decode() for packet in sent + received]
    assert [value for row in rows for value in row[1]] == [exchange.session, exchange.session]
    assert [row[2:4] for row in rows if row[2]] == [[["TRADER"], ["PEREGRINE "]]]
    lengths = [int(length) for row in rows for length in row[6]]
    assert lengths == [len(packet) - 2 for packet in sent + received]
