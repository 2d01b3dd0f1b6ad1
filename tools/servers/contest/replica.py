"""The state of a contest made again from its store: scores, and the history that the board draws.

It makes the calls of contest/scoring.py in the order of the rows, from the latest snapshot before the wanted moment.
The verdicts come out again. A verdict that differs from its row is counted in `differing`: such a store is not to be
trusted.
"""
import json

from servers.contest import store
from servers.contest.history import History
from servers.contest.oracle import Occurrence
from servers.contest.plan import Plan
from servers.contest.scoring import Contest, Submission

ROWS_AT_ONCE = 5000


class Replica:
    def __init__(self, connection):
        self.connection = connection
        self.plan = plan_of(connection)
        self.contest = Contest(self.plan.rounds[0][1], factor_at=self.factor_at)
        self.history = History()
        self.seq = 0                # the last row that is in
        self.ns = 0                 # the latest time in these rows
        self.begun_ns = 0
        self.round_number = 0
        self.over = False
        self.running = False        # a server has begun a run and not ended it
        self.ports = {}             # the run's ports
        self.connections = {}       # the open connections: id -> port
        self.position = 0           # the next digit's
        self.bursts = 0
        self.clock_origin_ns = 0    # the contest's clock less CLOCK_MONOTONIC, in the run
        self.lost = {}              # kind -> rows that a full disk kept out
        self.has_gap = False        # rows are missing: only a snapshot after them holds
        self.differing = 0
        self.left = 0               # numbers of rows that are not in, at the latest look

    @property
    def warning(self):
        """Returns the board's warning about the rows themselves."""
        if self.lost:
            return "not stored, for the disk was full: " + ", ".join(f"{n} {kind}" for kind, n in self.lost.items())
        return ""

    def factor_at(self, ns):
        return self.plan.factor_at((ns - self.begun_ns) / 1e9) if self.begun_ns else 1

    # ---- reading ----

    def load(self, until_ns=None):
        """Goes to the latest snapshot, or the latest before a time."""
        row = self.connection.execute(
            "SELECT seq, state FROM snapshot WHERE ns <= ? ORDER BY seq DESC LIMIT 1",
            (until_ns if until_ns is not None else 1 << 62,)).fetchone()
        if row:
            self.restore(row[0], store.unpack(row[1]))

    def follow(self, until_ns=None):
        """Takes the rows that are new, up to a time; returns how many. The readers' view is one transaction."""
        count = 0
        self.connection.execute("BEGIN")
        try:
            last = store.last_seq(self.connection)
            while self.seq < last:
                end = min(self.seq + ROWS_AT_ONCE, last)
                for seq, table, fields in merged(self._fetch(self.seq, end)):
                    if until_ns is not None and fields["ns"] > until_ns and table in ("burst", "submission", "event"):
                        return count
                    self.take(table, fields)
                    self.seq = seq
                    count += 1
                self.seq = end
            return count
        finally:
            self.connection.execute("COMMIT")

    def follow_some(self, rows_max):
        """Takes the first rows that are new; returns how many. The transaction ends before they are played."""
        self.connection.execute("BEGIN")
        try:
            last = store.last_seq(self.connection)
            end = min(self.seq + rows_max, last)
            fetched = self._fetch(self.seq, end)
        finally:
            self.connection.execute("COMMIT")
        for _, table, fields in merged(fetched):
            self.take(table, fields)
        self.seq, self.left = end, last - end
        return sum(map(len, fetched.values()))

    def _fetch(self, after, last):
        return {table: self.connection.execute(
            f"SELECT seq, {', '.join(store.COLUMNS[table])} FROM {table} WHERE seq > ? AND seq <= ? ORDER BY seq",
            (after, last)).fetchall() for table in store.PLAYED}

    # ---- playing ----

    def take(self, table, fields):
        ns = fields["ns"]
        if table == "submission":
            line = self.contest.submit(Submission(ns, fields["ip"], fields["user"], fields["digits"]))
            self.differing += line != fields["verdict"]
            self.history.submission(fields, line, self.contest)
        elif table == "answer":
            constants = tuple(json.loads(fields["constants"]))
            occurrence = Occurrence(fields["start"], fields["end"], constants, fields["digits"])
            self.contest.send([occurrence], ns)
        elif table == "burst":
            self.contest.expire(ns)
            self.position, self.bursts = fields["position"] + len(fields["digits"]), self.bursts + 1
            self.history.burst(fields)
        elif table == "connection":
            self._connection(fields)
        elif table == "event":
            self._event(ns, fields["kind"], json.loads(fields["fields"]))
        if table not in ("resolved", "connection"):
            self.ns = max(self.ns, ns)
            self.history.sample(self.ns, self.contest)

    def _connection(self, fields):
        if fields["change"] == "open":
            self.connections[fields["id"]] = fields["port"]
        elif fields["change"] == "close":
            self.connections.pop(fields["id"], None)

    def _event(self, ns, kind, fields):
        if kind == "run":
            self.running, self.ports, self.connections = True, fields["ports"], {}
            self.clock_origin_ns, self.over = fields["clock_origin_ns"], False
        elif kind == "begin":
            self.begun_ns = ns
            self.history.begin(ns)
        elif kind == "round":
            self.round_number = fields["number"]
            self.contest.begin_round(self.plan.rounds[self.round_number][1], ns)
            self.history.round()
        elif kind == "ping":
            self.contest.user(fields["user"]).ping_us[fields["ip"]] = fields["us"]
        elif kind == "merged":
            self.history.merged(fields)
        elif kind == "expire":
            self.contest.expire(ns)
        elif kind == "over":
            self.over = True
        elif kind == "gap":
            self.has_gap = True
            for lost_kind, count in fields["lost"].items():
                self.lost[lost_kind] = self.lost.get(lost_kind, 0) + count
        elif kind == "stop":
            self.running, self.connections = False, {}

    # ---- snapshots ----

    FIELDS = ("ns", "begun_ns", "round_number", "over", "running", "ports", "position", "bursts", "clock_origin_ns",
              "lost", "differing")

    def state(self):
        return {**{key: getattr(self, key) for key in self.FIELDS}, "connections": list(self.connections.items()),
                "contest": self.contest.state(), "history": self.history.state()}

    def restore(self, seq, state):
        assert self.seq == 0
        for key in self.FIELDS:
            setattr(self, key, state[key])
        self.connections = dict(map(tuple, state["connections"]))
        self.contest.round = self.plan.rounds[self.round_number][1]
        self.contest.restore(state["contest"])
        self.history.restore(state["history"])
        self.seq = seq


def merged(fetched):
    """Returns (seq, table, fields) of the rows of all tables, in their order."""
    return sorted(((row[0], table, dict(zip(store.COLUMNS[table], row[1:])))
                   for table, rows in fetched.items() for row in rows), key=lambda row: row[0])


def plan_of(connection):
    row = connection.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
    if row is None:
        raise store.StoreError("the store has no plan; it was not made by `contest init`")
    return Plan.from_json(json.loads(row[0]))


def latest_ns(connection):
    """Returns the time of the latest row."""
    return max(connection.execute(f"SELECT coalesce(max(ns), 0) FROM {table}").fetchone()[0]
               for table in (*store.PLAYED, "snapshot"))


def at_present(connection):
    """Returns the state after all rows."""
    replica = Replica(connection)
    replica.load()
    replica.follow()
    return replica
