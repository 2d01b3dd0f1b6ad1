"""nassau 1.0.0, a Java library of others, speaks MoldUDP64 and SoupBinTCP with us both ways.

As a client it receives a line of the exchange and logs in there. As a server it has the program of app/trade/ as its
client. NassauJudge.java, for Java 17, is the program around the library."""
import contextlib
import queue
import signal
import subprocess
import threading
import time
import types

import pytest

from servers.contest.die_with_parent import die_with_parent
from servers.exchange import generate, ouch
from tests.exchange.running import Lines, Running, header_of, messages_of
from tests.exchange.test_judges import HERE, ROOT
from tests.exchange.test_orders import enter
from tests.exchange.test_trade import SHARES, SYMBOLS, FixedLines, Trader, is_current, numbers_of
from workshop.vm import ports

pytestmark = pytest.mark.slow
JARS = ROOT / "build/third-party/judges-java"
WAIT_S = 240                    # for all lines of a Java program


class Nassau:
    """NassauJudge.java with these words. `seen`: all lines that it has printed, as words."""

    def __init__(self, *words):
        if not (JARS / ".fetched").exists():
            pytest.skip("nassau is missing: tools/workshop/fetch-judges.sh, on a machine with a JDK and Maven")
        self.process = subprocess.Popen(
            ["java", "-cp", f"{JARS}/*", HERE / "NassauJudge.java", *map(str, words)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1, preexec_fn=lambda: die_with_parent(signal.SIGKILL))
        self.lines, self.seen, self.end = queue.Queue(), [], time.monotonic() + WAIT_S
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(["left"])

    def next(self):
        """Returns the next line. Fails at one that says that a session is silent, and after WAIT_S."""
        try:
            line = self.lines.get(timeout=max(self.end - time.monotonic(), 0))
        except queue.Empty:
            line = ["late"]
        self.seen.append(line)
        assert line[0] not in ("left", "silent", "late"), self.seen[-20:]
        return line

    def wait(self, *words):
        """Returns the next line that begins with one of these words."""
        while (line := self.next())[0] not in words:
            pass
        return line

    def say(self, *words):
        print(*words, file=self.process.stdin)

    def payloads(self, word):
        return [bytes.fromhex(line[1]) for line in self.seen if line[0] == word]

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture(name="stack")
def make_stack():
    with contextlib.ExitStack() as stack:
        yield stack


class LineAElsewhere(Lines):
    """Line A goes to another port, where nassau listens. Line B comes here."""

    def __init__(self):
        super().__init__()
        self.port = ports.free_port(ports.UDP)

    def words(self):
        return ["--line-a", f"127.0.0.1:{self.port}", *super().words()[2:]]


def test_nassau_hears_a_line_that_loses_and_logs_in(stack):
    lines = stack.enter_context(contextlib.closing(LineAElsewhere()))
    exchange = stack.enter_context(contextlib.closing(
        Running(lines, "--rate", 100, "--preopen", 0.2, "--loss-a", 0.2)))
    client = stack.enter_context(contextlib.closing(Nassau(
        "client", lines.port, exchange.ports["rerequest"], exchange.ports["orders"], "TRADER", "PEREGRINE")))
    assert client.wait("login") == ["login", exchange.session, "1"]
    for request in (b"Q", enter(1, symbol="NONE")):
        client.say("send", request.hex())
    for kind in (b"S", b"Q", b"J"):
        assert bytes.fromhex(client.wait("message")[1])[:1] == kind
    for _ in range(5):
        client.wait("heartbeat")
    while ["state", "GAP_FILL"] not in client.seen:
        client.wait("state")
    client.say("logout")
    client.wait("closed")
    exchange.process.terminate()
    client.wait("line-end")
    lines.read(lambda: lines.b and header_of(lines.b[-1])[2] == 0xffff)
    assert client.payloads("line") == list(messages_of(lines.b).values())


def answer(server, line):
    """Answers a request as an exchange where each order rests, and nothing is replaced."""
    if line[0] != "unsequenced":
        return
    request = ouch.decode(bytes.fromhex(line[1]))
    answers = {"query": lambda: ouch.query_response(1, 1), "enter": lambda: ouch.accepted(1, request, request.number),
               "cancel": lambda: ouch.canceled(1, request.number, SHARES, b"U")}
    server.say("sequenced", answers[request.kind]().hex())


def test_the_program_trades_at_nassaus_servers(stack):
    lines, messages = FixedLines(), []
    server = stack.enter_context(contextlib.closing(Nassau("server", "NASSAU", lines.ports[0])))
    _, rerequest, orders = server.wait("ports")
    addresses = {"rerequest": ("127.0.0.1", int(rerequest)), "orders": ("127.0.0.1", int(orders))}
    trader = stack.enter_context(contextlib.closing(Trader(lines, types.SimpleNamespace(addresses=addresses))))
    assert server.wait("login") == ["login", "TRADER", "PEREGRINE", "1"]
    options = types.SimpleNamespace(symbols=SYMBOLS, seed="5", rate=1000.0, orders_max=200, preopen=0.2, halt=[],
                                    messages=1000)
    generate.generate(options, lambda message, _: messages.append(message.hex()))
    for at in range(0, len(messages), 10):
        server.say("lose" if at in (0, 500) else "packet", *messages[at:at + 10])
    page = trader.wait(lambda page: page["mold.messages"] == len(messages) and is_current(page))
    assert page["mold.requests"] >= 2 and page["mold.lost"] == 0
    while page["ouch.accepted"] == 0 or server.seen[-1] != ["heartbeat"]:
        answer(server, server.next())
        page = trader.page()
    trader.process.terminate()
    while server.next() != ["closed"]:
        answer(server, server.seen[-1])
    out, _ = trader.process.communicate(timeout=WAIT_S)
    statistics = numbers_of(out)
    assert trader.process.returncode == 0, trader.log_text()
    assert statistics["pool.orders_open"] == 0 and statistics["ouch.cancels"] > 0, trader.log_text()
