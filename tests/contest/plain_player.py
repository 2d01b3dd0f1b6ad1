"""A player in plain Python, slow and simple, which shows that a game against the server works.

It finds the answers by the textbook rule (every substring that is a multiple), not by the server's oracle, so that
it is used with short streams only."""
import re
import socket
import threading


def answers_of(text, n, constants, new_from):
    """Returns every answer that ends at or after text[new_from]."""
    found = []
    for end in range(new_from + 1, len(text) + 1):
        for start in range(max(0, end - n), end):
            if text[start] != "0" and any(int(text[start:end]) % m == 0 for m in constants):
                found.append(text[start:end])
    return found


class PlainPlayer:
    """Plays in a thread until the input ends."""

    def __init__(self, ports, n, constants, user="plain", ask=True):
        self.ports, self.n, self.constants, self.user, self.ask = ports, n, constants, user, ask
        self.seen, self.submitted, self.verdicts = "", set(), []
        self.connected = False
        self.thread = threading.Thread(target=self._play)
        self.thread.start()

    def _play(self):
        feed = socket.create_connection(("127.0.0.1", self.ports["input"]), timeout=60)
        output = socket.create_connection(("127.0.0.1", self.ports["output"]), timeout=60)
        self.connected = True
        if self.ask:
            feed.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        reader, replies = feed.makefile("rb"), output.makefile("rb")
        head = b"".join(iter(reader.readline, b"\r\n"))
        chunked = b"Transfer-Encoding: chunked" in head
        while data := (self._chunk(reader) if chunked else reader.read1(65536)):
            before = len(self.seen)
            self.seen += data.decode()
            fresh = [a for a in answers_of(self.seen, self.n, self.constants, before) if a not in self.submitted]
            fresh = list(dict.fromkeys(fresh))
            self.submitted.update(fresh)
            output.sendall(b"".join(post(a, self.user) for a in fresh))         # pipelined
            self.verdicts += [read_reply(replies)[1] for _ in fresh]
        feed.close()
        output.close()

    @staticmethod
    def _chunk(reader):
        line = reader.readline()
        data = reader.read(int(line, 16)) if line else b""
        reader.readline()
        return data


def post(digits, user="plain", passwd="p"):
    body = digits.encode() if isinstance(digits, str) else digits
    return (f"POST /submit?user={user}&passwd={passwd} HTTP/1.1\r\nHost: x\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def read_reply(file):
    """Returns (status, body without the newline) of one response; None at the end."""
    line = file.readline()
    if not line:
        return None
    status = int(re.match(rb"HTTP/1\.1 (\d+) ", line)[1])
    length = 0
    while (line := file.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return status, file.read(length).decode().rstrip("\n")
