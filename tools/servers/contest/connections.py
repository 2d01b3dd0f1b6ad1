"""The three ports and their connections: accept, send, end. Who is slow waits in a queue of his own.

A burst goes to the players in the order of `burst_order`: first as many readers of each address as players submit from
there, at least one. So nobody comes later because another opens many connections.
"""
import collections
import errno
import itertools
import logging
import random
import select
import socket
import struct
import time

from servers.contest.stamp_probe import SO_TIMESTAMPNS
from servers.web import http

LOG = logging.getLogger("contest")
OUTBOX_BYTES_MAX = 64 << 10         # for a slow reader, besides TCP's buffer and the latest burst
CONNECTION_COUNT_MAX = 1000         # below the poll's 1023 events a turn
ACCEPTS_A_TURN = 4
RECEIVE_BYTES = 64 << 10            # SO_RCVBUF: bytes of a connection that wait in TCP
RESPONSE_BYTES = 64 << 10           # SO_SNDBUF: responses that nobody reads; the digits have Linux' own bound
LINGER_S = 2.0
SPLIT_GAP_S = 0.0005


# Offsets in struct tcp_info, linux/tcp.h: payload bytes and segments that have come.
TCP_INFO_BYTES_RECEIVED, TCP_INFO_DATA_SEGS_IN = 128, 152


class Connection:
    def __init__(self, sock, address, kind, number, empty_ns):
        self.sock, self.ip, self.kind, self.number = sock, address[0], kind, number
        self.outbox = collections.deque()       # (due, bytes)
        self.outbox_bytes = 0
        self.parser = http.RequestParser()      # None: the last request has come, the rest is ignored
        self.live = False           # input: gets the bursts
        self.ending = False         # we have said FIN and read what still comes
        self.stamp_ns = 0           # the latest receive time, which never goes back
        self.empty_ns = empty_ns    # the latest time when nothing waited to be read
        self.exact = False          # the stamp is right for all that the latest read took
        self.bytes_read = 0
        self.segments = 0           # that the bytes read came in; None: not known
        self.user = None            # the name whose password came last
        self.guessed_at = time.monotonic()      # when the latest wrong password came, or the connection
        self.pending = 0            # submissions that wait to be judged
        self.drained = False        # the latest read took all that was there
        self.behind = False         # requests may be left that have been read
        self.writing = False        # EPOLLOUT is asked for
        self.active_at = time.monotonic()       # the latest completed request, or the latest byte that TCP took

    @property
    def is_open(self):
        return self.sock.fileno() >= 0

    def took_one_segment(self, count):
        """Notes a read of `count` bytes. Returns true if they are known to have come in one segment."""
        self.bytes_read += count
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        received = struct.unpack_from("Q", info, TCP_INFO_BYTES_RECEIVED)[0]
        segments = struct.unpack_from("I", info, TCP_INFO_DATA_SEGS_IN)[0]
        before, self.segments = self.segments, segments if received == self.bytes_read else None
        return None not in (before, self.segments) and self.segments - before == 1


class Listener:
    def __init__(self, sock, kind):
        self.sock, self.kind = sock, kind
        self.empty_ns = 0           # the latest time when nobody waited to be let in
        self.drained = False        # the latest turn let in all that waited


class Connections:
    """`serve(connection, events)` is called for a ready connection, `greet(connection)` for a new one."""

    def __init__(self, game, loop):
        self.game, self.options, self.loop = game, game.options, loop
        self.listeners = {}             # file number -> Listener
        self.table = {}                 # file number -> Connection
        self.shares = collections.Counter()     # address -> its connections
        self.users_at = {}              # address -> who submitted from there, while it has a connection
        self.refused = self.idled = 0           # connections: beyond the share or the table, ended for idleness
        self.numbers = itertools.count(game.stored.next_number)
        self.splits = random.Random(f"splits {self.options.seed}")
        self.ports = self._listen_all()
        self.end_idle()

    def __iter__(self):
        return iter(list(self.table.values()))

    def guarded(self, connection, call, *arguments, **options):
        """Serves one connection. A defect that shows there ends this connection; the game of all others goes on."""
        try:
            call(*arguments, **options)
        except Exception as error:
            self.game.faults += 1
            LOG.exception("defect in serving %s on the %s port; the connection ends", connection.ip, connection.kind)
            self.game.log("fault", ns=self.game.clock.now_ns(), ip=connection.ip, port=connection.kind,
                           reason=repr(error))
            self.drop(connection)

    # ---- those who read the digits ----

    def saw_user(self, ip, name):
        """Notes a player's address. The set is no larger than the address's count of connections."""
        users = self.users_at.setdefault(ip, set())
        if len(users) < self.shares[ip]:
            users.add(name)

    def burst_order(self, index):
        """Returns the players' readers in the order of this burst, and the further readers that follow them."""
        readers = {}
        for connection in self.table.values():
            if connection.live:
                readers.setdefault(connection.ip, []).append(connection)
        first, further = [], []
        for ip, own in readers.items():
            turn, count = index % len(own), max(len(self.users_at.get(ip, ())), 1)
            own = own[turn:] + own[:turn]
            first += own[:count]
            further += own[count:]
        turn = index % len(first) if first else 0
        return first[turn:] + first[:turn], further

    # ---- come ----

    def _listen_all(self):
        for _ in range(100):
            base = self.options.port_base or random.SystemRandom().randrange(20000, 32000)     # below ephemeral ports
            ports = {"pages": base, "input": base + 1, "output": base + 2}
            try:
                for kind, port in ports.items():
                    if kind != "pages" or self.options.pages:
                        self._listen(kind, port)
                return ports
            except OSError as error:
                for listener in self.listeners.values():
                    listener.sock.close()
                self.listeners.clear()
                if self.options.port_base or error.errno != errno.EADDRINUSE:
                    way_out = "; choose another port" if error.errno == errno.EADDRINUSE else ""
                    raise OSError(error.errno, f"{self.options.bind}:{port}: {error.strerror}{way_out}") from error
        raise OSError(errno.EADDRINUSE, "no three free ports in a row")

    def _listen(self, kind, port):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.listeners[sock.fileno()] = Listener(sock, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)       # inherited: stamps from the first segment on
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)     # inherited, too
        if kind != "input":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RESPONSE_BYTES)
        sock.bind((self.options.bind, port))
        sock.listen(128)
        self.loop.poll.register(sock, select.EPOLLIN)

    def accept(self, listener, last_poll_ns, greet):
        """Lets in who waits. `greet` is called with each that found a place."""
        if listener.drained:
            listener.empty_ns = last_poll_ns
        listener.drained = False
        for _ in range(ACCEPTS_A_TURN):
            try:
                sock, address = listener.sock.accept()
            except OSError as error:
                listener.drained = isinstance(error, BlockingIOError)
                return
            if len(self.table) >= CONNECTION_COUNT_MAX or self.shares[address[0]] >= self.options.share:
                self.refused += 1
                sock.close()
                continue
            connection = Connection(sock, address, listener.kind, next(self.numbers), listener.empty_ns)
            self.table[sock.fileno()] = connection
            self.shares[connection.ip] += 1
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.loop.poll.register(sock, select.EPOLLIN | select.EPOLLRDHUP)
            self.game.store.log("connection", ns=self.game.clock.now_ns(), change="open", id=connection.number,
                                 port=connection.kind, ip=connection.ip)
            self.guarded(connection, greet, connection)

    def end_idle(self):
        """Ends connections that only take a place. A reader of the digits may be silent while it takes them."""
        oldest = time.monotonic() - self.options.idle_s
        for connection in self:
            if connection.active_at < oldest and (connection.outbox or not connection.live):
                self.idled += 1
                self.drop(connection)
        self.loop.after(min(1, self.options.idle_s / 4), self.end_idle)

    # ---- send ----

    def send(self, connection, data, split=False):
        """Sends as much as can be sent now; the rest follows by itself."""
        if connection.ending or not connection.is_open:
            return
        if connection.outbox_bytes > OUTBOX_BYTES_MAX:
            self.drop(connection)
            return
        due = time.monotonic()
        pieces = self._pieces(data) if split else [data]
        for i, piece in enumerate(pieces):
            connection.outbox.append((due + i * SPLIT_GAP_S, piece))
            connection.outbox_bytes += len(piece)
        self.flush(connection)

    def _pieces(self, data):
        cuts = sorted({0, len(data), *(self.splits.randint(0, len(data)) for _ in range(self.splits.randint(1, 8)))})
        return [data[a:b] for a, b in zip(cuts, cuts[1:])]

    def flush(self, connection, at_once=False):
        """Sends the due bytes, or at once all that wait, until TCP takes no more."""
        blocked = False
        while connection.outbox and not blocked:
            due, data = connection.outbox[0]
            if not at_once and due > time.monotonic():
                self.loop.after(due - time.monotonic(), lambda: self.guarded(connection, self.flush, connection))
                break
            if not connection.is_open:
                return
            try:
                count = connection.sock.send(data)
            except BlockingIOError:
                count, blocked = 0, True
            except OSError:
                self.drop(connection)
                return
            if count:
                connection.active_at = time.monotonic()
            connection.outbox_bytes -= count
            if count == len(data):
                connection.outbox.popleft()
            else:
                connection.outbox[0] = (due, data[count:])
                blocked = True
        if blocked != connection.writing and connection.is_open:
            connection.writing, connection.drained = blocked, False     # nobody has looked since
            # A player that takes no responses is not read: only the responses to one read wait.
            events = select.EPOLLOUT if blocked else 0
            if not blocked or connection.kind == "input":
                events |= select.EPOLLIN | select.EPOLLRDHUP
            self.loop.poll.modify(connection.sock, events)

    # ---- end ----

    def finish(self, connection):
        """Says FIN, goes on reading (and judging) the bytes on their way, then drops the connection."""
        if connection.ending or not connection.is_open:
            return
        self.flush(connection, at_once=True)        # pieces whose time has not come
        if not connection.is_open:
            return
        self._close_feed(connection)
        connection.ending = True
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.loop.after(LINGER_S, lambda: self.drop(connection))

    def drop(self, connection, reset=False):
        if not connection.is_open:
            return
        self._close_feed(connection)
        del self.table[connection.sock.fileno()]
        self.game.store.log("connection", ns=self.game.clock.now_ns(), change="close", id=connection.number,
                             port=connection.kind, ip=connection.ip)
        self.shares[connection.ip] -= 1
        if not self.shares[connection.ip]:
            del self.shares[connection.ip]
            self.users_at.pop(connection.ip, None)
        self.loop.poll.unregister(connection.sock)
        if reset:       # SO_LINGER of 0 s: RST instead of FIN
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sock.close()

    def _close_feed(self, connection):
        if connection.live:
            connection.live = False
            self.game.record.log("feed-close", id=connection.number, position=self.game.position,
                                  ns=self.game.clock.now_ns())

    def close_players(self):
        """Ends all players' connections: the fault that players must survive."""
        if self.options.close_for_s:
            for number, listener in list(self.listeners.items()):
                if listener.kind != "pages":
                    self.loop.poll.unregister(listener.sock)
                    listener.sock.close()
                    del self.listeners[number]
            self.loop.after(self.options.close_for_s, self.open_again)
        for connection in self:
            is_new = connection.kind == "input" and self.options.start == "push" and not connection.live
            if connection.kind == "pages" or is_new:        # a new one waits for its request
                continue
            if self.options.close_how == "rst":
                self.drop(connection, reset=True)
            else:
                self.guarded(connection, self.finish, connection)

    def open_again(self):
        open_kinds = {listener.kind for listener in self.listeners.values()}
        for kind, port in self.ports.items():
            if kind not in open_kinds and (kind != "pages" or self.options.pages):
                self._listen(kind, port)

    def close(self):
        for connection in self:
            self.guarded(connection, self.flush, connection, at_once=True)
            self.drop(connection)
        for listener in self.listeners.values():
            listener.sock.close()
        self.listeners.clear()
