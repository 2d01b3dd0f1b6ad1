"""Whole connections in virtual time (tests/sim/sim.c): new games each run, three minutes of them on two cores, and the
games that once found something. SIM_SECONDS= sets how long each peer is played."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = int(os.environ.get("SIM_SECONDS", "90"))

# (peer, seed): what it found.
FOUND = {
    ("own", 1795310065920399): "nobody accepted the connection that a repeated SYN opened",
    ("lwip", 1795308504912866): "a byte every 30 ms: the game was too short for it",
    ("lwip", 1795308856916148): "TIME-WAIT that ended while the peer still resent its last bytes",
    ("lwip", 1795267439786751): "lwIP's FIN in the middle of a stream that a small window split",
}


def sim(*words, seconds=60):
    return subprocess.run([ROOT / "build/test/sim", *map(str, words)], capture_output=True, text=True, timeout=seconds)


@pytest.mark.parametrize("peer", ["own", "lwip"])
def test_new_games_find_nothing(peer):
    done = sim("--peer", peer, "--seconds", SECONDS, seconds=SECONDS + 120)     # the first seed is the clock's
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("peer, seed", FOUND)
def test_game_that_found_something(peer, seed):
    done = sim("--peer", peer, "--seed", seed, "--steps", 1)
    assert done.returncode == 0, done.stdout + done.stderr


def test_seed_replays_its_game():
    first, second = (sim("--peer", "lwip", "--seed", 77, "--steps", 1) for _ in range(2))
    assert first.returncode == 0 and first.stdout == second.stdout


def test_bad_words_are_refused():
    done = sim("--seed", "seven")
    assert done.returncode == 2 and '"seven"' in done.stderr
