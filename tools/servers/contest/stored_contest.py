"""A contest as its store has it, for a server that begins or goes on with it."""
import time

from servers.contest import replica, store


class NoStore:
    """A contest that is nowhere stored: a plan, and a store that takes everything and keeps nothing."""

    latest_ns = begun_ns = round_number = 0
    contest = None
    next_number = 1
    error = ""
    fresh = ""
    waiting = ()
    locked_at = 0.0
    has_gap = False

    def __init__(self, plan):
        self.plan, self.store = plan, self

    def wind(self, stream):
        pass

    def log(self, kind, **fields):
        pass

    def commit(self):
        return True

    def close(self):
        return True


class StoredContest:
    def __init__(self, path):
        connection = store.connect(path, whole=True)
        self.store = store.Store(path)          # before the state is read: nobody plays on meanwhile
        state = replica.at_present(connection)
        self.connection = connection
        self.plan, self.contest = state.plan, state.contest
        self.latest_ns, self.begun_ns, self.round_number = state.ns, state.begun_ns, state.round_number
        last = connection.execute("SELECT idx FROM burst ORDER BY seq DESC LIMIT 1").fetchone()
        self.next_index = last[0] + 1 if last else 0
        # After a kill, or an end that could not be written, digits may have been sent of which the store knows nothing.
        # The generator then begins again from a seed that was never used: nobody gets the same digits twice.
        self.fresh = f" from {max(time.time_ns(), state.ns)}" if state.running else ""
        self.position = state.position
        self.differing = state.differing
        self.next_number = self.store.seq + 1

    def wind(self, stream):
        """Brings the digits' generator to where the last run left it."""
        row = self.connection.execute("SELECT state FROM generator ORDER BY seq DESC LIMIT 1").fetchone()
        self.connection.close()
        if self.fresh:
            stream.index, stream.position = self.next_index, self.position
            return
        if row:
            stream.restore(store.unpack(row[0]))
        while stream.index < self.next_index:       # an older program's store has a state each 1,000 bursts
            stream.next_burst()

    def snapshot(self, ns, game):
        """Returns a state that holds, after a gap in the rows; the history of the gap is lost."""
        connection = store.connect(self.store.path)
        state = replica.at_present(connection)
        connection.close()
        state.contest, state.ns, state.round_number = game.contest, ns, game.round_number
        state.begun_ns, state.over = game.begun_ns, game.over
        self.store.snapshot(ns, state.state())
