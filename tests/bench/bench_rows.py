"""The rows that every benchmark writes to build/bench/NAME.json."""
import json
import os
import pathlib
import time

from workshop.measured import commit, processor

ROOT = pathlib.Path(__file__).resolve().parents[2]


def busy_s():
    """Returns the seconds that the processors have worked since the boot, and the part that was this process' and its
    ended children's. Time that the host took away counts as work: it is somebody else's."""
    user, nice, system, _, _, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


class Rows:
    """The rows of one run. The file is written at each row, so that a run that is broken off leaves its rows.

    `others` of a row is the number of processors that other work kept busy since the row before."""

    def __init__(self, out):
        self.out, self.machine, self.commit, self.rows = out, processor(), commit(), []
        self.since = (time.monotonic(), *busy_s())
        self.others = 0
        self.write()

    def measure_others(self):
        """Measures the other work; rows that one run gave share the figure."""
        now = (time.monotonic(), *busy_s())
        wall, busy, own = (end - begin for end, begin in zip(now, self.since))
        if wall >= 0.5:
            self.others, self.since = round(max(0, busy - own) / wall, 2), now
        return self.others

    def write(self):
        self.out.parent.mkdir(parents=True, exist_ok=True)
        self.out.write_text("[\n" + ",\n".join(map(json.dumps, self.rows)) + "\n]\n")

    def keep(self, name, unit, n, p50, p99, command, **more):
        self.rows.append({"name": name, "unit": unit, "n": n, "p50": p50, "p99": p99, **more,
                          "others": self.measure_others(), "machine": self.machine, "commit": self.commit,
                          "command": command})
        self.write()
