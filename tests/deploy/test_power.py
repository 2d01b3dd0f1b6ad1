"""The power goes at each write that install, uninstall, arming or disarming makes, and GRUB reads the disk without its
journal. The file systems are real, in images, and so is sync. tests/deploy/disk.py makes the cuts."""
import collections
import os
import random
import shutil
import signal
import subprocess

import pytest

from tests.deploy import disk
from tests.deploy.test_install import CONFIG, LINUX_ID, Deployment


LINUX = "vmlinuz-6.1.0-1-amd64"
# Files that GRUB reads: ours, and one that nobody may touch.
FILES = ("grub/grub.cfg", "grub/grubenv", "peregrine/peregrine.elf", "peregrine/settings", LINUX)


class Machine(Deployment):
    """A deployment on a real disk, whose writes are taken down from `start` on."""

    def __init__(self, directory, kind, *, make=(), options="loop,discard", full=False, separate=False, busy=False,
                 names=0):
        if reason := disk.skip_reason(directory, kind):
            pytest.skip(reason)
        root, self.options, self.busy = directory / "host/root", options, None
        made = [(directory / "root.img", {})] + [(directory / "boot.img", {"boot": ""})] * separate
        self.disks = [disk.RecordedDisk(image, kind, make, **how) for image, how in made]
        for each, at in zip(self.disks, (root, root / "boot")):
            each.mount(at, options)
        self.boot, self.disk = root / "boot", self.disks[-1]
        super().__init__(directory)
        self.host.file("/fake/fs", "ext2\n" if kind == "ext4" else f"{kind}\n")
        self.real_tools("ln", "sync", "fsfreeze", "debugfs")
        for at in range(names):
            (self.boot / f"name-{at:02}").touch()
        if full:
            free = shutil.disk_usage(self.boot).free
            (self.boot / "ballast").write_bytes(b"\xcc" * (free - (3 << 20)))
        self.settle()
        if busy:                    # keeps changing the block with GRUB's inodes and names
            self.busy = subprocess.Popen(["sh", "-c", "while sleep 0.003; do echo x >> log; : > log.1; rm log.1; done"],
                                         cwd=self.boot / "grub", start_new_session=True)
        self.seen = collections.defaultdict(set)        # the bytes that each file has had, None for none
        self.see()
        self.disk.start()

    def real_tools(self, *tools):
        for tool in tools:
            self.host.program(tool, f'{disk.which(tool)} "$@"\n')

    def settle(self):
        for how in ("--freeze", "--unfreeze"):
            subprocess.run([disk.which("fsfreeze"), how, self.boot], check=True)

    def see(self):
        """Takes down what Linux reads of each file."""
        for name in FILES:
            path = self.boot / name
            self.seen[name].add(path.read_bytes() if path.exists() else None)

    def does(self, action, *arguments):
        action(*arguments)
        self.see()

    def check_cuts(self, subsets=4):
        """Checks, at each cut, that GRUB boots Linux, or the whole kernel with its settings. Returns the number of
        cuts."""
        seed, count = int(os.environ.get("SEED", random.randrange(1 << 32))), 0
        print("SEED", seed)
        for image in self.disk.cuts(random.Random(seed), subsets):
            read = {name: disk.read_by_grub(image, f"{self.disk.boot}/{name}") for name in FILES}
            assert read["grub/grub.cfg"] in self.seen["grub/grub.cfg"], f"cut {count}: no menu"
            assert read[LINUX] in self.seen[LINUX], f"cut {count}: no Linux"
            environment = read["grub/grubenv"]
            if len(environment or b"") != 1024 or not environment.startswith(b"# GRUB Environment Block"):
                assert environment in self.seen["grub/grubenv"], f"cut {count}: no environment"
            elif b"next_entry=peregrine" in environment:
                for name in FILES[2:4]:
                    assert read[name] and read[name] in self.seen[name], f"cut {count}: armed, and no {name}"
                assert b"--id peregrine" in read["grub/grub.cfg"], f"cut {count}: armed, and no entry"
            if b"--id peregrine" in read["grub/grub.cfg"]:
                assert all(read[name] in self.seen[name] for name in FILES), f"cut {count}: a damaged kernel"
            count += 1
        return count

    def comes_back_from(self, image):
        """Mounts an image in place of the disk, as Linux does when the power is back."""
        at = self.disk.at
        self.disk.unmount()
        shutil.copy(image, self.disk.image)
        self.disk.mount(at, self.options)

    def close(self):
        if self.busy:
            os.killpg(self.busy.pid, signal.SIGKILL)
            self.busy.wait()
        for each in reversed(self.disks):
            each.unmount()


@pytest.fixture
def machine(request, tmp_path):
    made = Machine(tmp_path, **request.param)
    yield made
    made.close()


def on(name, kind, **how):
    return pytest.param({"kind": kind, **how}, id=name)


@pytest.mark.parametrize("machine", [
    on("ext4 trimmed, beside a busy writer", "ext4", busy=True),
    on("ext4 nearly full", "ext4", options="loop", full=True),
    on("ext4 of small blocks for /boot alone", "ext4", make=("-b", "1024"), separate=True),
    on("xfs beside a busy writer", "xfs", busy=True),
    on("xfs for /boot alone", "xfs", options="loop", separate=True),
], indirect=True)
def test_grub_boots_linux_whichever_write_is_the_last(machine):
    machine.does(machine.install)
    machine.kernel.write_bytes(machine.kernel.read_bytes() + b"newer")
    machine.config.write_text(CONFIG + "early=off\n")
    machine.does(machine.install)
    machine.does(machine.host.run, ["way", "grub"], ["load"])
    machine.does(machine.host.run, ["way", "grub"], ["unload"])
    machine.does(machine.uninstall)
    machine.settle()
    assert machine.check_cuts() > 90


# /boot alone; its names fill the inode of XFS (336 bytes), or a block of ext4, up to the last name or the last but one.
EDGES = ({"kind": "xfs", "names": 17}, {"kind": "xfs", "names": 18},
         {"kind": "ext4", "names": 56, "make": ("-b", "1024")})
FULL = {"kind": "xfs", "names": 19}, {"kind": "ext4", "names": 57, "make": ("-b", "1024")}


def edges(machines):
    return pytest.mark.parametrize("machine", [on(f"{how['kind']} {how['names']}", options="loop", separate=True, **how)
                                               for how in machines], indirect=True)


@edges(EDGES)
def test_one_name_alone_is_new_in_a_folder_that_grub_needs(machine):
    form, names = machine.boot.stat().st_blocks, set(os.listdir(machine.boot))
    machine.does(machine.install)
    machine.does(machine.host.run, ["way", "grub"], ["load"])
    machine.does(machine.host.run, ["way", "grub"], ["unload"])
    assert machine.boot.stat().st_blocks == form and set(os.listdir(machine.boot)) == {*names, "peregrine"}
    machine.does(machine.uninstall)
    assert machine.boot.stat().st_blocks == form and set(os.listdir(machine.boot)) == names
    machine.settle()
    assert machine.check_cuts() > 90


@edges(FULL)
def test_a_folder_that_would_change_its_form_is_left_alone(machine):
    form, names = machine.boot.stat().st_blocks, set(os.listdir(machine.boot))
    done = machine.run("install")
    assert done.returncode in (1, 3) and "room for one more name" in done.stdout, done.stdout
    assert "fly --by kexec" in done.stdout + done.stderr
    assert machine.boot.stat().st_blocks == form and set(os.listdir(machine.boot)) == names
    machine.settle()
    machine.check_cuts()


@pytest.mark.parametrize("machine", [on("ext4", "ext4")], indirect=True)
@pytest.mark.parametrize("sync", ["", "[ $# = 0 ] || exit 1; set -- -f %s\n"], ids=["sync -f", "sync of old"])
def test_without_fsfreeze_sync_brings_ext4_to_the_disk(machine, sync):
    (machine.host.bin / "fsfreeze").unlink()
    if sync:
        text = (machine.host.bin / "sync").read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + sync % machine.boot)
        machine.host.program("sync", text)
    machine.does(machine.install)
    machine.does(machine.uninstall)
    machine.settle()
    assert machine.check_cuts() > 40


@pytest.mark.parametrize("machine", [on("xfs", "xfs")], indirect=True)
def test_xfs_without_fsfreeze_is_refused(machine):
    (machine.host.bin / "fsfreeze").unlink()
    with machine.host.unchanged():
        done = machine.run("install")
        assert done.returncode == 1 and "fsfreeze" in done.stdout and "util-linux" in done.stdout


@pytest.mark.parametrize("machine", [on("ext4", "ext4")], indirect=True)
def test_a_cut_between_the_rename_and_the_disk_is_swept_by_the_next_run(machine, tmp_path):
    before = machine.host.tree()
    cuts = 0
    for at in range(1, 60):
        done = machine.run("install", stop_at=at)
        if done.returncode == 0:
            break
        assert done.returncode == 3, done.stderr
        if not [path for path in machine.boot.rglob("*.peregrine-old")]:
            continue
        cuts += 1
        shutil.copy(machine.disk.image, tmp_path / f"cut-{at}")
        machine.comes_back_from(tmp_path / f"cut-{at}")
        assert machine.host.next_boot() == LINUX_ID
        machine.install() if at % 2 else machine.uninstall()
        assert not [path for path in machine.boot.rglob("*.peregrine-*")]
        machine.uninstall()
        assert machine.host.tree() == before
    assert cuts >= 3
