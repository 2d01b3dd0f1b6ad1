"""A contest server in a thread of the test, waits for its events, and the contest's tool in the test's process."""
import contextlib
import io
import socket
import subprocess
import threading

from servers.contest import __main__ as contest, rounds
from servers.contest.options import Options
from servers.contest.server import ContestServer
from tests.lib.waiting import PATIENCE_S

SMALL = rounds.parse_round("n=6 m=9973,30011 hidden=7^5")       # a few answers by chance, some planted
FAST = dict(round=SMALL, rate=20, burst=(5, 30), interval_s=(0.01, 0.02), bind="127.0.0.1", port_base=0)


def tool(*words):
    """Runs `contest WORDS`, which must end by itself, without a process of its own: its start takes 0.1 s."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            status = contest.main([str(word) for word in words])
        except SystemExit as end:       # argparse
            status = end.code
    return subprocess.CompletedProcess(words, status, out.getvalue(), errors.getvalue())


def make_server(**options):
    return ContestServer(Options(**{**FAST, **options}))


def start_server(server):
    """Starts a server; returns its thread."""
    thread = threading.Thread(target=server.run)
    thread.start()
    return thread


def run_server(**options):
    """Makes and starts a server; returns it and its thread."""
    server = make_server(**options)
    return server, start_server(server)


def stop_server(server, thread):
    server.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@contextlib.contextmanager
def served(**options):
    """Yields a server that runs."""
    server, thread = run_server(**options)
    try:
        yield server
    finally:
        stop_server(server, thread)


def connect(server, kind):
    return socket.create_connection(("127.0.0.1", server.ports[kind]), timeout=PATIENCE_S)
