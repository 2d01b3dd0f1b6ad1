"""Follows a store that another process writes, and looks after it: snapshots, the copies of SQLite's log, old rows.

The writer of the store waits for each transaction here. So these are single statements of milliseconds. The keeper, a
thread, runs them at the priority with which the board was started: at a lower one it would wait for the processor
while it holds the lock. The keeper also copies the log in time while the board lags.
"""
import concurrent.futures
import contextlib
import logging
import queue
import sqlite3
import threading
import time

from servers.contest import replica, store

LOG = logging.getLogger("contest")
SNAPSHOT_ROWS = 20_000
SNAPSHOT_S = 300
SNAPSHOTS_KEPT_S = 3600         # one this old is kept; others go after a newer one
PRUNE_S = 60
PUBLISH_S = 0.25
LOG_LOOK_S = 0.5
LOG_BYTES = 4 << 20             # then SQLite's log is copied, while the server writes
LOG_BYTES_CUT = 24 << 20        # then the log is cut, once nearly all is copied
REST_PAGES = 250                # nearly all: the server waits for these copies
COPIES_MAX = 5                  # at once, for as long as the rest becomes smaller
CUT_WAIT_MS = 20                # for the lock, and for readers while the lock is held
SLICE_ROWS = 2000               # taken at once: some 0.1 s
PRUNED_AT_ONCE = 1000           # rows of a transaction
PRUNE_PAUSE_S = 0.02            # between two such transactions
SILENT_S = 3                    # a running contest has a burst at least so often
BEHIND_S_MAX = 2                # later rows than these are reported


class Follower:
    def __init__(self, path):
        self.path = path
        self.connection, self.identity = store.connect(path), store.identity(path)
        self.writer = store.connect(path)
        self.writer.execute("PRAGMA synchronous=NORMAL")        # no commit waits for the disk
        self.statements = queue.SimpleQueue()   # (Future, statement, values); None: the keeper ends
        self.keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self.keeper.start()
        self.replica = replica.at_present(self.connection)
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.snapshot_seq, self.snapshot_at = self.replica.seq, time.monotonic()
        self.pruned_at = time.monotonic()
        self.published_at = self.news_at = time.monotonic()
        self.changed = True
        self.error = ""

    def now_ns(self):
        """Returns the contest's clock, which the server's last run wrote down."""
        if self.replica.running and self.replica.clock_origin_ns:
            return time.monotonic_ns() + self.replica.clock_origin_ns
        return time.time_ns()

    @property
    def silent_s(self):
        """Returns for how long a contest that should go on has had no news."""
        state = self.replica
        quiet_s = time.monotonic() - self.news_at
        return quiet_s if state.running and state.begun_ns and not state.over and quiet_s > SILENT_S else 0

    @property
    def behind_s(self):
        """Returns how old the latest row is that has been taken, if newer ones wait."""
        return (self.now_ns() - self.replica.ns) / 1e9 if self.replica.left else 0

    @property
    def warning(self):
        if self.error:
            return self.error
        if store.identity(self.path) != self.identity:
            return "the store's file was removed or replaced; end the server to save its rows"
        if silent_s := self.silent_s:
            return f"nothing was stored for {silent_s:.0f} s: the server stands still, or cannot write"
        if (behind_s := self.behind_s) > BEHIND_S_MAX:
            return f"this board is {behind_s:.0f} s behind; the server is not"
        return self.replica.warning

    def step(self):
        """Takes the new rows; returns true if the board should be published."""
        try:
            with self.lock:
                if self.replica.follow_some(SLICE_ROWS):
                    self.changed, self.news_at = True, time.monotonic()
                if self.replica.has_gap:
                    self._go_over_gap()
                self.error = ""
            self._look_after()
        except (sqlite3.Error, store.StoreError) as error:
            self.error, self.changed = f"the store cannot be read or written: {error}", True
        now = time.monotonic()
        if now - self.published_at < PUBLISH_S or not self.changed and now - self.published_at < 1:
            return False
        self.published_at, self.changed = now, False
        return True

    def _go_over_gap(self):
        """Skips rows that a full disk kept out: takes the server's snapshot after the gap."""
        row = self.connection.execute("SELECT max(seq) FROM snapshot").fetchone()
        if row[0] and row[0] > self.snapshot_seq:
            fresh = replica.Replica(self.connection)
            fresh.load()
            fresh.follow()
            fresh.lost, fresh.has_gap = self.replica.lost, False
            self.replica, self.snapshot_seq = fresh, row[0]

    def _look_after(self):
        now = time.monotonic()
        rows = self.replica.seq - self.snapshot_seq
        if rows >= SNAPSHOT_ROWS or rows and now - self.snapshot_at >= SNAPSHOT_S:
            self._snapshot()
        if self.replica.plan.keep_days and now - self.pruned_at >= PRUNE_S:
            self.pruned_at = now
            self._prune()

    def _keep(self):
        """Runs the statements that come, and looks at the log in between: the keeper's thread."""
        looked_at = time.monotonic()
        while True:
            try:
                job = self.statements.get(timeout=LOG_LOOK_S)
                if not job:
                    return
                future, statement, values = job
                try:
                    future.set_result(self.writer.execute(statement, values).fetchall())
                except Exception as error:
                    future.set_exception(error)
            except queue.Empty:
                pass
            if time.monotonic() - looked_at >= LOG_LOOK_S:
                with contextlib.suppress(sqlite3.Error):        # a full disk: `step` reports it
                    self._copy_log()
                looked_at = time.monotonic()

    def _copy_log(self):
        """Copies SQLite's log into the file, beside the writer. Cuts a long log when little is left to be copied."""
        log_bytes, rest = store.log_bytes(self.path), 0
        if log_bytes < LOG_BYTES:
            return
        for _ in range(COPIES_MAX):
            before, (_, pages, copied) = rest, self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            rest = pages - copied
            if log_bytes < LOG_BYTES_CUT or rest <= REST_PAGES or before and rest >= before:
                break
        if log_bytes >= LOG_BYTES_CUT and rest <= REST_PAGES:
            self.writer.execute(f"PRAGMA busy_timeout={CUT_WAIT_MS}").fetchall()
            self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.writer.execute("PRAGMA busy_timeout=10000").fetchall()

    def _snapshot(self):
        if self.replica.differing or self.replica.has_gap:
            return                  # a state that is not the server's helps nobody
        with self.lock:
            seq, ns, state = self.replica.seq, self.replica.ns, self.replica.state()
        state = store.pack(state)
        self._write("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", seq, ns, state)
        self._write("DELETE FROM snapshot WHERE seq < ? AND seq NOT IN (SELECT max(seq) FROM snapshot GROUP BY ns / ?)",
                    self.snapshot_seq, SNAPSHOTS_KEPT_S * 10**9)
        self.snapshot_seq, self.snapshot_at = seq, time.monotonic()

    def _prune(self):
        """Deletes rows that are older than the plan wants and stand before a snapshot."""
        oldest_ns = self.replica.ns - round(self.replica.plan.keep_days * 86400e9)
        row = self.connection.execute("SELECT max(seq) FROM snapshot WHERE ns < ?", (oldest_ns,)).fetchone()
        if not row[0]:
            return
        self._write("INSERT OR REPLACE INTO meta VALUES ('pruned', ?)", row[0])
        for table in (*store.PLAYED, "generator"):
            keep = "" if table != "generator" else " AND seq < (SELECT max(seq) FROM generator)"
            while self._write(f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} WHERE seq <= ?{keep} "
                              "ORDER BY seq LIMIT ?) RETURNING 1", row[0], PRUNED_AT_ONCE):
                if self.ended.wait(PRUNE_PAUSE_S):
                    return

    def _write(self, statement, *values):
        """Lets the keeper run one statement, as a transaction of its own. Returns its rows."""
        future = concurrent.futures.Future()
        self.statements.put((future, statement, values))
        return future.result()

    def close(self):
        self.statements.put(None)
        self.keeper.join()
        self.writer.close()
        self.connection.close()
