"""Measures the error of the kernel's receive stamps: a byte to ourselves over loopback, between two clock readings."""
import select
import socket
import struct
import time

SO_TIMESTAMPNS = 35                 # asm-generic/socket.h; Python has no name for it
WAIT_MS = 20
WARM_COUNT = 20
STAMPS_S_MAX = 1.0


def kernel_stamp_ns(ancillary):
    """Returns the receive time (CLOCK_REALTIME) that recvmsg gave, or None."""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanos = struct.unpack("qq", value[:16])
            return seconds * 1_000_000_000 + nanos
    return None


class StampProbe:
    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.out = socket.create_connection(listener.getsockname())
            self.back, _ = listener.accept()
        self.out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.back.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.back.setblocking(False)
        self.poll = select.poll()
        self.poll.register(self.back, select.POLLIN)
        self._await_stamps()

    def _await_stamps(self):
        """Waits until the kernel stamps: it begins up to 20 ms after the first socket asks, in a task of its own."""
        end = time.monotonic() + STAMPS_S_MAX
        self.out.send(b"p")
        while self._read() is None and time.monotonic() < end:
            self.out.send(b"p")

    def _read(self):
        """Returns the stamp of the byte on its way, or None."""
        return kernel_stamp_ns(self.back.recvmsg(64, 256)[1]) if self.poll.poll(WAIT_MS) else None

    def error_ns(self, clock):
        """Returns by how much a stamp lies outside of the send that caused it; 0 if inside. None: no byte came."""
        before_ns = clock.now_ns()
        self.out.send(b"p")
        after_ns = clock.now_ns()
        stamp_ns = self._read()
        if stamp_ns is None:
            return None
        arrival_ns = clock.arrival_ns(stamp_ns, before_ns - 10**9, clock.now_ns())
        return max(before_ns - arrival_ns, arrival_ns - after_ns, 0)

    def warm(self):
        """Runs through TCP's code for both ways, without a reading."""
        for _ in range(WARM_COUNT):
            self.out.send(b"w")
        if self.poll.poll(WAIT_MS):
            self.back.recv(4096)

    def close(self):
        self.out.close()
        self.back.close()
