"""NTP from outside: a client that measures by the kernel's stamps, and programs of others (tools/setup.sh brings them).

chronyd and ntpd are unpacked below build/third-party, because an installed package would start them."""
import contextlib
import dataclasses
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import time

from workshop.probe import wire

ROOT = pathlib.Path(__file__).resolve().parents[2]


def third_party(package, path):
    """Returns the path of a program, unpacked or installed."""
    unpacked = ROOT / "build/third-party" / package / path
    return unpacked if unpacked.exists() else pathlib.Path("/") / path


CHRONYD = third_party("chrony", "usr/sbin/chronyd")
NTPDATE = "/usr/sbin/ntpdate"
NTPD, NTPQ = third_party("ntpsec", "usr/sbin/ntpd"), third_party("ntpsec", "usr/bin/ntpq")
PORT = 123
PATIENCE_S = 60
SECONDS_1900_TO_1970 = 2208988800


def stamp_s(stamp):
    """Converts NTP's 64 bits to seconds since 1970, of the era until 2036."""
    return (stamp >> 32) - SECONDS_1900_TO_1970 + (stamp & 0xffffffff) / 2**32


@dataclasses.dataclass(frozen=True)
class Reply:
    data: bytes
    offset_s: float             # the server's clock less this host's
    delay_s: float              # on the way, there and back
    round_trip_s: float         # from the request's frame to the reply's

    @property
    def leap(self):
        return self.data[0] >> 6

    @property
    def version(self):
        return self.data[0] >> 3 & 7

    @property
    def stratum(self):
        return self.data[1]

    @property
    def reference_id(self):
        return self.data[12:16]

    @property
    def root_dispersion_s(self):
        return struct.unpack(">I", self.data[8:12])[0] / 65536


class Probe:
    """One client. Its stamps are those of this host's network device, and hold no delay of Python's."""

    def __init__(self, address, port=PORT):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, wire.SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, wire.SO_TIMESTAMPING,
                               wire.TX_SOFTWARE | wire.SOFTWARE | wire.OPT_TSONLY)
        self.socket.connect((address, port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _sent_ns(self):
        poll = select.poll()
        poll.register(self.socket, 0)           # errors are always reported
        if not poll.poll(1000):
            raise TimeoutError("no transmit stamp")
        return wire.stamp_in(self.socket.recvmsg(1, 512, socket.MSG_ERRQUEUE)[1])

    def ask(self, request=None, seconds=1.0):
        """Sends a request and returns the Reply; None if none comes in time."""
        request = request or bytes([4 << 3 | 3]) + bytes(39) + os.urandom(8)
        self.socket.send(request)
        sent_s = self._sent_ns() / 1e9
        self.socket.settimeout(seconds)
        try:
            data, ancillary, _, _ = self.socket.recvmsg(2048, 512)
        except TimeoutError:
            return None
        seen_s = wire.stamp_in(ancillary) / 1e9
        origin, receive, transmit = struct.unpack(">QQQ", data[24:48])
        assert struct.pack(">Q", origin) == request[40:48], "the reply is to another request"
        there_s, back_s = stamp_s(receive), stamp_s(transmit)
        return Reply(data, ((there_s - sent_s) + (back_s - seen_s)) / 2, (seen_s - sent_s) - (back_s - there_s),
                     seen_s - sent_s)

    def wait_for(self, wanted, seconds=PATIENCE_S):
        """Asks until `wanted(reply)` is true, and returns that reply."""
        end = time.monotonic() + seconds
        reply = None
        while time.monotonic() < end:
            with contextlib.suppress(ConnectionRefusedError):
                reply = self.ask()
            if reply and wanted(reply):
                return reply
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds} s; the last reply was {reply}")


def run(*words, seconds=PATIENCE_S):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds)
    return done.stdout + done.stderr


def chronyd_offset_s(address, directory, port=PORT):
    """Returns the offset of this host's clock that chronyd measures against a server. Does not set the clock."""
    text = run(CHRONYD, "-Q", "-t", 30, "-u", "root", f"server {address} port {port} iburst maxsamples 4",
               f"pidfile {directory}/chronyd-client.pid", "cmdport 0", "bindcmdaddress /")
    found = re.search(r"System clock wrong by (\S+) seconds", text)
    assert found, text
    return float(found[1])


def ntpdate_offset_s(address):
    """Returns the offsets that ntpsec's ntpdate and ntpdig measure, and the strata that they print."""
    found = [re.search(r"\+0000\) (\S+) \+/- \S+ (\S+) s(\d+) no-leap", run(program, *words, address))
             for program, *words in ((NTPDATE, "-q"), ("ntpdig",))]
    assert all(found), found
    return [(float(match[1]), int(match[3])) for match in found]


@contextlib.contextmanager
def chronyd_server(address, directory, stratum=8):
    """Serves this host's clock by chronyd, which does not set the clock."""
    words = [CHRONYD, "-n", "-x", "-u", "root", f"local stratum {stratum}", "allow all", f"bindaddress {address}",
             f"pidfile {directory}/chronyd.pid", "cmdport 0", "bindcmdaddress /"]
    with open(f"{directory}/chronyd.log", "w", encoding="utf-8") as log, \
            subprocess.Popen([str(word) for word in words], stdout=log, stderr=log) as process:
        try:
            with Probe(address) as probe:
                probe.wait_for(lambda reply: reply.stratum == stratum)
            yield
        finally:
            process.terminate()


@contextlib.contextmanager
def ntpd_client(address, directory):
    """Runs ntpsec's ntpd as a client of a server. Does not set the clock. ntpq may query ntpd from this host."""
    configuration = pathlib.Path(directory) / "ntp.conf"
    configuration.write_text(f"disable ntp\nrestrict default nomodify\nrestrict 127.0.0.1\n"
                             f"server {address} iburst minpoll 3\n")
    with open(f"{directory}/ntpd.log", "w", encoding="utf-8") as log, \
            subprocess.Popen([str(NTPD), "-n", "-c", str(configuration)], stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


def ntpq_peer(address, seconds=PATIENCE_S):
    """Returns the line of `ntpq -pn` for a server, once this host's ntpd has chosen it (`*`), as a dict."""
    packages = NTPQ.parents[2] / "usr/lib/python3/dist-packages"
    end = time.monotonic() + seconds
    text = ""
    while time.monotonic() < end:
        done = subprocess.run([str(NTPQ), "-pn", "127.0.0.1"], capture_output=True, text=True, timeout=PATIENCE_S,
                              env={**os.environ, "PYTHONPATH": str(packages)})
        text = done.stdout + done.stderr
        if found := re.search(rf"^\*{re.escape(address)} +(\S+) +(\d+) +.*? (\d+) +(\S+) +(\S+) +(\S+)$", text,
                              re.MULTILINE):
            return {"refid": found[1], "stratum": int(found[2]), "reach": int(found[3], 8),
                    "offset_s": float(found[5]) / 1000}
        time.sleep(0.5)
    raise AssertionError(text)
