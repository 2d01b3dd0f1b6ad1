#!/usr/bin/env python3
"""The contest server: digits on port 10001, submissions on 10002, rules and board on 10000.

Everything that is sent follows from --seed. `contest/record.py` describes the record, `contest/scoring.py` the
verdicts, `contest/rounds.py` the file that --round takes.
"""
import argparse
import gc
import json
import re
import signal
import sys
import time

from contest import rounds
from contest.servers import ContestServer, Options


def span(kind, most):
    """MIN-MAX or one number, none above `most`, as a pair."""
    def parse(text):
        low, dash, high = text.partition("-")
        try:
            pair = kind(low), kind(high if dash else low)
        except ValueError:
            pair = (1, 0)
        if not 0 <= pair[0] <= pair[1] <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not MIN-MAX, at most {most}")
        return pair
    return parse


def bounded(kind, low, high):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {low} to {high}")
        return value
    return parse


def round_of(text):
    try:
        return rounds.load_round(text)
    except rounds.RoundError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def users_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{path}: no text in UTF-8") from error
    for line in lines:
        if not re.fullmatch(r"[^:]+:.*", line):
            raise argparse.ArgumentTypeError(f"{path}: '{line}' is not user:password")
    return dict(line.split(":", 1) for line in lines)


def parse_options(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--round", type=round_of, default=rounds.ONLINE, metavar="online|onsite|qualification|FILE")
    add("--seed", default="1", help="any text (default 1)")
    add("--rate", type=bounded(float, 0, 1e6), default=1.0, help="planted answers a second (default 1)")
    add("--burst", type=span(int, 10**6), default=(50, 300), metavar="MIN-MAX", help="digits (default 50-300)")
    add("--interval", type=span(float, 3600), default=(0.2, 0.5), metavar="MIN-MAX", dest="interval_s",
        help="seconds between bursts (default 0.2-0.5)")
    add("--body", choices=("raw", "chunked"), default="raw", help="how the digits are framed")
    add("--start", choices=("push", "wait"), default="push", help="send at connect, or wait for the request")
    add("--begin", choices=("now", "player"), default="now", help="first burst: at once, or with the first player")
    add("--duration", type=bounded(float, 0, 1e9), default=0, dest="duration_s", metavar="S",
        help="seconds of digits (default: for ever)")
    add("--bursts", type=bounded(int, 0, 10**9), default=0, metavar="COUNT",
        help="the digits end after so many bursts: the same answers on every machine")
    add("--grace", type=bounded(float, 0, 3600), default=0, metavar="S",
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
    add("--users", type=users_of, metavar="FILE", help="lines user:password (default: anybody)")
    add("--record", default="", metavar="FILE", help="all that was offered and submitted, as JSON lines")
    words = parser.parse_args(words)
    if words.burst[0] < 1:
        parser.error("argument --burst: a burst has at least one digit")
    if words.interval_s[1] == 0:
        parser.error("argument --interval: 0 would be one endless burst")
    return words


def main():
    words = parse_options(sys.argv[1:])
    grace_s = words.grace
    del words.grace
    try:
        server = ContestServer(Options(**vars(words)))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"contest_server: {where}{error.strerror or error}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    print("listening " + " ".join(f"{kind}={words.bind}:{port}" for kind, port in server.ports.items()), flush=True)
    gc.freeze()
    ends_at = None
    while not server.stopped:
        server.turn(0.2)
        if server.over and grace_s and ends_at is None:
            ends_at = time.monotonic() + grace_s
        if ends_at is not None and time.monotonic() >= ends_at:
            server.stop()
    server.close()
    for name in server.contest.users:
        print(json.dumps(server.contest.summary(name)))


if __name__ == "__main__":
    main()
