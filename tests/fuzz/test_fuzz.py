"""Runs every fuzz target: the corpus first, then new inputs, for FUZZ_SECONDS in all, from a printed seed (SEED). By
default five seconds; `make fuzz` gives each an hour. A crash is kept in build/fuzz/crashes/, and build/fuzz/NAME FILE
repeats the crash."""
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
STACKS = ["lwip", "own"] if (ROOT / "net/transport_own.c").exists() else ["lwip"]


SECONDS = "5"


def targets():
    for source in sorted(HERE.glob("*_fuzz.c")):
        name = source.stem.removesuffix("_fuzz")
        if name.endswith("_stack"):
            yield from (f"{name.removesuffix('_stack')}-{stack}" for stack in STACKS)
        else:
            yield name


@pytest.mark.parametrize("name", targets())
def test_fuzz(name):
    seconds = os.environ.get("FUZZ_SECONDS", SECONDS)
    seed = os.environ.get("SEED") or "20220217"
    crashes = BUILD / "fuzz/crashes"
    crashes.mkdir(parents=True, exist_ok=True)
    corpora = [d for d in (HERE / "corpus" / name.split("-")[0],) if d.is_dir()]
    found = BUILD / "fuzz/corpus" / name        # new inputs are kept here, and the next run starts from them
    found.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([BUILD / "fuzz" / name, f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=4096",
                           "-timeout=30", "-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={crashes}/{name}-",
                           found, *corpora], capture_output=True, text=True, timeout=int(seconds) + 120, cwd=ROOT)
    print(done.stderr[-1500:])
    assert done.returncode == 0, f"{name}, seed {seed}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    runs = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    assert runs and int(runs[0].split()[-1]) > 100, f"{name} hardly ran\n{done.stderr[-2000:]}"
