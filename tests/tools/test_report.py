"""tools/report.py: the page agrees with the rows. Rows that do not belong together are refused."""
import json

import pytest
import report

ROW = {"name": "net/own/segment-in", "unit": "ns", "n": 100, "p50": 24.04, "p99": 56, "machine": "a processor",
       "commit": "abc1234", "command": "build/x segment-in | cat"}


@pytest.fixture
def bench(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "docs").mkdir()

    def write(name, *rows):
        (tmp_path / "bench" / name).write_text(json.dumps([{**ROW, **row} for row in rows]))

    write.run = lambda *words: report.main(["--bench", str(tmp_path / "bench"), "--out",
                                            str(tmp_path / "docs/performance.md"), *words])
    write.page = lambda: (tmp_path / "docs/performance.md").read_text()
    write.docs = tmp_path / "docs"
    return write


def test_a_row_stands_with_its_figures_and_command(bench):
    pytest.importorskip("matplotlib")       # installed for `make check`
    bench("net.json", {"others": 0.01}, {"name": "net/lwip/segment-in", "p50": 133, "spread": 3, "others": 0.3},
          {"name": "net/lwip/bulk"}, {"name": "base/pool", "p99": None, "n": 7})
    assert bench.run() == 0
    assert "| row | unit | own | lwip | n |" in bench.page()
    assert "| segment-in | ns | 24.0 (56) | 133 (56) ±3\\* | 100 |" in bench.page()
    assert "| bulk | ns |  | 24.0 (56) | 100 |" in bench.page()
    assert "| row | unit | p50 (p99) | n |" in bench.page() and "| pool | ns | 24.0 | 7 |" in bench.page()
    assert "Command: `build/x segment-in | cat`" in bench.page()
    assert "Commit abc1234 on a processor." in bench.page()
    assert (bench.docs / "performance-net-ns.svg").read_text().startswith("<?xml")


def test_the_same_rows_give_the_same_files(bench):
    pytest.importorskip("matplotlib")       # installed for `make check`
    bench("net.json", {}, {"name": "net/lwip/segment-in", "p50": 133})
    bench.run()
    first = {path.name: path.read_bytes() for path in bench.docs.iterdir()}
    bench.run()
    assert first == {path.name: path.read_bytes() for path in bench.docs.iterdir()}


@pytest.mark.parametrize("other", [{"commit": "def5678"}, {"machine": "another processor"}])
def test_rows_of_two_commits_or_machines_are_refused_by_file(bench, capsys, other):
    bench("net.json", {})
    bench("matcher.json", {"name": "matcher/a", **other})
    assert bench.run() == 1
    assert "matcher.json" in capsys.readouterr().err
    assert bench.run("--mixed") == 0
    assert next(iter(other.values())) in bench.page()


def test_a_report_without_measurements_fails_with_a_hint(bench, capsys):
    assert bench.run() == 1
    assert "make bench" in capsys.readouterr().err


def test_a_row_that_lacks_its_command_is_refused(bench, capsys):
    (bench.docs.parent / "bench/x.json").write_text('[{"name": "net/a", "unit": "ns", "p50": 1}]')
    assert bench.run() == 1
    assert "command" in capsys.readouterr().err
