"""Takes a server out of HAProxy and in again, over its runtime socket: HAProxy Management Guide, "Unix Socket
commands". An agent check may end a drain (docs/balance.md), so agents are silent meanwhile."""
import contextlib
import csv
import io
import socket
import time

from .commands import say
from .ssh import RemoteError

LOOK_SECONDS = 0.1
ANSWER_SECONDS = 10


def is_up(row):
    return row["status"].startswith(("UP", "no check"))


def is_idle(row):
    return row["scur"] == row["qcur"] == "0"


class Balancer:
    def __init__(self, path, host, seconds):
        """Finds the servers of a machine: those with its name, else those with its address. Raises RemoteError if
        there are none. `seconds` bounds each wait."""
        self.path, self.seconds = path, seconds
        name, address = host.name.rpartition("@")[2], host.address()
        with contextlib.suppress(OSError):
            address = socket.gethostbyname(address)
        rows = self._rows()
        self.servers = [server for server in rows if server[1] == name] or \
                       [server for server, row in rows.items() if (row["addr"] or "").rpartition(":")[0] == address]
        if not self.servers:
            raise RemoteError(f"{host.name}: HAProxy at {path} has no server of this name or of the address {address}")

    def ask(self, command):
        """Returns HAProxy's answer; none is its yes."""
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(ANSWER_SECONDS)
                client.connect(str(self.path))
                client.sendall(command.encode() + b"\n")
                return b"".join(iter(lambda: client.recv(65536), b"")).decode(errors="replace").strip()
        except OSError as error:
            raise RemoteError(f"{self.path}: {error.strerror or error}") from None

    def _rows(self):
        """Returns {(backend, server): row} of `show stat`; 2 is its type of a server."""
        rows = csv.DictReader(io.StringIO(self.ask("show stat").removeprefix("# ")))
        return {(row["pxname"], row["svname"]): row for row in rows if row.get("type") == "2"}

    def _order(self, state):
        for backend, server in self.servers:
            if answer := self.ask(f"set server {backend}/{server} state {state}"):
                raise RemoteError(f"HAProxy: {backend}/{server}: {answer}")

    def _others_are_up(self, rows):
        """Returns true if each backend has another server that is up, or has none."""
        for backend in {backend for backend, _ in self.servers}:
            others = [row for server, row in rows.items() if server[0] == backend and server not in self.servers]
            if others and not any(is_up(row) for row in others):
                return False
        return True

    def _all(self, rows, holds):
        return all(server in rows and holds(rows[server]) for server in self.servers)

    def _wait(self, holds, message):
        end = time.monotonic() + self.seconds
        while not holds(self._rows()):
            if time.monotonic() > end:
                raise RemoteError(f"HAProxy: {self}: {message} after {self.seconds:g} s")
            time.sleep(LOOK_SECONDS)

    def __str__(self):
        return ", ".join("/".join(server) for server in self.servers)

    @contextlib.contextmanager
    def drained(self, answers):
        """Takes the servers out, and in again at the end: after a failure, if the machine `answers` nevertheless. Waits
        first until another server is up."""
        self._wait(self._others_are_up, "no other server is up")
        say(f"HAProxy: {self} is drained")
        try:
            for server in self.servers:
                self.ask(f"disable agent {'/'.join(server)}")
            self._order("drain")
            self._wait(lambda rows: self._all(rows, is_idle), "requests are still under way")
            yield
        except BaseException:
            if answers():
                self.take_in()
            else:
                say(f"HAProxy: {self} stays drained, because the status page does not answer")
            raise
        self.take_in()
        self._wait(lambda rows: self._all(rows, is_up), "the server is not up")

    def take_in(self):
        self._order("ready")
        for server in self.servers:
            self.ask(f"enable agent {'/'.join(server)}")        # says no where there is none
        say(f"HAProxy: {self} is taken in")
