"""peregrine bench: what it counts, against servers that stall, lose, refuse and close."""
import argparse
import contextlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

import pytest

from deploy import bench as bench_command
from tests.lib.waiting import PATIENCE_S, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
STALL_S, RATE = 0.6, 100


def bench(*words, status=0):
    done = subprocess.run([ROOT / "tools/peregrine", "bench", *map(str, words)], capture_output=True, text=True,
                          timeout=PATIENCE_S, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def measure(*words):
    result = json.loads(bench(*words, "--warmup", 0, "--json"))
    assert result["sent"] == result["answered"] + result["lost"] + result["failed"]
    assert sum(count for _, count in result["buckets"]) == result["answered"]
    return result


@contextlib.contextmanager
def udp_server(answer):
    """Calls answer(socket, number, data, peer) for each datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve():
            number = 0
            with contextlib.suppress(OSError):
                while True:
                    data, peer = sock.recvfrom(2048)
                    answer(sock, number, data, peer)
                    number += 1
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{sock.getsockname()[1]}"


def stall_once(sock, number, data, peer):
    time.sleep(STALL_S if number == 20 else 0)
    sock.sendto(data, peer)


def test_a_rate_charges_the_server_for_all_requests_that_it_held_up():
    def slow(result):
        return sum(count for bound, count in result["buckets"] if bound > STALL_S * 1e9 / 6)

    with udp_server(stall_once) as to:
        result = measure("udp", to, "--rate", RATE, "--duration", 2)
        assert result["answered"] + result["waiting"] >= 2 * RATE - 1 and slow(result) >= STALL_S * RATE / 2
        assert result["kernel_stamped"] > 0
    with udp_server(stall_once) as to:
        assert slow(measure("udp", to, "--duration", 2)) < STALL_S * RATE / 2


def test_a_lost_datagram_is_counted_and_the_next_answer_is_its_own():
    late = []

    def lose(sock, number, data, peer):
        if number == 3:
            threading.Timer(1.2, lambda: late.append(sock.sendto(b"late", peer))).start()
        else:
            sock.sendto(data, peer)

    with udp_server(lose) as to:
        result = measure("udp", to, "--rate", 10, "--duration", 2)
    assert result["lost"] == 1 and late and result["bytes"] == 64 * result["answered"]


@pytest.mark.parametrize("payload, differ", [("random:20", True), ("random:1", True), ("hello", False)])
def test_random_requests_differ_and_a_text_stays_the_same(payload, differ):
    """An echo may drop equal datagrams: two echoes would send them to each other."""
    came = []

    def keep(sock, _, data, peer):
        came.append(data)
        sock.sendto(data, peer)

    with udp_server(keep) as to:
        measure("udp", to, "--payload", payload, "--connections", 2, "--duration", 0.2)
    assert len(set(came[:200])) == (len(came[:200]) if differ else 1) and len(came) > 10


def test_connections_beyond_the_limit_of_a_shell():
    with udp_server(lambda sock, _, data, peer: sock.sendto(data, peer)) as to:
        command = f"ulimit -Sn 64; exec '{ROOT}/tools/peregrine' bench udp {to} --connections 100 --duration 0.5"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and "100 connections" in done.stdout, done.stderr


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/" else 404)
        self.end_headers()
        self.wfile.write(b"page")       # HTTP/1.0: the end of the connection is the body's

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert body == b"a\r\nb"
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture(name="pages")
def fixture_pages():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"localhost:{server.server_port}"
        server.shutdown()


def test_http_counts_statuses_and_opens_closed_connections_again(pages):
    good = measure("http", pages, "--rate", 50, "--connections", 2, "--duration", 1, "--payload", r"a\r\nb")
    assert good["answered"] >= 20 and not good["bad_status"] and good["connects"] >= good["answered"]
    bad = measure("http", pages, "--path", "/x", "--rate", 50, "--duration", 1)
    assert bad["bad_status"] == bad["answered"] > 10


def test_tables_and_comparison(pages, tmp_path):
    table = bench("http", pages, "--rate", 50, "--warmup", 0, "--duration", 1)
    assert "p99.99 us" in table and "50 a second" in table and "%  #" in table
    for name in "ab":
        (tmp_path / name).write_text(bench("http", pages, "--rate", 20, "--duration", 1, "--warmup", 0, "--json"))
    assert "second / first" in bench("--compare", tmp_path / "a", tmp_path / "b")
    (tmp_path / "b").write_text("[]")
    assert "was not written by" in bench("--compare", tmp_path / "a", tmp_path / "b", status=2)


def command_of(pid):
    """Returns the words of a process; "" if it has ended, though nobody may have waited for it."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_the_load_ends_with_the_command_that_began_it():
    came = threading.Event()
    with udp_server(lambda *_: came.set()) as to:
        with subprocess.Popen([ROOT / "tools/peregrine", "bench", "udp", to, "--duration", "600"]) as process, \
                contextlib.ExitStack() as stack:
            stack.callback(process.kill)
            assert came.wait(PATIENCE_S)
            load, = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        wait_for(lambda: not command_of(load), "the load ends")


def test_the_reason_is_said_if_nothing_is_answered():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        nobody.connect(nobody.getsockname())            # takes its own datagrams alone; nobody else gets the port
        to = f"127.0.0.1:{nobody.getsockname()[1]}"
        done = subprocess.run([ROOT / "tools/peregrine", "bench", "udp", to, "--duration", "1"], capture_output=True,
                              text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and "The last error: Connection refused." in done.stdout, done.stdout


def test_a_load_that_is_not_built_is_named_with_its_make(monkeypatch):
    monkeypatch.setattr(bench_command, "LOAD", ROOT / "build/none")
    options = argparse.Namespace(protocol="udp", payload="x", to=("127.0.0.1", 9), connections=1, rate=0, warmup=0,
                                 duration=1, answer_bytes=None)
    with pytest.raises(ValueError, match=f"`make -C {ROOT} build/none`"):
        bench_command.measure(options)


def test_a_text_of_any_letters_is_sent_as_it_stands():
    for word, request in (("caf\u00e9", b"caf\xc3\xa9"), ("\udcff", b"\xff"), (r"\x00\\", b"\0\\")):
        options = argparse.Namespace(protocol="udp", payload=word)
        assert bench_command.request_of(options) == (request, 0)


@pytest.mark.parametrize("words, status, problem", [
    (("udp",), 2, "is needed"), (("udp", "host"), 2, "'host' is no HOST:PORT"),
    (("tcp", "127.0.0.1:1"), 1, "no connection to port 1: Connection refused"),
    (("udp", "127.0.0.1:9", "--payload", "random:x"), 2, "'x' is no number of bytes"),
    (("udp", "127.0.0.1:9", "--payload", "@/no/file"), 2, "@/no/file: No such file"),
    (("udp", "127.0.0.1:9", "--payload", ""), 2, "empty request"),
    (("udp", "127.0.0.1:9", "--payload", r"\x"), 2, r"--payload '\x': "),
    (("udp", "127.0.0.1:9", "--payload", r"a\u20ac"), 2, r"--payload 'a\u20ac': "),
    (("udp", "127.0.0.1:9", "--payload", "random:65508"), 2, "has 65507 bytes at most"),
    (("udp", "127.0.0.1:9", "--payload", "@/dev/zero"), 2, "'@/dev/zero': a datagram has 65507 bytes at most"),
    (("http", "127.0.0.1:9", "--path", "/a b"), 2, "--path '/a b'"),
    (("http", "127.0.0.1:9", "--path", ""), 2, "--path ''"),
    (("http", "127.0.0.1:9", "--path", "/\r\nx: y"), 2, "--path '/"),
    (("http", "127.0.0.1:9", "--method", "GE T"), 2, "--method 'GE T'"),
    (("http", "127.0.0.1:9", "--method", ""), 2, "--method ''"),
    (("udp", "a" * 64 + ".x:9"), 2, "a" * 64 + ".x: "),
    (("http", "127.0.0.1:9", "--payload", "random:1048576"), 2, "is longer than 1048576"),
    (("http", "127.0.0.1:9", "--method", "HEAD"), 2, "--method HEAD"),
    (("udp", "no.invalid:9"), 2, "no.invalid: "), (("ftp", "127.0.0.1:9"), 2, "'ftp'")])
def test_what_cannot_be_played_is_said(words, status, problem):
    assert problem in bench(*words, status=status)
