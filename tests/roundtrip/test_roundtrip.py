"""From a running Debian and back, in QEMU: trip.py, once for each firmware. The transcripts stay in build/roundtrip/."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

import machine      # noqa: E402
import qemu         # noqa: E402


def why_not():
    """Why this does not run now, or None."""
    if not os.environ.get("ROUNDTRIP"):
        return "only by `make check-roundtrip`: some ten minutes, and not yet known to pass"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun does not open here"
    done = subprocess.run([*machine.unshare_words(), "true"], capture_output=True, text=True)
    return f"no network namespace here: {done.stderr.strip()}" if done.returncode else None


@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_round_trip(firmware):
    if reason := why_not():
        pytest.skip(reason)
    transcript = qemu.BUILD / "roundtrip" / f"transcript-{firmware}.txt"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    with open(transcript, "w") as out:
        done = subprocess.run([*machine.unshare_words(), sys.executable, ROOT / "tests/roundtrip/trip.py", firmware],
                              stdout=out, stderr=subprocess.STDOUT, timeout=2400)
    assert done.returncode == 0, transcript.read_text()[-6000:]
