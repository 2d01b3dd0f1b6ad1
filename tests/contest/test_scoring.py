"""tools/servers/contest/scoring.py: the rules of the contest, case by case, and the board that shows them."""
import json
import re

import pytest

from servers.contest import board_state, board_text as board, history, rounds
from servers.contest.oracle import Occurrence
from servers.contest.scoring import WINDOW_NS, Contest, Submission
from latencies import quantile

ROUND = rounds.parse_round("n=6 m=823,108 hidden=7^2*11")
MS = 1_000_000
T0 = 1645358369545511000


def contest_with(*digits, at=T0):
    contest = Contest(ROUND)
    contest.send([Occurrence(0, len(d), (0,), d) for d in digits], at)
    return contest


def submit(contest, digits, user="a", at=T0 + MS, ip="10.0.2.15"):
    return contest.submit(Submission(at, ip, user, digits))


def test_places_get_8_4_4_2_2_2_1_1_1_1_and_then_0():
    contest = contest_with("9876")
    lines = [submit(contest, "9876", f"u{i}", T0 + i * MS) for i in range(12)]
    assert lines == ["+8", "+4", "+4", "+2", "+2", "+2", "+1", "+1", "+1", "+1", "+0", "+0"]
    assert contest.users["u0"].score == 7 and contest.users["u11"].score == -1


@pytest.mark.parametrize("digits, reason", [
    ("", "empty"), ("12a", "not digits"), ("９", "not digits"), ("0", "zero"), ("000", "zero"),
    ("09876", "leading zero"),
    ("1000000", "longer than N"), ("9877", "no multiple of any M")])
def test_wrong_submissions_cost_a_point_and_get_the_reason(digits, reason):
    contest = contest_with("9876")
    assert submit(contest, digits) == f"wrong: {reason}"
    user = contest.users["a"]
    assert (user.wrong, user.submits, user.score) == (1, 1, -1)


def test_second_submission_of_a_user_is_a_duplicate():
    contest = contest_with("9876")
    assert [submit(contest, "9876"), submit(contest, "9876"), submit(contest, "9876", "b")] == ["+8", "dup", "+4"]
    assert contest.users["a"].dup == 1 and contest.users["a"].score == 8 - 2


def test_window_ends_5_s_after_the_digits():
    contest = contest_with("9876")
    assert submit(contest, "9876", "a", T0 + WINDOW_NS) == "+8"
    assert submit(contest, "9876", "b", T0 + WINDOW_NS + 1) == "late"
    assert contest.users["b"].late == 1 and contest.users["b"].score == -1


def test_early_submission_counts_from_its_arrival():
    contest = Contest(ROUND)
    assert submit(contest, "9876", "a", T0 - 2 * MS) == "early"
    assert submit(contest, "9876", "a", T0 - MS) == "dup"
    assert submit(contest, "9876", "b", T0 - MS) == "early"
    contest.send([Occurrence(0, 4, (0,), "9876")], T0)
    assert submit(contest, "9876", "c", T0 + MS) == "+4"
    assert contest.users["a"].points[8] == contest.users["b"].points[4] == 1
    assert contest.users["a"].early == 1 and not contest.users["a"].latencies_us


def test_early_submission_whose_digits_do_not_come_in_5_s_is_wrong():
    contest = Contest(ROUND)
    submit(contest, "9876", "a", T0)
    contest.expire(T0 + WINDOW_NS)
    assert contest.users["a"].wrong == 0
    contest.expire(T0 + WINDOW_NS + 1)
    assert contest.users["a"].wrong == 1 and not contest.early
    contest.send([Occurrence(0, 4, (0,), "9876")], T0 + 2 * WINDOW_NS)
    assert contest.users["a"].correct == 0


def test_early_beyond_5_s_is_wrong_even_before_its_expiry():
    contest = Contest(ROUND)
    submit(contest, "9876", "a", T0)
    contest.send([Occurrence(0, 4, (0,), "9876")], T0 + WINDOW_NS + 1)
    assert contest.users["a"].wrong == 1 and contest.users["a"].correct == 0


def test_digits_sent_again_are_the_same_answer_open_for_longer():
    contest = contest_with("9876")
    assert submit(contest, "9876", "a") == "+8"
    contest.send([Occurrence(9, 13, (0,), "9876")], T0 + 2 * WINDOW_NS)
    assert submit(contest, "9876", "a", T0 + 2 * WINDOW_NS + MS) == "dup"
    assert submit(contest, "9876", "b", T0 + 2 * WINDOW_NS + MS) == "+4"
    assert len(contest.answers) == 1 and contest.answers["9876"].occurrences == 2


def test_hidden_constants_count_and_are_not_shown():
    contest = contest_with("539")
    assert submit(contest, "539") == "+8"
    text = board.board_text(contest, T0)
    assert "M3 = a hidden but fixed integer, whose prime factors include and only include 7 and 11\n" in text
    assert "M3 = 539" not in text and '"539"' not in str(board.board_json(contest, T0)["constants"])


def test_summary_counts_found_early_missed_wrong():
    contest = contest_with("9876", "3456")
    submit(contest, "9876")
    submit(contest, "77")
    assert {k: contest.summary("a")[k] for k in ("offered", "found", "early", "missed", "wrong")} == {
        "offered": 2, "found": 1, "early": 0, "missed": 1, "wrong": 1}
    assert contest.summary("nobody")["missed"] == 2


def test_quantile_is_the_smallest_value_that_covers_the_share():
    values = list(range(1, 101))
    assert [quantile(values, s) for s in (10, 50, 90, 99)] == [10, 50, 90, 99]
    assert quantile([5], 99) == 5 and quantile([], 50) == 0


def read_board(text):
    """Reads the board as a reader of the original's text would read it."""
    head, ranking, solved = re.fullmatch(r"(.*?)\n-+ +Leader Board +-+\n(.*?)\n-+ +Recent Solved +-+\n(.*)", text,
                                         re.S).groups()
    constants = dict(re.findall(r"^(N|M\d+) += (.*)$", head, re.M))
    update, columns, *rows, note = ranking.rstrip("\n").split("\n")
    assert re.fullmatch(r"\(last update \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\)", update)
    assert columns.split() == ("+8 +4 +2 +1 >5s wrong dup submit 10%* 50%* 90%* 99%* mean* std* frequent IP(ping)"
                               " score rank").split()
    assert note == "*: latency distribution in us of recent 2000 correct submissions except front run"
    answers = [block.split("\n") for block in solved.split("\n\n") if block.strip()]
    return constants, {row.split()[0]: row.split()[1:] for row in rows}, answers


def test_board_text_has_the_layout_of_the_original():
    contest = contest_with("9876")
    submit(contest, "9876", "swift", T0 + 226 * 1000)
    submit(contest, "9876", "heron", T0 + 291 * 1000, "10.0.2.16")
    submit(contest, "1", "heron", T0 + 292 * 1000, "10.0.2.16")
    contest.users["swift"].ping_us["10.0.2.15"] = 137
    text = board.board_text(contest, T0)
    constants, rows, answers = read_board(text)
    assert constants["N"] == "6" and constants["M1"] == "823" and constants["M2"] == "108"
    assert rows["swift"] == "1 0 0 0 0 0 0 1 226 226 226 226 226 0 10.0.2.15(137) 7 1".split()
    assert rows["heron"] == "0 1 0 0 0 1 0 2 291 291 291 291 291 0 10.0.2.16 2 2".split()
    assert answers == [["9876", "1645358369.545511 send", "1645358369.545737 swift@10.0.2.15",
                        "1645358369.545802 heron@10.0.2.16"]]
    assert "            +8     +4      +2     +1  >5s  wrong    dup  submit  10%*  50%*   90%*    99%*  mean*  std* " \
           "frequent IP(ping)   score rank\n" in text


def test_early_ones_stand_with_their_earlier_time_and_long_answers_are_elided():
    contest = Contest(rounds.parse_round("n=256 m=1"))
    long, edge = "1" * 72 + "2" + "3" * 72, "4" * 144
    submit(contest, long, "swift", T0 - 646_760_000)
    contest.send([Occurrence(0, 145, (0,), long)], T0)
    contest.send([Occurrence(0, 144, (0,), edge)], T0 + MS)
    submit(contest, edge, "swift", T0 + 2 * MS)
    _, _, answers = read_board(board.board_text(contest, T0))
    assert answers[0][0] == edge                            # the newest first
    assert answers[1] == ["1" * 72 + " ..... " + "3" * 72, "1645358369.545511 send",
                          "1645358368.898751 swift@10.0.2.15"]


def test_values_too_wide_for_their_column_stay_apart():
    contest = contest_with("9876")
    submit(contest, "9876", "a-name-of-32-letters-is-possible", T0 + 123_456_789_000, "255.255.255.255")
    submit(contest, "9876", "b", T0 + 4_999_999_000, "255.255.255.255")
    _, rows, _ = read_board(board.board_text(contest, T0))
    assert all(len(row) == 17 for row in rows.values())


def test_early_submissions_of_a_user_that_wait_are_bounded():
    contest = Contest(rounds.parse_round("n=9 m=7"))
    lines = [contest.submit(Submission(i, "ip", "a", str(7 * (i + 1)))) for i in range(300)]
    assert lines == ["early"] * 200 + ["wrong: too many early answers wait"] * 100 and len(contest.early) == 200
    assert contest.submit(Submission(300, "ip", "b", "7")) == "early"
    contest.send([Occurrence(0, 1, (0,), "7")], 400)        # decides one of each
    assert contest.submit(Submission(500, "ip", "a", "7000")) == "early"
    assert contest.submit(Submission(500, "ip", "a", "7007")).startswith("wrong: too many")
    copy = Contest(contest.round)
    copy.restore(json.loads(json.dumps(contest.state())))
    assert {u.name: u.waiting for u in copy.users.values()} == {"a": 200, "b": 0}
    contest.expire(10**10)
    assert not contest.early and contest.users["a"].waiting == 0 and contest.users["a"].wrong == 301


def test_the_latency_counts_from_the_sending_that_the_verdict_goes_by():
    """A modulus of three digits: short answers come again and again, and are open for 5 s each time."""
    played = rounds.parse_round("n=6 m=823")
    contest, second = Contest(played), 10**9
    course = history.History()
    for at_s in (1, 30, 80, 84):
        contest.send([Occurrence(0, 3, (0,), "823")], at_s * second)
    for user, ns, us in (("a", 84 * second + 7000, 7), ("b", 89 * second, 5_000_000),
                         ("c", 84 * second - 1000, 3_999_999)):
        assert contest.submit(Submission(ns, "ip", user, "823")).startswith("+")
        assert list(contest.users[user].latencies_us) == [us]
        course.submission({"ns": ns, "user": user, "digits": "823"}, "+1", contest)
        assert list(course.per_constant[user, 0]) == [us]
    assert contest.submit(Submission(89 * second + 1, "ip", "d", "823")) == "late"
    answer = contest.recent[0]
    assert [us for _, us in board_state.answer_row(answer)["offsets"]] == [7, 5_000_000, 3_999_999]
    assert max(user.latency()["p99"] for user in contest.users.values()) <= 5_000_000
    copy = Contest(played)
    copy.restore(json.loads(json.dumps(contest.state())))
    assert copy.state() == contest.state() and copy.answers["823"] == answer
