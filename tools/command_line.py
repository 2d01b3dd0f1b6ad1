"""The parts that the tools' command lines share: the version, a parser of numbers, and where the builds lie."""
import argparse
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = (HERE / "VERSION").is_file()            # `make install` puts it beside the tools
ROOT = HERE if INSTALLED else HERE.parent
COMMANDS = "" if INSTALLED else "tools/"             # the folder in a message that names a tool
BUILD = ROOT / ("images" if INSTALLED else "build")
VERSION = (ROOT / "VERSION").read_text(encoding="ascii").strip()


def add_version(parser):
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")


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
