"""The trading program, app/trade/, as a kernel: the image that `make PROGRAM=trade` builds."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.hosted import test_trade
from tests.lib.waiting import wait_for
from workshop.vm import ports, qemu

IMAGE = qemu.BUILD / "trade/peregrine.elf"
FEED = 26400
PATIENCE_S = 120


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


def account_of(page):
    with urllib.request.urlopen(f"{page}board.json", timeout=PATIENCE_S) as answer:
        return json.load(answer)["accounts"][0]


# As `make run`, it forwards ports of its own numbers where these are free.
@pytest.mark.xdist_group("make-run")
def test_make_trade_shows_acknowledged_orders_and_ends_in_order():
    trade = subprocess.Popen([sys.executable, "-m", "workshop.vm.trade"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env={**os.environ, "RATE": "400", "SETTINGS": ""})
    try:
        page = re.match(r"trade: the page is at (\S+) \.", trade.stdout.readline())[1]
        wait_for(lambda: account_of(page)["counts"].get("answer A", 0) >= 8, "orders are acknowledged", PATIENCE_S)
        assert account_of(page)["us"]
        trade.send_signal(signal.SIGINT)
        said, _ = trade.communicate(timeout=PATIENCE_S)
    finally:
        trade.kill()
    assert trade.returncode == 0 and re.search(r" \d+ executions, 0 open orders$", said.strip()), said
    assert "run: trade has left (gg); the machine has reset" in said, said
    log = (qemu.BUILD / "trade.log").read_text()
    assert re.search(r"stats: ouch\.accepted [1-9]", log) and not re.search(r"stats: ouch\.rejected [1-9]", log), log
    assert "stats: " not in said and len(said.splitlines()) < 60, said
