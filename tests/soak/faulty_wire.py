"""The wire between a guest and the TAP device, and its faults: loss, repetition, reordering, strangers' frames."""
import fcntl
import os
import random
import select
import socket
import struct
import threading
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME_BYTES_MAX = 65536
LOSS, REPEAT, HOLD = 0.01, 0.005, 0.02      # shares of the frames while the wire is faulty
HOLD_S = 0.01                               # the time by which a held frame is late


def checksum(data):
    assert len(data) % 2 == 0
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ipv4(source, target, protocol, payload, fragment=0):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), random.getrandbits(16), fragment, 64, protocol, 0,
                       source, target)
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def tcp(source, target, port, flags):
    head = struct.pack(">HHIIBBHHH", random.randrange(1024, 65536), port, random.getrandbits(32),
                       random.getrandbits(32), 5 << 4, flags, 65535, 0, 0)
    sum_ = checksum(source + target + struct.pack(">HH", 6, len(head)) + head)
    return ipv4(source, target, 6, head[:16] + struct.pack(">H", sum_) + head[18:])


def udp(source, target, port, payload):
    head = struct.pack(">HHHH", random.randrange(1024, 65536), port, 8 + len(payload), 0)
    return ipv4(source, target, 17, head + payload)


def ping(source, target):
    body = struct.pack(">BBHHH", 8, 0, 0, random.getrandbits(16), 1) + bytes(24)
    return ipv4(source, target, 1, body[:2] + struct.pack(">H", checksum(body)) + body[4:])


def strangers_frame(kind, guest_mac, guest, network):
    """Builds a frame to the guest under an address of its own link (`network`: three bytes), drawn at random."""
    mac, source = b"\x06" + random.randbytes(5), network + bytes([random.randrange(10, 250)])
    arp_head = b"\x08\x06\x00\x01\x08\x00\x06\x04"
    if kind == "arp":
        return b"\xff" * 6 + mac + arp_head + b"\x00\x01" + mac + source + bytes(6) + guest
    if kind == "claim":         # a forged reply that claims the server's address
        return guest_mac + mac + arp_head + b"\x00\x02" + mac + network + b"\x01" + guest_mac + guest
    packet = {
        "syn": lambda: tcp(source, guest, random.randrange(1, 1024), 2),
        "ack": lambda: tcp(source, guest, random.randrange(1, 1024), 16),
        "ping": lambda: ping(source, guest),
        "hello": lambda: udp(source, guest, 18247, b"PGRN\x01\x01\x00\x40" + random.randbytes(56)),
        "fragment": lambda: ipv4(source, guest, 17, bytes(64), fragment=0x2000),
    }[kind]()
    return guest_mac + mac + b"\x08\x00" + packet


FLOODS = ("syn", "ping", "arp", "hello", "fragment", "ack")


def udp_port(frame):
    """Returns the UDP port that a frame goes to; 0 if it holds no UDP without IP options."""
    is_udp = frame[12:15] == b"\x08\x00\x45" and frame[23:24] == b"\x11"
    return int.from_bytes(frame[36:38], "big") if is_udp else 0


class Wire(threading.Thread):
    """Carries frames between QEMU's `dgram` back end, a pair of paths, and a TAP device."""

    def __init__(self, directory, tap, guest_mac, seed):
        super().__init__(daemon=True)
        near, far = f"{directory}/near", f"{directory}/far"
        self.netdev = f"dgram,id=net0,local.type=unix,local.path={far},remote.type=unix,remote.path={near}"
        self.far, self.guest_mac, self.random = far, guest_mac, random.Random(seed)
        self.guest_end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.guest_end.bind(near)
        self.guest_end.setblocking(False)
        self.tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tap, TUNSETIFF, struct.pack("16sH22x", tap.encode(), IFF_TAP | IFF_NO_PI))
        self.faulty = self.stopping = False
        self.flood = None           # (kind, frames a second, the guest's address)
        self.cut = ()               # UDP ports of the guest that nothing reaches
        self.held = []              # (when, frame, to_guest)
        self.counts = {"carried": 0, "lost": 0, "repeated": 0, "held": 0, "cut": 0, "flooded": 0, "full": 0}

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.join(5)
        self.guest_end.close()
        os.close(self.tap)

    def run(self):
        next_flood = 0.0
        while not self.stopping:
            ready, _, _ = select.select([self.tap, self.guest_end], [], [], 0.002 if self.held or self.flood else 0.1)
            if self.tap in ready:
                self.take(os.read(self.tap, FRAME_BYTES_MAX), True)
            if self.guest_end in ready:
                self.take(self.guest_end.recv(FRAME_BYTES_MAX), False)
            now = time.monotonic()
            while self.held and self.held[0][0] <= now:
                self.put(*self.held.pop(0)[1:])
            if flood := self.flood:
                kind, rate, guest = flood
                next_flood = max(next_flood, now - 0.01)
                while next_flood <= now:
                    self.put(strangers_frame(kind, self.guest_mac, guest, guest[:3]), True)
                    self.counts["flooded"] += 1
                    next_flood += 1 / rate

    def take(self, frame, to_guest):
        """Carries a frame. While the wire is faulty, may lose, repeat or hold the frame."""
        self.counts["carried"] += 1
        if to_guest and self.cut and udp_port(frame) in self.cut:
            self.counts["cut"] += 1
            return
        luck = self.random.random() if self.faulty else 1
        if luck < LOSS:
            self.counts["lost"] += 1
        elif luck < LOSS + REPEAT:
            self.counts["repeated"] += 1
            self.put(frame, to_guest)
            self.put(frame, to_guest)
        elif luck < LOSS + REPEAT + HOLD:
            self.counts["held"] += 1
            self.held.append((time.monotonic() + HOLD_S, frame, to_guest))
        else:
            self.put(frame, to_guest)

    def put(self, frame, to_guest):
        try:
            if to_guest:
                self.guest_end.sendto(frame, self.far)
            else:
                os.write(self.tap, frame)
        except (BlockingIOError, FileNotFoundError, ConnectionRefusedError):
            self.counts["full"] += 1
