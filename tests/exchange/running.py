"""An exchange as a process of its own, and clients of its ports. They read and write by the specifications' tables."""
import json
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from servers.contest.die_with_parent import die_with_parent

WAIT_S = 60                     # for anything; a test that waits so long has failed
WORDS = [sys.executable, "-m", "servers.exchange"]


class Lines:
    """The receiving ends of both lines. `a`, `b`: all packets, in the order in which they came."""

    def __init__(self):
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab"]
        for sock in self.sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            sock.bind(("127.0.0.1", 0))
        self.a, self.b = [], []

    def words(self):
        return [word for name, sock in zip("ab", self.sockets)
                for word in (f"--line-{name}", "127.0.0.1:%d" % sock.getsockname()[1])]

    def read(self, until):
        """Takes packets until a condition holds."""
        end = time.monotonic() + WAIT_S
        while not until():
            assert time.monotonic() < end, f"{len(self.a)} and {len(self.b)} packets, and no end"
            ready, _, _ = select.select(self.sockets, [], [], 0.2)
            for sock in ready:
                (self.a if sock is self.sockets[0] else self.b).append(sock.recv(2048))

    def read_to_the_end(self):
        self.read(lambda: all(packets and header_of(packets[-1])[2] == 0xffff for packets in (self.a, self.b)))

    def close(self):
        for sock in self.sockets:
            sock.close()


def header_of(packet):
    """Returns (session, first number, count) of a packet."""
    return struct.unpack(">10sQH", packet[:20])


def messages_of(packets):
    """Returns {number: message} of packets. A number that comes twice must be the same message."""
    found = {}
    for packet in packets:
        _, number, count = header_of(packet)
        at = 20
        for number in range(number, number + (0 if count == 0xffff else count)):
            size = struct.unpack(">H", packet[at:at + 2])[0]
            message = packet[at + 2:at + 2 + size]
            assert found.setdefault(number, message) == message, f"message {number} differs"
            at += 2 + size
        assert at == len(packet)
    return found


class Soup:
    """A client of SoupBinTCP."""

    def __init__(self, address, sequence=1, user="TRADER", password="PEREGRINE", session=""):
        self.sock = socket.create_connection(address, timeout=WAIT_S)
        self.data = b""
        self.send("L", user.encode().ljust(6) + password.encode().ljust(10) + session.encode().rjust(10) +
                  str(sequence).encode().rjust(20))
        self.login = self.packet()

    def send(self, kind, payload=b""):
        self.sock.sendall(struct.pack(">H", 1 + len(payload)) + kind.encode() + payload)

    def packet(self):
        """Returns the next packet that is no heartbeat: (type, payload). ("", b"") at the connection's end."""
        while True:
            while len(self.data) < 2 or len(self.data) < 2 + struct.unpack(">H", self.data[:2])[0]:
                data = self.sock.recv(65536)
                if not data:
                    return "", b""
                self.data += data
            size = struct.unpack(">H", self.data[:2])[0]
            kind, payload = self.data[2:3].decode(), self.data[3:2 + size]
            self.data = self.data[2 + size:]
            if kind != "H":
                return kind, payload

    def message(self):
        """Returns the next sequenced message."""
        kind, payload = self.packet()
        assert kind == "S", (kind, payload)
        return payload

    def close(self):
        self.sock.close()


class Running:
    """The exchange's `serve` with these words, on free ports of loopback, or on these ports of another address."""

    def __init__(self, lines, *words, ports=None, host="127.0.0.1"):
        ports = ports or {name: 0 for name in ("rerequest", "snapshot", "orders")}
        self.log = tempfile.TemporaryFile("w+")         # a pipe that nobody reads would stop the exchange
        self.process = subprocess.Popen(
            [*WORDS, "serve", *lines.words(), *(word for name, port in ports.items() for word in (
                f"--{name}", f"{host}:{port}")), *map(str, words)],
            stdout=subprocess.PIPE, stderr=self.log, text=True, preexec_fn=lambda: die_with_parent(signal.SIGKILL))
        first = self.process.stdout.readline()
        self.addresses = {name: (ip, int(port)) for name, ip, port in re.findall(r"(\w+)=([\d.]+):(\d+)", first)}
        assert self.addresses, self.log_text()
        self.session = re.search(r"session=(\w+)", first)[1]

    @property
    def ports(self):
        return {name: self.addresses[name][1] for name in ("rerequest", "snapshot", "orders")}

    def log_text(self):
        self.process.wait(WAIT_S)
        self.log.seek(0)
        return self.log.read()

    def end(self):
        """Ends the exchange in order; returns the counts and the accounts' states that it prints."""
        self.process.terminate()
        return self.wait()

    def wait(self):
        out, _ = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, self.log_text()
        counts, *accounts = map(json.loads, out.splitlines())
        return counts, {account["user"]: account for account in accounts}

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=WAIT_S)

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.log.close()
