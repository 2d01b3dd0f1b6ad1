"""Parsers for the words that several commands share."""
import argparse
import functools

import command_line
from command_line import INSTALLED, bounded
from servers.contest import plan, rounds

PROGRAM = "peregrine-contest" if INSTALLED else "contest"
command_parser = functools.partial(command_line.command_parser, PROGRAM)
complain = functools.partial(command_line.complain, PROGRAM)
SERVED = "/var/lib/peregrine-contest/contest.db"       # the store of the installed service


def add_store(parser, help_text):
    """Adds STORE. An installed contest has one, where its service looks."""
    if INSTALLED:
        parser.add_argument("store", nargs="?", default=SERVED, metavar="STORE",
                            help=f"{help_text} (default: {SERVED})")
    else:
        parser.add_argument("store", metavar="STORE", help=help_text)


def span(kind, most):
    """Parses MIN-MAX or one number, none above `most`, as a pair."""
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


def of_plan(parse):
    """Wraps a parser of contest/plan.py or contest/rounds.py for argparse."""
    def parse_argument(text):
        try:
            return parse(text)
        except (plan.PlanError, rounds.RoundError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return parse_argument


def burst_of(text):
    pair = span(int, 10**6)(text)
    if pair[0] < 1:
        raise argparse.ArgumentTypeError("a burst has at least one digit")
    return pair


def interval_of(text):
    pair = span(float, 3600)(text)
    if pair[1] == 0:
        raise argparse.ArgumentTypeError("0 would be one endless burst")
    return pair


def users_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [(number, line.strip()) for number, line in enumerate(file, 1)
                     if line.strip() and not line.lstrip().startswith("#")]
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{path}: no text in UTF-8") from error
    passwords = {}
    for number, line in lines:
        name, colon, password = line.partition(":")
        if not colon:                   # the line may be a password
            raise argparse.ArgumentTypeError(f"{path}: line {number} has no colon: a line is user:password")
        if not plan.USER.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"{path}: '{name}': a line is user:password, the user 1 to 32 letters, digits and _.-")
        if not password:
            raise argparse.ArgumentTypeError(f"{path}: '{name}' has no password")
        if name in passwords:
            raise argparse.ArgumentTypeError(f"{path}: '{name}' stands there twice")
        passwords[name] = password
    return passwords


STREAM_WORDS = ("seed", "rate", "burst", "interval_s", "users")


def add_stream(add):
    """Adds the words that the digits follow from, without defaults: a store has its own."""
    add("--seed", help="any text (default 1)")
    add("--rate", type=bounded(float, 0, 1e6), help="planted answers a second (default 1)")
    add("--burst", type=burst_of, metavar="MIN-MAX", help="digits (default 50-300)")
    add("--interval", type=interval_of, metavar="MIN-MAX", dest="interval_s",
        help="seconds between bursts (default 0.2-0.5)")
    add("--users", type=users_of, metavar="FILE", help="lines user:password (default: anybody)")
