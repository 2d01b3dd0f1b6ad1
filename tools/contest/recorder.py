"""Keeps somebody else's contest: it reads the digits as a player does, and the board, and submits nothing.

    contest record --as-player HOST FILE [--port-base 10000] [--seconds 3600]

FILE gets JSON lines (contest/record.py). "contest" has N and the moduli that the board shows. "burst" has the bytes
of one read, with its time. "board" comes whenever the board has changed. `contest serve --digits FILE` plays the digits
again with their pauses; `contest find-hidden --digits FILE` takes both. A connection that ends is made again. """
import http.client
import logging
import re
import socket
import sys
import threading
import time

from contest.arguments import bounded, command_parser, complain
from contest.record import Record

LOG = logging.getLogger("contest")
AGAIN_S = 1.0


class Recorder:
    def __init__(self, options):
        self.options = options
        self.record = Record(options.file)
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.index = self.position = 0
        self.boards = 0
        self.constants = None

    def log(self, kind, **fields):
        with self.lock:
            self.record.log(kind, ns=time.time_ns(), **fields)
            self.record.flush()
        if self.record.error:
            self.ended.set()

    def follow_digits(self):
        while not self.ended.is_set():
            try:
                self._read_digits()
                LOG.warning("the digits ended; again")
            except (OSError, http.client.HTTPException) as error:
                LOG.warning("the digits: %s; again", str(error) or type(error).__name__)
            self.ended.wait(AGAIN_S)

    def _read_digits(self):
        address = self.options.host, self.options.port_base + 1
        with socket.create_connection(address, timeout=self.options.timeout) as sock:
            sock.sendall(f"GET / HTTP/1.1\r\nHost: {self.options.host}\r\n\r\n".encode())
            response = http.client.HTTPResponse(sock)
            response.begin()
            if response.status != 200:
                raise http.client.HTTPException(f"HTTP {response.status} {response.reason}")
            self.log("feed-open", id=self.index, ip=self.options.host, position=self.position)
            while not self.ended.is_set() and (data := response.read1(65536)):
                digits = re.sub("[^0-9]", "", data.decode("ascii", "replace"))
                self.log("burst", index=self.index, position=self.position, digits=digits)
                self.index, self.position = self.index + 1, self.position + len(digits)

    def follow_board(self):
        before = ""
        while not self.ended.is_set():
            try:
                text = self._read_board()
                shown = re.sub(r"\(last update .*\)", "", text)
                if shown != before:
                    self._log_constants(text)
                    self.log("board", text=text)
                    before, self.boards = shown, self.boards + 1
            except (OSError, http.client.HTTPException) as error:
                LOG.warning("the board: %s; again", str(error) or type(error).__name__)
            self.ended.wait(self.options.every)

    def _read_board(self):
        connection = http.client.HTTPConnection(self.options.host, self.options.port_base, timeout=self.options.timeout)
        try:
            connection.request("GET", "/board.txt")
            response = connection.getresponse()
            if response.status != 200:
                raise http.client.HTTPException(f"HTTP {response.status} {response.reason}")
            return response.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def _log_constants(self, text):
        n, known = re.search(r"^N\s*= (\d+)$", text, re.M), re.findall(r"^M\d+ = (\d+)$", text, re.M)
        if n and (n[1], known) != self.constants:
            self.constants = n[1], known
            self.log("contest", n=int(n[1]), constants=known, known=len(known))


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
    for follow in (recorder.follow_digits, recorder.follow_board):
        threading.Thread(target=follow, daemon=True).start()
    try:
        recorder.ended.wait(options.seconds or None)
    except KeyboardInterrupt:
        pass
    recorder.ended.set()
    with recorder.lock:
        recorder.record.close()
    if recorder.record.error:
        complain("record", recorder.record.error)
    print(f"{recorder.position} digits in {recorder.index} pieces, {recorder.boards} boards", file=sys.stderr)
    return 0 if recorder.position and not recorder.record.error else 1
