"""The matcher against the schoolbook oracle on seeded streams: more than 10^6 digits in all.

A failure prints the case's seed; `build/host/tests/matcher/matcher_check FAMILY SEED 1` replays it.
PEREGRINE_SEED=N runs other streams."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "build/host/tests/matcher/matcher_check"
SEED = os.environ.get("PEREGRINE_SEED", "20220217")


@pytest.mark.parametrize("family, digits", [("small", 400_000), ("mixed", 200_000), ("round", 200_000), ("adversarial", 250_000)])
def test_answers_are_the_oracles(family, digits):
    done = subprocess.run([CHECK, family, SEED, str(digits)], capture_output=True, text=True, timeout=300)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
