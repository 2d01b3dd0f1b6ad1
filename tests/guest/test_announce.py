"""A host that moves a machine asks for an announcement, as QMP's announce-self does: a gratuitous ARP follows."""
import struct
import time

import pytest
from workshop.vm import qemu

MAC, ADDRESS = bytes.fromhex("525400abcdef"), bytes([10, 0, 2, 15])
WORDS = "port=7 http.port=80 key=correct-horse-battery ip=10.0.2.15/24"
GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3 ip=10.0.2.15/24"
ECHO, LWIP = qemu.BUILD / "echo/peregrine.elf", qemu.BUILD / "other/peregrine.elf"
PATIENCE_S = 30

# The announcement is an ARP request for our own address (RFC 5227 §3).
ANNOUNCEMENT = (b"\xff" * 6 + MAC + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + MAC + ADDRESS + bytes(6)
                + ADDRESS)


def announcements(wire, seconds, enough, busy=False):
    """Counts announcements, until there are enough; with `busy` a frame goes to the machine every 50 ms."""
    count, deadline = 0, time.monotonic() + seconds
    while count < enough and time.monotonic() < deadline:
        if busy:
            wire.send(MAC + bytes.fromhex("020000000001") + b"\x88\xb5" + bytes(46))
        frame = wire.receive(0.05)
        count += frame is not None and frame[:len(ANNOUNCEMENT)] == ANNOUNCEMENT
    return count


@pytest.mark.parametrize("image, words, machine, device, busy", [
    (ECHO, WORDS, "pc", "virtio-net-pci", False),
    (ECHO, WORDS, "pc", "virtio-net-pci,disable-modern=on", True),
    (ECHO, WORDS, "q35", "virtio-net-pci,disable-legacy=on,mq=on", True),
    (ECHO, WORDS, "microvm", "virtio-net-device", False),
    (LWIP, GAME, "pc", "virtio-net-pci", False),
], ids=["transitional", "legacy-busy", "modern-busy", "mmio", "lwip"])
def test_announcement_follows_the_hosts_wish(image, words, machine, device, busy, wire):
    options = [*qemu.kernel(words, image=image), "-netdev", wire.netdev,
               "-device", f"{device},netdev=n,mac={MAC.hex(':')}"]
    with qemu.Machine(options, machine=machine, network=True) as guest:
        guest.wait_for(": running, TCP/IP stack")
        assert "CTRL_VQ GUEST_ANNOUNCE" in guest.log
        assert announcements(wire, PATIENCE_S, 1) == 1, "none at the start"
        assert announcements(wire, 3, 1) == 0
        for _ in range(2):                      # the second wish comes only if the first was acknowledged
            guest.qmp("announce-self", initial=50, max=50, rounds=1, step=50)
            assert announcements(wire, PATIENCE_S, 1, busy) == 1
            assert announcements(wire, 5, 1, busy) == 0


def test_device_without_the_feature_plays(wire):
    device = f"virtio-net-pci,guest_announce=off,ctrl_rx=off,netdev=n,mac={MAC.hex(':')}"
    options = [*qemu.kernel(WORDS, image=ECHO), "-netdev", wire.netdev, "-device", device]
    with qemu.Machine(options, network=True) as guest:
        guest.wait_for("echo: running, TCP/IP stack")
        assert "CTRL_VQ" not in guest.log
