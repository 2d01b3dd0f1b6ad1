"""A contest as its store has it, for a server that begins or goes on with it."""
from contest import replica, store

LOST_S_MAX = 0.1                # play lost by a kill: contest/store.py


class NoStore:
    """A contest that is nowhere stored: a plan, and a store that takes everything and keeps nothing."""

    latest_ns = begun_ns = round_number = 0
    contest = None
    next_number = 1
    error = ""
    has_gap = hold = False

    def __init__(self, plan):
        self.plan, self.store = plan, self

    def wind(self, stream):
        pass

    def tell(self, kind, **fields):
        pass

    def close(self):
        pass


class StoredContest:
    def __init__(self, path):
        connection = store.connect(path, whole=True)
        self.store = store.Store(path)          # before the state is read: nobody plays on meanwhile
        state = replica.at_present(connection)
        self.connection = connection
        self.plan, self.contest = state.plan, state.contest
        self.latest_ns, self.begun_ns, self.round_number = state.ns, state.begun_ns, state.round_number
        self.next_index = 0
        last = connection.execute("SELECT idx FROM burst ORDER BY seq DESC LIMIT 1").fetchone()
        if last:
            # After a kill, the last bursts may have been sent without a row: nobody gets the same digits again.
            low_s = max(self.plan.interval_s[0], 0.001)
            self.next_index = last[0] + 1 + (1 + int(LOST_S_MAX / low_s) if state.running else 0)
        self.differing = state.differing
        self.next_number = self.store.seq + 1

    def wind(self, stream):
        """Brings the digits' generator to where it was."""
        row = self.connection.execute("SELECT state FROM generator WHERE idx <= ? ORDER BY seq DESC LIMIT 1",
                                      (self.next_index,)).fetchone()
        if row:
            stream.restore(store.unpack(row[0]))
        while stream.index < self.next_index:
            stream.next_burst()
        self.connection.close()

    def snapshot(self, ns, game):
        """Returns a state that holds, behind a gap in the rows; the history of the gap is lost."""
        connection = store.connect(self.store.path)
        state = replica.at_present(connection)
        connection.close()
        state.contest, state.ns, state.round_number = game.contest, ns, game.round_number
        state.begun_ns, state.over = game.begun_ns, game.over
        self.store.snapshot(ns, state.state())
