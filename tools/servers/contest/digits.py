"""The digits of a contest: when each burst goes out, and to whom first.

A burst's time is read right before its first byte is given to TCP. It goes to all readers in one pass, in the order of
connections.py, which begins with another reader each time.
"""
import dataclasses
import gc
import resource
import time

from servers.contest import store
from servers.contest.oracle import Oracle
from servers.contest.scoring import WINDOW_NS
from servers.contest.stream import RecordedStream, Stream

WARM_S = 0.0006                 # so long before a burst its readers' sockets are touched: tests/contest/test_load.py
FEED_HEAD = b"HTTP/1.1 200 OK\r\nServer: Most\r\nContent-type: text/plain\r\n"


class Digits:
    def __init__(self, game, loop, connections, probe, judge):
        self.game, self.options, self.loop, self.connections = game, game.options, loop, connections
        self.probe, self.judge = probe, judge
        self.stream = RecordedStream(self.options.digits) if self.options.digits else self.make_stream()
        game.stored.wind(self.stream)
        self._make_oracle()
        self.left = None                # the generator's state before the prepared burst; None: that has been sent
        self.begun_at = None            # monotonic seconds of the first burst
        self.due = None                 # the next burst's time, monotonic seconds
        self._prepare()

    def make_stream(self):
        plan, number = self.game.plan, self.game.round_number
        return Stream(self.game.round, plan.seed_of(number) + self.game.stored.fresh, plan.rate, plan.burst,
                      plan.interval_s)

    def _make_oracle(self):
        self.oracle, self.oracle_base = Oracle(self.game.round.n, self.game.round.constants), self.stream.position

    # ---- begin and end ----

    def begin_by_schedule(self):
        """Begins: a contest that had begun goes on at once. Another begins at its time, or as the options say."""
        game = self.game
        if game.over or game.is_past_end():
            self._end()
        elif game.begun_ns or self.options.begin == "now" and not game.plan.starts_ns:
            self._begin()
        elif game.plan.starts_ns:
            self.loop.after(max(game.plan.starts_ns - game.clock.now_ns(), 0) / 1e9, self._begin)

    def _begin(self):
        if self.begun_at is not None:
            return
        game, now_ns = self.game, self.game.clock.now_ns()
        if not game.begun_ns:
            game.begun_ns = game.plan.starts_ns or now_ns
            game.store.log("begin", ns=game.begun_ns)
        self.begun_at = time.monotonic() - (now_ns - game.begun_ns) / 1e9
        self._schedule()

    def go_live(self, connection):
        """Makes a connection a reader of the digits."""
        game = self.game
        head = FEED_HEAD + (b"Transfer-Encoding: chunked\r\n" if self.options.body == "chunked" else b"") + b"\r\n"
        self.connections.send(connection, head, split=self.options.split)
        connection.live = True
        game.store.log("connection", ns=game.clock.now_ns(), change="live", id=connection.number,
                        port=connection.kind, ip=connection.ip, position=game.position)
        game.record.log("feed-open", id=connection.number, ip=connection.ip, position=game.position,
                         ns=game.clock.now_ns())
        if not game.plan.starts_ns and not game.over:
            self._begin()

    def _end(self):
        self.game.over = True
        self.game.store.log("over", ns=self.game.clock.now_ns())
        self._expire()

    def _expire(self):
        """Expires early submissions after the last burst, when no burst does so any more."""
        if self.game.contest.early:
            ns = self.game.clock.now_ns()
            self.game.contest.expire(ns)
            self.game.store.log("expire", ns=ns)
        self.loop.after(0.5, self._expire)

    def _was_last(self, burst):
        limit_s, limit = self.options.duration_s, self.options.bursts
        if self.game.is_past_end() or self.options.digits and burst.index + 1 >= len(self.stream.bursts):
            return True
        return limit_s and time.monotonic() - self.begun_at >= limit_s or limit and burst.index + 1 >= limit

    def close(self):
        """Stores the generator's state, from which a restart goes on."""
        state = self.left or self.stream.state()
        self.game.store.log("generator", idx=state["index"], state=store.pack(state))

    # ---- before a burst ----

    def _prepare(self):
        """Makes the next burst, long before it is due."""
        self.left = self.stream.state()
        self.burst = self.stream.next_burst()
        self.occurrences = None
        data = self.burst.digits.encode()
        self.payload = b"%x\r\n%s\r\n" % (len(data), data) if self.options.body == "chunked" else data

    def _solve(self):
        """Finds the next burst's answers in the middle of the pause.

        The search takes a millisecond or two. A player's QEMU would wait for it on a machine with two processors."""
        if self.occurrences is None:
            base = self.oracle_base
            self.occurrences = [dataclasses.replace(o, start=o.start + base, end=o.end + base)
                                for o in self.oracle.push(self.burst.digits)]

    def _schedule(self):
        """Schedules the next burst. The pauses count from due time to due time: lateness does not add up."""
        now = time.monotonic()
        self.due = max((self.due or now) + self.burst.pause_s, now)
        self.loop.after((self.due - now) / 2, self._solve)
        self.loop.after(self.due - now - WARM_S, self._warm)
        self.loop.after(self.due - now, self._send_burst)

    def _warm(self):
        """Brings the way through TCP back into the processor's caches, from where a pause has driven it out."""
        self.probe.warm()

    # ---- a burst ----

    def _send_burst(self):
        self._solve()
        game, burst = self.game, self.burst
        ns, spread_ns, preempted, count = self._send_to_all(burst)
        self.left, game.position = None, burst.position + len(burst.digits)
        game.record.log("burst", index=burst.index, position=burst.position, digits=burst.digits, ns=ns)
        game.store.log("burst", idx=burst.index, position=burst.position, digits=burst.digits, ns=ns,
                        due_ns=round(self.due * 1e9) + game.clock.origin_ns, spread_ns=spread_ns, players=count,
                        stamp_error_ns=self.probe.error_ns(game.clock), busy_ns=self.judge.take_busy_ns(),
                        preempted=preempted)
        self.judge.log_merged(ns)
        game.contest.send(self.occurrences, ns)
        game.record.flush()
        gc.collect(2 if burst.index % 1000 == 0 else 1)
        if self._was_last(burst):
            self._end()
            return
        if self.options.close_after and (burst.index + 1) % self.options.close_after == 0:
            self._prepare()
            wait_s = self.options.close_wait_s or self.burst.pause_s / 2
            self.due = time.monotonic() + wait_s        # however late we are: the next burst comes a pause later
            self.loop.after(wait_s, self.connections.close_players)
            self._schedule()
        elif game.plan.round_at((ns - game.begun_ns) / 1e9) != game.round_number:
            self.loop.after(WINDOW_NS / 1e9, self._next_round)      # for so long the last answers count
        else:
            self._prepare()
            self._schedule()

    def _send_to_all(self, burst):
        """Gives a burst to all readers at once.

        Returns the time before the first, the nanoseconds until after the last player, how often the system took the
        processor away in between, and the count of the players' readers."""
        first, further = self.connections.burst_order(burst.index)
        payload, size, rest, split = self.payload, len(self.payload), [], self.options.split
        waiting = [c for c in first + further if split or c.outbox]
        ready = [(c, c.sock.send) for c in first if not (split or c.outbox)]
        ready_further = [(c, c.sock.send) for c in further if not (split or c.outbox)]

        def give(readers):
            for connection, send in readers:
                try:
                    count = send(payload)
                except OSError:
                    count = 0           # no room, or a reader that is gone: the slow way decides
                if count < size:
                    rest.append((connection, payload[count:]))

        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        ns = self.game.clock.now_ns()
        give(ready)
        spread_ns = self.game.clock.now_ns() - ns
        preempted = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - switches
        give(ready_further)
        now = time.monotonic()
        for connection, _ in ready + ready_further:
            connection.active_at = now
        for connection, data in rest:
            self.connections.guarded(connection, self.connections.send, connection, data)
        for connection in waiting:
            self.connections.guarded(connection, self.connections.send, connection, payload, split=split)
        return ns, spread_ns, preempted, len(first)

    def _next_round(self):
        """Changes the moduli; the digits go on with those of the next round."""
        game, ns = self.game, self.game.clock.now_ns()
        game.round_number = game.plan.round_at((ns - game.begun_ns) / 1e9)
        index, position = self.stream.index, self.stream.position
        game.store.log("round", ns=ns, number=game.round_number)
        game.contest.begin_round(game.round, ns)
        self.stream = self.make_stream()
        self.stream.index, self.stream.position = index, position
        self._make_oracle()
        self.due = None
        self._prepare()
        self._schedule()
