"""tools/servers/web/live_page.py: hostile viewers."""
import os
import socket
import threading
import time
import tracemalloc

import pytest

from tests.lib.waiting import PATIENCE_S, wait_for
from servers.web import live_page


class Pages(live_page.Pages):
    def state(self):
        return b"{}"

    def find(self, path, query):
        if path == "/board.png":
            raise live_page.Unavailable("the brush is lost")
        return (b"text", "text/plain") if path == "/board.txt" else super().find(path, query)


@pytest.fixture
def served(tmp_path):
    (tmp_path / "main.html").write_text("<main></main>")
    server = live_page.Server(("127.0.0.1", 0), Pages("Title", tmp_path))
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


def test_a_page_stands_in_the_common_frame(served):
    page = ask(served, b"GET / HTTP/1.1")
    assert b"<title>Title</title>" in page and b"<main></main>" in page and b'"live.js"' in page


def test_any_target_is_answered(served):
    for target, status in ((b"http://[::1", 400), (b"//[", 400), (b"HTTP://x/board.txt", 200), (b"/" + b"a" * 5000, 404), (b"/\x00", 400),
                           (b"/..", 404), (b"/../http.py", 404), (b"/main.html", 200), (b"/index.html?a=%ff", 200)):
        assert ask(served, b"GET " + target + b" HTTP/1.1").startswith(b"HTTP/1.1 %d " % status), target


def test_a_head_has_no_body(served):
    for path, status in ((b"/", 200), (b"/board.txt", 200), (b"/events", 200), (b"/nothing", 404), (b"//[", 400)):
        answer = ask(served, b"HEAD " + path + b" HTTP/1.1")
        assert answer.startswith(b"HTTP/1.1 %d " % status) and answer.find(b"\r\n\r\n") == len(answer) - 4
    assert ask(served, b"POST / HTTP/1.1\r\nContent-Length: 0").startswith(b"HTTP/1.1 405 ")


def test_a_connection_carries_one_request(served):
    """The server reads the requests after it, so that no reset overtakes the response."""
    with connect(served) as sock, sock.makefile("rb") as file:
        sock.sendall(b"GET /board.txt HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        answer = file.read()
    assert answer.endswith(b"text") and b"Connection: close\r\n" in answer and answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("line", [b"Host: x", b"X: a\rb", b"X: a\0b", b"X: a\nb", b"X\x0b: a", b"X : a", b" X: a"])
def test_a_malformed_head_is_refused(served, line):
    assert ask(served, b"GET / HTTP/1.1\r\n" + line).startswith(b"HTTP/1.1 400 ")


def test_an_address_without_content_says_why(served):
    answer = ask(served, b"GET /board.png HTTP/1.1")
    assert answer.startswith(b"HTTP/1.1 503 ") and b"the brush is lost" in answer


def test_names_that_are_no_files_take_no_memory(served):
    tracemalloc.start()
    for i in range(200):
        assert served.pages.find(f"/{i}/" + os.urandom(5000).hex(), {}) is None
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 100_000


def test_one_address_takes_no_more_than_its_share(served, monkeypatch):
    monkeypatch.setattr(live_page, "SHARE_MAX", 3)
    idle = [connect(served) for _ in range(5)]
    for sock in idle[3:]:
        assert sock.recv(1) == b""
    assert ask(served, b"GET /board.txt HTTP/1.1", source="127.0.0.2").startswith(b"HTTP/1.1 200 ")
    for sock in idle:
        sock.close()
    wait_for(lambda: not served.open)
    assert ask(served, b"GET /board.txt HTTP/1.1").startswith(b"HTTP/1.1 200 ")


def test_no_few_addresses_take_all_places(served, monkeypatch):
    """Silent connections and viewers that read nothing: who has the most gives way to who has fewer."""
    monkeypatch.setattr(live_page, "SHARE_MAX", 15)
    monkeypatch.setattr(live_page, "CONNECTIONS_MAX", 40)
    watching = []
    for i in range(60):
        watching.append(connect(served, f"127.0.0.{2 + i % 3}"))
        if i % 2:
            watching[-1].sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_for(lambda: len(served.open) == 40)
    for i in range(5, 15):
        assert ask(served, b"GET /board.txt HTTP/1.1", source=f"127.0.0.{i}").startswith(b"HTTP/1.1 200 ")
    held = [connect(served, f"127.0.0.{i}") for i in range(5, 15)]
    wait_for(lambda: sum(ip in [f"127.0.0.{i}" for i in range(5, 15)] for ip in served.open.values()) == 10)
    assert len(served.open) == 40
    for sock in watching + held:
        sock.close()


def test_a_viewer_that_reads_nothing_is_dropped(served, monkeypatch):
    monkeypatch.setattr(live_page, "STALLED_S", 0.2)
    with connect(served) as sock:
        sock.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_for(lambda: served.pages.watchers)
        with served.pages.condition:
            served.pages.data = b"x" * 10_000_000       # more than the sockets take
            served.pages.version += 1
            served.pages.condition.notify_all()
        wait_for(lambda: not served.open and not served.pages.watchers)


def test_a_request_has_an_end(served, monkeypatch):
    """A byte now and then keeps no place."""
    monkeypatch.setattr(live_page, "REQUEST_S", 0.5)
    with connect(served) as sock, pytest.raises(ConnectionError):
        for _ in range(PATIENCE_S * 20):
            sock.sendall(b"G")
            time.sleep(0.05)
    wait_for(lambda: not served.open)
