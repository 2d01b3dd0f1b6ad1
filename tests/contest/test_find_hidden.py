"""contest find-hidden: the hidden constant, from the digits alone."""
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import threading

import pytest

from servers.contest import rounds
from servers.contest.hidden import Finder, HiddenError
from servers.contest.options import Options
from servers.contest.server import ContestServer
from servers.contest.stream import Stream
from tests.contest.running import tool

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/contest/contest"


def digits_of(contest_round, seed, count):
    stream, text = Stream(contest_round, seed), ""
    while len(text) < count:
        text += stream.next_burst().digits
    return text


def finder_of(contest_round, known=None):
    return Finder(contest_round.n, rounds.primes_of(contest_round.hidden[0]),
                  contest_round.known if known is None else known)


def run(*words, **more):
    return subprocess.run([TOOL, "find-hidden", *map(str, words)], capture_output=True, text=True, timeout=120, **more)


@pytest.mark.parametrize("name", rounds.ROUNDS)
def test_the_constants_of_the_real_rounds(name):
    contest_round = rounds.ROUNDS[name]
    finder, stream = finder_of(contest_round), Stream(contest_round, 1)
    while finder.doubt > 1e-6:
        finder.push(stream.next_burst().digits)
        assert finder.digits < 200_000
    assert finder.constant == contest_round.hidden[0]


@pytest.mark.slow
def test_constants_of_any_exponents():
    seed = int(os.environ.get("SEED", "20261122"))     # with another seed 60,000 digits may be too few
    draw = random.Random(seed)
    for case in range(10):
        primes = draw.sample([2, 3, 5, 7, 11, 13, 101, 65537], draw.randint(1, 4))
        if not {3, 7, 11, 13, 101, 65537} & set(primes):
            primes.append(7)
        bits = draw.uniform(260, 400)
        hidden = math.prod(p**max(1, round(bits / len(primes) / math.log2(p))) for p in primes)
        contest_round = rounds.Round("drawn", 200, (20220217214410,), (hidden,))
        finder = finder_of(contest_round)
        finder.push(digits_of(contest_round, f"{seed} {case}", 60_000))
        assert finder.doubt < 1e-4, (case, primes, hidden)
        assert finder.constant == hidden, (case, primes, hidden, finder.powers)


def test_a_known_constant_of_the_same_primes_does_not_disturb():
    contest_round = rounds.Round("alike", 100, (3**60,), (3**41 * 7**20,))
    text = digits_of(contest_round, 5, 40_000)
    finder = finder_of(contest_round)
    finder.push(text)
    assert finder.constant == 3**41 * 7**20 and finder.doubt < 1e-6
    mixed = finder_of(contest_round, known=())
    mixed.push(text)
    assert mixed.constant != 3**41 * 7**20


def test_nothing_is_found_where_nothing_is_planted():
    finder = Finder(256, [3, 7, 11])
    finder.push("".join(random.Random(7).choices("0123456789", k=50_000)) + "0" * 2000 + "9" * 600)
    assert finder.planted == 0 and finder.constant == 0 and finder.doubt == 1


def test_the_cuts_between_pieces_do_not_matter():
    contest_round = rounds.ONSITE
    text = digits_of(contest_round, 3, 20_000)
    whole, cut = finder_of(contest_round), finder_of(contest_round)
    whole.push(text)
    for at in range(0, len(text), 7):
        cut.push(text[at:at + 7])
    assert whole.planted and (whole.planted, whole.powers) == (cut.planted, cut.powers)


def test_what_has_its_twos_from_the_planted_ones_end_is_not_planted():
    constant = 2**66 * 11**8 * 65537**5
    finder = Finder(200, [2, 11, 65537])
    planted = str(constant * 3**50)
    for other in range(1, 10**6):       # the digits before an end may be a multiple of 11^6
        text = f"{other}{planted[-70:]}"
        if int(text) % 11**6 == 0:
            break
    finder.push(text + "1")
    assert finder.planted == 0
    finder.push(planted + "1")
    assert finder.planted == 1 and finder.constant == constant


def test_two_and_five_alone_are_refused():
    with pytest.raises(HiddenError, match="2 and 5"):
        Finder(256, [2, 5])


@pytest.mark.parametrize("body", ["raw", "chunked"])
def test_digits_are_read_from_a_server(body):
    hidden = rounds.Round("live", 128, (20220217214410,), (3**50 * 7**10,))
    for base in random.Random().sample(range(20000, 30000, 3), 20):
        try:
            server = ContestServer(Options(round=hidden, rate=60, burst=(500, 900), interval_s=(0.01, 0.02),
                                           bind="127.0.0.1", port_base=base, body=body))
            break
        except OSError:
            continue
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        done = run("127.0.0.1", "--port-base", base)
    finally:
        server.stop()
        thread.join(5)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{3**50 * 7**10}\n"
    assert "M2 has the primes 3, 7; N = 128" in done.stderr and "M2 = 3^50*7^10" in done.stderr


def test_a_file_and_its_exit_codes(tmp_path):
    text = digits_of(rounds.ONLINE, 1, 40_000)
    path = tmp_path / "digits"
    path.write_text(text)
    words = ["--n", 256, "--primes", "3,7,11"]
    done = run("--digits", path, *words)
    assert (done.returncode, done.stdout) == (0, f"{rounds.ONLINE.hidden[0]}\n")
    assert run("--digits", "-", *words, input=text).stdout == done.stdout
    path.write_text(text[:6000])
    few = run("--digits", path, *words)
    assert few.returncode == 1 and not few.stdout and "not sure: M is" in few.stderr
    path.write_text("123")
    none = run("--digits", path, *words)
    assert none.returncode == 1 and "no planted answer" in none.stderr


def test_a_record_without_boards_gives_its_digits_and_nothing_else(tmp_path):
    """An answer across two bursts. The record's other numbers stand between them."""
    planted = [str(3**50 * 7**10 * factor) for factor in (11, 13, 17, 19, 23, 29)]
    path = tmp_path / "record"
    lines = [{"kind": "burst", "digits": half, "ns": 10**18 + i} for digits in planted
             for i, half in enumerate((f"1{digits[:20]}", f"{digits[20:]}1"))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "bur')      # the last one is cut off
    done = tool("find-hidden", "--digits", path, "--n", "60", "--primes", "3,7", "--doubt", "0.01")
    assert (done.returncode, done.stdout) == (0, f"{3**50 * 7**10}\n"), done.stderr


def test_a_damaged_record_is_named_with_its_line(tmp_path):
    path = tmp_path / "record"
    for text, line in (('{"kind": "board", "text": "N"}\n{"kind"\n', 2), ('{"digits": "1"}\n', 1), ("{}\n[]\n", 1)):
        path.write_text(text)
        done = tool("find-hidden", "--digits", path)
        assert done.returncode == 2 and f"{path}: line {line} is no line of a record" in done.stderr, done.stderr


@pytest.mark.parametrize("words, code, named", [
    ([], 2, "either HOST or --digits"), (["--digits", "-"], 2, "--digits needs"), (["--digits", "x"], 2, "x: No such"),
    (["--digits", "/nowhere", "--n", "9", "--primes", "3"], 2, "/nowhere: No such file"),
    (["h", "--primes", "3,9"], 2, "9 is no prime"), (["h", "--primes", "3,x"], 2, "'x'"), (["h", "--n", "-1"], 2, "-1"),
    (["h", "--timeout", "nan"], 2, "'nan'"), (["h", "--timeout", "-1"], 2, "'-1'"), (["h", "--doubt", "2"], 2, "'2'"),
    (["h", "--port-base", "65535"], 2, "'65535'"), (["h", "--port-base", "x"], 2, "'x' is not a number from 1"),
    (["--board", sys.executable], 2, f"{sys.executable}: no text in UTF-8"),
    (["--digits", "-", "--n", "9", "--primes", "2,5"], 3, "2 and 5"),
    (["127.0.0.1", "--port-base", "1"], 3, "127.0.0.1:1/board.txt: Connection refused"),
])
def test_an_error_names_its_cause(words, code, named):
    done = tool("find-hidden", *words)
    assert done.returncode == code and named in done.stderr, done.stderr
