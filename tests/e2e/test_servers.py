"""The servers of the rows, checked with a plain player before a kernel plays against them."""
import pathlib
import time

import pytest

from tests.e2e import dhcp_server
from tests.e2e import foreign
from servers.contest import rounds
from workshop.vm.game import Game, outcome
from tests.contest.plain_player import PlainPlayer

HERE = pathlib.Path(__file__).resolve().parent

ROUND_TEXT = "n=6 m=9973,30011"
SMALL = rounds.parse_round(ROUND_TEXT)


def wait_for_the_end(game):
    """Waits until the last digits have been sent and all answers found, or 20 s more."""
    assert game.wait_over(60)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        board = game.board()
        if any(user["found"] == board["offered"] for user in board["users"]):
            return
        time.sleep(0.05)


@pytest.mark.parametrize("front", ["", *foreign.FRONTS])
def test_a_plain_player_finds_everything(front, tmp_path):
    (tmp_path / "round").write_text(ROUND_TEXT)
    words = ["--round", tmp_path / "round", "--begin", "player", "--bursts", "50", "--burst", "5-30", "--interval",
             "0.02", "--rate", "20", "--start", "wait"]
    with Game("127.0.0.1", words) as game:
        if front:
            with foreign.FRONTS[front]("127.0.0.1", game.ports, str(tmp_path)) as server:
                player = PlainPlayer(server.ports, SMALL.n, SMALL.constants)
                wait_for_the_end(game)
                lines = game.stop()
                player.thread.join(60)
        else:
            player = PlainPlayer(game.ports, SMALL.n, SMALL.constants)
            wait_for_the_end(game)
            lines = game.stop()
            player.thread.join(60)
    result = outcome(lines, "plain")
    assert len(result["offered"]) > 5
    assert (result["missed"], result["wrong"], result["repeated"]) == ([], [], [])


def test_leases_are_offered_and_acknowledged():
    discover = bytes([1, 1, 6, 0]) + b"XIDX" + bytes(20) + b"\x52\x54\x00\x12\x34\x56" + bytes(202)
    assert len(discover) == 236
    ours, other = (dhcp_server.option(50, bytes([10, 77, 0, last])) for last in (2, 3))
    exchanges = ((dhcp_server.DISCOVER, dhcp_server.OFFER), (dhcp_server.REQUEST, dhcp_server.ACK))
    for asked, answered in exchanges:
        packet = discover + dhcp_server.MAGIC + dhcp_server.option(53, bytes([asked])) + ours + b"\xff"
        answer = dhcp_server.reply(packet, "10.77.0.1", "10.77.0.2")
        assert dhcp_server.find_option(answer, 53) == bytes([answered])
        assert answer[:1] == b"\x02" and answer[4:8] == b"XIDX" and answer[16:20] == bytes([10, 77, 0, 2])
        assert dhcp_server.option(121, bytes([32, 10, 77, 0, 1, 0, 0, 0, 0, 0, 10, 77, 0, 1])) in answer
    assert dhcp_server.reply(discover + dhcp_server.MAGIC + b"\xff", "10.77.0.1", "10.77.0.2") is None
    packet = discover + dhcp_server.MAGIC + dhcp_server.option(53, bytes([dhcp_server.REQUEST])) + other + b"\xff"
    refusal = dhcp_server.reply(packet, "10.77.0.1", "10.77.0.2")
    assert dhcp_server.find_option(refusal, 53) == bytes([dhcp_server.NAK]) and refusal[16:20] == bytes(4)
