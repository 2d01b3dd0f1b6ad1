"""Plays a part of the table of against_linux.py, with fewer bytes: byte-exact, and in time. `make check-linux` plays
the whole table."""
import subprocess

import pytest

from tests.lib.namespace import skip_without_tap
from tests.linux import against_linux

ROWS = [row for row in against_linux.ROWS if row.check_bytes]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_ours_against_linux(row):
    skip_without_tap()
    took = against_linux.play(row, range(1, 7), row.check_bytes)
    if max(against_linux.ratios(took)) > against_linux.RATIO_MAX:       # a busy machine gets more runs, other seeds
        more = against_linux.play(row, range(7, 19), row.check_bytes)
        took = {pair: took[pair] + more[pair] for pair in took}
    print(row.name, took)
    # `make check-linux` holds 1.5. Here other tests run at the same time, and few seeds of 4 MB scatter.
    assert max(against_linux.ratios(took)) <= 2 * against_linux.RATIO_MAX, took


def test_bad_words_are_refused():
    for words in (["own"], ["own", "windows"], ["own", "linux", "loss=5"], ["own", "linux", "lose=x"]):
        done = subprocess.run([against_linux.INTEROP, *words], capture_output=True, text=True)
        assert done.returncode == 2 and "usage" in done.stderr, words
