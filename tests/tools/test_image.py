"""The image to ship: the same to the byte from any build folder, without names and lines, and small."""
import os
import shutil
import subprocess

import pytest

from deploy import commands, programs
from workshop.vm import qemu

NAMES = ("peregrine.elf", "peregrine.bzImage", "peregrine.debug")     # built in this tree, too
# By gcc 14; gcc 12 makes 2,000 less. An assertion takes 60 bytes, a name 10.
IMAGE_BYTES_MAX = 365_000


@pytest.mark.slow
def test_the_same_image_is_built_in_another_folder_and_it_is_small(tmp_path):
    folder = tmp_path / "a-folder-with-a-longer-name"
    shutil.copytree(qemu.ROOT, folder, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("MAKE") and name not in ("MFLAGS", "BUILD", "LWIP")}
    done = subprocess.run(["make", "-s", "-j2", *(f"build/{name}" for name in NAMES)], cwd=folder, capture_output=True,
                          text=True, env={**environment, "CCACHE_DISABLE": "1"}, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in NAMES:
        here, there = (qemu.BUILD / name).read_bytes(), (folder / "build" / name).read_bytes()
        assert here == there, f"{name} depends on its folder"
    assert qemu.IMAGE.stat().st_size <= IMAGE_BYTES_MAX


def test_no_image_ends_before_its_header_says():
    for path in qemu.BUILD.glob("**/peregrine.bzImage"):
        commands.kernel_for("linux", None, path, programs.PLAYER)


def test_the_image_names_nothing_and_the_debug_file_does():
    sections = subprocess.run(["readelf", "-SW", qemu.IMAGE], capture_output=True, text=True, check=True).stdout
    assert ".symtab" not in sections and ".debug_info" not in sections
    assert "kernel_main" in qemu.symbols()
    ids = [subprocess.run(["readelf", "-n", path], capture_output=True, text=True,
                          check=True).stdout.partition("Build ID")[2]
           for path in (qemu.IMAGE, qemu.DEBUG)]
    assert ids[0] and ids[0] == ids[1]
