"""IPv4 packets for tests that are a peer themselves. Addresses are dotted strings."""
import socket
import struct

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def with_checksum(data, at, pseudo=b""):
    """Returns the data with the checksum of `pseudo` and the data in its place, which holds zeros."""
    return data[:at] + struct.pack("!H", checksum(pseudo + data)) + data[at + 2:]


def ip_header(source, destination, protocol, payload_bytes, identification=1):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + payload_bytes, identification, 0x4000, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(destination))
    return with_checksum(head, 10)


def ip_packet(source, destination, protocol, segment, checksum_at):
    """Returns a packet of TCP or UDP, whose checksum covers the addresses."""
    pseudo = socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack("!BBH", 0, protocol, len(segment))
    return ip_header(source, destination, protocol, len(segment)) + with_checksum(segment, checksum_at, pseudo)


def tcp(source, destination, source_port, port, seq, ack, flags, data=b"", window=65535, options=b""):
    head = struct.pack("!HHIIBBHHH", source_port, port, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF,
                       (5 + len(options) // 4) << 4, flags, window, 0, 0)
    return ip_packet(source, destination, 6, head + options + data, 16)


def udp(source, destination, source_port, port, data):
    return ip_packet(source, destination, 17, struct.pack("!HHHH", source_port, port, 8 + len(data), 0) + data, 6)
