"""tools/exchange COMMAND ...: docs/exchange.md."""
import sys
from importlib import import_module

from command_line import run_command
from servers.exchange.arguments import PROGRAM

COMMANDS = {
    "serve": "runs an exchange: market data, snapshots, orders",
    "generate": "writes the market data of a session into a file",
    "cancel": "cancels the orders that a crash record or a log names",
    "replay": "plays a recorded day through the trading program",
}


def main(words):
    def run(command, more):
        return import_module(f"servers.exchange.{command}").main(more)
    return run_command(PROGRAM, COMMANDS, run, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
