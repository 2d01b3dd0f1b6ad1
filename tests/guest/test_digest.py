"""The compute service, app/digest/, as a kernel: the image that `make PROGRAM=digest` builds."""
import base64
import os
import socket
import threading

from tests.hosted import test_digest
from vm import ports, qemu

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


def test_all_paths_over_the_wire_and_gg_resets_the_machine():
    service, status = ports.free_port(socket.SOCK_STREAM), ports.free_port(socket.SOCK_STREAM)
    gg_port = ports.free_port(socket.SOCK_DGRAM)
    words = f"port=8080 http.port=80 key={test_digest.KEY} ip=10.0.2.15/24 gw=10.0.2.2"
    forward = ",".join(f"hostfwd={kind}:127.0.0.1:{port}-:{inside}" for kind, port, inside in [
        ("tcp", service, 8080), ("tcp", status, 80), ("udp", gg_port, 18247)])
    devices = ["-vga", "none", "-netdev", f"user,id=n,{forward}", "-device", "virtio-net-pci,netdev=n"]
    with qemu.Machine(qemu.kernel(words, image=IMAGE) + devices) as guest:
        guest.wait_for("digest: running, TCP/IP stack")
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
