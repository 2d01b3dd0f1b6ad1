"""Serves the board of a stored contest: a page that follows it, and fixed addresses for programs.

    contest board STORE [--port 10000]

/             the page (live by server-sent events from /events)
/rules        the rules as the players need them
/board.txt    the board in the layout of the original         /board.json   the same in full
/metrics      the same for Prometheus (share/monitoring)
/board.png    the ranking      /score.png   points over time      /latency.png   the latencies' distribution

It only reads the store, so that no viewer slows a player; `contest serve STORE` starts it by itself. It also writes the
snapshots from which a restart goes on, and deletes rows that are older than the plan's --keep.
"""
import errno
import json
import logging
import os
import pathlib
import signal
import threading
import time

from servers.contest import board_state, board_text, metrics, store
from servers.contest.arguments import add_store, bounded, command_parser, complain
from servers.contest.follower import Follower
from servers.web import live_page

PAGE = pathlib.Path(__file__).resolve().parent / "page"
FOLLOW_S = 0.1


class Pages(live_page.Pages):
    def __init__(self, follower):
        super().__init__("Contest", PAGE)
        self.follower = follower
        self.pictures, self.picture_lock = {}, threading.Lock()     # path -> (version made of, monotonic s, bytes)

    def state(self):
        with self.follower.lock:
            return live_page.json_bytes(board_state.state_of(self.follower))

    def find(self, path, query):
        pages = {"/board.txt": self._text, "/board.json": self._json, "/rules": self._rules,
                 "/metrics": self._metrics}
        if path in pages:
            with self.follower.lock:
                body, kind = pages[path]()
            return body.encode(), kind
        if path == "/series.json":
            with self.follower.lock:
                return json.dumps(board_state.series_of(self.follower.replica, query)).encode(), "application/json"
        if path in ("/board.png", "/score.png", "/latency.png"):
            return self._picture(path), "image/png"
        return super().find(path, query)

    def _text(self):
        replica = self.follower.replica
        return board_text.board_text(replica.contest, self.follower.now_ns(), self.follower.warning), "text/plain"

    def _json(self):
        return json.dumps(board_state.board_json(self.follower)), "application/json"

    def _rules(self):
        replica = self.follower.replica
        return board_text.rules_page(replica.contest, replica.ports, replica.plan), "text/html"

    def _metrics(self):
        return metrics.metrics_text(self.follower), "text/plain; version=0.0.4"

    def _picture(self, path):
        """Makes a picture, or gives that of a moment ago."""
        try:
            from servers.contest import pictures        # loads matplotlib, which takes a second
        except ImportError as error:
            raise live_page.Unavailable(f"{error}; pictures need the package python3-matplotlib") from error
        with self.picture_lock:
            version, made_at, data = self.pictures.get(path, (0, 0, b""))
            if not data or version != self.version and time.monotonic() - made_at > 2:
                with self.follower.lock:
                    drawing = pictures.DATA[path](self.follower.replica)
                data = pictures.DRAW[path](drawing)
                self.pictures[path] = self.version, time.monotonic(), data
            return data


def run(server, follower):
    server.start()
    server.pages.publish()
    while not follower.ended.is_set():
        if follower.step() and server.pages.watchers:
            server.pages.publish()
        follower.ended.wait(0 if follower.replica.left else FOLLOW_S)


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
        server = live_page.Server((options.bind, options.port), Pages(follower))
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
    print(f"board http://{options.bind}:{server.server_address[1]}/", flush=True)
    run(server, follower)
    follower.close()
    return 0
