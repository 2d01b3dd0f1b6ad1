"""Short soaks: each fault some times. `make soak HOURS=1` and `make soak PROGRAM=trade` are the same for longer. Also
quick reconnections under strangers' frames."""
import pathlib
import subprocess
import sys

import pytest

from tests.lib.namespace import skip_without_tap

HERE = pathlib.Path(__file__).resolve().parent
RUNS = {"soak": "soak.py --seconds 30", "reconnect": "soak.py --seconds 18 --reconnect",
        "trade": "trade.py --seconds 65"}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_short_soak_has_no_problem(run):
    skip_without_tap()
    program, *words = RUNS[run].split()
    done = subprocess.run([sys.executable, HERE / program, *words], capture_output=True, text=True, timeout=400)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
