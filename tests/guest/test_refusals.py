"""Settings and machines that the kernel refuses: a message names the cause, and Linux comes back."""
import os
import re
import subprocess

import pytest
from workshop.vm import qemu

GOOD = "feed=10.0.2.2:10001 submit=10.0.2.2:10002 user=u passwd=p n=256 m=3"


@pytest.mark.parametrize("words, message", [
    (GOOD + " colour=red", r'"colour'), (GOOD.replace("m=3", "m=12x4"), r'm=.*"12x4"'),
    (GOOD.replace("n=256", "n=many"), r'n=.*"many"'), (GOOD.replace("user=u ", ""), r"user"),
    (GOOD + " n=3", r'"n": given twice'), ("", r"feed"),
])
def test_bad_settings_are_named_and_linux_comes_back(words, message):
    with qemu.Machine(qemu.kernel(words) + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert re.search(rf"\] settings.*{message}", guest.log), guest.log
    assert "back to Linux: the settings cannot be used" in guest.log


@pytest.mark.parametrize("count", [4096, 6000])     # within QEMU's buffer, and beyond
def test_a_command_line_that_is_too_long_is_refused_whole(count):
    with qemu.Machine(qemu.kernel("#" + "x" * count) + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert "the command line is longer than 4095 bytes" in guest.log, guest.log


@pytest.mark.parametrize("image", [qemu.IMAGE, qemu.IMAGE.with_suffix(".bzImage")], ids=["elf", "bzImage"])
@pytest.mark.parametrize("memory", ["17M", "18M", "20M", "24M", "28M", "30M"])
def test_memory_smaller_than_the_image_is_reported(memory, image):
    with qemu.Machine(qemu.kernel("", image=image) + ["-vga", "none"], memory=memory) as guest:
        guest.wait_reset()
    found = re.search(r"memory: RAM ends at 0x([0-9a-f]+), the image at 0x([0-9a-f]+)", guest.log)
    assert found, guest.log
    assert abs(int(found[1], 16) - (int(memory[:-1]) << 20)) <= 1 << 18 and int(found[2], 16) > int(found[1], 16)


def test_a_module_that_is_too_long_is_refused_whole(tmp_path):
    module = tmp_path / "settings"
    module.write_text("#" + "x" * 16383)
    with qemu.Machine(qemu.kernel("", module) + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert "the module is longer than 16383 bytes" in guest.log, guest.log


def test_module_that_is_bad_is_named(tmp_path):
    module = tmp_path / "settings"
    module.write_text("whatever=1\n")
    with qemu.Machine(qemu.kernel(GOOD, module) + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert re.search(r'settings, module: "whatever', guest.log), guest.log


def test_machine_without_network_lists_its_devices():
    with qemu.Machine(qemu.kernel(GOOD) + ["-vga", "none", "-device", "e1000"]) as guest:
        guest.wait_reset()
    assert re.search(r"pci 00:\d\d\.0 8086:100e class 020000", guest.log), guest.log
    assert "back to Linux: no network device" in guest.log


def test_a_message_stands_on_the_screen_before_the_reset(tmp_path):
    with qemu.Machine(qemu.kernel("nonsense=1")) as guest:
        guest.wait_for("back to Linux")
        guest.screendump(tmp_path / "screen.ppm")       # QEMU is still there
        guest.wait_reset()


def test_no_character_is_lost_between_make_iso_and_the_settings(tmp_path):
    odd = "1\\'\"$PATH;{}*|&<>#!`"
    iso = qemu.make_iso(tmp_path / "odd.iso", f"user=u n={odd}")
    with qemu.Machine(qemu.iso(iso) + ["-vga", "none"]) as guest:
        guest.wait_reset(60)
    assert f'n=: "{odd}": ' in guest.log, guest.log


def test_make_iso_refuses_what_the_kernel_would_refuse(tmp_path):
    iso, module = tmp_path / "game.iso", tmp_path / "game.conf"
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    for words, text, message in ((GOOD.replace("n=256", "n=many"), "", '"many"'), ("", "m=12x4\n", '"12x4"')):
        module.write_text(text)
        done = subprocess.run(["make", "-s", "iso", f"ISO={iso}", f"CMDLINE={words}", f"MODULE={module}"],
                              cwd=qemu.ROOT, env=clean, capture_output=True, text=True)
        assert done.returncode != 0 and message in done.stderr, done.stderr
        assert not iso.exists()


def test_make_iso_asks_the_parser_of_the_program(tmp_path):
    iso, module = tmp_path / "an echo.iso", tmp_path / "its settings"
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    module.write_text("port=9\n")

    def make(*words):
        return subprocess.run(["make", "-s", "PROGRAM=echo", "iso", f"ISO={iso}", *words], cwd=qemu.ROOT, env=clean,
                              capture_output=True, text=True)

    done = make("CMDLINE=n=3")
    assert done.returncode == 2 and '"n": there is no such key in the program echo' in done.stderr
    done = make(f"MODULE={tmp_path}/nowhere")
    assert done.returncode == 2 and "nowhere: there is no such file" in done.stderr and not iso.exists()
    assert make(f"MODULE={module}").returncode == 0 and iso.exists()
