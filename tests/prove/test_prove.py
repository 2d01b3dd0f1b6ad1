"""The quickest proofs of `make prove`, if Frama-C is here."""
import subprocess
import sys
from pathlib import Path

import pytest

PROVE = Path(__file__).with_name("prove.py")
QUICK = ("dhcp", "tcp", "control", "ip", "arp", "virtqueue", "ip_payload")


@pytest.mark.slow
@pytest.mark.parametrize("proof", QUICK)
def test_parser_has_no_run_time_error(proof):
    done = subprocess.run([sys.executable, PROVE, proof], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
