"""tools/servers/contest/store.py and its users: replica, replay, export, restart."""
import csv
import fcntl
import json
import os
import random
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import termios
import threading
import time
import tracemalloc
import urllib.request

import pytest

from servers.contest import board_state, board_text, follower, history, init, record, replica, rounds, scoring, store
from servers.contest.follower import Follower
from servers.contest.oracle import Occurrence
from servers.contest.plan import Plan, PlanError, Users, parse_phase, parse_span, parse_time
from servers.contest.scoring import Contest, Submission
from servers.contest.stream import RecordedStream
from tests.contest.plain_player import PlainPlayer, post, read_reply
from tests.contest.running import SMALL, connect, run_server, served, stop_server, tool
from tests.contest.service import TOOL, Service
from tests.lib.full_disk import full_disk
from tests.lib.waiting import PATIENCE_S, wait_for

SECOND = 10**9


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def made(path):
    """Returns the path of a store with a small plan."""
    store.create(path, small_plan())
    return path


def small_plan(**more):
    return Plan(**{"rounds": ((0.0, SMALL),), "rate": 20, "burst": (5, 30), "interval_s": (0.01, 0.02), **more})


def end_stream(server, player):
    """Waits until the last digits have been sent and answered; ends the stream now if the server knows no end."""
    server.options.bursts = server.options.bursts or server.digits.burst.index + 3
    wait_for(lambda: server.over)
    wait_for(lambda: player.seen.endswith(server.digits.burst.digits) and len(player.verdicts) == len(player.submitted))


def play(path, bursts, user="plain"):
    """Runs a server on a store to its end, with one player. Returns the server."""
    with served(store=str(path), bursts=bursts, begin="player", pages=False) as server:
        player = PlainPlayer(server.ports, SMALL.n, SMALL.constants, user=user)
        end_stream(server, player)
    player.thread.join(PATIENCE_S)
    return server


def scores(contest):
    return {user.name: (user.score, dict(user.points), user.late, user.wrong, user.dup, user.submits, user.early,
                        list(user.latencies_us)) for user in contest.users.values()}


def test_the_rows_make_the_board_again(made):
    server = play(made, 30)
    state = replica.at_present(store.connect(made))
    assert scores(state.contest) == scores(server.contest) and state.contest.offered == server.contest.offered > 5
    assert state.differing == 0 and state.bursts == 30 and not state.running


def test_readers_of_the_digits_are_among_the_open_connections(made):
    with served(store=str(made), begin="player", pages=False) as server:
        with connect(server, "input"), connect(server, "output"):
            wait_for(lambda: sum(c.live for c in server.connections) == 1 and len(server.connections.table) == 2)
            state = replica.Replica(store.connect(made))
            wait_for(lambda: (state.follow(), sorted(state.connections.values()) == ["input", "output"])[1], seconds=5)
        wait_for(lambda: (state.follow(), not state.connections)[1])


def test_a_service_whose_board_finds_no_port_begins_nothing(path):
    server, thread = run_server(begin="player")         # three ports in a row that are free afterwards
    stop_server(server, thread)
    with socket.create_server(("127.0.0.1", server.ports["pages"])) as taken:
        done = subprocess.run([TOOL, "serve", path, "--bind", "127.0.0.1", "--port-base",
                               str(taken.getsockname()[1])], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and "in use" in done.stderr, done.stderr
    assert store.connect(path).execute("SELECT count(*) FROM event WHERE kind = 'begin'").fetchone() == (0,)
    assert replica.at_present(store.connect(path)).begun_ns == 0


def test_a_board_never_takes_more_of_the_processor_than_it_was_given(made):
    """Only root may: for everybody else the board would end."""
    with subprocess.Popen(["nice", "-n", "15", TOOL, "board", made, "--bind", "127.0.0.1", "--port", "0"],
                          stdout=subprocess.PIPE, text=True) as board:
        line, priority = board.stdout.readline(), os.getpriority(os.PRIO_PROCESS, board.pid)
        board.terminate()
    assert line.startswith("board http://") and priority == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 15)


def test_a_second_run_goes_on_with_stream_and_scores(made):
    first = play(made, 20)
    second = play(made, 40)
    rows = store.connect(made).execute("SELECT idx, position, digits FROM burst ORDER BY seq").fetchall()
    assert [row[0] for row in rows] == list(range(40))
    assert all(row[1] + len(row[2]) == after[1] for row, after in zip(rows, rows[1:]))
    stream = first.digits.make_stream()
    assert [row[2] for row in rows] == [stream.next_burst().digits for _ in range(40)]
    assert second.contest.users["plain"].submits > first.contest.users["plain"].submits
    assert replica.at_present(store.connect(made)).differing == 0


def test_after_a_kill_no_digits_come_twice(made):
    """Digits may have gone out without a row: the generator begins again from a seed that was never used."""
    first = play(made, 20)
    unheard = "".join(first.digits.make_stream().next_burst().digits for _ in range(40))
    with sqlite3.connect(made) as connection:
        connection.execute("DELETE FROM event WHERE kind = 'stop'")
    play(made, 60)
    rows = store.connect(made).execute("SELECT idx, position, digits FROM burst ORDER BY seq").fetchall()
    assert [row[0] for row in rows] == list(range(60))
    assert all(row[1] + len(row[2]) == after[1] for row, after in zip(rows, rows[1:]))
    again = "".join(row[2] for row in rows[20:])
    assert len(again) > 200 and not {again[i:i + 20] for i in range(len(again) - 19)} & \
        {unheard[i:i + 20] for i in range(len(unheard) - 19)}


def test_a_run_goes_on_where_the_last_one_ended_its_digits(path):
    """The last burst that was made had not been sent, or had."""
    store.create(path, small_plan(interval_s=(0.001, 0.3)))
    for bursts in (3, 0, 7, 0, 9):
        with served(store=str(path), bursts=bursts, pages=False) as server:
            wait_for(lambda: server.over or not bursts and server.digits.burst.index > 3)
    rows = store.connect(path).execute("SELECT digits FROM burst ORDER BY seq").fetchall()
    stream = server.digits.make_stream()
    assert [digits for digits, in rows] == [stream.next_burst().digits for _ in rows] and len(rows) >= 9


def test_a_snapshot_replaces_the_rows_before_it(made):
    play(made, 30)
    board = Follower(made)
    board._snapshot()
    whole = board.replica
    with sqlite3.connect(made) as connection:
        for table in store.PLAYED:
            connection.execute(f"DELETE FROM {table}")
    again = replica.at_present(store.connect(made))
    assert scores(again.contest) == scores(whole.contest)
    assert again.contest.state() == whole.contest.state() and again.history.state() == whole.history.state()


def test_a_snapshot_in_the_middle_changes_no_verdict():
    """Random play, cut anywhere: the contest and its restored copy give the same verdicts afterwards."""
    draw = random.Random(5)
    contest, copy = Contest(SMALL), None
    now = SECOND
    for step in range(3000):
        now += draw.randrange(20_000_000)
        digits = str(9973 * draw.randrange(1, 90))
        made = [contest] if copy is None else [contest, copy]
        if draw.random() < 0.2:
            for one in made:
                one.send([Occurrence(0, len(digits), (0,), digits)], now)
        else:
            submission = Submission(now, "a", f"u{draw.randrange(8)}", digits)
            lines = [one.submit(submission) for one in made]
            assert len(set(lines)) == 1, (step, lines)
        if step == 1500:
            copy = Contest(SMALL)
            copy.restore(json.loads(json.dumps(contest.state())))
    assert scores(copy) == scores(contest) and copy.state() == contest.state()


def submission(number, **more):
    return dict(ns=number, ip="a", user="u", digits="1", verdict="dup", **more)


def count_rows(path):
    return store.connect(path).execute("SELECT count(*) FROM submission").fetchone()[0]


def test_rows_are_there_after_their_commit(made):
    writer = store.Store(made)
    for i in range(20):
        writer.log("submission", **submission(i))
        assert writer.commit() and count_rows(made) == i + 1
    writer.close()


def test_responses_wait_while_another_program_holds_the_lock(made, caplog, monkeypatch):
    monkeypatch.setattr(store, "LOCK_LOG_S", 0.1)
    with served(store=str(made), pages=False) as server, connect(server, "output") as sock, sock.makefile("rb") as file:
        sock.sendall(post("0"))
        read_reply(file)
        with sqlite3.connect(made, isolation_level=None) as locker:
            locker.execute("BEGIN IMMEDIATE")
            sock.sendall(post("0") * 3)
            bursts = server.digits.burst.index
            wait_for(lambda: server.digits.burst.index > bursts + 20 and f"process {os.getpid()} (" in caplog.text)
            sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                sock.recv(1, socket.MSG_PEEK)
            assert count_rows(made) == 1
        sock.settimeout(PATIENCE_S)
        locker.rollback()
        with sock.makefile("rb") as again:
            assert [read_reply(again)[0] for _ in range(3)] == [200] * 3
        assert count_rows(made) == 4
    assert caplog.text.count("holds the lock") == 1


def test_a_client_that_takes_no_responses_fills_no_memory(path):
    with served(begin="player") as server, connect(server, "output") as sock:
        sock.settimeout(1)
        try:
            while True:
                sock.sendall(post("0") * 1000)
        except TimeoutError:
            pass
        connection = next(iter(server.connections))
        wait_for(lambda: connection.writing and connection.pending == 0)
        assert connection.outbox_bytes < 10_000
        held = struct.unpack("I", fcntl.ioctl(connection.sock, termios.TIOCOUTQ, bytes(4)))[0]
        waits = struct.unpack("I", fcntl.ioctl(connection.sock, termios.FIONREAD, bytes(4)))[0]
        assert held + waits < 512 << 10, "TCP holds too much of one connection"
        turns, turn = [], server.turn
        server.turn = lambda wait_s: (turns.append(1), turn(wait_s))
        time.sleep(1)
        assert len(turns) < 500, "the loop spins"


def test_the_log_of_the_store_is_copied_and_begins_again(made, monkeypatch):
    monkeypatch.setattr(follower, "LOG_BYTES", 100_000)
    monkeypatch.setattr(follower, "LOG_LOOK_S", 3600)       # the keeper does nothing by itself
    writer, board, log = store.Store(made), Follower(made), made.with_name("store-wal")
    for i in range(3000):
        writer.log("submission", **submission(i))
        writer.commit()
        if i % 20 == 0:
            board._copy_log()
    assert log.stat().st_size < 400_000, log.stat().st_size
    monkeypatch.setattr(follower, "LOG_BYTES_CUT", 100_000)
    with sqlite3.connect(made) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM burst").fetchall()
        for i in range(3000, 3000 + follower.REST_PAGES + 10):
            writer.log("submission", **submission(i))
            writer.commit()
        seen = []
        board.writer.set_trace_callback(seen.append)
        board._copy_log()
        assert seen == ["PRAGMA wal_checkpoint(PASSIVE)"] * 2 and log.stat().st_size, "the rest became no smaller"
        reader.rollback()
    board._copy_log()
    assert log.stat().st_size == 0 and seen[-2] == "PRAGMA wal_checkpoint(TRUNCATE)"
    board.close()
    writer.close()


def test_the_keeper_looks_at_the_log_while_the_board_is_behind(made, monkeypatch):
    monkeypatch.setattr(follower, "LOG_BYTES_CUT", 100_000)
    monkeypatch.setattr(follower, "LOG_BYTES", 100_000)
    monkeypatch.setattr(follower, "LOG_LOOK_S", 0.01)
    board, writer = Follower(made), store.Store(made)
    for i in range(2000):
        writer.log("submission", **submission(i))
        writer.commit()
    wait_for(lambda: store.log_bytes(made) < 100_000)
    board.close()
    writer.close()


def test_a_log_that_no_board_copies_is_cut_by_the_server(made, monkeypatch, caplog):
    monkeypatch.setattr(store, "LOG_BYTES_MAX", 100_000)
    monkeypatch.setattr(store, "RETRY_S", 0)
    writer = store.Store(made)
    for i in range(3000):
        writer.log("submission", **submission(i))
        assert writer.commit() and store.log_bytes(made) < 200_000
    writer.close()
    assert "the board does not copy the log" in caplog.text


def test_the_lock_of_the_board_is_reported_as_its_own(made):
    with store.connect(made) as connection, subprocess.Popen(
            [sys.executable, "-c", "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
             "c.execute('BEGIN IMMEDIATE'); print(flush=True); sys.stdin.read()", made],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        connection.execute("SELECT * FROM meta").fetchall()
        assert store.lock_holder(made) == "another program"     # nobody
        assert store.process_name(0) == "process 0"             # another user's, hidden
        child.stdout.readline()
        assert store.lock_holder(made) == "the board of this server"
        child.stdin.close()


def test_a_board_that_is_behind_says_so_and_follows_in_slices(made, monkeypatch):
    monkeypatch.setattr(follower, "SLICE_ROWS", 100)
    board, writer = Follower(made), store.Store(made)
    began_ns = time.time_ns() - 10 * SECOND
    for i in range(1000):
        writer.log("submission", **{**submission(i), "ns": began_ns + i * 10_000_000})
    writer.commit()
    seen = []
    while not seen or board.replica.left:
        board.step()
        seen.append((board.replica.seq, board.warning))
    assert [seq for seq, _ in seen] == list(range(100, 1001, 100))
    assert "this board is 9 s behind" in seen[0][1] and seen[-1][1] == ""
    writer.close()


def test_a_clean_end_leaves_one_file_with_everything(path):
    with Service(path, "--begin", "player") as service, \
            socket.create_connection(("127.0.0.1", service.ports["output"])) as sock, sock.makefile("rb") as file:
        for i in range(20):
            sock.sendall(post(str(i)))
            read_reply(file)
        assert store.log_bytes(path)
    assert [name.name for name in path.parent.iterdir()] == ["store"]
    for words in (["replay", path], ["export", path, "--table", "submission"], ["plan", path]):
        assert subprocess.run([TOOL, *words], capture_output=True, timeout=PATIENCE_S).returncode == 0, words
        assert [name.name for name in path.parent.iterdir()] == ["store"], words
    assert count_rows(path) == 20


def test_a_store_that_is_removed_while_it_is_served_is_reported_and_saved(made, caplog, monkeypatch):
    monkeypatch.setattr(store, "RETRY_S", 0.01)
    with served(store=str(made), pages=False) as server:
        board = Follower(made)
        with connect(server, "output") as sock, sock.makefile("rb") as file:
            sock.sendall(post("0"))
            read_reply(file)
            assert not board.warning
            made.unlink()
            wait_for(lambda: "was removed or replaced" in caplog.text)
            assert "was removed or replaced" in board.warning
            sock.sendall(post("0"))
            read_reply(file)
        end = []
        server.close, close = (lambda: end.append(close())), server.close
    assert end == [False]
    saved, = made.parent.glob("store.saved-*")
    assert count_rows(saved) == 2 and str(saved) in caplog.text
    assert replica.at_present(store.connect(saved, whole=True)).differing == 0


@pytest.fixture
def full(monkeypatch):
    """Returns an event: as long as it is set, the disk is full."""
    event, write = threading.Event(), store.Store._write

    def write_or_fail(self):
        if event.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        write(self)

    monkeypatch.setattr(store.Store, "_write", write_or_fail)
    monkeypatch.setattr(store, "RETRY_S", 0.05)
    return event


def test_a_full_disk_is_reported_and_the_waiting_rows_are_kept(made, full, monkeypatch, caplog):
    writer = store.Store(made)
    monkeypatch.setattr(store, "WAITING_BYTES_MAX", 10 * store.ROW_BYTES)
    full.set()
    for i in range(25):
        writer.log("submission", **submission(i))
        assert writer.commit(), "the game goes on"
    assert "database or disk is full" in writer.error and caplog.text.count("cannot be written") == 1
    assert writer.lost == {"submission": 15} and not writer.has_gap
    full.clear()
    wait_for(lambda: writer.commit() and not writer.error)
    assert writer.has_gap and writer.waiting_bytes == 0
    writer.close()
    assert count_rows(made) == 10


def test_rows_that_wait_are_bounded_in_bytes(made, full):
    writer = store.Store(made)
    full.set()
    tracemalloc.start()
    for i in range(2 * store.WAITING_BYTES_MAX // 4000):
        writer.log("submission", ns=time.time_ns(), ip=f"ip{i}", user=f"user{i}", digits=f"{i:4000}", verdict=f"+{i}")
        writer.commit()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert writer.lost and 0.8 * store.WAITING_BYTES_MAX < taken < 1.2 * store.WAITING_BYTES_MAX, taken
    writer.close()


def test_a_disk_that_is_full_at_the_end_is_an_error(made, full, caplog):
    with served(store=str(made), begin="player", pages=False) as server:
        end, close = [], server.close
        server.close = lambda: end.append(close())
        full.set()
    assert end == [False] and "lacks the last" in caplog.text


def test_a_full_disk_stops_neither_game_nor_scores(made, full, monkeypatch):
    """Rows are lost, then there is space again. The board and a restart go on from the server's own state."""
    with served(store=str(made), begin="player", pages=False) as server:
        monkeypatch.setattr(store, "WAITING_BYTES_MAX", 5 * store.ROW_BYTES)
        player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
        wait_for(lambda: server.contest.users)
        board = Follower(made)
        full.set()
        wait_for(lambda: server.game.store.lost["burst"] > 5)
        monkeypatch.setattr(store, "WAITING_BYTES_MAX", 1 << 20)
        full.clear()
        wait_for(lambda: not server.game.store.lost)
        end_stream(server, player)
    player.thread.join(PATIENCE_S)
    assert "+8" in player.verdicts and server.game.faults == 0
    board.step()
    assert board.replica.contest.users["plain"].score == server.contest.users["plain"].score
    assert "not stored, for the disk was full" in board.warning
    again = replica.at_present(store.connect(made))
    assert scores(again.contest) == scores(server.contest)


def write(path, statement):
    with sqlite3.connect(path) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("damage, said", [
    (lambda p: p.write_bytes(b"no database at all" * 500), "damaged or no store"),
    (lambda p: p.write_bytes(p.read_bytes()[:8192] + b"\xff" * (len(p.read_bytes()) - 8192)), "damaged"),
    (lambda p: sqlite3.connect(p).execute("PRAGMA user_version=9"), "format 9"),
    (lambda p: sqlite3.connect(p).execute("PRAGMA application_id=9"), "no contest's store"),
    (lambda p: p.unlink(), None),
    (lambda p: write(p, "INSERT INTO snapshot VALUES (9, 9, 'torn')"), "a snapshot in the store is damaged"),
])
def test_a_damaged_store_is_refused_with_the_way_out(made, damage, said):
    play(made, 5)
    sqlite3.connect(made).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(made)
    done = tool("replay", made)
    assert done.returncode == 1 and re.search((said or "no such store") + "|malformed", done.stderr), done.stderr
    if said:
        done = tool("serve", made, "--bind", "127.0.0.1", "--port-base", "0")
        assert done.returncode == 65 and said in done.stderr, done.stderr
    if said and said.startswith("damaged"):
        assert ".recover | sqlite3" in done.stderr


def test_replay_shows_any_moment_and_export_all_rows(path, tmp_path):
    assert tool("init", path, "--name", "Cup", "--burst", "50", "--interval", "0.02", "--rate", "30").returncode == 0
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'plan'",
                           (json.dumps(small_plan(name="Cup").to_json()),))
    server = play(path, 30)
    bursts = store.connect(path).execute("SELECT ns FROM burst ORDER BY seq").fetchall()
    early = json.loads(tool("replay", path, "--at", "0", "--json").stdout)
    last = tool("replay", path)
    assert early["users"] == [] or early["users"][0]["submit"] < server.contest.users["plain"].submits
    assert re.search(rf"^plain .* {server.contest.users['plain'].score} +1$", last.stdout, re.M), last.stdout
    spans = {}
    for span in (f"{(ns - bursts[0][0]) / 1e9:.3f}" for ns, in bursts[::10]):
        spans[span] = json.loads(tool("replay", path, "--at", span, "--json").stdout)["offered"]
    assert list(spans.values()) == sorted(spans.values())
    assert tool("export", path, "--to", tmp_path / "csv").returncode == 0
    with open(tmp_path / "csv/submission.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == server.contest.users["plain"].submits
    digits = tool("export", path, "--digits").stdout.strip()
    stream = server.digits.make_stream()
    assert digits == "".join(stream.next_burst().digits for _ in range(30))


@pytest.mark.parametrize("words", [("export", "--digits"), ("export", "--table", "burst"), ("export", "--record"),
                                   ("replay",)])
def test_a_reader_that_has_enough_is_no_error(made, words):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([TOOL, words[0], made, *words[1:]], stdout=writer, stderr=subprocess.PIPE, text=True,
                          timeout=PATIENCE_S)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_contest_needs_no_reader_of_its_output(path):
    reader, writer = os.pipe()
    os.close(reader)
    words = [TOOL, "serve", path, "--bind", "127.0.0.1", "--port-base", "0", "--bursts", "3", "--grace", "0"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    os.close(writer)
    assert done.returncode == 0 and "Broken pipe" not in done.stderr, done.stderr
    assert store.connect(path).execute("SELECT count(*) FROM burst").fetchone() == (3,)


@pytest.mark.parametrize("words", [("export", "--digits"), ("export", "--table", "burst"), ("replay",)])
def test_a_full_disk_is_said_in_a_line(made, words):
    play(made, 5)
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([TOOL, words[0], made, *words[1:]], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S)
    assert done.returncode == 1
    assert re.fullmatch("(contest export: )?standard output: No space left on device\n", done.stderr), done.stderr


@pytest.mark.parametrize("text, said", [
    ("", "holds no burst"), ('{"kind": "contest"}\n', "holds no burst"),
    ('{"kind": "burst"}\n', "a burst lacks its digits"), ('{"kind": "burst"\n', "line 1 is no line"),
    ('{"kind": "burst", "digits": "1x", "ns": 1}\n', "a burst lacks its digits"),
    ("31415926535\n", "line 1 is no line"), ("\xff\n", "line 1 is no line")])
def test_a_record_that_cannot_be_played_is_refused_by_name(tmp_path, text, said):
    copy = tmp_path / "record"
    copy.write_bytes(text.encode("latin-1"))
    with pytest.raises(record.RecordError, match=f"{copy}: {said}"):
        RecordedStream(copy)


def test_serve_names_a_record_that_cannot_be_played(tmp_path):
    copy = tmp_path / "record"
    copy.write_text("")
    done = subprocess.run([TOOL, "serve", "--digits", copy, "--bind", "127.0.0.1", "--port-base", "0"],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and done.stderr.startswith(f"contest serve: {copy}: holds no burst"), done.stderr


def test_an_exported_record_is_played_again(made, tmp_path):
    play(made, 12)
    copy = tmp_path / "record"
    copy.write_text(tool("export", made, "--record").stdout)
    with served(round=SMALL, digits=str(copy), begin="player") as server:
        with connect(server, "input") as feed:
            text = b""
            while len(text.split(b"\r\n\r\n", 1)[-1]) < sum(len(d) for d, _ in server.digits.stream.bursts):
                text += feed.recv(65536)
        assert text.split(b"\r\n\r\n", 1)[1].decode() == tool("export", made, "--digits").stdout.strip()
        wait_for(lambda: server.over)


def test_medians_by_constant_begin_again_with_a_round(path):
    store.create(path, small_plan(rounds=((0.0, SMALL), (5.0, rounds.parse_round("n=6 m=4999")))))
    state = replica.Replica(store.connect(path))
    state.take("event", {"ns": SECOND, "kind": "begin", "fields": "{}"})
    state.take("answer", {"ns": SECOND, "start": 0, "end": 4, "constants": "[0]", "digits": "9973"})
    state.take("submission", {"ns": SECOND + 5000, "ip": "a", "user": "u", "digits": "9973", "verdict": "+8"})
    assert board_state.medians(state, ["u"]) == [["u", [5.0, None, None]]]
    state.take("event", {"ns": 9 * SECOND, "kind": "round", "fields": '{"number": 1}'})
    assert board_state.medians(state, ["u"]) == [["u", [None]]]


@pytest.mark.slow
def test_rounds_follow_each_other_and_phases_count_more(path):
    other = rounds.parse_round("n=6 m=4999")
    store.create(path, small_plan(rounds=((0.0, SMALL), (0.4, other)), phases=((0.0, 100.0, 3),)))
    with served(store=str(path), begin="player", pages=False) as server:
        player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
        wait_for(lambda: server.game.round_number == 1, PATIENCE_S)
        wait_for(lambda: server.contest.offered > len(player.submitted) + 2 and "+24" in player.verdicts, PATIENCE_S)
        end_stream(server, player)
    player.thread.join(PATIENCE_S)
    user = server.contest.users["plain"]
    assert "+24" in player.verdicts and user.bonus == 16 * user.points[8] + 8 * user.points[4] + 4 * user.points[2]
    state = replica.at_present(store.connect(path))
    assert scores(state.contest) == scores(server.contest) and state.contest.round == other and state.differing == 0


def test_a_contest_waits_for_its_time_and_ends_in_time(path):
    starts_ns = time.time_ns() + SECOND
    store.create(path, small_plan(starts_ns=starts_ns, ends_s=0.5))
    with served(store=str(path), pages=False) as server:
        wait_for(lambda: server.over)
    sent = [ns for ns, in store.connect(path).execute("SELECT ns FROM burst ORDER BY seq")]
    assert sent[0] >= starts_ns and sent[-2] < starts_ns + SECOND // 2
    with served(store=str(path), pages=False) as server:       # a restart begins nothing again
        wait_for(lambda: server.over)
        assert server.digits.begun_at is None


def test_users_of_a_store_are_kept_as_hashes(path, tmp_path):
    words = tmp_path / "users"
    words.write_text("swift:secret\n")
    assert tool("init", path, "--users", words).returncode == 0
    assert b"secret" not in path.read_bytes()
    with served(store=str(path), pages=False, begin="player") as server:
        with connect(server, "output") as sock, sock.makefile("rb") as file:
            for user, password, status in (("swift", "secret", 200), ("swift", "wrong", 401), ("heron", "secret", 401)):
                sock.sendall(post("0", user, password))
                assert read_reply(file)[0] == status


def test_users_who_could_not_submit_are_refused(path, tmp_path):
    words = tmp_path / "users"
    for name in ("bob smith", "m\u00f6we", "x" * 33, "", "a/b"):
        words.write_text(f"swift:p\n{name}:secret\n")
        done = tool("init", path, "--users", words)
        assert done.returncode == 2 and f"{words}: '{name}': a line is user:password" in done.stderr
        assert "secret" not in done.stderr and not path.exists()
    words.write_text("# users\nswift:p\nsecret\n")
    said = tool("init", path, "--users", words).stderr
    assert f"{words}: line 3 has no colon: a line is user:password" in said and "secret" not in said
    words.write_text("swift:p\nheron:\n")
    assert f"{words}: 'heron' has no password" in tool("init", path, "--users", words).stderr
    words.write_text("swift:p\n  # a comment\nheron:p\nswift:q\n")
    assert f"{words}: 'swift' stands there twice" in tool("init", path, "--users", words).stderr


@pytest.mark.parametrize("words, said", [
    (["--round", "nowhere"], "nowhere"), (["--round", "online@x"], "'x'"), (["--round", "online@5"], "no round begins"),
    (["--round", "online", "--round", "onsite"], "two rounds"), (["--starts", "noon"], "'noon'"),
    (["--ends", "1y"], "'1y'"),
    (["--round", "online", "--round", "onsite@10m", "--ends", "5m"], "round onsite@10m begins after the end, 5m"),
    (["--round", "online", "--round", "onsite@5m", "--ends", "5m"], "round onsite@5m begins after the end, 5m"),
    (["--phase", "90-2h=2", "--ends", "90"], "phase 90s-2h=2 begins after the end, 90s"),
    (["--phase", "5-3=2"], "'5-3=2'"), (["--phase", "3-5=1"], "'3-5=1'"), (["--keep", "-1"], "--keep"),
    (["--burst", "0-3"], "at least one digit"), (["--interval", "0"], "endless"),
])
def test_words_of_init_that_make_no_sense_are_quoted(path, words, said):
    done = tool("init", path, *words)
    assert done.returncode != 0 and said in done.stderr and not path.exists()


def test_init_overwrites_nothing_and_serve_keeps_the_plan(path):
    assert tool("init", path).returncode == 0
    done = tool("init", path)
    assert done.returncode == 1 and "exists" in done.stderr
    done = tool("serve", path, "--seed", "7", "--rate", "2")
    assert done.returncode == 2 and "has its own rate, seed" in done.stderr


@pytest.mark.parametrize("bytes_max", [0, 4096, 8192, 20000])
def test_a_store_for_which_there_is_no_place_leaves_nothing(path, bytes_max):
    done = subprocess.run([TOOL, "init", path], capture_output=True, text=True, timeout=PATIENCE_S,
                          **full_disk(bytes_max))
    assert done.returncode == 1 and done.stderr.startswith(f"contest init: {path}: ")
    assert not list(path.parent.iterdir())
    assert tool("init", path).returncode == 0


@pytest.mark.parametrize("command", ["serve", "plan"])
def test_a_store_of_another_user_is_refused_with_the_way_out(made, command, monkeypatch):
    """As a copy that root made, in the folder of the service."""
    monkeypatch.setattr(os, "access", lambda place, mode: place == made.parent)
    monkeypatch.setattr(store, "user_name", lambda number: f"u{number}")
    done = tool(command, made)
    assert done.returncode == (65 if command == "serve" else 1)
    assert f"{made}: belongs to u{os.geteuid()}, and u{os.geteuid()} may not read it; as root: chown" in done.stderr
    assert done.stderr.startswith("contest") and done.stderr.count("\n") == 1


def test_the_service_s_store_that_a_user_cannot_make_says_the_way_out(monkeypatch):
    monkeypatch.setattr(init, "SERVED", "/proc/nowhere/contest.db")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = tool("init", "/proc/nowhere/contest.db")
    assert done.returncode == 1
    assert done.stderr == "contest init: /proc/nowhere: No such file or directory; be root, or name a STORE\n"


def test_a_service_that_makes_its_store_says_so_and_needs_no_writable_code(path):
    """MemoryDenyWriteExecute= of the service: server and board under Linux' own form of it."""
    deny = ("import ctypes, os, sys; assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0; "
            "os.execv(sys.argv[1], sys.argv[1:])")
    with subprocess.Popen([sys.executable, "-c", deny, TOOL, "serve", path, "--bind", "127.0.0.1", "--port-base", "0"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as service:
        said, lines = service.stderr.readline(), [service.stdout.readline() for _ in range(2)]
        if "Traceback" in said:
            pytest.skip("this Linux has no PR_SET_MDWE")
        try:
            with urllib.request.urlopen(lines[1].split()[1] + "board.json", timeout=PATIENCE_S) as page:
                assert "users" in json.load(page)
        finally:
            service.terminate()
        assert service.wait(PATIENCE_S) == 0
    assert said.startswith(f"made {path}: Contest, anybody may play; `contest plan {path}` prints the plan")


def test_a_store_is_served_once_at_a_time(path):
    with Service(path) as service:
        for _ in range(2):
            done = subprocess.run([TOOL, "serve", path, "--bind", "127.0.0.1", "--port-base", "0"], capture_output=True,
                                  text=True, timeout=PATIENCE_S)
            assert done.returncode == 65 and done.stdout == ""
            assert done.stderr == f"contest serve: {path}: is served already; end that server first\n"
        service.kill()
        with Service(path):
            pass


def test_times_and_spans():
    assert [parse_span(text) for text in ("90", "90s", "1.5m", "2h", "1d")] == [90, 90, 90, 7200, 86400]
    assert parse_time("2026-11-23T20:00") % SECOND == 0
    assert parse_phase("30m-40m=2") == (1800, 2400, 2)
    plan = small_plan(phases=((1, 2, 2), (1.5, 3, 4)), rounds=((0.0, SMALL), (5.0, rounds.ONLINE)),
                      users=Users.of({"a": "p"}))
    assert [plan.factor_at(s) for s in (0, 1, 1.7, 2.5, 3)] == [1, 2, 4, 4, 1]
    assert [plan.round_at(s) for s in (0, 4.9, 5)] == [0, 0, 1]
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    for wrong in ("2026-13-01", "9999-01-01", "1960-01-01"):
        with pytest.raises(PlanError, match=wrong):
            parse_time(wrong)
    for wrong in ("36501d", "9" * 400):
        with pytest.raises(PlanError, match=wrong):
            parse_span(wrong)


def test_old_rows_are_deleted_as_planned(path):
    store.create(path, small_plan(keep_days=0.1 / 86400))
    play(path, 30)
    board = Follower(path)
    board._snapshot()
    board.replica.ns += SECOND
    board._prune()
    connection = store.connect(path)
    assert connection.execute("SELECT count(*) FROM submission").fetchone()[0] == 0
    assert scores(replica.at_present(connection).contest) == scores(board.replica.contest)
    done = tool("replay", path, "--at", "2020-01-01")
    assert done.returncode == 1 and "deleted" in done.stderr


def test_memory_has_bounds(monkeypatch):
    monkeypatch.setattr(scoring, "ANSWERS_MAX", 50)
    contest = Contest(rounds.parse_round("n=9 m=7"))
    for i in range(2000):
        ns, digits = i * SECOND, str(7 * (i + 1))
        contest.send([Occurrence(0, 1, (0,), digits)], ns)
        for k in range(3):
            contest.submit(Submission(ns + 1, f"ip{i}", f"u{k}", digits))
            contest.submit(Submission(ns + 2, "x", f"u{k}", str(7 * 10**7 + 7 * i)))
    assert len(contest.answers) <= 50 and len(contest.recent) == scoring.RECENT_MAX and contest.offered == 2000
    assert len(contest.early_order) < 30 and all(len(u.ips) <= scoring.IPS_MAX for u in contest.users.values())
    assert sum(bool(a.submissions) for a in contest.answers.values()) <= scoring.RECENT_MAX
    assert all(not a.submissions for a in contest.answers.values() if not a.shown)


def test_memory_does_not_grow_with_the_length_of_the_contest(path, monkeypatch):
    """The state of server and board after 600 s of play and after 2,400 s, with limits that both are far beyond."""
    monkeypatch.setattr(scoring, "ANSWERS_MAX", 200)
    monkeypatch.setattr(scoring, "LATENCIES_MAX", 100)
    monkeypatch.setattr(history, "SAMPLES_MAX", 60)
    store.create(path, Plan(rounds=((0.0, rounds.parse_round("n=9 m=7")),)))
    state = replica.Replica(store.connect(path))
    state.take("event", {"ns": 0, "kind": "begin", "fields": "{}"})
    state.begun_ns = 1

    def play(first, last):
        for i in range(first, last):
            ns, digits = i * SECOND, str(7 * (i + 1))
            state.take("burst", {"ns": ns, "position": 100 * i, "digits": "1" * 100, "due_ns": ns, "spread_ns": 1,
                                 "players": 5, "stamp_error_ns": 1, "busy_ns": 1, "preempted": 0})
            state.take("answer", {"ns": ns, "start": 0, "end": 1, "constants": "[0]", "digits": digits})
            state.take("connection", {"ns": ns, "change": "open", "id": i, "port": "input"})
            state.take("connection", {"ns": ns, "change": "close", "id": i})
            for user in range(5):
                for text in (digits, str(10**8 + i)):
                    state.take("submission", {"ns": ns + user, "ip": f"10.0.{i % 200}.{user}", "user": f"u{user}",
                                              "digits": text, "verdict": ""})

    tracemalloc.start()
    play(0, 600)
    early_bytes = tracemalloc.get_traced_memory()[0]
    play(600, 2400)
    late_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert state.contest.offered == 2400 and state.contest.users["u0"].submits == 4800
    assert late_bytes <= 1.1 * early_bytes, (early_bytes, late_bytes)


def test_the_plan_is_printed_and_users_are_added(path, tmp_path):
    users, more, played = tmp_path / "users", tmp_path / "more", tmp_path / "final.round"
    users.write_text("swift:a\nheron:b\n")
    more.write_text("swift:new\notter:c\n")
    played.write_text("n=32 m=7,11 # short\nhidden=3^4*5^2\n")
    made = tool("init", path, "--name", "Cup", "--round", "online", "--round", f"{played}@10m", "--ends", "1h",
                "--phase", "50m-60m=2", "--users", users)
    assert made.returncode == 0 and made.stdout.endswith(f"{path}: made; `contest serve {path}` plays it\n")
    shown = tool("plan", path)
    assert made.stdout.startswith(shown.stdout)
    for line in ("name      Cup", "schedule  begins with the first service",
                 "schedule  round 2, final.round: from 10m on", "schedule  points × 2: from 50m to 1h",
                 "schedule  ends after 1h",
                 "round 2   N = 32, 2 moduli, 1 hidden", "users     2: heron, swift"):
        assert line in shown.stdout.splitlines(), shown.stdout
    assert "users     3: heron, otter, swift" in tool("plan", path, "--users", more, "--ends", "2h").stdout
    plan = replica.plan_of(store.connect(path))
    assert plan.ends_s == 7200 and not plan.users.admits("swift", "a")
    assert all(plan.users.admits(*pair) for pair in (("swift", "new"), ("heron", "b"), ("otter", "c")))
    assert "begins after the end" in tool("plan", path, "--ends", "5m").stderr
    with served(store=str(path), pages=False, begin="player"):
        assert "is served already" in tool("plan", path, "--users", more).stderr
    other = tmp_path / "open"
    assert tool("init", other).returncode == 0 and "users     anybody" in tool("plan", other).stdout
    assert "it has no users" in tool("plan", other, "--users", more).stderr
    assert "no such store" in tool("plan", tmp_path / "none").stderr
    assert f"{tmp_path}: is no file" in tool("plan", tmp_path).stderr


def test_a_replay_knows_no_later_time_than_the_last_row(made):
    assert "(last update never)" in tool("replay", made).stdout
    play(made, 5)
    last = re.search(r"last update .*", tool("replay", made).stdout)[0]
    assert re.search(r"last update .*", tool("replay", made, "--at", "2h").stdout)[0][:33] == last[:33]


def test_the_rules_tell_schedule_and_encoding_and_fit_a_phone(path):
    plan = Plan(name="<Cup>", rounds=((0.0, SMALL), (600.0, rounds.ONSITE)), ends_s=5400, phases=((5000.0, 5400.0, 2),))
    page = board_text.rules_page(Contest(SMALL), {}, plan)
    for text in ('name="viewport"', "<style>", "&lt;Cup&gt;", "percent-encoded", "round 2, onsite: from 10m on",
                 "points × 2: from 5000s to 90m", "ends after 90m", "read the board again"):
        assert text in page, text
