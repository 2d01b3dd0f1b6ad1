"""tools/servers/contest: the exact oracle against brute force, the stream's determinism, rounds."""
import random
import re

import pytest

from servers.contest import rounds
from servers.contest.oracle import Oracle
from servers.contest.stream import Stream

CONSTANTS = (1, 2, 3, 10, 40, 823, 108, 5**3, 2**7, 10**6, 2**20 * 5**3 * 7)


def brute_force(text, n, constants):
    found = []
    for end in range(1, len(text) + 1):
        for start in range(max(0, end - n), end):
            held = tuple(i for i, m in enumerate(constants) if int(text[start:end]) % m == 0)
            if text[start] != "0" and held:
                found.append((start, end, held, text[start:end]))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_oracle_finds_the_answers_of_brute_force(seed):
    rng = random.Random(seed)
    n = rng.randint(1, 40)
    constants = [rng.choice(CONSTANTS + (rng.randint(1, 10**6), rng.randint(1, 10**12)))
                 for _ in range(rng.randint(1, 4))]
    text = "".join(rng.choice("000123456789") for _ in range(200))
    oracle, found, position = Oracle(n, constants), [], 0
    while position < len(text):
        count = rng.randint(0, 60)
        found += [(o.start, o.end, o.constants, o.digits) for o in oracle.push(text[position:position + count])]
        position += count
    assert found == brute_force(text, n, constants), f"seed {seed}, n {n}, constants {constants}"


def test_examples_of_the_contest_are_found():
    oracle = Oracle(6, [823, 108])
    found = {o.digits: o.constants for o in oracle.push("123456789987654321")}
    assert found["12345"] == found["9876"] == (0,)
    assert found["3456"] == found["432"] == (1,)
    assert [o.digits for o in Oracle(1, [3]).push("123456789")] == ["3", "6", "9"]


@pytest.mark.parametrize("name", sorted(rounds.ROUNDS))
def test_planted_answers_come_at_the_rate(name):
    contest_round = rounds.ROUNDS[name]
    stream, oracle = Stream(contest_round, seed=7, rate=1.0), Oracle(contest_round.n, contest_round.constants)
    bursts = [stream.next_burst() for _ in range(600)]
    found = [o for b in bursts for o in oracle.push(b.digits)]
    seconds = sum(b.pause_s for b in bursts)
    assert 0.7 * seconds < len(found) < 1.5 * seconds       # a tenth more by trailing zeros
    assert {i for o in found for i in o.constants} == set(range(4)), "every constant is planted"


def test_stream_follows_from_its_seed():
    def text(seed, burst):
        stream = Stream(rounds.ONLINE, seed, burst=burst)
        return "".join(stream.next_burst().digits for _ in range(200))[:5000]
    assert text(1, (50, 300)) == text(1, (50, 300))
    assert text(1, (50, 300)) != text(2, (50, 300))


def test_rate_0_plants_nothing_and_n_below_m_cannot():
    for contest_round, rate in ((rounds.ONLINE, 0), (rounds.parse_round("n=5 m=1000003"), 5)):
        stream = Stream(contest_round, 1, rate)
        assert len(stream.next_burst().digits) >= 50


def test_round_words_are_understood():
    r = rounds.parse_round("n=6 m=823,2^2*27  # as in the example\nhidden=3^50*7^30*11^20")
    assert (r.n, r.known) == (6, (823, 108))
    assert r.constant_texts()[2] == ("a hidden but fixed integer, whose prime factors include and only include "
                                     "3, 7 and 11")


@pytest.mark.parametrize("text, quoted", [
    ("n=6 m=82x", "82x"), ("n=0 m=3", "n=0"), ("n=3 q=4", "q=4"), ("n=3", "no m="), ("m=3", "n="), ("n=3 m=0", "'0'"),
    ("n=3 m=3,,4", "''"), ("n=3 m=7 m=9", "m=9"), ("n=1² m=3", "n=1"), ("n=3 m=3²", "3²"),
    ("n=3 m=3^999999999", "3^999999999"), ("n=3 m=2^4000*3^4000", "bits"), ("n=3 m=" + 5000 * "9", "positive")])
def test_bad_round_words_are_quoted(text, quoted):
    with pytest.raises(rounds.RoundError, match=re.escape(quoted)):
        rounds.parse_round(text)


def test_a_file_of_a_round_is_text_in_utf_8(tmp_path):
    (tmp_path / "round").write_bytes("n=6 m=823 # Prüfung".encode())
    assert rounds.load_round(str(tmp_path / "round")).known == (823,)
    (tmp_path / "round").write_bytes(b"n=6 m=823 # \xff")
    with pytest.raises(rounds.RoundError, match="round: no text in UTF-8"):
        rounds.load_round(str(tmp_path / "round"))
