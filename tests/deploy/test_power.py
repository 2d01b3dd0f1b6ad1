"""The power goes while install, uninstall, arming or disarming runs, and GRUB reads the disk without its journal. The
file systems are real, in images, and so is sync. tests/deploy/disk.py takes the cuts."""
import os
import shutil
import signal
import subprocess

import pytest

from tests.deploy import disk
from tests.deploy.test_install import CONFIG, LINUX_ID, Deployment


class Machine(Deployment):
    """A deployment on a real disk; `watch` takes down what GRUB reads at each cut."""

    def __init__(self, directory, kind, *, make=(), options="loop,discard", full=False, separate=False, busy=False,
                 watched=True):
        if reason := disk.skip_reason(directory, kind):
            pytest.skip(reason)
        root, self.options, self.busy = directory / "host/root", options, None
        self.disks = [disk.Disk(directory / "root.img", kind, make)]
        self.disks[0].mount(root, options)
        if separate:
            self.disks.append(disk.Disk(directory / "boot.img", kind, make, boot=""))
            self.disks[1].mount(root / "boot", options)
        self.boot = root / "boot"
        super().__init__(directory)
        self.host.file("/fake/fs", "ext2\n" if kind == "ext4" else f"{kind}\n")
        self.real_tools("ln", "sync", "fsfreeze")
        if full:
            free = shutil.disk_usage(self.boot).free
            (self.boot / "ballast").write_bytes(b"\xcc" * (free - (3 << 20)))
        for how in ("--freeze", "--unfreeze"):
            subprocess.run([disk.which("fsfreeze"), how, self.boot], check=True)
        if busy:                    # keeps changing the block with GRUB's inodes and names
            self.busy = subprocess.Popen(["sh", "-c", "while sleep 0.003; do echo x >> log; : > log.1; rm log.1; done"],
                                         cwd=self.boot / "grub", start_new_session=True)
        self.watch = watched and disk.Watch(self.host, self.disks[-1], directory / "cuts", mounted=self.boot, fill=full)

    def real_tools(self, *tools):
        for tool in tools:
            self.host.program(tool, f'{disk.which(tool)} "$@"\n')

    def comes_back_from(self, image):
        """Mounts an image in place of the disk, as Linux does when the power is back."""
        self.disks[-1].unmount()
        self.disks[-1].mount(self.boot if len(self.disks) > 1 else self.host.root, self.options, image)

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
def test_grub_reads_the_old_file_or_the_new_one_whenever_the_power_goes(machine):
    machine.install()
    machine.kernel.write_bytes(machine.kernel.read_bytes() + b"newer")
    machine.config.write_text(CONFIG + "early=off\n")
    machine.install()
    machine.host.run(["way", "grub"], ["load"])
    machine.host.run(["way", "grub"], ["unload"])
    machine.uninstall()
    machine.watch.take()
    assert machine.watch.check() > 90
    assert machine.watch.newest_fits()


@pytest.mark.parametrize("machine", [on("ext4", "ext4")], indirect=True)
@pytest.mark.parametrize("sync", ["", "[ $# = 0 ] || exit 1; set -- -f %s\n"], ids=["sync -f", "sync of old"])
def test_without_fsfreeze_sync_brings_ext4_to_the_disk(machine, sync):
    (machine.host.bin / "fsfreeze").unlink()
    if sync:
        text = (machine.host.bin / "sync").read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + sync % machine.boot)
        machine.host.program("sync", text)
    machine.install()
    machine.uninstall()
    machine.watch.take()
    assert machine.watch.check() > 40 and machine.watch.newest_fits()


@pytest.mark.parametrize("machine", [on("xfs", "xfs")], indirect=True)
def test_xfs_without_fsfreeze_is_refused(machine):
    (machine.host.bin / "fsfreeze").unlink()
    before = machine.host.tree()
    done = machine.run("install")
    assert done.returncode == 1 and "fsfreeze" in done.stdout and "util-linux" in done.stdout
    assert machine.host.tree() == before


@pytest.mark.parametrize("machine", [on("ext4", "ext4", watched=False)], indirect=True)
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
        shutil.copy(machine.disks[0].image, tmp_path / f"cut-{at}")
        machine.comes_back_from(tmp_path / f"cut-{at}")
        assert machine.host.next_boot() == LINUX_ID
        machine.install() if at % 2 else machine.uninstall()
        assert not [path for path in machine.boot.rglob("*.peregrine-*")]
        machine.uninstall()
        assert machine.host.tree() == before
    assert cuts >= 3
