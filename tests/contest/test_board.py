"""tools/contest/board.py: hostile viewers. test_board_page.py has the page."""
import os
import socket
import sys
import threading
import tracemalloc

import pytest

from contest import board, store
from contest.follower import Follower
from contest.plan import Plan
from tests.contest.running import PATIENCE_S, wait_for


@pytest.fixture
def served(tmp_path):
    """Serves the board of a contest that nobody plays."""
    path = tmp_path / "store"
    store.create(path, Plan())
    server = board.Server(("127.0.0.1", 0), board.Handler)
    server.pages, server.viewers = board.Pages(Follower(path)), board.Viewers()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE_S)


def connect(server, source="127.0.0.1"):
    return socket.create_connection(server.server_address, PATIENCE_S, (source, 0))


def ask(server, line, source="127.0.0.1"):
    """Returns all bytes that follow a request."""
    with connect(server, source) as sock, sock.makefile("rb") as file:
        sock.sendall(line + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
        return file.read()


def test_any_target_is_answered(served):
    for target, status in ((b"http://[::1", 400), (b"//[", 404), (b"/" + b"a" * 5000, 404), (b"/\x00", 404),
                           (b"/..", 404), (b"/../board.py", 404), (b"/series.json?after=nan&player=%ff", 200)):
        assert ask(served, b"GET " + target + b" HTTP/1.1").startswith(b"HTTP/1.1 %d " % status), target


def test_a_head_has_no_body(served):
    for path in (b"/", b"/board.txt", b"/events"):
        answer = ask(served, b"HEAD " + path + b" HTTP/1.1")
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n")


def test_a_picture_without_matplotlib_says_what_to_install(served, monkeypatch):
    monkeypatch.delitem(sys.modules, "contest.pictures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    answer = ask(served, b"GET /board.png HTTP/1.1")
    assert answer.startswith(b"HTTP/1.1 503 ") and b"python3-matplotlib" in answer


def test_names_that_are_no_files_take_no_memory(served):
    tracemalloc.start()
    for i in range(200):
        assert served.pages.find(f"/{i}/" + os.urandom(5000).hex(), {}) is None
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 100_000


def test_one_address_takes_no_more_than_its_share(served, monkeypatch):
    monkeypatch.setattr(board, "SHARE_MAX", 3)
    idle = [connect(served) for _ in range(5)]
    for sock in idle[3:]:
        assert sock.recv(1) == b""
    assert ask(served, b"GET /board.txt HTTP/1.1", source="127.0.0.2").startswith(b"HTTP/1.1 200 ")
    for sock in idle:
        sock.close()
    wait_for(lambda: not served.open)
    assert ask(served, b"GET /board.txt HTTP/1.1").startswith(b"HTTP/1.1 200 ")
