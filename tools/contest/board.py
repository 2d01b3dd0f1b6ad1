"""Serves the board of a stored contest: a page that follows it, and fixed addresses for programs.

    contest board STORE [--port 10000]

/             the page (live by server-sent events from /events)
/rules        the rules as the players need them
/board.txt    the board in the layout of the original         /board.json   the same in full
/board.png    the ranking      /score.png   points over time      /latency.png   the latencies' distribution

It only reads the store, so that no viewer slows a player; `contest serve STORE` starts it by itself. It also writes the
snapshots from which a restart goes on, and deletes rows that are older than the plan's --keep.
"""
import argparse
import errno
import functools
import http.server
import json
import logging
import os
import pathlib
import signal
import socketserver
import threading
import time
import urllib.parse

from contest import board_state, board_text, store
from contest.arguments import bounded, complain
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
SECURITY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
FOLLOW_S = 0.1
CONNECTIONS_MAX = 800       # each has a thread, and a file of the 1024 that a process may have
SHARE_MAX = 400             # one address has so many at most: it may be a room of viewers
VIEWERS_MAX = 300
ALIVE_S = 10                # a comment for so long without news, which shows a viewer that is gone


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "Most", ""
    timeout = 60

    def do_GET(self):       # the name is http.server's
        try:
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
        except ValueError:      # a host in brackets that is none
            self.send_error(400)
            return
        try:
            if url.path == "/events":
                self._events()
            elif found := self.server.pages.find(url.path, query):
                self._answer(200, *found)
            else:
                self._answer(404, b"no such page\n", "text/plain")
        except ImportError as error:    # matplotlib
            self._answer(503, f"{error}; pictures need the package python3-matplotlib\n".encode(), "text/plain")
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    do_HEAD = do_GET

    def _answer(self, status, body, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind + ("" if kind.startswith("image/p") else "; charset=utf-8"))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Security-Policy", SECURITY)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _events(self):
        """Sends server-sent events: the newest state at once, then each newer one. A slow viewer skips some."""
        with self.server.viewers as admitted:
            if not admitted:
                self._answer(503, b"too many viewers\n", "text/plain")
                return
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command == "HEAD":
                return
            self.wfile.write(b"retry: 500\n\n")
            self.server.pages.publish()         # nobody may have looked for a while
            version = 0
            while True:
                newer, data = self.server.pages.news(version)
                self.wfile.write(b"event: state\ndata: " + data + b"\n\n" if newer > version else b": alive\n\n")
                version = newer

    def log_message(self, *_):
        pass


class Viewers:
    """A count with a limit, as a context."""

    def __init__(self):
        self.count, self.lock = 0, threading.Lock()
        self.local = threading.local()

    def __enter__(self):
        with self.lock:
            self.local.admitted = self.count < VIEWERS_MAX
            self.count += self.local.admitted
        return self.local.admitted

    def __exit__(self, *_):
        with self.lock:
            self.count -= self.local.admitted


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.open = {}              # connection -> its address

    def verify_request(self, request, client_address):
        """Refuses a connection for which there is no place."""
        places = list(self.open.values())
        if len(places) >= CONNECTIONS_MAX or places.count(client_address[0]) >= SHARE_MAX:
            return False
        self.open[request] = client_address[0]
        return True

    def shutdown_request(self, request):
        self.open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        LOG.debug("a viewer's connection ended", exc_info=True)


class Pages:
    """The content of each address. The threads of viewers ask; one thread publishes."""

    def __init__(self, follower):
        self.follower = follower
        self.condition = threading.Condition()
        self.version, self.data = 0, b""
        self.pictures, self.picture_lock = {}, threading.Lock()     # path -> (version made of, monotonic s, bytes)

    def publish(self):
        with self.follower.lock:
            data = json.dumps(board_state.state_of(self.follower), separators=(",", ":")).encode()
        with self.condition:
            self.version, self.data = self.version + 1, data
            self.condition.notify_all()

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
        return board_text.rules_page(self.follower.replica.contest, self.follower.replica.ports), "text/html"

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
        if follower.step() and server.viewers.count:
            pages.publish()
        follower.ended.wait(FOLLOW_S)


def main(words):
    parser = argparse.ArgumentParser(prog="contest board", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", metavar="STORE")
    parser.add_argument("--bind", default="0.0.0.0", metavar="ADDRESS")
    parser.add_argument("--port", type=bounded(int, 0, 65535), default=10000, help="0: any free one (default 10000)")
    options = parser.parse_args(words)
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
    os.setpriority(os.PRIO_PROCESS, 0, 10)       # the players' server comes first
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: follower.ended.set())
    server.pages, server.viewers = Pages(follower), Viewers()
    print(f"board http://{options.bind}:{server.server_address[1]}/", flush=True)
    run(server, follower, server.pages)
    return 0
