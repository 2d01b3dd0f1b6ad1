"""`python3 -m exchange COMMAND ...`, with tools/ in PYTHONPATH."""
import sys
from importlib import import_module

from command_line import run_command
from exchange.arguments import PROGRAM

COMMANDS = {
    "serve": "runs an exchange: market data, snapshots, orders",
    "generate": "writes the market data of a session into a file",
}


def main(words):
    return run_command(PROGRAM, COMMANDS, lambda command, more: import_module(f"exchange.{command}").main(more), words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
