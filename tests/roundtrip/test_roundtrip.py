"""From a running Debian and back, in QEMU: the trips of trip.py. The transcripts stay in build/roundtrip/.

`make check` runs the first three; `make check-roundtrip` (ROUNDTRIP=1) runs all, each of which takes four to five
minutes."""
import os
import subprocess
import sys

import pytest

from tests.lib.namespace import skip_without_tap
from tests.lib.paths import ROOT
from tests.roundtrip.trip import TRIPS
from workshop.vm import machine
from workshop.vm import qemu


@pytest.mark.parametrize("name", list(TRIPS)[:None if os.environ.get("ROUNDTRIP") else 3])
def test_round_trip(name):
    skip_without_tap()
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
    text = transcript.read_text().strip()
    assert done.returncode == 0, f"{text.splitlines()[-1]}\n{text[-6000:]}"
