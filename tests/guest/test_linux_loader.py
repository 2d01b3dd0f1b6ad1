"""The Linux boot protocol from a loader of our own (linux_loader.asm): the image away from pref_address, on top of its own
place or above 4 GiB, struct boot_params in its way, and memory maps that GRUB and QEMU do not make."""
import re
import subprocess

import pytest
import qemu

BZIMAGE = qemu.BUILD / "peregrine.bzImage"
WAITING = "waiting for the host"
LOW_PARAMS = 0x90000


def loader(directory, kernel_at, params_at=LOW_PARAMS, enter_64=0, hole=(0x10000000, 0x10001000)):
    path = directory / "loader"
    words = {"BZIMAGE": f'"{BZIMAGE}"', "KERNEL_AT": kernel_at, "PARAMS_AT": params_at, "ENTER_64": enter_64,
             "HOLE_BEGIN": hole[0], "HOLE_END": hole[1]}
    subprocess.run(["nasm", "-f", "bin", *(f"-D{name}={value}" for name, value in words.items()), "-o", path,
                    qemu.ROOT / "tests/guest/linux_loader.asm"], check=True, timeout=60)
    return ["-kernel", str(path)]


PLACES = {          # KERNEL_AT, PARAMS_AT
    "overlaps-from-below": (0xfe0000, LOW_PARAMS),
    "where-the-image-goes": (0x1000000, LOW_PARAMS),
    "in-the-bss": (0x1200000, LOW_PARAMS),
    "behind-the-image": (0x4000000, LOW_PARAMS),
    "params-where-the-image-goes": (0x4000000, 0x1001000),
    "params-in-the-bss": (0x1200000, 0x1800000),
}


@pytest.mark.parametrize("enter_64", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_image_starts_from_wherever_it_was_put(place, enter_64, tmp_path):
    with qemu.Machine(loader(tmp_path, *PLACES[place], enter_64), memory="512M") as guest:
        guest.wait_for(WAITING, 60)
    assert "started by Linux boot protocol; " in guest.log, guest.log


def test_image_starts_from_above_4_gib(tmp_path):
    with qemu.Machine(loader(tmp_path, 0x110000000, 0x120000000, 1), memory="5G") as guest:
        guest.wait_for(WAITING, 60)


def test_hole_below_the_image_is_no_obstacle(tmp_path):
    """The ISA hole of old chipsets: 15 MiB to 16 MiB, where pref_address begins."""
    with qemu.Machine(loader(tmp_path, 0x1000000, hole=(0xf00000, 0x1000000)), memory="512M") as guest:
        guest.wait_for(WAITING, 60)


def test_image_that_does_not_lie_in_ram_is_refused(tmp_path):
    """What the loader calls reserved may be a device, or memory that somebody else writes to."""
    with qemu.Machine(loader(tmp_path, 0x4000000, hole=(0x1800000, 0x1900000)), memory="512M") as guest:
        guest.wait_reset()
    assert re.search(r"memory: the image, 0x1000000-0x2\w+, does not lie in RAM", guest.log), guest.log
