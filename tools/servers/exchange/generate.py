"""Writes the ITCH messages of a session into a file, as fast as they can be made: each after its length in two bytes.

    exchange generate FILE --messages 1000000 --seed 7 --symbols ACME,BOLT

The seed decides every byte. `exchange serve --replay FILE` plays the orders of such a file.
"""
from servers.exchange import market
from servers.exchange.arguments import add_flow, bounded, checked_flow, command_parser, complain
from servers.exchange.engine import Engine

BEGIN_NS = (9 * 3600 + 30 * 60) * 10**9


def generate(options, publish):
    """Calls `publish` with each message and its book, until the step that reaches `options.messages`."""
    count = 0

    def counted(message, book):
        nonlocal count
        count += 1
        publish(message, book)

    engine = Engine(options.symbols, counted)
    market.begin_session(engine, BEGIN_NS)
    day = market.day_of(engine, options, BEGIN_NS)
    while count < options.messages:
        day.step()


def make_parser():
    parser = command_parser("generate", __doc__)
    add = parser.add_argument
    add("file", metavar="FILE")
    add("--messages", type=bounded(int, 1, 10**9), default=10**6, metavar="COUNT",
        help="at least (default 1000000)")
    add_flow(add)
    return parser


def main(words):
    parser = make_parser()
    options = parser.parse_args(words)
    checked_flow(parser, options)
    if not options.rate:
        parser.error("--rate: a session without orders of others has no messages")
    try:
        with open(options.file, "wb") as file:
            write = file.write
            generate(options, lambda message, _: write(len(message).to_bytes(2, "big") + message))
    except OSError as error:
        complain("generate", f"{options.file}: {error.strerror}")
        return 1
    return 0
