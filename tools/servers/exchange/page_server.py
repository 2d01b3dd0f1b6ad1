"""Serves the live page of an exchange, as a process of its own: board.py starts it and gives it the states.

/             the page (live by server-sent events from /events)
/board.json   the state that the page shows

A line to standard output asks for a state, which comes as a line of standard input; its end is this process's.
"""
import json
import os
import pathlib
import signal
import sys
import threading

from servers.web import live_page

PAGE = pathlib.Path(__file__).resolve().parent / "page"
NICENESS = 10               # the exchange comes first


class Pages(live_page.Pages):
    def __init__(self):
        super().__init__("Exchange", PAGE)
        self.wanted, self.came = threading.Event(), threading.Event()
        self.line = b""

    def state(self):
        return self.line

    def publish(self):
        """Asks for a newer state, for a viewer that comes."""
        self.wanted.set()

    def find(self, path, query):
        if path != "/board.json":
            return super().find(path, query)
        before = self.version
        self.wanted.set()
        version, data = self.news(before)
        if version == before:
            raise live_page.Unavailable("the exchange is busy")
        return data, "application/json"

    def ask(self):
        """Asks for states while there is a viewer, one at a time."""
        while True:
            if not self.watchers:
                self.wanted.wait()
            self.wanted.clear()
            try:
                print("state", flush=True)
            except BrokenPipeError:         # the exchange was killed
                return
            self.came.wait()
            self.came.clear()

    def take(self, line):
        self.line = line
        super().publish()
        self.came.set()


def main(ip, port):
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # Ctrl-C is the exchange's, which ends this process
    os.nice(NICENESS)
    try:
        server = live_page.Server((ip, int(port)), Pages())
    except OSError as error:
        print(json.dumps([0, error.strerror]), flush=True)
        return
    print(json.dumps([server.server_address[1], ""]), flush=True)
    server.start()
    threading.Thread(target=server.pages.ask, daemon=True).start()
    for line in sys.stdin.buffer:
        server.pages.take(line.rstrip())


if __name__ == "__main__":
    main(*sys.argv[1:])
