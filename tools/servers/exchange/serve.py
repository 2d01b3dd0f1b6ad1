"""Runs a simulated exchange: market data on two lines, requests for lost messages, snapshots, orders.

    exchange serve --symbols ACME,BOLT --seed 7 --rate 500 --loss-a 0.01 --account TRADER:PEREGRINE

Market data are ITCH 5.0 in MoldUDP64 packets, to an address or a multicast group. Snapshots are GLIMPSE 5.0, orders
OUCH 5.0, both over SoupBinTCP. At the end one line of JSON tells the state of each account. With --journal an
exchange that was killed goes on where it was.
"""
import asyncio
import contextlib
import gc
import json
import logging
import random
import signal
import string
import time

from command_line import say
from servers.exchange import itch, journal
from servers.exchange.arguments import (PROGRAM, account_of, add_flow, address_of, bounded, checked_flow,
                                        command_parser, complain, ip_of, session_of)
from servers.exchange.board import Board
from servers.exchange.market import Exchange
from servers.exchange.server import Server, Sparse

DEFAULT_ACCOUNT = ("TRADER", "PEREGRINE")
PORTS = {"line_a": 26400, "line_b": 26401, "rerequest": 26402, "snapshot": 26403, "orders": 26404}


def make_parser():
    parser = command_parser("serve", __doc__)
    add = parser.add_argument
    for name, text in (("line_a", "where line A goes: a client, or a multicast group"),
                       ("line_b", "where line B goes"),
                       ("rerequest", "where requests for lost messages come in, by UDP"),
                       ("snapshot", "where snapshots are given, by TCP"), ("orders", "where orders come in, by TCP")):
        add(f"--{name.replace('_', '-')}", type=address_of, default=("127.0.0.1", PORTS[name]), metavar="IP:PORT",
            help=f"{text} (default 127.0.0.1:{PORTS[name]})")
    add("--board", type=address_of, metavar="IP:PORT", help="where the live page is served (default: nowhere)")
    add("--note", default="", metavar="TEXT", help="a sentence for the foot of the page")
    add("--interface", type=ip_of, metavar="IP", help="the own address from which multicast goes out")
    add("--account", type=account_of, action="append", metavar="USER:PASSWORD",
        help=f"who may log in; may be repeated (default {':'.join(DEFAULT_ACCOUNT)})")
    add_flow(add)
    add("--replay", metavar="FILE", help="the orders of an ITCH file instead of random ones")
    chance = bounded(float, 0, 1)
    for line in "ab":
        for fault, text in (("loss", "is lost"), ("repeat", "is sent twice"), ("reorder", "is sent after the next")):
            add(f"--{fault}-{line}", type=chance, default=0, metavar="CHANCE",
                help=f"that a packet of line {line.upper()} {text}")
    add("--loss-requests", type=chance, default=0, metavar="CHANCE", help="that a request has no answer")
    add("--reset", type=bounded(float, 0, 1e6), default=0, metavar="S",
        help="resets all TCP connections, S seconds apart on the average (default: never)")
    add("--kept", type=bounded(int, 1000, 1 << 26), default=1 << 20, metavar="COUNT",
        help="newest messages that can be asked for again (default 1048576)")
    add("--session", type=session_of, help="ten letters and digits (default: a random one)")
    add("--duration", type=bounded(float, 0, 1e6), default=0, metavar="S",
        help="until the session ends (default: a signal)")
    add("--journal", default="", metavar="FILE", help="where the session is kept; one that is there goes on")
    return parser


def parse_options(words):
    parser = make_parser()
    options = parser.parse_args(words)
    options.account = options.account or [DEFAULT_ACCOUNT]
    users = [user.casefold() for user, _ in options.account]
    for user, _ in options.account:
        if users.count(user.casefold()) > 1:
            parser.error(f"--account: '{user}' stands there twice")
    checked_flow(parser, options)
    return options


def make_exchange(options):
    """Returns the exchange and its journal: a new session, or the one that the journal holds."""
    book = journal.Journal(options.journal)
    kept = journal.read_begin(options.journal) if options.journal else None
    if kept is None:
        session = options.session or "".join(random.choices(string.ascii_uppercase + string.digits, k=10))
        local = time.localtime()
        begin_ns = (local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec) * 10**9 + time.time_ns() % 10**9
        exchange = Exchange(options, session, begin_ns)
        book.begin(session, begin_ns, options)
        return exchange, book
    session, begin_ns, state = kept
    vars(options).update(state)
    exchange = Exchange(options, session, begin_ns)
    journal.replay(options.journal, exchange)
    if exchange.is_over:
        raise journal.JournalError(f"{options.journal}: the session '{session}' has ended; name another file")
    book.steps = exchange.day.steps
    return exchange, book


async def play(exchange, book, options):
    server = Server(exchange, book, options)
    board = Board(server)
    try:
        await server.listen()
        if options.board:
            server.ports["board"] = await board.begin(options.board)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.ended.set)
        addresses = {"a": options.line_a, "b": options.line_b, **server.ports}
        say("listening " + " ".join(f"{name}={ip}:{port}" for name, (ip, port) in addresses.items()) +
            f" session={exchange.feed.session.decode()}")
        gc.freeze()
        await server.run()
    finally:
        board.end()
        server.close()
    counts = {"lines": [line.counts for line in server.lines], "messages": exchange.feed.next - 1, **server.counts}
    say(json.dumps(counts))
    for account in exchange.accounts.values():
        say(json.dumps(exchange.summary(account)))


def main(words):
    options = parse_options(words)
    logging.basicConfig(format=f"{PROGRAM} serve: %(message)s", level=logging.INFO)
    logging.getLogger("exchange").addFilter(Sparse())
    try:
        exchange, book = make_exchange(options)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(play(exchange, book, options))
    except (journal.JournalError, itch.FileError) as error:
        complain("serve", error)
        return 1
    except OSError as error:
        complain("serve", error)
        return 1
    return 0
