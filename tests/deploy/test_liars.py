"""Hosts that lie: control characters, output without end, texts of the wrong shape. tools/peregrine ends with words and
an exit code, in bounded time and memory, and sends no control character to the terminal."""
import json
import os
import random
import re
import resource
import subprocess
import sys
import time

import pytest

from deploy import blackbox, control, preflight, survey, survey_inside
from deploy.facts import Facts
from deploy.ssh import Host
from tests.deploy.fakehost import ROOT, FakeHost

COMMANDS = (("check",), ("install", "--config", "CONFIG"), ("fly",), ("uninstall",), ("record",),
            ("survey", "--to", "127.0.0.1:1"))
MEMORY_BYTES_MAX = 400 << 20        # address space; the program and its threads take half
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


DONE = '[[ "$*" =~ peregrine\\ ([0-9a-f]{16}) ]] && echo "done ${BASH_REMATCH[1]}"'


def lying(directory, body, *, done=DONE):
    """Returns the name of an ssh whose host answers each script with what a shell command prints, and says that it is
    done."""
    ssh = directory / "ssh"
    ssh.write_text(f'#!/bin/bash\ncase " $* " in *" -G "*) exit 0 ;; esac\ncat >/dev/null &\n{body}\n{done}\n')
    ssh.chmod(0o755)
    return ssh


def peregrine(directory, words, body, *, ssh=None, **environment):
    config = directory / "config"
    config.write_text("feed=192.0.2.1:1 submit=192.0.2.1:2 user=u passwd=p n=9 m=3 key=12345678\n")
    config.chmod(0o600)
    kernel = directory / "kernel"
    kernel.write_bytes(b"\x7fELF")
    words = [str(config) if word == "CONFIG" else word for word in words]
    command = [sys.executable, ROOT / "tools/peregrine", words[0], "host", *words[1:], "--ssh",
               ssh or lying(directory, body)]
    began = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=60,
                          env={**os.environ, **environment},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX,) * 2))
    assert time.monotonic() - began < 30
    said = (done.stdout + done.stderr).decode()
    assert "Traceback" not in said and done.returncode in (1, 3, 5), said[-2000:]
    assert not CONTROLS.search(said), CONTROLS.search(said)
    assert len(said) < 1 << 20
    return said


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("body, quoted", [
    ("yes", "said more than 4096 KiB on standard output"), ("yes >&2", "said more than 256 KiB on standard error"),
    ("head -c 200000000 /dev/zero >&2", "said more than 256 KiB on standard error"),
    ("tr '\\0' x </dev/zero", "said more than 4096 KiB on standard output"),
    ("printf '\\e]0;gone\\a\\e[2J\\x9b\\xe2\\x80\\xae\\n' >&2; exit 1", "\\x1b]0;gone\\x07\\x1b[2J"),
], ids=["endless", "endless on standard error", "200 MB on standard error", "one endless line", "escapes"])
def test_a_host_is_bounded_and_shown(tmp_path, words, body, quoted):
    assert quoted in peregrine(tmp_path, words, body)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("body", ["", "echo done", "echo leaving", "cat", 'printf "%s\\n" "$*"', "echo '#end'"])
def test_a_host_that_has_done_nothing_is_not_believed(tmp_path, words, body):
    said = peregrine(tmp_path, words, body, ssh=lying(tmp_path, body, done="exit 0"))
    assert "ended without a word that the script is done" in said and "everything is as it was" not in said


@pytest.mark.parametrize("body, quoted", [
    ("printf 'region 1 2\\nzz\\nend\\n'", "memory did not come as hexadecimal: 'zz'"),
    ("printf 'region 1 2\\n\\e[2J\\nend\\n'", "'\\x1b[2J'"), ("printf 'region 1 2\\n0\\nend\\n'", "'0'"),
    ("printf 'region\\nend\\nend\\nregion 1\\n00'", "there is no crash record"),
    ("printf '\\x00\\xff\\nregion x\\n\\xff\\nend\\n'", "hexadecimal"), ("true", "no region could be read")])
def test_memory_that_is_none_is_reported_in_words(tmp_path, body, quoted):
    assert quoted in peregrine(tmp_path, ("record",), body)


def test_escapes_in_the_steps_and_in_the_facts_are_shown(tmp_path):
    said = peregrine(tmp_path, ("uninstall",), "printf '%s\\n' $'- step \\e[31mred\\e[0m' >&2; exit 3")
    assert "- step \\x1b[31mred" in said
    facts = "#fact os-release 0\n PRETTY_NAME=\x1b[2J\u202ex\n#fact arch 0\n \x1b]0;t\x07\n#end\n"
    (tmp_path / "facts").write_text(facts)
    said = peregrine(tmp_path, ("check",), f"cat {tmp_path}/facts")
    assert "\\x1b[2J\\u202ex" in said and "the processor is \\x1b]0;t\\x07" in said


def test_a_terminal_of_another_encoding_takes_a_hosts_letters(tmp_path):
    (tmp_path / "facts").write_text("#fact os-release 0\n PRETTY_NAME=Größe\n#end\n")
    assert "Gr\\xf6\\xdfe" in peregrine(tmp_path, ("check",), f"cat {tmp_path}/facts", PYTHONIOENCODING="ascii",
                                        PYTHONUTF8="0")


def test_the_id_of_a_boot_has_an_end(tmp_path):
    assert Host("host", (str(lying(tmp_path, "yes")),)).answers() is None
    assert Host("host", (str(lying(tmp_path, "echo one", done="")),)).answers() == "one"


ODD = ["", " ", "-1", "0", "9" * 5000, "1e999", "null", "[]", "{}", "[1]", "²", "٣", "0x", "0x" + "f" * 5000, '"', "'",
       "[" * 100000, "\x1b[2J", "a=b", "=", "NaN", "1" * 100000, "-", "eth0",
       '[{"dst":"default","dev":"eth0","gateway":5}]',
       '[{"ifname":"eth0","addr_info":[{"family":"inet","scope":"global","local":"1.2.3","prefixlen":99}]}]',
       '[{"ifname":"eth0","addr_info":[{"family":"inet","scope":"global","local":"1.2.3.4","prefixlen":"x"}]}]',
       '[{"ifname":"eth0","addr_info":7}]', '[{"ifname":"eth0","addr_info":[3]}]', "menuentry 'x' {", "}", "99999>9"]


def test_facts_of_any_shape_are_judged(tmp_path):
    """Each fact has each odd text once; then lines at random are replaced. A seed is printed."""
    text = FakeHost(tmp_path / "host").run(["probe"]).decode()
    blocks = [block for block in re.split(r"(?m)^(?=#fact )", text) if block]
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    print("SEED", seed)
    rng = random.Random(seed)
    for at, block in enumerate(blocks):
        head, *lines = block.splitlines()
        for odd in ODD:
            judge("".join([*blocks[:at], f"{head}\n {odd}\n", *blocks[at + 1:]]) + "#end\n")
            if lines:
                line = rng.randrange(len(lines))
                key, equals, _ = lines[line].partition(rng.choice("=:"))
                other = [*lines[:line], (key + equals or " ") + odd, *lines[line + 1:]]
                judge("".join([*blocks[:at], "\n".join([head, *other]) + "\n", *blocks[at + 1:]]) + "#end\n")


def judge(text):
    facts = Facts(text)
    preflight.judge(facts, image_bytes=1, kexec_bytes=1, return_to="6.1.0-1-amd64").lines()
    survey._machine(facts, {})


MEASURED = {"connect": {"us": [1, 2.5], "failures": {"refused": 3}}, "siblings": ["0,1"], "load": 0.5, "python": "3",
            "jitter": {"seconds": 1, "reading_ns": 2, "longest_us": [3], "steal_percent": 0.5, "switches": 1,
                       "gaps_above_us": {"10": 1, "100": 0, "1000": 0}}}


def test_measurements_of_any_shape_are_refused_or_ranked():
    def paths(value, path=()):
        yield path
        if isinstance(value, dict):
            for key in value:
                yield from paths(value[key], (*path, key))

    facts, taken = Facts("#end\n"), 0
    for path in paths(MEASURED):
        for odd in (None, 0, "x", [], {}, [1], ["x"], {"a": []}, True, 10**400, [10**400], float("nan"), "\x1b"):
            measured = json.loads(json.dumps(MEASURED))
            parent = {"": measured}
            for key in ("", *path)[:-1]:
                parent = parent[key]
            parent[("", *path)[-1]] = odd
            measured = measured if path else odd
            try:
                row = {"host": "h", **survey._machine(facts, survey.checked(measured)), **survey._times(measured),
                       "stops": [], "warnings": [], "ways": ["GRUB"], "rank": 1}
            except ValueError:
                continue
            survey.order_of(row)
            survey.text([row], ("192.0.2.1", 1))
            taken += 1
    assert taken > 10


@pytest.mark.parametrize("statistics", [
    "survey.x a\nsurvey.x.count 1\n", "survey.x search of 0 digits\n" + "".join(
        f"survey.x.{key} 5\n" for key in ("count", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")),
    "survey.x a\nsurvey.x.count ²\n", f"survey.x a\nsurvey.x.count {'9' * 5000}\n", "survey.echo_sent x\n", "\n \n"])
def test_statistics_of_any_shape_make_rows(statistics):
    survey_inside.table({"host": "h", "cause": "c", "seconds": 1, "build": "b", "machine": [],
                         "rows": survey_inside.rows_of(control.parse(statistics))})


def test_a_record_of_odd_texts_is_described():
    record = blackbox.Record(9, 2**32 - 1, 2**64 - 1, 2**64 - 1, "", cause="\x1b[2J", version="\x1b[2J",
                             backtrace=[2**64 - 1], statistics="\x00 \x1b\n", log="\x07")
    assert not CONTROLS.search("\n".join(blackbox.describe(record)))
