"""A real file system in a file, mounted where a FakeHost's files are. A copy of the file is the disk after a power cut:
grub-fstest, GRUB's own code, reads it as GRUB would. Needs root and a loop device."""
import pathlib
import shutil
import subprocess

# Files that GRUB reads: ours, and one that nobody may touch.
FILES = ("grub/grub.cfg", "grub/grubenv", "peregrine/peregrine.elf", "peregrine/settings", "vmlinuz-6.1.0-1-amd64")
TOOLS = ("mkfs.ext4", "mkfs.xfs", "grub-fstest", "fsfreeze", "mount", "umount", "ln", "sync")
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"


def which(tool):
    return shutil.which(tool, path=SYSTEM)


def skip_reason(directory, kind):
    """Returns the reason why a file system cannot be mounted here, or None."""
    if missing := [tool for tool in TOOLS if not which(tool)]:
        return f"{missing[0]} is not here: tools/setup.sh check"
    if kind not in pathlib.Path("/proc/filesystems").read_text().split():
        return f"the kernel that runs here has no {kind}"
    probe = Disk(directory / "probe", "ext4")
    try:
        probe.mount(directory / "probe-mount")
    except subprocess.CalledProcessError as error:
        return f"no loop device can be mounted here: {error.stderr.decode().strip()}"
    probe.unmount()
    return None


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
            subprocess.run([which("umount"), self.at], check=True)
            self.at = None


# Runs after each program that changes a folder or a disk. Another program's fsync first makes the journal commit all,
# which frees and trims what was replaced. A disk that is nearly full is filled, so that what was freed holds another
# file's bytes. Then it appends to log what Linux and what GRUB read of each file.
CUT = r"""#!/bin/sh
export PATH={system} LC_ALL=C
cd {work} || exit
if [ "$2" != frozen ]; then
    echo x >> {mounted}/other-file
    sync {mounted}/other-file
    [ {fill} = no ] || {{ yes XXXXXXX | dd of={mounted}/full bs=64k conv=fsync; }} 2>/dev/null
fi
cp {image} cut
i=0
for f in {files}; do i=$((i + 1)); grub-fstest cut cat {boot}/$f > grub-$i 2>/dev/null || rm -f grub-$i; done
{{
    echo "after $1"
    (cd {mounted} && sha256sum {files} 2>/dev/null)
    sha256sum grub-[1-9] 2>/dev/null
}} >> log
[ "$2" = frozen ] || rm -f {mounted}/full
"""
STOPS = ("mv", "rm", "ln", "sync", "fsfreeze", "grub-editenv")


class Watch:
    """Wraps the programs of a FakeHost: after each of them the power may go, and GRUB's view is taken down."""

    def __init__(self, host, disk, work, *, mounted, fill=False):
        self.disk, self.work = disk, work
        work.mkdir()
        cut = work / "power-goes"
        cut.write_text(CUT.format(system=SYSTEM, work=work, image=disk.image, kind=disk.kind, mounted=mounted,
                                  boot=disk.boot, files=" ".join(FILES), fill="yes" if fill else "no"))
        cut.chmod(0o755)
        self.cut = cut
        for tool in STOPS:
            real = which(tool)
            host.program(tool, f'''{real} "$@"
status=$?
case "$*" in *list) ;; *) {cut} {tool} $([ "$1" != --freeze ] || echo frozen) >/dev/null ;; esac
exit $status
''')

    def take(self):
        subprocess.run([self.cut, "now"], check=True)

    def lines(self):
        """Yields (after which program, what Linux reads, what GRUB reads)."""
        for block in (self.work / "log").read_text().split("after ")[1:]:
            tool, *lines = block.splitlines()
            sums = {name: value for value, name in (line.split() for line in lines)}
            yield (tool, tuple(sums.get(name) for name in FILES),
                   tuple(sums.get(f"grub-{i}") for i in range(1, len(FILES) + 1)))

    def check(self):
        """Checks that GRUB has always read what Linux reads, or what Linux read before the last change. Returns the
        number of cuts."""
        before = now = None
        count = 0
        for tool, linux, grub in self.lines():
            if linux != now:
                before, now = now or linux, linux
            wrong = [name for name, *sums in zip(FILES, grub, before, now) if sums[0] not in sums[1:]]
            assert not wrong, f"cut {count}, after {tool}: GRUB reads neither the old nor the new {wrong}"
            assert grub in (before, now), f"cut {count}, after {tool}: GRUB's files do not fit together"
            count += 1
        return count

    def newest_fits(self):
        """Returns true if GRUB reads now what Linux reads."""
        *_, (_, linux, grub) = self.lines()
        return linux == grub
