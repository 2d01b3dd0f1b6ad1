"""Every C unit test program, built by `make unit` (ASan and UBSan, or TSan), as one pytest item."""
import subprocess

import pytest

from tests.lib.paths import BUILD, ROOT

PROGRAMS = [*sorted(f"test/tests/unit/{p.stem}" for p in (ROOT / "tests/unit").glob("*_test.c")),
            "tsan/status_page_test", "tsan/spsc_test", "tsan/work_test",
            "tsan/digest_work_test"]


@pytest.mark.parametrize("name", PROGRAMS, ids=lambda name: name.replace("test/tests/unit/", ""))
def test_program(name):
    program = BUILD / name
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, f"{name} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
