"""Runs every fuzz target for FUZZ_SECONDS, five by default, from a fixed seed (SEED=). `make fuzz` runs them for
hours."""
import os

import pytest

from tests.fuzz import fuzz

SECONDS, FIXED_SEED = "5", "20220217"


@pytest.mark.parametrize("name", fuzz.targets())
def test_fuzz(name):
    run, text = fuzz.play(name, int(os.environ.get("FUZZ_SECONDS", SECONDS)), int(os.environ.get("SEED") or FIXED_SEED))
    print(text[-1500:])
    assert run.status == 0, f"{name}, seed {run.seed}\n{text[-8000:]}"
    assert run.inputs > 30, f"{name} hardly ran\n{text[-2000:]}"
