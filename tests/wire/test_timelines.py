"""Every timeline, tests/wire/FOLDER/NAME.wire, as one pytest item. README.md defines the language."""
import functools
import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
PROGRAM = (BUILD if BUILD.is_absolute() else ROOT / BUILD) / "test/tests/wire/timeline"
TIMELINES = sorted(p.relative_to(HERE).as_posix() for p in HERE.rglob("*.wire"))


def play(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60, cwd=ROOT,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})    # saves a third of the time


@functools.lru_cache(maxsize=None)
def played(folder, *words):
    """Plays the timelines of a folder by one program. Returns {name: (exit status, output)}."""
    names = [name for name in TIMELINES if name.startswith(f"{folder}/")]
    done = play(*words, *(f"tests/wire/{name}" for name in names))
    if len(names) == 1:
        return {names[0]: (done.returncode, done.stdout + done.stderr)}
    parts = re.split(r"^== exit (-?\d+) tests/wire/(.*)\n", done.stdout, flags=re.MULTILINE)
    results = {name: (int(status), output) for output, status, name in zip(parts[0::3], parts[1::3], parts[2::3])}
    assert sorted(results) == names, done.stdout + done.stderr
    return {name: (status, output + done.stderr) for name, (status, output) in results.items()}


# A worker plays a folder.
EACH = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(f"wire-{name.split('/')[0]}"))
                                        for name in TIMELINES])


@EACH
def test_timeline(name):
    status, output = played(name.split("/")[0])[name]
    assert status == 0, f"exit {status}\n{output}"


@EACH
def test_timeline_with_arp_between(name):
    """The gateway answers ARP late, and moves before each segment. The timeline must hold nevertheless."""
    status, output = played(name.split("/")[0], "--arp")[name]
    assert status == 0, f"exit {status}\n{output}"


def test_each_opens_with_its_goal():
    for name in TIMELINES:
        first = (HERE / name).read_text().splitlines()[0]
        assert first.startswith("# ") and len(first) > 20, name


def test_the_table_names_them_all():
    """README.md maps requirements to files: it names all files, and no others."""
    table = (HERE / "README.md").read_text()
    named = set(re.findall(r"`([a-z_]+/[a-z0-9_]+)`", table))
    assert named == {name.removesuffix(".wire") for name in TIMELINES}


# A timeline that does not hold prints the field, both values and both packets.
@pytest.mark.parametrize("line, field, expected, actual", [
    ("+0.200 > P. 1:101(100) ack 1", "time", "0.210000", "0.010000"),
    ("+0 > P. 1:101(100) ack 2", "ack", "2", "1"),
    ("+0 > P. 2:102(100) ack 1", "seq", "2", "1"),
    ("+0 > P. 1:100(99) ack 1", "length", "99", "100"),
    ("+0 > . 1:101(100) ack 1", "flags", ".", "P."),
    ("+0 > P. 1:101(100) ack 1 win 1", "win", "1", "65535"),
    ("+0 > P. 1:101(100) ack 1 <nop>", "options", "<nop>", "<>"),
])
def test_a_failure_prints_field_values_and_packets(tmp_path, line, field, expected, actual):
    path = tmp_path / "wrong.wire"
    path.write_text("# One line of this timeline does not hold.\npolicy timestamps=0\n+0 connect\n+0 > S 0:0(0) <...>\n"
                    f"+0.010 < S. 0:0(0) ack 1 <mss 1460>\n+0 > . 1:1(0) ack 1\n+0 write 100\n{line}\n")
    done = play(path)
    assert done.returncode == 1
    assert f"field {field}: expected {expected}, actual {actual}" in done.stdout
    assert re.search(r"expected packet: .*\n +actual packet: ", done.stdout)
    assert "wrong.wire:8:" in done.stdout


@pytest.mark.parametrize("lines, message", [
    ("+0 connect\n+1 quiet", "nothing more before this line"),
    ("+0 connect\n+0 > S 0:0(0) <...>\n+0 state ESTABLISHED", "SYN-SENT"),
    ("+0 connect\n+0 > S 0:0(0) <...>\n+0 > . 1:1(0) ack 1", "nothing"),
    ("+0 conect", "an unknown call"),
    ("+0 < S 0:1(0)", "do not agree"),
])
def test_silence_and_states_are_checked_too(tmp_path, lines, message):
    path = tmp_path / "wrong.wire"
    path.write_text(f"# This timeline does not hold.\n{lines}\n")
    done = play(path)
    assert done.returncode in (1, 2)
    assert message in done.stdout
