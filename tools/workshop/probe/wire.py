"""One player's delay from burst to POST, by the kernel's own stamps on both ends of the wire.

A burst ends with the last digit of an answer. The burst's stamp is taken when the network device takes its segment
(SO_TIMESTAMPING, transmit, software: below this host's TCP). The POST's stamp is taken when the device delivers its
segment (SO_TIMESTAMPNS). The figure holds the wire and the player, and neither Python nor this host's sockets.
"""
import dataclasses
import select
import socket
import struct
import time

from workshop.probe.bursts import Bursts
from servers.web import http

SO_TIMESTAMPNS = 35                 # asm-generic/socket.h
SO_TIMESTAMPING = 37
TX_SOFTWARE, RX_SOFTWARE, SOFTWARE, OPT_ID, OPT_TSONLY = 1 << 1, 1 << 3, 1 << 4, 1 << 7, 1 << 11    # net_tstamp.h
FEED_HEAD = b"HTTP/1.1 200 OK\r\nServer: Most\r\nContent-type: text/plain\r\n\r\n"


class ProbeError(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Shot:
    sent_ns: int
    posted_ns: int

    @property
    def delay_us(self):
        return (self.posted_ns - self.sent_ns) / 1000


def stamp_in(ancillary):
    """Returns the software stamp of a received message's control data, in ns; None without one."""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind in (SO_TIMESTAMPNS, SO_TIMESTAMPING) and len(value) >= 16:
            seconds, nanos = struct.unpack("qq", value[:16])
            if seconds:
                return seconds * 1_000_000_000 + nanos
    return None


class Wire:
    """Waits for one player on both ports, then shoots."""

    def __init__(self, bind, contest_round, seed):
        self.bursts = Bursts(contest_round, seed)
        self.listeners = {kind: self._listen(bind) for kind in ("input", "output")}
        self.ports = {kind: sock.getsockname()[1] for kind, sock in self.listeners.items()}
        self.feed = self.output = None
        self.parser = http.RequestParser()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sock in (*self.listeners.values(), self.feed, self.output):
            if sock:
                sock.close()

    @staticmethod
    def _listen(bind):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.bind((bind, 0))
        sock.listen(4)
        return sock

    def wait_player(self, seconds):
        """Waits until the player has both connections and its feed request has been answered."""
        for kind in ("input", "output"):
            self.listeners[kind].settimeout(seconds)
            try:
                sock, _ = self.listeners[kind].accept()
            except TimeoutError as error:
                raise ProbeError(f"no player came to the {kind} port within {seconds:g} s") from error
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if kind == "input":
                self.feed = sock
                sock.sendall(FEED_HEAD)
            else:
                self.output = sock
        self.feed.settimeout(seconds)
        self.feed.recv(4096)        # the request
        self.feed.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY)

    def shoot(self, digits=100, answer_digits=60, seconds=2.0):
        """Sends one burst, waits for its answer, answers the POST."""
        burst, expected = self.bursts.draw(digits, answer_digits)
        self.feed.sendall(burst.encode())
        sent_ns = self._sent_stamp(seconds)
        posted_ns = None
        for digits_posted, stamp_ns in self._posts(len(expected), seconds):
            if digits_posted not in expected:
                raise ProbeError(f"the player posted {digits_posted}, which was not offered")
            if digits_posted == expected[0]:
                posted_ns = stamp_ns
        return Shot(sent_ns, posted_ns)

    def _sent_stamp(self, seconds):
        """Returns the transmit stamp of the burst's last byte, from the socket's error queue."""
        poll = select.poll()
        poll.register(self.feed, 0)             # errors are always reported
        end = time.monotonic() + seconds
        latest = None
        while poll.poll(0 if latest else max(end - time.monotonic(), 0) * 1000):
            try:
                _, ancillary, _, _ = self.feed.recvmsg(1, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            except BlockingIOError:
                if latest or time.monotonic() >= end:
                    break
                continue
            latest = stamp_in(ancillary) or latest
        if latest is None:
            raise ProbeError("this kernel gives no transmit stamps")
        return latest

    def _posts(self, count, seconds):
        """Returns `count` POSTs as (digits, receive stamp); each is answered at once."""
        posts = []
        self.output.settimeout(seconds)
        while len(posts) < count:
            try:
                data, ancillary, _, _ = self.output.recvmsg(65536, 256)
            except TimeoutError as error:
                raise ProbeError(f"{len(posts)} of {count} answers came within {seconds:g} s") from error
            if not data:
                raise ProbeError("the player closed its output connection")
            self.parser.feed(data)
            while request := self.parser.next_request():
                posts.append((request.body.decode("latin-1"), stamp_in(ancillary)))
                self.output.sendall(http.response(200, "+8\n"))
        return posts
