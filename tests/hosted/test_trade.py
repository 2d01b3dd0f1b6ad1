"""The trading program over Linux sockets, build/host/trade-linux, against an exchange of a few lines.

A tick comes in and the order leaves; the order is executed; the open one is cancelled on the way home."""
import contextlib
import socket
import struct
import subprocess
import threading
import time

from tests.hosted.test_echo import page
from tests.lib.paths import BUILD, ROOT
from workshop.vm import ports

PROGRAM = BUILD / "host/trade-linux"
KEY, PATIENCE_S = "a-key-for-tests", 30
SESSION, LOCATE, PRICE, STOCK = b"20261126AM", 7, 1000000, b"AAAA    "


def itch(kind, locate, rest):
    return kind + struct.pack(">HH6x", locate, 0) + rest


def add(reference, side, shares, price):
    return itch(b"A", LOCATE, struct.pack(">QcI8sI", reference, side, shares, STOCK, price))


OPENING = [
    itch(b"R", LOCATE, STOCK + bytes(20)), itch(b"H", LOCATE, STOCK + b"T" + bytes(5)), itch(b"S", 0, b"Q"),
    itch(b"P", LOCATE, struct.pack(">QcI8sIQ", 0, b"B", 100, STOCK, PRICE, 1)),
]


class Exchange:
    """One line of market data to `feed`, and the orders' session on a port of its own."""

    def __init__(self, feed, host="127.0.0.1"):
        self.feed, self.sequence, self.numbered = feed, 1, 0
        self.listener = socket.create_server((host, 0))
        self.listener.settimeout(PATIENCE_S)
        self.port = self.listener.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.connection, self.closing = None, threading.Event()

    def publish(self, *messages):
        blocks = b"".join(struct.pack(">H", len(message)) + message for message in messages)
        self.udp.sendto(SESSION + struct.pack(">QH", self.sequence, len(messages)) + blocks, self.feed)
        self.sequence += len(messages)

    def beat(self):
        """Sends heartbeats until the end, each half second, on both sessions."""
        with contextlib.suppress(OSError):          # the program has ended
            while not self.closing.wait(0.5):
                self.publish()
                self.send(b"H")

    def send(self, kind, body=b""):
        self.connection.sendall(struct.pack(">Hc", len(body) + 1, kind) + body)

    def respond(self, kind, reference, rest):
        self.send(b"S", kind + struct.pack(">QI", 0, reference) + rest)

    def receive(self):
        """Returns the client's next packet, its type first, without heartbeats."""
        while True:
            length = struct.unpack(">H", self.read(2))[0]
            if (packet := self.read(length)) != b"R":
                return packet

    def read(self, count):
        data = b""
        while len(data) < count:
            piece = self.connection.recv(count - len(data))
            assert piece, "the program has closed the connection"
            data += piece
        return data

    def log_in(self):
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(PATIENCE_S)
        login = self.receive()
        assert (login[:17], login[17:27], login[27:]) == (b"LUSER  PW        ", b" " * 10, b"%20d" % 1)
        self.send(b"A", SESSION + b"%20d" % 1)
        assert self.receive() == b"UQ"
        self.respond(b"Q", 41, b"")

    def accept(self, reference, shares):
        self.respond(b"A", reference, struct.pack(">cI8sQ2sQ4s14sH", b"B", shares, STOCK, PRICE, b"3Y", 1, b"PNNL",
                                                 b"", 0))

    def close(self):
        self.closing.set()
        for opened in (self.listener, self.udp, self.connection):
            opened.close()


def check(exchange, status, gg_port):
    """Trades: one order is executed, the next one is open when the program is sent home. The ports are of 127.0.0.1."""
    exchange.log_in()
    threading.Thread(target=exchange.beat, daemon=True).start()
    exchange.publish(*OPENING)
    while page(status)["pool.trade_session_ready"] != "1" or page(status)["market.AAAA.last"] != str(PRICE):
        time.sleep(0.05)
    exchange.publish(add(1, b"S", 300, PRICE))
    order = struct.pack(">ccIcI8sQ5s14sH", b"U", b"O", 41, b"B", 100, STOCK, PRICE, b"3YPNN", b"peregrine     ", 0)
    assert exchange.receive() == order
    exchange.accept(41, 100)
    exchange.respond(b"E", 41, struct.pack(">IQcQH", 100, PRICE, b"R", 77, 0))
    assert struct.unpack(">I", exchange.receive()[2:6])[0] == 42        # the offer still stands
    exchange.accept(42, 100)
    wanted = {"ouch.accepted": "2", "market.AAAA.long": "100", "market.AAAA.open_buy": "100", "pool.orders_open": "1"}
    while not wanted.items() <= page(status).items():
        time.sleep(0.05)
    with subprocess.Popen([ROOT / "tools/gg", "127.0.0.1", "--port", str(gg_port), "--key", KEY, "--timeout", "20",
                           "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as gg:
        assert exchange.receive() == b"UX" + struct.pack(">II", 42, 0)
        exchange.respond(b"C", 42, struct.pack(">Ic", 100, b"U"))
        stdout, stderr = gg.communicate(timeout=PATIENCE_S)
        assert gg.returncode == 0 and "ouch.executed 1\n" in stdout, stderr


def words_of(feed, exchange_port, status, gg_port, host="127.0.0.1"):
    return [f"feed.a=0.0.0.0:{feed}", f"orders={host}:{exchange_port}", "user=USER", "passwd=PW",
            "symbols=AAAA,BB," + ",".join(f"S{i}" for i in range(62)), "strategy=take", "take.buy=100",
            f"http.port={status}", f"control.port={gg_port}", f"key={KEY}", "deadline=120"]


def test_order_leaves_is_executed_and_the_open_one_is_cancelled_before_the_end():
    feed, status, gg_port = ports.free_port(ports.UDP), ports.free_port(), ports.free_port(ports.UDP)
    exchange = Exchange(("127.0.0.1", feed))
    with subprocess.Popen([PROGRAM, "--all", *words_of(feed, exchange.port, status, gg_port), "wait=sleep"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            while "trade: running" not in (line := program.stderr.readline()):
                assert line, "the program ended"
            check(exchange, status, gg_port)
            statistics, log = program.communicate(timeout=PATIENCE_S)
        finally:
            program.kill()
            exchange.close()
    assert program.returncode == 0 and "leaving: gg" in log and "ouch.cancelled 1\n" in statistics, log
    assert "order 41: entered: buy 100 AAAA at 100.0000\n" in log and "order 41: executed: 100 AAAA at" in log
