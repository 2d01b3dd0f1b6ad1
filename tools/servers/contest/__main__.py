"""`python3 -m servers.contest COMMAND ...`, which tools/contest/contest runs."""
import argparse
import importlib
import sqlite3
import sys

from command_line import run_command
from servers.contest import store
from servers.contest.arguments import PROGRAM, complain

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


def module_of(command):
    return importlib.import_module(f"servers.contest.{MODULES.get(command, command.replace('-', '_'))}")


def make_parser():
    """Returns one parser of all commands, for the shell's completion. `main` loads the module of one command only."""
    top = argparse.ArgumentParser(prog=PROGRAM)
    commands = top.add_subparsers()
    for command, text in COMMANDS.items():
        commands.add_parser(command, help=text, parents=[module_of(command).make_parser()], add_help=False)
    return top


def run(command, words):
    try:
        return module_of(command).main(words)
    except (store.StoreError, sqlite3.Error) as error:
        way_out = "" if isinstance(error, store.StoreError) else f"; {store.recovery('STORE')}"
        complain(command, f"the store cannot be read: {error}{way_out}")
        return 1


def main(words):
    return run_command(PROGRAM, COMMANDS, run, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
