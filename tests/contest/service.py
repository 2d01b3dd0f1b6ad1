"""`contest serve STORE` as a process, for the tests that kill it, load it, or read its board."""
import re
import subprocess
import sys
from tests.lib.paths import ROOT
from tests.lib.waiting import PATIENCE_S

TOOL = ROOT / "tools/contest/contest"


class Service:
    def __init__(self, store, *words, port_base=0):
        self.store = store
        self.process = subprocess.Popen(
            [TOOL, "serve", store, "--bind", "127.0.0.1", "--port-base", str(port_base), *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ports, self.board = {}, ""
        while not (self.ports and self.board):
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            self.ports.update({kind: int(port) for kind, port in re.findall(r"(\w+)=[\d.]+:(\d+)", line)})
            if line.startswith("board "):
                self.board = line.split()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


def beside(module, service, *words):
    """Starts a program of tests/contest beside the service."""
    return subprocess.Popen([sys.executable, "-m", f"tests.contest.{module}", "--input", str(service.ports["input"]),
                             "--output", str(service.ports["output"]), *map(str, words)],
                            stdout=subprocess.PIPE, text=True, cwd=ROOT)
