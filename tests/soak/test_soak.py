"""Half a minute of the soak: each fault once. `make soak HOURS=1` is the same for longer. Also quick reconnections
under strangers' frames."""
import pathlib
import subprocess
import sys

import pytest

from tests.lib.namespace import skip_without_tap

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--seconds", "30"), ("--seconds", "18", "--reconnect")], ids=["soak", "reconnect"])
def test_half_a_minute(words):
    skip_without_tap()
    done = subprocess.run([sys.executable, HERE / "soak.py", *words], capture_output=True, text=True, timeout=300)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
