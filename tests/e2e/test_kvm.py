"""The boot under KVM, if there is one. The time limit suits even a KVM that interprets kernel code."""
import pathlib
import subprocess
import sys

import pytest

from workshop.vm import machine
from workshop.vm import qemu
from tests.e2e import table

HERE = pathlib.Path(__file__).resolve().parent

SLOW_BOOT_S_MAX = 300       # 1400 cycles an instruction, as on machines whose KVM interprets kernel code


# One worker plays them: the probe takes long where KVM is slow.
pytestmark = pytest.mark.xdist_group("kvm")


@pytest.fixture(scope="module")
def kvm():
    """Returns (true if KVM works well enough to play, the finding in words)."""
    works, finding = machine.probe_kvm()
    (qemu.BUILD / "kvm-finding").write_text(finding + "\n")     # for the closing lines of the run
    if finding.startswith("/dev/kvm does not open"):
        pytest.skip(finding)
    return works, finding


def test_boot_under_kvm(kvm):
    works, finding = kvm
    try:
        boot_and_return("kvm", "" if works else "simd=scalar watchdog=off")
    except qemu.Timeout:
        if works:
            raise
        pytest.skip(f"KVM is too slow to boot here: {finding}")


def test_the_same_boot_under_tcg():
    boot_and_return("tcg", "simd=scalar")


def boot_and_return(accelerator, word):
    """Boots: everything comes up, no host answers on the network, and the kernel gives the machine back."""
    options = [*qemu.kernel(f"{table.GOOD_GAME.format(port=9)} net.timeout=1 {word}"), "-vga", "none", "-netdev",
               "hubport,id=net0,hubid=0", "-device", f"{machine.NICS['transitional']},netdev=net0"]
    with qemu.Machine(options, accelerator=accelerator, cpu=machine.CPUS[accelerator]) as host:
        host.wait_for("playing with simd=", SLOW_BOOT_S_MAX)
        host.wait_reset(SLOW_BOOT_S_MAX)


def test_game_under_kvm(kvm):
    if not kvm[0]:
        pytest.skip(f"KVM is too slow to play here: {kvm[1]}")
    done = subprocess.run([sys.executable, HERE / "row.py", "kernel-user-lwip", "kvm"], capture_output=True, text=True,
                          timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
