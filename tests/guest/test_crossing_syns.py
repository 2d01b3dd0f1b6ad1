"""A server that answers the player's SYN by a SYN of its own, after ARP. The kernel goes on, by RFC 9293 §3.10.7.4.

The peer is made of single frames. tests/unit/tcp_neighbour_test.c plays all segments in all states; here the driver is
real."""
import socket
import struct

from tests.lib.packets import ACK, PSH, RST, SYN, tcp
from workshop.vm import qemu

GUEST, OURS = bytes.fromhex("525400abcdef"), bytes.fromhex("020000000001")
OUR_ADDRESS = socket.inet_aton("10.9.0.1")
FEED = 1000
ISS = 5000
WORDS = f"ip=10.9.0.2/24 feed=10.9.0.1:{FEED} submit=10.9.0.1:1001 user=u passwd=p n=12 m=823"


def segment(port, seq, ack, flags, payload=b""):
    return GUEST + OURS + b"\x08\x00" + tcp("10.9.0.1", "10.9.0.2", FEED, port, seq, ack, flags, payload)


OFFERS_ECN = 0xc0       # ECE and CWR in a SYN: RFC 3168 §6.1.1


class Peer:
    def __init__(self, cable, guest):
        self.cable, self.guest = cable, guest

    def receive(self):
        """Returns the next segment for the feed's port: (port, seq, ack, flags). Answers ARP meanwhile."""
        while True:
            frame = self.cable.receive(10)
            assert frame is not None, f"the guest sends nothing more\n{self.guest.log[-2000:]}"
            if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\x00\x01" and frame[38:42] == OUR_ADDRESS:
                self.cable.send(GUEST + OURS + frame[12:20] + b"\x00\x02" + OURS + OUR_ADDRESS + frame[22:32])
            elif frame[12:14] == b"\x08\x00" and frame[23] == 6 and frame[36:38] == struct.pack(">H", FEED):
                assert frame[:6] == OURS
                port, _, seq, ack, _, flags = struct.unpack_from(">HHIIBB", frame, 34)
                return port, seq, ack, flags


def test_crossing_syns_do_not_end_the_kernel(wire):
    command = [*qemu.kernel(WORDS), "-netdev", wire.netdev, "-device", "virtio-net-pci,netdev=n,mac=52:54:00:ab:cd:ef"]
    with qemu.Machine(command, network=True) as guest:
        peer = Peer(wire, guest)
        port, iss, _, flags = peer.receive()
        assert flags == SYN | OFFERS_ECN
        wire.send(segment(port, ISS, 0, SYN))
        assert peer.receive() == (port, iss, ISS + 1, SYN | ACK)
        refused = [segment(port, ISS, 0, SYN), segment(port, ISS, 0, SYN), segment(port, ISS + 101, 0, SYN),
                   segment(port, ISS + 101, 0, RST), segment(port, ISS - 9, iss + 1, PSH | ACK, b"0123456789"),
                   segment(port, ISS + 70001, iss + 1, PSH | ACK, b"0123456789")]
        for number, each in enumerate(refused):
            wire.send(each)
            assert peer.receive() == (port, iss + 1, ISS + 1, ACK), f"segment {number}"
        wire.send(segment(port, ISS + 1, 0, RST))
        again = peer.receive()
        assert again[0] != port and again[3] == SYN | OFFERS_ECN, "the player tries again"
        assert "panic" not in guest.log
