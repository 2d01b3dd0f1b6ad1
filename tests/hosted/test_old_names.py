"""docs/status.md, "Old names": the counters that stand under two names have one value."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / os.environ.get("BUILD", "build") / "host/peregrine-linux"
WORDS = "feed=127.0.0.1:1 submit=127.0.0.1:1 user=u passwd=p n=6 m=823 wait=sleep deadline=0.2"


def test_counters_stand_under_their_old_names_too():
    table = re.findall(r"^\| `([a-z_.]+)(\*?)` \| `([a-z_.]+)\*?` \|$", (ROOT / "docs/status.md").read_text(),
                       re.MULTILINE)
    assert len(table) > 5
    done = subprocess.run([PROGRAM, *WORDS.split()], capture_output=True, text=True, timeout=60)
    statistics = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for old, star, new in table:
        values = {name.removeprefix(new): value for name, value in statistics.items() if name.startswith(new)}
        assert values, f"no counter is named {new}"
        for rest, value in values.items() if star else [("", statistics[new])]:
            assert statistics[old + rest] == value, old + rest
