"""Parsers of the words that the commands share."""
import argparse
import functools
import ipaddress
import re

import command_line
from command_line import bounded
from servers.exchange import soupbintcp

PROGRAM = "peregrine-exchange" if command_line.INSTALLED else "exchange"
command_parser = functools.partial(command_line.command_parser, PROGRAM)
complain = functools.partial(command_line.complain, PROGRAM)
SYMBOL = re.compile(r"[A-Z][A-Z0-9.+-]{0,7}")
SYMBOLS_MAX = 1000
USER = re.compile(r"[A-Za-z0-9]{1,%d}" % soupbintcp.USER_BYTES)
PASSWORD = re.compile(r"[!-~]{1,%d}" % soupbintcp.PASSWORD_BYTES)
HALT = re.compile(r"([^@]+)@([0-9.]+)\+([0-9.]+)")
SESSION = re.compile(r"[A-Za-z0-9]{10}")


def address_of(text):
    """Parses IP:PORT as a pair."""
    ip, colon, port = text.rpartition(":")
    try:
        ipaddress.IPv4Address(ip)
        if colon and port.isascii() and port.isdigit() and int(port) <= 65535:
            return ip, int(port)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is not IP:PORT, as in 127.0.0.1:26400")


def ip_of(text):
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no IP, as in 127.0.0.1") from None


def symbols_of(text):
    symbols = text.split(",")
    for symbol in symbols:
        if not SYMBOL.fullmatch(symbol):
            raise argparse.ArgumentTypeError(f"'{symbol}' is no symbol: 1 to 8 of A-Z, 0-9 and .+-, a letter first")
        if symbols.count(symbol) > 1:
            raise argparse.ArgumentTypeError(f"'{symbol}' stands there twice")
    if len(symbols) > SYMBOLS_MAX:
        raise argparse.ArgumentTypeError(f"{len(symbols)} symbols, more than {SYMBOLS_MAX}")
    return symbols


def account_of(text):
    """Parses USER:PASSWORD as a pair."""
    user, colon, password = text.partition(":")
    if not colon or not USER.fullmatch(user) or not PASSWORD.fullmatch(password):
        quoted = f"'{user}:...'" if colon else f"a word of {len(text)} characters (not shown)"
        raise argparse.ArgumentTypeError(f"{quoted} is not USER:PASSWORD: 1 to {soupbintcp.USER_BYTES} letters and "
                                         f"digits, 1 to {soupbintcp.PASSWORD_BYTES} characters")
    return user, password


def halt_of(text):
    """Parses SYMBOL@AT+FOR as (symbol, s, s)."""
    match = HALT.fullmatch(text)
    try:
        return match[1], float(match[2]), float(match[3])
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"'{text}' is not SYMBOL@AT+FOR, as in ACME@30+5 (seconds)") from None


def session_of(text):
    if not SESSION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no session: ten letters and digits")
    return text


def add_flow(add):
    """Adds the words that the order flow follows from."""
    add("--seed", default="1", help="any text (default 1)")
    add("--symbols", type=symbols_of, default=["ACME", "BOLT", "CRUX", "DUNE"], metavar="A,B",
        help="stocks (default ACME,BOLT,CRUX,DUNE)")
    add("--rate", type=bounded(float, 0, 1e6), default=200, help="orders and changes of orders a second (default 200)")
    add("--orders-max", type=bounded(int, 1, 10**6), default=400, metavar="COUNT",
        help="orders of others in a book (default 400)")
    add("--preopen", type=bounded(float, 0, 1e5), default=2, metavar="S",
        help="seconds before the opening cross (default 2)")
    add("--halt", type=halt_of, action="append", default=[], metavar="SYMBOL@AT+FOR",
        help="halts a stock AT seconds after the begin, FOR seconds; may be repeated")


def checked_flow(parser, options):
    """Ends with a message if a halt is of a stock that is not there."""
    for symbol, _, _ in options.halt:
        if symbol not in options.symbols:
            parser.error(f"--halt: '{symbol}' is none of the symbols {','.join(options.symbols)}")
