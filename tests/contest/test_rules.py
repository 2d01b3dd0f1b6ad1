"""The rules of the contest, one test for each, named after it. The rules stand in docs/contest.md and scoring.py."""
import socket

import pytest

from servers.contest import board_text, rounds
from servers.contest.oracle import Occurrence, Oracle
from servers.contest.scoring import POINTS, WINDOW_NS, Contest, Submission
from servers.contest.stream import Stream
from tests.contest.plain_player import post, read_reply
from tests.contest.running import connect, served
from tests.lib.waiting import wait_for

ROUND = rounds.parse_round("n=6 m=823,108 hidden=7^2*11")
T0 = 1645358369545511000
US = 1000


@pytest.fixture
def contest():
    """Makes a contest that has just sent 9876."""
    contest = Contest(ROUND)
    contest.send([Occurrence(0, 4, (0,), "9876")], T0)
    return contest


@pytest.fixture
def server():
    with served(begin="player", start="push") as server:
        yield server


def submit(contest, digits, user="a", at=T0 + US):
    return contest.submit(Submission(at, "10.0.2.15", user, digits))


def test_rule_an_answer_is_a_substring_of_at_most_n_digits():
    assert max(len(o.digits) for o in Oracle(3, [1]).push("123456")) == 3


def test_rule_an_answer_does_not_begin_with_0():
    assert {o.digits for o in Oracle(3, [1]).push("105")} == {"1", "10", "105", "5"}


def test_rule_an_answer_is_a_multiple_of_any_one_constant():
    found = {o.digits: o.constants for o in Oracle(6, [823, 108]).push("123456789987654321")}
    assert found["12345"] == found["9876"] == (0,) and found["3456"] == found["432"] == (1,)


def test_rule_a_planted_answer_followed_by_zeros_yields_answers_times_10():
    assert [o.digits for o in Oracle(9, [823]).push("8230")] == ["823", "8230"]


def test_rule_answers_are_planted_at_about_one_a_second():
    stream, oracle = Stream(rounds.ONLINE, 11), Oracle(rounds.ONLINE.n, rounds.ONLINE.constants)
    bursts = [stream.next_burst() for _ in range(300)]
    assert 0.6 < sum(len(oracle.push(b.digits)) for b in bursts) / sum(b.pause_s for b in bursts) < 1.7


def test_rule_bursts_are_50_to_300_digits_0_2_to_0_5_s_apart():
    stream = Stream(rounds.ONLINE, 1)
    for burst in (stream.next_burst() for _ in range(300)):
        assert 50 <= len(burst.digits) <= 300 and 0.2 <= burst.pause_s <= 0.5


def test_rule_input_is_a_response_without_length_and_all_get_the_same_digits(server):
    with connect(server, "input") as one, connect(server, "input") as other:
        heads, texts = [], []
        for sock in (one, other):
            data = b""
            while data.count(b"\r\n\r\n") == 0 or len(data.split(b"\r\n\r\n", 1)[1]) < 200:
                data += sock.recv(65536)
            head, text = data.split(b"\r\n\r\n", 1)
            heads.append(head)
            texts.append(text)
    assert heads[0] == heads[1] == b"HTTP/1.1 200 OK\r\nServer: Most\r\nContent-type: text/plain"
    assert texts[1][:20] in texts[0] or texts[0][:20] in texts[1]


def test_rule_output_takes_posts_with_keep_alive_and_pipelining(server):
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(post("0") * 3)
        assert [read_reply(file)[1] for _ in range(3)] == ["wrong: zero"] * 3
        sock.sendall(post("0"))
        assert read_reply(file)[1] == "wrong: zero"


def test_rule_the_first_gets_8_the_2nd_and_3rd_4_the_4th_to_6th_2_the_7th_to_10th_1_later_0(contest):
    lines = [submit(contest, "9876", f"u{i}", T0 + i * US) for i in range(12)]
    assert lines == ["+8", "+4", "+4", "+2", "+2", "+2", "+1", "+1", "+1", "+1", "+0", "+0"]
    assert POINTS == (8, 4, 4, 2, 2, 2, 1, 1, 1, 1)


@pytest.mark.parametrize("digits, line", [("9876", "+8"), ("1", "wrong: no multiple of any M"), ("", "wrong: empty")])
def test_rule_every_submission_costs_1_point(contest, digits, line):
    assert submit(contest, digits) == line
    assert contest.users["a"].score == (8 if line == "+8" else 0) - 1


def test_rule_no_points_for_a_duplicate(contest):
    assert [submit(contest, "9876"), submit(contest, "9876")] == ["+8", "dup"]


def test_rule_no_points_for_an_invalid_http_request(server):
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(b"POST /submit?user=a&passwd=p HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n9973")
        assert read_reply(file)[0] == 400
    assert "a" not in server.contest.users


def test_rule_submissions_count_until_5_s_after_the_digits(contest):
    assert submit(contest, "9876", "a", T0 + WINDOW_NS) == "+8"
    assert submit(contest, "9876", "b", T0 + WINDOW_NS + 1) == "late"


def test_rule_submissions_count_from_5_s_before_the_digits():
    contest = Contest(ROUND)
    assert submit(contest, "9876", "a", T0 - WINDOW_NS) == submit(contest, "108", "b", T0 - WINDOW_NS - 1) == "early"
    contest.send([Occurrence(0, 4, (0,), "9876"), Occurrence(4, 7, (1,), "108")], T0)
    assert (contest.users["a"].points[8], contest.users["b"].wrong) == (1, 1)


@pytest.mark.parametrize("digits, reason", [
    ("98a6", "not digits"), ("9877", "no multiple of any M"), ("", "empty"), ("09876", "leading zero"), ("0", "zero"),
    ("1080000", "longer than N")])
def test_rule_no_points_for(contest, digits, reason):
    assert submit(contest, digits) == f"wrong: {reason}" and contest.users["a"].wrong == 1


def test_rule_no_points_for_digits_that_are_not_in_the_input(contest):
    assert submit(contest, "1646", at=T0) == "early"
    contest.expire(T0 + WINDOW_NS + 1)
    assert contest.users["a"].wrong == 1


def test_rule_early_ones_stand_in_arrival_order_with_their_earlier_time():
    contest = Contest(ROUND)
    for user, before_us in (("a", 300), ("b", 200)):
        submit(contest, "9876", user, T0 - before_us * US)
    contest.send([Occurrence(0, 4, (0,), "9876")], T0)
    text = board_text.board_text(contest, T0)
    assert text.index("1645358369.545211 a@") < text.index("1645358369.545311 b@")


def test_rule_the_latency_is_of_the_last_2000_correct_ones_except_those_early():
    contest = Contest(rounds.parse_round("n=9 m=7"))
    for i in range(2100):
        digits, ns = str(7 * (i + 1)), T0 + i * 10**9
        contest.send([Occurrence(0, 1, (0,), digits)], ns)
        submit(contest, digits, at=ns + i * US)
    assert contest.users["a"].latency()["count"] == 2000 and min(contest.users["a"].latencies_us) == 100


def test_rule_a_hidden_constant_is_shown_by_its_primes_alone(contest):
    assert "M3 = a hidden but fixed integer, whose prime factors include and only include 7 and 11\n" in \
        board_text.board_text(contest, T0)


def test_rule_the_servers_may_close_connections_and_players_come_again():
    with served(begin="player", close_after=3, close_how="rst") as server:
        with connect(server, "input") as feed:
            try:
                while feed.recv(65536):
                    pass
            except ConnectionResetError:
                pass
        with connect(server, "input") as feed:
            assert feed.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("size, status", [(0, 200), (1, 200), (16384, 200), (16385, 413), (1 << 20, 413)])
def test_a_body_of_any_size_has_an_answer(server, size, status):
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        try:
            sock.sendall(post("9" * size))
        except ConnectionError:         # refused before its end
            assert status == 413
            return
        assert read_reply(file)[0] == status


def test_a_half_closed_connection_gets_its_answers(server):
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(post("0") * 20)
        sock.shutdown(socket.SHUT_WR)
        assert [read_reply(file)[1] for _ in range(20)] == ["wrong: zero"] * 20
        assert read_reply(file) is None
    wait_for(lambda: not server.connections.table)
