"""The parts that the tools' command lines share: version, commands, a parser of numbers, and where the builds lie."""
import argparse
import errno
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = (HERE / "VERSION").is_file()            # `make install` puts it beside the tools
ROOT = HERE if INSTALLED else HERE.parent
COMMANDS = "" if INSTALLED else "tools/"             # the folder in a message that names a tool
PAGES = HERE.parents[1] / "share/doc/peregrine" if INSTALLED else "docs"     # in a message that names a page
BUILD = ROOT / ("images" if INSTALLED else "build")
UNSAID = []                 # reasons of failed writes to standard output
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


def command_parser(program, command, description):
    """Returns the parser of a program's command, to which its options are added. Its examples name the program as it
    is installed."""
    name = program.removeprefix("peregrine-")
    examples = re.sub(rf"(^    |`){name} (?=\w)", rf"\1{program} ", description, flags=re.MULTILINE)
    parser = argparse.ArgumentParser(prog=f"{program} {command}", description=examples,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_version(parser)
    return parser


def words_of(problem):
    """Returns what a text or an exception says. An OSError says its file and the reason, and no number."""
    if not isinstance(problem, OSError):
        return str(problem)
    return f"{problem.filename}: {problem.strerror}" if problem.filename else problem.strerror or str(problem)


def printable(text):
    """Shows control characters by their escapes, as \\x1b: text of a host goes to a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c == "\t" else
                   c.encode("unicode_escape", "backslashreplace").decode("ascii") for c in text)


def say(text, file=None):
    """Prints text at once. If the reader has enough, as `head`, or the disk is full, the work goes on: its end does
    not depend on them."""
    try:
        print(text, file=file, flush=True)
    except OSError as error:
        if file is sys.stderr:              # `until_enough` looks after standard output
            os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
        elif error.errno != errno.EPIPE:
            UNSAID.append(error.strerror)


def complain(program, command, problem):
    say(printable(f"{program} {command}: {words_of(problem)}"), sys.stderr)


def run_command(program, commands, run, words):
    """Calls `run_one_command`, whose reader may have enough."""
    return until_enough(lambda: run_one_command(program, commands, run, words))


def run_one_command(program, commands, run, words):
    """Calls `run` with the command that the words begin with, and with the other words. Returns the exit status.

    `commands` has the commands, each with a text for the program's help."""
    rows = "\n".join(f"  {name:12} {text}" for name, text in commands.items())
    usage = f"usage: {program} COMMAND ...      ({program} COMMAND --help)\n\n{rows}\n"
    if not words or words[0] in ("help", "-h", "--help"):
        print(usage, end="")
        return 0 if words else 2
    if words[0] == "--version":
        print(f"{program} {VERSION}")
        return 0
    if words[0] not in commands:
        print(f"{program}: '{words[0]}' is no command\n{usage}", end="", file=sys.stderr)
        return 2
    try:
        return run(words[0], words[1:])
    except KeyboardInterrupt:
        complain(program, words[0], "interrupted")
        return 130


def until_enough(run):
    """Calls `run`, and returns its exit status. If the reader of our output has enough, as `head`, that ends the
    program without a word; a command that has effects prints by `say`. A full disk is said, and is no success."""
    status = 0
    try:
        try:
            status = run()
        finally:                # argparse ends the program by an exception after its help
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC) or error.filename:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.ENOSPC:
            UNSAID.append(error.strerror)
    if UNSAID:
        print(f"standard output: {UNSAID[0]}", file=sys.stderr)
    return status or (1 if UNSAID else 0)
