"""`python3 -m exchange COMMAND ...`, with tools/ in PYTHONPATH."""
import importlib
import os
import sys

from command_line import VERSION
from exchange.arguments import PROGRAM

COMMANDS = {
    "serve": "runs an exchange: market data, snapshots, orders",
    "generate": "writes the market data of a session into a file",
}


def usage():
    rows = "\n".join(f"  {name:10} {text}" for name, text in COMMANDS.items())
    return f"usage: {PROGRAM} COMMAND ...      ({PROGRAM} COMMAND --help)\n\n{rows}\n"


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
        status = importlib.import_module(f"exchange.{words[0]}").main(words[1:])
        sys.stdout.flush()
        return status
    except BrokenPipeError:         # the reader of our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
