"""The compute service, app/digest/, over Linux sockets: build/host/digest-linux, against hashlib and base64."""
import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import os
import pathlib
import re
import resource
import socket
import subprocess
import time

import pytest

from tests.hosted.test_echo import page
from workshop.vm import ports

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("BUILD", "build") / "host/digest-linux"
KEY, PATIENCE_S = "a-key-for-tests", 30
NABHASHES = {"00": "741892770d81d644519a99a6bdfe072a", "deadbeef": "9041d0d440fe93f69515b771619aa54c",
             "4d656e67205a68756f2069732074686520617574686f72206f66204e414248617368": "be7b4ad42ddd356e7abd8755902961dd"}
MERCHA_QUERY = f"key={bytes(range(32)).hex()}&nonce={bytes(range(12)).hex()}"
MERCHA_LEFT = ("d54b26737ae056b6b0502be8b5b332779a90e77c05f6dcd94f0de78a1203ebf4"
               "d1f06f3406a2f861f55ca953b06d45201e89b338c949fad9ee0e6fe868537c1e")


def pseudo_random(count, x):
    """Returns the bytes of the published MerCha values."""
    data = bytearray()
    for _ in range(count):
        x = (1103515245 * x + 12345) % 2**31
        data.append(x % 255)
    return bytes(data)


def chain(data, rounds):
    for _ in range(rounds):
        data = hashlib.sha256(data).hexdigest().encode()
    return data.decode()


class Client:
    """A connection that is kept alive."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def post(self, target, body=b"", **options):
        self.connection.request("POST", target, body, **options)
        response = self.connection.getresponse()
        return response.status, response.read().decode()


def check_values(port):
    """Plays all four paths against published values and Python's own. The port is of 127.0.0.1."""
    client = Client(port)
    for count in (0, 3, 64, 100_000):
        data = os.urandom(count)
        assert client.post("/sha256", data) == (200, hashlib.sha256(data).hexdigest() + "\n")
        assert client.post("/base64", data) == (200, base64.b64encode(data).decode())
    for rounds in (2, 1000):
        assert client.post(f"/sha256?rounds={rounds}", b"hello") == (200, chain(b"hello", rounds) + "\n")
    for text, value in NABHASHES.items():
        assert client.post("/nabhash", bytes.fromhex(text)) == (200, value + "\n")
    status, text = client.post("/mercha?" + MERCHA_QUERY, pseudo_random(1024, 1))
    assert status == 200 and text.splitlines()[1] == MERCHA_LEFT
    pieces = (data[i:i + 1000] for i in range(0, len(data), 1000))
    assert client.post("/sha256", pieces, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}) == \
        (200, hashlib.sha256(data).hexdigest() + "\n")


def load(port, clients, count):
    """Sends from each client chains and bodies in turn, and checks the responses."""
    def send(number, client):
        data = bytes([number]) * 300_000
        for _ in range(count):
            assert client.post("/sha256?rounds=3000", b"%d" % number) == (200, chain(b"%d" % number, 3000) + "\n")
            assert client.post("/sha256", data) == (200, hashlib.sha256(data).hexdigest() + "\n")
            assert client.post("/base64", data) == (200, base64.b64encode(data).decode())
    connected = [Client(port) for _ in range(clients)]
    for client in connected:        # one at a time: QEMU's network has a queue of one
        assert client.post("/nabhash", b"\0")[0] == 200
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(send, range(clients), connected))


def jobs(status, cpus):
    """Returns how many jobs each CPU has done, by the status page."""
    found = page(status)
    return [int(found[f"work.{cpu}.jobs"]) for cpu in range(cpus)]


def agent_says(port):
    """Returns the percentage that the agent check answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        line = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    return int(re.fullmatch(r"up ready (\d+)%\n", line)[1])


def say_gg(gg_port):
    done = subprocess.run([ROOT / "tools/gg", "127.0.0.1", "--port", str(gg_port), "--key", KEY, "--timeout", "20"],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def running(*words, cpus=None):
    """Runs the program, on CPUs of these numbers. Yields it, with its ports."""
    service, status, gg_port = ports.free_port(), ports.free_port(), ports.free_port(ports.UDP)
    options = [f"port={service}", f"http.port={status}", f"key={KEY}", f"control.port={gg_port}", "wait=sleep",
               "deadline=120", *words]
    with subprocess.Popen([PROGRAM, "--all", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=cpus and (lambda: os.sched_setaffinity(0, cpus))) as program:
        program.start_log = ""
        for line in program.stderr:
            program.start_log += line
            if "digest: running" in line:
                break
        program.service, program.status, program.gg_port = service, status, gg_port
        try:
            yield program
        finally:
            program.terminate()


def resident_bytes(program):
    return int(pathlib.Path(f"/proc/{program.pid}/statm").read_text().split()[1]) * 4096


def ask(port, text):
    """Sends a request as it is, shuts down, and returns the whole reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("simd, cpus", [("auto", 1), ("scalar", 1), ("auto", 2), ("scalar", "all")])
def test_all_paths_have_the_published_values_and_gg_ends_the_program(simd, cpus):
    with running(f"simd={simd}", f"cpus={cpus}") as program:
        check_values(program.service)
        found = page(program.status)
        assert found["program"] == "digest" and int(found["digest.responses_200"]) == 15
        assert (found["digest.sha256"] == "scalar") or simd == "auto"
        say_gg(program.gg_port)
        statistics, log = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0 and "leaving: gg" in log and "digest.rounds 1000\n" in statistics


def test_a_second_cpu_works_and_no_third_is_made_up():
    """The third of three CPUs is not allowed: two are used."""
    allowed = sorted(os.sched_getaffinity(0))[:2]
    if len(allowed) < 2:
        pytest.skip("this machine has one CPU")
    with running("cpus=3", cpus=allowed) as program:
        assert "workers: 2 wanted, CPUs besides the first: 1\n" in program.start_log
        load(program.service, clients=8, count=3)
        assert all(jobs(program.status, 2)) and "work.2.jobs" not in page(program.status)
        say_gg(program.gg_port)
        log = program.communicate(timeout=PATIENCE_S)[1]
    assert "leaving: gg" in log


def test_agent_check_says_less_while_chains_are_worked_on():
    agent_port = ports.free_port()
    with running(f"agent.port={agent_port}", "rounds.full=100000") as program, contextlib.ExitStack() as stack:
        idle = agent_says(agent_port)
        assert idle > 100
        for _ in range(64):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", program.service)))
            slow.sendall(b"POST /sha256?rounds=100000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
        deadline = time.monotonic() + PATIENCE_S
        while agent_says(agent_port) > idle / 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert 1 <= agent_says(agent_port) <= idle / 2
        assert int(page(program.status)["agent.answers"]) > 2


@pytest.mark.parametrize("cpus", [1, 2])
def test_a_long_body_takes_no_memory(cpus):
    block, count = os.urandom(1 << 20), 64
    with running(f"cpus={cpus}") as program:
        client = Client(program.service)
        client.post("/sha256", block)
        before = resident_bytes(program)
        expected = hashlib.sha256(block * count).hexdigest() + "\n"
        length = {"Content-Length": str(count << 20)}
        assert client.post("/sha256", iter([block] * count), headers=length) == (200, expected)
        assert resident_bytes(program) < before + (4 << 20)


@pytest.mark.parametrize("simd", ["auto", "scalar"])
def test_a_body_of_mercha_is_the_same_in_parts_and_in_chunks(simd):
    """In chunks a body is taken from its first byte to its last one."""
    data = os.urandom(8 << 20)
    with running("cpus=2", f"simd={simd}") as program:
        client, before = Client(program.service), resident_bytes(program)
        for count in (4096, 8192, 1 << 20, len(data)):
            whole = client.post("/mercha?" + MERCHA_QUERY, data[:count])
            blocks = (data[i:min(i + 5000, count)] for i in range(0, count, 5000))
            assert whole[0] == 200 and whole == client.post("/mercha?" + MERCHA_QUERY, blocks, encode_chunked=True,
                                                             headers={"Transfer-Encoding": "chunked"})
        assert resident_bytes(program) < before + (4 << 20)
        if simd == "scalar" and len(os.sched_getaffinity(0)) > 1:
            assert int(page(program.status)["digest.given_bytes"]) > 0


def test_bad_requests_get_a_status_and_a_message():
    with running("rounds.max=1000") as program:
        for text, status in ((b"\0\xff\r\n\r\n", 400), (b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
                                                        404),
                             (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
                             (b"GET /sha256 HTTP/1.1\r\nHost: x\r\n\r\n", 405),
                             (b"POST /sha256 HTTP/1.1\r\nHost: x\r\n\r\n", 411),
                             (b"POST /sha256?rounds=1001 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 400),
                             (b"POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", 400)):
            head, _, words = ask(program.service, text).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status) and len(words) > 10, (text, head)


def stalled_reader(port):
    """Requests a long answer and reads none of it. Returns the connection."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(b"POST /base64 HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            connection.send(bytes(65536))
    return connection


def test_the_slowest_of_many_stalled_readers_are_evicted():
    # The first readers get more messages than their share once all have come. Some are evicted for that: 4 to 6, or
    # some 35 if the program finds many requests at once.
    with running("client.timeout=60") as program, contextlib.ExitStack() as stack:
        for _ in range(104):
            stack.enter_context(stalled_reader(program.service))
        deadline = time.monotonic() + PATIENCE_S
        while int(page(program.status)["digest.evicted"]) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert 4 <= int(page(program.status)["digest.evicted"]) <= 52
        assert Client(program.service).post("/sha256", b"abc")[0] == 200


def test_a_thousand_connections_and_slow_clients_stall_nobody():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))      # an ordinary user has 1,024
    with running() as program, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", program.service)
        for _ in range(20):
            stack.enter_context(stalled_reader(program.service))
            slow = stack.enter_context(socket.create_connection(address))
            slow.sendall(b"POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
        client = Client(program.service)
        assert client.post("/sha256", b"abc")[0] == 200
        before = resident_bytes(program)
        for _ in range(1000):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(address))
        begin = time.monotonic()
        for _ in range(50):
            assert client.post("/sha256", b"abc")[0] == 200
        assert time.monotonic() - begin < PATIENCE_S / 3
        found = page(program.status)
        assert int(found["digest.refused_busy"]) >= 700
        assert resident_bytes(program) < before + (16 << 20)
