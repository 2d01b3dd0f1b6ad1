"""SoupBinTCP 3.00 and 4.00: packets, and one connection of a server. Knows no socket: bytes in, bytes out.

A packet is a length of two bytes, a type, and what belongs to it. The server numbers its sequenced messages from 1; a
client that logs in says the number of the next one that it wants.
"""
import logging

LOG = logging.getLogger("exchange")
SESSION_BYTES, SEQUENCE_BYTES, USER_BYTES, PASSWORD_BYTES = 10, 20, 6, 10
LOGIN_BYTES = USER_BYTES + PASSWORD_BYTES + SESSION_BYTES + SEQUENCE_BYTES
CLIENT_PACKET_MAX = 4096        # bytes after the length; no request of OUCH comes near
HEARTBEAT_S = 1                 # without a packet of ours, then a heartbeat
SILENCE_S = 15                  # without a packet of the client's, then the end
LOGIN_S = 15                    # for a login after the connection came

LOGIN_ACCEPTED, LOGIN_REJECTED, SEQUENCED, HEARTBEAT, END_OF_SESSION = b"A", b"J", b"S", b"H", b"Z"
LOGIN, UNSEQUENCED, CLIENT_HEARTBEAT, LOGOUT, DEBUG = b"L", b"U", b"R", b"O", b"+"
NOT_AUTHORIZED, NO_SESSION = b"A", b"S"


def packet(kind, payload=b""):
    return (1 + len(payload)).to_bytes(2, "big") + kind + payload


class Refused(Exception):
    """A login that is refused; `reason` is the code for the client."""

    def __init__(self, reason, text):
        super().__init__(text)
        self.reason = reason


class ServerConnection:
    """One client. `send(bytes)` and `close()` are the transport's. `log_in(user, password)` returns the stream of that
    user, or raises Refused: an object with `answers`, a list that grows, and `take(message)`."""

    def __init__(self, name, session, log_in, send, close, now_s):
        self.name, self.session, self.log_in, self.send, self.close = name, session, log_in, send, close
        self.buffer = bytearray()
        self.stream = None              # after the login
        self.next_answer = 0            # index in the stream's answers
        self.is_open = True
        self.begun_s = self.heard_s = self.sent_s = now_s

    def feed(self, data, now_s):
        """Takes what has arrived."""
        self.buffer += data
        self.heard_s = now_s
        while self.is_open and len(self.buffer) >= 2:
            size = int.from_bytes(self.buffer[:2], "big")
            if not 1 <= size <= CLIENT_PACKET_MAX:
                self.end(f"a packet of {size} bytes")
                return
            if len(self.buffer) < 2 + size:
                return
            kind, payload = bytes(self.buffer[2:3]), bytes(self.buffer[3:2 + size])
            del self.buffer[:2 + size]
            self._take(kind, payload, now_s)

    def _take(self, kind, payload, now_s):
        if kind == LOGIN and self.stream is None:
            self._log_in(payload, now_s)
        elif kind == LOGOUT:
            self.end("it logged out", logging.INFO)
        elif kind in (CLIENT_HEARTBEAT, DEBUG):
            pass
        elif kind == UNSEQUENCED and self.stream is not None:
            self.stream.take(payload)
        else:
            self.end(f"a packet '{kind.decode('latin-1')}' {'after' if self.stream else 'before'} the login")

    def _log_in(self, payload, now_s):
        if len(payload) != LOGIN_BYTES:
            self.end(f"a login of {len(payload)} bytes instead of {LOGIN_BYTES}")
            return
        text = payload.decode("latin-1")
        user, password, session, sequence = (
            part.strip() for part in (text[:6], text[6:16], text[16:26], text[26:]))
        try:
            stream = self.log_in(user, password)
            if session not in ("", self.session.strip()):
                raise Refused(NO_SESSION, f"the session '{session}' is not '{self.session.strip()}'")
            last = len(stream.answers)
            if not sequence.isascii() or not sequence.isdigit() or int(sequence) > last + 1:
                raise Refused(NO_SESSION, f"the sequence number '{sequence}' is not from 0 to {last + 1}")
        except Refused as refusal:
            self.send(packet(LOGIN_REJECTED, refusal.reason))
            self.end(f"the login of '{user}' is refused: {refusal}")
            return
        first = int(sequence) or last + 1
        self.stream, self.next_answer = stream, first - 1
        self.send(packet(LOGIN_ACCEPTED, self.session.encode().rjust(SESSION_BYTES) +
                         str(first).encode().rjust(SEQUENCE_BYTES)))
        LOG.info("%s: '%s' logs in, from answer %d of %d", self.name, user, first, last)
        self.send_answers(now_s)

    def send_answers(self, now_s):
        """Sends what the stream has and the client does not."""
        answers = self.stream.answers
        if self.next_answer < len(answers):
            self.send(b"".join(packet(SEQUENCED, answer) for answer in answers[self.next_answer:]))
            self.next_answer, self.sent_s = len(answers), now_s

    def poll(self, now_s):
        """Sends a heartbeat if one is due, and ends a connection that is silent. Call it some times a second."""
        if not self.is_open:
            return
        if self.stream and now_s - self.heard_s >= SILENCE_S:
            self.end(f"nothing came for {SILENCE_S} s")
        elif not self.stream and now_s - self.begun_s >= LOGIN_S:
            self.end(f"no login came for {LOGIN_S} s")
        elif self.stream and now_s - self.sent_s >= HEARTBEAT_S:
            self.send(packet(HEARTBEAT))
            self.sent_s = now_s

    def end_session(self):
        if self.is_open and self.stream:
            self.send(packet(END_OF_SESSION))
        self.end("the session ends", logging.INFO)

    def end(self, reason, level=logging.WARNING):
        if self.is_open:
            self.is_open = False
            LOG.log(level, "%s: the connection ends: %s", self.name, reason)
            self.close()
