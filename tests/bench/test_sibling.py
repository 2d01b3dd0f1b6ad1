"""bench_sibling.py finds its pairs of CPUs in /sys, runs, and writes whole rows."""
import json
import os

import bench_sibling
import pytest


def tree(folder, siblings):
    """A made-up /sys/devices/system/cpu; None: a CPU that is off line has no topology."""
    for cpu, listed in enumerate(siblings):
        (folder / f"cpu{cpu}").mkdir()
        if listed is not None:
            (folder / f"cpu{cpu}/topology").mkdir()
            (folder / f"cpu{cpu}/topology/thread_siblings_list").write_text(listed + "\n")
    return folder


@pytest.mark.parametrize("siblings, usable, pair, apart", [
    (["0-1", "0-1", "2-3", "2-3"], range(4), (0, 1), (0, 2)),
    (["0,2", "1,3", "0,2", "1,3"], range(4), (0, 2), (0, 1)),
    (["0-1", "0-1"], range(2), (0, 1), None),
    (["0", "1"], range(2), None, (0, 1)),
    (["0"], range(1), None, None),
    (["0-1", None, "2-3", "2-3"], range(4), (2, 3), (0, 2)),
    (["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"], (1, 2, 5), (1, 5), (1, 2)),
    (["0-1", "0-1", "2-3", "2-3"], (1, 3), None, (1, 3)),
])
def test_pairs_are_those_that_the_machine_tells_of(tmp_path, siblings, usable, pair, apart):
    assert bench_sibling.pairs(tree(tmp_path, siblings), set(usable)) == {"siblings": pair, "apart": apart}


def test_a_list_of_cpus_is_read_as_the_kernel_writes_it():
    assert bench_sibling.cpu_list("0-2,8,10-11\n") == {0, 1, 2, 8, 10, 11}


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(bench_sibling, "BURSTS", 20)


def test_each_case_has_a_whole_row(tmp_path, short, capsys):
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        pytest.skip("one CPU")
    a, b = sorted(usable)[:2]
    siblings = [None] * a + [f"{a},{b}"] + [None] * (b - a - 1) + [f"{a},{b}"]
    out = tmp_path / "bench/sibling.json"
    bench_sibling.main(out, tree(tmp_path, siblings), repeat=1)
    rows = json.loads(out.read_text())
    loads = ["nothing", "idle", "work", "pause", "spin"]
    assert [row["name"] for row in rows] == [
        *(f"sibling/siblings/matcher/{load}" for load in [*loads, "early-same-CPU", "early-second-CPU"]),
        *(f"sibling/siblings/burst-to-post/{load}" for load in loads)]
    for row in rows:
        assert set(row) == {"name", "unit", "n", "p50", "p99", "spread", "ratio", "machine", "commit", "command"}
        assert row["n"] == 20 and 0 < row["p50"] <= row["p99"] and row["ratio"] > 0
    assert "apart: not measured" in capsys.readouterr().out
    assert os.sched_getaffinity(0) == usable


def test_one_cpu_is_said_and_is_no_failure(tmp_path, short, capsys):
    out = tmp_path / "sibling.json"
    bench_sibling.main(out, tree(tmp_path, ["0"]), repeat=1)
    told = capsys.readouterr().out
    assert "siblings: not measured" in told and "apart: not measured" in told
    assert json.loads(out.read_text()) == []
