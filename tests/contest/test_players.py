"""tools/servers/players/quadratic.py against the contest server."""
import os
import socket
import subprocess
import time

import pytest

from servers.contest import rounds, store
from servers.contest.plan import Plan, Users
from servers.players import demo as demo_module
from tests.contest.running import SMALL, served
from tests.contest.service import ROOT, Service
from tests.lib.waiting import PATIENCE_S, wait_for

QUADRATIC = ROOT / "tools/servers/players/quadratic.py"


@pytest.fixture
def player():
    """Starts players; ends those that are left."""
    running = []

    def start(ports, *words):
        running.append(subprocess.Popen([QUADRATIC, "127.0.0.1", "--port-base", str(ports["pages"]), *words],
                                        stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_name_and_password_are_encoded(player):
    with served(users={"bob": "wonder land&user=x%41+"}) as server:
        player(server.ports, "--user", "bob", "--passwd", "wonder land&user=x%41+")
        wait_for(lambda: "bob" in server.contest.users and server.contest.users["bob"].correct > 3)


def test_a_wrong_password_ends_the_player_with_the_reason(player):
    with served(users={"bob": "right"}) as server:
        process = player(server.ports, "--user", "bob", "--passwd", "wrong")
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr.read() == ("quadratic: the server takes no submissions of bob: "
                                         "401 unknown user or wrong password\n")


def test_an_answer_that_is_refused_for_now_is_sent_again(player):
    """The address has no passwords left when the player comes: its first answers get 429."""
    with served(users={"bob": "right"}) as server:
        server.judge.addresses.wrong["127.0.0.1"] = 0, time.monotonic() + 2
        player(server.ports, "--user", "bob", "--passwd", "right")
        wait_for(lambda: "bob" in server.contest.users and server.contest.users["bob"].correct > 3)


def test_moduli_that_are_not_of_the_round_end_the_player(player):
    with served() as server:
        process = player(server.ports, "--n", "6", "--m", "7")
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr.read().startswith("quadratic: 5 answers in a row are wrong: --n and --m are not those")
        assert server.contest.users["quadratic"].wrong < 100


@pytest.mark.slow
def test_the_player_notices_a_new_round(player, tmp_path):
    path = tmp_path / "store"
    other = rounds.parse_round("n=5 m=4999", "second")
    store.create(path, Plan(rounds=((0.0, SMALL), (2.0, other)), rate=20, burst=(5, 30), interval_s=(0.05, 0.1),
                            users=Users.of({"bob": "p"})))
    with Service(path) as service:
        process = player(service.ports, "--user", "bob", "--passwd", "p")
        reading = store.connect(path)

        def found(number):
            return reading.execute("SELECT count(*) FROM submission WHERE verdict LIKE '+%' AND length(digits) < 6 AND "
                                   "seq > (SELECT max(seq) FROM event WHERE kind = 'round' AND "
                                   "json_extract(fields, '$.number') = ?)", (number,)).fetchone()[0]
        wait_for(lambda: found(1) > 3)
        wrong = reading.execute("SELECT count(*) FROM submission WHERE verdict LIKE 'wrong%'").fetchone()[0]
        assert wrong < 20
        process.terminate()
        assert "a round begins: N = 5, M = 4999" in process.stderr.read()


def demo(**environment):
    return subprocess.run(["/usr/bin/python3", "-m", "servers.players.demo"], capture_output=True, text=True, cwd=ROOT,
                          timeout=PATIENCE_S, env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), **environment})


def test_a_store_that_cannot_be_made_is_named_once(tmp_path):
    done = demo(STORE="/proc/nowhere/x.db")
    assert done.returncode == 1 and done.stderr == "contest: STORE=/proc/nowhere/x.db: No such file or directory\n"
    page = tmp_path / "README.md"
    page.write_text("# no store\n" * 100)
    done = demo(STORE=str(page))
    assert done.returncode == 65 and done.stderr.count("damaged or no store") == 1 and "Traceback" not in done.stderr


def test_ports_in_use_are_said_and_others_taken(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_module, "PORT_BASE", 21_700)
    with socket.create_server(("127.0.0.1", 21_701)):
        process, ports = demo_module.serve(tmp_path / "store")
    process.terminate()
    assert process.wait(PATIENCE_S) == 0 and 21_701 not in ports.values()
    assert capsys.readouterr().out == "contest: a port of 21700 to 21702 is in use; free ones are taken\n"
