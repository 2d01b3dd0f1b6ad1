"""The whole state of the exchange, without sockets: engine, feed, accounts, and what happens by the clock.

The state follows from the options, and from the requests of clients, each at its place among the steps of the day.
A journal (journal.py) holds these requests. So an exchange that was killed comes back as it was.
"""
from servers.exchange import flow, itch, moldudp64, soupbintcp
from servers.exchange.accounts import END_OF_DAY, Account
from servers.exchange.engine import Engine
from servers.exchange.ouch import system_event

S_NS = 10**9
SNAPSHOT = b"G"                 # GLIMPSE 5.0 §1.7: then the feed's next number, 20 digits


def day_of(engine, options, begin_ns):
    """Returns the day that the options describe: opening, halts, and the orders of others."""
    events = [(begin_ns + int(options.preopen * S_NS), engine.open)]
    for symbol, at_s, for_s in options.halt:
        book = engine.books[symbol]
        at_ns = begin_ns + int(at_s * S_NS)
        events.append((at_ns, lambda book=book: engine.halt(book)))
        events.append((at_ns + int(for_s * S_NS), lambda book=book: engine.resume(book)))
    if getattr(options, "replay", None):
        orders = flow.RecordedFlow(engine, itch.read_file(options.replay), begin_ns)
    else:
        orders = flow.RandomFlow(engine, options.seed, options.rate, begin_ns, options.orders_max)
    return flow.Day(engine, [flow.Schedule(events), orders])


def begin_session(engine, ns):
    """Publishes what stands first in a session: its begin, the directory, and the begin of system hours."""
    engine.at(ns)
    engine.system_event(itch.BEGIN_OF_MESSAGES)
    engine.list_stocks()
    engine.system_event(itch.BEGIN_OF_SYSTEM)


class Snapshot:
    """The stream of one client of the snapshot's port: made at its login, and whole at once."""

    def __init__(self, messages):
        self.answers = messages

    def take(self, message):
        """Ignores a client's message: GLIMPSE has none."""


class Exchange:
    """`changed`: the books about which there are messages that no packet holds yet."""

    def __init__(self, options, session, begin_ns):
        self.options, self.begin_ns = options, begin_ns
        self.feed = moldudp64.Feed(session, options.kept)
        self.changed = set()
        self.engine = Engine(options.symbols, self._publish)
        self.engine.at(begin_ns)
        self.accounts = {user.casefold(): Account(self.engine, user, password) for user, password in options.account}
        begin_session(self.engine, begin_ns)
        self.day = day_of(self.engine, options, begin_ns)
        self.is_over = False

    def _publish(self, message, book):
        self.feed.publish(message)
        self.changed.add(book)

    def advance(self, ns, steps_max):
        """Does the steps that are due, `steps_max` at most. Returns true if more are due."""
        day = self.day
        for _ in range(steps_max):
            if day.next_ns > ns:
                return False
            day.step()
        return day.next_ns <= ns

    def take(self, account, message, ns):
        """Does what a client asks."""
        self.engine.at(ns)
        account.take(message)

    def end(self, ns):
        """Ends the session: all orders are cancelled, and nothing happens any more."""
        self.engine.at(ns)
        self.engine.close()
        self.engine.system_event(itch.END_OF_SYSTEM)
        self.engine.system_event(itch.END_OF_MESSAGES)
        for account in self.accounts.values():
            account.answer(system_event(self.engine.ns, END_OF_DAY))
        self.is_over = True

    def log_in(self, user, password):
        """Returns an account. Raises soupbintcp.Refused."""
        account = self.accounts.get(user.casefold())
        if account is None or account.password.casefold() != password.casefold():
            raise soupbintcp.Refused(soupbintcp.NOT_AUTHORIZED,
                                     "the password is wrong" if account else "there is no account of this name")
        return account

    def snapshot(self, user, password):
        """Returns the stream of a snapshot as of now. Raises soupbintcp.Refused."""
        self.log_in(user, password)
        return Snapshot([*self.engine.snapshot(), SNAPSHOT + str(self.feed.next).encode().rjust(20)])

    def summary(self, account):
        """Returns an account's state as JSON would have it. Money is in 1/10,000 dollars."""
        books = self.engine.books
        return {"user": account.user, "positions": {symbol: vars(position) for symbol, position in
                                                    account.positions.items() if position.bought or position.sold},
                "profit": sum(position.profit(books[symbol].last_price)
                              for symbol, position in account.positions.items()),
                "open": len(account.open_entries()), "counts": dict(account.counts)}

    def check(self):
        """Asserts the whole invariant."""
        self.engine.check()
        for account in self.accounts.values():
            account.check()
