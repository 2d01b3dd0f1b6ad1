"""tools/workshop/report.py: every figure of the pages is in docs/performance.json; a family of rows is of one run."""
import json
import re

import pytest
from tests.lib.paths import ROOT
from workshop import report

ROW = {"name": "net/own/burst-to-post", "unit": "ns", "n": 100, "p50": 24.04, "p99": 56, "machine": "a processor",
       "commit": "abc1234", "command": "build/x segment-in | cat"}


@pytest.fixture
def tree(tmp_path):
    """Makes a tree with the quoting pages of this one, and no figures yet."""
    for name in ("docs", "bench", "app/trade", "tests/gve"):
        (tmp_path / name).mkdir(parents=True)
    for name in report.QUOTED:
        (tmp_path / name).write_text((ROOT / name).read_text())

    def bench(name, *rows):
        (tmp_path / "bench" / name).write_text(json.dumps([{**ROW, **row} for row in rows]))

    bench.run = lambda: report.main(["--bench", str(tmp_path / "bench"), "--root", str(tmp_path)])
    bench.read = lambda name: (tmp_path / name).read_text()
    bench.folder = tmp_path
    return bench


def pages(root):
    names = ["docs/performance.json", "docs/performance.md", "docs/benchmarks.md", *report.QUOTED]
    return {name: (root / name).read_bytes() for name in names} | {
        path.name: path.read_bytes() for path in (root / "docs").glob("*.svg") if "performance" in path.name
        or path.name == "data-path.svg"}


def test_the_pages_of_this_tree_hold_what_its_figures_say(tree):
    (tree.folder / "docs/performance.json").write_bytes((ROOT / "docs/performance.json").read_bytes())
    assert tree.run() == 0
    here, made = pages(ROOT), pages(tree.folder)
    assert [name for name in here | made if here.get(name) != made.get(name)] == [], "run `make report`"


def test_a_row_stands_with_its_figures_command_and_source(tree):
    tree("net.json", {"others": 0.3}, {"name": "net/lwip/burst-to-post", "p50": 133.4, "p99": None},
         {"name": "net/own/trade", "p50": 150})
    assert tree.run() == 0
    page = tree.read("docs/performance.md")
    assert "| ring to ring, warm | ns | 24.0\\* (56) | 133 |  |" in page
    assert "Measured at commit abc1234 on a processor." in page
    assert "| on the wire, a burst each 1 ms | us | - | - | - |" in page
    assert "Between the card's rings it is 24.0\\* ns." in page and "on the wire, where lwIP takes" not in page
    assert "| 150 (56) | - |" in tree.read("app/trade/README.md")
    assert "Not measured on the newest code yet." in tree.read("README.md")
    assert "own/burst-to-post own/trade" in tree.read("docs/benchmarks.md")


def test_a_family_that_is_measured_again_takes_the_place_of_its_rows(tree):
    tree("net.json", {}, {"name": "net/own/gone"})
    tree("base.json", {"name": "base/pool"})
    tree.run()
    (tree.folder / "bench/base.json").unlink()
    tree("net.json", {"p50": 30, "commit": "def5678"})
    assert tree.run() == 0
    rows = json.loads(tree.read("docs/performance.json"))
    assert [(row["name"], row["p50"], row["commit"]) for row in rows] == [
        ("net/own/burst-to-post", 30, "def5678"), ("base/pool", 24.04, "abc1234")]


@pytest.mark.parametrize("other", [{"commit": "def5678"}, {"machine": "another processor"}])
def test_a_family_of_two_commits_or_machines_is_refused(tree, capsys, other):
    tree("net.json", {})
    tree("net2.json", {"name": "net/own/bulk", **other})
    assert tree.run() == 1
    assert "the rows of net" in capsys.readouterr().err
    assert not (tree.folder / "docs/performance.json").exists()


def test_a_report_without_measurements_fails_with_a_hint(tree, capsys):
    assert tree.run() == 1
    assert "make bench" in capsys.readouterr().err


def test_a_row_that_lacks_its_command_is_refused(tree, capsys):
    (tree.folder / "bench/x.json").write_text('[{"name": "net/a", "unit": "ns", "p50": 1}]')
    assert tree.run() == 1
    assert "command" in capsys.readouterr().err


def test_there_are_ten_questions_and_at_most_four_small_pictures():
    assert len(report.QUESTIONS) == 10
    pictures = sorted((ROOT / "docs").glob("performance-*.svg"))
    assert 0 < len(pictures) <= 4 and all(path.stat().st_size < 40_000 for path in pictures)
    named = re.findall(r"\((performance-[a-z-]+\.svg)\)", (ROOT / "docs/performance.md").read_text())
    assert sorted(named) == [path.name for path in pictures]
