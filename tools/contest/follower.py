"""Follows a store that another process writes, and looks after it: snapshots, and the deletion of old rows."""
import logging
import os
import sqlite3
import threading
import time

from contest import replica, store

LOG = logging.getLogger("contest")
SNAPSHOT_ROWS = 20_000
SNAPSHOT_S = 300
SNAPSHOTS_KEPT_S = 3600         # one this old is kept; others go after a newer one
PRUNE_S = 60
PUBLISH_S = 0.25
LOG_LOOK_S = 1.0
LOG_BYTES = 4 << 20             # then SQLite's log is copied, while the server writes
LOG_BYTES_MAX = 64 << 20        # the log outran the copies: the server waits
SILENT_S = 3                    # a running contest has a burst at least so often


class Follower:
    def __init__(self, path):
        self.path = path
        self.connection, self.identity = store.connect(path), store.identity(path)
        self.replica = replica.at_present(self.connection)
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.snapshot_seq, self.snapshot_at = self.replica.seq, time.monotonic()
        self.pruned_at = self.log_looked_at = time.monotonic()
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
    def warning(self):
        if self.error:
            return self.error
        if store.identity(self.path) != self.identity:
            return "the store's file was removed or replaced; end the server to save its rows"
        if silent_s := self.silent_s:
            return f"nothing was stored for {silent_s:.0f} s: the server stands still, or cannot write"
        return self.replica.warning

    def step(self):
        """Takes the new rows; returns true if the board should be published."""
        try:
            with self.lock:
                if self.replica.follow():
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
        if now - self.log_looked_at >= LOG_LOOK_S:
            self.log_looked_at = now
            self._copy_log()
        rows = self.replica.seq - self.snapshot_seq
        if rows >= SNAPSHOT_ROWS or rows and now - self.snapshot_at >= SNAPSHOT_S:
            self._snapshot()
        if self.replica.plan.keep_days and now - self.pruned_at >= PRUNE_S:
            self.pruned_at = now
            self._prune()

    def _copy_log(self):
        try:
            log_bytes = os.stat(f"{self.path}-wal").st_size
        except OSError:
            return
        if log_bytes >= LOG_BYTES:
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        if log_bytes >= LOG_BYTES_MAX:
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _snapshot(self):
        if self.replica.differing or self.replica.has_gap:
            return                  # a state that is not the server's helps nobody
        with self.lock:
            seq, ns, state = self.replica.seq, self.replica.ns, self.replica.state()
        state = store.pack(state)
        with self.connection:
            self.connection.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", (seq, ns, state))
            self.connection.execute(
                "DELETE FROM snapshot WHERE seq < ? AND seq NOT IN (SELECT max(seq) FROM snapshot GROUP BY ns / ?)",
                (self.snapshot_seq, SNAPSHOTS_KEPT_S * 10**9))
        self.snapshot_seq, self.snapshot_at = seq, time.monotonic()

    def _prune(self):
        """Deletes rows that are older than the plan wants and stand before a snapshot."""
        oldest_ns = self.replica.ns - round(self.replica.plan.keep_days * 86400e9)
        row = self.connection.execute("SELECT max(seq) FROM snapshot WHERE ns < ?", (oldest_ns,)).fetchone()
        if row[0]:
            with self.connection:
                for table in (*store.PLAYED, "generator"):
                    keep = "" if table != "generator" else " AND seq < (SELECT max(seq) FROM generator)"
                    self.connection.execute(f"DELETE FROM {table} WHERE seq <= ?{keep}", (row[0],))
                self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('pruned', ?)", (row[0],))
