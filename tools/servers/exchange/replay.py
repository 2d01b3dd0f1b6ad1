"""Plays a recorded day through the trading program: the same code, on this machine, with simulated fills.

    exchange replay day.itch.gz symbols=ACME,BOLT strategy=join risk.short=on
    exchange replay today.pcapng --file trade.conf --fills recorded

FILE is a file of ITCH messages, each after its length in two bytes, or a capture (pcap, pcapng) of MoldUDP64. Each may
be packed by gzip, and each may be a pipe, as /dev/stdin. KEY=VALUE are the program's settings (app/trade/README.md).
`feed.a`, `orders`, `user` and `passwd` may be left out; for a capture `feed.a` says to which group and port the feed's
datagrams go.

Writes NAME.json (all orders and responses, profit by time, statistics), NAME.html and NAME.log. Prices and profits
in the JSON are in units of 0.0001, times in nanoseconds since 1970, or since midnight if the file is of ITCH messages.

Exit code: 0; 1 the file cannot be played, or not to its end, or the recorded orders differ; 2 the command line or the
settings.
"""
import argparse
import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

from command_line import BUILD
from servers.exchange import replay_page
from servers.exchange.arguments import PROGRAM, bounded, command_parser, complain

REPLAY = BUILD.parent / os.environ.get("BUILD", BUILD.name) / "host/trade-replay"
UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
GZIP = b"\x1f\x8b"
SAMPLES_MAX = 2000          # profits on the curve
SHOWN = 200                 # events on the page
BINS_AN_OCTAVE = 4
DRAW_S, LINE_S = 0.5, 10    # between two progress lines on a terminal, and elsewhere
SECRETS = ("key", "passwd")
ENDS = ("gg", "recording")  # by which the program ends when the recording has ended


def time_of(text):
    """Parses a time with its unit as nanoseconds."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s)", text)
    ns = round(float(match[1]) * UNITS_NS[match[2]]) if match else -1
    if not 0 <= ns <= 10**9:
        raise argparse.ArgumentTypeError(f"'{text}' is no time from 0s to 1s with its unit, as in 50us")
    return ns


def speed_of(text):
    return 0 if text == "max" else bounded(float, 0.001, 1e6)(text)


def make_parser():
    parser = command_parser("replay", __doc__)
    add = parser.add_argument
    add("recording", metavar="FILE")
    add("words", metavar="KEY=VALUE", nargs="*", help="a setting of the program")
    add("--file", dest="conf", action="append", default=[], metavar="CONF",
        help="settings from a file; may be repeated")
    add("--speed", type=speed_of, default=0, metavar="N",
        help="1: as on the day; N: N times as fast; max, the default: as fast as it goes")
    add("--fills", choices=("model", "recorded"), default="model",
        help="recorded: the exchange's responses are those of the capture, and the orders are compared (default model)")
    add("--latency", type=time_of, default=50_000, metavar="TIME",
        help="of the model, from the program to the exchange and back, each way (default 50us)")
    add("--out", default="replay", metavar="NAME", help="of the files that are written (default replay)")
    return parser


class Histogram:
    """Counts of times by a quarter of an octave."""

    def __init__(self):
        self.counts = collections.Counter()

    def add(self, ns):
        octave = ns.bit_length()
        self.counts[octave * BINS_AN_OCTAVE + (ns << BINS_AN_OCTAVE >> octave) % 8 // 2 if ns else 0] += 1

    def rows(self):
        """Returns [upper end in ns, count] for each bin from the first to the last that has any."""
        used = sorted(self.counts)
        return [[self.end(at), self.counts[at]] for at in range(used[0], used[-1] + 1)] if used else []

    @staticmethod
    def end(at):
        octave, part = divmod(at, BINS_AN_OCTAVE)
        return (4 + part + 1 << octave) // 8

    def quantile(self, share):
        """Returns the upper end of the bin that holds the quantile."""
        left = share * self.counts.total()
        for end, count in self.rows():
            left -= count
            if left <= 0:
                return end
        return 0


class Samples:
    """Profit by time: each second of the file at first, and half as often whenever SAMPLES_MAX are reached."""

    def __init__(self):
        self.rows, self.step, self.count = [], 1, 0

    def add(self, row):
        if self.count % self.step == 0:
            self.rows.append(row)
        self.count += 1
        if len(self.rows) == SAMPLES_MAX:
            self.rows, self.step = self.rows[::2], self.step * 2


class Result:
    """Gathers the lines of the program. The events go to the file at once: a day may have any number."""

    def __init__(self, out, head):
        self.out, self.counts, self.latest = out, collections.Counter(), collections.deque(maxlen=SHOWN)
        self.samples, self.delays, self.symbols = Samples(), Histogram(), {}
        self.last, self.progress, self.end, self.failure = [0, 0, 0], None, None, None
        out.write(json.dumps(head)[:-1] + ',\n"events": [')

    def take(self, line):
        event = json.loads(line)
        kind = event["event"]
        if kind == "progress":
            self.progress = event
        elif kind == "profit":
            self.last = [event["time"], event["profit"], event["drawdown"]]
            self.samples.add(self.last)
        elif kind == "end":
            self.end = event
        elif kind == "failure":
            self.failure = event["failure"]
        else:
            self.out.write(",\n" if self.counts else "\n")
            self.out.write(line.rstrip())
            self.counts[kind] += 1
            self._note(kind, event)

    def _note(self, kind, event):
        self.latest.append(event)
        if "ns" in event:
            self.delays.add(event["ns"])
        if kind == "fill":
            self.counts["shares"] += event["shares"]

    def summary(self):
        counts = self.counts
        return {"orders": counts["enter"], "replacements": counts["replace"], "cancellations": counts["cancel"],
                "rejected": counts["rejected"], "fills": counts["fill"], "shares": counts["shares"],
                "profit": self.last[1], "drawdown": self.last[2], "packets": self.end["packets"],
                "from": self.end["from"], "until": self.end["until"], "end": self.end["end"],
                **({"recorded": self.end["recorded"]} if "recorded" in self.end else {})}

    def finish(self):
        """Writes the rest of the document. Returns what the page shows."""
        rows = self.samples.rows
        if rows and rows[-1] != self.last:
            rows.append(self.last)
        delays = {"p50": self.delays.quantile(0.5), "p99": self.delays.quantile(0.99), "bins": self.delays.rows()}
        rest = {"summary": self.summary(), "profit": rows, "tick_to_order_ns": delays,
                "statistics": self.end["statistics"]}
        self.out.write("\n],\n" + json.dumps(rest)[1:] + "\n")
        return {**rest, "latest": list(self.latest)}


class Progress:
    def __init__(self):
        self.on_terminal = sys.stderr.isatty()
        self.due_s = time.monotonic() + (DRAW_S if self.on_terminal else LINE_S)

    def show(self, result):
        if not result.progress or time.monotonic() < self.due_s:
            return
        self.due_s = time.monotonic() + (DRAW_S if self.on_terminal else LINE_S)
        at, counts = result.progress, result.counts
        line = (f"{PROGRAM} replay: {replay_page.clock(at['time'])}, {at['packets']:,} packets, "
                f"{counts['enter'] + counts['replace']} orders, {counts['fill']} fills")
        print(f"\r\x1b[2K{line}" if self.on_terminal else line, end="" if self.on_terminal else "\n", file=sys.stderr,
              flush=True)

    def end(self):
        if self.on_terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


class Failure(Exception):
    """The day was not played. The status is ours."""

    def __init__(self, text, status):
        super().__init__(text)
        self.status = status


@contextlib.contextmanager
def replaced(path):
    """Yields a file that takes the place of `path` at the end. If that does not come, the old one stays."""
    part = f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8", errors="backslashreplace") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        error.filename = error.filename or path         # none if a write has failed
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


@contextlib.contextmanager
def unpacked(path):
    """Yields the file, by way of gzip if that has packed it, or may have. Raises OSError, also if gzip fails."""
    with open(path, "rb", buffering=0) as file:      # the process reads on where we have stopped
        if file.seekable():
            packed = file.read(2) == GZIP
            file.seek(0)
            if not packed:
                yield file
                return
        # A pipe cannot be read twice. With -f gzip copies a file of any other kind.
        with subprocess.Popen(["gzip", "-dcf"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              start_new_session=True) as gzip:      # Ctrl-C is for the program alone
            yield gzip.stdout
            gzip.stdout.close()
            trouble = gzip.stderr.read().decode().strip()
        if gzip.returncode > 0:
            raise OSError(0, trouble.removeprefix("gzip: stdin: ").strip() or "gzip fails", path)


def play(options, result):
    """Runs the program, and hands its lines to the result. Returns its exit status."""
    words = [REPLAY, "--fills", options.fills, "--speed", str(options.speed), "--latency-ns", str(options.latency),
             *(word for conf in options.conf for word in ("--file", conf)), *options.words]
    progress = Progress()
    with unpacked(options.recording) as file, open(f"{options.out}.log", "w", encoding="utf-8") as log:
        with subprocess.Popen(words, stdin=file, stdout=subprocess.PIPE, stderr=log, text=True) as process:
            signal.signal(signal.SIGINT, lambda *_: None)       # the program ends in order, and so do we
            for line in process.stdout:
                result.take(line)
                progress.show(result)
    progress.end()
    return process.returncode


def say(options, result):
    """Prints what has come out. Returns the exit status."""
    got = result.summary()
    print(f"{PROGRAM} replay: {got['orders']} orders, {got['replacements']} replacements, {got['fills']} fills of "
          f"{got['shares']} shares, profit ${got['profit'] / 1e4:.2f}, drawdown ${got['drawdown'] / 1e4:.2f}; "
          f"{options.out}.html, {options.out}.json, {options.out}.log")
    if got["end"] not in ENDS:
        complain("replay", f"{options.recording}: was not played to its end, but to {replay_page.clock(got['until'])}: "
                           f"{got['end']}")
        return 1
    recorded = got.get("recorded")
    if not recorded:
        return 0
    if recorded["same"] == recorded["day"] == recorded["replay"]:
        print(f"{PROGRAM} replay: all {recorded['day']} messages to the exchange are those of the day")
        return 0
    complain("replay", f"the messages to the exchange are those of the day up to the {recorded['same']}th; the day has "
                       f"{recorded['day']}, the replay {recorded['replay']}")
    return 1


def main(words):
    options = make_parser().parse_intermixed_args(words)
    if not REPLAY.exists():
        complain("replay", f"{REPLAY} is not built: make host")
        return 1
    head = {"file": options.recording, "fills": options.fills, "latency_ns": options.latency,
            "settings": [word for word in options.words if word.partition("=")[0] not in SECRETS]}
    try:
        with replaced(f"{options.out}.json") as out:
            result = Result(out, head)
            status = play(options, result)
            if not result.end:
                raise Failure(f"{'' if status == 2 else options.recording + ': '}"
                              f"{result.failure or f'the program has failed: {options.out}.log'}", max(status, 1))
            shown = result.finish()
            with replaced(f"{options.out}.html") as page:
                page.write(replay_page.render({**head, **shown}))
    except Failure as failure:
        complain("replay", failure)
        return failure.status
    except OSError as error:
        complain("replay", error)
        return 1
    return say(options, result)
