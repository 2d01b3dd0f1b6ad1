"""Runs every fuzz target for FUZZ_SECONDS, five by default, from a fixed seed (SEED=). `make fuzz` runs them for
hours."""
import os

import pytest

from tests.fuzz import fuzz

SECONDS, FIXED_SEED = "5", "20220217"
INPUTS_MIN = 30
PATIENCE = (1, 4, 16)       # times as long, on a machine that has little time for us


@pytest.mark.parametrize("name", fuzz.targets())
def test_fuzz(name):
    seconds = int(os.environ.get("FUZZ_SECONDS", SECONDS))
    for patience in PATIENCE:
        run, text = fuzz.play(name, seconds * patience, int(os.environ.get("SEED") or FIXED_SEED))
        print(text[-1500:])
        assert run.status == 0, f"{name}, seed {run.seed}\n{text[-8000:]}"
        if run.inputs > INPUTS_MIN:
            return
        assert run.cpu_seconds < seconds / 2, f"{name} hardly ran in {run.cpu_seconds} s\n{text[-2000:]}"
    pytest.skip(f"the machine had {run.cpu_seconds} s of CPU for {name} in {seconds * patience} s: {run.inputs} inputs")
