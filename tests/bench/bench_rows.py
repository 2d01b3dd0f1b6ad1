"""The rows that every benchmark writes to build/bench/NAME.json."""
import json
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine():
    return next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                platform.processor())


def commit():
    return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True,
                          text=True).stdout.strip()


class Rows:
    """The rows of one run. The file is written at each row, so that a run that is broken off leaves its rows."""

    def __init__(self, out):
        self.out, self.machine, self.commit, self.rows = out, machine(), commit(), []
        self.write()

    def write(self):
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.write_text("[\n" + ",\n".join(map(json.dumps, self.rows)) + "\n]\n")

    def keep(self, name, unit, n, p50, p99, command, **more):
        self.rows.append({"name": name, "unit": unit, "n": n, "p50": p50, "p99": p99, **more, "machine": self.machine,
                          "commit": self.commit, "command": command})
        self.write()
