"""The trading program, app/trade/, as a kernel: the image that `make PROGRAM=trade` builds."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import urllib.request

import pytest

from tests.hosted import test_trade
from tests.lib.waiting import wait_for
from workshop.vm import ports, qemu
from workshop.vm import trade as demo

IMAGE = qemu.BUILD / "trade/peregrine.elf"
FEED, REREQUEST = 26400, 26410
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
def test_make_trade_shows_acknowledged_orders_and_its_capture_gives_the_same_again(tmp_path):
    words = "capture=1514,8192 capture.http=on risk.rate=1000 risk.replaces=100"
    trade = subprocess.Popen([sys.executable, "-m", "workshop.vm.trade"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True,
                             env={**os.environ, "RATE": "400", "SETTINGS": words})
    try:
        page = re.match(r"trade: the page is at (\S+) \.", trade.stdout.readline())[1]
        while not (status := re.match(r"run: the status page is (\S+)", trade.stdout.readline())):
            assert trade.poll() is None
        wait_for(lambda: account_of(page)["counts"].get("answer A", 0) >= 8, "orders are acknowledged", PATIENCE_S)
        assert account_of(page)["us"]
        with urllib.request.urlopen(f"{status[1]}capture", timeout=PATIENCE_S) as capture:
            (tmp_path / "day.pcapng").write_bytes(capture.read())
        trade.send_signal(signal.SIGINT)
        said, _ = trade.communicate(timeout=PATIENCE_S)
    finally:
        trade.kill()
    assert trade.returncode == 0 and re.search(r" \d+ executions, 0 open orders$", said.strip()), said
    assert "run: trade has left (gg); the machine has reset" in said, said
    log = (qemu.BUILD / "trade.log").read_text()
    assert re.search(r"stats: ouch\.accepted [1-9]", log) and not re.search(r"stats: ouch\.rejected [1-9]", log), log
    assert "stats: " not in said and len(said.splitlines()) < 100, said
    check_replay(tmp_path, [*demo.SETTINGS, *words.split()[2:]], log)


def counted(log, name):
    return re.search(rf"stats: mold\.{name} (\d+)", log)[1]


def check_replay(folder, settings, log):
    """Plays the capture again: the orders are the same, byte for byte."""
    words = {"orders": re.search(r"orders (\S+): logged in", log)[1], "feed.a": f"0.0.0.0:{FEED}",
             "feed.b": f"0.0.0.0:{FEED + 1}", "symbols": demo.SYMBOLS,
             **dict(word.split("=") for word in settings)}
    answer = re.search(rb"\x0a\0\x02\x02\x0a\0\x02\x0f(..)" + re.escape(struct.pack(">H", REREQUEST)),
                       (folder / "day.pcapng").read_bytes(), re.DOTALL)
    if answer:
        words["rerequest"] = "10.0.2.2:%d" % struct.unpack(">H", answer[1])
    if snapshot := re.search(r"snapshot (\S+): logged in", log):
        words["snapshot"] = snapshot[1]
    done = subprocess.run([sys.executable, "-m", "servers.exchange", "replay", folder / "day.pcapng", "--fills",
                           "recorded", "--out", folder / "out", *map("=".join, words.items())],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    replayed = json.loads((folder / "out.json").read_text())["statistics"] if done.stdout else {}
    assert re.search(r"all [0-9]+ messages to the exchange are those of the day", done.stdout), (
        f"{done.stderr}mold.requests {counted(log, 'requests')} on the day, {replayed.get('mold.requests')} in the "
        f"replay; mold.lost {counted(log, 'lost')}, {replayed.get('mold.lost')}: they differ if the machine stalled")
