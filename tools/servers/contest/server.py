"""The ports of a contest in one loop: input (digits), output (submissions), and pages where no board runs beside it.

One thread that plays, no locks. A submission's time is the kernel's receive time of the segment that completed it,
converted to the contest's clock. It is SO_TIMESTAMPNS: on TCP the time of the last segment that recvmsg took from. A
slow loop delays responses but falsifies neither latency nor order. A turn judges the submissions that arrived before
its poll, in the order of those stamps; later ones wait for the next turn.

An address has a share of each turn: a count of reads and requests here, of submissions in judge.py. An address that
sends more waits for its own next share. Its connections come in turn, the one that has waited longest first.
"""
import collections
import select
import time

from servers.contest.connections import Connections
from servers.contest.digits import Digits
from servers.contest.game import Game
from servers.contest.judge import Judge
from servers.contest.loop import Loop
from servers.contest.pages import page
from servers.contest.stamp_probe import StampProbe, kernel_stamp_ns
from servers.web import http

READ_BYTES_MAX = 2048           # from a connection in one turn
SERVED_A_TURN = 100             # reads and requests of one address: some 6 ms
COST_BYTES = 512                # a request counts once more for each
PAGE_COST = 50                  # requests; a page takes as long to make
PUSH_S = 0.1                    # --start push: the time for a request, which may be malformed
LOCKED_S = 0.001                # between two looks at a store that another program has locked


class ContestServer:
    def __init__(self, options):
        self.options = options
        self.game, self.loop, self.probe = Game(options), Loop(), StampProbe()
        self.connections = Connections(self.game, self.loop)
        self.judge = Judge(self.game, self.connections)
        self.ports = self.connections.ports
        game, plan = self.game, self.game.plan
        game.record.log("contest", n=game.round.n, constants=[str(m) for m in game.round.constants],
                         known=len(game.round.known), seed=plan.seed, rate=plan.rate, burst=plan.burst,
                         interval_s=plan.interval_s, body=options.body, start=options.start, ports=self.ports,
                         ns=game.clock.now_ns())
        game.store.log("run", ns=game.clock.now_ns(), ports=self.ports, clock_origin_ns=game.clock.origin_ns)
        self.digits = Digits(game, self.loop, self.connections, self.probe, self.judge)
        self.ready = {}             # connections that have sent something, the one that has waited longest first
        self.left = {}              # address -> what it has left of this turn
        self.poll_ns = self.last_poll_ns = 0    # when this turn's poll began, and the one before
        self.stopped = False
        self.loop.after(0, self.digits.begin_by_schedule)       # a server that never plays begins nothing

    @property
    def contest(self):
        return self.game.contest

    @property
    def over(self):
        return self.game.over

    def run(self):
        while not self.stopped:
            self.turn(0.05)
        self.close()

    def stop(self):
        self.stopped = True

    def after(self, wait_s, call):
        self.loop.after(wait_s, call)

    def close(self):
        """Ends the contest's run. Returns false if store or record lacks something."""
        self.judge.waiting.clear()
        if self.game.store.commit():
            self.judge.respond()
        self.connections.close()
        self.digits.close()
        whole = self.game.close()
        self.probe.close()
        self.loop.poll.close()
        return whole

    def turn(self, wait_s):
        """Waits for the next thing to happen, for so long at most, and handles all that has happened."""
        connections, store = self.connections, self.game.store
        self.last_poll_ns, self.poll_ns = self.poll_ns, self.game.clock.now_ns()
        if store.locked_at:
            self.loop.rest(LOCKED_S)    # ready connections that are not read would make turns without end
        for number, events in self.loop.wait(0 if self.ready or self.judge.waiting or store.waiting else wait_s):
            if listener := connections.listeners.get(number):
                connections.accept(listener, self.last_poll_ns, self._greet)
            elif connection := connections.table.get(number):
                if events & select.EPOLLOUT:
                    connections.guarded(connection, connections.flush, connection)
                self.ready[connection] = None
        self._serve_ready()
        self.judge.judge(self.poll_ns)
        self.loop.run_timers()
        if store.commit():
            self.judge.respond()
            self.game.log_gap(self.poll_ns)

    def _greet(self, connection):
        if connection.kind == "input" and self.options.start == "push":
            self.loop.after(PUSH_S, lambda: self.connections.guarded(connection, self._push, connection))

    def _push(self, connection):
        """Sends digits to who has asked for none."""
        if connection.is_open and connection.parser and not (connection.live or connection.ending):
            self.digits.go_live(connection)

    def _serve_ready(self):
        """Serves each connection that has sent something, if its address has something left of this turn."""
        counts = collections.Counter(connection.ip for connection in self.ready)
        self.left = dict.fromkeys(counts, SERVED_A_TURN)
        for connection in list(self.ready):
            if connection.writing or not connection.is_open:
                del self.ready[connection]          # `flush` takes up a connection again that takes responses again
            elif self.left[connection.ip] <= 0 or self.judge.is_full(connection):
                connection.drained = False          # the next poll may show bytes that wait now
            else:
                del self.ready[connection]
                share = max(SERVED_A_TURN // counts[connection.ip], 1)
                self.connections.guarded(connection, self._serve, connection, share)
                self.loop.run_timers()      # a burst does not wait for a flood

    def _serve(self, connection, share):
        """Takes up to `share` requests; reads if none may be left of the read before, whose stamp they have."""
        if not connection.behind:
            self.left[connection.ip] -= 1
            self._read(connection)
        connection.behind = not self._take_requests(connection, share)
        if connection.behind:
            self.ready[connection] = None
            connection.drained = False

    def _read(self, connection):
        clock, before_ns = self.game.clock, self.game.clock.now_ns()
        try:
            data, ancillary, _, _ = connection.sock.recvmsg(READ_BYTES_MAX, 256)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", ()
        if not data:
            self.judge.ended[connection] = True     # dropped when it has the answers to what it sent before
            return
        if connection.drained:      # the poll before this one would have shown what was there then
            connection.empty_ns = max(connection.empty_ns, self.last_poll_ns)
        earliest_ns = max(connection.stamp_ns, connection.empty_ns)
        stamp_ns = kernel_stamp_ns(ancillary)
        connection.stamp_ns = before_ns if stamp_ns is None else clock.arrival_ns(stamp_ns, earliest_ns, before_ns)
        connection.drained = len(data) < READ_BYTES_MAX
        connection.exact = connection.kind == "output" and connection.took_one_segment(len(data))
        if connection.parser:
            connection.parser.feed(data)

    def _take_requests(self, connection, share):
        """Takes requests that have been read. Returns false if some may be left."""
        parser = connection.parser
        if not parser:
            return True
        try:
            while connection.is_open and connection.parser and not connection.writing:
                if not share:
                    return not parser.buffer
                bytes_before = len(parser.buffer)
                request = parser.next_request()
                if not request:
                    break
                share -= 1
                bytes_taken = bytes_before - len(parser.buffer)
                self.left[connection.ip] -= PAGE_COST if connection.kind == "pages" else 1 + bytes_taken // COST_BYTES
                self._take_request(connection, request)
                if not request.keep_alive:
                    connection.parser = None        # RFC 9112 §9.6: no request after this one counts
            if parser.wants_continue and not connection.live:
                parser.wants_continue = False
                self.connections.send(connection, b"HTTP/1.1 100 Continue\r\n\r\n")
        except http.BadRequest as error:
            connection.parser = None
            if connection.live:
                self.connections.finish(connection)
            else:
                self.judge.queue_malformed(connection, error)
        return not (connection.writing and connection.parser and parser.buffer)

    def _take_request(self, connection, request):
        connection.active_at = time.monotonic()
        if connection.kind == "output":
            # A request that ended before the data did may have come in an earlier segment.
            exact = connection.exact or connection.drained and not connection.parser.buffer
            self.judge.queue(connection, request, 0 if exact else connection.stamp_ns - connection.empty_ns)
        elif connection.kind == "pages":
            begun = self.digits.begun_at is not None
            self.connections.send(connection, page(self.game, self.connections, begun, request))
            if not request.keep_alive:
                self.connections.finish(connection)
        elif connection.ending:
            connection.parser = None
        elif request.method == "GET" and request.path == "/":
            connection.parser = None        # a second request would get no digits
            if not connection.live:
                self.digits.go_live(connection)
        else:
            if not connection.live:         # a response would stand among the digits
                status, line = (404, "the path is /\n") if request.method == "GET" else (405, "GET only\n")
                self.connections.send(connection, http.response(status, line, keep_alive=False, method=request.method))
            self.connections.finish(connection)
