#!/usr/bin/python3
"""HAProxy in front of three machines that run app/digest/, configured as in docs/balance.md.

While wrk sends requests, one machine gets GG, one is killed, one is frozen for 5 s. Each comes back before the next.
At last all are frozen for 1 s: an overloaded computer may do that. Prints the counts of wrk and HAProxy as JSON.

    unshare -n tests/balance/balance.py hosted|qemu [VARIANT]

Wants a network namespace of its own. `hosted`: three programs over Linux sockets. `qemu`: three kernels, each on a TAP
device of one bridge. A VARIANT (VARIANTS) takes the place of the page's balancing."""
import contextlib
import csv
import io
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from deploy import control as control_channel
from tests.lib.paths import BUILD, ROOT
from tests.lib.waiting import PATIENCE_S, wait_for
from workshop.vm import qemu

KEY, FROZEN_S, STALLED_S = "a-key-for-tests", 5, 1
HAPROXY = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/bin") or \
    ROOT / "build/third-party/haproxy/usr/sbin/haproxy"       # unpacked there: an installed package would start it
# HAProxy's algorithm, and true if the machines' agent checks set the weights.
VARIANTS = {"roundrobin": ("roundrobin", False), "leastconn": ("leastconn", False),
            "roundrobin+agent": ("roundrobin", True), "leastconn+agent": ("leastconn", True)}
AGENT = " weight 100 agent-check agent-inter 200ms"
WRK_SCRIPT = """
wrk.method = "POST"
wrk.body = "hello"
function done(summary, latency, requests)
  local e, over = summary.errors, 0
  for i = 1, #latency do
    local us, count = latency(i)
    if us > 1000000 then over = over + count end
  end
  io.write(string.format('{"requests": %d, "us": %d, "failed": %d, "p50_us": %d, "p99_us": %d, "max_us": %d, ' ..
    '"over_1_s": %d}\\n', summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99), latency.max, over))
end
"""


class Hosted:
    """One machine as a program: number 0, 1 or 2, with further words of settings."""

    def __init__(self, number, *words):
        self.service, self.status = ("127.0.0.1", 8180 + number), ("127.0.0.1", 8280 + number)
        self.control, self.agent_port = ("127.0.0.1", 8380 + number), 8480 + number
        self.words, self.process = words, None

    def start(self):
        words = [f"port={self.service[1]}", f"http.port={self.status[1]}", f"control.port={self.control[1]}",
                 f"agent.port={self.agent_port}", f"key={KEY}", "wait=sleep", *self.words]
        self.process = subprocess.Popen([BUILD / "host/digest-linux", *words], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=qemu.die_with_parent)

    def wait_end(self):
        self.process.wait(PATIENCE_S)

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


class Guest(Hosted):
    """One machine in QEMU, on a TAP device of the bridge."""

    def __init__(self, number):
        super().__init__(number)
        self.number, self.address = number, f"10.77.0.{11 + number}"
        self.service, self.status, self.control = (self.address, 8080), (self.address, 80), (self.address, 18247)
        self.agent_port = 81

    def start(self):
        words = f"port=8080 http.port=80 agent.port=81 key={KEY} ip={self.address}/24 gw=10.77.0.1"
        net = ["-vga", "none", "-netdev", f"tap,id=n,ifname=tap{self.number},script=no,downscript=no",
               "-device", f"virtio-net-pci,netdev=n,mac=52:54:00:12:34:{self.number:02}"]
        self.machine = qemu.Machine(qemu.kernel(words, image=BUILD / "digest/peregrine.elf") + net)
        self.process = self.machine.process

    def wait_end(self):
        self.machine.wait_reset()
        self.machine.close()

    def kill(self):
        super().kill()
        self.machine.close()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def set_up_network(kind):
    ip("link", "set", "lo", "up")
    if kind == "qemu":
        ip("link", "add", "bridge0", "type", "bridge")
        ip("addr", "add", "10.77.0.1/24", "dev", "bridge0")
        ip("link", "set", "bridge0", "up")
        for number in range(3):
            ip("tuntap", "add", f"tap{number}", "mode", "tap")
            ip("link", "set", f"tap{number}", "master", "bridge0", "up")


def page_text():
    return re.search(r"```haproxy\n(.*?)```", (ROOT / "docs/balance.md").read_text(), re.S)[1]


def of_page():
    """Returns the variant that the page has."""
    text = page_text()
    return re.search(r"(?m)^ *balance (\w+)", text)[1] + ("+agent" if "agent-check" in text else "")


def with_variant(text, variant):
    """Returns the configuration with the balancing of a variant."""
    algorithm, has_agents = VARIANTS[variant]
    text = re.sub(r"(?m)( weight \d+| agent-check| agent-inter \S+)", "", text)
    text, count = re.subn(r"(?m)^( *)balance \w+$", rf"\1balance {algorithm}", text)
    assert count == 1
    return text.replace("    default-server", "    default-server" + AGENT, 1) if has_agents else text


def configuration(machines, folder, variant=None):
    """Returns the configuration of docs/balance.md with these machines' addresses, and a socket for its counters."""
    text = with_variant(page_text(), variant) if variant else page_text()
    for name, m in zip("abc", machines):
        text, count = re.subn(rf"server {name} \S+ check port \d+.*",
                              f"server {name} {m.service[0]}:{m.service[1]} check port {m.status[1]} "
                              f"agent-port {m.agent_port}", text)
        assert count == 1
    if machines[0].service[0] == "127.0.0.1":
        text = text.replace("bind 10.77.0.1:8080", "bind 127.0.0.1:8080")
    return text.replace("global\n", f"global\n    stats socket {folder}/stats level admin\n", 1)


def ask_balancer(folder, command):
    """Returns HAProxy's answer to a command of its socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{folder}/stats")
        client.sendall(command.encode() + b"\n")
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def balancer_rows(folder):
    """Returns {name: row} of the backend, from HAProxy's `show stat`."""
    text = ask_balancer(folder, "show stat")
    rows = csv.DictReader(io.StringIO(text.removeprefix("# ")))
    return {row["svname"]: row for row in rows if row["pxname"] == "machines"}


def requests_of(folder):
    rows = balancer_rows(folder)
    return {name: int(rows[name]["stot"]) for name in "abc"}


def agents_answered(folder):
    """Returns true if an agent check of each machine has been answered."""
    rows = balancer_rows(folder)
    return all("L7OK" in rows[name]["agent_status"] for name in "abc")


def has_state(folder, name, state):
    """Returns true if a check has found the machine UP or DOWN. Before the first check HAProxy takes every machine for
    UP."""
    try:
        row = balancer_rows(folder)[name]
    except (OSError, KeyError):
        return False
    return row["status"].startswith(state) and (state != "UP" or "L7OK" in row["check_status"])


def go_through(machines, folder):
    """Ends one machine with GG, kills one, and freezes one. Waits each time until HAProxy has marked it DOWN, and then
    UP again. At last freezes all."""
    a, b, c = machines
    control_channel.Client(a.control[0], control_channel.key_from_text(KEY), a.control[1], timeout_s=5).gg()
    a.wait_end()
    wait_for(lambda: has_state(folder, "a", "DOWN"), "machine a is down")
    a.start()
    wait_for(lambda: has_state(folder, "a", "UP"), "machine a is up again")
    b.kill()
    wait_for(lambda: has_state(folder, "b", "DOWN"), "machine b is down")
    b.start()
    wait_for(lambda: has_state(folder, "b", "UP"), "machine b is up again")
    c.freeze()
    frozen = time.monotonic()
    wait_for(lambda: has_state(folder, "c", "DOWN"), "machine c is down")
    time.sleep(max(0, frozen + FROZEN_S - time.monotonic()))
    c.thaw()
    wait_for(lambda: has_state(folder, "c", "UP"), "machine c is up again")
    before = sum(requests_of(folder).values())
    for m in machines:
        m.freeze()
    time.sleep(STALLED_S)
    for m in machines:
        m.thaw()
    wait_for(lambda: sum(requests_of(folder).values()) > before + 100, "requests after the last freeze")


def answer(address):
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}:8080/sha256", b"abc"), timeout=10) as response:
        return response.read().decode().strip()


def start_machines(machines, stack):
    for m in machines:
        m.start()
        stack.callback(lambda m=m: m.process.poll() is None and m.kill())


@contextlib.contextmanager
def balanced(machines, folder, variant=None):
    """Runs HAProxy in front of the machines, from when all are up."""
    (folder / "haproxy.cfg").write_text(configuration(machines, folder, variant))
    with subprocess.Popen([HAPROXY, "-db", "-f", folder / "haproxy.cfg"], stderr=subprocess.DEVNULL,
                          preexec_fn=qemu.die_with_parent) as balancer:
        try:
            for name in "abc":
                wait_for(lambda n=name: has_state(folder, n, "UP"), f"machine {name} is up")
            yield
        finally:
            balancer.terminate()


def start_load(folder, address):
    """Starts wrk, after one right answer."""
    (folder / "post.lua").write_text(WRK_SCRIPT)
    assert answer(address) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    return subprocess.Popen(["wrk", "-t1", "-c8", "-d600s", "--timeout", "5s", "-s", folder / "post.lua",
                             f"http://{address}:8080/sha256?rounds=200"], stdout=subprocess.PIPE, text=True,
                            preexec_fn=qemu.die_with_parent)


def end_load(wrk, folder):
    """Returns the counts of wrk and HAProxy."""
    wrk.send_signal(signal.SIGINT)
    found = json.loads(wrk.communicate(timeout=PATIENCE_S)[0].splitlines()[-1])
    rows = balancer_rows(folder)
    found["a_second"] = round(found["requests"] / found["us"] * 1e6)
    found["sent_again"] = int(rows["BACKEND"]["wredis"]) + int(rows["BACKEND"]["wretr"])
    found["requests_of"] = requests_of(folder)
    return found


def play(kind, variant, folder, stack):
    set_up_network(kind)
    machines = [(Guest if kind == "qemu" else Hosted)(number) for number in range(3)]
    start_machines(machines, stack)
    stack.enter_context(balanced(machines, folder, variant))
    wrk = start_load(folder, "10.77.0.1" if kind == "qemu" else "127.0.0.1")
    stack.callback(wrk.kill)
    go_through(machines, folder)
    return end_load(wrk, folder)


def main():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        variant = sys.argv[2] if len(sys.argv) > 2 else None
        print(json.dumps(play(sys.argv[1], variant, pathlib.Path(folder), stack)))


if __name__ == "__main__":
    main()
