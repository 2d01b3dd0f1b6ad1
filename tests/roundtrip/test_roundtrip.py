"""From a running Debian and back, in QEMU: the trips of trip.py. The transcripts stay in build/roundtrip/.

`make check` runs the first three; `make check-roundtrip` (ROUNDTRIP=1) runs all, each of which takes four to five
minutes."""
import os
import pathlib
import subprocess
import sys

import pytest

from tests.roundtrip.trip import TRIPS
from vm import machine
from vm import qemu

ROOT = pathlib.Path(__file__).resolve().parents[2]


def skip_reason():
    """Returns the reason why this test cannot run here, or None."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun does not open here"
    done = subprocess.run([*machine.unshare_words(), "true"], capture_output=True, text=True)
    return f"no network namespace here: {done.stderr.strip()}" if done.returncode else None


@pytest.mark.parametrize("name", list(TRIPS)[:None if os.environ.get("ROUNDTRIP") else 3])
def test_round_trip(name):
    if reason := skip_reason():
        pytest.skip(reason)
    transcript = qemu.BUILD / "roundtrip" / f"transcript-{name}.txt"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    with open(transcript, "w") as out:
        # The image is made here, because the trip's own network leads nowhere. It is kept in build/.
        image = [transcript.parent, TRIPS[name].release, TRIPS[name].disk]
        made = subprocess.run([ROOT / "tests/roundtrip/make_image.sh", *image], stdout=out, stderr=subprocess.STDOUT,
                              timeout=1800)
        assert made.returncode == 0, transcript.read_text()[-6000:]
        done = subprocess.run([*machine.unshare_words(), sys.executable, ROOT / "tests/roundtrip/trip.py", name],
                              stdout=out, stderr=subprocess.STDOUT, timeout=3600)
    assert done.returncode == 0, transcript.read_text()[-6000:]
