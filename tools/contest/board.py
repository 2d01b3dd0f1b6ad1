"""Serves the board of a stored contest: a page that follows it, and fixed addresses for programs.

    contest board STORE [--port 10000]

/             the page (live by server-sent events from /events)
/rules        the rules as the players need them
/board.txt    the board in the layout of the original         /board.json   the same in full
/board.png    the ranking      /score.png   points over time      /latency.png   the latencies' distribution

It only reads the store, so that no viewer slows a player; `contest serve STORE` starts it by itself. It also writes the
snapshots from which a restart goes on, and deletes rows that are older than the plan's --keep.
"""
import collections
import contextlib
import errno
import functools
import json
import logging
import os
import pathlib
import signal
import socket
import socketserver
import threading
import time

from contest import board_state, board_text, http, store
from contest.arguments import add_store, bounded, command_parser, complain
from contest.follower import Follower

LOG = logging.getLogger("contest")
PAGE = pathlib.Path(__file__).resolve().parent / "page"
LIBRARIES = {           # from the packages libjs-dygraphs and libjs-chart.js
    "dygraph.min.js": "/usr/share/javascript/dygraphs/dygraph.min.js",
    "dygraph.min.css": "/usr/share/javascript/dygraphs/dygraph.min.css",
    "chart.min.js": "/usr/share/javascript/chart.js/chart.min.js",
}
FILES = {**{path.name: path for path in PAGE.iterdir()},
         **{name: pathlib.Path(path) for name, path in LIBRARIES.items()}}
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MORE = ("Cache-Control: no-cache\r\nContent-Security-Policy: default-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:\r\n")
EVENTS = (b"HTTP/1.1 200 OK\r\nServer: Most\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
          b"Connection: close\r\n\r\n")
FOLLOW_S = 0.1
CONNECTIONS_MAX = 400       # each takes a thread, and one of the process's 1024 files
SHARE_MAX = 150             # viewers of one address, which may be a room of them
REQUEST_S = 60              # for a whole request, and from one to the next
STALLED_S = 10              # a viewer that takes nothing for so long is dropped
SEND_BUFFER_BYTES = 128 << 10       # for one that takes nothing; some states long
ALIVE_S = 10                # without news, then a comment shows if the viewer is gone
LOG_S = 60                  # between two lines about connections that were refused


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        parser, request = http.RequestParser(), None
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        try:
            while request is None or request.keep_alive:
                request = self._next_request(parser)
                if request is None:
                    return
                if request.path == "/events" and request.method == "GET":
                    self._send_events()
                    return
                self._send(self._response(request))
        except http.BadRequest as error:
            with contextlib.suppress(OSError):
                self._send(http.response(error.status, f"{error}\n", keep_alive=False, method=error.method))
        except OSError:         # the viewer is gone, or too slow
            pass

    def _next_request(self, parser):
        """Returns the next request, or None at the end of the connection."""
        end = time.monotonic() + REQUEST_S
        while not (request := parser.next_request()):
            self.request.settimeout(max(end - time.monotonic(), 0.001))
            if not (data := self.request.recv(4096)):
                return None
            parser.feed(data)
        return request

    def _send(self, data):
        self.request.settimeout(STALLED_S)
        self.request.sendall(data)

    def _response(self, request):
        status, body, kind = 200, b"", "text/event-stream"
        if request.method not in ("GET", "HEAD"):
            status, body, kind = 405, b"GET only\n", "text/plain"
        elif request.path != "/events":
            try:
                body, kind = self.server.pages.find(request.path, request.query) or (None, "text/plain")
            except ImportError as error:    # matplotlib
                status, body, kind = 503, f"{error}; pictures need the package python3-matplotlib\n", "text/plain"
            if body is None:
                status, body = 404, b"no such page\n"
        kind += "" if kind.startswith("image/p") else "; charset=utf-8"
        return http.response(status, body, kind, request.keep_alive, request.method, MORE)

    def _send_events(self):
        """Sends server-sent events: the newest state at once, then each newer one. A slow viewer skips some."""
        pages = self.server.pages
        with pages.watched():
            self._send(EVENTS + b"retry: 500\n\n")
            pages.publish()         # nobody may have looked for a while
            version = 0
            while True:
                newer, data = pages.news(version)
                self._send(b"event: state\ndata: " + data + b"\n\n" if newer > version else b": alive\n\n")
                version = newer


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.open, self.open_lock = {}, threading.Lock()    # connection -> its address, the oldest first
        self.logged_at = -LOG_S

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


class Pages:
    """The content of each address. The threads of viewers ask; one thread publishes."""

    def __init__(self, follower):
        self.follower = follower
        self.condition = threading.Condition()
        self.version, self.data = 0, b""
        self.watchers = 0
        self.pictures, self.picture_lock = {}, threading.Lock()     # path -> (version made of, monotonic s, bytes)

    def publish(self):
        with self.follower.lock:
            data = json.dumps(board_state.state_of(self.follower), separators=(",", ":")).encode()
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
        """Returns (bytes, kind) of an address, or None."""
        pages = {"/board.txt": self._text, "/board.json": self._json, "/rules": self._rules}
        if path in pages:
            with self.follower.lock:
                body, kind = pages[path]()
            return body.encode(), kind
        if path == "/series.json":
            with self.follower.lock:
                return json.dumps(board_state.series_of(self.follower.replica, query)).encode(), "application/json"
        if path in ("/board.png", "/score.png", "/latency.png"):
            return self._picture(path), "image/png"
        name = "index.html" if path == "/" else path[1:]
        return self._file(FILES[name]) if name in FILES else None

    def _text(self):
        replica = self.follower.replica
        return board_text.board_text(replica.contest, self.follower.now_ns(), self.follower.warning), "text/plain"

    def _json(self):
        return json.dumps(board_state.board_json(self.follower)), "application/json"

    def _rules(self):
        replica = self.follower.replica
        return board_text.rules_page(replica.contest, replica.ports, replica.plan), "text/html"

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def _file(path):
        return (path.read_bytes(), KINDS[path.suffix]) if path.is_file() else None

    def _picture(self, path):
        """Makes a picture, or gives that of a moment ago."""
        from contest import pictures        # loads matplotlib, which takes a second
        with self.picture_lock:
            version, made_at, data = self.pictures.get(path, (0, 0, b""))
            if not data or version != self.version and time.monotonic() - made_at > 2:
                with self.follower.lock:
                    drawing = pictures.DATA[path](self.follower.replica)
                data = pictures.DRAW[path](drawing)
                self.pictures[path] = self.version, time.monotonic(), data
            return data


def run(server, follower, pages):
    threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
    pages.publish()
    while not follower.ended.is_set():
        if follower.step() and pages.watchers:
            pages.publish()
        follower.ended.wait(FOLLOW_S)


def make_parser():
    parser = command_parser("board", __doc__)
    add_store(parser, "the contest")
    parser.add_argument("--bind", default="0.0.0.0", metavar="ADDRESS")
    parser.add_argument("--port", type=bounded(int, 0, 65535), default=10000, help="0: any free one (default 10000)")
    return parser


def main(words):
    options = make_parser().parse_args(words)
    logging.basicConfig(format="contest board: %(message)s")
    try:
        follower = Follower(options.store)
        server = Server((options.bind, options.port), Handler)
    except store.StoreError as error:
        complain("board", error)
        return 1
    except OSError as error:
        way_out = "; choose another port" if error.errno == errno.EADDRINUSE else ""
        complain("board", f"{options.bind}:{options.port}: {error.strerror}{way_out}")
        return 1
    # The players' server comes first. A value below that of the caller would be refused.
    os.setpriority(os.PRIO_PROCESS, 0, max(10, os.getpriority(os.PRIO_PROCESS, 0)))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: follower.ended.set())
    server.pages = Pages(follower)
    print(f"board http://{options.bind}:{server.server_address[1]}/", flush=True)
    run(server, follower, server.pages)
    return 0
