"""tests/lib/unchanged.py: the tests that `make test` leaves out."""
import types

from tests.lib import unchanged


def make_item(nodeid):
    return types.SimpleNamespace(nodeid=nodeid, user_properties=[])


def test_a_test_that_passed_with_the_same_inputs_is_left_out_in_a_group_too():
    """--dist loadgroup names each test after its group: tests/wire/ has groups."""
    names = ("tests/contest/test_rules.py::test_one", "tests/contest/test_rules.py::test_two@group")
    first = [make_item(name) for name in names]
    assert unchanged.split(first, {}) == (first, [])
    passed = {unchanged.name_of(item.nodeid): dict(item.user_properties)["inputs"] for item in first}
    again = [make_item(name) for name in names]
    assert unchanged.split(again, passed) == ([], again)


def test_tests_with_other_inputs_or_unknown_ones_are_played():
    items = [make_item("tests/contest/test_rules.py::test_one"), make_item("tests/hosted/test_echo.py::test_one")]
    assert unchanged.split(items, {item.nodeid: "other inputs" for item in items}) == (items, [])
    assert [len(item.user_properties) for item in items] == [1, 0]
