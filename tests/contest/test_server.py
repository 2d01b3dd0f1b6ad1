"""tools/servers/contest/server.py over real sockets on loopback."""
import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from servers.contest import board_text, connections, judge, record, server as servers, store
from servers.contest.clock import Clock
from servers.contest.plan import Plan
from servers.contest.stamp_probe import StampProbe
from tests.contest import running
from tests.contest.plain_player import PlainPlayer, post, read_reply
from tests.contest.running import SMALL, connect, run_server, stop_server, tool
from tests.lib.waiting import PATIENCE_S, wait_for

SERVER = pathlib.Path(__file__).resolve().parents[2] / "tools/contest/contest"


@pytest.fixture
def serve(tmp_path):
    """Starts servers in threads; `serve(**options)` returns one."""
    running = []

    def start(**options):
        running.append(run_server(**{"record": str(tmp_path / f"record{len(running)}"), **options}))
        return running[-1][0]

    yield start
    for server, thread in running:
        stop_server(server, thread)


def lets_in(server):
    try:
        connect(server, "input").close()
        return True
    except ConnectionRefusedError:
        return False


def wait_for_the_end(server):
    """Waits until the last digits have been sent and every player has given every answer, or 10 s more."""
    wait_for(lambda: server.over)
    end = time.monotonic() + 10
    while time.monotonic() < end and (not server.contest.users or any(
            user.correct < len(server.contest.answers) for user in server.contest.users.values())):
        time.sleep(0.01)


def finish(server):
    server.stop()
    wait_for(lambda: server.loop.poll.closed)
    return record.read(server.options.record)


@pytest.mark.parametrize("body", ["raw", "chunked"])
@pytest.mark.parametrize("start, ask", [("push", True), ("push", False), ("wait", True)])
@pytest.mark.parametrize("split", [False, True])
def test_a_plain_player_finds_everything(serve, body, start, ask, split):
    server = serve(body=body, start=start, split=split, begin="player", bursts=40)
    player = PlainPlayer(server.ports, SMALL.n, SMALL.constants, ask=ask)
    wait_for_the_end(server)
    lines = finish(server)
    player.thread.join(PATIENCE_S)
    summary = [line for line in lines if line["kind"] == "summary"][0]
    assert summary["offered"] == summary["found"] > 5
    assert (summary["missed"], summary["wrong"], summary["dup"], summary["early"]) == (0, 0, 0, 0)
    assert set(player.verdicts) == {"+8"}
    assert player.seen == "".join(line["digits"] for line in lines if line["kind"] == "burst")


@pytest.mark.parametrize("end", ["stop", "close"])
def test_pieces_that_wait_for_their_time_go_out_before_the_end(serve, monkeypatch, end):
    monkeypatch.setattr(connections, "SPLIT_GAP_S", 60)
    server = serve(split=True, start="push", begin="player", interval_s=(0.05, 0.05),
                   **(dict(bursts=1) if end == "stop" else dict(bursts=2, close_after=1)))
    with connect(server, "input") as feed:
        if end == "stop":
            wait_for(lambda: server.over)
            server.stop()
        stream = b"".join(iter(lambda: feed.recv(65536), b"")).split(b"\r\n\r\n", 1)[1].decode()
    wait_for(lambda: server.over)
    assert stream == [line["digits"] for line in finish(server) if line["kind"] == "burst"][0]


def test_record_holds_all_that_was_offered(serve):
    server = serve(begin="player", bursts=30)
    player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
    wait_for_the_end(server)
    lines = finish(server)
    player.thread.join(PATIENCE_S)
    answers = [line for line in lines if line["kind"] == "answer"]
    text = "".join(line["digits"] for line in lines if line["kind"] == "burst")
    for answer in answers:
        assert text[answer["start"]:answer["end"]] == answer["digits"]
        assert all(int(answer["digits"]) % SMALL.constants[i] == 0 for i in answer["constants"])
    assert {line["digits"] for line in record.offered_to(lines)} == {a["digits"] for a in answers} == player.submitted
    submissions = [line for line in lines if line["kind"] == "submission"]
    sent_ns = {a["digits"]: a["ns"] for a in answers if a["first"]}
    assert all(0 < s["ns"] - sent_ns[s["digits"]] < 5 * 10**9 for s in submissions)
    assert lines[0]["kind"] == "contest" and lines[0]["known"] == 2


def test_a_count_of_bursts_offers_the_same_on_any_machine(serve):
    offered = []
    for late_s in (0, 0.02):
        server = serve(begin="now", bursts=40)
        for i in range(10):
            server.after(0.02 * i, lambda: time.sleep(late_s))
        wait_for(lambda: server.over)
        lines = finish(server)
        offered.append([(line["start"], line["digits"]) for line in lines if line["kind"] == "answer"])
        assert sum(line["kind"] == "burst" for line in lines) == 40
    assert offered[0] == offered[1] and offered[0]


def test_the_digits_end_after_their_seconds(serve):
    server = serve(begin="now", duration_s=0.3)
    wait_for(lambda: server.over)
    assert time.monotonic() - server.digits.begun_at >= 0.3
    sent_ns = [line["ns"] for line in finish(server) if line["kind"] == "burst"]
    assert all(ns - sent_ns[0] < 300_000_000 for ns in sent_ns[:-1])


def test_the_next_answers_are_searched_in_the_pause_between_bursts(serve):
    server = serve(begin="player", bursts=4, interval_s=(0.1, 0.1))
    sought_ns, push = [], server.digits.oracle.push
    server.digits.oracle.push = lambda digits: sought_ns.append(time.time_ns()) or push(digits)
    with connect(server, "input"):
        wait_for(lambda: server.over)
    sent_ns = [line["ns"] for line in finish(server) if line["kind"] == "burst"]
    assert len(sought_ns) == 4
    # One of the pauses suffices: the machine may have been busy in the others.
    assert max(sought - sent for sent, sought in zip(sent_ns, sought_ns[1:])) > 30_000_000


def test_answers_across_a_gap_are_not_offered():
    lines = [{"kind": "feed-open", "id": 1, "ip": "a", "position": 0},
             {"kind": "burst", "position": 0, "digits": "0123456789"},
             {"kind": "answer", "start": 2, "end": 8}, {"kind": "feed-close", "id": 1, "position": 10},
             {"kind": "feed-open", "id": 2, "ip": "a", "position": 10},
             {"kind": "burst", "position": 10, "digits": "0123456789"},
             {"kind": "answer", "start": 8, "end": 12}, {"kind": "answer", "start": 10, "end": 20}]
    assert [(a["start"], a["end"]) for a in record.offered_to(lines)] == [(2, 8), (10, 20)]
    assert record.offered_to(lines, "b") == []


def test_the_last_burst_is_offered_to_a_reader_who_stays(serve):
    server = serve(begin="player", bursts=1, burst=(600, 600), rate=1000)
    with connect(server, "input"):
        wait_for(lambda: server.over)
        lines = finish(server)
    answers = [line for line in lines if line["kind"] == "answer"]
    assert answers and record.offered_to(lines) == answers


def test_all_players_get_the_same_digits(serve):
    server = serve(begin="player", bursts=20)
    all_there = threading.Event()
    server.after(0, lambda: all_there.wait(PATIENCE_S))     # lets nobody in before
    players = [PlainPlayer(server.ports, SMALL.n, SMALL.constants, user=f"u{i}") for i in range(3)]
    wait_for(lambda: all(player.connected for player in players))
    all_there.set()
    wait_for_the_end(server)
    finish(server)
    for player in players:
        player.thread.join(PATIENCE_S)
    longest = max((p.seen for p in players), key=len)
    assert all(longest.endswith(p.seen) and p.seen for p in players)


def test_pipelined_and_split_requests_are_answered_in_order(serve):
    server = serve(begin="player")
    requests = post("12a") + post("0") + post("9973") + post("9973") + post("9974") + post("")
    expected = ["wrong: not digits", "wrong: zero", "early", "dup", "wrong: no multiple of any M", "wrong: empty"]
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(requests)
        assert [read_reply(file) for _ in expected] == [(200, line) for line in expected]
        for i in range(len(requests)):                      # one byte at a time; the third is a duplicate by now
            sock.sendall(requests[i:i + 1])
        again = [line.replace("early", "dup") for line in expected]
        assert [read_reply(file) for _ in expected] == [(200, line) for line in again]


def test_requests_behind_the_last_one_do_not_count(serve):
    server = serve(begin="player")
    last = post("9973").replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n")
    assert b"close" in last
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(post("0") + last + post("30011"))
        assert [read_reply(file) for _ in range(3)] == [(200, "wrong: zero"), (200, "early"), None]
    wait_for(lambda: not server.connections.table)
    assert [line["digits"] for line in finish(server) if line["kind"] == "submission"] == ["0", "9973"]


@pytest.mark.parametrize("kind", ["output", "input"])
@pytest.mark.parametrize("request_bytes, status", [
    (b"GARBAGE\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),                      # a TLS hello
    (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 505), (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505), (b"GET / HTTP/1.10\r\nHost: x\r\n\r\n", 400),
    (b"GET / http/1.1\r\nHost: x\r\n\r\n", 400), (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x7fb\r\n\r\n", 400),
    (b"POST /submit?user=a HTTP/1.1\r\n\r\n", 400),                                         # no Host
    (b"POST /submit?user=a HTTP/1.1\r\nHost: x\r\n\r\n", 411),
    (b"POST /submit?user=a HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n", 400),
    (b"POST /submit?user=a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (b"POST /submit?user=a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413),
    (b"POST /submit?user=a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
    (b"POST /submit?user=a HTTP/1.1\r\nHost : x\r\n\r\n", 400), (b"GET /" + b"x" * 9000, 431),
    (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\nb\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nX\x0b: a\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400),
    (b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
])
def test_malformed_requests_are_refused_and_the_connection_ends(serve, kind, request_bytes, status):
    server = serve(begin="player")
    with connect(server, kind) as sock, sock.makefile("rb") as file:
        sock.sendall(request_bytes)
        assert read_reply(file)[0] == status
        assert read_reply(file) is None
    assert "a" not in server.contest.users


@pytest.mark.parametrize("kind, targets", [("output", ((b"/submit?user=a", 405), (b"/x", 404))),
                                           ("pages", ((b"/board.txt", 200), (b"/x", 404)))])
def test_a_head_is_answered_without_a_body(serve, kind, targets):
    """The next response on the connection begins right after the head."""
    server = serve(begin="player")
    with connect(server, kind) as sock, sock.makefile("rb") as file:
        for target, status in (*targets, *targets):
            sock.sendall(b"HEAD " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert file.readline().startswith(b"HTTP/1.1 %d " % status)
            while file.readline() != b"\r\n":
                pass
        sock.sendall(b"HEAD / HTTP/1.1\r\n\r\n" if kind == "pages" else b"HEAD / HTTP/2.0\r\n\r\n")     # the last one
        assert file.read().endswith(b"\r\n\r\n")


@pytest.mark.parametrize("start", ["push", "wait"])
def test_the_input_port_gives_digits_to_a_get_alone(serve, start, monkeypatch):
    """A request that comes when the digits have begun unasked ends them: a response would stand among them."""
    monkeypatch.setattr(servers, "PUSH_S", PATIENCE_S)      # the request comes first, however slow this machine is
    server = serve(start=start, interval_s=(0.01, 0.02))
    for request, status in ((b"HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", 405),
                            (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", 405),
                            (b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n", 404), (b"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 200)):
        with connect(server, "input") as sock, sock.makefile("rb") as file:
            sock.sendall(request)
            assert file.readline().startswith(b"HTTP/1.1 %d " % status)
            if status == 200:
                assert len(file.read(1000)) == 1000
            elif request[:4] == b"HEAD":
                assert file.read().endswith(b"\r\n\r\n")
    monkeypatch.setattr(servers, "PUSH_S", 0)
    for request in (b"GARBAGE\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"):
        with connect(server, "input") as sock, sock.makefile("rb") as file:
            if start == "push":
                assert len(file.read(200)) == 200
            sock.sendall(request)
            assert file.read().count(b"HTTP/1.1 ") == (0 if start == "push" else 1)


def test_the_scheme_of_a_target_may_have_any_case(serve):
    server = serve(begin="player")
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        for scheme in (b"http", b"HTTP", b"hTtP"):
            sock.sendall(post("0").replace(b"POST /", b"POST " + scheme + b"://x/"))
            assert read_reply(file) == (200, "wrong: zero")


def test_no_byte_of_a_request_is_a_defect(serve):
    """Every byte in front of a host, where the target's parser is strict, on every port."""
    server = serve(start="wait", begin="player")
    for kind in server.ports:
        for byte in range(256):
            with connect(server, kind) as sock:
                sock.sendall(b"GET //" + bytes([byte]) + b"[ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert sock.recv(12).startswith(b"HTTP/1.1 ")
    assert server.game.faults == 0


def test_bytes_after_a_malformed_request_are_ignored(serve):
    server = serve(begin="player")
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(b"GARBAGE\r\n\r\n")
        assert read_reply(file)[0] == 400 and read_reply(file) is None
        sock.sendall(b"GARBAGE\r\n\r\n" + post("5"))
        sock.shutdown(socket.SHUT_WR)
        wait_for(lambda: not server.connections.table)
    assert sum(line["kind"] == "invalid" for line in finish(server)) == 1 and not server.contest.users


def test_a_defect_in_serving_one_connection_ends_only_this_one(serve, monkeypatch, caplog):
    server = serve(begin="player")
    monkeypatch.setattr(board_text, "board_text", lambda *_: {}["defect"])
    with connect(server, "output") as output, output.makefile("rb") as replies, connect(server, "pages") as other:
        with connect(server, "pages") as sock:
            sock.sendall(b"GET /board.txt HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(100) == b""
        output.sendall(post("0"))
        assert read_reply(replies) == (200, "wrong: zero")
        with other.makefile("rb") as file:
            other.sendall(b"GET /board.json HTTP/1.1\r\nHost: x\r\n\r\n")
            assert json.loads(read_reply(file)[1])["faults"] == 1
    assert "127.0.0.1" in caplog.text and "KeyError: 'defect'" in caplog.text
    assert [line["reason"] for line in finish(server) if line["kind"] == "fault"] == ["KeyError('defect')"]


def test_submissions_of_a_connection_that_a_response_ended_are_judged(serve, monkeypatch):
    """The server asks the connection for the round trip time at the 64th submission."""
    server = serve(begin="player")
    send = server.connections.send
    monkeypatch.setattr(servers, "READ_BYTES_MAX", 65536)       # all of them in one turn
    monkeypatch.setattr(judge, "JUDGED_A_TURN", 100)
    monkeypatch.setattr(server.connections, "send",
                        lambda c, data, **more: (send(c, data, **more), server.connections.drop(c)))
    with connect(server, "output") as sock:
        sock.sendall(post("0") * 65)
        wait_for(lambda: "plain" in server.contest.users and server.contest.users["plain"].submits == 65)
    assert server.game.faults == 0


@pytest.mark.parametrize("target, status", [("/submit?passwd=p", 400), ("/submit?user=a%20b&passwd=p", 400),
                                            ("/submit?user=a&passwd=q", 401), ("/else?user=a&passwd=p", 404),
                                            ("/submit?user=a&passwd=p", 200)])
def test_users_and_paths(serve, target, status):
    server = serve(begin="player", users={"a": "p"})
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n5".encode())
        assert read_reply(file)[0] == status
        sock.sendall(b"GET /submit?user=a&passwd=p HTTP/1.1\r\nHost: x\r\n\r\n")       # the connection goes on
        assert read_reply(file)[0] == 405


def connect_from(server, ip):
    return socket.create_connection(("127.0.0.1", server.ports["output"]), PATIENCE_S, (ip, 0))


def test_wrong_passwords_of_an_address_come_one_a_second(serve, caplog):
    """A player of this address who is there plays on, one of another address comes in."""
    server = serve(begin="player", users={"a": "p"})
    with connect_from(server, "127.0.0.1") as there, there.makefile("rb") as file:
        there.sendall(post("0", "a"))
        assert read_reply(file)[0] == 200
        began, statuses = time.monotonic(), []
        with connect_from(server, "127.0.0.1") as sock, sock.makefile("rb") as replies:
            for i in range(200):
                sock.sendall(post("0", "a", f"guess{i}"))
                statuses.append(read_reply(replies)[0])
            wrong = statuses.count(401)
            assert 20 <= wrong <= 21 + (time.monotonic() - began) and set(statuses) == {401, 429}
        there.sendall(post("0", "a"))
        assert read_reply(file)[0] == 200
    with connect_from(server, "127.0.0.2") as other, other.makefile("rb") as file:
        other.sendall(post("0", "a"))
        assert read_reply(file)[0] == 200
    assert caplog.text.count("127.0.0.1 sent more than 20 wrong passwords") == 1


def test_guesses_of_others_keep_nobody_of_their_address_out(serve):
    """Three names behind one NAT: one guesses all the time, one has played before, one comes for the first time."""
    server = serve(begin="player", users={"guesser": "p", "known": "p", "new": "p"})

    def status_of(file, sock, *words):
        sock.sendall(post("0", *words))
        return read_reply(file)[0]

    with connect(server, "output") as guesser, guesser.makefile("rb") as replies:
        with connect(server, "output") as sock, sock.makefile("rb") as file:
            assert status_of(file, sock, "known") == 200
        while status_of(replies, guesser, "new", "wrong") != 429:
            pass
        with connect(server, "output") as sock, sock.makefile("rb") as file:
            assert status_of(file, sock, "known") == 200, "others' guesses keep a name out that was right before"
        with connect(server, "output") as sock, sock.makefile("rb") as file:
            began = time.monotonic()
            sock.sendall(post("0", "new"))
            head = file.readline() + file.readline() + file.readline() + file.readline() + file.readline()
            assert head.startswith(b"HTTP/1.1 429 ") and b"\r\nRetry-After: 1\r\n" in head
            while file.readline() != b"\r\n":
                pass
            file.readline()
            while status_of(file, sock, "new") == 429:
                assert status_of(replies, guesser, "new", "wrong") in (401, 429)
            assert 0.9 <= time.monotonic() - began


def test_one_address_takes_no_more_names_than_its_share(serve, caplog):
    server = serve(begin="player")
    for ip, statuses in (("127.0.0.1", [200] * 100 + [403] * 20), ("127.0.0.2", [200] * 3)):
        with connect_from(server, ip) as sock, sock.makefile("rb") as file:
            sock.sendall(b"".join(post("0", f"{ip}-{i}") for i in range(len(statuses))))
            assert [read_reply(file)[0] for _ in statuses] == statuses
            sock.sendall(post("0", f"{ip}-1"))
            assert read_reply(file)[0] == 200
    assert caplog.text.count("127.0.0.1 has 100 names") == 1


GET = b"GET / HTTP/1.0\r\nConnection:keep-alive\r\n\r\n"


@pytest.mark.parametrize("count, text, at_once", [
    (250, GET * 300, 1 << 20), (10, GET * 2500, 1 << 20), (100, post("0" * 250) * 40, 1 << 20),
    (1, post("0") * 200, 1 << 20), (250, GET[:-1], 1), (50, b"GARBAGE\r\n\r\n", 1 << 20)],
    ids=["refusals-250", "refusals-10", "submissions-100", "submissions-1", "drips", "malformed"])
def test_a_flood_of_one_address_waits_behind_itself(count, text, at_once):
    """The flood reads no response. Another address has its response after the turn that follows its submission."""
    server = running.make_server(begin="player", interval_s=(1, 1))
    taken, queue = [], server.judge.queue
    server.judge.queue = lambda connection, *more: (taken.append(connection.ip), queue(connection, *more))
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(connect_from(server, "127.0.0.7")) for _ in range(count) if not server.turn(0)]
        sock = stack.enter_context(connect_from(server, "127.0.0.2"))
        file = stack.enter_context(sock.makefile("rb"))
        wait_for(lambda: server.turn(0) or len(server.connections.table) == count + 1)
        for at in range(8):
            for other in flood:
                other.setblocking(False)
                with contextlib.suppress(OSError):
                    other.send(text[at * at_once % len(text):][:at_once])
            sock.sendall(post("0"))
            taken.clear()
            server.turn(0)
            sock.settimeout(0.01)
            assert read_reply(file) == (200, "wrong: zero"), "no response after the turn that follows the submission"
            assert taken.count("127.0.0.7") <= servers.SERVED_A_TURN
            assert len(server.judge.waiting) <= server.options.share + servers.READ_BYTES_MAX // 70
        server.close()


def test_long_heads_count_for_more_than_one_request():
    """Heads of 8,000 bytes that are all completed at once, and heads of many lines."""
    server = running.make_server(begin="player", interval_s=(1, 1))
    taken, queue = [], server.judge.queue
    server.judge.queue = lambda connection, *more: (taken.append(connection.ip), queue(connection, *more))
    head = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 8000
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(connect(server, "output")) for _ in range(40) if not server.turn(0)]
        wait_for(lambda: server.turn(0) or len(server.connections.table) == len(flood))
        for sock in flood:
            sock.sendall(head)
        for _ in range(10):
            server.turn(0)
        for sock in flood:
            sock.sendall(b"\r\n\r\n")
        counts = []
        while sum(counts) < len(flood):
            taken.clear()
            server.turn(0)
            counts.append(len(taken))
        assert max(counts) <= 7, counts
        flood[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 100 + b"\r\n")
        server.turn(0)
        assert b"HTTP/1.1 431" in flood[0].recv(65536)
        server.close()


def test_addresses_share_a_turn_and_stamps_order_what_it_took():
    server = running.make_server(begin="player", interval_s=(1, 1))
    submitted, submit = [], server.contest.submit
    server.contest.submit = lambda submission: submitted.append((submission.ip, submission.ns)) or submit(submission)
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(connect_from(server, "127.0.0.7")) for _ in range(judge.JUDGED_A_TURN + 20)]
        few = [stack.enter_context(connect_from(server, f"127.0.1.{1 + i}")) for i in range(10)]
        wait_for(lambda: server.turn(0) or len(server.connections.table) == len(many) + len(few))
        for sock in many + few:
            sock.sendall(post("0"))
        time.sleep(0.01)
        server.turn(0)
        assert len(submitted) == judge.JUDGED_A_TURN and submitted == sorted(submitted, key=lambda pair: pair[1])
        assert {ip for ip, _ in submitted} == {"127.0.0.7", *(f"127.0.1.{1 + i}" for i in range(10))}
        server.turn(0)
        assert len(submitted) == len(many) + len(few)
        server.close()


def test_a_refusal_waits_for_the_submissions_of_its_connection(serve):
    server = serve(begin="player")
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall((post("0") + GET) * 3)
        assert [read_reply(file)[0] for _ in range(6)] == [200, 404] * 3


def test_expect_continue_and_connection_close_are_honoured(serve):
    server = serve(begin="player")
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(b"POST /submit?user=a&passwd=p HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
                     b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
        assert read_reply(file) == (100, "")
        sock.sendall(b"5")
        assert read_reply(file) == (200, "wrong: no multiple of any M")
        assert read_reply(file) is None


def test_pages_are_served(serve):
    server = serve(begin="player", bursts=20)
    player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
    wait_for_the_end(server)
    with connect(server, "pages") as sock, sock.makefile("rb") as file:
        for path, text in (("/", "n = 6"), ("/", f"port {server.ports['input']} sends"), ("/board.txt", "Leader Board"),
                           ("/", f"to port {server.ports['output']}, the digits")):
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            status, body = read_reply(file)
            assert status == 200 and text.lower() in body.lower()
        sock.sendall(b"GET /board.json HTTP/1.1\r\nHost: x\r\n\r\n")
        twin = json.loads(read_reply(file)[1])
        sock.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_reply(file)[0] == 404
    assert twin["users"][0]["name"] == "plain" and twin["users"][0]["missed"] == 0 and twin["over"]
    assert twin["users"][0]["ip"].startswith("127.0.0.1(")        # with its ping
    finish(server)
    player.thread.join(PATIENCE_S)


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_both_connections_end_after_the_given_bursts(serve, how):
    server = serve(begin="player", close_after=5, close_how=how, close_for_s=0.01)
    table = server.connections
    open_again, seen_closed = table.open_again, threading.Event()
    table.open_again = lambda: open_again() if seen_closed.is_set() else server.after(0.01, table.open_again)
    with connect(server, "output") as output, connect(server, "input") as feed:
        text = b""
        try:
            while data := feed.recv(4096):
                text += data
        except ConnectionResetError:
            assert how == "rst"
        if how == "fin":
            output.sendall(post("12a"))         # a submission on its way is still judged
            wait_for(lambda: "plain" in server.contest.users)
            assert output.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(server, "input")
    seen_closed.set()
    wait_for(lambda: lets_in(server))
    bursts = [line["digits"] for line in finish(server) if line["kind"] == "burst"][:5]
    assert text.endswith("".join(bursts).encode()) or how == "rst"


def test_a_request_for_digits_behind_our_fin_makes_no_reader(serve):
    """The record would say that the player got digits."""
    server = serve(start="wait", begin="now")
    with connect(server, "input") as feed:
        wait_for(lambda: server.connections.table)
        server.after(0, server.connections.close_players)
        assert feed.recv(1) == b""
        feed.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        feed.shutdown(socket.SHUT_WR)
        wait_for(lambda: not server.connections.table)
    assert not [line for line in finish(server) if line["kind"] == "feed-open"]


def test_receive_time_is_the_kernels_and_not_the_loops(serve):
    """A submission that lies in the socket while the loop sleeps is stamped with its arrival."""
    server = serve(begin="player")
    asleep = threading.Event()

    def fall_asleep():
        asleep.set()
        time.sleep(0.1)

    with connect(server, "output") as sock, sock.makefile("rb") as file:
        late_s = []
        for _ in range(5):
            asleep.clear()
            server.after(0, fall_asleep)
            assert asleep.wait(PATIENCE_S)
            sent_ns = time.time_ns()
            sock.sendall(post("2"))
            read_reply(file)
            late_s.append(-sent_ns / 1e9)
    stamps_ns = [line["ns"] for line in finish(server) if line["kind"] == "submission"]
    late_s = [ns / 1e9 + before for ns, before in zip(stamps_ns, late_s)]
    assert min(late_s) < 0.05, late_s           # the loop itself was 100 ms late


def test_stamps_are_the_kernels_from_the_first_on():
    """The kernel begins to stamp some milliseconds after the first socket has asked."""
    for _ in range(20):
        probe = StampProbe()
        assert probe.error_ns(Clock()) is not None
        probe.close()


def test_a_merged_submission_is_stamped_late_by_no_more_than_the_server_states(serve, tmp_path):
    """Two submissions lie in the socket while the loop sleeps: TCP has merged them, and both have one stamp."""
    path = tmp_path / "store"
    store.create(path, Plan(rounds=((0.0, SMALL),), burst=(5, 30), interval_s=(0.01, 0.02)))
    server = serve(store=str(path), pages=False)
    asleep, awake = threading.Event(), threading.Event()
    sent_ns = {}

    def send(digits):
        before_ns = server.game.clock.now_ns()
        sock.sendall(post(digits))
        sent_ns[digits] = before_ns, server.game.clock.now_ns()

    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send("1")
        read_reply(file)
        sock.sendall(post("4") * 3)         # in one segment: one stamp, which is right
        assert [read_reply(file)[0] for _ in range(3)] == [200] * 3
        server.after(0, lambda: (asleep.set(), awake.wait(PATIENCE_S)))
        assert asleep.wait(PATIENCE_S)
        send("2")
        time.sleep(0.02)
        send("3")
        awake.set()
        read_reply(file), read_reply(file)
    bursts = server.digits.burst.index
    wait_for(lambda: server.digits.burst.index > bursts + 1)
    finish(server)
    rows = store.connect(path)
    stamps = {d: ns for d, ns in rows.execute("SELECT digits, ns FROM submission")}
    assert sent_ns["1"][0] - 100_000 <= stamps["1"] <= sent_ns["1"][1] + 100_000
    assert stamps["2"] == stamps["3"] and sent_ns["3"][0] - 100_000 <= stamps["3"] <= sent_ns["3"][1] + 100_000
    stated = [json.loads(fields) for fields, in rows.execute("SELECT fields FROM event WHERE kind = 'merged'")]
    assert [fields["count"] for fields in stated] == [1]
    assert stamps["2"] - sent_ns["2"][1] <= stated[0]["late_ns"] + 100_000


def test_a_burst_goes_to_each_address_before_its_further_readers(serve):
    """One address opens ten readers. The nine further ones get the burst after the first reader of each other address,
    unless players submit from that address."""
    server = serve(begin="player", interval_s=(1, 1))
    address = "127.0.0.1", server.ports["input"]
    held = [socket.create_connection(address, PATIENCE_S, (f"127.0.2.{i}", 0)) for i in [1] * 10 + [2, 3]]
    wait_for(lambda: sum(c.live for c in server.connections) == 12)
    turns = []
    for index in range(6):
        first, further = server.connections.burst_order(index)
        assert sorted(c.ip for c in first) == ["127.0.2.1", "127.0.2.2", "127.0.2.3"]
        assert len(further) == 9 and {c.ip for c in further} == {"127.0.2.1"}
        turns.append([c.ip for c in first][0])
    assert set(turns) == {"127.0.2.1", "127.0.2.2", "127.0.2.3"}
    for name in ("a", "b", "a"):
        server.connections.saw_user("127.0.2.1", name)
    assert [c.ip for c in server.connections.burst_order(0)[0]].count("127.0.2.1") == 2
    for i in range(50):
        server.connections.saw_user("127.0.2.1", f"u{i}")
    first, further = server.connections.burst_order(0)
    assert len(first) == 12 and not further
    for sock in held:
        sock.close()
    wait_for(lambda: not server.connections.table and not server.connections.users_at)


def test_one_address_takes_no_more_than_its_share(serve):
    server = serve(begin="player", share=5)
    idle = [connect(server, kind) for kind in ("input", "output") for _ in range(5)]
    wait_for(lambda: server.connections.refused == 5)
    with socket.create_connection(("127.0.0.1", server.ports["pages"]), timeout=PATIENCE_S,
                                  source_address=("127.0.0.2", 0)) as other, other.makefile("rb") as file:
        other.sendall(b"GET /board.json HTTP/1.1\r\nHost: x\r\n\r\n")
        assert json.loads(read_reply(file)[1])["connections"] == {"open": 6, "refused": 5, "idled": 0}
    for sock in idle:
        sock.close()
    wait_for(lambda: not server.connections.table)
    with connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(post("0"))
        assert read_reply(file) == (200, "wrong: zero")
    wait_for(lambda: not server.connections.shares)


def test_idle_connections_end_and_readers_stay(serve):
    """Bytes that complete no request keep nothing open. A reader has nothing to say."""
    server = serve(begin="player", start="push", idle_s=0.3)
    with connect(server, "input") as reader, connect(server, "pages") as silent, connect(server, "output") as slow:
        while server.connections.idled < 2:
            slow.settimeout(0.05)
            try:
                slow.sendall(b"P")
                assert slow.recv(100) == b""
            except (TimeoutError, ConnectionError):
                pass
        assert silent.recv(100) == b""
        wait_for(lambda: len(server.connections.table) == 1)
        assert next(iter(server.connections)).live
        reader.shutdown(socket.SHUT_WR)
        wait_for(lambda: not server.connections.table)


def test_steps_of_the_wall_clock_change_no_verdict(serve, monkeypatch):
    """The kernel's stamps and the wall clock go an hour back, then two forward, while submissions are under way."""
    server = serve(begin="player", bursts=60)
    of_kernel = servers.kernel_stamp_ns

    def step_ns():
        return (0, -3600, 3600)[min(server.digits.burst.index // 20, 2)] * 10**9

    monkeypatch.setattr(servers, "kernel_stamp_ns", lambda ancillary: of_kernel(ancillary) + step_ns())
    server.game.clock.wall_ns = lambda: time.time_ns() + step_ns()
    player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
    wait_for_the_end(server)
    lines = finish(server)
    player.thread.join(PATIENCE_S)
    assert set(player.verdicts) == {"+8"} and server.contest.users["plain"].early == 0
    assert all(0 < us < 5e6 for us in server.contest.users["plain"].latencies_us)
    stamps_ns = [line["ns"] for line in lines if line["kind"] == "burst"]
    assert stamps_ns == sorted(stamps_ns) and stamps_ns[-1] - stamps_ns[0] < PATIENCE_S * 10**9


def test_reader_that_does_not_read_is_dropped(serve):
    server = serve(begin="player")
    with connect(server, "input"):
        wait_for(lambda: any(c.live for c in server.connections))
        reader = next(c for c in server.connections if c.live)
        for _ in range(connections.OUTBOX_BYTES_MAX // 500_000 + 40):       # sockets buffer up to 10 MB on loopback
            server.after(0, lambda: server.connections.send(reader, b"1" * 1_000_000))
        wait_for(lambda: not server.connections.table)


def test_program_prints_its_ports_ends_by_itself_and_names_errors(tmp_path):
    path = tmp_path / "record"
    command = [SERVER, "serve", "--bind", "127.0.0.1", "--port-base", "0", "--bursts", "4", "--grace", "0.2",
               "--interval", "0.05", "--record", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"listening pages=127\.0\.0\.1:\d+ input=127\.0\.0\.1:\d+ output=127\.0\.0\.1:\d+\n",
                        done.stdout)
    assert sum(line["kind"] == "burst" for line in record.read(path)) == 4
    for words, quoted in ((["--burst", "9-3"], "'9-3'"), (["--round", "nowhere"], "nowhere"),
                          (["--rate", "-1"], "'-1'"),
                          (["--interval", "0"], "--interval"), (["--users", "/nowhere"], "/nowhere"),
                          (["--interval", "0-inf"], "'0-inf'"), (["--burst", "1-"], "'1-'"),
                          (["--users", sys.executable], sys.executable),
                          (["--port-base", "0", "--bind", "192.0.2.1"], "192.0.2.1"),
                          (["--share", "0"], "'0'"), (["--idle", "0"], "'0'"),
                          (["--port-base", "0", "--record", "/nowhere/r"], "/nowhere/r")):
        done = tool("serve", *words)
        assert done.returncode != 0 and quoted in done.stderr


def test_a_record_is_never_overwritten(tmp_path):
    path = tmp_path / "record"
    command = [SERVER, "serve", "--bind", "127.0.0.1", "--port-base", "0", "--bursts", "2", "--grace", "0.01",
               "--interval", "0.01", "--record", path]
    assert subprocess.run(command, capture_output=True, timeout=PATIENCE_S).returncode == 0
    before = path.read_bytes()
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and done.stderr.startswith(f"contest serve: {path}: is not empty"), done.stderr
    assert path.read_bytes() == before


def test_the_game_goes_on_when_the_record_cannot_be_written(serve, caplog):
    server = serve(begin="player", bursts=40, record="/dev/full")
    player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
    wait_for_the_end(server)
    with connect(server, "pages") as sock, sock.makefile("rb") as file:
        sock.sendall(b"GET /board.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /board.json HTTP/1.1\r\nHost: x\r\n\r\n")
        assert "\nwarning: the record /dev/full ends here: No space left on device\n" in read_reply(file)[1]
        twin = json.loads(read_reply(file)[1])
    server.stop()
    player.thread.join(PATIENCE_S)
    assert twin["record_error"].endswith("No space left on device") and twin["faults"] == 0
    assert set(player.verdicts) == {"+8"}
    assert caplog.text.count("No space left on device") == 1


def test_program_ends_cleanly_on_a_signal_and_names_a_port_that_is_in_use(tmp_path):
    command = [SERVER, "serve", "--bind", "127.0.0.1"]
    with subprocess.Popen([*command, "--port-base", "0"], stdout=subprocess.PIPE, text=True) as process:
        port = int(re.search(r"pages=127\.0\.0\.1:(\d+)", process.stdout.readline())[1])
        done = subprocess.run([*command, "--port-base", str(port)], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode != 0 and str(port) in done.stderr and "in use" in done.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
