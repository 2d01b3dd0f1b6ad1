"""docs/balance.md: no request fails while one machine ends with GG, one is killed, and one is frozen for 5 s. Machines
of unequal speed say how much they can take."""
import concurrent.futures
import contextlib
import http.server
import json
import pathlib
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import types
import urllib.request

import pytest

from tests.balance import balance, roll, unequal
from tests.lib.waiting import PATIENCE_S
from workshop.vm import machine, ports

# Packages that Ansible imports, and a bare Debian may lack.
ANSIBLE_NEEDS = ("cffi-backend", "cryptography", "jinja2", "markupsafe", "packaging", "resolvelib", "yaml")


def played(program, *words):
    """Returns the counts that a program prints from a network namespace of its own."""
    done = subprocess.run([*machine.unshare_words(), "true"], capture_output=True, text=True)
    if done.returncode or not shutil.which("wrk"):
        pytest.skip("wants wrk and a network namespace: " + done.stderr.strip())
    done = subprocess.run([*machine.unshare_words(), sys.executable, pathlib.Path(program.__file__), *words],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# The first one is the page's configuration as it stands.
@pytest.mark.parametrize("variant", [None, *(variant for variant in balance.VARIANTS if variant != balance.of_page())])
def test_no_request_fails_while_machines_come_and_go(variant):
    found = played(balance, "hosted", *([variant] if variant else []))
    assert found["failed"] == 0 and found["requests"] > 100 and found["sent_again"] > 0, found
    assert all(count > 10 for count in found["requests_of"].values()), found


def fetch_ansible():
    """Unpacks Debian's Ansible below build/, if its packages can be had. Returns true if it is there."""
    if (roll.ANSIBLE / "bin/ansible-playbook").exists():
        return True
    names = ["ansible-core", *(f"python3-{name}" for name in ANSIBLE_NEEDS)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["apt-get", "-q", "download", *names], cwd=folder, capture_output=True, timeout=60)
        for package in pathlib.Path(folder).glob("*.deb") if done.returncode == 0 else []:
            subprocess.run(["dpkg-deb", "-x", package, roll.ANSIBLE.parent], check=True)
    return done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["tool", "ansible"])
def test_no_request_fails_while_three_kernels_are_renewed(how):
    if how == "ansible" and not fetch_ansible():
        pytest.skip("wants ansible-core of the distribution, and a network")
    found = played(roll, how)
    assert found["failed"] == 0 and found["requests"] > 100 and found["flights"] == [2, 2, 2], found


class SlowMachine(http.server.BaseHTTPRequestHandler):
    """Answers checks at once. Three requests in turn take longer than `timeout connect`."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        time.sleep(0.4)
        self.do_GET()


def test_a_request_waits_for_a_place_longer_than_for_a_connection(tmp_path, monkeypatch):
    front = ports.free_port(socket.SOCK_STREAM)
    text = balance.page_text().replace("maxconn 200", "maxconn 1").replace("10.77.0.1:8080", f"127.0.0.1:{front}")
    monkeypatch.setattr(balance, "page_text", lambda: text)

    def ask(_):
        with urllib.request.urlopen(f"http://127.0.0.1:{front}/", b"", timeout=PATIENCE_S) as response:
            return response.status
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowMachine) as server, contextlib.ExitStack() as stack:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        address = ("127.0.0.1", server.server_port)
        machines = [types.SimpleNamespace(service=address, status=address, agent_port=1)] * 3
        with balance.balanced(machines, tmp_path), concurrent.futures.ThreadPoolExecutor(12) as pool:
            assert list(pool.map(ask, range(12))) == [200] * 12


class FakeBalancer(socketserver.ThreadingUnixStreamServer):
    """HAProxy's socket. A server that is taken in is UP when it has been looked at three times."""

    def __init__(self, path):
        self.orders, self.looks = [], dict.fromkeys("abc", 3)
        super().__init__(str(path), FakeBalancer.Answer)

    class Answer(socketserver.StreamRequestHandler):
        def handle(self):
            fake = self.server
            for order in self.rfile.readline().decode().strip().split("; "):
                if order == "show stat":
                    for name in "abc":
                        fake.looks[name] += 1
                        status = "UP" if fake.looks[name] > 3 else "DOWN"
                        self.wfile.write(f"machines,{name},0,0,0,{'0,' * 12}{status},\n".encode())
                elif found := re.fullmatch(r"set server machines/(\w) state (\w+)", order):
                    fake.orders.append((*found.groups(), all(looks > 2 for looks in fake.looks.values())))
                    if found[2] == "ready":
                        fake.looks[found[1]] = 0


@pytest.mark.slow
def test_playbook_takes_no_machine_out_before_the_last_one_is_up(tmp_path):
    if not fetch_ansible():
        pytest.skip("wants ansible-core of the distribution, and a network")
    (tmp_path / "peregrine").symlink_to("/bin/true")
    with FakeBalancer(tmp_path / "stats") as fake, \
            http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as page, \
            contextlib.ExitStack() as stack:
        for server in (fake, page):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        roll.roll_by_ansible(tmp_path, f"http://127.0.0.1:{page.server_port}/")
    assert fake.orders == [(name, state, True) for name in "abc" for state in ("drain", "ready")]


def test_weights_follow_the_speed_of_the_machines_and_their_load():
    """Machine `a` has two processors, and `c` no vector instructions."""
    found = played(unequal, "--check")
    assert found["failed"] == 0 and found["requests"] > 10, found
    a, b, c = found["idle_weights"]
    assert a > 1.3 * b and b > 1.3 * c >= 1.3, found
    assert found["requests_of"]["a"] > found["requests_of"]["c"], found


def test_table_of_the_page_is_made_of_the_rows():
    common = {"n": 500, "runs": 3, "others": 0.1, "machine": "a processor", "commit": "12ab"}
    name = "balance/4/leastconn+agent"
    rows = [{"name": f"{name}/response", "p50": 1.5, "p99": 20.1, "over_1_s": 2, "failed": 0, **common},
            {"name": f"{name}/rate", "p50": 1234, **common}]
    assert "| 4 | leastconn, weights by agent | 1,234 | 1.5 ms | 20.1 ms | 4.0 | 0 |\n" in unequal.table(rows)
    assert "12ab on a processor" in unequal.table(rows)
