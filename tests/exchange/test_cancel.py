"""`exchange cancel`: what becomes of the orders that a record names. The exchange says which are open."""
import contextlib
import itertools
import os
import signal
import socket
import struct
import subprocess
import threading

import pytest

from servers.exchange import cancel as cancel_orders
from servers.exchange import ouch, soupbintcp
from tests.exchange.running import WAIT_S, WORDS, Lines, Running, Soup
from tests.exchange.test_orders import cancel, enter, replace

SESSION = "[    1.2] orders 127.0.0.1:26404: logged in to session %s, next message 1\n"
ENTERED = "[ 12.345678] order %d: entered: buy 100 ACME at 1.0000\n"
OPEN = "order %d is open: buy 100 ACME     at 1.0000\n"
# The orders of the account: 1 stands, 2 was cancelled, 3 was replaced by 4, 5 was rejected, 6 to sell stands.
ASKED = (enter(1), enter(2), cancel(2), enter(3), replace(3, 4, 70, 9_000), enter(5, symbol="NONE"),
         enter(6, side="S", price=90_000_000))


@contextlib.contextmanager
def market(*asked):
    """Runs an exchange that has taken these requests. Yields it and a function that returns its open orders."""
    lines, last = Lines(), itertools.count(1000)
    exchange = Running(lines, "--symbols", "ACME", "--rate", "0.1", "--preopen", 600)

    def open_orders():
        """Returns the references of the open orders, by the answers before that to an order which is rejected."""
        soup, found, end = Soup(exchange.addresses["orders"]), set(), next(last)
        soup.send("U", enter(end, symbol="NONE"))
        while (message := soup.message())[:1] != b"J" or message[9:13] != struct.pack(">I", end):
            if message[:1] in (b"A", b"U"):
                at = 9 if message[:1] == b"A" else 13
                found.add(struct.unpack(">I", message[at:at + 4])[0])
            if message[:1] in (b"U", b"C"):
                found.remove(struct.unpack(">I", message[9:13])[0])
        soup.close()
        return found

    try:
        soup = Soup(exchange.addresses["orders"])
        for request in asked:
            soup.send("U", request)
        for _ in range(1 + len(asked)):            # the day's start, and an answer to each
            soup.message()
        soup.close()
        open_orders()
        yield exchange, open_orders
    finally:
        exchange.close()
        lines.close()


def run(folder, orders, record, *words, more="", password="PEREGRINE"):
    """Runs the tool with a record at an address. Returns its exit status, and what it says."""
    conf = folder / "trade.conf"
    conf.write_text(f"# mine\norders={orders[0]}:{orders[1]} user=TRADER  # ours\npasswd={password} {more}\n")
    done = subprocess.run([*WORDS, "cancel", "--file", conf, *words], input=record, capture_output=True, text=True,
                          timeout=WAIT_S)
    assert password not in done.stdout + done.stderr and "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("record, words, status, said, left", [
    (OPEN % 1 + OPEN % 2 + OPEN % 3 + OPEN % 9 + OPEN % 5, (), 0,
     ["order 1: buy 100 ACME at 1.0000: cancelled", "order 2: buy 100 ACME at 1.0000: had ended",
      "order 3: buy 100 ACME at 1.0000: cancelled as order 4", "5: buy 100 ACME at 1.0000: was rejected",
      "order 9: buy 100 ACME at 1.0000: has never arrived"], {6}),
    (ENTERED % 1 + ENTERED % 3 + "order 3: replaces 2: buy 100 ACME at 1.0000\norder 3: executed: 100 ACME at 1, match",
     (), 0, ["order 1: buy 100 ACME at 1.0000: cancelled"], {4, 6}),
    (ENTERED % 1 + "order 1: executed: 40 ACME at 1.0000, match 7\norder 1: cancelled: 60 shares, reason U\n", (), 0,
     ["-: each order of it has ended"], {1, 4, 6}),
    (ENTERED % 1 + 2 * "order 1: executed: 60 ACME at 1.0000, match 7, liquidity A, position 60\n", (), 0,
     ["order 1: buy 40 ACME at 1.0000: cancelled"], {4, 6}),
    (OPEN % 1 + OPEN % 6, (), 1, ["order 1: buy 100 ACME at 1.0000: cancelled",
     "order 6: buy 100 ACME at 1.0000: may still be open: the exchange has another order there, sell 100 ACME at 9000"],
     {4, 6}),
    ((OPEN % 1).replace("1.0000", "0.9999"), (), 1, ["has another order there, buy 100 ACME at 1.0000"], {1, 4, 6}),
    ((OPEN % 1).replace("buy", "sell"), (), 1, ["has another order there, buy 100 ACME at 1.0000"], {1, 4, 6}),
    ((OPEN % 1).replace("ACME", "ACMF"), (), 1, ["has another order there, buy 100 ACME at 1.0000"], {1, 4, 6}),
    (SESSION % " YESTERDAY" + OPEN % 1, (), 1, ["the record is of session YESTERDAY", "1.0000: may still be open"],
     {1, 4, 6}),
    ("", ("--all",), 0, ["order 1: buy", "order 4: buy 70 ACME at 0.9000: cancelled", "6: sell 100"], set()),
    ("no order at all\n", (), 2, ["-: names no order"], {1, 4, 6}),
], ids=["each", "log", "ended", "repeated", "another", "dearer", "side", "symbol", "session", "all", "none"])
def test_each_order_of_a_record_is_cancelled_or_named(tmp_path, record, words, status, said, left):
    with market(*ASKED) as (exchange, open_orders):
        assert open_orders() == {1, 4, 6}
        found, text = run(tmp_path, exchange.addresses["orders"], record, *words)
        assert found == status and all(part in text for part in said), text
        assert "--all" not in words or "order 3" not in text        # replaced: 4 is open
        assert open_orders() == left


def test_the_second_host_is_asked_if_the_first_cannot_be_had(tmp_path):
    with socket.socket() as nobody, market(enter(1)) as (exchange, open_orders):
        nobody.bind(("127.0.0.1", 0))
        here = "%s:%d" % exchange.addresses["orders"]
        status, text = run(tmp_path, nobody.getsockname(), OPEN % 1)
        assert status == 1 and "order 1: buy 100 ACME at 1.0000: may still be open: nobody" in text, text
        status, text = run(tmp_path, nobody.getsockname(), OPEN % 1, more=f"orders.b={here}")
        assert status == 0 and "1.0000: cancelled" in text and open_orders() == set(), text
        assert run(tmp_path, exchange.addresses["orders"], OPEN % 1, password="wrong")[0] == 1


@contextlib.contextmanager
def served(serve_one):
    """Serves one client after another. Yields the address."""
    def serve():
        with contextlib.suppress(OSError):          # at the end
            while True:
                serve_one(server.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(WAIT_S)


class Deaf:
    """An exchange's account with one order, that repeats its day and answers queries alone."""

    def __init__(self):
        self.answers = [ouch.accepted(0, ouch.decode(enter(1)), 1)]

    def take(self, message):
        if message[:1] == b"Q":
            self.answers.append(ouch.query_response(0, 2))


@pytest.mark.parametrize("first, record, said", [
    ("1", OPEN % 1, "1.0000: stays open: the exchange has not confirmed the cancellation"),
    ("10", OPEN % 2, "1.0000: may still be open: nobody could be asked"),
], ids=["deaf", "late"])
def test_an_order_is_not_closed_because_the_exchange_says_nothing_of_it(tmp_path, first, record, said):
    def serve_one(client):
        with client:
            now_s = 0
            connection = soupbintcp.ServerConnection(
                "deaf", "20261128AM", lambda *_: Deaf(),
                lambda data: client.sendall(data.replace(b"1".rjust(20), first.encode().rjust(20))),
                lambda: None, now_s)
            while data := client.recv(1 << 16):
                connection.feed(data, now_s)
                if connection.stream:
                    connection.send_answers(now_s)
                    client.sendall(soupbintcp.packet(soupbintcp.HEARTBEAT))

    with served(serve_one) as address:
        status, text = run(tmp_path, address, record)
    assert status == 1 and said in text, text


@pytest.mark.parametrize("number_of_latest, session", [
    (6, "20261128AM"), (7, "20261128AM"), (7, "20261129AM")], ids=["latest", "next", "another session"])
def test_heartbeats_while_the_day_is_repeated_are_not_its_end(tmp_path, number_of_latest, session):
    """A login that asks for 0 hears the number of the latest message, or of the next one. The next login's session is
    the same, or what the first one has said is void."""
    day = [ouch.accepted(0, ouch.decode(enter(1)), 1), ouch.query_response(0, 2), ouch.executed(0, 1, 40, 1, b"A", 7),
           *(ouch.accepted(0, ouch.decode(enter(number)), number) for number in (2, 3)),
           b"D" + ouch.canceled(0, 3, 100, b"Q")[1:] + struct.pack(">IQc", 100, 1, b"A")]       # for an order of ours
    cancelled = []

    def serve_one(client):
        def send(kind, payload=b""):
            client.sendall(soupbintcp.packet(kind, payload))

        with client, client.makefile("rb") as file:
            while head := file.read(2):
                kind, *payload = file.read(int.from_bytes(head, "big"))
                payload = bytes(payload)
                if kind == ord(soupbintcp.LOGIN):
                    name = session if int(payload[-20:]) else "20261128AM"
                    first = int(payload[-20:]) or number_of_latest
                    send(soupbintcp.LOGIN_ACCEPTED, name.encode() + str(first).encode().rjust(20))
                    for message in day[first - 1:]:
                        send(soupbintcp.HEARTBEAT)
                        send(soupbintcp.SEQUENCED, message)
                    send(soupbintcp.HEARTBEAT)
                elif kind == ord(soupbintcp.UNSEQUENCED) and payload[:1] == b"Q":
                    send(soupbintcp.HEARTBEAT)
                    send(soupbintcp.SEQUENCED, ouch.query_response(0, 4))
                elif kind == ord(soupbintcp.UNSEQUENCED):
                    cancelled.append(struct.unpack(">cII", payload))
                    send(soupbintcp.SEQUENCED, ouch.canceled(0, cancelled[-1][1], 100, b"U"))
                elif kind == ord(soupbintcp.LOGOUT):
                    return

    with served(serve_one) as address:
        status, text = run(tmp_path, address, OPEN % 1 + OPEN % 2 + OPEN % 3)
    if session != "20261128AM":
        assert status == 1 and "session 20261129AM has begun in the place of 20261128AM" in text and not cancelled, text
        return
    assert status == 0 and text.splitlines() == [f"order {number}: buy 100 ACME at 1.0000: {fate}" for number, fate in (
        (1, "cancelled, 40 shares executed"), (2, "cancelled"), (3, "had ended"))], text
    assert cancelled == [(b"X", 1, 0), (b"X", 2, 0)]


@pytest.mark.parametrize("old, new, said", [
    (":26404", ":99999", "orders=: '127.0.0.1:99999' is not HOST:PORT"), (":26404", "", "orders=: '127.0.0.1' is not"),
    ("TRADER", "\u03a9", "user=: not up to 6 characters"), ("TRADER", "TRADERS", "user=: not up to 6"),
    ("PEREGRINE", "PEREGRINES2", "passwd=: not up to 10"), ("=TRADER", "=TRADER user=OTHER", "user= is given twice"),
    ("user", "name", "there is no user="), ("TRADER", "\udcff", "no text in UTF-8"),
], ids=["port", "no port", "letter", "name", "password", "twice", "missing", "encoding"])
def test_settings_that_the_program_would_refuse_are_refused(tmp_path, capsys, old, new, said):
    conf = tmp_path / "trade.conf"
    text = "orders=127.0.0.1:26404 user=TRADER passwd=PEREGRINE"
    conf.write_text(text.replace(old, new), encoding="utf-8", errors="surrogateescape")
    assert cancel_orders.main(["--file", str(conf), "--all"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and said in printed.err and "PEREGRINE" not in printed.err, printed.err


def test_an_order_that_replaces_itself_makes_no_sense():
    response = struct.pack(">cQIIcI8sQ", b"U", 0, 7, 7, b"B", 100, b"ACME    ", 10_000)
    with pytest.raises(cancel_orders.Failure, match="replaces order 7 by 7"):
        cancel_orders.Account().take(response)


def test_a_number_without_end_is_none():
    assert cancel_orders.orders_of("order " + "9" * 5000 + " is open: buy 1 ACME at 1.0000\n") == ({}, "")


def test_a_name_that_is_none_is_as_a_host_that_cannot_be_had(tmp_path):
    status, text = run(tmp_path, ("a" * 64 + ".invalid", 1), OPEN % 1)
    assert status == 1 and "may still be open" in text, text


@pytest.mark.parametrize("reads", [True, False], ids=["interrupted", "no reader"])
def test_the_status_says_that_an_order_may_be_open_if_the_end_comes_early(tmp_path, reads):
    conf = tmp_path / "trade.conf"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        conf.write_text("orders=127.0.0.1:%d user=TRADER passwd=PEREGRINE" % server.getsockname()[1])
        record = tmp_path / "record"
        record.write_text("".join(OPEN % number for number in range(1000)))     # more than a buffer takes
        process = subprocess.Popen([*WORDS, "cancel", "--file", conf, record], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        if not reads:
            process.stdout.close()
        client, _ = server.accept()
        client.recv(1000)
        if reads:
            process.send_signal(signal.SIGINT)
        client.close()
        with process:
            said, complaint = process.stdout.read() if reads else "", process.stderr.read()
    assert process.returncode == 1 and "Traceback" not in complaint, complaint
    assert not reads or "interrupted" in complaint and said.count("may still be open") == 1000


def test_an_interruption_before_the_record_is_read_is_no_success(tmp_path):
    conf = tmp_path / "trade.conf"
    conf.write_text("orders=127.0.0.1:1 user=TRADER passwd=PEREGRINE")
    record = tmp_path / "record"
    os.mkfifo(record)
    with subprocess.Popen([*WORDS, "cancel", "--file", conf, record], stderr=subprocess.PIPE, text=True) as process:
        with record.open("w"):                  # the program has opened it, too
            process.send_signal(signal.SIGINT)
            complaint = process.stderr.read()
    assert process.returncode == 1 and "nobody was asked" in complaint, complaint
