"""The state of the contest that all parts of the server share. Knows no sockets."""
from servers.contest.clock import Clock
from servers.contest.options import plan_of
from servers.contest.record import Record
from servers.contest.scoring import Contest
from servers.contest.stored_contest import NoStore, StoredContest


class Game:
    def __init__(self, options):
        self.options = options
        self.stored = StoredContest(options.store) if options.store else NoStore(plan_of(options))
        self.plan, self.store = self.stored.plan, self.stored.store
        self.clock = Clock(not_before_ns=self.stored.latest_ns)
        self.record = Record(options.record)
        self.begun_ns = self.stored.begun_ns    # by the contest's clock; 0: not yet
        self.round_number = self.stored.round_number
        self.contest = self.stored.contest or Contest(self.round)
        self.contest.log, self.contest.factor_at = self.log, self._factor_at
        self.over = False               # the last burst has been sent
        self.position = 0               # the first digit of the next burst
        self.faults = 0                 # defects of ours that each ended one connection

    @property
    def round(self):
        return self.plan.rounds[self.round_number][1]

    def log(self, kind, **fields):
        """Writes to the record and to the store."""
        self.record.log(kind, **fields)
        self.store.log(kind, **fields)

    def _factor_at(self, ns):
        return self.plan.factor_at((ns - self.begun_ns) / 1e9) if self.begun_ns else 1

    def is_past_end(self):
        if not (self.plan.ends_s and self.begun_ns):
            return False
        return (self.clock.now_ns() - self.begun_ns) / 1e9 >= self.plan.ends_s

    def log_gap(self, ns):
        """Writes the lost rows' counts and a snapshot, once the store can be written again."""
        if self.store.has_gap:
            lost, self.store.lost = dict(self.store.lost), type(self.store.lost)()
            self.store.log("gap", ns=ns, lost=lost)
            self.stored.snapshot(ns, self)

    def close(self):
        """Ends record and store. Returns false if one of them lacks something."""
        for name in self.contest.users:
            self.record.log("summary", **self.contest.summary(name))
        self.record.close()
        self.store.commit()
        self.log_gap(self.clock.now_ns())
        self.store.log("stop", ns=self.clock.now_ns())
        return self.store.close() and not self.record.error
