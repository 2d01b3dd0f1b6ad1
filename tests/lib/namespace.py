"""Network namespaces for tests."""
import os
import subprocess

import pytest

from workshop.vm import machine


def skip_without_tap():
    """Skips the test if there is no network namespace with a TAP or TUN device here."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun does not open here")
    done = subprocess.run([*machine.unshare_words(), "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no network namespace here: {done.stderr.strip()}")
