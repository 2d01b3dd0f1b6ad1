"""KVM where it is there: the same boot and a game, as fast as this machine's KVM lets it."""
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]

import machine          # noqa: E402
import qemu             # noqa: E402

SLOW_BOOT_S_MAX = 300       # 1400 cycles an instruction, as on machines whose KVM interprets kernel code


def test_boot_under_kvm(capsys):
    works, finding = machine.probe_kvm()
    with capsys.disabled():
        print(f"\nKVM: {finding}")
    if finding.startswith("/dev/kvm does not open"):
        pytest.skip(finding)
    words = "" if works else "simd=scalar"
    with qemu.Machine(qemu.kernel(f"{words} probe=kvm"), accelerator="kvm", cpu="host") as host:
        host.wait_for("started by PVH", SLOW_BOOT_S_MAX)
        host.wait_reset(SLOW_BOOT_S_MAX)
