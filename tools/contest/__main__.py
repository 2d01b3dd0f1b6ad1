"""`python3 -m contest COMMAND ...`, which tools/contest/contest runs."""
import importlib
import os
import sqlite3
import sys

from contest import store

COMMANDS = {
    "init": "makes the store of a contest: its name, rounds, schedule, users",
    "plan": "prints the plan of a store, adds users, moves the end",
    "serve": "runs a contest: the digits, the submissions, and its board",
    "board": "serves the board of a store: a live page, text, JSON, pictures",
    "replay": "prints the board of any moment of a store",
    "export": "writes a store's tables as CSV, its digits as text, or its record",
    "record": "keeps the digits and the board of somebody else's contest",
    "find-hidden": "finds a modulus of which only the primes are known",
    "explain-m": "says what a modulus is made of, and what that means for a player",
}

MODULES = {"record": "recorder", "plan": "show"}        # contest/record.py and plan.py are the things themselves


def usage():
    rows = "\n".join(f"  {name:12} {text}" for name, text in COMMANDS.items())
    return f"usage: contest COMMAND ...      (contest COMMAND --help)\n\n{rows}\n"


def main(words):
    if not words or words[0] in ("help", "-h", "--help"):
        print(usage(), end="")
        return 0 if words else 2
    if words[0] not in COMMANDS:
        print(f"contest: '{words[0]}' is no command\n{usage()}", end="", file=sys.stderr)
        return 2
    module = importlib.import_module(f"contest.{MODULES.get(words[0], words[0].replace('-', '_'))}")
    try:
        status = module.main(words[1:])
        sys.stdout.flush()
        return status
    except (store.StoreError, sqlite3.Error) as error:
        way_out = "" if isinstance(error, store.StoreError) else f"; {store.recovery('STORE')}"
        print(f"contest {words[0]}: the store cannot be read: {error}{way_out}", file=sys.stderr)
        return 1
    except BrokenPipeError:         # the reader of our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
