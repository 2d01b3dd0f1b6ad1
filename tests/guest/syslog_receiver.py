"""A syslog server on loopback: what comes over UDP, parsed by the grammar of RFC 5424 §6 or refused."""
import datetime
import re
import socket
import threading

PRINTUSASCII = "[!-~]"
MESSAGE = re.compile(
    rf"<(?P<priority>0|[1-9]\d{{0,2}})>1 (?P<time>-|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{1,6}}Z) (?P<host>{PRINTUSASCII}{{1,255}})"
    rf" (?P<app>{PRINTUSASCII}{{1,48}}) (?P<process>{PRINTUSASCII}{{1,128}}) (?P<id>{PRINTUSASCII}{{1,32}})"
    r' \[meta sequenceId="(?P<sequence>[1-9]\d*)" sysUpTime="(?P<uptime>\d+)"\] (?P<text>[ -~]*)', re.ASCII)


class Receiver:
    def __init__(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(0.2)
        self.port = self.sock.getsockname()[1]
        self.messages, self.refused, self.stopping = [], [], False
        self.thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join(5)
        self.sock.close()

    def _receive(self):
        while True:
            try:
                data = self.sock.recv(4096)
            except TimeoutError:
                if self.stopping:
                    return
                continue
            match = MESSAGE.fullmatch(data.decode("ascii", "replace"))
            if match and int(match["priority"]) <= 191:
                self.messages.append(match.groupdict())
            else:
                self.refused.append(data)

    @property
    def texts(self):
        return [m["text"] for m in self.messages]


def time_of(message):
    return datetime.datetime.fromisoformat(message["time"].replace("Z", "+00:00"))
