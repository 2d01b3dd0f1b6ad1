"""A contest server in a thread of the test, and waiting for what it does."""
import socket
import threading
import time

from contest import rounds
from contest.options import Options
from contest.server import ContestServer

SMALL = rounds.parse_round("n=6 m=9973,30011 hidden=7^5")       # a few answers by chance, some planted
PATIENCE_S = 60         # for what happens at once, on a machine that may stand still for seconds
FAST = dict(round=SMALL, rate=20, burst=(5, 30), interval_s=(0.01, 0.02), bind="127.0.0.1", port_base=0)


def run_server(**options):
    """Starts a server; returns it and its thread."""
    server = ContestServer(Options(**{**FAST, **options}))
    thread = threading.Thread(target=server.run)
    thread.start()
    return server, thread


def stop_server(server, thread):
    server.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def connect(server, kind):
    return socket.create_connection(("127.0.0.1", server.ports[kind]), timeout=PATIENCE_S)


def wait_for(condition, seconds=PATIENCE_S, pause_s=0.01):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(pause_s)
