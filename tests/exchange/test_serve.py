"""The exchange as a process: both lines, lost messages, snapshots, orders that go on after a restart, bad words."""
import contextlib
import itertools
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from workshop.vm import trade as demo
from tests.exchange.market_of import fields_of
from tests.exchange.running import WAIT_S, WORDS, Lines, Running, Soup, header_of, messages_of
from tests.exchange.test_orders import cancel, enter
from tests.lib.full_disk import full_disk


@pytest.fixture(name="lines")
def open_lines():
    lines = Lines()
    yield lines
    lines.close()


@contextlib.contextmanager
def running(lines, *words, **options):
    exchange = Running(lines, *words, **options)
    try:
        yield exchange
    finally:
        exchange.close()


class Book:
    """All live orders, from messages of ITCH: reference -> [stock, side, price, shares]."""

    def __init__(self, messages=()):
        self.orders = {}
        for message in messages:
            self.take(message)

    def take(self, message):
        kind, *fields = fields_of(message)
        if kind in "AF":
            reference, side, shares, stock, price = fields[:5]
            self.orders[reference] = [stock, side, price, shares]
        elif kind in "ECX":
            self.orders[fields[0]][3] -= fields[1]
            if not self.orders[fields[0]][3]:
                del self.orders[fields[0]]
        elif kind == "D":
            del self.orders[fields[0]]
        elif kind == "U":
            reference, new_reference, shares, price = fields
            stock, side, _, _ = self.orders.pop(reference)
            self.orders[new_reference] = [stock, side, price, shares]


def in_order(messages):
    assert sorted(messages) == list(range(1, len(messages) + 1))
    return [messages[number] for number in sorted(messages)]


def test_both_lines_carry_the_same_session_to_its_end(lines):
    with running(lines, "--duration", 2, "--rate", 1000, "--preopen", 0.5) as exchange:
        lines.read_to_the_end()
        counts, _ = exchange.wait()
    assert messages_of(lines.a) == messages_of(lines.b)
    messages = in_order(messages_of(lines.a))
    assert len(messages) == counts["messages"] > 500
    assert {header_of(packet)[0].decode() for packet in lines.a} == {exchange.session}
    events = [fields_of(message)[1] for message in messages if message[:1] == b"S"]
    assert events == ["O", "S", "Q", "M", "E", "C"]
    assert Book(messages).orders == {}
    times = [int.from_bytes(message[5:11], "big") for message in messages]
    assert times == sorted(times)


def ask_again(exchange, messages):
    """Asks for all that is missing, one packet at a time."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(WAIT_S)
        missing = [number for number in range(1, max(messages)) if number not in messages]
        while missing:
            sock.sendto(struct.pack(">10sQH", exchange.session.encode(), missing[0], 1000),
                        exchange.addresses["rerequest"])
            messages.update(messages_of([sock.recv(2048)]))
            missing = [number for number in missing if number not in messages]


def test_lost_messages_come_when_they_are_asked_for(lines):
    faults = "--loss-a 0.3 --loss-b 0.3 --repeat-a 0.1 --reorder-b 0.2".split()
    with running(lines, "--rate", 2000, "--preopen", 0, *faults) as exchange:
        lines.read(lambda: len(lines.a) > 300 and len(lines.b) > 300)
        messages = messages_of(lines.a + lines.b)
        assert len(messages) < max(messages)
        ask_again(exchange, messages)
        Book(in_order(messages))                # every change is of an order that is there
        counts, _ = exchange.end()
    for line in counts["lines"]:
        assert 0.2 < line["lost"] / (line["sent"] - line["repeated"] + line["lost"]) < 0.4


def test_a_snapshot_and_the_feed_after_it_make_the_same_book(lines):
    with running(lines, "--rate", 2000, "--preopen", 0) as exchange:
        lines.read(lambda: len(lines.a) > 300)
        soup, book = Soup(exchange.addresses["snapshot"]), Book()
        kinds = []
        while (message := soup.message())[:1] != b"G":
            kinds.append(message[:1])
            book.take(message)
        assert kinds[:9] == [b"S", *[b"R", b"H"] * 4] and len(kinds) > 100
        assert len(message) == 21
        next_number = int(message[1:])
        soup.close()
        lines.read(lambda: header_of(lines.a[-1])[1] > next_number + 500)
        exchange.kill()
    messages = messages_of(lines.a)
    whole = Book()
    for number in sorted(messages):
        whole.take(messages[number])
        if number >= next_number:
            book.take(messages[number])
        if number >= next_number - 1:
            assert book.orders == whole.orders, f"after message {number}"


def take_until(soup, kind, count=1):
    """Returns the messages up to the `count`-th one of a kind."""
    messages = []
    while count:
        messages.append(soup.message())
        count -= messages[-1][:1] == kind
    return messages


def test_orders_trade_and_the_feed_shows_them(lines):
    with running(lines, "--rate", 0, "--preopen", 0, "--account", "MAKER:one", "--account", "TAKER:two") as exchange:
        maker = Soup(exchange.addresses["orders"], user="MAKER", password="one")
        taker = Soup(exchange.addresses["orders"], user="taker", password="TWO")
        maker.send("U", enter(1, "S", 300, 10_000))
        take_until(maker, b"A")
        taker.send("U", enter(1, "B", 100, 10_100, time_in_force="3"))
        executions = [take_until(soup, b"E")[-1] for soup in (maker, taker)]
        assert [execution[25:26] for execution in executions] == [b"A", b"R"]
        assert executions[0][26:34] == executions[1][26:34]     # the match number
        maker.send("U", cancel(1))
        take_until(maker, b"C")
        maker.send("O")
        assert maker.packet() == ("", b"")
        counts, accounts = exchange.end()
        lines.read_to_the_end()
    book_messages = [fields_of(message) for message in in_order(messages_of(lines.b))]
    match = int.from_bytes(executions[0][26:34], "big")
    assert [message for message in book_messages if message[0] in "AED"] == [
        ("A", 1, "S", 300, "ACME", 10_000), ("E", 1, 100, match), ("D", 1)]
    assert accounts["MAKER"]["positions"]["ACME"] == {"shares": -100, "cash": 1_000_000, "bought": 0, "sold": 100}
    assert accounts["TAKER"]["positions"]["ACME"]["shares"] == 100


def test_a_second_login_ends_the_first_and_goes_on_after_it(lines):
    with running(lines, "--rate", 0, "--preopen", 0) as exchange:
        first = Soup(exchange.addresses["orders"])
        first.send("U", enter(1))
        seen = take_until(first, b"A")
        second = Soup(exchange.addresses["orders"], sequence=len(seen) + 1, session=exchange.session)
        assert first.packet() == ("", b"")
        second.send("U", enter(1))                      # sent again, since its answer was not seen
        second.send("U", b"Q")
        assert second.message()[:1] == b"Q"
        third = Soup(exchange.addresses["orders"])      # from the first answer on
        assert take_until(third, b"A") == seen


def test_a_killed_exchange_goes_on_where_it_was(lines, tmp_path):
    words = ["--rate", 1000, "--preopen", 0.2, "--seed", 9, "--journal", tmp_path / "journal"]
    serve = [*WORDS, "serve", *words[-2:]]
    with running(lines, *words) as exchange:
        soup = Soup(exchange.addresses["orders"])
        soup.send("U", enter(1, "B", 200, 100))
        lines.read(lambda: len(lines.a) > 200)
        soup.send("U", enter(2, "B", 100, 1_999_999_900, time_in_force="3"))
        seen = take_until(soup, b"E")
        lines.read(lambda: len(lines.a) > 300)
        exchange.kill()
    session, ports = exchange.session, exchange.ports
    with running(lines, *words, ports=ports) as exchange:
        assert exchange.session == session
        result = subprocess.run(serve, capture_output=True, text=True, check=False)
        assert result.returncode == 1 and "journal: is another exchange's already" in result.stderr
        again = Soup(exchange.addresses["orders"], session=session)
        assert [again.message() for _ in seen] == seen
        again.send("U", enter(2))                       # was taken before
        lines.read(lambda: len(lines.a) > 500)
        again.send("U", cancel(1))
        take_until(again, b"C")
        messages = messages_of(lines.a + lines.b)       # none differs from before
        ask_again(exchange, messages)
        Book(in_order(messages))
        _, accounts = exchange.end()
    assert accounts["TRADER"]["positions"]["ACME"]["bought"] == 100
    assert accounts["TRADER"]["counts"]["repeated"] == 1
    result = subprocess.run(serve, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and f"the session '{session}' has ended" in result.stderr


def ask_for_ever(address, ended):
    while not ended.is_set():
        with socket.create_connection(address, WAIT_S) as sock, sock.makefile("rb") as file:
            sock.sendall(b"GET /board.json HTTP/1.1\r\nHost: x\r\n\r\n")
            file.read()


def test_viewers_and_strangers_hold_no_trader_up(lines):
    """100 viewers who ask without a pause, 150 connections to each port without a login, and requests that are none."""
    symbols = ",".join(f"S{i}" for i in range(200))
    with running(lines, "--symbols", symbols, "--board", "127.0.0.1:0") as exchange:
        ended = threading.Event()
        viewers = [threading.Thread(target=ask_for_ever, args=(exchange.addresses["board"], ended)) for _ in range(100)]
        for viewer in viewers:
            viewer.start()
        try:
            silent = [socket.create_connection(exchange.addresses[port], WAIT_S)
                      for port in ("orders", "snapshot") for _ in range(150)]
            for sock in silent[-20:]:                   # but for heartbeats
                sock.setblocking(False)
                sock.send(b"\0\1R" * 150_000)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                for _ in range(1000):
                    sock.sendto(b"nothing", exchange.addresses["rerequest"])
            soup, waited_s = Soup(exchange.addresses["orders"]), []
            for _ in range(100):
                begun_s = time.monotonic()
                soup.send("U", b"Q")
                while soup.message()[:1] != b"Q":
                    pass
                waited_s.append(time.monotonic() - begun_s)
                time.sleep(0.02)
            assert sorted(waited_s)[50] < 0.3 and max(waited_s) < 2, sorted(waited_s)[-10:]
            assert Soup(exchange.addresses["snapshot"]).login[0] == "A"
        finally:
            ended.set()
            for viewer in viewers:
                viewer.join(WAIT_S)
        for sock in silent:
            sock.close()
        exchange.end()
        assert exchange.log_text().count("instead of 20") <= 20


def test_connections_are_reset_as_asked(lines):
    with running(lines, "--rate", 0, "--preopen", 0, "--reset", 0.01) as exchange, pytest.raises(ConnectionResetError):
        while True:
            soup = Soup(exchange.addresses["orders"])
            while soup.packet()[0]:
                pass


def test_multicast_reaches_a_member(lines):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(WAIT_S)
        sock.bind(("239.1.2.3", 0))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                        socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1"))
        words = ["--line-a", "239.1.2.3:%d" % sock.getsockname()[1], "--interface", "127.0.0.1"]
        with running(lines, *words) as exchange:
            assert header_of(sock.recv(2048))[0].decode() == exchange.session


@pytest.mark.parametrize("words, complaint", [
    (["sell"], "exchange: 'sell' is no command"),
    (["serve", "--line-a", "localhost"], "'localhost' is not IP:PORT"),
    (["serve", "--orders", "1.2.3.4:99999"], "'1.2.3.4:99999' is not IP:PORT"),
    (["serve", "--interface", "eth0"], "'eth0' is no IP"),
    (["serve", "--symbols", "ACME,acme"], "'acme' is no symbol"),
    (["serve", "--symbols", "ACME,ACME"], "'ACME' stands there twice"),
    (["serve", "--account", "TRADERS:x"], "'TRADERS:...' is not USER:PASSWORD"),
    (["serve", "--account", "hunter2"], "a word of 7 characters (not shown) is not USER:PASSWORD"),
    (["serve", "--account", "A:x", "--account", "a:y"], "'A' stands there twice"),
    (["serve", "--loss-a", "1.5"], "'1.5' is not a number from 0 to 1"),
    (["serve", "--halt", "ACME@5"], "'ACME@5' is not SYMBOL@AT+FOR"),
    (["serve", "--halt", "NONE@5+1"], "'NONE' is none of the symbols"),
    (["serve", "--session", "short"], "'short' is no session"),
    (["generate", "x", "--rate", "0"], "--rate")])
def test_a_wrong_word_is_quoted(words, complaint):
    result = subprocess.run([*WORDS, *words], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and complaint in result.stderr


def test_a_file_that_is_no_journal_or_day_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"hello")
    for word, complaint in (("--journal", "no journal of an exchange"), ("--replay", "is cut off")):
        result = subprocess.run([*WORDS, "serve", word, tmp_path / "file"], capture_output=True, text=True, check=False)
        assert result.returncode == 1 and complaint in result.stderr, result.stderr
    result = subprocess.run([*WORDS, "generate", tmp_path / "no/file"], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "No such file" in result.stderr


def test_a_journal_that_finds_no_room_ends_the_exchange(lines, tmp_path):
    ports = [word for name in ("rerequest", "snapshot", "orders") for word in (f"--{name}", "127.0.0.1:0")]
    result = subprocess.run([*WORDS, "serve", *lines.words(), *ports, "--rate", "1000", "--preopen", "0", "--journal",
                             tmp_path / "journal"], capture_output=True, text=True, check=False, timeout=WAIT_S,
                            **full_disk(1000))
    assert (result.returncode, result.stderr) == (1, f"exchange serve: {tmp_path}/journal: File too large\n")


def test_an_exchange_needs_no_reader_of_its_output(lines):
    ports = [word for name in ("rerequest", "snapshot", "orders") for word in (f"--{name}", "127.0.0.1:0")]
    with subprocess.Popen([*WORDS, "serve", *lines.words(), *ports], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        process.stdout.close()
        lines.read(lambda: len(lines.a) > 10)           # the session goes on
        process.terminate()
        lines.read_to_the_end()
        process.terminate()                             # for no time to ask again
        assert (process.communicate(timeout=WAIT_S)[1], process.returncode) == ("", 0)


def test_an_interrupted_command_says_so_in_a_line(tmp_path):
    path = tmp_path / "day"
    os.mkfifo(path)
    with subprocess.Popen([*WORDS, "generate", path, "--messages", "1000000"], stderr=subprocess.PIPE,
                          text=True) as process, path.open("rb") as file:
        file.read(1000)                         # the first messages have come
        process.send_signal(signal.SIGINT)
        file.read()
        assert (process.stderr.read(), process.wait(WAIT_S)) == ("exchange generate: interrupted\n", 130)


def test_a_port_that_is_taken_is_named(lines):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        address = "127.0.0.1:%d" % sock.getsockname()[1]
        result = subprocess.run([*WORDS, "serve", *lines.words(), "--snapshot", "127.0.0.1:0", "--orders", address],
                                capture_output=True, text=True, check=False)
    assert result.returncode == 1 and f"--orders {address}: " in result.stderr


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["generate", "--help"], ["--version"]])
def test_help_and_version_are_there(words):
    result = subprocess.run([*WORDS, *words], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and result.stdout.startswith(("usage: exchange", "exchange "))


@pytest.mark.parametrize("on_terminal", [True, False])
def test_the_demo_shows_a_table_or_short_lines_and_files_the_log(monkeypatch, capsys, tmp_path, on_terminal):
    book = {"symbol": "ACME", "bids": [[1_000_000, 5, 1, 0]], "offers": []}
    account = {"counts": {"enter": 3, "answer E": 2}, "open": 1, "profit": -12_345_600,
               "positions": {"ACME": [-7, 100]}}
    state = {"seconds": 61, "messages": 9, "books": [book], "accounts": [account]}
    monkeypatch.setattr(demo.Screen, "_ask", lambda self: state)
    monkeypatch.setattr(demo.time, "monotonic", itertools.count(1, 1.5).__next__)
    monkeypatch.setattr(demo.sys.stdout, "isatty", lambda: on_terminal, raising=False)
    host = SimpleNamespace(log="trade: running, TCP/IP stack own\n", process=SimpleNamespace(poll=lambda: None))
    with open(tmp_path / "log", "w", encoding="utf-8") as file:
        screen = demo.Screen(host, "http://x/", file)
        for i in range(20):
            host.log += f"line {i}\n"
            screen.show()
    assert (tmp_path / "log").read_text() == host.log
    said = capsys.readouterr().out
    assert "0:01:01, 9 messages, 3 orders, 2 executions, 1 open, profit $-1234.56" in said and "line 1" not in said
    if on_terminal:
        assert said.count("\x1b[5A") > 5 and said.count("\n") > 30 and "http://x/" in said.splitlines()[-1]
    else:
        assert 1 <= said.count("\n") <= 4 and "\x1b" not in said
