"""Serves a live page: files, and one state that its viewers follow by server-sent events from /events.

A page's folder has main.html, main.css and main.js, which stand in the frame, style and script of web/page/. Each
connection takes a thread, and carries one request. An idle one would keep a place, and a browser would send its next
request by one that a proxy has swallowed. No address takes more than its share of the places, and a viewer that
stalls loses its own.
"""
import abc
import collections
import contextlib
import functools
import json
import logging
import pathlib
import socket
import socketserver
import string
import threading
import time

from servers.web import http

LOG = logging.getLogger("web")
COMMON = pathlib.Path(__file__).resolve().parent / "page"
SCRIPTS = pathlib.Path("/usr/share/javascript")
LIBRARIES = (           # from the packages libjs-dygraphs and libjs-chart.js
    SCRIPTS / "dygraphs/dygraph.min.js", SCRIPTS / "dygraphs/dygraph.min.css", SCRIPTS / "chart.js/chart.min.js")
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MORE = ("Cache-Control: no-cache\r\nContent-Security-Policy: default-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:\r\n")
EVENTS = (b"HTTP/1.1 200 OK\r\nServer: Most\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
          b"Connection: close\r\n\r\n")
ALIVE = b"event: alive\ndata: 1\n\n"
CONNECTIONS_MAX = 400       # each takes a thread, and one of the process's 1024 files
SHARE_MAX = 150             # viewers of one address, which may be a room of them
REQUEST_S = 60              # for a whole request
LINGER_S = 1                # after a response, for the client's end of the connection
STALLED_S = 10              # a viewer that takes nothing for so long is dropped
SEND_BUFFER_BYTES = 128 << 10       # for one that takes nothing; some states long
ALIVE_S = 10                # without news, then an event shows that the other end is there
LOG_S = 60                  # between two lines about connections that were refused


class Unavailable(Exception):
    """Says why an address has no content now."""


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        try:
            request = self._read_request()
            if request and request.path == "/events" and request.method == "GET":
                self._send_events()
            elif request:
                self._send_last(self._response(request))
        except http.BadRequest as error:
            with contextlib.suppress(OSError):
                self._send_last(http.response(error.status, f"{error}\n", keep_alive=False, method=error.method))
        except OSError:         # the viewer is gone, or too slow
            pass

    def _read_request(self):
        """Returns the request, or None at the end of the connection."""
        parser, end = http.RequestParser(), time.monotonic() + REQUEST_S
        while not (request := parser.next_request()):
            self.request.settimeout(max(end - time.monotonic(), 0.001))
            if not (data := self.request.recv(4096)):
                return None
            parser.feed(data)
        return request

    def _send(self, data):
        self.request.settimeout(STALLED_S)
        self.request.sendall(data)

    def _send_last(self, data):
        """Sends a response, and reads until the client closes. Bytes left unread would become a reset, which may
        overtake the response: RFC 9112 §9.6."""
        self._send(data)
        self.request.shutdown(socket.SHUT_WR)
        end = time.monotonic() + LINGER_S
        while (left_s := end - time.monotonic()) > 0:
            self.request.settimeout(left_s)
            if not self.request.recv(4096):
                return

    def _response(self, request):
        status, body, kind = 200, b"", "text/event-stream"
        if request.method not in ("GET", "HEAD"):
            status, body, kind = 405, b"GET only\n", "text/plain"
        elif request.path != "/events":
            try:
                body, kind = self.server.pages.find(request.path, request.query) or (None, "text/plain")
            except Unavailable as error:
                status, body, kind = 503, f"{error}\n", "text/plain"
            if body is None:
                status, body = 404, b"no such page\n"
        kind += "" if kind.startswith("image/p") else "; charset=utf-8"
        return http.response(status, body, kind, False, request.method, MORE)

    def _send_events(self):
        """Sends server-sent events: the newest state at once, then each newer one. A slow viewer skips some."""
        pages = self.server.pages
        with pages.watched():
            self._send(EVENTS)
            pages.publish()         # nobody may have looked for a while
            version = 0
            while True:
                newer, data = pages.news(version)
                self._send(b"event: state\ndata: " + data + b"\n\n" if newer > version else ALIVE)
                version = newer


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address, pages):
        super().__init__(address, Handler)
        self.pages = pages
        self.open, self.open_lock = {}, threading.Lock()    # connection -> its address, the oldest first
        self.logged_at = -LOG_S

    def start(self):
        """Begins to serve, in a thread of its own."""
        threading.Thread(target=self.serve_forever, name="web", daemon=True).start()

    def verify_request(self, request, client_address):
        """Gives a connection a place, or refuses it. When all places are taken, the address with the most loses one."""
        ip = client_address[0]
        with self.open_lock:
            counts = collections.Counter(self.open.values())
            if counts[ip] >= SHARE_MAX:
                return self._refuse(ip, counts[ip])
            if len(self.open) >= CONNECTIONS_MAX:
                largest, count = counts.most_common(1)[0]
                if count <= counts[ip] + 1:
                    return self._refuse(ip, counts[ip])
                oldest = next(sock for sock, owner in self.open.items() if owner == largest)
                del self.open[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)       # the viewer's thread ends
            self.open[request] = ip
            return True

    def _refuse(self, ip, count):
        if time.monotonic() - self.logged_at >= LOG_S:
            self.logged_at = time.monotonic()
            LOG.warning("connections of %s are refused: it has %d of %d", ip, count, len(self.open))
        return False

    def shutdown_request(self, request):
        with self.open_lock:
            self.open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        LOG.exception("defect in serving %s; the connection ends", client_address[0])


def json_bytes(value):
    return json.dumps(value, separators=(",", ":")).encode()


@functools.lru_cache(maxsize=None)
def read_file(path):
    return (path.read_bytes(), KINDS[path.suffix]) if path.is_file() else None


class Pages(abc.ABC):
    """The content of each address, and the state. Viewers' threads ask; one thread publishes."""

    def __init__(self, title, folder):
        self.files = {path.name: path for path in (*COMMON.iterdir(), *LIBRARIES, *folder.iterdir())}
        frame = string.Template((COMMON / "frame.html").read_text(encoding="utf-8"))
        self.index = frame.substitute(title=title, main=(folder / "main.html").read_text(encoding="utf-8")).encode()
        self.condition = threading.Condition()
        self.version, self.data = 0, b""
        self.watchers = 0

    @abc.abstractmethod
    def state(self):
        """Returns the page's newest state as JSON."""

    def publish(self):
        data = self.state()
        with self.condition:
            self.version, self.data = self.version + 1, data
            self.condition.notify_all()

    @contextlib.contextmanager
    def watched(self):
        """Counts a viewer of the events."""
        with self.condition:
            self.watchers += 1
        try:
            yield
        finally:
            with self.condition:
                self.watchers -= 1

    def news(self, version):
        """Waits for a newer version; returns the newest."""
        with self.condition:
            self.condition.wait_for(lambda: self.version > version, ALIVE_S)
            return self.version, self.data

    def find(self, path, query):
        """Returns (bytes, kind) of an address, or None. Raises Unavailable."""
        if path in ("/", "/index.html"):
            return self.index, "text/html"
        return read_file(self.files[path[1:]]) if path[1:] in self.files else None
