"""The smallest Linux guest that can play: Debian's cloud kernel, busybox, and host/peregrine-linux in an initramfs.

For comparison only (tools/wire_probe.py guest). The packages are fetched from the distribution and unpacked
below build/, never installed."""
import fcntl
import pathlib
import re
import subprocess

from workshop.vm import machine

ROOT = machine.ROOT
WORK = ROOT / "build/linux-guest"
KERNEL, INITRAMFS = WORK / "vmlinuz", WORK / "initramfs"
MODULES = ("failover", "net_failover", "virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev",
           "virtio_pci", "virtio_net", "af_packet")
INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in {modules}; do [ ! -e /$module.ko ] || /bin/busybox insmod /$module.ko; done
/bin/busybox ip link set lo up
/bin/busybox ip addr add {address}/{bits} dev eth0
/bin/busybox ip link set eth0 up
if /bin/busybox grep -q ' tuned ' /proc/cmdline; then
    echo 50 > /proc/sys/net/core/busy_read
    echo 50 > /proc/sys/net/core/busy_poll
    /bin/busybox renice -n -20 -p $$
fi
/player $(/bin/busybox sed 's/.*peregrine: //' /proc/cmdline) > /dev/null 2>&1
/bin/busybox poweroff -f
"""


def package(name):
    """Returns the tree of a package, unpacked below build/. Two tests may ask at once."""
    tree = WORK / name
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name], cwd=WORK, check=True,
                           stdout=subprocess.DEVNULL)
            archive = next(WORK.glob(f"{name}_*.deb"))
            subprocess.run(["dpkg-deb", "-x", archive, tree], check=True)
            archive.unlink()
    return tree


def kernel_tree():
    shown = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True,
                           check=True)
    depends = re.search(r"Depends: (linux-image-\S+)", shown.stdout)
    if depends is None:
        raise OSError("apt knows no linux-image-cloud-amd64: it needs Debian, and package lists (apt-get update)")
    return package(depends[1])


def cpio_entry(name, data, mode):
    """Returns one file in the initramfs's format, "newc"."""
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def libraries(program):
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", shown)]


def initramfs(files, init):
    """Returns an initramfs. `files`: name -> path on this machine; `init`: the text of its first program."""
    directories = {str(parent) for name in files for parent in pathlib.PurePath(name).parents} - {"."} | {"proc", "dev"}
    entries = [cpio_entry(name, b"", 0o040755) for name in sorted(directories)]
    entries += [cpio_entry(name, path.read_bytes(), 0o100755) for name, path in files.items()]
    entries += [cpio_entry("init", init.encode(), 0o100755), cpio_entry("TRAILER!!!", b"", 0)]
    return b"".join(entries)


def program_files(**programs):
    """Returns the files that an initramfs needs for these programs, name -> path: they, their libraries, busybox."""
    files = {"bin/busybox": package("busybox-static") / "bin/busybox"}
    for name, path in programs.items():
        files[name] = pathlib.Path(path)
        files |= {str(library).lstrip("/"): library for library in libraries(path)}
    return files


def build(player, initramfs_path=INITRAMFS):
    """Makes KERNEL and an initramfs: the guest runs `player` with what follows "peregrine: " on its command line.

    `tuned` before that: all sockets poll the card (socket(7), SO_BUSY_POLL), and the program has the highest priority.
    The program's log goes nowhere: each line on the console would take the program's time."""
    tree = kernel_tree()
    files = program_files(player=player)
    for module in MODULES:
        for path in tree.rglob(f"{module}.ko"):
            files[f"{module}.ko"] = path
    init = INIT.format(modules=" ".join(MODULES), address=machine.TAP_GUEST, bits=machine.TAP_BITS)
    initramfs_path.write_bytes(initramfs(files, init))
    KERNEL.write_bytes(next(tree.glob("boot/vmlinuz-*")).read_bytes())
