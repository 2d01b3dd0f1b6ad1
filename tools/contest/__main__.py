"""`python3 -m contest COMMAND ...`, which tools/contest/contest runs."""
import argparse
import importlib
import os
import sqlite3
import sys

from command_line import VERSION
from contest import store
from contest.arguments import PROGRAM

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
    return f"usage: {PROGRAM} COMMAND ...      ({PROGRAM} COMMAND --help)\n\n{rows}\n"


def module_of(command):
    return importlib.import_module(f"contest.{MODULES.get(command, command.replace('-', '_'))}")


def make_parser():
    """Returns one parser of all commands, for the shell's completion. `main` loads the module of one command only."""
    top = argparse.ArgumentParser(prog=PROGRAM)
    commands = top.add_subparsers()
    for command, text in COMMANDS.items():
        commands.add_parser(command, help=text, parents=[module_of(command).make_parser()], add_help=False)
    return top


def main(words):
    if not words or words[0] in ("help", "-h", "--help"):
        print(usage(), end="")
        return 0 if words else 2
    if words[0] == "--version":
        print(f"{PROGRAM} {VERSION}")
        return 0
    if words[0] not in COMMANDS:
        print(f"{PROGRAM}: '{words[0]}' is no command\n{usage()}", end="", file=sys.stderr)
        return 2
    try:
        status = module_of(words[0]).main(words[1:])
        sys.stdout.flush()
        return status
    except (store.StoreError, sqlite3.Error) as error:
        way_out = "" if isinstance(error, store.StoreError) else f"; {store.recovery('STORE')}"
        print(f"{PROGRAM} {words[0]}: the store cannot be read: {error}{way_out}", file=sys.stderr)
        return 1
    except BrokenPipeError:         # the reader of our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
