"""Runs a command for several HOSTs side by side, each in a process of its own: one that fails or hangs stops no other.

On a terminal a table is renewed in place, a line a HOST: state, time, last word. Elsewhere each line comes as it is
said, after its HOST's name, and the table at the end. Knows nothing of what the command does."""
import ctypes
import json
import multiprocessing
import os
import selectors
import shutil
import signal
import sys
import time

from command_line import printable, say

AT_ONCE = 16                                # processes; the other HOSTs wait
LOOK_SECONDS = 0.5                          # the table's time goes on, an interruption is noticed
DRAW_SECONDS = 0.1                          # between two pictures of the table, however much is said
END_SECONDS = 10                            # after an interruption, for a process to end by itself
INTERRUPTED = 130
PR_SET_PDEATHSIG = 1                        # linux/prctl.h
FAILED_MAX = 100                            # in an exit status, which has other meanings above

WAITING, RUNNING, DONE, FAILED, NOT_BEGUN = "waiting", "running", "done", "failed", "not begun"
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Member:
    """One HOST: its process, and what that says on standard output and standard error."""

    def __init__(self, name):
        self.name, self.state, self.process, self.code = name, WAITING, None, None
        self.begun = self.ended = 0.0
        self.last, self.said, self.rest = "", [], {}

    def start(self, command, selector, show, orders):
        reading, writing = zip(os.pipe(), os.pipe())
        self.process = multiprocessing.get_context("fork").Process(target=_run, daemon=True, args=(
            command, self.name, writing, orders))
        sys.stdout.flush()
        self.process.start()
        self.state, self.begun = RUNNING, time.monotonic()
        for end in writing:
            os.close(end)
        for end, stream in zip(reading, (sys.stdout, sys.stderr)):
            os.set_blocking(end, False)
            self.rest[end] = b""
            selector.register(end, selectors.EVENT_READ, lambda end=end, stream=stream: self._read(end, stream, show))
        selector.register(self.process.sentinel, selectors.EVENT_READ, lambda: self._end(selector))

    def _read(self, end, stream, show):
        try:
            data = os.read(end, 65536)
        except BlockingIOError:
            return False
        *lines, self.rest[end] = (self.rest[end] + data if data else self.rest[end] + b"\n").split(b"\n")
        for line in (line.decode(errors="replace") for line in lines if data or line):
            self.said.append((stream, line))
            self.last = self.last if line[:1].isspace() else printable(line) or self.last     # details are indented
            show(self, stream, line)
        return bool(data)

    def _end(self, selector):
        """Takes the rest out of the pipes, which a process of the user's ssh may hold open."""
        for end in self.rest:
            take = selector.unregister(end).data
            while take():
                pass
            os.close(end)
        selector.unregister(self.process.sentinel)
        self.process.join()
        self.code, self.ended = self.process.exitcode, time.monotonic()
        self.state = FAILED if self.code else DONE

    def signal(self, number):
        """Signals the process with all of its children: it leads a session of its own, soon after its start."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            if self.state == RUNNING:
                os.kill(self.process.pid, number)

    @property
    def seconds(self):
        return (self.ended or time.monotonic()) - self.begun if self.begun else 0


def _run(command, name, writing, orders):
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    interrupt_at_signals()
    if orders:                              # before this process had handlers of its own
        sys.exit(INTERRUPTED)
    with open(os.devnull, encoding="ascii") as null:
        for old, new in zip((null.fileno(), *writing), range(3)):
            os.dup2(old, new)
    try:
        code = command(name)
    except KeyboardInterrupt:
        say("interrupted; what runs on the machine goes on", sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def interrupt_at_signals():
    """Lets the end of a terminal or of a session interrupt this process, as Ctrl-C does; not under nohup."""
    for number in END_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(*_):
    raise KeyboardInterrupt


class Table:
    """The table on a terminal. The terminal has fewer lines than HOSTs perhaps: those that run are shown first."""

    def __init__(self, members):
        self.members, self.drawn, self.next_at = members, 0, 0.0
        self.name_width = max(len(member.name) for member in members)

    def line(self, member):
        seconds = f"{member.seconds:.0f} s" if member.begun else ""
        return f"{member.name:{self.name_width}}  {member.state:9}  {seconds:>6}  {member.last}".rstrip()

    def draw(self, whole=False):
        if not whole and time.monotonic() < self.next_at:
            return
        self.next_at = time.monotonic() + DRAW_SECONDS
        size = shutil.get_terminal_size()
        shown = self.members
        if not whole and len(shown) > max(size.lines - 2, 1):
            order = (RUNNING, FAILED, WAITING, NOT_BEGUN, DONE)
            shown = sorted(shown, key=lambda member: order.index(member.state))[:max(size.lines - 3, 1)]
        lines = [self.line(member)[:max(size.columns - 1, 20)] for member in shown]
        if len(shown) < len(self.members):
            lines.append(f"and {len(self.members) - len(shown)} more")
        up = f"\x1b[{self.drawn}A" if self.drawn else ""
        print(up + "".join(f"\r{line}\x1b[K\n" for line in lines) + "\x1b[J", end="", flush=True)
        self.drawn = len(lines)


def run(names, command, *, one_by_one=False, tell_all=True, as_json=False):
    """Calls command(name) for each HOST in a process. Returns how many failed, or were not begun; or INTERRUPTED.

    `one_by_one`: the first that fails is the last one. `tell_all`: on a terminal, not only those that failed are
    printed in full after the table. `as_json`: each command prints a JSON text, and one object of all is printed."""
    members = [Member(name) for name in names]
    table = Table(members)
    in_place = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not as_json

    def show(member, stream, line):
        if not in_place and not (as_json and stream is sys.stdout):
            say(f"{member.name}: {line}", stream)

    # A handler that raises would do so anywhere, in the middle of a fork even.
    orders = []
    before = [signal.signal(number, lambda *_: orders.append(number)) for number in END_SIGNALS]
    with selectors.DefaultSelector() as selector:
        try:
            _run_all(members, command, selector, show, table if in_place else None, one_by_one, orders)
        finally:
            _end_all(members, selector, orders)
            for number, handler in zip(END_SIGNALS, before):
                signal.signal(number, handler)
    for member in members:
        if member.state == WAITING:
            member.state = NOT_BEGUN
    if in_place:
        table.draw(whole=True)
    _tell(members, table, in_place, tell_all, as_json)
    bad = [member for member in members if member.state != DONE]
    say(f"{len(members) - len(bad)} of {len(members)} done", sys.stderr if as_json else sys.stdout)
    return INTERRUPTED if orders else min(len(bad), FAILED_MAX)


def _run_all(members, command, selector, show, table, one_by_one, orders):
    while not orders:
        running = sum(member.state == RUNNING for member in members)
        waiting = [member for member in members if member.state == WAITING]
        if one_by_one and any(member.state == FAILED for member in members):
            waiting = []
        if not running and not waiting:
            return
        for member in waiting[:(1 if one_by_one else AT_ONCE) - running]:
            member.start(command, selector, show, orders)
        if table:
            table.draw()
        _take(selector)


def _take(selector):
    """Takes what the processes say, and notices their ends."""
    for key, _ in selector.select(LOOK_SECONDS):
        if key.fileobj in selector.get_map():           # a process that has ended took its pipes along
            key.data()


def _end_all(members, selector, orders):
    """Ends the processes that still run, with their children. A second order does not wait."""
    running = [member for member in members if member.state == RUNNING]
    for number in (signal.SIGINT, signal.SIGKILL):
        for member in running:
            member.signal(number)                       # at last what its ssh has left
        end, count = time.monotonic() + END_SECONDS, len(orders)
        while any(member.state == RUNNING for member in running) and time.monotonic() < end and len(orders) == count:
            _take(selector)


def _tell(members, table, in_place, tell_all, as_json):
    if as_json:
        say(json.dumps({member.name: _json_of(member) for member in members}, indent=2))
    for member in members if in_place else []:
        if member.state == FAILED or tell_all:
            for stream, line in member.said:
                say(f"{member.name}: {line}", stream)
    if not in_place and not as_json:
        for member in members:
            say(table.line(member))


def _json_of(member):
    try:
        return json.loads("\n".join(line for stream, line in member.said if stream is sys.stdout))
    except ValueError:
        return None
