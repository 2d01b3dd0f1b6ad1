"""Cancels orders that a trading program has left open: it logs in as the account, and asks the exchange what became of
each order.

    peregrine record HOST | exchange cancel --file trade.conf
    exchange cancel --file trade.conf trade.log
    exchange cancel --file trade.conf --all

RECORD is a crash record, a log or gg's output, by default standard input. Each order counts that it says to be open, or
that it shows entered and not ended. With --all it is every open order of the account instead. CONF is a file of
settings: `orders` (and `orders.b`, which is asked if the first host cannot be had), `user` and `passwd`. End the
program first: an exchange may take one login of an account at a time.

Exit code: 0 no order of these is open; 1 one may still be open, and is named, or nobody could be asked. 2: the command
line, the settings or the record make no sense.
"""
import collections
import contextlib
import dataclasses
import itertools
import re
import socket
import struct
import sys
import time

from command_line import printable, say, words_of
from servers.exchange import ouch, soupbintcp
from servers.exchange.arguments import bounded, command_parser, complain

CONNECT_S = 3               # for a connection
CANCEL_S = 5                # for the answers to the cancellations
NUMBER = r"(\d{1,20})"      # up to 64 bits
ORDER = re.compile(rf"\border {NUMBER}(?: (?:is|stays) (?:open|cancelled)[^:]*|: (?:entered|replaces {NUMBER})): "
                   rf"(buy|sell) {NUMBER} ([!-~]{{1,8}}) *at {NUMBER}\.(\d{{4}})\b")
REDUCED = re.compile(rf"\border {NUMBER}: (?:executed: {NUMBER}(?:.* match {NUMBER})?|cancelled: {NUMBER} shares|"
                     r"(rejected): )")
SESSION = re.compile(r"\borders [\d.:]+: logged in to session +(\S{1,10}) *,")
KEYS = ("orders", "orders.b", "user", "passwd")       # that are read of the settings
SIDES = {"B": "buy", "S": "sell", "T": "sell", "E": "sell"}


class Failure(Exception):
    """Nobody could be asked, or the answers make no sense."""


@dataclasses.dataclass
class Order:
    side: str
    shares: int                 # open
    symbol: str
    price: int                  # in units of 0.0001
    next: int = 0               # the reference of its replacement

    def may_be(self, theirs):
        """Returns true if the exchange's order can be this one: it may have a better price."""
        better = theirs.price <= self.price if self.side == "buy" else theirs.price >= self.price
        return better and (theirs.side, theirs.symbol) == (self.side, self.symbol)

    def __str__(self):
        return f"{self.side} {self.shares} {self.symbol} at {self.price // 10**4}.{self.price % 10**4:04}"


def orders_of(text):
    """Returns the orders that a record shows open, by reference, and the session that it names; "": none. A program
    that starts again logs the day's executions once more."""
    orders, session, executions = {}, "", set()
    for line in text.splitlines():
        if found := ORDER.search(line):
            reference, replaced, side, shares, symbol, units, part = found.groups()
            orders[int(reference)] = Order(side, int(shares), symbol, int(units) * 10**4 + int(part))
        elif found := REDUCED.search(line):
            reference, executed, match, cancelled, rejected = found.groups()
            order = orders.get(int(reference))
            if order and (executed is None or (reference, match) not in executions):
                order.shares -= order.shares if rejected else min(order.shares, int(executed or cancelled))
            if executed:
                executions.add((reference, match))
        elif found := SESSION.search(line):
            session = found[1]
    return {reference: order for reference, order in orders.items() if order.shares}, session


class Account:
    """Gathers what the exchange has said about each order of the account."""

    def __init__(self):
        self.orders, self.rejected, self.executed, self.next = {}, set(), collections.Counter(), 0
        self.asked, self.others = set(), set()      # references
        self.is_whole = False                       # all that the exchange knows has come

    def take(self, message):
        """Takes a response. Its time is passed over."""
        kind = message[:1]
        try:
            if kind == b"A":
                self._enter(*struct.unpack_from(">IcI8sQ", message, 9))
            elif kind == b"U":
                original, *terms = struct.unpack_from(">IIcI8sQ", message, 9)
                if terms[0] <= original:
                    raise Failure(f"a response replaces order {original} by {terms[0]}, which is no later one")
                self._enter(*terms)
                if original in self.orders:
                    self.orders[original].shares, self.orders[original].next = 0, terms[0]
            elif kind in (b"E", b"C", b"D"):
                reference, shares = struct.unpack_from(">II", message, 9)
                self.executed[reference] += shares if kind == b"E" else 0
                if reference in self.orders:
                    self.orders[reference].shares -= min(shares, self.orders[reference].shares)
            elif kind == b"J":
                self.rejected.add(struct.unpack_from(">I", message, 9)[0])
            elif kind == b"Q":
                self.next = struct.unpack_from(">I", message, 9)[0]
        except struct.error:
            raise Failure(f"a response '{kind.decode('latin-1')}' of {len(message)} bytes makes no sense") from None

    def _enter(self, reference, side, shares, symbol, price):
        symbol = symbol.decode("latin-1").rstrip()
        self.orders[reference] = Order(SIDES.get(side.decode("latin-1"), "?"), shares, symbol, price)

    def newest(self, reference):
        """Returns the reference of the order, or of the last that has replaced it."""
        while reference in self.orders and self.orders[reference].next:
            reference = self.orders[reference].next
        return reference

    def is_open(self, reference):
        newest = self.newest(reference)
        return newest in self.orders and self.orders[newest].shares > 0


class Session:
    """A client of SoupBinTCP that wants the messages from a number on; from 0: the latest. `next` is the number of the
    next message."""

    def __init__(self, address, user, password, first, end_s):
        self.end_s, self.data, self.sent_s = end_s, b"", time.monotonic()
        self.sock = socket.create_connection(address, timeout=CONNECT_S)
        text = user.ljust(soupbintcp.USER_BYTES) + password.ljust(soupbintcp.PASSWORD_BYTES)
        self.send(soupbintcp.LOGIN, (text + " " * soupbintcp.SESSION_BYTES +
                                     str(first).rjust(soupbintcp.SEQUENCE_BYTES)).encode("latin-1"))
        kind, payload = self.packet()
        if kind != soupbintcp.LOGIN_ACCEPTED:
            raise Failure(f"the login is refused: '{payload.decode('latin-1')}'")
        self.name = payload[:soupbintcp.SESSION_BYTES].decode("latin-1").strip()
        number = payload[soupbintcp.SESSION_BYTES:].strip()
        if not number.isdigit() or (first and int(number) > first):
            raise Failure("the exchange does not begin with the session's first message")
        self.next = max(1, int(number))

    def close(self):
        """Logs out, and waits for the end of the connection: then the account may log in again."""
        with contextlib.closing(self.sock), contextlib.suppress(OSError):
            self.send(soupbintcp.LOGOUT)
            self.sock.settimeout(soupbintcp.HEARTBEAT_S)
            end_s = time.monotonic() + soupbintcp.HEARTBEAT_S
            while time.monotonic() < end_s and self.sock.recv(1 << 16):
                pass

    def send(self, kind, payload=b""):
        self.sock.sendall(soupbintcp.packet(kind, payload))
        self.sent_s = time.monotonic()

    def packet(self):
        """Returns the next packet: type, payload. Keeps the session up meanwhile."""
        while len(self.data) < 2 or len(self.data) < 2 + int.from_bytes(self.data[:2], "big"):
            now_s = time.monotonic()
            if now_s >= self.end_s:
                raise TimeoutError("it does not answer in time")
            if now_s - self.sent_s >= soupbintcp.HEARTBEAT_S:
                self.send(soupbintcp.CLIENT_HEARTBEAT)
            self.sock.settimeout(min(soupbintcp.HEARTBEAT_S, self.end_s - now_s))
            with contextlib.suppress(TimeoutError):
                data = self.sock.recv(1 << 16)
                if not data:
                    raise ConnectionResetError("it closes the connection")
                self.data += data
        end = 2 + int.from_bytes(self.data[:2], "big")
        kind, payload, self.data = self.data[2:3], self.data[3:end], self.data[end:]
        return kind, payload

    def read(self, account, until):
        """Gives the account the messages, until a condition of the latest packet's type holds."""
        kind = b""
        while not until(kind):
            kind, payload = self.packet()
            if kind == soupbintcp.SEQUENCED:
                self.next += 1
                account.take(payload)
            elif kind == soupbintcp.END_OF_SESSION:
                raise ConnectionResetError("the session has ended")


def ask(session, last, account, named, everything):
    """Cancels the orders that are named, or all, which then are named. `last`: the number of the day's latest message,
    or the one after it. A server may send heartbeats while it repeats the day: the first one from there on ends it."""
    session.read(account, lambda kind: kind == soupbintcp.HEARTBEAT and session.next >= last)
    account.next = 0
    session.send(soupbintcp.UNSEQUENCED, ouch.QUERY.pack(b"Q"))
    session.read(account, lambda _: account.next)
    if everything:
        named.update({reference: dataclasses.replace(order) for reference, order in account.orders.items()
                      if order.shares})
    for reference, order in named.items():
        theirs = account.orders.get(reference)
        if theirs and not order.may_be(theirs):
            account.others.add(reference)
        elif account.is_open(reference):
            account.asked.add(reference)
            session.send(soupbintcp.UNSEQUENCED, ouch.CANCEL.pack(b"X", account.newest(reference), 0))
    account.is_whole, session.end_s = True, time.monotonic() + CANCEL_S
    session.read(account, lambda _: not any(map(account.is_open, account.asked)))


def fate_of(account, reference):
    """Returns what became of an order, and whether it may be open."""
    if account is None or not account.is_whole:
        return "may still be open: nobody could be asked", True
    newest, shares = account.newest(reference), account.executed[reference]
    executed = f", {shares} shares executed" if shares else ""
    replaced = f" as order {newest}" if newest != reference else ""
    if reference in account.others:
        return f"may still be open: the exchange has another order there, {account.orders[reference]}", True
    if account.is_open(reference):
        return f"stays open{replaced}: the exchange has not confirmed the cancellation{executed}", True
    if reference in account.asked:
        return f"cancelled{replaced}{executed}", False
    if reference in account.orders:
        return f"had ended{replaced}{executed}", False
    return "was rejected" if reference in account.rejected else "has never arrived", False


def settings_of(path):
    """Returns the words of a file of settings: those before a word that begins with # in each line. As the program
    does, refuses a key that is given twice, and a name or password that has no room in a login."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [itertools.takewhile(lambda word: not word.startswith("#"), line.split()) for line in file]
    except UnicodeDecodeError:
        raise Failure(f"{path}: no text in UTF-8") from None
    pairs = [word.partition("=")[::2] for line in lines for word in line]
    keys = [key for key, _ in pairs]
    for key in ("orders", "user", "passwd"):
        if key not in keys:
            raise Failure(f"{path}: there is no {key}=")
    if twice := [key for key in KEYS if keys.count(key) > 1]:
        raise Failure(f"{path}: {twice[0]}= is given twice")
    words = dict(pairs)
    for key, most in (("user", soupbintcp.USER_BYTES), ("passwd", soupbintcp.PASSWORD_BYTES)):
        if not re.fullmatch("[!-~]{0,%d}" % most, words[key]):
            raise Failure(f"{path}: {key}=: not up to {most} characters of ASCII")
    return words


def hosts_of(words):
    """Returns (host, port) of the hosts in the settings."""
    hosts = []
    for key in ("orders", "orders.b"):
        if key in words:
            host, _, port = words[key].rpartition(":")
            if not host or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
                raise Failure(f"{key}=: '{words[key]}' is not HOST:PORT")
            hosts.append((host, int(port)))
    return hosts


def make_parser():
    parser = command_parser("cancel", __doc__)
    add = parser.add_argument
    add("record", metavar="RECORD", nargs="?", default="-", help="a crash record, a log or gg's output (default -)")
    add("--file", dest="conf", required=True, metavar="CONF", help="the program's settings")
    add("--all", action="store_true", help="every open order of the account, whatever a record says")
    add("--timeout", type=bounded(float, 1, 3600), default=30, metavar="S",
        help="how long a host may take to repeat the day (default 30)")
    return parser


def settle(words, hosts, session_name, named, everything, timeout_s):
    """Asks one host after another, until one has answered all. Returns what the last of them has said, or None. Ctrl-C
    ends the questions."""
    account = None
    for host in hosts:
        try:
            login, end_s = (host, words["user"], words["passwd"]), time.monotonic() + timeout_s
            with contextlib.closing(Session(*login, 0, end_s)) as session:
                if session_name not in ("", session.name):
                    raise Failure(f"the record is of session {session_name}, and this one is {session.name}")
                name, last = session.name, session.next
            with contextlib.closing(Session(*login, 1, end_s)) as session:
                if session.name != name:
                    raise Failure(f"session {session.name} has begun in the place of {name}")
                account = Account()
                ask(session, last, account, named, everything)
                return account
        except (OSError, UnicodeError, Failure) as error:
            complain("cancel", f"{host[0]}:{host[1]}: {words_of(error)}")
        except KeyboardInterrupt:
            complain("cancel", "interrupted")
            break
    return account


def main(more):
    options = make_parser().parse_args(more)
    named, session_name = {}, ""
    try:
        words = settings_of(options.conf)
        hosts = hosts_of(words)
        if not options.all:
            with contextlib.nullcontext(sys.stdin) if options.record == "-" else open(
                    options.record, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if not ORDER.search(text):
                raise Failure(f"{options.record}: names no order; --all is for all of the account")
            named, session_name = orders_of(text)
    except (OSError, Failure) as error:
        complain("cancel", error)
        return 2
    except KeyboardInterrupt:
        complain("cancel", f"interrupted: {options.record} was not read to its end, and nobody was asked")
        return 1
    if not named and not options.all:
        say(f"{options.record}: each order of it has ended")
        return 0
    account = settle(words, hosts, session_name, named, options.all, options.timeout)
    fates = {reference: fate_of(account, reference) for reference in sorted(named)}
    for reference, (fate, _) in fates.items():
        say(printable(f"order {reference}: {named[reference]}: {fate}"))
    is_known = account is not None and account.is_whole
    if options.all and is_known and not named:
        say("no order of the account is open")
    return 1 if not is_known or any(may_be_open for _, may_be_open in fates.values()) else 0
