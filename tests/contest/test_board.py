"""The board of tools/servers/contest: what stands at its addresses. tests/web has hostile viewers, test_board_page.py
the page."""
import json
import sys

import pytest

from servers.contest import board, store
from servers.contest.follower import Follower
from servers.contest.plan import Plan
from servers.web.live_page import Unavailable


@pytest.fixture(name="pages")
def pages_of_a_contest_that_nobody_plays(tmp_path):
    store.create(tmp_path / "store", Plan())
    return board.Pages(Follower(tmp_path / "store"))


def test_a_picture_without_matplotlib_says_what_to_install(pages, monkeypatch):
    monkeypatch.delitem(sys.modules, "servers.contest.pictures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Unavailable, match="python3-matplotlib"):
        pages.find("/board.png", {})


def test_any_words_ask_for_a_series(pages):
    body, kind = pages.find("/series.json", {"after": "nan", "player": "\ufffd", "span": ""})
    assert json.loads(body)["times"] == [] and kind == "application/json"
