"""A contest server of our own as a process beside us: start it, read its board, stop it, read its record."""
import http.client
import json
import pathlib
import re
import subprocess
import tempfile
import time

from workshop.vm import qemu
from servers.contest import record
from servers.contest.scoring import WINDOW_NS

SERVER = pathlib.Path(__file__).resolve().parents[2] / "contest/contest"


class Game:
    """`words` are options of `contest serve`; `bind` is where it listens.

    `has_board`: a process beside it serves the board's page."""

    def __init__(self, bind, words, port_base=0, has_board=False):
        self.directory = tempfile.TemporaryDirectory(prefix="peregrine-game-")
        self.record_path = pathlib.Path(self.directory.name) / "record"
        self.log_path = pathlib.Path(self.directory.name) / "log"       # a pipe that nobody reads would stop the server
        self.bind = bind
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [SERVER, "serve", *([f"{self.directory.name}/store"] if has_board else []), "--bind", bind,
                 "--port-base", str(port_base), "--record", self.record_path, *map(str, words)],
                stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=qemu.die_with_parent)
        line = self.process.stdout.readline()
        self.ports = {kind: int(port) for kind, port in re.findall(r"(\w+)=[\d.]+:(\d+)", line)}
        if not self.ports:
            self.process.wait(60)
            error = self.log_path.read_text(encoding="utf-8").strip()
            self.close()
            raise OSError(error or "the contest server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def endpoints(self, host):
        """Returns the words of the guest's settings that lead here."""
        return [f"feed={host}:{self.ports['input']}", f"submit={host}:{self.ports['output']}"]

    def board(self):
        """Returns the JSON board."""
        connection = http.client.HTTPConnection(self.bind, self.ports["pages"], timeout=60)
        try:
            connection.request("GET", "/board.json")
            return json.load(connection.getresponse())
        finally:
            connection.close()

    def wait_over(self, seconds):
        """Waits until the last digits have been sent. Returns false if that does not happen in this time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.board()["over"]:
                return True
            time.sleep(0.1)
        return False

    def stop(self):
        """Ends the server; the record's lines."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        return record.read(self.record_path)

    def close(self):
        qemu.end_process(self.process)
        self.process.stdout.close()
        self.directory.cleanup()


def outcome(lines, user, ip=None):
    """Returns the fates of the offered answers: the user's summary, and the answers that were never submitted.

    An early answer is refuted 5 s later. It is not wrong if the input ended before that."""
    summary = next((line for line in lines if line["kind"] == "summary" and line["user"] == user), None)
    submitted = [line["digits"] for line in lines if line["kind"] == "submission" and line["user"] == user]
    offered = {}                                # digits -> how often
    for answer in record.offered_to(lines, ip):
        offered[answer["digits"]] = offered.get(answer["digits"], 0) + 1
    known = set(submitted)
    end_ns = max((line["ns"] for line in lines if line["kind"] == "burst" and "ns" in line), default=float("inf"))
    return {
        "summary": summary, "offered": offered, "submitted": submitted,
        "missed": [digits for digits in offered if digits not in known],
        "wrong": [line for line in lines if line["kind"] in ("submission", "resolved") and line["user"] == user
                  and line["verdict"].startswith("wrong")
                  and not (line["kind"] == "resolved" and line["ns"] + WINDOW_NS > end_ns)],
        "repeated": [digits for digits in known if submitted.count(digits) > max(1, offered.get(digits, 1))],
    }
