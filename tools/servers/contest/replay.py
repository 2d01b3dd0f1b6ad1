"""Prints board.txt (or board.json) of any moment of a stored contest, made again from its rows.

    contest replay cup.db --at 2026-11-23T20:15        contest replay cup.db --at 15m --json
"""
import contextlib
import re

from servers.contest import board_text, replica, store
from servers.contest.arguments import add_store, command_parser, complain, of_plan
from servers.contest.plan import parse_span, parse_time


def moment(text):
    """Parses a time, or a span from the beginning."""
    return ("span", parse_span(text)) if re.fullmatch(r"[0-9.]+[smhd]?", text) else ("time", parse_time(text))


def ns_of(connection, at):
    """Returns the moment in nanoseconds by the contest's clock. None: now."""
    if at is None:
        return None
    kind, value = at
    if kind == "time":
        return value
    begun = connection.execute("SELECT ns FROM event WHERE kind = 'begin'").fetchone()
    snapshot = None if begun else connection.execute("SELECT state FROM snapshot ORDER BY seq DESC LIMIT 1").fetchone()
    if snapshot:
        begun = [store.unpack(snapshot[0])["begun_ns"]]
    if not begun:
        raise store.StoreError("the contest has not begun")
    return begun[0] + round(value * 1e9)


def state_at(path, at):
    """Returns the replica of that moment, and the moment."""
    with contextlib.closing(store.connect(path)) as connection:
        ns = ns_of(connection, at)
        if ns is None:
            state = replica.at_present(connection)
            return state, state.ns
        state = replica.Replica(connection)
        state.load(ns)
        if state.seq == 0 and connection.execute("SELECT value FROM meta WHERE key = 'pruned'").fetchone():
            raise store.StoreError("the rows of that time have been deleted (--keep), and no snapshot is older")
        state.follow(ns)
        ns = min(ns, replica.latest_ns(connection))     # nothing is known of a later time
        state.contest.expire(ns)
        return state, ns


def make_parser():
    parser = command_parser("replay", __doc__)
    add_store(parser, "the contest")
    parser.add_argument("--at", type=of_plan(moment), metavar="TIME|SPAN",
                        help="local time, or span from the beginning (default: the end)")
    parser.add_argument("--json", action="store_true", help="board.json")
    return parser


def main(words):
    options = make_parser().parse_args(words)
    try:
        state, ns = state_at(options.store, options.at)
    except store.StoreError as error:
        complain("replay", error)
        return 1
    if options.json:
        print(board_text.json_text(state.contest, ns))
    else:
        print(board_text.board_text(state.contest, ns, state.warning), end="")
    if state.differing:
        complain("replay", f"{state.differing} verdicts differ from those that were given: rows are missing or changed")
        return 1
    return 0
