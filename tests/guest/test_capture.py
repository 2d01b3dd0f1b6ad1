"""capture=: tshark reads the frames of a failing game over HTTP, over the control channel, and from the crash record.
It names the frames that the stack dropped, and why."""
import contextlib
import http.client
import shutil
import socket
import subprocess
import sys
import time

import pytest

from deploy import blackbox, control
from tests.guest import recorded_run
from workshop.vm import machine, ports, qemu

GAME = ("feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3 key=correct-horse http.port=80 capture=96 "
        "capture.http=on")
CLOSED_PORT = 9
FIELDS = ("frame.time_epoch", "frame.packet_flags_direction", "udp.dstport", "tcp.dstport", "frame.comment",
          "frame.len", "frame.cap_len", "_ws.malformed")
RECEIVED, SENT = "0x00000001", "0x00000002"

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="no tshark: tools/setup.sh check installs it")


def read(file):
    """Returns the packets that tshark reads from a file of bytes, each as a dictionary of its fields."""
    words = ["tshark", "-r", "-", "-T", "fields", "-E", "separator=|", *(w for f in FIELDS for w in ("-e", f))]
    done = subprocess.run(words, input=file, capture_output=True, timeout=60)
    assert done.returncode == 0 and b"damaged" not in done.stderr, done.stderr.decode()
    return [dict(zip(FIELDS, line.split("|"))) for line in done.stdout.decode().splitlines()]


def dropped(packets):
    """Returns the ports of dropped datagrams and segments, each with the counter."""
    return {(packet["udp.dstport"] or packet["tcp.dstport"], packet["frame.comment"]) for packet in packets
            if packet["frame.comment"]}


def check(packets, least, reasons):
    assert len(packets) >= least and reasons <= dropped(packets), packets
    assert not [packet for packet in packets if packet["_ws.malformed"]]
    assert {packet["frame.packet_flags_direction"] for packet in packets} == {RECEIVED, SENT}
    for packet in packets:
        assert abs(float(packet["frame.time_epoch"]) - time.time()) < 120
        kept, whole = int(packet["frame.cap_len"]), int(packet["frame.len"])
        padded_login = (kept, whole) == (54, 60)    # a record keeps its headers alone; a newer QEMU pads short frames
        assert kept == min(whole, 96) or padded_login
        assert not packet["frame.comment"] or packet["frame.packet_flags_direction"] == RECEIVED
    times = [float(packet["frame.time_epoch"]) for packet in packets]
    assert times == sorted(times)


def over_http(port):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", "/capture")
        response = connection.getresponse()
        assert response.status == 200
        return response.read()


def over_the_channel(port, directory):
    config = directory / "game.conf"
    config.write_text(GAME.replace(" ", "\n"))
    done = subprocess.run([sys.executable, qemu.ROOT / "tools/peregrine", "capture", "no-host", "--config", config,
                           "--address", "127.0.0.1", "--port", str(port)], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("stack, reasons", [
    ("own", {(str(CLOSED_PORT), "udp.rx_drop_no_port"), (str(control.PORT), "control.drop_mac")}),
    ("lwip", {(str(CLOSED_PORT), "lwip.udp.drop"), (str(control.PORT), "control.drop_mac")})])
def test_tshark_reads_a_failing_game_in_three_ways(tmp_path, stack, reasons):
    http_port, channel, closed = ports.free_port(ports.TCP), ports.free_port(ports.UDP), ports.free_port(ports.UDP)
    forwards = "".join(f",hostfwd={each}" for each in (
        f"tcp:127.0.0.1:{http_port}-:80", f"udp:127.0.0.1:{channel}-:{control.PORT}",
        f"udp:127.0.0.1:{closed}-:{CLOSED_PORT}"))
    files = {}

    def play(guest):
        guest.wait_for("input stream 1 .* refused")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"nobody listens here", ("127.0.0.1", closed))
        with pytest.raises(control.NotAuthenticated):
            control.Client("127.0.0.1", b"another key", channel, timeout_s=2, attempts=2).status()
        files["http"] = over_http(http_port)
        files["channel"] = over_the_channel(channel, tmp_path)
        guest.inject_nmi()

    _, records = recorded_run.run(GAME, ["-netdev", f"user,id=n{forwards}", "-device",
                                                         "virtio-net-pci,netdev=n"], play, machine.image_of(stack))
    for file in files.values():
        check(read(file), 20, reasons)
    assert records[1].cause == "NMI"
    check(read(blackbox.in_order(blackbox.blocks_of(records[1].frames))), 20, reasons)
    assert f"frames: the last {len(blackbox.blocks_of(records[1].frames)) - 2} (" in "\n".join(
        blackbox.describe(records[1]))
    assert len(blackbox.blocks_of(records[0].frames)) > 4, "the small region has room for some"
