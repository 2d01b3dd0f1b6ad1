"""Whole connections in virtual time (tests/sim/sim.c): three minutes of games on two cores, the same ones each time, and
the games that once found something. SIM_SECONDS= sets how long each peer is played, SIM_SEED= other games; `make sim`
plays new ones."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = int(os.environ.get("SIM_SECONDS", "90"))

# Each peer's games: their first seed, and the steps up to which they were played and found nothing (2026-11-22): a faster
# machine plays none that nobody has looked at. An hour of them: docs/net.md.
GAMES = {"own": (1795308856910413, 10_800_000), "lwip": (1795309398912039, 54_000_000)}

# (peer, seed): what it found.
FOUND = {
    ("own", 1795310065920399): "nobody accepted the connection that a repeated SYN opened",
    ("lwip", 1795308504912866): "a byte every 30 ms: the game was too short for it",
    ("lwip", 1795308856916148): "TIME-WAIT that ended while the peer still resent its last bytes",
    ("lwip", 1795267439786751): "lwIP's FIN in the middle of a stream that a small window split",
}


def sim(*words, seconds=300):
    return subprocess.run([ROOT / "build/test/sim", *map(str, words)], capture_output=True, text=True, timeout=seconds)


@pytest.mark.parametrize("peer", ["own", "lwip"])
def test_games_find_nothing(peer):
    seed, steps = GAMES[peer]
    words = ["--seed", os.environ.get("SIM_SEED") or seed, "--seconds", SECONDS]
    if "SIM_SEED" not in os.environ and "SIM_SECONDS" not in os.environ:
        words += ["--steps", steps]
    done = sim("--peer", peer, *words, seconds=SECONDS + 300)       # the last game ends
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
