"""A real file system in a file, mounted where a FakeHost's files are. Each of its writes is taken down, so the disk can
be made again as a power cut leaves it. grub-fstest, GRUB's own code, reads it as GRUB would. Needs root, a loop device
and FUSE."""
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time

from tests.deploy import block_log

TOOLS = ("mkfs.ext4", "mkfs.xfs", "debugfs", "grub-fstest", "fsfreeze", "mount", "umount", "ln", "sync")
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"


def which(tool):
    return shutil.which(tool, path=SYSTEM)


def skip_reason(directory, kind):
    """Returns the reason why a file system cannot be mounted here, or None."""
    if missing := [tool for tool in TOOLS if not which(tool)]:
        return f"{missing[0]} is not here: tools/setup.sh check"
    if not pathlib.Path("/dev/fuse").exists():
        return "there is no /dev/fuse here"
    if kind not in pathlib.Path("/proc/filesystems").read_text().split():
        return f"the kernel that runs here has no {kind}"
    probe = Disk(directory / "probe", "ext4")
    try:
        probe.mount(directory / "probe-mount")
    except subprocess.CalledProcessError as error:
        return f"no loop device can be mounted here: {error.stderr.decode().strip()}"
    probe.unmount()
    return None


def unmount(at):
    # A writer that was killed, or the loop device, may still hold it.
    for rest in reversed(range(50)):
        if not subprocess.run([which("umount"), at], check=not rest).returncode:
            break
        time.sleep(0.1)


class Disk:
    """An image with a file system. `boot` is the path of GRUB's files in it."""

    def __init__(self, image, kind, options=(), boot="/boot"):
        self.image, self.kind, self.boot, self.at = image, kind, boot, None
        size_mib = 320 if kind == "xfs" else 64         # mkfs.xfs makes none of less than 300 MB
        with open(image, "wb") as file:
            file.truncate(size_mib << 20)
        subprocess.run([which(f"mkfs.{kind}"), *options, "-q", image], check=True, capture_output=True)

    def mount(self, at, options="loop", image=None):
        at.mkdir(parents=True, exist_ok=True)
        subprocess.run([which("mount"), "-o", options, image or self.image, at], check=True, capture_output=True)
        self.at = at

    def unmount(self):
        if self.at:
            unmount(self.at)
            self.at = None


class RecordedDisk(Disk):
    """A disk whose writes are taken down."""

    def __init__(self, image, *arguments, **how):
        super().__init__(image, *arguments, **how)
        self.file, self.log, self.base = (image.with_suffix(end) for end in (".file", ".log", ".base"))
        self.begin, self.server = 0, None

    def mount(self, at, options="loop"):
        self.file.touch()
        command = [sys.executable, block_log.__file__, self.image, self.file, self.log]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout.readline() == "ready\n"
        super().mount(at, options, self.file)

    def unmount(self):
        super().unmount()
        if self.server:
            unmount(self.file)
            self.server.wait(60)
            self.server = None

    def start(self):
        """Begins the cuts here: what was written before counts as written."""
        subprocess.run(["cp", "--sparse=always", self.image, self.base], check=True)
        self.begin = self.log.stat().st_size

    def cuts(self, rng, subsets):
        """Yields a disk for each write after start. Between two flushes a disk may write in any order: yields disks
        that lack one write, and some with a random part of them. Skips those that differ in the journal alone, which
        GRUB does not read."""
        journal, group = self._journal(), []
        outside = lambda offset: not any(offset in part for part in journal)
        with open(self.base, "r+b", buffering=0) as disk:
            for write in [*block_log.read(self.log, self.begin), None]:
                if write:
                    group.append(write)
                    continue
                before = [(offset, _read_at(disk, offset, len(data))) for offset, data in group]
                for offset, data in group:
                    _write_at(disk, offset, data)
                    if outside(offset):
                        yield self.base
                loose = [write for write in group if outside(write[0])]
                orders = [[write for write in loose if write is not late] for late in loose]
                orders += [rng.sample(loose, rng.randrange(len(loose) + 1)) for _ in range(subsets)]
                for order in orders if len(loose) > 1 else ():
                    for offset, data in [*reversed(before), *order]:
                        _write_at(disk, offset, data)
                    yield self.base
                for offset, data in group:
                    _write_at(disk, offset, data)
                group = []

    def _journal(self):
        """Returns the ranges of the journal's bytes."""
        with open(self.base, "rb") as file:
            superblock = file.read(2048)
        if self.kind == "xfs":      # struct xfs_dsb of fs/xfs/libxfs/xfs_format.h
            block, group, count = (struct.unpack_from(">I", superblock, at)[0] for at in (4, 84, 96))
            start, shift = struct.unpack_from(">Q", superblock, 48)[0], superblock[124]
            start = (start >> shift) * group + (start & (1 << shift) - 1)
            extents = [(start, start + count - 1)]
        else:                       # struct ext4_super_block
            block = 1024 << struct.unpack_from("<I", superblock, 1024 + 24)[0]
            command = [which("debugfs"), "-R", "stat <8>", self.base]
            said = subprocess.run(command, capture_output=True, text=True).stdout
            extents = [(int(start), int(end)) for start, end in re.findall(r"\(\d+-\d+\):(\d+)-(\d+)", said)]
        assert extents
        return [range(start * block, (end + 1) * block) for start, end in extents]


def _read_at(disk, offset, count):
    disk.seek(offset)
    return disk.read(count)


def _write_at(disk, offset, data):
    disk.seek(offset)
    disk.write(data)


def read_by_grub(image, path):
    """Returns the bytes of a file as GRUB reads it, or None if GRUB does not find it."""
    done = subprocess.run([which("grub-fstest"), image, "cat", path], capture_output=True)
    return None if done.returncode else done.stdout
