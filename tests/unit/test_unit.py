"""Every C unit test program, built by `make unit`, as one pytest item."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = sorted(p.stem for p in (ROOT / "tests/unit").glob("*_test.c"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    program = ROOT / "build/test/tests/unit" / name
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, f"{name} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
