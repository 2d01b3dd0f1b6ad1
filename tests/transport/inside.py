"""The tools of a case inside its own network namespace: Linux' end of the TAP device, the driver, and a peer of raw
frames.

Linux' end is 10.9.0.1/24 on tap0. The stack under test is 10.9.0.2, except in a few cases. Raw peers answer for
10.9.0.77, which Linux does not own."""
import fcntl
import os
import pathlib
import select
import socket
import struct
import subprocess
import tempfile
import time

from tests.lib.packets import ACK, FIN, PSH, RST, SYN, tcp
from tests.lib.waiting import PATIENCE_S

LINUX, STACK, RAW = "10.9.0.1", "10.9.0.2", "10.9.0.77"
STACK_MAC = bytes.fromhex("525400123456")
RAW_MAC = bytes.fromhex("0200000000aa")
SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20      # <linux/if_packet.h>


def sh(command):
    subprocess.run(command, shell=True, check=True)


def set_up(offload=False, address=f"{LINUX}/24"):
    sh("ip link set lo up")
    sh("ip tuntap add tap0 mode tap" + (" vnet_hdr" if offload else ""))
    quiet = pathlib.Path("/proc/sys/net/ipv6/conf/tap0/disable_ipv6")      # only the frames of the case
    if quiet.exists():
        quiet.write_text("1")
    if address:
        sh(f"ip addr add {address} dev tap0")
    sh("ip link set tap0 up")


def wait_for_carrier():
    """Waits for tap0's carrier. Linux makes the queue some time after the driver has opened the device, and drops
    packets until then."""
    end = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while True:
            request = fcntl.ioctl(any_socket, 0x8913, struct.pack("16sh14x", b"tap0", 0))      # SIOCGIFFLAGS
            if struct.unpack("16sh14x", request)[1] & 0x40:                                     # IFF_RUNNING
                break
            assert time.monotonic() < end, "tap0 has no carrier"
            time.sleep(0.005)
    # Linux announces the carrier just before the queue is ready, and holds a lock until then. This command takes the
    # lock.
    subprocess.run(["ip", "link", "show", "dev", "tap0"], check=True, stdout=subprocess.DEVNULL)


class Driver:
    """The program under test (stdin_driver.c). `expect` waits for a line that begins with the words given, and returns
    the line's words. Other lines are kept for later calls."""

    def __init__(self, *options, stack=None, static=True):
        program = os.environ["STDIN_DRIVER"]
        words = [program, "--tap", "tap0", *options]
        if static and "--ip" not in options:
            words += ["--ip", STACK, "--gw", LINUX]
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr)
        self.buffer, self.lines, self.log = b"", [], []

    def command(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def read(self, timeout):
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        if not ready:
            return False
        got = os.read(self.process.stdout.fileno(), 1 << 16)
        if not got:
            raise AssertionError(f"the driver ended with {self.process.wait()}\n" + self.tail())
        *lines, self.buffer = (self.buffer + got).split(b"\n")
        for line in lines:
            stamp, *words = line.decode().split(" ")
            self.lines.append((int(stamp), words))
            self.log.append(line.decode()[:200])
        return True

    def logged(self):
        """Returns the log so far. Does not move the position at which the driver writes."""
        return os.pread(self.stderr.fileno(), 1 << 24, 0).decode(errors="replace")

    def tail(self):
        return "\n".join(self.log[-30:]) + "\n" + self.logged()[-4000:]

    def expect(self, *words, timeout=PATIENCE_S):
        words = [str(w) for w in words]
        end = time.monotonic() + timeout
        while True:
            for i, (stamp, line) in enumerate(self.lines):
                if line[:len(words)] == words:
                    del self.lines[i]
                    self.stamp_us = stamp
                    return line
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(f"no {words} within {timeout} s\n" + self.tail())
            self.read(left)

    def forget(self, word):
        """Drops the lines that begin with a word and that no call has taken."""
        self.lines = [line for line in self.lines if line[1][0] != word]

    def silent(self, *words, seconds=0.2):
        """Asserts that no line with these words comes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)
        words = [str(w) for w in words]
        assert not [line for _, line in self.lines if line[:len(words)] == words], self.tail()

    def data(self, connection, count, timeout=PATIENCE_S):
        """Returns the next `count` bytes that the stack delivers on a connection."""
        got = b""
        while len(got) < count:
            got += bytes.fromhex(self.expect("data", connection, timeout=timeout)[2])
        assert len(got) == count, f"{len(got)} bytes instead of {count}"
        return got

    def connect(self, address, port):
        self.command(f"connect {address} {port}")
        connection = int(self.expect("connect")[1])
        assert connection >= 0
        return connection

    def listen(self, port):
        self.command(f"listen {port}")
        self.expect("listen", 1)

    def counters(self):
        self.command("counters")
        self.expect("counters")
        found = {words[1]: int(words[2]) for _, words in self.lines if words[0] == "counter"}
        self.lines = [line for line in self.lines if line[1][0] != "counter"]
        return found

    def unacked(self, connection):
        """Returns the number of bytes sent that the peer has not acknowledged."""
        self.command(f"unacked {connection}")
        return int(self.expect("unacked", connection)[2])

    def quit(self):
        """Ends the driver, and asserts that no sanitizer and no assertion failed."""
        if self.process.poll() is None:
            self.command("quit")
            self.process.stdin.close()
        status = self.process.wait(PATIENCE_S)
        assert status == 0, f"the driver ended with {status}\n" + self.tail()

    def __enter__(self):
        self.expect("stack")
        wait_for_carrier()
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.quit()
        else:
            self.process.kill()
            print(self.tail())


def captured(path):
    """Returns the frames of the driver's capture, both directions: (seconds of its clock, frame)."""
    with open(path, "rb") as file:
        data = file.read()
    at, frames = 24, []
    while at + 16 <= len(data):
        seconds, nanoseconds, count, _ = struct.unpack("<IIII", data[at:at + 16])
        frames.append((seconds + nanoseconds / 1e9, data[at + 16:at + 16 + count]))
        at += 16 + count
    return frames


def captured_segments(path, predicate):
    """Returns the times, by the stack's clock, of the TCP segments sent for which the predicate holds."""
    sent = [(at, Segment(frame[14:], at)) for at, frame in captured(path)
            if frame[6:12] == STACK_MAC and frame[12:14] == b"\x08\x00" and frame[23] == 6]
    return [at for at, segment in sent if predicate(segment)]


def captured_dhcp(path):
    """Returns the messages that the stack sent to port 67: (time, kind, destination)."""
    return [(at, frame[14 + 28 + 240 + 2], socket.inet_ntoa(frame[30:34])) for at, frame in captured(path)
            if frame[6:12] == STACK_MAC and frame[12:14] == b"\x08\x00" and frame[23] == 17
            and frame[36:38] == b"\0\x43"]


def gaps(times):
    return [b - a for a, b in zip(times, times[1:])]


def listener(port=8000, address=LINUX, backlog=16):
    server = socket.create_server((address, port), backlog=backlog)
    server.settimeout(PATIENCE_S)
    return server


def accept(server):
    peer, _ = server.accept()
    peer.settimeout(PATIENCE_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def receive(peer, count):
    got = b""
    while len(got) < count and (part := peer.recv(1 << 16)):
        got += part
    return got


def reset(peer):
    """Closes a socket with RST."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def stream(seed, count):
    """Returns the driver's pseudo-random bytes: splitmix64 by position."""
    mask, out = (1 << 64) - 1, bytearray()
    for word in range((count + 7) // 8):
        z = (seed + (word + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        out += (z ^ z >> 31).to_bytes(8, "little")
    return bytes(out[:count])


# --- Frames ----------------------------------------------------------------------------------------------------------

class Segment:
    """A received TCP segment. `at`: seconds of this process's clock."""

    def __init__(self, packet, at):
        self.at = at
        header = (packet[0] & 15) * 4
        total, = struct.unpack("!H", packet[2:4])
        self.source, self.destination = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
        segment = packet[header:total]
        self.source_port, self.port, self.seq, self.ack, offset, self.flags, self.window = struct.unpack(
            "!HHIIBBH", segment[:16])
        self.options = segment[20:(offset >> 4) * 4]
        self.data = segment[(offset >> 4) * 4:]

    def __repr__(self):
        flags = ((SYN, "S"), (FIN, "F"), (RST, "R"), (PSH, "P"), (ACK, "."))
        names = "".join(name for bit, name in flags if self.flags & bit)
        return f"<{names} seq {self.seq} ack {self.ack} win {self.window} len {len(self.data)}>"


class Wire:
    """Raw frames on tap0 of a host that Linux does not own. Answers ARP for its address, except with arp=False. Each
    frame that it sends has `tag` before its type."""

    def __init__(self, address=RAW, mac=RAW_MAC, arp=True, tag=b""):
        self.address, self.mac, self.arp, self.tag = address, mac, arp, tag
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        # Linux drops frames in a TAP's queue until some time after the driver has opened the TAP (see
        # wait_for_carrier). Frames of this socket bypass the queue.
        self.socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        self.socket.bind(("tap0", 0))
        self.arp_requests = []

    def send(self, packet, destination=STACK_MAC, kind=0x0800):
        self.socket.send(destination + self.mac + self.tag + struct.pack("!H", kind) + packet)

    def frame(self, timeout):
        """Returns the next frame from the stack, or None."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.socket], [], [], left)[0]:
                break
            frame, where = self.socket.recvfrom(2048)
            if where[2] == socket.PACKET_OUTGOING:
                continue
            if frame[12:14] == b"\x08\x06":
                self.arp_take(frame)
            return frame
        return None

    def arp_take(self, frame):
        if frame[:6] not in (self.mac, b"\xff" * 6):
            return
        operation, = struct.unpack("!H", frame[20:22])
        target = socket.inet_ntoa(frame[38:42])
        if operation == 1:
            self.arp_requests.append(target)
        if operation == 1 and target == self.address and self.arp:
            self.send(struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + self.mac + frame[38:42] + frame[22:28] + frame[28:32],
                      frame[6:12], 0x0806)

    def ip(self, protocol, timeout=PATIENCE_S):
        """Returns the next IPv4 packet of a protocol to this peer's address, or None."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            frame = self.frame(left)
            if frame and frame[12:14] == b"\x08\x00" and frame[23] == protocol and \
                    frame[30:34] == socket.inet_aton(self.address):
                return frame[14:]
        return None

    def tcp(self, timeout=PATIENCE_S):
        packet = self.ip(6, timeout)
        return Segment(packet, time.monotonic()) if packet else None


class RawConnection:
    """The server's side of a TCP connection, segment by segment."""

    def __init__(self, wire, port=9000, iss=1000, window=65535, options=b"\x02\x04\x05\xb4"):
        self.wire, self.port, self.window = wire, port, window
        self.syn = wire.tcp()
        assert self.syn and self.syn.flags == SYN, self.syn
        self.peer_port, self.seq, self.ack = self.syn.source_port, iss, (self.syn.seq + 1) & 0xFFFFFFFF
        self.send(SYN | ACK, options=options)
        self.seq += 1
        handshake = wire.tcp()
        while handshake and handshake.flags == SYN:     # a SYN sent again before the answer came
            handshake = wire.tcp()
        assert handshake.flags & ACK and handshake.ack == self.seq, handshake

    def send(self, flags, data=b"", seq=None, ack=None, window=None, options=b""):
        self.wire.send(tcp(self.wire.address, STACK, self.port, self.peer_port, self.seq if seq is None else seq,
                           self.ack if ack is None else ack, flags, data,
                           self.window if window is None else window, options))

    def next(self, timeout=PATIENCE_S):
        return self.wire.tcp(timeout)
