"""Whole connections in virtual time (tests/sim/sim.c): five seconds of games in `make test`, half a minute in `make
check`. The games are the same each time; those that once found a defect are among them. SIM_SECONDS= sets the time for
each peer, SIM_SEED= the first game; `make sim` plays new games."""
import os
import re
import subprocess

import pytest

from servers.contest import rounds
from tests.lib.paths import BUILD
from tests.lib.recordings import make_recording

SECONDS = int(os.environ.get("SIM_SECONDS", "60"))

# Each peer's first seed, and the steps that `make check` plays: 15 s of a core each. From these seeds 10.8 and 54
# million steps were played and found nothing (2026-11-22). docs/conformance.md lists the long runs.
GAMES = {"own": (1795308856910413, 3_000_000), "lwip": (1795309398912039, 6_000_000)}

# (peer, seed): the defect found.
FOUND = {
    ("own", 1795310065920399): "nobody accepted the connection that a repeated SYN opened",
    ("lwip", 1795308504912866): "a byte every 30 ms: the game was too short for it",
    ("lwip", 1795308856916148): "TIME-WAIT that ended while the peer still resent its last bytes",
    ("lwip", 1795267439786751): "lwIP's FIN in the middle of a stream that a small window split",
}


# In `make test`, by a program without lwIP: four parts, which the workers share. They lie among the games from the own
# peer's first seed.
PARTS, PART_GAMES, PART_STEPS = 4, 500, 250_000


def sim(*words, seconds=300, program="sim"):
    return subprocess.run([BUILD / "test" / program, *map(str, words)], capture_output=True, text=True, timeout=seconds)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_few_games_find_nothing(part):
    seed = GAMES["own"][0] + part * PART_GAMES
    done = sim("--peer", "own", "--seed", seed, "--steps", PART_STEPS, program="sim-own")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["own", "lwip"])
def test_games_find_nothing(peer):
    seed, steps = GAMES[peer]
    words = ["--seed", os.environ.get("SIM_SEED") or seed, "--seconds", SECONDS]
    if "SIM_SEED" not in os.environ and "SIM_SECONDS" not in os.environ:
        words += ["--steps", steps]
    done = sim("--peer", peer, *words, seconds=SECONDS + 300)       # the last game ends
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("peer, seed", FOUND)
def test_game_that_found_something(peer, seed):
    done = sim("--peer", peer, "--seed", seed, "--steps", 1)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_recorded_contest_crosses_a_bad_network_whole(tmp_path):
    make_recording(tmp_path / "recording", rounds.ONLINE, 100)
    words = "--peer", "own", "--seed", 3, "--steps", 100_000, "--recording", tmp_path / "recording"
    done = sim(*words, program="sim-own")
    assert done.returncode == 0 and "nothing found" in done.stdout, done.stdout + done.stderr


def test_a_path_that_loses_a_fifth_has_no_long_tail():
    """400 transfers of 50 KB both ways at 20 ms. A receiver that echoed old times, or a client that measured a lost
    SYN,ACK, had a mean of 6.6 s; now it is 2.1 s. Linux to Linux over the same path: 2.0 to 2.6 s."""
    done = sim("--lose", 2000, "--transfers", 400, "--seed", 1, program="sim-own")
    print(done.stdout)
    mean_ms = int(re.search(r"mean (\d+)", done.stdout)[1])
    assert done.returncode == 0 and mean_ms < 3000, done.stdout + done.stderr


def test_seed_replays_its_game():
    first, second = (sim("--peer", "own", "--seed", 77, "--steps", 1, program="sim-own") for _ in range(2))
    assert first.returncode == 0 and first.stdout == second.stdout


def test_bad_words_are_refused():
    done = sim("--seed", "seven", program="sim-own")
    assert done.returncode == 2 and '"seven"' in done.stderr
