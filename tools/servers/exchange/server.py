"""The sockets of the exchange: two lines of market data, the requests for lost messages, snapshot, and orders.

One thread, one event loop. A turn does the steps of the day that are due, notes them in the journal, and sends what
follows. A request of a client is taken at once, after the steps that are due.
"""
import asyncio
import collections
import ipaddress
import logging
import random
import socket
import struct
import time

from servers.exchange import moldudp64, soupbintcp

LOG = logging.getLogger("exchange")
STEPS_A_TURN = 200          # then clients are heard
POLL_S = 0.25               # between two looks at heartbeats and silent clients
END_S = 3                   # end-of-session packets are sent for so long
CLIENTS_MAX = 100           # connections of a port
READ_BYTES = 512            # a client's in one turn of the loop: some 3 ms
STRANGER_BYTES = 64         # before the login, which has 49
UNSENT_MAX = 16 << 20       # bytes that wait for one client; one that takes none is dropped
LATENCIES_KEPT = 10_000
LOG_S, LOG_LINES = 10, 10   # lines of one kind that are logged in so long
UNPROVED_FACTOR = 3         # an answer's bytes by the request's, without a login


class Sparse(logging.Filter):
    """Passes LOG_LINES lines of a kind in LOG_S, and counts the others: whoever causes lines fills no disk."""

    def __init__(self):
        super().__init__()
        self.kinds = {}             # format -> [monotonic s of the first line, lines since]

    def filter(self, record):
        now_s = time.monotonic()
        first_s, lines = self.kinds.get(record.msg, (now_s, 0))
        format_ = record.msg
        if now_s - first_s >= LOG_S:
            if lines > LOG_LINES:
                record.msg += f" ({lines - LOG_LINES} lines like this one were left out)"
            first_s, lines = now_s, 0
        self.kinds[format_] = first_s, lines + 1
        return lines < LOG_LINES


class SoupProtocol(asyncio.BufferedProtocol):
    def __init__(self, server, name, log_in):
        self.server, self.name, self.log_in = server, name, log_in
        self.connection, self.buffer = None, memoryview(bytearray(READ_BYTES))

    def connection_made(self, transport):
        server = self.server
        self.ip, port = transport.get_extra_info("peername")[:2]
        peer = f"{self.ip}:{port}"
        if not server.make_room(self.name):
            LOG.warning("%s: %s is refused: %d clients have logged in", self.name, peer, CLIENTS_MAX)
            transport.abort()
            return
        self.transport = transport
        self.connection = soupbintcp.ServerConnection(f"{self.name} {peer}", server.exchange.feed.session.decode(),
                                                      lambda user, password: self.log_in(self, user, password),
                                                      self.send, transport.close, time.monotonic())
        server.clients.add(self)

    def send(self, data):
        if self.transport.get_write_buffer_size() > UNSENT_MAX:
            self.connection.end("it does not take what is sent")
            self.transport.abort()
        else:
            self.transport.write(data)

    def reset(self):
        """Ends the connection by RST: a linger of 0 s."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.end("it is reset, as asked", logging.INFO)

    def get_buffer(self, _):
        return self.buffer[:READ_BYTES if self.connection.stream else STRANGER_BYTES]

    def buffer_updated(self, count):
        self.connection.feed(self.buffer[:count], time.monotonic())

    def connection_lost(self, error):
        if self.connection:
            self.server.clients.discard(self)
            if self.connection.is_open:
                self.connection.end(f"the client closed it{f': {error}' if error else ''}", logging.INFO)


class OrderStream:
    """An account's stream on one connection, with the server's part of taking a request."""

    def __init__(self, server, account):
        self.server, self.account = server, account

    @property
    def answers(self):
        return self.account.answers

    def take(self, message):
        self.server.take(self.account, message)


class RequestProtocol(asyncio.DatagramProtocol):
    def __init__(self, server):
        self.server = server

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.server.answer_request(self.transport, data, address)


class Server:
    """`latencies_us`: from the newest message about a stock, when it was sent, to an order for this stock."""

    def __init__(self, exchange, journal, options):
        self.exchange, self.journal, self.options = exchange, journal, options
        self.clients = set()
        self.sent_at = {}               # book -> monotonic ns of the newest packet about it
        self.latencies_us = collections.defaultdict(lambda: collections.deque(maxlen=LATENCIES_KEPT))
        self.counts = collections.Counter()
        self.listeners, self.ports = [], {}
        self.packet_at = 0              # monotonic s of the newest packet
        self.behind_ns = 0              # the lateness of the steps that come next
        self.ended, self.fault = asyncio.Event(), None
        self.origin_ns = time.monotonic_ns() - exchange.engine.ns
        self.resets = random.Random(f"resets {options.seed}")
        self.lines = [self._make_line(name) for name in ("a", "b")]

    def now_ns(self):
        """Returns the exchange's time, in nanoseconds since midnight. It stands still while the exchange is down."""
        return time.monotonic_ns() - self.origin_ns

    # ---- market data ----

    def _make_line(self, name):
        options = self.options
        address = getattr(options, f"line_{name}")
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        if options.interface:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(options.interface))
        self.listeners.append(sock)

        def send(packet):
            try:
                sock.sendto(packet, address)
            except OSError:
                self.counts[f"unsent {name}"] += 1      # the system's queue is full, or there is no way to it

        chances = (getattr(options, f"{chance}_{name}") for chance in ("loss", "repeat", "reorder"))
        return moldudp64.Line(send, f"{options.seed} {name}", *chances)

    def turn(self):
        """Does the steps that are due, and comes again when one is."""
        if self.exchange.is_over:
            return
        now_ns = self.now_ns()
        try:
            more = self.exchange.advance(now_ns, STEPS_A_TURN)
            self.flush()
        except Exception as error:          # a damaged file of orders, a full disk, or a defect
            self.fail(error)
            return
        self.behind_ns = now_ns - self.exchange.engine.ns if more else 0
        loop = asyncio.get_running_loop()
        if more:
            loop.call_soon(self.turn)
        else:
            loop.call_later(min(max(self.exchange.day.next_ns - self.now_ns(), 0) / 1e9, POLL_S), self.turn)

    def fail(self, error):
        """Ends the exchange. Its clients hear nothing that the journal does not have."""
        self.fault = self.fault or error
        self.ended.set()

    def flush(self):
        """Sends all that the state has and clients do not, after the journal has it."""
        self.journal.note_steps(self.exchange.day.steps)
        for packet in self.exchange.feed.new_packets():
            self._send_packet(packet)
        sent_ns = time.monotonic_ns()
        for book in self.exchange.changed:
            self.sent_at[book] = sent_ns
        self.exchange.changed.clear()
        now_s = time.monotonic()
        for client in list(self.clients):
            if client.connection.is_open and client.connection.stream:
                client.connection.send_answers(now_s)

    def _send_packet(self, packet):
        self.packet_at = time.monotonic()
        for line in self.lines:
            line.put(packet)

    def is_proved(self, ip):
        """Returns true if a client has this address, by its login, or by this machine: nobody else can forge it."""
        return ipaddress.ip_address(ip).is_loopback or any(
            client.ip == ip and client.connection.stream for client in self.clients)

    def answer_request(self, transport, data, address):
        bytes_max = moldudp64.PAYLOAD_MAX if self.is_proved(address[0]) else UNPROVED_FACTOR * len(data)
        packet, reason = self.exchange.feed.answer(data, bytes_max)
        self.counts["requests"] += 1
        if packet is None:
            self.counts["requests refused"] += 1
            LOG.warning("rerequest %s:%d: %s has no answer", *address, reason)
        elif self.lines[0].random.random() < self.options.loss_requests:
            self.counts["requests lost"] += 1
        else:
            transport.sendto(packet, address)

    # ---- clients ----

    def make_room(self, name):
        """Returns true if a port has a place. Who has not logged in gives way, the oldest of the address with the
        most such connections."""
        clients = [client for client in self.clients if client.name == name]
        if len(clients) < CLIENTS_MAX:
            return True
        strangers = [client for client in clients if not client.connection.stream]
        counts = collections.Counter(client.ip for client in strangers)
        if strangers:
            oldest = max(strangers, key=lambda client: (counts[client.ip], -client.connection.begun_s))
            oldest.connection.end("it has not logged in, and gives way to another one")
            self.clients.discard(oldest)
        return bool(strangers)

    def log_in(self, protocol, user, password):
        """Lets an account in. A connection that it had before ends: its other end may have died."""
        account = self.exchange.log_in(user, password)
        for client in list(self.clients):
            stream = client.connection.stream
            if client is not protocol and isinstance(stream, OrderStream) and stream.account is account:
                client.connection.end("its account logs in again")
        return OrderStream(self, account)

    def connected_users(self):
        """Returns the users who are logged in to the orders' port."""
        streams = (client.connection.stream for client in self.clients)
        return {stream.account.user for stream in streams if isinstance(stream, OrderStream)}

    def take(self, account, message):
        """Takes one request, after the steps that are due."""
        arrived_ns = time.monotonic_ns()
        exchange = self.exchange
        if exchange.is_over or self.fault:
            return
        now_ns = self.now_ns()
        while exchange.advance(now_ns, STEPS_A_TURN):
            pass
        highest = account.highest
        try:
            self.journal.note_request(exchange.day.steps, now_ns, account.user, message)
        except OSError as error:
            self.fail(error)
            return
        exchange.take(account, message, now_ns)
        entry = account.entries.get(account.highest)
        if account.highest != highest and entry and (sent_ns := self.sent_at.get(entry.order.book)):
            self.latencies_us[account.user].append((arrived_ns - sent_ns) / 1000)
        try:
            self.flush()
        except OSError as error:
            self.fail(error)

    def poll(self):
        """Sends heartbeats, and ends silent connections."""
        now_s = time.monotonic()
        is_reset = self.options.reset and self.resets.random() < POLL_S / self.options.reset
        for client in list(self.clients):
            if is_reset:
                client.reset()
            client.connection.poll(now_s)
            if not client.connection.is_open:
                client.transport.abort()        # a client that takes nothing would keep its place
        for line in self.lines:
            line.flush()
        if now_s - self.packet_at >= moldudp64.HEARTBEAT_S:
            self._send_packet(self.exchange.feed.end_of_session() if self.exchange.is_over
                              else self.exchange.feed.heartbeat())
        asyncio.get_running_loop().call_later(POLL_S, self.poll)

    # ---- begin and end ----

    async def listen(self):
        """Opens the ports. Raises OSError that names the address."""
        loop, exchange = asyncio.get_running_loop(), self.exchange
        for name, log_in in (("snapshot", lambda _, user, password: exchange.snapshot(user, password)),
                             ("orders", self.log_in)):
            ip, port = getattr(self.options, name)
            try:
                listener = await loop.create_server(
                    lambda name=name, log_in=log_in: SoupProtocol(self, name, log_in), ip, port)
            except OSError as error:
                raise OSError(error.errno, f"--{name} {ip}:{port}: {error.strerror}") from error
            self.listeners.append(listener)
            self.ports[name] = listener.sockets[0].getsockname()
        ip, port = self.options.rerequest
        try:
            transport, _ = await loop.create_datagram_endpoint(lambda: RequestProtocol(self), local_addr=(ip, port))
        except OSError as error:
            raise OSError(error.errno, f"--rerequest {ip}:{port}: {error.strerror}") from error
        self.listeners.append(transport)
        self.ports["rerequest"] = transport.get_extra_info("sockname")

    async def run(self):
        """Plays until the end of `--duration`, or until `ended` is set; then ends the session in order."""
        self.turn()
        self.poll()
        try:
            await asyncio.wait_for(self.ended.wait(), self.options.duration or None)
        except asyncio.TimeoutError:
            pass
        if self.fault:
            raise self.fault
        now_ns = self.now_ns()
        self.exchange.advance(now_ns, STEPS_A_TURN)
        self.flush()
        self.journal.note_end(self.exchange.day.steps, now_ns)
        self.exchange.end(now_ns)
        self.flush()
        self.packet_at = 0              # the end of the session goes out at once
        self.ended.clear()
        try:
            await asyncio.wait_for(self.ended.wait(), END_S)        # a second signal cuts it short
        except asyncio.TimeoutError:
            pass
        for client in list(self.clients):
            client.connection.end_session()

    def close(self):
        for listener in self.listeners:
            listener.close()
        self.journal.close()
