"""contest record, explain-m, and find-hidden from boards."""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest

from servers.contest import board_text, explain_m, recorder, rounds
from servers.contest.hidden import Finder
from servers.contest.hidden_answers import AnswerFinder, answers_on, in_full
from servers.contest.oracle import Oracle
from servers.contest.scoring import Contest, Submission
from servers.contest.stream import RecordedStream, Stream
from tests.contest.plain_player import PlainPlayer
from tests.contest.running import SMALL, served, tool
from tests.contest.service import ROOT
from tests.lib.waiting import PATIENCE_S, wait_for

SECOND = 10**9
QUADRATIC = ROOT / "tools/servers/players/quadratic.py"


def boards_of(played, seconds, every=40):
    """Returns the boards of a game in which somebody submits everything, and its digits."""
    stream, oracle, contest = Stream(played, 3), Oracle(played.n, played.constants), Contest(played)
    boards, digits = [], ""
    for i in range(int(seconds / 0.35)):
        burst, ns = stream.next_burst(), i * 350_000_000
        digits += burst.digits
        found = oracle.push(burst.digits)
        contest.send(found, ns)
        for occurrence in found:
            contest.submit(Submission(ns + 1000, "a", "swift", occurrence.digits))
        if i % every == every - 1:
            boards.append(board_text.board_text(contest, ns))
    return boards, digits


@pytest.fixture(scope="module")
def onsite():
    return boards_of(rounds.ONSITE, 400)


def test_hidden_is_found_from_boards_alone(onsite, tmp_path):
    paths = []
    for i, text in enumerate(onsite[0]):
        paths.append(tmp_path / f"board{i}")
        paths[-1].write_text(text)
    done = tool("find-hidden", "--board", *paths, "--doubt", "1e-3")
    assert (done.returncode, done.stdout) == (0, f"{rounds.ONSITE.hidden[0]}\n"), done.stderr


def test_the_stream_supplies_the_digits_that_boards_elide(onsite, tmp_path):
    text, digits = onsite[0][-1], onsite[1]
    elided = [answer for answer in answers_on(text) if isinstance(answer, tuple)]
    assert elided and len(in_full(elided, 256, digits)) == len(elided)
    assert all(int(a) % m == 0 for a in in_full(elided, 256, digits) for m in rounds.ONSITE.constants
               if all(int(a) % other for other in rounds.ONSITE.constants if other != m))
    # Only the elided answers, without the others.
    finder = AnswerFinder([2, 3, 7], rounds.ONSITE.known)
    assert not finder.push(in_full(elided, 256)) and finder.constant == 0 and finder.doubt == 1
    assert finder.push(in_full(elided, 256, digits)) and finder.constant % rounds.ONSITE.hidden[0] == 0
    board, stream = tmp_path / "board", tmp_path / "stream"
    board.write_text(text)
    stream.write_text(digits)
    done = tool("find-hidden", "--board", board, "--digits", stream, "--doubt", "1e-3")
    assert (done.returncode, done.stdout) == (0, f"{rounds.ONSITE.hidden[0]}\n"), done.stderr


def test_a_board_without_hidden_answers_is_no_proof(tmp_path):
    board = tmp_path / "board"
    board.write_text(board_text.board_text(Contest(rounds.ONSITE), 0))
    done = tool("find-hidden", "--board", board)
    assert done.returncode == 1 and not done.stdout
    assert tool("find-hidden", "--board", "/nowhere").returncode == 2


def test_a_recorder_keeps_digits_and_board_and_both_are_played_again(tmp_path, monkeypatch):
    path = tmp_path / "record"
    with served(begin="player", bursts=40) as server:
        words = ["--as-player", "127.0.0.1", str(path), "--port-base", str(server.ports["pages"]), "--every", "0.1"]
        done = []
        monkeypatch.setattr(recorder, "AGAIN_S", 60)
        watcher = threading.Thread(target=lambda: done.append(recorder.main([*words, "--seconds", "3"])))
        watcher.start()
        wait_for(lambda: server.digits.begun_at is not None)
        player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
        wait_for(lambda: server.over)
        watcher.join(PATIENCE_S)
    player.thread.join(PATIENCE_S)
    assert done == [0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    header = next(line for line in lines if line["kind"] == "contest")
    assert header["n"] == 6 and header["constants"] == ["9973", "30011"]
    assert any("plain" in line["text"] for line in lines if line["kind"] == "board")
    digits = "".join(line["digits"] for line in lines if line["kind"] == "burst")
    assert digits.endswith(player.seen) or player.seen.endswith(digits)
    again = RecordedStream(path)
    assert "".join(again.next_burst().digits for _ in again.bursts) == digits


def test_a_page_that_is_no_stream_is_not_recorded(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(recorder, "AGAIN_S", 0.01)
    with served(begin="player") as server:
        path = tmp_path / "record"
        # One port too far: in place of the digits the port of the submissions answers.
        recorder.main(["--as-player", "127.0.0.1", str(path), "--port-base", str(server.ports["input"]),
                       "--seconds", "0.3"])
    assert "/: HTTP 404" in caplog.text and path.read_text() == ""


def test_an_error_of_record_names_its_cause(tmp_path):
    done = tool("record", "--as-player", "127.0.0.1", "/nowhere/r", "--seconds", "1")
    assert done.returncode == 1 and "/nowhere/r: No such file" in done.stderr
    full = tmp_path / "full"
    full.write_text("x")
    done = tool("record", "--as-player", "127.0.0.1", full, "--seconds", "1")
    assert done.returncode == 1 and "is not empty" in done.stderr


@pytest.mark.parametrize("m, factors", [(20220217214410, {2: 1, 5: 1, 431: 1, 46589: 1, 100699: 1}), (1, {}),
                                        (3**50 * 7**30, {3: 50, 7: 30}), (10**30, {2: 30, 5: 30})])
def test_factors(m, factors):
    assert explain_m.factors(m, 60) == (factors, True)


def test_a_product_that_takes_too_long_stays_whole():
    m = (2**127 - 1) * (2**521 - 1) * 12
    assert explain_m.factors(m, 0.5) == ({2: 2, 3: 1, (2**127 - 1) * (2**521 - 1): 1}, False)


def test_explanations_agree_with_streams():
    """Chance hits against a stream; the horizon against its definition."""
    stream, oracle = Stream(rounds.parse_round("n=6 m=997"), 1, rate=0), Oracle(6, [997])
    bursts = [stream.next_burst().digits for _ in range(300)]
    digits, hits = sum(map(len, bursts)), sum(len(oracle.push(text)) for text in bursts)
    assert 0.8 < hits / (digits * explain_m.chance_hits(997, 6)) < 1.25
    assert explain_m.two_five(2**7 * 5**3 * 9) == [7, 3]
    k = explain_m.horizon(10**27, 256, 1e-6)
    assert 0.9 * 256 * 10**k / 10**27 <= 1e-6 < 0.9 * 256 * 10**(k + 1) / 10**27
    assert explain_m.horizon(823, 256, 1e-6) == 0


def test_explain_m_prints_numbers_and_rounds(tmp_path):
    done = tool("explain-m", "823", "2^3*5", "--n", "6")
    assert done.returncode == 0 and "factors     prime" in done.stdout
    assert "2^3 * 5^1   decided by the last 3" in done.stdout
    path = tmp_path / "round"
    path.write_text("n=6 m=823 hidden=3^9")
    done = tool("explain-m", path)
    assert "M2 = 19683" in done.stdout and "3^9" in done.stdout
    for words, said in ((["nowhere"], "nowhere"), (["82x"], "'82x'"), (["823", "--n", "0"], "'0'"), ([], "ROUND|M"),
                        ([""], "'': neither")):
        done = tool("explain-m", *words)
        assert done.returncode == 2 and said in done.stderr


def test_explain_m_without_sympy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    done = tool("explain-m", 2**127 - 1)
    assert done.returncode == 1 and "apt-get install python3-sympy" in done.stderr


def test_the_tool_lists_its_commands_and_refuses_others():
    done = tool("help")
    assert done.returncode == 0 and all(name in done.stdout for name in ("init", "serve", "explain-m", "record"))
    assert tool("help me").returncode == 2 and "is no command" in tool("x").stderr
    manual = pathlib.Path(__file__).resolve().parents[2] / "docs/contest.1"
    if manual.exists():
        text = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", manual], capture_output=True, text=True).stdout
        for line in done.stdout.splitlines()[2:]:
            assert not text or line.split()[0] in text


HOSTILE = {         # a response of a board's server, and the words about it
    "escapes": (b"HTTP/1.1 500 \x1b]0;x\x07\x1b[2J\r\nContent-Length: 0\r\n\r\n", r"HTTP 500 \x1b]0;x\x07\x1b[2J"),
    "no-http": (b"\x1b[31mhello\r\n\r\n", r"\x1b[31mhello"),
    "endless": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (4 << 20), "has more than 1048576 bytes"),
    "chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead"),
    "drip": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", ""),
    "N": (b"HTTP/1.1 200 OK\r\n\r\nN = " + b"5" * 5000 + b"\n", "shows N of 5000 digits, '55555555555555555555'"),
    "M": (b"HTTP/1.1 200 OK\r\n\r\nN = 256\nM1 = 0\n", "the board shows a modulus of 1 digits, '0'"),
    "primes": (b"HTTP/1.1 200 OK\r\n\r\nN = 256\n"
               b"M1 = a hidden x, whose prime factors include and only include 3, 1 and 7\n", "1, which is no prime"),
}


@contextlib.contextmanager
def hostile_server(text, drips=False):
    """Sends `text` to each connection; drips further bytes. Yields a base whose board is there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as sock, contextlib.suppress(OSError):
                        sock.recv(1000)
                        sock.sendall(text)
                        while drips:
                            sock.sendall(b"x")
                            time.sleep(0.05)
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_board_is_refused_in_plain_words(kind, tmp_path, caplog):
    text, said = HOSTILE[kind]
    with hostile_server(text, kind == "drip") as port:
        tracemalloc.start()
        done = tool("find-hidden", "127.0.0.1", "--port-base", port, "--timeout", "0.3")
        kept = tool("record", "--as-player", "127.0.0.1", tmp_path / "r", "--port-base", port, "--seconds", "0.5",
                    "--every", "0.1", "--timeout", "0.2")
        most_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        with subprocess.Popen([QUADRATIC, "127.0.0.1", "--port-base", str(port)], stderr=subprocess.PIPE,
                              text=True) as player:
            line = player.stderr.readline() if kind != "drip" else "quadratic: slow\n"
            player.terminate()
    assert done.returncode == 3 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert said in caplog.text and kept.returncode == 1
    assert most_bytes < 16 << 20
    assert line.startswith("quadratic: ")
    for output in (done.stderr, caplog.text, kept.stderr, line):
        assert output.replace("\n", "").isprintable()


def test_zeros_without_end_take_no_memory():
    finder = Finder(16, [3, 7])
    finder.push("12")
    for _ in range(100):
        finder.push("0" * 1000)
    assert len(finder.text) <= 64
    finder.push("0" * 7 + "5")
    assert finder.text == "0" * 32 + "5" and finder.digits == 100_010
