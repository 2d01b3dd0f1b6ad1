"""Idle time fetches the lines of data that the first answer after a pause touches: tests/bench/touched.py."""
import pytest

from tests.bench import touched

# Left out: frames, which a device writes, the stack's lines below the loop's, and the places of a stranger.
NOT_FETCHED = ("the stack", "the heap", "wire+")
OF_STRANGERS = {"is_loop"}


@pytest.mark.parametrize("words", [words for _, words in touched.RUNS], ids=[title for title, _ in touched.RUNS])
def test_idle_time_fetches_what_the_first_answer_touches(words):
    lines, _, places = touched.run(words)
    assert lines > 20
    assert {place: mean for place, mean in places.items() if not place[1].startswith(NOT_FETCHED)
            and place[0] not in OF_STRANGERS} == {}
