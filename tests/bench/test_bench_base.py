"""Each row of bench_base prints figures. `make bench-base` measures them."""
import subprocess

import pytest

from tests.bench import bench_base

PROGRAM = bench_base.BUILD / "host/tests/bench/bench_base"


@pytest.mark.parametrize("name", [name for row in bench_base.ROWS for name in row[:2] if name])
def test_row_is_measured(name):
    done = subprocess.run([PROGRAM, name, "1000"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    p50, p99, count = map(float, done.stdout.split())
    assert 0 < p50 <= p99 and count == 999
