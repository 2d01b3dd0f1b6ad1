"""The second program, app/echo/, as a kernel: the image that `make PROGRAM=echo` builds."""
import socket

from tests.hosted import test_echo
from workshop.vm import ports, qemu

IMAGE = qemu.BUILD / "echo/peregrine.elf"


def test_echo_answers_over_the_wire_shows_its_page_and_ends_by_gg():
    echo = ports.free_port(socket.SOCK_STREAM, socket.SOCK_DGRAM)
    status, gg_port = ports.free_port(socket.SOCK_STREAM), ports.free_port(socket.SOCK_DGRAM)
    words = f"port=7 http.port=80 key={test_echo.KEY} ip=10.0.2.15/24 gw=10.0.2.2"
    forward = ",".join(f"hostfwd={kind}:127.0.0.1:{port}-:{inside}" for kind, port, inside in [
        ("tcp", echo, 7), ("udp", echo, 7), ("tcp", status, 80), ("udp", gg_port, 18247)])
    devices = ["-vga", "none", "-netdev", f"user,id=n,{forward}", "-device", "virtio-net-pci,netdev=n"]
    with qemu.Machine(qemu.kernel(words, image=IMAGE) + devices) as guest:
        guest.wait_for("echo: running, TCP/IP stack")
        test_echo.check(echo, status, gg_port)
        guest.wait_reset()
    assert "back to Linux: gg" in guest.log and "stats: echo.accepted 1" in guest.log, guest.log


def test_keys_of_the_player_are_unknown_to_the_echo():
    with qemu.Machine(qemu.kernel("feed=10.0.2.2:10001", image=IMAGE) + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert '"feed": there is no such key' in guest.log, guest.log
