"""The matcher against the schoolbook oracle on seeded streams: more than 10^6 digits in all.

A failure prints the case's seed; `build/host/tests/matcher/matcher_check FAMILY SEED 1` replays it.
PEREGRINE_SEED=N runs other streams."""
import os
import subprocess

import pytest

from servers.contest import rounds
from tests.lib.paths import ROOT
from tests.lib.recordings import make_recording

CHECK = ROOT / "build/host/tests/matcher/matcher_check"
EMULATED = CHECK.with_name("matcher_check_emulated")        # this one's AVX-512 is C: tests/matcher/avx512_emulated.h
POLL = CHECK.with_name("matcher_poll")
WORK = CHECK.with_name("matcher_work")
POLL_MAX_US = 50
SEED = os.environ.get("PEREGRINE_SEED", "20220217")


SIMD = ("scalar", "avx2", "avx512")


def run(*words):
    """Runs the check. A variant that this machine lacks is emulated."""
    command = [CHECK, *map(str, words)]
    if words[-1] == "avx512" and subprocess.run([CHECK, "small", "1", "1", "avx512"],
                                                capture_output=True).returncode != 0:
        command[0] = EMULATED
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("simd", ((), ("scalar",)), ids=("chosen", "scalar"))
def test_small_windows_give_the_oracle_s_answers(simd):
    """The quick check of `make test`: the variant that the matcher chooses on this machine, and the scalar one."""
    done = run("small", SEED, 50_000, *simd)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_recorded_contest_gives_the_oracle_s_answers(tmp_path):
    path = tmp_path / "recording"
    digits = make_recording(path, rounds.ONLINE, 60)
    done = run("recording", path, 10**6)
    assert done.returncode == 0 and f"60 bursts, {len(digits)} digits, " in done.stdout, done.stdout + done.stderr
    assert " 0 answers" not in done.stdout
    path.write_text("no record\n")
    done = run("recording", path, 10**6)
    assert done.returncode == 2 and str(path) in done.stderr and "contest record" in done.stderr


def test_digits_built_to_fool_one_seed_do_not_fool_another():
    done = run("fooled", 1, 1)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("simd", SIMD)
def test_work_on_the_worst_streams_is_within_the_bounds(simd):
    """Work is counted, so that the machine's load does not matter."""
    done = subprocess.run([WORK, simd, ROOT / "tests/matcher/overflow_1024.txt"], capture_output=True, text=True,
                          timeout=300)
    if "cannot run it" in done.stderr:
        pytest.skip(f"this machine has no {simd}")
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("simd", ((), ("scalar",)), ids=("chosen", "scalar"))
def test_moduli_with_many_factors_2_and_5_give_the_oracle_s_answers(simd):
    done = run("tails", SEED, 30_000, *simd)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("simd", SIMD)
def test_a_sweep_over_edges_gives_the_oracle_s_answers(simd):
    """The quick row for defects at an edge: of a burst, a probe, a window, a run of zeros, a rehearsal."""
    done = run("sweep", SEED, 90_000, simd)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("family, digits", [("small", 300_000), ("mixed", 150_000), ("round", 120_000),
                                            ("wide", 90_000),
                                            ("adversarial", 200_000), ("families", 200_000), ("tails", 300_000)])
@pytest.mark.parametrize("part", (0, 1, 2))
def test_answers_are_the_oracles(family, digits, part):
    """A third of the digits for each variant."""
    done = run(family, int(SEED) + 1_000_000 * part, digits // 3, SIMD[part])
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("family", ("mixed", "round", "adversarial"))
def test_variants_agree_on_one_stream(family):
    """With one seed the variants run one after the other: each equals the oracle, and finds as many answers."""
    said = {run(family, SEED, 20_000, simd).stdout for simd in SIMD}
    assert len(said) == 1, said
    assert "all as the oracle has them" in said.pop()


EIGHT_LARGE = ",".join(f"202202172144{i}" for i in ("09", "10", "11", "13", "17", "19", "21", "23"))
EIGHT_TAILS = ",".join(str(2**k) for k in (511, 510, 509, 508, 507, 506)) + ",2,2"
EIGHT_K8 = ",".join(f"65536000000{i}" for i in ("01", "03", "07", "09", "21", "27", "39", "43"))
EIGHT_SMALL = "3,7,9,11,13,823,1009,99991"


@pytest.mark.slow
@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("moduli, stream", [
    ("online", "warm"), ("online", "zeros"), ("online", "nines"), ("online", "side0"), ("online", "side1"),
    ("online", "hot0"), ("online", "hot3"), (EIGHT_TAILS, "digit8"), (EIGHT_TAILS, "power2:256:78:240"),
    (EIGHT_K8, "zeros"), (EIGHT_SMALL, "warm"), (EIGHT_LARGE, "zeros"), (EIGHT_LARGE, "side0")])
def test_ring_is_polled_each_50_us_within_a_long_burst(simd, moduli, stream):
    """At N = 1024. Time on the CPU, the least of five runs of each turn: a busy machine takes up to twice as long."""
    done = subprocess.run([POLL, moduli, simd, "1024", "3000", stream], capture_output=True, text=True, timeout=60)
    if "cannot run it" in done.stderr:
        pytest.skip(f"this machine has no {simd}")
    assert done.returncode == 0, done.stderr
    print(f"{simd} {moduli} {stream}: {done.stdout.strip()} us")
    assert float(done.stdout) <= 2 * POLL_MAX_US


@pytest.mark.slow
@pytest.mark.parametrize("simd", SIMD)
def test_answers_at_the_edge_of_the_rounding_bound_are_found(simd):
    done = run("edges", SEED, 3_000_000, simd)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
