"""net/transport.h over each stack, against Linux and raw peers: every case of cases.py, in a network namespace of its
own. Needs /dev/net/tun and unshare(1) of user and network namespaces."""
import os
import pathlib
import subprocess
import sys

import pytest

from tests.transport.cases import CASES
from workshop.vm import machine

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

STACKS = ["lwip", "own"] if (ROOT / "net/own/transport.c").exists() else ["lwip"]


PROGRAMS = ROOT / os.environ.get("BUILD", "build") / "test/transport"


@pytest.mark.parametrize("stack", STACKS)
def test_contract(stack):
    done = subprocess.run([PROGRAMS / f"contract_test-{stack}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{stack}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", CASES)
def test_transport(name, stack):
    driver = PROGRAMS / f"stdin_driver-{stack}"
    words = [*machine.unshare_words(), sys.executable, HERE / "cases.py", name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=ROOT,
                          env={**os.environ, "STDIN_DRIVER": str(driver), "STACK": stack})
    assert done.returncode == 0, f"{name} over {stack}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
