"""The store of a contest: an SQLite file that holds all events in order. WAL: readers never wait.

Every row has a `seq`, one count over all tables: the order of play. `ns` is the contest's clock (contest/clock.py).

burst       every burst: index, position of its first digit, digits, players how many. due_ns is when it should have
            gone, ns when TCP got its first byte. spread_ns is the time from then until TCP got the last player's.
            stamp_error_ns is the error of the stamp of a byte that the server sends itself right after the burst.
            busy_ns is the longest that a submission waited for the server since the burst before. preempted is how
            often the system took the processor away between the first and the last player.
answer      every occurrence of an answer whose last digit was in the burst before: positions, constants, digits, if new
submission  every submission: ns the kernel's receive time, address, user, digits, verdict
resolved    the fate of an early submission (ns and digits are its own)
connection  every connection: when it came and went, address, port, and the position in the stream for input connections
event       all else, fields as JSON: run, begin, round, ping, invalid, fault, gap (what a full disk kept out), stop,
            merged (count and bound of stamps that are late, contest/judge.py; `scored` of those with points or early)
snapshot    the whole state after the row `seq`, from which a restart goes on (contest/replica.py)
generator   the state of the digits' generator before burst `idx`

The writer is a thread of its own. The caller's thread only appends to a queue. It sets `hold` while a burst goes out;
then the two do not share the interpreter. A killed process loses the rows of its last 100 ms.
"""
import collections
import fcntl
import json
import logging
import os
import pathlib
import sqlite3
import threading
import time
import zlib

LOG = logging.getLogger("contest")
APPLICATION = 0x50435354        # "PCST", in the header of the file
VERSION = 1
COMMIT_S = 0.03                 # the longest that a row waits for the writer, besides `hold`
HOLD_S_MAX = 0.05
RETRY_S = 1.0
QUEUE_MAX = 200_000             # rows that wait while nothing can be written; further ones are counted, not kept
ROWS_AT_ONCE = 100
GENERATOR_EVERY = 1000          # bursts from state to state of the generator

COLUMNS = {
    "burst": "idx position digits ns due_ns spread_ns players stamp_error_ns busy_ns preempted",
    "answer": "ns start end constants digits first",
    "submission": "ns ip user digits verdict",
    "resolved": "ns user digits verdict",
    "connection": "ns change id port ip position",
    "event": "ns kind fields",
    "snapshot": "ns state",
    "generator": "idx state",
}
COLUMNS = {table: columns.split() for table, columns in COLUMNS.items()}
PLAYED = ("burst", "answer", "submission", "resolved", "connection", "event")
SCHEMA = "".join(f"CREATE TABLE {table} (seq INTEGER PRIMARY KEY, {', '.join(columns)});"
                 for table, columns in COLUMNS.items()) + """
CREATE TABLE meta (key TEXT PRIMARY KEY, value);
CREATE INDEX burst_ns ON burst (ns);
"""


class StoreError(Exception):
    """Says what is wrong with a store, and the way out."""


def recovery(path):
    return f"what can still be read: sqlite3 '{path}' .recover | sqlite3 NEW (package sqlite3); then use NEW"


def create(path, plan):
    """Makes the store of a contest that has not begun. One that cannot be made whole leaves nothing behind."""
    path = pathlib.Path(path)
    made = False
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))    # it holds hashes of passwords
        made = True
        connection = sqlite3.connect(path)
        with connection:
            connection.executescript(f"PRAGMA journal_mode=WAL; PRAGMA application_id={APPLICATION};"
                                     f"PRAGMA user_version={VERSION}; {SCHEMA}")
            connection.execute("INSERT INTO meta VALUES ('plan', ?)", (json.dumps(plan.to_json()),))
        connection.close()
    except FileExistsError as error:
        raise StoreError(f"{path}: exists; name another file, or serve it as it is") from error
    except (OSError, sqlite3.Error) as error:
        for end in ("", "-wal", "-shm", "-journal") if made else ():
            path.with_name(path.name + end).unlink(missing_ok=True)
        raise StoreError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def connect(path, whole=False):
    """Opens a store to read it; `whole`: after a check of all its pages."""
    if not pathlib.Path(path).is_file():
        raise StoreError(f"{path}: no such store; `contest init {path}` makes one")
    try:
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION:
            raise StoreError(f"{path}: is a database, but no contest's store")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise StoreError(f"{path}: has the format {version}; this program reads {VERSION}")
        if whole:
            fault = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if fault != "ok":
                raise StoreError(f"{path}: is damaged ({fault.splitlines()[-1]}); {recovery(path)}")
        return connection
    except sqlite3.Error as error:
        raise StoreError(f"{path}: is damaged or no store ({error}); {recovery(path)}") from error


def lock(path):
    """Returns a file that keeps other servers from the store until it is closed. SQLite's locks are of another kind."""
    file = open(path, "rb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise StoreError(f"{path}: is served already; end that server first") from None
    return file


def last_seq(connection):
    return max(connection.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0]
               for table in (*PLAYED, "snapshot", "generator"))


class Store:
    """Writes a store, as the only one. `tell`, `flush` and `close` never raise; `error` says what could not be written.
    """

    def __init__(self, path):
        self.path = path
        connection = connect(path)
        self.lock = lock(path)
        self.seq = last_seq(connection)
        connection.close()
        self.error = ""
        self.hold = False           # set while the writer must keep still
        self.lost = collections.Counter()       # kind -> rows for which there was no place
        self.queue = collections.deque()        # (table, row); the writer takes from the left
        self.pending = []                       # the writer's own: rows of a transaction that may fail
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._write_all, name="store", daemon=True)
        self.thread.start()

    def tell(self, kind, **fields):
        """Appends a row. Kinds that are no table are events."""
        table = kind if kind in COLUMNS else "event"
        if len(self.queue) + len(self.pending) >= QUEUE_MAX and kind not in ("gap", "snapshot"):
            self.lost[kind] += 1
            return
        self.seq += 1
        if table == "event":
            row = (self.seq, fields.pop("ns", 0), kind, json.dumps(fields))
        else:
            row = (self.seq, *(json.dumps(fields[c]) if c == "constants" else fields.get(c) for c in COLUMNS[table]))
        self.queue.append((table, row))

    def snapshot(self, ns, state):
        self.tell("snapshot", ns=ns, state=pack(state))

    def flush(self):
        """Does nothing: the writer needs no help."""

    @property
    def has_gap(self):
        """Returns true if rows were lost and there is space again. The caller then writes the gap and a snapshot."""
        return bool(self.lost) and not self.error

    def close(self):
        self.hold = False
        self.closing.set()
        self.thread.join(30)
        self.lock.close()

    # ---- the writer ----

    def _write_all(self):
        connection = None
        while True:
            last = self.closing.wait(COMMIT_S)
            self._wait_while_held()
            try:
                if connection is None:
                    connection = sqlite3.connect(self.path, timeout=5, isolation_level=None)
                    connection.execute("PRAGMA synchronous=NORMAL")
                self._write(connection)
                if self.error:
                    LOG.error("the store %s is written again", self.path)
                    self.error = ""
            except (sqlite3.Error, OSError) as error:
                self._complain(error)
                connection = self._give_up(connection)
                if not last:
                    self.closing.wait(RETRY_S)
            if last:
                break
        if self.pending:
            LOG.error("the store %s lacks the last %d rows", self.path, len(self.pending))
        self._give_up(connection)

    def _write(self, connection):
        """Writes all waiting rows as one transaction. The rows of a failed write stay in `pending`."""
        while self.queue:
            self.pending.append(self.queue.popleft())
        if not self.pending:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            for first in range(0, len(self.pending), ROWS_AT_ONCE):
                self._wait_while_held()
                rows = {}
                for table, row in self.pending[first:first + ROWS_AT_ONCE]:
                    rows.setdefault(table, []).append(row)
                for table, entries in rows.items():
                    places = ", ".join("?" * (len(COLUMNS[table]) + 1))
                    connection.executemany(f"INSERT INTO {table} VALUES ({places})", entries)
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.pending.clear()

    def _wait_while_held(self):
        began = time.monotonic()
        while self.hold and time.monotonic() < began + HOLD_S_MAX:
            time.sleep(0.001)

    def _complain(self, error):
        if not self.error:
            LOG.error("the store %s cannot be written: %s; the game goes on", self.path, error)
        self.error = f"the store {self.path} is not written: {error}; {len(self.pending) + len(self.queue)} rows wait"
        if self.lost:
            self.error += f", {sum(self.lost.values())} are lost"

    @staticmethod
    def _give_up(connection):
        try:
            if connection:
                connection.close()
        except sqlite3.Error:
            pass
        return None


def pack(state):
    return zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 1)


def unpack(data):
    return json.loads(zlib.decompress(data))
