"""The network's paths in instructions: deterministic where times are not, so growth is held to 5 %. A gVNIC may take
MORE_MAX instructions more than virtio's card for a frame: 20 ns, by two instructions a cycle at 2.5 GHz.

valgrind counts the instructions of the code that bench_net and bench_card time, less the matcher's. `make count-net`
writes the counts to instructions.json. The counts belong to one compiler: with another compiler the test is skipped.
The CPU decides which memcpy the C library uses (valgrind offers AVX2 if the CPU does); the difference is within the
5 %."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BASELINE = HERE / "instructions.json"
ROWS = ("segment-in", "segment-in-sum", "answer-out", "burst-to-post", "bulk", "bulk-sum", "trade", "trade-bulk")
CAPTURED = ("segment-in", "answer-out", "burst-to-post", "bulk")       # counted again with capture=128
STACKS = ("own", "lwip")
GVNICS = ("gqi-lists", "gqi-raw", "dqo-raw")
MORE_MAX = 100
COUNT = 200
GROWTH_MAX = 1.05


@pytest.fixture(scope="module", autouse=True)
def current_program():
    """Builds the programs, so that no older one is counted. In `make check` the program is up to date. Workers take
    turns."""
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build/count.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "-s", "BUILD=build", *(f"build/host/tests/bench/{name}" for name in
                                                  ("bench_net-own", "bench_card"))]
        subprocess.run(command, cwd=ROOT, env=clean, check=True)


def compiler():
    return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def run(program, *words):
    """Returns the instructions of one pass of a row, and the output."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no", "--callgrind-out-file=/dev/null",
                           f"build/host/tests/bench/{program}", *words, str(COUNT)],
                          capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1)) / COUNT, done.stdout


def count(stack, row, kind="count"):
    """Returns the instructions of one pass of a row (bulk: of 40 segments)."""
    return run(f"bench_net-{stack}", row, kind)[0]


@pytest.mark.parametrize("row", ROWS)
def test_our_stack_takes_no_more_instructions_than_the_baseline(row):
    baseline = json.loads(BASELINE.read_text())
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind: tools/setup.sh installs it")
    if compiler() != baseline["compiler"]:
        pytest.skip(f"the counts are of {baseline['compiler']}, this is {compiler()}")
    for kind, then in (("count", baseline["own"]), ("count-captured", baseline["captured"])):
        if row in then:
            now = count("own", row, kind)
            assert now <= then[row] * GROWTH_MAX, \
                f"{row}, {kind}: {now:.0f} instructions, {then[row]} when it was last counted (make count-net)"


@pytest.mark.parametrize("row", ("receive", "send"))
def test_gvnic_takes_little_more_than_virtio_reads_no_register_and_rings_once_a_frame_sent(row):
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind: tools/setup.sh installs it")
    virtio, _ = run("bench_card", row, "virtio", "count")
    for card in GVNICS:
        now, output = run("bench_card", row, card, "count")
        assert now <= virtio + MORE_MAX, f"{row}, {card}: {now:.0f} instructions, virtio's card {virtio:.0f}"
        registers, doorbells = map(int, re.findall(r"\d+", output))
        assert registers == 0, f"{row}, {card}: {registers} accesses to registers in {COUNT} frames"
        assert doorbells == COUNT if row == "send" else doorbells <= COUNT / 10, \
            f"{row}, {card}: {doorbells} doorbells in {COUNT} frames"


def main():
    found = {stack: {row: round(count(stack, row)) for row in ROWS} for stack in STACKS}
    found["captured"] = {row: round(count("own", row, "count-captured")) for row in CAPTURED}
    BASELINE.write_text(json.dumps({"compiler": compiler(), **found}, indent=1) + "\n")
    for row in ROWS:
        print(f"{row:16}" + "".join(f"{stack:>8} {found[stack][row]:6}" for stack in found if row in found[stack]))


if __name__ == "__main__":
    sys.exit(main())
