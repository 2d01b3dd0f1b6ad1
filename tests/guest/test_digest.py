"""The compute service, app/digest/, as a kernel: the image that `make PROGRAM=digest` builds."""
import base64
import contextlib
import http.client
import os
import re
import socket
import threading

from tests.hosted import test_digest
from workshop.vm import ports, qemu

IMAGE = qemu.BUILD / "digest/peregrine.elf"


def stream_base64(port, data):
    """Sends the data and reads the answer late, so that both windows close on the way."""
    with socket.create_connection(("127.0.0.1", port), timeout=test_digest.PATIENCE_S) as connection:
        head = f"POST /base64 HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        sender = threading.Thread(target=connection.sendall, args=(head + data,))
        sender.start()
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
        sender.join()
    return answer.partition(b"\r\n\r\n")[2]


@contextlib.contextmanager
def machine(words, cpus=1):
    """Runs the service. Yields the guest, and the ports of service, status page and control channel on 127.0.0.1."""
    service, status = ports.free_port(socket.SOCK_STREAM), ports.free_port(socket.SOCK_STREAM)
    agent, gg_port = ports.free_port(socket.SOCK_STREAM), ports.free_port(socket.SOCK_DGRAM)
    forward = ",".join(f"hostfwd={kind}:127.0.0.1:{port}-:{inside}" for kind, port, inside in [
        ("tcp", service, 8080), ("tcp", status, 80), ("tcp", agent, 81), ("udp", gg_port, 18247)])
    devices = ["-vga", "none", "-netdev", f"user,id=n,{forward}", "-device", "virtio-net-pci,netdev=n"]
    words = f"port=8080 http.port=80 agent.port=81 key={test_digest.KEY} ip=10.0.2.15/24 gw=10.0.2.2 {words}"
    with qemu.Machine(qemu.kernel(words, image=IMAGE) + devices, cpus=cpus) as guest:
        guest.wait_for("digest: running, TCP/IP stack")
        guest.agent_port = agent
        yield guest, service, status, gg_port


def test_four_cpus_work_and_answer_right():
    with machine("cpus=all", cpus=4) as (guest, service, status, gg_port):
        test_digest.check_values(service)
        test_digest.load(service, clients=12, count=2)
        assert all(test_digest.jobs(status, 4))
        assert test_digest.agent_says(guest.agent_port) >= 1
        test_digest.say_gg(gg_port)
        guest.wait_reset()
    assert "back to Linux: gg" in guest.log and re.search(r"stats: work\.3\.jobs [1-9]", guest.log), guest.log


def test_worker_that_traps_during_the_work_takes_the_machine_home():
    with machine("cpus=4 test.trap=worker-null test.after=2", cpus=4) as (guest, service, _, _):
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                test_digest.load(service, clients=4, count=1)
        guest.wait_reset()
    assert "worker 3, APIC id 3: page fault" in guest.log and "worker_null" in guest.log, guest.log
    assert "back to Linux: worker 3: page fault" in guest.log, guest.log


def test_all_paths_over_the_wire_and_gg_resets_the_machine():
    with machine("") as (guest, service, status, gg_port):
        test_digest.check_values(service)
        data = os.urandom(1_000_000)
        assert stream_base64(service, data) == base64.b64encode(data)
        with socket.create_connection(("127.0.0.1", service)) as slow:
            slow.sendall(b"POST /sha256 HTTP/1.1\r\n")
            test_digest.check_values(service)
        assert test_digest.page(status)["digest.responses_refused"] == "0"
        test_digest.say_gg(gg_port)
        guest.wait_reset()
    assert "back to Linux: gg" in guest.log and "stats: digest.rounds 2000" in guest.log, guest.log
    total_ns, *stages_ns = map(int, re.search(r"stats: slow\.01 \S+ (\d+) (\d+) (\d+) (\d+) ", guest.log).groups())
    assert total_ns == sum(stages_ns) > 0, guest.log
