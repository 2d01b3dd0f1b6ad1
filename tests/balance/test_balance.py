"""docs/balance.md: no request fails while one machine ends with GG, one is killed, and one is frozen for 5 s."""
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from vm import machine

BALANCE = pathlib.Path(__file__).with_name("balance.py")


def test_no_request_fails_while_machines_come_and_go():
    done = subprocess.run([*machine.unshare_words(), "true"], capture_output=True, text=True)
    if done.returncode or not shutil.which("wrk"):
        pytest.skip("wants wrk and a network namespace: " + done.stderr.strip())
    done = subprocess.run([*machine.unshare_words(), sys.executable, BALANCE, "hosted"], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] == 0 and found["requests"] > 100 and found["sent_again"] > 0, found
    assert all(count > 10 for count in found["requests_of"].values()), found
