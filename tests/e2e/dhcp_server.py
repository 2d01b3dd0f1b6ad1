"""A DHCP server for one guest, which leases as the strictest clouds do: a /32 address, the way out by option 121
only (RFC 3442: the gateway is on the link, everything else behind it), MTU 1460 by option 26."""
import socket
import struct

from udp_server import UdpServer

MAGIC = bytes([99, 130, 83, 99])
DISCOVER, OFFER, REQUEST, ACK = 1, 2, 3, 5
SO_BINDTODEVICE = 25


def option(code, value):
    return bytes([code, len(value)]) + value


def message_type(packet):
    """Option 53 of a DHCP packet, or None."""
    at = 240
    while at + 1 < len(packet) and packet[at] != 255:
        if packet[at] == 0:
            at += 1
            continue
        if packet[at] == 53:
            return packet[at + 2]
        at += 2 + packet[at + 1]
    return None


def reply(packet, server, guest):
    """The answer to a DISCOVER or a REQUEST; RFC 2131 §2, RFC 2132, RFC 3442."""
    kind = {DISCOVER: OFFER, REQUEST: ACK}.get(message_type(packet))
    if packet[:1] != b"\x01" or packet[236:240] != MAGIC or kind is None:
        return None
    server_bytes, guest_bytes = socket.inet_aton(server), socket.inet_aton(guest)
    routes = bytes([32]) + server_bytes + bytes(4) + bytes([0]) + server_bytes
    head = struct.pack("!4B4sHH4s4s4s4s16s", 2, 1, 6, 0, packet[4:8], 0, 0x8000, bytes(4), guest_bytes, server_bytes,
                       bytes(4), packet[28:44])
    options = (option(53, bytes([kind])) + option(54, server_bytes) + option(51, struct.pack("!I", 3600))
               + option(1, b"\xff\xff\xff\xff") + option(26, struct.pack("!H", 1460)) + option(121, routes))
    return head + bytes(192) + MAGIC + options + b"\xff"


class DhcpServer(UdpServer):
    def __init__(self, interface, server, guest):
        self.server, self.guest = server, guest
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, interface.encode())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.bind(("0.0.0.0", 67))
        super().__init__(sock)

    def take(self, packet):
        if answer := reply(packet, self.server, self.guest):
            self.sock.sendto(answer, ("255.255.255.255", 68))
