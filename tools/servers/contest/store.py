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
generator   at the end of a run, the state of the digits' generator before burst `idx`

The thread that plays writes the rows of a turn as one transaction, before it sends the responses of this turn. A
submission that was answered is in the store after a `kill -9`. A commit is a write to the file's log, without waiting
for the disk. The board's process copies the log into the file (contest/follower.py), and waits for the disk there.
While another process holds the lock, the rows wait, and with them the responses and all further submissions. While
nothing can be written (a full disk), the game goes on; rows wait up to a bound, and those beyond are counted. If no
board copies the log, the server does so itself at a bound of the log's size, and everybody waits for the disk.
"""
import collections
import contextlib
import fcntl
import itertools
import json
import logging
import math
import os
import pathlib
import pwd
import sqlite3
import time
import zlib

LOG = logging.getLogger("contest")
APPLICATION = 0x50435354        # "PCST", in the header of the file
VERSION = 1
RETRY_S = 1.0
LOCK_LOG_S = 1.0                # a lock of another process is logged after so long
CLOSE_S_MAX = 5.0               # the longest that the end waits for another process's lock
WAITING_BYTES_MAX = 32 << 20    # rows that wait for the disk; further ones are only counted
LOG_BYTES_MAX = 60 << 20        # SQLite's log: the server cuts it then
WRITE_LOCK_BYTE = 120           # in NAME-shm: WAL_WRITE_LOCK, SQLite's "WAL-mode File Format" 2.3
ROW_BYTES = 600                 # a row's tuple and numbers, besides its text
ROWS_AT_ONCE = 1000             # a transaction of this size takes milliseconds, and delays no burst longer

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
    """Says why a store is wrong, and the way out."""


def user_name(number):
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def check_access(path, mode, verb):
    """Refuses a store that this user may not use: the copy of another user, most likely root."""
    folder = os.path.dirname(os.path.abspath(path))
    for place in (path, folder):
        if not os.access(place, mode):
            owner, user = user_name(os.stat(place).st_uid), user_name(os.geteuid())
            raise StoreError(f"{place}: belongs to {owner}, and {user} may not {verb} it; as root: "
                             f"chown --reference={folder} {path}")


def recovery(path):
    return f"what can still be read: sqlite3 '{path}' .recover | sqlite3 NEW (package sqlite3); then use NEW"


def create(path, plan):
    """Makes the store of a contest that has not begun. One that cannot be made whole leaves no file."""
    path = pathlib.Path(path)
    made = False
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))    # the file holds hashes of passwords
        made = True
        connection = sqlite3.connect(path)
        with connection:
            connection.executescript(
                f"PRAGMA journal_mode=WAL; PRAGMA application_id={APPLICATION};PRAGMA user_version={VERSION}; {SCHEMA}")
            connection.execute("INSERT INTO meta VALUES ('plan', ?)", (json.dumps(plan.to_json()),))
        connection.close()
    except FileExistsError as error:
        raise StoreError(f"{path}: exists; name another file, or serve it as it is") from error
    except (OSError, sqlite3.Error) as error:
        for end in ("", "-wal", "-shm", "-journal") if made else ():
            path.with_name(path.name + end).unlink(missing_ok=True)
        raise StoreError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def connect(path, whole=False, timeout_s=10):
    """Opens a store; `whole`: after a check of all its pages. `timeout_s`: the longest wait for another's lock."""
    if not pathlib.Path(path).is_file():
        is_other = pathlib.Path(path).exists()
        raise StoreError(f"{path}: is no file" if is_other else
                         f"{path}: no such store; `contest init {path}` makes one")
    check_access(path, os.R_OK, "read")
    try:
        connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
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


def identity(path):
    """Returns the identity of a file, or None if there is none."""
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino
    except OSError:
        return None


def log_bytes(path):
    """Returns the size of a store's log, 0 if there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def lock_holder(path):
    """Returns who holds the lock of a store, by the kernel's list of locks: proc_locks(5)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        inode = str(os.stat(f"{path}-shm").st_ino)
        with open("/proc/locks", encoding="ascii") as file:
            locks = [line.split() for line in file if "POSIX" in line and "->" not in line]
        for _, _, _, kind, pid, place, first, last in locks:
            if kind == "WRITE" and place.split(":")[2] == inode and int(first) <= WRITE_LOCK_BYTE <= int(last):
                return process_name(pid)
    return "another program"


def process_name(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
    except OSError:                 # hidden, as from the service
        return f"process {pid}"
    return "the board of this server" if rest.split()[1] == str(os.getpid()) else f"process {pid} ({ascii(name)[1:-1]})"


def last_seq(connection):
    return max(connection.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0]
               for table in (*PLAYED, "snapshot", "generator"))


class Store:
    """Writes a store, as the only one. `log`, `commit` and `close` never raise; `error` says why rows wait."""

    def __init__(self, path):
        self.path = path
        check_access(path, os.R_OK | os.W_OK, "write")
        self.connection, self.identity = connect(path, timeout_s=0), identity(path)
        try:
            self.lock = lock(path)
            # After a power failure the last rows may lack, never those before. The board's process copies the log.
            self.connection.execute("PRAGMA synchronous=NORMAL")
            self.connection.execute("PRAGMA wal_autocheckpoint=0")
            self.seq = last_seq(self.connection)
        except StoreError:
            self.connection.close()
            raise
        self.error = ""
        self.removed = False        # the file has another place in the file system, or none
        self.lost = collections.Counter()       # kind -> rows for which there was no place
        self.waiting = collections.deque()      # (table, row, bytes)
        self.waiting_bytes = 0
        self.retry_at = self.looked_at = self.cut_at = 0.0      # monotonic seconds
        self.locked_at = 0.0        # monotonic seconds; 0: no lock is waited for

    def log(self, kind, **fields):
        """Appends a row. Kinds that are no table are events."""
        table = kind if kind in COLUMNS else "event"
        if self.waiting_bytes >= WAITING_BYTES_MAX and kind not in ("gap", "snapshot", "generator"):
            self.lost[kind] += 1
            return
        self.seq += 1
        if table == "event":
            row = (self.seq, fields.pop("ns", 0), kind, json.dumps(fields))
        else:
            row = (self.seq, *(json.dumps(fields[c]) if c == "constants" else fields.get(c) for c in COLUMNS[table]))
        row_bytes = ROW_BYTES + sum(len(value) for value in row if isinstance(value, (str, bytes)))
        self.waiting.append((table, row, row_bytes))
        self.waiting_bytes += row_bytes

    def snapshot(self, ns, state):
        self.log("snapshot", ns=ns, state=pack(state))

    @property
    def has_gap(self):
        """Returns true if rows were lost and there is space again. The caller then writes the gap and a snapshot."""
        return bool(self.lost) and not self.error and not self.waiting

    def commit(self):
        """Writes rows that wait. Returns true if responses may go: all rows are written, or nothing can be written."""
        now = time.monotonic()
        if now - self.looked_at >= RETRY_S:
            self.looked_at = now
            self._look_for_file()
        if not self.waiting:
            return True
        if self.error and now < self.retry_at:
            return True
        try:
            self._write()
        except (sqlite3.Error, OSError) as error:
            if "locked" in str(error):
                self._note_lock(now)
                return False
            self._complain(error)
            self.retry_at = now + RETRY_S
            return True
        self.locked_at = 0.0
        if now >= self.cut_at and log_bytes(self.path) >= LOG_BYTES_MAX:
            self._cut_log(now)
        if self.error:
            LOG.error("the store %s is written again", self.path)
            self.error = ""
        return not self.waiting

    def close(self):
        """Writes what waits. Returns false if rows are lacking in the file."""
        end = time.monotonic() + CLOSE_S_MAX
        self.retry_at = 0.0
        while self.waiting and not self.error and time.monotonic() < end:
            if not self.commit():
                time.sleep(0 if not self.locked_at else 0.01)
        if self.waiting:
            LOG.error("the store %s lacks the last %d rows", self.path, len(self.waiting))
        whole = not (self.waiting or self.lost or self.removed)
        if self.removed:
            self._rescue()
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()         # the last one copies the log and removes it
        self.lock.close()
        if log_bytes(self.path) and not self.removed:
            LOG.error("another program reads the store %s: its last rows are in %s-wal, which belongs to it", self.path,
                      self.path)
        return whole

    def _write(self):
        """Writes the first rows that wait as one transaction. The rows of a failed write go on waiting."""
        batch = list(itertools.islice(self.waiting, ROWS_AT_ONCE))
        tables = {}
        for table, row, _ in batch:
            tables.setdefault(table, []).append(row)
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            for table, rows in tables.items():
                places = ", ".join("?" * (len(COLUMNS[table]) + 1))
                self.connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
            self.connection.execute("COMMIT")
        except sqlite3.Error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        for _, _, row_bytes in batch:
            self.waiting.popleft()
            self.waiting_bytes -= row_bytes

    def _note_lock(self, now):
        """Logs a lock of another process once, when it has lasted."""
        if not self.locked_at:
            self.locked_at = now
        elif now - self.locked_at >= LOCK_LOG_S and self.locked_at != math.inf:
            LOG.error("%s holds the lock of the store %s; submissions wait for it", lock_holder(self.path), self.path)
            self.locked_at = math.inf

    def _cut_log(self, now):
        """Copies and cuts the log in place of the board, which has not done so."""
        self.cut_at = now + RETRY_S
        with contextlib.suppress(sqlite3.Error):        # the disk is full: the next write reports it
            failed, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            LOG.error("the board does not copy the log of the store %s; the server %s", self.path,
                      "cannot either: another program reads it" if failed else "does")

    def _look_for_file(self):
        """Notes that the file was removed or replaced while it is written."""
        if not self.removed and identity(self.path) != self.identity:
            self.removed = True
            LOG.error("the store %s was removed or replaced; the game goes on, and its rows are saved at the end",
                      self.path)

    def _rescue(self):
        """Writes all rows of a removed store to a new file. Under the old name SQLite's old log would damage it."""
        path = f"{self.path}.saved-{time.strftime('%Y%m%dT%H%M%S')}"
        try:
            self.connection.execute("VACUUM INTO ?", (path,))
            os.chmod(path, 0o600)
            LOG.error("the rows of the removed store are in %s", path)
        except (sqlite3.Error, OSError) as error:
            LOG.error("the rows of the removed store %s are lost: %s", self.path, error)

    def _complain(self, error):
        if not self.error:
            LOG.error("the store %s cannot be written: %s; the game goes on", self.path, error)
        self.error = f"the store {self.path} is not written: {error}; {len(self.waiting)} rows wait"
        if self.lost:
            self.error += f", {sum(self.lost.values())} are lost"


def pack(state):
    return zlib.compress(json.dumps(state, separators=(",", ":")).encode(), 1)


def unpack(data):
    try:
        return json.loads(zlib.decompress(data))
    except (zlib.error, ValueError, TypeError) as error:
        raise StoreError(f"a snapshot in the store is damaged ({error}); a copy of the store from before has a whole "
                         f"one") from error
