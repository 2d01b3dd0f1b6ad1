"""The trading program, app/trade/, as a kernel: the image that `make PROGRAM=trade` builds."""
import socket

from tests.hosted import test_trade
from vm import ports, qemu

IMAGE = qemu.BUILD / "trade/peregrine.elf"
FEED = 26400


def test_kernel_trades_and_cancels_its_open_order_before_it_resets():
    feed, gg_port = (ports.free_port(socket.SOCK_DGRAM) for _ in range(2))
    status = ports.free_port(socket.SOCK_STREAM)
    exchange = test_trade.Exchange(("127.0.0.1", feed))
    words = " ".join(test_trade.words_of(FEED, exchange.port, 80, 18247, host="10.0.2.2"))
    forward = ",".join(f"hostfwd={kind}:127.0.0.1:{port}-:{inside}" for kind, port, inside in [
        ("udp", feed, FEED), ("tcp", status, 80), ("udp", gg_port, 18247)])
    devices = ["-vga", "none", "-netdev", f"user,id=n,{forward}", "-device", "virtio-net-pci,netdev=n"]
    with qemu.Machine(qemu.kernel(f"{words} ip=10.0.2.15/24 gw=10.0.2.2", image=IMAGE) + devices) as guest:
        try:
            guest.wait_for("trade: running, TCP/IP stack")
            test_trade.check(exchange, status, gg_port)
            guest.wait_reset()
        finally:
            exchange.close()
    assert "back to Linux: gg" in guest.log and "stats: ouch.cancelled 1" in guest.log, guest.log
