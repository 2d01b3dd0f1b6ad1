"""A syslog server on loopback. Parses each UDP datagram by the grammar of RFC 5424 §6, or refuses it."""
import datetime
import re
import socket

from tests.lib.udp_server import UdpServer

PRINTUSASCII = "[!-~]"
MESSAGE = re.compile(
    rf"<(?P<priority>0|[1-9]\d{{0,2}})>1 (?P<time>-|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{1,6}}Z) "
    rf"(?P<host>{PRINTUSASCII}{{1,255}})"
    rf" (?P<app>{PRINTUSASCII}{{1,48}}) (?P<process>{PRINTUSASCII}{{1,128}}) (?P<id>{PRINTUSASCII}{{1,32}})"
    r' \[meta sequenceId="(?P<sequence>[1-9]\d*)" sysUpTime="(?P<uptime>\d+)"\] (?P<text>[ -~]*)', re.ASCII)


class Receiver(UdpServer):
    def __init__(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.bind(("127.0.0.1", 0))
        super().__init__(sock)
        self.port = sock.getsockname()[1]
        self.messages, self.refused = [], []

    def take(self, data):
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
