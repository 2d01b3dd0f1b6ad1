"""Submissions between their arrival and the response: judged in the order in which they reached the machine.

TCP merges what one connection sends in quick succession, if the server has not read the first yet. The kernel then
gives the stamp of the latest for all. Such a submission counts as arrived with the latest: later than it did, never
earlier. The bound of this error is the time since the connection had nothing to read. Submissions that came in one
segment are not merged: the kernel counts segments.
"""
import bisect
import socket
import struct

from contest import http
from contest.plan import USER
from contest.scoring import Submission

TCP_INFO_MIN_RTT = 148          # offset of tcpi_min_rtt (us) in struct tcp_info, linux/tcp.h
USERS_MAX = 1000                # names, where anybody may come
JUDGED_A_TURN = 50              # submissions, those that came first; meanwhile nobody's next ones are read


class Judge:
    def __init__(self, game, connections):
        self.game, self.connections = game, connections
        self.waiting = []               # (stamp, connection, request or BadRequest, bound of the stamp's error)
        self.ended = {}                 # connections whose other side has ended, for the turn's end
        self.busy_ns = 0                # the longest that a submission waited for us since the burst before
        self.merged = self.merged_late_ns = 0   # merged submissions since the burst before, bound of their error
        self.scored = self.scored_late_ns = 0   # the same of those that had points or were early

    def queue(self, connection, request, late_ns=0):
        connection.pending += 1
        self.waiting.append((connection.stamp_ns, connection, request, late_ns))

    def judge(self, until_ns):
        """Judges the submissions that arrived before, in their order. Each connection has been read since then."""
        self.waiting.sort(key=lambda entry: entry[0])
        count = bisect.bisect_right(self.waiting, until_ns, key=lambda entry: entry[0])
        batch = self.waiting[:min(count, JUDGED_A_TURN)]
        del self.waiting[:len(batch)]
        for stamp_ns, connection, request, late_ns in batch:
            connection.pending -= 1
            self.connections.guarded(connection, self._answer, stamp_ns, connection, request, late_ns)
        if batch:
            self.busy_ns = max(self.busy_ns, self.game.clock.now_ns() - batch[0][0])
        for connection in list(self.ended):
            if not connection.pending:
                del self.ended[connection]
                self.connections.drop(connection)

    def take_busy_ns(self):
        busy_ns, self.busy_ns = self.busy_ns, 0
        return busy_ns

    def tell_merged(self, ns):
        """Stores how many submissions were merged with later ones, and by how much their stamps may be late."""
        if self.merged:
            self.game.store.tell("merged", ns=ns, count=self.merged, late_ns=self.merged_late_ns,
                                 scored=self.scored, scored_late_ns=self.scored_late_ns)
            self.merged = self.merged_late_ns = self.scored = self.scored_late_ns = 0

    # ---- one submission ----

    def _answer(self, stamp_ns, connection, request, late_ns):
        if isinstance(request, http.BadRequest):
            self.game.tell("invalid", ns=stamp_ns, ip=connection.ip, reason=str(request))
            self.connections.send(connection, http.response(request.status, f"{request}\n", keep_alive=False))
            self.connections.finish(connection)
            return
        status, line = self._submission(stamp_ns, connection, request)
        if late_ns and status == 200:
            self._note_merged(line, late_ns)
        self.connections.send(connection, http.response(status, line + "\n", keep_alive=request.keep_alive))
        if not request.keep_alive:
            self.connections.finish(connection)

    def _note_merged(self, line, late_ns):
        self.merged += 1
        self.merged_late_ns = max(self.merged_late_ns, late_ns)
        if line.startswith("+") or line == "early":
            self.scored += 1
            self.scored_late_ns = max(self.scored_late_ns, late_ns)

    def _submission(self, stamp_ns, connection, request):
        game, name = self.game, request.query.get("user", "")
        users = game.plan.users
        if request.path != "/submit":
            return 404, "the path is /submit"
        if request.method != "POST":
            return 405, "the method is POST"
        if not USER.fullmatch(name):
            return 400, f"user={ascii(name[:40])}: a name has 1 to 32 letters, digits and _.-"
        if users is not None and not users.admits(name, request.query.get("passwd")):
            return 401, "unknown user or wrong password"
        if users is None and name not in game.contest.users and len(game.contest.users) >= USERS_MAX:
            return 403, "there are too many users"
        user = game.contest.user(name)
        if connection.is_open:          # a response before may have ended it
            self.connections.saw_user(connection.ip, name)
            if user.submits % 64 == 0:
                user.ping_us[connection.ip] = self._ping_us(connection)
                game.store.tell("ping", ns=stamp_ns, user=name, ip=connection.ip, us=user.ping_us[connection.ip])
        digits = request.body.decode("latin-1")
        return 200, game.contest.submit(Submission(stamp_ns, connection.ip, name, digits))

    @staticmethod
    def _ping_us(connection):
        info = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return struct.unpack_from("I", info, TCP_INFO_MIN_RTT)[0]
