"""Submissions between their arrival and the response: judged in the order in which they reached the machine.

TCP merges what one connection sends in quick succession, if the server has not read the first yet. The kernel then
gives the stamp of the latest for all. Such a submission counts as arrived with the latest: later than it did, never
earlier. The bound of this error is the time since the connection had nothing to read. Submissions that came in one
segment are not merged: the kernel counts segments.

A submission waits as its name and its first N + 1 digits: one digit more than N decides like any longer text. The
responses of a turn wait until its rows are stored, and no further submission is judged meanwhile.

If more wait than a turn judges, each address in turn gives its oldest one. The stamps order those that were taken.
A request that is no submission is refused at once, or after the submissions of its connection.
"""
import collections
import dataclasses
import socket
import struct

from servers.contest.addresses import Addresses
from servers.contest.plan import USER
from servers.contest.scoring import Submission
from servers.web import http

TCP_INFO_MIN_RTT = 148          # offset of tcpi_min_rtt (us) in struct tcp_info, linux/tcp.h
USERS_MAX = 1000                # names, where anybody may come
PENDING_MAX = 16                # submissions of a connection that wait; then it is not read
JUDGED_A_TURN = 50              # submissions


@dataclasses.dataclass
class Waiting:
    stamp_ns: int
    connection: object
    keep_alive: bool
    method: str
    late_ns: int            # the bound of the stamp's error
    name: str = ""
    digits: str = ""
    refusal: tuple = None   # (status, reason): no submission
    is_malformed: bool = False
    rank: int = 0           # the count of those of its address that came before


class Judge:
    def __init__(self, game, connections):
        self.game, self.connections = game, connections
        self.addresses = Addresses(game.contest)
        self.digits_max = 1 + max(r.n for _, r in game.plan.rounds)
        self.waiting = []               # in no order
        self.waiting_of = collections.Counter()     # address -> its requests that wait
        self.answered = []              # (Waiting, response): judged in this turn, not yet stored
        self.ended = {}                 # connections whose other side has ended, for the turn's end
        self.busy_ns = 0                # the longest that a submission waited for us since the burst before
        self.merged = self.merged_late_ns = 0   # merged submissions since the burst before, bound of their error
        self.scored = self.scored_late_ns = 0   # merged ones that had points or were early

    def queue(self, connection, request, late_ns=0):
        entry = Waiting(connection.stamp_ns, connection, request.keep_alive, request.method, late_ns)
        entry.refusal = self._refusal(connection, request)
        if not entry.refusal:
            entry.name = request.query["user"]
            entry.digits = request.body[:self.digits_max].decode("latin-1")
        self._queue(entry)

    def queue_malformed(self, connection, error):
        self._queue(Waiting(connection.stamp_ns, connection, False, error.method, 0,
                            refusal=(error.status, str(error)), is_malformed=True))

    def is_full(self, connection):
        """Returns true if this connection, or its address, has too many requests that wait to be read further."""
        return (connection.pending > PENDING_MAX or
                self.waiting_of[connection.ip] >= self.game.options.share)      # one of each connection finds room

    def judge(self, until_ns):
        """Judges submissions that arrived before, in their order. An address below its share has been read since."""
        if self.answered:
            return
        self.waiting.sort(key=lambda entry: entry.stamp_ns)
        arrived, ranks = [entry for entry in self.waiting if entry.stamp_ns <= until_ns], collections.Counter()
        for entry in arrived:
            entry.rank = ranks[entry.connection.ip]
            ranks[entry.connection.ip] += 1
        batch = sorted(arrived, key=lambda entry: entry.rank)[:JUDGED_A_TURN]
        batch.sort(key=lambda entry: entry.stamp_ns)
        taken = set(map(id, batch))
        self.waiting = [entry for entry in self.waiting if id(entry) not in taken]
        self.waiting_of -= collections.Counter(entry.connection.ip for entry in batch)     # keeps no zeros
        for entry in batch:
            self.connections.guarded(entry.connection, self._judge, entry)

    def respond(self):
        """Sends the responses of the turn, whose rows are stored."""
        answered, self.answered = self.answered, []
        for entry, response in answered:
            entry.connection.pending -= 1
            self.connections.guarded(entry.connection, self._send, entry, response)
        if answered:
            self.busy_ns = max(self.busy_ns, self.game.clock.now_ns() - answered[0][0].stamp_ns)
        for connection in list(self.ended):
            if not (connection.pending and connection.is_open):
                del self.ended[connection]
                self.connections.drop(connection)

    def take_busy_ns(self):
        busy_ns, self.busy_ns = self.busy_ns, 0
        return busy_ns

    def log_merged(self, ns):
        """Stores how many submissions were merged with later ones, and by how much their stamps may be late."""
        if self.merged:
            self.game.store.log("merged", ns=ns, count=self.merged, late_ns=self.merged_late_ns,
                                 scored=self.scored, scored_late_ns=self.scored_late_ns)
            self.merged = self.merged_late_ns = self.scored = self.scored_late_ns = 0

    # ---- one submission ----

    def _refusal(self, connection, request):
        """Returns status and reason of a request that is no submission, or None."""
        users, name = self.game.plan.users, request.query.get("user", "")
        if request.path != "/submit":
            return 404, "the path is /submit"
        if request.method != "POST":
            return 405, "the method is POST"
        if not USER.fullmatch(name):
            return 400, f"user={ascii(name[:40])}: a name has 1 to 32 letters, digits and _.-"
        if users is not None:
            if name != connection.user and not self.addresses.may_guess(connection, name):
                return 429, "too many wrong passwords came from this address; a connection has one more each second"
            if not users.admits(name, request.query.get("passwd")):
                connection.user = None
                self.addresses.note_wrong(connection, name)
                return 401, "unknown user or wrong password"
            connection.user = name
        return None

    def _queue(self, entry):
        """Answers a refusal at once if none of its connection waits; all else waits to be judged."""
        if entry.refusal and not entry.connection.pending:
            self._send(entry, self._answer(entry))
            return
        entry.connection.pending += 1
        self.waiting_of[entry.connection.ip] += 1
        self.waiting.append(entry)

    def _judge(self, entry):
        self.answered.append((entry, self._answer(entry)))

    def _answer(self, entry):
        """Returns the response."""
        if entry.is_malformed:
            self.game.log("invalid", ns=entry.stamp_ns, ip=entry.connection.ip, reason=entry.refusal[1])
        status, line = entry.refusal or self._submit(entry)
        if entry.late_ns and status == 200:
            self._note_merged(line, entry.late_ns)
        return http.response(status, line + "\n", keep_alive=entry.keep_alive, method=entry.method,
                             more="Retry-After: 1\r\n" if status == 429 else "")

    def _send(self, entry, response):
        self.connections.send(entry.connection, response)
        if not entry.keep_alive:
            self.connections.finish(entry.connection)

    def _note_merged(self, line, late_ns):
        self.merged += 1
        self.merged_late_ns = max(self.merged_late_ns, late_ns)
        if line.startswith("+") or line == "early":
            self.scored += 1
            self.scored_late_ns = max(self.scored_late_ns, late_ns)

    def _submit(self, entry):
        game, name, connection = self.game, entry.name, entry.connection
        if game.plan.users is None and name not in game.contest.users:
            if len(game.contest.users) >= USERS_MAX:
                return 403, "there are too many users"
            if not self.addresses.may_begin_name(connection.ip):
                return 403, "this address has too many names"
        user = game.contest.user(name)
        if connection.is_open:          # a response before may have ended it
            self.connections.saw_user(connection.ip, name)
            if user.submits % 64 == 0:
                user.ping_us[connection.ip] = self._ping_us(connection)
                game.store.log("ping", ns=entry.stamp_ns, user=name, ip=connection.ip,
                                us=user.ping_us[connection.ip])
        return 200, game.contest.submit(Submission(entry.stamp_ns, connection.ip, name, entry.digits))

    @staticmethod
    def _ping_us(connection):
        info = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return struct.unpack_from("I", info, TCP_INFO_MIN_RTT)[0]
