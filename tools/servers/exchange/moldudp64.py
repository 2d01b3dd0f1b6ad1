"""MoldUDP64 1.00: numbered messages in packets, lines that lose some, and the answer to a request. Knows no socket."""
import random
import struct

HEADER = struct.Struct(">10sQH")            # session, number of the first message, count of messages
HEARTBEAT, END_OF_SESSION = 0, 0xffff       # counts
PAYLOAD_MAX = 1400                          # bytes of a packet, with the header
HEARTBEAT_S = 1


class Feed:
    """The session's messages, of which the newest `kept` can be asked for again."""

    def __init__(self, session, kept):
        assert len(session) == 10
        self.session, self.kept = session.encode(), kept
        self.ring = [b""] * kept
        self.next = 1                       # the number of the next message
        self.sent = 1                       # the first number that is in no packet yet

    def publish(self, message):
        if self.next - self.sent == len(self.ring):
            self._grow()
        self.ring[self.next % len(self.ring)] = message
        self.next += 1

    def _grow(self):
        """Makes room for more messages that are in no packet yet: a cross, or the end, brings any number at once."""
        old, self.ring = self.ring, [b""] * (2 * len(self.ring))
        for number in range(self.sent, self.next):
            self.ring[number % len(self.ring)] = old[number % len(old)]

    @property
    def oldest(self):
        return max(1, self.next - self.kept)

    def packet(self, first, count, bytes_max=PAYLOAD_MAX):
        """Returns a packet of messages from `first` on, `count` at most, and how many of them fit: at least one."""
        blocks, size, end = [], HEADER.size, min(first + count, self.next, first + END_OF_SESSION - 1)
        at = first
        while at < end:
            message = self.ring[at % len(self.ring)]
            size += 2 + len(message)
            if size > bytes_max and blocks:
                break
            blocks.append(len(message).to_bytes(2, "big") + message)
            at += 1
        return HEADER.pack(self.session, first, at - first) + b"".join(blocks), at - first

    def new_packets(self):
        """Yields the packets of all messages since the last call."""
        while self.sent < self.next:
            packet, count = self.packet(self.sent, self.next - self.sent)
            self.sent += count
            yield packet

    def heartbeat(self):
        return HEADER.pack(self.session, self.next, HEARTBEAT)

    def end_of_session(self):
        return HEADER.pack(self.session, self.next, END_OF_SESSION)

    def answer(self, request, bytes_max=PAYLOAD_MAX):
        """Returns the packet that answers a request, or (None, why there is no answer)."""
        if len(request) != HEADER.size:
            return None, f"a request of {len(request)} bytes instead of {HEADER.size}"
        session, first, count = HEADER.unpack(request)
        if session != self.session:
            return None, f"a request for the session '{session.decode('latin-1')}'"
        if not self.oldest <= first < self.next or not count:
            return None, f"a request for {count} messages from {first}, where {self.oldest} to {self.next - 1} are kept"
        return self.packet(first, count, bytes_max)[0], ""


class Line:
    """One of the lines: the chances, by the seed alone, that a packet is lost, sent twice, or sent after the next."""

    def __init__(self, send, seed, loss=0.0, repeat=0.0, reorder=0.0):
        self.send, self.random = send, random.Random(f"line {seed}")
        self.loss, self.repeat, self.reorder = loss, repeat, reorder
        self.held = None
        self.counts = {"sent": 0, "lost": 0, "repeated": 0, "reordered": 0}

    def put(self, packet):
        draws = [self.random.random() for _ in range(3)]
        held, self.held = self.held, None
        if draws[0] < self.loss:
            self.counts["lost"] += 1
        elif draws[1] < self.reorder and held is None:
            self.held = packet
            self.counts["reordered"] += 1
        else:
            self._send(packet)
            if draws[2] < self.repeat:
                self.counts["repeated"] += 1
                self._send(packet)
        if held is not None:
            self._send(held)

    def flush(self):
        """Sends a packet that waits for the next one, since none comes for a while."""
        held, self.held = self.held, None
        if held is not None:
            self._send(held)

    def _send(self, packet):
        self.counts["sent"] += 1
        self.send(packet)
