"""Submit servers that never close a connection, hang, or send an endless response. Also a feed for their games."""
import abc
import http.client
import random
import socket
import threading


class Server(abc.ABC):
    """One thread accepts, and one thread serves each connection. Nothing is closed before the end."""

    def __init__(self, bind="127.0.0.1"):
        self.listener = socket.create_server((bind, 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.connections = []
        self.stopping = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        try:
            self.serve(connection)
        except OSError:
            pass                        # the player has reset it

    @abc.abstractmethod
    def serve(self, connection):
        """Serves one connection in the server's own way, until the player resets the connection."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        for each in [self.listener, *self.connections]:
            each.close()


def read_request(connection):
    """Returns the target and body of the first request; None: the connection ended before."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(4096)):
            return None
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    count = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                 if line.lower().startswith(b"content-length:"))
    while len(body) < count:
        if not (more := connection.recv(4096)):
            return None
        body += more
    return head.split(b" ")[1].decode(), body[:count]


class ClosesNever(Server):
    """Stands before a contest server. Each response says `Connection: close`, and the connection stays open."""

    def __init__(self, bind, ports, _directory):
        self.bind, self.ours = bind, ports
        super().__init__(bind)

    def serve(self, connection):
        request = read_request(connection)
        if not request:
            return
        upstream = http.client.HTTPConnection(self.bind, self.ours["output"], timeout=60)
        upstream.request("POST", request[0], request[1])
        response = upstream.getresponse()
        body = response.read()
        upstream.close()
        connection.sendall(b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                           % (response.status, len(body), body))

    def endpoints(self, host):
        return [f"feed={host}:{self.ours['input']}", f"submit={host}:{self.port}"]


FRONTS = {"closes-never": ClosesNever}


class Hangs(Server):
    """Reads nothing; its kernel acknowledges."""

    def serve(self, connection):
        pass


class Trickles(Server):
    """Begins a response that has no end."""

    def serve(self, connection):
        if read_request(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n+8\n")
            while not self.stopping.wait(0.5):
                connection.sendall(b"x")


class Digits(Server):
    """A feed that sends digits until the player leaves."""

    def serve(self, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        draw = random.Random(7)
        while not self.stopping.wait(0.05):
            connection.sendall(b"%020d" % draw.randrange(10 ** 20))
