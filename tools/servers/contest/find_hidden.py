"""Finds the modulus of a round of which the board shows only the primes, by listening to the digits.

    contest find-hidden HOST               # reads the board at port 10000, then listens at port 10001
    contest find-hidden --board FILE ...   # from boards alone (board.txt, several of them); elided answers do not count
    contest find-hidden --board FILE ... --digits FILE     # from both: the digits fill in what the boards elide
    contest find-hidden --digits FILE --n 256 --primes 3,7,11

FILE of --digits is text, or a record (contest/record.py), whose boards count as well. Progress goes to stderr, the
modulus in decimal to stdout: a part of the m= setting. Each planted answer makes the result surer. About 20 are
needed: a minute or two, if all moduli together have one planted answer a second.

Exit code: 0 found; 1 the digits ended before the result was sure (the best guess is on stderr); 2 wrong usage, or a
file that cannot be read. Exit code 3: the server cannot be reached, or its board has nothing hidden. """
import argparse
import re
import sys
import time

from command_line import words_of
from servers.contest import foreign, record, rounds
from servers.contest.arguments import bounded, command_parser
from servers.contest.foreign import ForeignError
from servers.contest.hidden import Finder, HiddenError
from servers.contest.hidden_answers import AnswerFinder, answers_on, in_full


def say(text):
    print(f"contest find-hidden: {text}", file=sys.stderr, flush=True)


def read_board(text):
    """Returns N, the known moduli, and the name and the primes of the hidden one."""
    n, known, hidden = foreign.rules_of(text)
    if len(hidden) != 1:
        raise ForeignError(f"the board hides {len(hidden)} constants, not one")
    return n, known, *hidden[0]


def pieces(options, digits):
    """Yields the digits in pieces, as they come. `digits`: those of a file."""
    if options.digits == "-":
        while piece := sys.stdin.buffer.read1(65536):
            yield piece.decode("ascii", "replace")
        return
    if options.digits:
        yield from (digits[at:at + 65536] for at in range(0, len(digits), 65536))
        return
    page = foreign.Page(options.host, options.port_base + 1, "/", options.timeout)
    try:
        for piece in page.pieces():
            yield piece.decode("ascii", errors="replace")
    except ForeignError as error:
        say(f"the digits ended: {error}")


def read_text(path):
    try:
        with (sys.stdin if path == "-" else open(path, encoding="utf-8")) as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise record.RecordError(f"{path}: no text in UTF-8") from error


def read_record(path):
    """Returns digits and boards of a file: a record's, or the digits of a text."""
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return re.sub("[^0-9]", "", text), []
    lines = record.parse(text.splitlines(keepends=True), path)
    return ("".join(str(line.get("digits", "")) for line in lines if line["kind"] == "burst"),
            [str(line.get("text", "")) for line in lines if line["kind"] == "board"])


def find_on_boards(options, boards, digits):
    """Searches boards, with the digits if there are any. Returns the finder, the modulus's name, and if it is sure."""
    n, known, name, primes = read_board(boards[0])
    finder = AnswerFinder(options.primes or primes, known)
    finder.push(in_full(set().union(*map(answers_on, boards)), options.n or n, digits))
    say(f"{name} has the primes {', '.join(map(str, finder.primes))}; "
        f"{finder.planted} of its answers on {len(boards)} boards")
    return finder, name, finder.doubt <= options.doubt


def powers_text(powers):
    return "*".join(f"{p}^{e}" if e != 1 else str(p) for p, e in powers.items() if e) or "1"


def find(finder, options, digits):
    """Searches until the finder is sure or the digits end. Returns true if it is sure."""
    begun = time.monotonic()
    for piece in pieces(options, digits):
        if finder.push(re.sub("[^0-9]", "", piece)):
            say(f"{time.monotonic() - begun:.0f} s, {finder.digits} digits, {finder.planted} planted: at most "
                f"{powers_text(finder.powers)}, wrong with a chance of {finder.doubt:.1g}")
            if finder.doubt <= options.doubt:
                return True
    return False


def primes_list(text):
    primes = [bounded(int, 2, foreign.PRIME_MAX)(word) for word in text.split(",")]
    for p in primes:
        if not foreign.is_prime(p):
            raise argparse.ArgumentTypeError(f"{p} is no prime")
    return primes


def make_parser():
    parser = command_parser("find-hidden", __doc__)
    add = parser.add_argument
    add("host", nargs="?", metavar="HOST", help="address or name of the contest server")
    add("--port-base", type=bounded(int, 1, 65534), default=10000, metavar="PORT",
        help="its pages; the digits are at the next one (default 10000)")
    add("--digits", metavar="FILE",
        help="instead of a server: digits from a file, - for stdin; without a board, --n and --primes, too")
    add("--board", metavar="FILE", nargs="+", default=[],
        help="instead of a server: board.txt as it was seen, several times")
    add("--n", type=bounded(int, 1, rounds.N_MAX), help="instead of the board's N")
    add("--primes", type=primes_list, metavar="P,P,...", help="instead of those on the board")
    add("--doubt", type=bounded(float, 0, 1), default=1e-6, metavar="CHANCE", help="how sure it must be (default 1e-6)")
    add("--timeout", type=bounded(float, 0.001, 1e6), default=60, metavar="S",
        help="give up if nothing comes for so long (default 60)")
    return parser


def parse_options(words):
    parser = make_parser()
    options = parser.parse_args(words)
    if bool(options.host) == bool(options.digits or options.board):
        parser.error("either HOST or --digits FILE, or --board FILE")
    return options


def main(words):
    options = parse_options(words)
    finder, name, digits, boards = None, "M", "", []
    try:
        if options.digits and (options.board or options.digits != "-"):
            digits, boards = read_record(options.digits)
        boards += [read_text(path) for path in options.board]
        if boards:
            finder, name, sure = find_on_boards(options, boards, digits)
            return conclude(finder, name, sure)
        n, known, primes = options.n, [], options.primes
        if options.digits and not (n and primes):
            raise record.RecordError(f"{options.digits}: --digits needs --n and --primes, or a board")
        if options.host and not (n and primes):
            n, known, name, primes = read_board(foreign.read_board(options.host, options.port_base, options.timeout))
        n, primes = options.n or n, options.primes or primes
        say(f"{name} has the primes {', '.join(map(str, primes))}; N = {n}")
        finder = Finder(n, primes, known)
        sure = find(finder, options, digits)
    except (ForeignError, HiddenError) as error:
        say(str(error))
        return 3
    except (OSError, record.RecordError) as error:
        say(words_of(error))
        return 2
    except KeyboardInterrupt:
        sure = False
    return conclude(finder, name, sure)


def conclude(finder, name, sure):
    """Says what was found; returns the exit code."""
    if finder and sure:
        say(f"{name} = {powers_text(finder.powers)}")
        print(finder.constant)
        return 0
    if finder and finder.planted:
        say(f"not sure: {name} is {powers_text(finder.powers)} or a divisor; wrong with a chance of {finder.doubt:.1g}")
    else:
        say("no planted answer was seen")
    return 1
