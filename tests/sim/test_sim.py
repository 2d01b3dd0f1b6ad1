"""Whole connections in virtual time (tests/sim/sim.c), from a fresh seed each run; SIM_SECONDS each, 90 by default."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = os.environ.get("SIM_SECONDS", "90")


@pytest.mark.parametrize("peer", ["own", "lwip"])
def test_games_find_nothing(peer):
    done = subprocess.run([ROOT / "build/test/sim", "--peer", peer, "--seconds", SECONDS], capture_output=True, text=True,
                          timeout=int(SECONDS) + 120)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


def test_seed_replays_its_game():
    run = [ROOT / "build/test/sim", "--peer", "lwip", "--seed", "77", "--steps", "1"]
    first, second = (subprocess.run(run, capture_output=True, text=True, timeout=60) for _ in range(2))
    assert first.returncode == 0 and first.stdout == second.stdout


def test_bad_words_are_refused():
    done = subprocess.run([ROOT / "build/test/sim", "--seed", "seven"], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2 and '"seven"' in done.stderr
