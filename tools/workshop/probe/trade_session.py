"""A session of app/trade/ at the simulated exchange, written down for vhost_probe.c, which only plays it.

Each tick is an offer at BUY_AT or a bid at SELL_AT, in turns, and the strategy `take` takes all of it. The position
changes between one share long and one short and is at its bound after each order. So a tick brings one order, whatever
the program hears of first: the execution in the market data, or that in its own session."""
from servers.exchange import ouch
from servers.exchange.accounts import Account
from servers.exchange.engine import Engine
from servers.exchange.market import begin_session
from servers.exchange.moldudp64 import Feed
from servers.exchange.soupbintcp import (HEARTBEAT, LOGIN, LOGIN_ACCEPTED, PASSWORD_BYTES, SEQUENCE_BYTES, SEQUENCED,
                                 SESSION_BYTES, UNSEQUENCED, USER_BYTES, packet)
from workshop.vm import machine

SYMBOL, SESSION, USER, PASSWORD = "ACME", "WIREPROBE1", "PROBE", "PROBE"
BUY_AT, SELL_AT = 100, 101          # dollars
FEED_PORT, ORDERS_PORT = 26400, 26404
WORDS = (f"feed.a=0.0.0.0:{FEED_PORT} orders={machine.TAP_HOST}:{ORDERS_PORT} user={USER} passwd={PASSWORD} "
         f"symbols={SYMBOL} strategy=take take.buy={BUY_AT} take.sell={SELL_AT} shares=2 risk.position=1 risk.short=on "
         "risk.rate=1000 risk.day.orders=4000000000 risk.day.shares=1000000000000 risk.loss=1000000000")
DOLLAR = 10_000
MESSAGES_KEPT = 64                  # more than one datagram has


class Session:
    def __init__(self):
        self.feed = Feed(SESSION, MESSAGES_KEPT)
        self.engine = Engine([SYMBOL], lambda message, _: self.feed.publish(message))
        self.account = Account(self.engine, USER, PASSWORD)
        self.answers_sent = 0

    def offer(self, side, dollars, shares):
        """Enters an order of somebody else."""
        self.engine.submit(self.engine.make_order(self.engine.books[SYMBOL], side, dollars * DOLLAR, shares))

    def datagram(self):
        """Returns the datagram of the new market data; empty if there are none."""
        return b"".join(self.feed.new_packets())

    def answers(self):
        """Returns the packets of the new answers to the account."""
        new = self.account.answers[self.answers_sent:]
        self.answers_sent += len(new)
        return b"".join(packet(SEQUENCED, answer) for answer in new)

    def request(self, message):
        """Takes a request. Returns its record, the datagram's and that of the answers."""
        self.account.take(message)
        return packet(UNSEQUENCED, message), self.datagram(), self.answers()


def login():
    """Returns the program's first packet, and the answer."""
    blanks = b" " * SESSION_BYTES
    return (packet(LOGIN, USER.encode().ljust(USER_BYTES) + PASSWORD.encode().ljust(PASSWORD_BYTES) + blanks +
                   b"1".rjust(SEQUENCE_BYTES)),
            packet(LOGIN_ACCEPTED, SESSION.encode() + b"1".rjust(SEQUENCE_BYTES)))


def records(shots):
    """Yields what vhost_probe.c reads: for each request of the program the request, a datagram, and the answers. Before
    each order stands the datagram that brings it."""
    session = Session()
    request, accepted = login()
    yield from (request, b"", accepted + session.answers())
    begin_session(session.engine, 0)
    for side, dollars in ((b"B", BUY_AT), (b"S", BUY_AT), (b"B", BUY_AT - 1), (b"S", SELL_AT + 1)):
        session.offer(side, dollars, 1)             # two for the opening cross, two that stay
    session.engine.open()
    request, opening, answers = session.request(b"Q")
    yield from (request, opening, answers + packet(HEARTBEAT))      # the heartbeat: no answer is on the way
    for number in range(1, shots + 1):
        offered, own, dollars = (b"S", ouch.BUY, BUY_AT) if number % 2 else (b"B", ouch.SHORT, SELL_AT)
        shares = 1 if number == 1 else 2
        session.offer(offered, dollars, shares)
        yield session.datagram()
        yield from session.request(ouch.ENTER.pack(
            b"O", number, own, shares, SYMBOL.encode().ljust(8), dollars * DOLLAR, ouch.IMMEDIATE, ouch.VISIBLE, b"P",
            b"N", ouch.CONTINUOUS, b"peregrine".ljust(14), 0))
        assert session.account.positions[SYMBOL].shares == (1 if number % 2 else -1)


def write(path, shots, _):
    path.write_bytes(b"".join(len(record).to_bytes(2, "big") + record for record in records(shots)))
