"""docs/tutorial/: each program is built as its page says, tested by its own unit test, and played on Linux."""
import contextlib
import http.server
import os
import re
import socket
import struct
import subprocess
import threading

import pytest

from tests.lib.paths import BUILD, ROOT
from workshop.vm import ports

TUTORIAL = ROOT / "docs/tutorial"
PATIENCE_S = 30


@contextlib.contextmanager
def running(name, *words):
    """Builds and tests a program, and runs it while the block is played. Its statistics end up in the list."""
    clean = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    program, statistics = BUILD / f"host/{name}-linux", []
    command = ["make", f"PROGRAM={TUTORIAL / name}", f"BUILD={BUILD}", "program-linux", "program-test"]
    done = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "[  FAILED  ]" not in done.stdout, done.stdout + done.stderr
    with subprocess.Popen([program, "--all", "wait=sleep", "deadline=60", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        assert any(f"{name}: running" in line for line in process.stderr)
        try:
            yield statistics
        finally:
            process.terminate()
            statistics.extend(process.communicate(timeout=PATIENCE_S)[0].splitlines())


@pytest.mark.slow
def test_names_answers_queries():
    port = ports.free_port(ports.UDP)
    with running("names", f"port={port}", "name=www.example.test:192.0.2.7") as statistics, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", port))
        client.settimeout(PATIENCE_S)
        for labels, kind, flags, address in (
                ("www example test", 1, 0x8500, b"\xc0\0\2\7"), ("example test", 1, 0x8500, b""),
                ("www example test", 28, 0x8500, b""), ("nobody test", 1, 0x8503, b"")):
            name = b"".join(bytes([len(label)]) + label.encode() for label in labels.split()) + b"\0"
            question = name + struct.pack(">HH", kind, 1)
            client.send(b"cut short")
            client.send(struct.pack(">6H", 99, 0x100, 1, 0, 0, 0) + question)
            answer = struct.pack(">HHHIH", 0xc00c, 1, 1, 60, 4) + address if address else b""
            assert client.recv(2048) == struct.pack(">6H", 99, flags, 1, len(address) // 4, 0, 0) + question + answer
    assert {"names.answered 1", "names.empty 2", "names.unknown 1", "names.drop_malformed 4"} <= set(statistics)


@pytest.mark.slow
def test_store_speaks_resp():
    port = ports.free_port()
    with running("store", f"port={port}", "silent=2") as statistics:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            requests = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n" + b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" * 500
            client.sendall(requests[:20])
            client.sendall(requests[20:])
            wanted = b"+OK\r\n" + b"$5\r\nhello\r\n" * 500
            assert client.makefile("rb").read(len(wanted)) == wanted
            said = subprocess.check_output(["redis-cli", "-p", str(port)], input="PING\nGET k\nDEL k j\nGET k\n",
                                           text=True, timeout=PATIENCE_S)
            assert said == "PONG\nhello\n1\n\n"
            with pytest.raises(ConnectionResetError):       # nobody speaks
                client.recv(1)
    assert "store.silent 1" in statistics and "store.wrong 0" in statistics


@pytest.mark.slow
def test_watch_counts_answers_and_backs_off():
    arrived, statuses = threading.Semaphore(0), iter((200, 200, 503, 200))

    class Service(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status = next(statuses, None)
            if status:
                self.send_response(status)
                self.end_headers()
            arrived.release()
            if not status:
                closed.wait(PATIENCE_S)

        def log_message(self, *_):
            pass

    closed = threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            with running("watch", f"server=127.0.0.1:{server.server_port}", "interval=50ms", "timeout=0.5",
                         "backoff.max=100ms") as statistics:
                for _ in range(6):      # the fifth gets no answer
                    assert arrived.acquire(timeout=PATIENCE_S)
        finally:
            closed.set()
            server.shutdown()
    assert {"watch.requests 6", "watch.answers 3", "watch.errors 1", "watch.timeouts 1"} <= set(statistics)


def test_the_page_quotes_the_programs():
    code = "".join(path.read_text() for path in sorted(TUTORIAL.glob("*/*.c")))
    excerpts = re.findall(r"^```c\n(.*?)^```", (TUTORIAL / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(excerpts) >= 9
    for excerpt in excerpts:
        assert excerpt in code, excerpt
