"""Runs a contest: digits on port 10001, submissions on 10002, rules and board on 10000.

With STORE everything is kept there, a process of its own serves the board, and a restart goes on at the end of the last
run. A store that does not exist is made. Without STORE the contest is forgotten at the end. Everything that is sent
follows from the seed. `contest/record.py` describes the record, `contest/scoring.py` the verdicts, `contest/rounds.py`
the file that --round takes. """
import contextlib
import gc
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time

from command_line import INSTALLED, say
from servers.contest import rounds, store
from servers.contest.arguments import (PROGRAM, SERVED, STREAM_WORDS, add_stream, bounded, command_parser, complain,
                                       of_plan)
from servers.contest.connections import CONNECTION_COUNT_MAX
from servers.contest.die_with_parent import die_with_parent
from servers.contest.options import Options
from servers.contest.plan import Plan, Users
from servers.contest.record import RecordError
from servers.contest.server import ContestServer

BOARD_RESTART_S = 2
PRIORITY = -15                  # nice(2)
REFUSED = 65                    # exit status: the service does not try again; EX_DATAERR of sysexits.h


def make_parser():
    parser = command_parser("serve", __doc__)
    add = parser.add_argument
    nowhere = f"{SERVED} if it exists, else nowhere" if INSTALLED else "nowhere"
    add("store", nargs="?", metavar="STORE", help=f"where the contest is kept (default: {nowhere})")
    add("--name", help="what the board of a new STORE is headed with")
    add("--round", type=of_plan(rounds.load_round), metavar="online|onsite|qualification|FILE")
    add_stream(add)
    add("--digits", default="", metavar="RECORD", help="the bursts of a record, with their pauses, instead of new ones")
    add("--body", choices=("raw", "chunked"), default="raw", help="how the digits are framed")
    add("--start", choices=("push", "wait"), default="push", help="send 0.1 s after connect, or wait for the request")
    add("--begin", choices=("now", "player"), default="now", help="first burst: at once, or with the first player")
    add("--duration", type=bounded(float, 0, 1e9), default=0, dest="duration_s", metavar="S",
        help="seconds of digits (default: for ever)")
    add("--bursts", type=bounded(int, 0, 10**9), default=0, metavar="COUNT",
        help="the digits end after so many bursts: the same answers on every machine")
    add("--grace", type=bounded(float, 0, 3600), metavar="S",
        help="end the server so long after the last digits (default: go on until a signal)")
    add("--close-after", type=bounded(int, 0, 10**9), default=0, metavar="BURSTS",
        help="end the players' connections after every so many bursts")
    add("--close-how", choices=("fin", "rst"), default="fin")
    add("--close-wait", type=bounded(float, 0, 3600), default=0, dest="close_wait_s", metavar="S",
        help="so long after the burst (default: half a pause); what is under way by RST is lost")
    add("--close-for", type=bounded(float, 0, 3600), default=0, dest="close_for_s", metavar="S",
        help="refuse players for so long afterwards")
    add("--split", action="store_true", help="send the input port's bytes in odd pieces")
    add("--bind", default="0.0.0.0", metavar="ADDRESS")
    add("--port-base", type=bounded(int, 0, 65533), default=10000, metavar="PORT",
        help="pages; input is the next, output the one after it; 0: any free ones (default 10000)")
    add("--idle", type=bounded(float, 1, 1e6), default=Options.idle_s, dest="idle_s", metavar="S",
        help="end a connection without a complete request for so long; readers of the digits are exempt while they"
             f" take them (default {Options.idle_s})")
    add("--share", type=bounded(int, 1, CONNECTION_COUNT_MAX), default=Options.share, metavar="COUNT",
        help=f"connections of one address at once, of {CONNECTION_COUNT_MAX} in all; more are closed at once"
             f" (default {Options.share})")
    add("--record", default="", metavar="FILE",
        help="all that was offered and submitted, as JSON lines; a file that is not empty is refused")
    return parser


def parse_options(words):
    parser = make_parser()
    options = parser.parse_args(words)
    if options.store is None:
        options.store = SERVED if INSTALLED and os.path.exists(SERVED) and not options.digits else ""
    own = {key: value for key in (*STREAM_WORDS, "round", "name") if (value := getattr(options, key)) is not None}
    if options.store and pathlib.Path(options.store).exists() and own:
        parser.error(f"{options.store} exists and has its own {', '.join(sorted(own)).replace('_s', '')}: "
                     "leave them out, or name another file")
    for key in (*STREAM_WORDS, "round"):
        setattr(options, key, own.get(key, getattr(Options, key)))
    if options.digits and options.store:
        parser.error("--digits plays without a store")
    return options


def make_store(options, name):
    """Makes a store that is not there, of the words of `serve`."""
    if options.store and not pathlib.Path(options.store).exists():
        users = None if options.users is None else Users.of(options.users)
        plan = Plan(name=name or Plan.name, rounds=((0.0, options.round),), users=users, seed=options.seed,
                    rate=options.rate, burst=options.burst, interval_s=options.interval_s)
        store.create(options.store, plan)
        who = "anybody may play" if users is None else f"{len(users.hashes)} users may play"
        print(f"made {options.store}: {plan.name}, {who}; `{PROGRAM} plan {options.store}` prints the plan",
              file=sys.stderr)


class BoardProcess:
    """The board's process beside the server: started again if it ends."""

    def __init__(self, options, server):
        self.server = server
        self.words = [sys.executable, "-m", "servers.contest", "board", options.store, "--bind", options.bind,
                      "--port", str(server.ports["pages"])]
        self.process = self._start(stdout=subprocess.PIPE)
        with self.process.stdout:
            self.address = self.process.stdout.readline().decode().strip()      # empty: it ended, and has said why
        server.after(BOARD_RESTART_S, self.keep)

    def _start(self, stdout):
        # SIGKILL: a server that is started again in the same moment finds the port free. The store survives it.
        return subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=stdout,
                                preexec_fn=lambda: die_with_parent(signal.SIGKILL))

    def keep(self):
        if self.process.poll() is not None:
            logging.getLogger("contest").error("the board ended with %s; it starts again", self.process.returncode)
            self.process = self._start(stdout=subprocess.DEVNULL)
        self.server.after(BOARD_RESTART_S, self.keep)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def come_first(priority=PRIORITY):
    """Asks the system for more of the processor than others get; it grants it to root, and to who has CAP_SYS_NICE."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, priority)


def play(server, grace_s):
    """Serves until a signal, or until `grace_s` after the last digits. None: until a signal."""
    ends_at = None
    while not server.stopped:
        server.turn(0.2)
        if server.over and grace_s is not None and ends_at is None:
            ends_at = time.monotonic() + grace_s
        if ends_at is not None and time.monotonic() >= ends_at:
            server.stop()


def main(words):
    options = parse_options(words)
    logging.basicConfig(format="contest serve: %(message)s")
    grace_s = options.grace
    del options.grace
    name = options.__dict__.pop("name")
    try:
        make_store(options, name)
        server = ContestServer(Options(**vars(options), pages=not options.store))
    except (store.StoreError, RecordError, OSError) as error:
        complain("serve", error)
        return REFUSED if isinstance(error, store.StoreError) else 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    board = BoardProcess(options, server) if options.store else None
    if board and not board.address:
        server.close()
        return 1
    say("listening " + " ".join(f"{kind}={options.bind}:{port}" for kind, port in server.ports.items()))
    if board:
        say(board.address)
    come_first()
    gc.freeze()
    gc.disable()                    # the server collects after a burst
    play(server, grace_s)
    if board:
        board.end()                 # the last to close the store leaves one file
    whole = server.close()
    for name in server.contest.users:
        say(json.dumps(server.contest.summary(name)))
    return 0 if whole else 1
