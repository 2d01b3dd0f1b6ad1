"""A DHCP server for one guest, which leases as the strictest clouds do.

It leases a /32 address and MTU 1460 (option 26). The routes come by option 121 only (RFC 3442): the gateway is on the
link, everything else beyond it. A guest that asks for another address than `guest`, which may change, gets a NAK."""
import socket
import struct
import time

from tests.lib.udp_server import UdpServer

MAGIC = bytes([99, 130, 83, 99])
DISCOVER, OFFER, REQUEST, ACK, NAK = 1, 2, 3, 5, 6
SO_BINDTODEVICE = 25


def option(code, value):
    return bytes([code, len(value)]) + value


def find_option(packet, code):
    """Returns the value of an option of a DHCP packet, or None."""
    at = 240
    while at + 1 < len(packet) and packet[at] != 255:
        if packet[at] == 0:
            at += 1
            continue
        if packet[at] == code:
            return packet[at + 2:at + 2 + packet[at + 1]]
        at += 2 + packet[at + 1]
    return None


def reply(packet, server, guest, mask="255.255.255.255", lease_s=3600):
    """Builds the answer to a DISCOVER or a REQUEST; RFC 2131 §2, RFC 2132, RFC 3442."""
    asked = (find_option(packet, 53) or b"\0")[0]
    if packet[:1] != b"\x01" or packet[236:240] != MAGIC or asked not in (DISCOVER, REQUEST):
        return None
    server_bytes, guest_bytes = socket.inet_aton(server), socket.inet_aton(guest)
    head = struct.pack("!4B4sHH4s4s4s4s16s", 2, 1, 6, 0, packet[4:8], 0, 0x8000, bytes(4), guest_bytes, server_bytes,
                       bytes(4), packet[28:44]) + bytes(192) + MAGIC
    wanted = find_option(packet, 50) or packet[12:16]       # ciaddr: a renewal
    if asked == REQUEST and wanted != guest_bytes:
        return head[:16] + bytes(4) + head[20:] + option(53, bytes([NAK])) + option(54, server_bytes) + b"\xff"
    routes = bytes([32]) + server_bytes + bytes(4) + bytes([0]) + server_bytes
    options = (option(53, bytes([OFFER if asked == DISCOVER else ACK])) + option(54, server_bytes)
               + option(51, struct.pack("!I", lease_s)) + option(1, socket.inet_aton(mask))
               + option(26, struct.pack("!H", 1460)) + option(121, routes))
    return head + options + b"\xff"


class DhcpServer(UdpServer):
    def __init__(self, interface, server, guest, mask="255.255.255.255", lease_s=3600):
        self.server, self.guest, self.mask, self.lease_s = server, guest, mask, lease_s
        self.acknowledged, self.refused_ns = 0, []          # leases given or renewed; when a NAK was sent
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, interface.encode())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.bind(("0.0.0.0", 67))
        super().__init__(sock)

    def take(self, packet):
        if not (answer := reply(packet, self.server, self.guest, self.mask, self.lease_s)):
            return
        kind = find_option(answer, 53)[0]
        self.acknowledged += kind == ACK
        if kind == NAK:
            self.refused_ns.append(time.time_ns())
        self.sock.sendto(answer, ("255.255.255.255", 68))
