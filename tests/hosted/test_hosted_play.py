"""peregrine-linux against the contest server: every round, every mode of the server, connections that are closed in the
middle, and every end of the program."""
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from servers.contest import record, rounds
from workshop.vm.game import Game, outcome
from deploy import control
from workshop.vm import ports
from tests.e2e import hostile
from tests.lib.paths import BUILD, ROOT

PROGRAM = BUILD / "host/peregrine-linux"
KEY = "the-key-of-the-tests"
USER = "swift"
PASSWORD = "a/b%c&d=?"      # to be percent-encoded
SECONDS = 2.5
PATIENCE_S = 60         # for immediate events, on a machine that may stall for seconds

SMALL = "n=6 m=823,108"
TINY = "n=9 m=3,10,64,125"      # hundreds of answers a burst, the same ones again and again
WIDE = "n=1024 m=2^20*7^30,5^40*3^50,1099511627791*1099511627803,3^300"


class Player:
    def __init__(self, words):
        self.file = tempfile.TemporaryFile()
        self.process = subprocess.Popen([PROGRAM, "--all", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.file, text=True)
        self.output = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.finish()
        self.file.close()

    @property
    def log(self):
        """Returns the text logged so far."""
        # The file's own position is the end of the program's output.
        return os.pread(self.file.fileno(), 1 << 20, 0).decode()

    def wait_for(self, text, seconds=PATIENCE_S):
        """Waits until that text has been logged."""
        end = time.monotonic() + seconds
        while text not in self.log:
            assert self.process.poll() is None and time.monotonic() < end, f"no {text!r} in:\n{self.log}"
            time.sleep(0.01)

    def finish(self, seconds=PATIENCE_S):
        """Returns (exit code, statistics, log)."""
        if self.output is None:
            self.output = self.process.communicate(timeout=seconds)[0], self.log
        return self.process.returncode, control.parse(self.output[0]), self.output[1]


def play(tmp_path, round_text, server=(), player=(), seconds=SECONDS):
    """Plays to the end of the stream, which takes `seconds` on a fast machine, and ends by GG. Returns (outcome,
    statistics, log)."""
    name = round_text
    if name not in rounds.ROUNDS:
        name = tmp_path / "round"
        name.write_text(round_text)
    contest_round = rounds.load_round(str(name))
    port = ports.free_port(ports.UDP)
    words = ["--round", name, "--begin", "player", "--bursts", round(seconds / 0.06), "--rate", 12, "--burst", "20-300",
             "--interval", "0.03-0.09", "--users", tmp_path / "users", *server]
    users = tmp_path / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    settings = [f"user={USER}", f"passwd={PASSWORD}", f"n={contest_round.n}",
                "m=" + ",".join(map(str, contest_round.constants)), "wait=sleep", f"key={KEY}",
                f"control.port={port}", *player]
    with Game("127.0.0.1", words) as game, Player([*game.endpoints("127.0.0.1"), *settings]) as linux:
        assert game.wait_over(seconds + PATIENCE_S), linux.log
        client = control.Client("127.0.0.1", control.key_from_text(KEY), port, timeout_s=10)
        offered = len(outcome(record.read(game.record_path), USER)["offered"])
        end = time.monotonic() + 20         # the last burst's answers, and their responses
        while True:
            stats = control.parse(client.status())
            settled = stats["submit.responses_2xx"] + stats["submit.unanswered"] == stats["answer_set.entered"] and \
                sum(user["found"] for user in game.board()["users"]) >= offered
            if settled or time.monotonic() > end:
                break
            time.sleep(0.1)
        client.gg()
        code, stats, log = linux.finish()
        assert code == 0, log
        result = outcome(game.stop(), USER)
    return result, stats, log


def assert_perfect(result, stats, log):
    assert result["offered"], "the game offered nothing"
    assert not result["missed"], f"{len(result['missed'])} missed of {len(result['offered'])}\n{log}\n{stats}"
    assert not result["wrong"] and not result["repeated"], f"{result['wrong'][:3]} {result['repeated'][:3]}"
    assert len(result["submitted"]) == len(set(result["submitted"])), "something was submitted twice"
    assert stats["submit.posts"] == len(result["submitted"]) + stats["submit.posts_again"]
    assert stats["submit.dropped_expired"] == stats["submit.dropped_no_room"] == 0
    assert stats["submit.responses_4xx"] == stats["submit.responses_5xx"] == stats["submit.results_wrong"] == 0
    ways = [value.split() for name, value in stats.items() if name.startswith("slow.")]
    totals = [int(way[1]) for way in ways[1:]]
    assert {len(way) for way in ways} == {9} and totals == sorted(totals, reverse=True), ways
    assert len(totals) == 32 or len(totals) >= stats["answer.seen_to_kicked.count"]
    assert not ways or stats["answer.seen_to_kicked.max_ns"] <= totals[0]


@pytest.mark.parametrize("round_text, server", [
    ("online", ["--body", "raw", "--start", "push"]),
    ("onsite", ["--body", "chunked", "--start", "wait"]),
    ("qualification", ["--body", "raw", "--start", "wait", "--split"]),
    ("online", ["--body", "chunked", "--start", "push", "--split"]),
    (SMALL, ["--body", "chunked", "--start", "wait", "--split"]), (TINY, []), (WIDE, ["--rate", "6"]),
], ids=["online-raw-push", "onsite-chunked-wait", "qualification-raw-wait-split", "online-chunked-push-split",
        "small-chunked-split", "tiny", "wide"])
def test_every_answer_of_a_game_is_found_and_submitted_once(tmp_path, round_text, server):
    assert_perfect(*play(tmp_path, round_text, server))


@pytest.mark.parametrize("how", [["--close-after", 5, "--close-how", "fin"], ["--close-after", 5, "--close-how", "rst"],
                                 ["--close-after", 18, "--close-how", "fin", "--close-for", "0.5"],
                                 ["--close-after", 5, "--close-how", "rst", "--body", "chunked"]],
                         ids=["fin", "rst", "fin-and-refuse", "rst-chunked"])
def test_no_received_answer_is_lost_when_the_server_closes_both_connections(tmp_path, how):
    result, stats, log = play(tmp_path, "online", how, seconds=3)
    assert stats["stream_merger.gaps"] >= 1, log
    assert_perfect(result, stats, log)


def test_several_feeds_bridge_each_other(tmp_path):
    result, stats, log = play(tmp_path, "online", [], ["feeds=4"])
    assert stats["stream_merger.placed"] == 3 and stats["stream_merger.repeated"] > stats["stream_merger.digits"], log
    assert_perfect(result, stats, log)


# The end of a game.

def run(words, seconds=PATIENCE_S):
    with Player(words) as player:
        return player.finish(seconds)


GAME = ["feed=127.0.0.1:1", "submit=127.0.0.1:1", "user=u", "passwd=p", "n=6", "m=823", "wait=sleep"]


def test_bad_settings_exit_with_2_and_name_the_word():
    for words, message in [
            (["m=1o8"], 'command line: m=: "1o8": expected decimal numbers'),
            (GAME + ["fed=1"], '"fed": there is no such key'),
            (GAME[:-2], "m= is missing"), (["--file", "/nonexistent"], "/nonexistent: No such file"),
            (["--file"], "--file needs"),
            (GAME + ["n=6"], '"n": given twice'),
            (GAME + ["capture=96"], "capture= is for the kernel"), (["feed=localhost:1"], "no host names")]:
        code, stats, log = run(words)
        assert code == 2 and message in log and not stats, log


def test_a_port_that_is_taken_is_named():
    for kind, key in ((socket.SOCK_STREAM, "http.port"), (socket.SOCK_DGRAM, "control.port")):
        with socket.socket(socket.AF_INET, kind) as taken:
            taken.bind(("0.0.0.0", 0))
            port = taken.getsockname()[1]
            code, _, log = run([*GAME, f"key={KEY}", f"{key}={port}", "deadline=1"])
        assert code == 2 and f"port {port}: Address already in use" in log, log


def test_settings_come_from_files_too(tmp_path):
    path = tmp_path / "game.conf"
    path.write_text("# a game\n" + "\n".join(GAME) + "\nserver.timeout=0.3 # soon\n")
    code, stats, log = run(["--file", str(path)])
    assert code == 4 and "leaving: server lost" in log


def test_help_is_printed():
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0 and "\n  feed= " in done.stdout


def test_retries_without_a_server_are_logged_at_most_once_a_second():
    code, stats, log = run([*GAME, "server.timeout=2.5"])
    assert code == 4
    assert stats["session.lost_refused"] > 10
    retries = [line for line in log.splitlines() if "refused, retrying" in line]
    assert 2 <= len(retries) <= 6, log          # two sessions, 2.5 s


@pytest.mark.parametrize("server", [hostile.Hangs, hostile.Trickles])
def test_a_submit_server_that_responds_to_nothing_is_lost(server):
    with hostile.Digits() as feed, server() as submit:
        code, stats, log = run([f"feed=127.0.0.1:{feed.port}", f"submit=127.0.0.1:{submit.port}", *GAME[2:],
                                "submit.timeout=1", "server.timeout=4"])
        assert code == 4 and "leaving: server lost" in log, log
        assert log.count("submit: the server is lost") == 1, log
        assert stats["submit.lost"] == 1 and stats["submit.unanswered"] > 0
        assert len(submit.connections) >= 2, log         # a fresh one after 5 s
        assert stats["submit.dropped_no_room"] == stats["submit.posts_again"] == 0


def test_the_deadline_is_no_failure():
    code, stats, log = run([*GAME, "deadline=0.3"])
    assert code == 0 and "leaving: deadline" in log
    assert 300_000_000 <= stats["program.uptime_ns"] < 20_000_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_with_its_statistics(number):
    with Player(GAME) as player:
        player.wait_for("refused, retrying")
        player.process.send_signal(number)
        code, stats, log = player.finish()
    assert code == 0 and "leaving: interrupted" in log and stats["player.turns"] > 0


# tools/gg, as a user calls it.

def gg(*words):
    return subprocess.run([ROOT / "tools/gg", *words], capture_output=True, text=True, timeout=PATIENCE_S)


def test_gg_shows_the_statistics_and_ends_the_program():
    port = str(ports.free_port(ports.UDP))
    with Player([*GAME, "key=0x00112233445566778899", f"control.port={port}"]) as player:
        player.wait_for("playing with")
        ask = ["127.0.0.1", "--port", port]
        done = gg(*ask, "--key", "0x00112233445566778899", "--status", "--json", "--timeout", "10")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["control.commands_status"] == 1
        done = gg(*ask, "--key", "another long key", "--attempts", "1")
        while done.returncode == 1:         # the challenge was late
            done = gg(*ask, "--key", "another long key", "--attempts", "1")
        assert done.returncode == 3 and "the key is another one" in done.stderr
        assert player.process.poll() is None
        done = gg(*ask, "--key", "0x00112233445566778899", "--timeout", "10", "--all")
        assert done.returncode == 0 and "control.commands_gg 1\n" in done.stdout, done.stderr
        code, stats, log = player.finish()
        assert code == 0 and "leaving: gg" in log, log
        assert stats["control.drop_mac"] >= 1       # gg says it again, as datagrams may be lost
        done = gg(*ask, "--key", "0x00112233445566778899", "--attempts", "2")
        assert done.returncode == 1 and "no answer" in done.stderr


def test_a_modulus_is_added_to_a_running_player(tmp_path):
    """The player knows one of two moduli; after `gg --set m+=...` it finds the multiples of both, without a
    restart."""
    (tmp_path / "round").write_text("n=40 m=104648257118348370704723119,20220217214410")
    contest_round = rounds.load_round(str(tmp_path / "round"))
    port = str(ports.free_port(ports.UDP))
    words = ["--round", tmp_path / "round", "--begin", "player", "--rate", 12, "--interval", "0.03-0.09"]
    ask = ["127.0.0.1", "--port", port, "--key", KEY, "--timeout", "10"]
    with Game("127.0.0.1", words) as game, Player(
            [*game.endpoints("127.0.0.1"), f"user={USER}", "passwd=", "n=40", f"m={contest_round.constants[0]}",
             "wait=sleep", f"key={KEY}", f"control.port={port}"]) as player:
        player.wait_for("playing with")
        for wrong, said in (("m+=12x", "decimal number"), ("m+=0", "not a number"), ("n=50", "m+=NUMBER")):
            done = gg(*ask, "--set", wrong)
            assert done.returncode == 5 and said in done.stderr, done.stderr
        done = gg(*ask, "--set", f"m+={contest_round.constants[1]}", "--all")
        assert done.returncode == 0 and "control.commands_set 4\n" in done.stdout, done.stderr
        player.wait_for("2 moduli are searched for")
        added_ns, offered = time.time_ns(), game.board()["offered"]
        while game.board()["offered"] < offered + 30:
            assert player.process.poll() is None, player.log
            time.sleep(0.1)
        until_ns = time.time_ns() - 10**9
        assert gg(*ask, "--set", f"m+={contest_round.constants[1]}").returncode == 0      # there already: no harm
        assert gg(*ask, "--status", "--all").stdout.count("player.moduli 2\n") == 1
        assert gg(*ask).returncode == 0
        assert player.finish()[0] == 0
        lines = game.stop()
    correct = {line["digits"] for line in lines if line["kind"] in ("submission", "resolved")
               and line["verdict"][0] == "+"}
    offered = [line for line in lines if line["kind"] == "answer" and 1 in line["constants"]]
    before = [line for line in offered if line["ns"] < added_ns - 10**9]
    after = [line for line in offered if added_ns + 10**8 < line["ns"] < until_ns]
    assert after and all(line["digits"] in correct for line in after)
    assert not any(line["digits"] in correct for line in before)


@pytest.mark.parametrize("words", [["127.0.0.1"], ["127.0.0.1", "--key", "short"],
                                   ["127.0.0.1", "--key", "0x00 11 22 33 44 55 66 77"],
                                   ["127.0.0.1", "--key", "long enough", "--port", "0"],
                                   ["127.0.0.1", "--key-file", "/nonexistent"]])
def test_gg_refuses_wrong_usage(words):
    done = gg(*words)
    assert done.returncode == 2 and "error:" in done.stderr


def relay_losing(lost, port, stop):
    """Relays datagrams between a client and a UDP port, except the given ones, counted in both directions from 0.
    Returns the relay's own port."""
    outside, inside = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    outside.bind(("127.0.0.1", 0))
    inside.connect(("127.0.0.1", port))

    def pump():
        count, client = 0, None
        while not stop.is_set():
            for sock in select.select([outside, inside], [], [], 0.1)[0]:
                data, address = sock.recvfrom(2048)
                client = address if sock is outside else client
                if count not in lost:
                    inside.send(data) if sock is outside else outside.sendto(data, client)
                count += 1
        outside.close()
        inside.close()

    threading.Thread(target=pump).start()
    return outside.getsockname()[1]


def test_a_status_is_asked_for_again_when_any_datagram_is_lost():
    port, stop = ports.free_port(ports.UDP), threading.Event()
    with Player([*GAME, "key=correct-horse", f"control.port={port}"]) as player:
        player.wait_for("playing with")
        try:
            # Lost: the first HELLO, the second HELLO's CHALLENGE, the COMMAND after the third, which is sent again, and
            # one part of the reply.
            relay = relay_losing({0, 2, 5, 9}, port, stop)
            client = control.Client("127.0.0.1", b"correct-horse", relay, 0.3, 25)
            stats = control.parse(client.status())
            # There are more of each if an answer is late, too.
            assert stats["control.hellos"] >= 3 and stats["control.commands_status"] >= 2
        finally:
            stop.set()
