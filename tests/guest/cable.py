"""A guest's Ethernet cable. The test holds the other end."""
import select
import socket
import time

from workshop.vm import qemu


class Cable:
    """QEMU's dgram backend: one datagram is one frame."""

    def __init__(self, directory):
        self.near, self.far = str(directory / "near"), str(directory / "far")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.near)
        self.socket.setblocking(False)
        self.netdev = f"dgram,id=n,local.type=unix,local.path={self.far},remote.type=unix,remote.path={self.near}"

    def send(self, frame):
        deadline = time.monotonic() + qemu.PATIENCE_S
        while time.monotonic() < deadline:
            try:
                return self.socket.sendto(frame, self.far)
            except BlockingIOError:
                select.select([], [self.socket], [], 0.01)
        raise AssertionError("the guest's end takes no frame")

    def receive(self, seconds=qemu.PATIENCE_S):
        ready, _, _ = select.select([self.socket], [], [], seconds)
        return self.socket.recv(65536) if ready else None

    def close(self):
        self.socket.close()
