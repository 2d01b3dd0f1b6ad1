"""The three ports of a contest in one loop: input (digits), output (submissions), pages.

One thread, no locks. A submission's time is the kernel's receive time of the segment that completed it
(SO_TIMESTAMPNS; on TCP it is the time of the last segment that recvmsg took from), so a slow loop delays responses
but falsifies neither latency nor order: what one turn of the loop received is judged in the order of those stamps.
A burst's time is read right before its first byte is given to TCP.
"""
import collections
import dataclasses
import errno
import heapq
import itertools
import random
import re
import select
import socket
import struct
import time

from contest import board, http
from contest.oracle import Oracle
from contest.record import Record
from contest.rounds import ONLINE, Round
from contest.scoring import Contest, Submission
from contest.stream import Stream

SO_TIMESTAMPNS = 35                 # asm-generic/socket.h; Python has no name for it
TCP_INFO_MIN_RTT = 148              # offset of tcpi_min_rtt (us) in struct tcp_info, linux/tcp.h
OUTBOX_BYTES_MAX = 4 << 20          # of a reader that does not read; then its connection ends
CONNECTION_COUNT_MAX = 1000
LINGER_S = 2.0
SPLIT_GAP_S = 0.0005
USER = re.compile(r"[A-Za-z0-9_.-]{1,32}")
FEED_HEAD = b"HTTP/1.1 200 OK\r\nServer: Most\r\nContent-type: text/plain\r\n"


@dataclasses.dataclass
class Options:
    round: Round = ONLINE
    seed: str = "1"
    rate: float = 1.0               # answers a second
    burst: tuple = (50, 300)        # digits
    interval_s: tuple = (0.2, 0.5)
    body: str = "raw"               # raw | chunked
    start: str = "push"             # push at connect | wait for the request
    begin: str = "now"              # the first burst: now | player (once an input connection is there)
    duration_s: float = 0           # of the stream, from its first burst; 0: for ever
    bursts: int = 0                 # of the stream; 0: for ever. Unlike a duration it does not depend on the machine
    close_after: int = 0            # both players' connections end after every so many bursts; 0: never
    close_how: str = "fin"          # fin | rst
    close_wait_s: float = 0         # after the burst; 0: half a pause
    close_for_s: float = 0          # nobody is let in again for so long
    split: bool = False             # what is sent on the input port goes out in odd pieces
    bind: str = "0.0.0.0"
    port_base: int = 10000          # 0: any three free ports
    record: str = ""
    users: dict = None              # name -> password; None: anybody


class Connection:
    def __init__(self, sock, address, kind, number):
        self.sock, self.ip, self.kind, self.number = sock, address[0], kind, number
        self.outbox = collections.deque()       # (due, bytes)
        self.outbox_bytes = 0
        self.parser = http.RequestParser()
        self.live = False           # input: gets the bursts
        self.ending = False         # we have said FIN and read what still comes
        self.stamp_ns = 0           # the latest receive time, which never goes back
        self.writing = False        # EPOLLOUT is asked for


class ContestServer:
    def __init__(self, options):
        self.options = options
        self.record = Record(options.record)
        self.contest = Contest(options.round, self.record.tell)
        self.stream = Stream(options.round, options.seed, options.rate, options.burst, options.interval_s)
        self.oracle = Oracle(options.round.n, options.round.constants)
        self.splits = random.Random(f"splits {options.seed}")
        self.poll = select.epoll()
        self.listeners = {}             # file number -> (socket, kind)
        self.connections = {}           # file number -> Connection
        self.timers, self.timer_numbers = [], itertools.count()
        self.numbers = itertools.count(1)
        self.begun_at = None            # monotonic seconds of the first burst
        self.due = None                 # of the next burst, monotonic seconds
        self.over = False               # the last burst has been sent
        self.stopped = False
        self.submissions = []           # of this turn: (stamp, connection, request)
        self.ports = self._listen_all()
        self.record.tell("contest", n=options.round.n, constants=[str(m) for m in options.round.constants],
                         told=len(options.round.told), seed=options.seed, rate=options.rate, burst=options.burst,
                         interval_s=options.interval_s, body=options.body, start=options.start, ports=self.ports,
                         ns=time.time_ns())
        self._prepare()
        if options.begin == "now":
            self._begin()

    # ---- the loop ----

    def run(self):
        while not self.stopped:
            self.turn(0.05)
        self.close()

    def stop(self):
        self.stopped = True

    def close(self):
        self.submissions.clear()
        for connection in list(self.connections.values()):
            self._flush(connection, at_once=True)
            self._drop(connection)
        for sock, _ in self.listeners.values():
            sock.close()
        self.listeners.clear()
        for name in self.contest.users:
            self.record.tell("summary", **self.contest.summary(name))
        self.record.close()
        self.poll.close()

    def turn(self, wait_s):
        """Waits for the next thing to happen, for so long at most, and handles all that has happened."""
        now = time.monotonic()
        if self.timers:
            wait_s = min(wait_s, max(self.timers[0][0] - now, 0))
        for number, events in self.poll.poll(wait_s):
            if number in self.listeners:
                self._accept(*self.listeners[number])
            elif connection := self.connections.get(number):
                if events & select.EPOLLOUT:
                    self._flush(connection)
                if events & ~select.EPOLLOUT:
                    self._read(connection)
        self._judge()
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            heapq.heappop(self.timers)[2]()

    def after(self, wait_s, call):
        heapq.heappush(self.timers, (time.monotonic() + wait_s, next(self.timer_numbers), call))

    # ---- input: the digits ----

    def _begin(self):
        if self.begun_at is None:
            self.begun_at = time.monotonic()
            self._schedule()

    def _prepare(self):
        """The next burst, long before it is due."""
        self.burst = self.stream.next_burst()
        self.occurrences = None
        data = self.burst.digits.encode()
        self.payload = b"%x\r\n%s\r\n" % (len(data), data) if self.options.body == "chunked" else data

    def _solve(self):
        """The next burst's answers, in the middle of the pause: a millisecond or two, for which a player's QEMU would
        wait on a machine with two processors."""
        if self.occurrences is None:
            self.occurrences = self.oracle.push(self.burst.digits)

    def _schedule(self):
        """The pauses count from due time to due time: lateness does not add up."""
        now = time.monotonic()
        self.due = max((self.due or now) + self.burst.pause_s, now)
        self.after((self.due - now) / 2, self._solve)
        self.after(self.due - now, self._send_burst)

    def _send_burst(self):
        self._solve()
        burst = self.burst
        feeds = [c for c in self.connections.values() if c.live]
        ns = time.time_ns()
        for connection in feeds:
            self._send(connection, self.payload, split=self.options.split)
        self.record.tell("burst", index=burst.index, position=burst.position, digits=burst.digits, ns=ns)
        self.contest.send(self.occurrences, ns)
        self.contest.expire(ns)
        self._prepare()
        self.record.flush()
        if self._was_last(burst):
            self.over = True
            return
        if self.options.close_after and (burst.index + 1) % self.options.close_after == 0:
            wait_s = self.options.close_wait_s or self.burst.pause_s / 2
            self.due = time.monotonic() + wait_s        # however late we are: the next burst comes behind it
            self.after(wait_s, self._close_players)
        self._schedule()

    def _was_last(self, burst):
        limit_s, limit = self.options.duration_s, self.options.bursts
        return limit_s and time.monotonic() - self.begun_at >= limit_s or limit and burst.index + 1 >= limit

    def _go_live(self, connection):
        head = FEED_HEAD + (b"Transfer-Encoding: chunked\r\n" if self.options.body == "chunked" else b"") + b"\r\n"
        self._send(connection, head, split=self.options.split)
        connection.live = True
        self.record.tell("feed-open", id=connection.number, ip=connection.ip, position=self.burst.position,
                         ns=time.time_ns())
        self._begin()

    # ---- output and pages ----

    def _judge(self):
        """Everything that this turn received, in the order in which it reached the machine."""
        batch, self.submissions = sorted(self.submissions, key=lambda entry: entry[0]), []
        for stamp_ns, connection, request in batch:
            status, line = self._submission(stamp_ns, connection, request)
            self._send(connection, http.response(status, line + "\n", keep_alive=request.keep_alive))
            if not request.keep_alive:
                self._finish(connection)

    def _submission(self, stamp_ns, connection, request):
        if request.path != "/submit":
            return 404, "the path is /submit"
        if request.method != "POST":
            return 405, "the method is POST"
        name, users = request.query.get("user", ""), self.options.users
        if not USER.fullmatch(name):
            return 400, "user= is missing or malformed"
        if users is not None and users.get(name) != request.query.get("passwd"):
            return 401, "unknown user or wrong password"
        user = self.contest.user(name)
        if user.submits % 64 == 0:
            user.ping_us[connection.ip] = self._ping_us(connection)
        digits = request.body.decode("latin-1")
        return 200, self.contest.submit(Submission(stamp_ns, connection.ip, name, digits))

    @staticmethod
    def _ping_us(connection):
        info = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return struct.unpack_from("I", info, TCP_INFO_MIN_RTT)[0]

    def _page(self, connection, request):
        now_ns = time.time_ns()
        self.contest.expire(now_ns)
        more = {"over": self.over, "begun": self.begun_at is not None}
        pages = {
            "/": lambda: (board.rules_page(self.contest), "text/html"),
            "/board.txt": lambda: (board.board_text(self.contest, now_ns), "text/plain"),
            "/board.json": lambda: (board.json_text(self.contest, now_ns, **more), "application/json"),
            "/charts": lambda: (board.charts_page(self.contest), "text/html"),
            "/score.svg": lambda: (board.score_chart(self.contest), "image/svg+xml"),
            "/latency.svg": lambda: (board.latency_chart(self.contest), "image/svg+xml"),
        }
        if request.method not in ("GET", "HEAD"):
            answer = http.response(405, "GET only\n", keep_alive=request.keep_alive)
        elif request.path not in pages:
            answer = http.response(404, "no such page\n", keep_alive=request.keep_alive)
        else:
            body, kind = pages[request.path]()
            answer = http.response(200, body, kind + "; charset=utf-8", request.keep_alive)
        if request.method == "HEAD":
            answer = answer[:answer.index(b"\r\n\r\n") + 4]
        self._send(connection, answer)
        if not request.keep_alive:
            self._finish(connection)

    # ---- connections ----

    def _listen_all(self):
        for _ in range(100):
            base = self.options.port_base or random.SystemRandom().randrange(20000, 32000)     # below ephemeral ports
            ports = {"pages": base, "input": base + 1, "output": base + 2}
            try:
                for kind, port in ports.items():
                    self._listen(kind, port)
                return ports
            except OSError as error:
                for sock, _ in self.listeners.values():
                    sock.close()
                self.listeners.clear()
                if self.options.port_base or error.errno != errno.EADDRINUSE:
                    raise OSError(error.errno, f"{self.options.bind}:{port}: {error.strerror}") from error
        raise OSError(errno.EADDRINUSE, "no three free ports in a row")

    def _listen(self, kind, port):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.listeners[sock.fileno()] = (sock, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)       # inherited: stamps from the first segment on
        sock.bind((self.options.bind, port))
        sock.listen(128)
        self.poll.register(sock, select.EPOLLIN)

    def _accept(self, listener, kind):
        try:
            sock, address = listener.accept()
        except OSError:
            return
        if len(self.connections) >= CONNECTION_COUNT_MAX:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, address, kind, next(self.numbers))
        self.connections[sock.fileno()] = connection
        self.poll.register(sock, select.EPOLLIN | select.EPOLLRDHUP)
        if connection.kind == "input" and self.options.start == "push":
            self._go_live(connection)

    def _read(self, connection):
        try:
            data, ancillary, _, _ = connection.sock.recvmsg(65536, 256)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", ()
        if not data:
            self._judge()           # answers what was received before
            self._drop(connection)
            return
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanos = struct.unpack("qq", value[:16])
                connection.stamp_ns = max(connection.stamp_ns, seconds * 1_000_000_000 + nanos)
        connection.stamp_ns = connection.stamp_ns or time.time_ns()
        if connection.kind == "input" and connection.live:
            return                  # the request, after we have begun; nothing depends on it
        connection.parser.feed(data)
        self._take_requests(connection)

    def _take_requests(self, connection):
        try:
            while request := connection.parser.next_request():
                self._take_request(connection, request)
            if connection.parser.wants_continue:
                connection.parser.wants_continue = False
                self._send(connection, b"HTTP/1.1 100 Continue\r\n\r\n")
        except http.BadRequest as error:
            self.record.tell("invalid", ns=connection.stamp_ns, ip=connection.ip, reason=str(error))
            self._judge()
            self._send(connection, http.response(error.status, f"{error}\n", keep_alive=False))
            self._finish(connection)

    def _take_request(self, connection, request):
        if connection.kind == "output":
            self.submissions.append((connection.stamp_ns, connection, request))
        elif connection.kind == "pages":
            self._page(connection, request)
        elif connection.live:
            pass                    # a second request on the input port: its answer would never come
        elif request.method != "GET":
            self._send(connection, http.response(405, "GET only\n", keep_alive=False))
            self._finish(connection)
        else:
            self._go_live(connection)

    def _send(self, connection, data, split=False):
        """Sends as much as can be sent now; the rest follows by itself."""
        if connection.ending or connection.sock.fileno() < 0:
            return
        due = time.monotonic()
        pieces = self._pieces(data) if split else [data]
        for i, piece in enumerate(pieces):
            connection.outbox.append((due + i * SPLIT_GAP_S, piece))
            connection.outbox_bytes += len(piece)
        self._flush(connection)
        if connection.outbox_bytes > OUTBOX_BYTES_MAX:
            self._drop(connection)

    def _pieces(self, data):
        cuts = sorted({0, len(data), *(self.splits.randint(0, len(data)) for _ in range(self.splits.randint(1, 8)))})
        return [data[a:b] for a, b in zip(cuts, cuts[1:])]

    def _flush(self, connection, at_once=False):
        """Sends what is due, or at once all that waits, until TCP takes no more."""
        blocked = False
        while connection.outbox and not blocked:
            due, data = connection.outbox[0]
            if not at_once and due > time.monotonic():
                self.after(due - time.monotonic(), lambda: self._flush(connection))
                break
            if connection.sock.fileno() < 0:
                return
            try:
                count = connection.sock.send(data)
            except BlockingIOError:
                count, blocked = 0, True
            except OSError:
                self._drop(connection)
                return
            connection.outbox_bytes -= count
            if count == len(data):
                connection.outbox.popleft()
            else:
                connection.outbox[0] = (due, data[count:])
                blocked = True
        if blocked != connection.writing and connection.sock.fileno() >= 0:
            connection.writing = blocked
            self.poll.modify(connection.sock, select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if blocked else 0))

    def _finish(self, connection):
        """Says FIN, goes on reading (and judging) what is on its way, then drops the connection."""
        if connection.ending or connection.sock.fileno() < 0:
            return
        self._flush(connection, at_once=True)       # pieces whose time has not come
        if connection.sock.fileno() < 0:
            return
        self._close_feed(connection)
        connection.ending = True
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.after(LINGER_S, lambda: self._drop(connection))

    def _drop(self, connection, reset=False):
        if connection.sock.fileno() < 0:
            return
        self._close_feed(connection)
        self.connections.pop(connection.sock.fileno(), None)
        self.poll.unregister(connection.sock)
        if reset:       # SO_LINGER of 0 s: RST instead of FIN
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sock.close()

    def _close_feed(self, connection):
        if connection.live:
            connection.live = False
            self.record.tell("feed-close", id=connection.number, position=self.burst.position, ns=time.time_ns())

    def _close_players(self):
        """The fault that players must survive: the servers end all their connections."""
        if self.options.close_for_s:
            for number, (sock, kind) in list(self.listeners.items()):
                if kind != "pages":
                    self.poll.unregister(sock)
                    sock.close()
                    del self.listeners[number]
            self.after(self.options.close_for_s, self._open_again)
        for connection in [c for c in self.connections.values() if c.kind != "pages"]:
            if self.options.close_how == "rst":
                self._drop(connection, reset=True)
            else:
                self._finish(connection)

    def _open_again(self):
        open_kinds = {kind for _, kind in self.listeners.values()}
        for kind, port in self.ports.items():
            if kind not in open_kinds:
                self._listen(kind, port)
