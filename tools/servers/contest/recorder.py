"""Keeps somebody else's contest: it reads the digits as a player does, and the board, and submits nothing.

    contest record --as-player HOST FILE [--port-base 10000] [--seconds 3600]

FILE gets JSON lines (contest/record.py). "contest" has N and the moduli that the board shows. "burst" has the bytes
of one read, with its time. "board" comes whenever the board has changed. `contest serve --digits FILE` plays the digits
again with their pauses; `contest find-hidden --digits FILE` takes both. A connection that ends is made again. """
import logging
import re
import sys
import threading
import time

from servers.contest import foreign
from servers.contest.arguments import bounded, command_parser, complain
from servers.contest.foreign import ForeignError
from servers.contest.record import Record

LOG = logging.getLogger("contest")
AGAIN_S = 1.0
FILE_BYTES_MAX = 4 << 30        # digits and boards; a contest of ten days sends less


class Recorder:
    def __init__(self, options):
        self.options = options
        self.record = Record(options.file)
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.index = self.position = self.bytes = 0
        self.boards, self.shown = 0, ""
        self.constants = None
        self.problem = ""           # the reason of an early end

    def log(self, kind, **fields):
        with self.lock:
            self.record.log(kind, ns=time.time_ns(), **fields)
            self.record.flush()
            self.bytes += sum(len(value) for value in fields.values() if isinstance(value, str))
        if self.bytes > FILE_BYTES_MAX:
            self.problem = f"{self.options.file}: has {FILE_BYTES_MAX >> 30} GiB, more than a contest sends"
        self.problem = self.problem or self.record.error
        if self.problem:
            self.ended.set()

    def follow(self, what, take, wait_s):
        """Calls `take` again and again until the end."""
        while not self.ended.is_set():
            try:
                take()
            except ForeignError as error:
                LOG.warning("%s: %s; again", what, error)
            self.ended.wait(wait_s)

    def take_digits(self):
        with foreign.Page(self.options.host, self.options.port_base + 1, "/", self.options.timeout) as page:
            self.log("feed-open", id=self.index, ip=self.options.host, position=self.position)
            for data in page.pieces():
                if self.ended.is_set():
                    return
                digits = re.sub("[^0-9]", "", data.decode("ascii", "replace"))
                self.log("burst", index=self.index, position=self.position, digits=digits)
                self.index, self.position = self.index + 1, self.position + len(digits)
        LOG.warning("the digits ended; again")

    def take_board(self):
        text = foreign.read_board(self.options.host, self.options.port_base, self.options.timeout)
        shown = re.sub(r"\(last update .*\)", "", text)
        if shown == self.shown:
            return
        n, known, _ = foreign.rules_of(text)
        if (n, known) != self.constants:
            self.constants = n, known
            self.log("contest", n=n, constants=[str(m) for m in known], known=len(known))
        self.log("board", text=text)
        self.shown, self.boards = shown, self.boards + 1


def make_parser():
    parser = command_parser("record", __doc__)
    add = parser.add_argument
    add("--as-player", dest="host", required=True, metavar="HOST", help="address or name of the contest")
    add("file", metavar="FILE", help="a file that is not empty is refused")
    add("--port-base", type=bounded(int, 1, 65533), default=10000, metavar="PORT", help="its pages (default 10000)")
    add("--seconds", type=bounded(float, 0, 1e9), default=0, help="how long (default: until a signal)")
    add("--every", type=bounded(float, 0.1, 3600), default=5, metavar="S", help="from board to board (default 5)")
    add("--timeout", type=bounded(float, 0.1, 3600), default=60, metavar="S", help="without a digit (default 60)")
    return parser


def main(words):
    options = make_parser().parse_args(words)
    logging.basicConfig(format="contest record: %(message)s")
    try:
        recorder = Recorder(options)
    except OSError as error:
        complain("record", f"{options.file}: {error.strerror}")
        return 1
    for work in (("the digits", recorder.take_digits, AGAIN_S), ("the board", recorder.take_board, options.every)):
        threading.Thread(target=recorder.follow, args=work, daemon=True).start()
    try:
        recorder.ended.wait(options.seconds or None)
    except KeyboardInterrupt:
        pass
    recorder.ended.set()
    with recorder.lock:
        recorder.record.close()
    if recorder.problem:
        complain("record", recorder.problem)
    print(f"{recorder.position} digits in {recorder.index} pieces, {recorder.boards} boards", file=sys.stderr)
    return 0 if recorder.position and not recorder.problem else 1
