"""The power button, which QMP's system_powerdown presses as virsh shutdown does: it means GG."""
import pytest
from workshop.vm import qemu

GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3"
NIC = ["-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n"]
MMIO = ["-netdev", "user,id=n,restrict=on", "-device", "virtio-net-device,netdev=n"]


def press_and_wait(guest):
    guest.wait_for("playing with", 90)
    guest.qmp("system_powerdown")
    guest.wait_reset()
    assert "power button: pressed, which means GG" in guest.log, guest.log
    assert "back to Linux: gg" in guest.log, guest.log


@pytest.mark.parametrize("machine, words", [("pc", ""), ("q35", ""), ("q35", " wait=sleep")])
def test_power_button_brings_linux_back(machine, words):
    with qemu.Machine(qemu.kernel(GAME + words) + NIC + ["-vga", "none"], machine=machine, network=True) as guest:
        press_and_wait(guest)


def test_power_button_brings_linux_back_on_uefi(tmp_path):
    iso = qemu.make_iso(tmp_path / "game.iso", GAME)
    with qemu.Machine(qemu.iso(iso, "uefi") + NIC, machine="q35", network=True) as guest:
        press_and_wait(guest)


@pytest.mark.parametrize("machine", ["microvm", "microvm,acpi=off"])
def test_machine_without_the_fixed_button_plays_on(machine):
    """A microvm's button is a Generic Event Device, which AML alone describes (ACPI 6.5 §5.6.9)."""
    with qemu.Machine(qemu.kernel(GAME + " deadline=4") + MMIO, machine=machine, network=True) as guest:
        guest.wait_for("playing with")
        assert "acpi: no tables" in guest.log or "no power button" in guest.log, guest.log
        guest.qmp("system_powerdown")
        line = guest.wait_for("back to Linux: .*\n").group()
        assert "back to Linux: deadline" in line, guest.log
