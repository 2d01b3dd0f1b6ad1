"""Judges a HOST for a boot by GRUB: if GRUB can start the kernel once, and forget that before it starts the kernel."""
import re

from . import facts as f
from .distribution import install, make_menu
from .judge_return import KERNEL_NAME, installed_kernels, restricted
from .text import number
from .verdict import others_may

# File systems of which GRUB can rewrite a block in place, by grub-probe's names (ext2 is ext2 to ext4). save_env works
# on block lists: copy-on-write file systems (btrfs, zfs) and layered disks (LVM, RAID, LUKS) cannot be written so.
GRUB_WRITABLE = {"ext2", "xfs", "fat"}

# Features of XFS, as xfs_info names them, and the first GRUB that reads a file system with them (NEWS of GRUB).
XFS_FEATURES = (("bigtime", (2, 6)), ("nrext64", (2, 12)), ("exchange", (2, 14)), ("parent", (2, 14)))

SPARE_KIB = 1024                            # in /boot: settings, copies of GRUB's files, and a reserve


def judge(facts, verdict, default, *, image_bytes, linux_protocol, accept_changes):
    """Judges a boot by GRUB. `default`: of judge_return; None if GRUB does not boot HOST."""
    loader = facts.text("efi-loader")
    if loader and not loader.upper().startswith("GRUB"):
        verdict.stop(f"the machine is booted by {loader}, not by GRUB", "grub-reboot arms GRUB alone")
    if _tools(facts, verdict):
        _once(facts, verdict)
        _esp(facts, verdict)
        _boot_protocol(facts, verdict, linux_protocol)
        if default:
            _default(facts, verdict, default, accept_changes)
    _boot(facts, verdict, image_bytes)


def _tools(facts, verdict):
    if not facts.holds("grub-directory"):
        verdict.stop("there is no GRUB here: neither /boot/grub/grub.cfg nor /boot/grub2/grub.cfg",
                     "A machine is booted once by GRUB 2 alone")
        return False
    if not facts.holds("grub-tools"):
        verdict.stop("there is no grub-mkconfig", f"Install GRUB's tools: {install(facts, 'grub2-common')}")
        return False
    version = f.grub_version(facts)
    written = ".".join(f"{n:02}" if i else str(n) for i, n in enumerate(version)) if version else "unknown"
    verdict.say("GRUB", f"{written} in {facts.text('grub-directory')}")
    if version and version < (2, 0):
        verdict.stop("this GRUB is older than 2.00", "Upgrade it")
    if facts.lines("grub-tools-missing"):
        verdict.stop(f"missing: {', '.join(facts.lines('grub-tools-missing'))}",
                     f"Install them: {install(facts, 'grub2-common')}")
    return True


def _once(facts, verdict):
    """Checks that GRUB itself can forget grub-reboot: else the machine would boot into the kernel each time."""
    layers, system = facts.text("grub-abstraction").split(), facts.text("grub-fs").strip()
    where = f"{facts.text('grub-device').strip() or 'unknown device'}, {system or 'unknown'}"
    verdict.say("boot disk", f"{where}{', ' + '+'.join(layers) if layers else ''}, partition table "
                             f"{facts.text('grub-partmap').strip() or 'none'}")
    reason = ("GRUB cannot write there, so it could not forget grub-reboot, "
              "and the machine would never come back to Linux")
    if layers:
        names = {"lvm": "LVM", "mdraid1x": "RAID", "mdraid09": "RAID", "cryptodisk": "encryption", "luks": "encryption"}
        found = {names.get(layer, layer) for layer in layers}       # grub-probe names diskfilter beside its kinds
        verdict.stop(f"/boot lies on {' and '.join(sorted(found - {'diskfilter'} or found))}: {reason}",
                     "A plain partition with ext4 for /boot is needed")
    elif system not in GRUB_WRITABLE:
        verdict.stop(f"/boot is on {system or 'a file system that GRUB does not know'}: {reason}",
                     "A partition with ext4 for /boot is needed")
    elif system == "fat" and others_may(facts.text("grub-mode")):
        verdict.stop("/boot is on FAT, which keeps no modes of files: everybody on the machine could read the key in "
                     "the settings",
                     "Mount /boot with umask=0077 (in /etc/fstab), or use a partition with ext4")
    elif system == "xfs" and not facts.holds("fsfreeze"):
        verdict.stop("/boot is on XFS and there is no fsfreeze: GRUB would not see what install writes until Linux has "
                     "emptied the journal", f"Install it: {install(facts, 'util-linux')}")
    if facts.has("grub-environment-link"):
        _linked_environment(facts, verdict)
    if facts.text("grub-once").strip() in ("", "0"):
        verdict.stop("grub.cfg does not look at next_entry, so grub-reboot has no effect", f"Run {make_menu(facts)}")
    _xfs(facts, verdict)


def _linked_environment(facts, verdict):
    """Checks the file that holds GRUB's environment if grubenv is a link, as to the EFI partition."""
    name = f"{facts.text('grub-directory')}/grubenv"
    system = facts.text("grub-environment-fs").strip()
    verdict.say("environment", f"{name} -> {facts.text('grub-environment-link') or 'nowhere'}")
    if not facts.holds("grub-environment-link"):
        verdict.stop(f"{name} is a link that leads nowhere, so GRUB would not see what arms it",
                     "Mount the file system that holds its target (often: mount /boot/efi), or make the link right")
    elif system not in GRUB_WRITABLE:
        verdict.stop(f"{name} is a link to a file on {system or 'a file system that GRUB does not know'}: GRUB cannot "
                     f"write there, so it could not forget grub-reboot", "Let it lie on ext4, XFS or FAT")


def _xfs(facts, verdict):
    """Checks that the GRUB on the disk reads /boot. The package's tools may be newer: an upgrade does not install them
    there."""
    core = f.grub_version(facts, "grub-core-version")
    newer = [name for name, first in XFS_FEATURES
             if core and core < first and re.search(rf"\b{name}=1\b", facts.text("xfs"))]
    if newer:
        verdict.stop(f"/boot is XFS with {' and '.join(newer)}, newer than the GRUB {facts.text('grub-core-version')} "
                     f"that is installed in {facts.text('grub-directory')}, which cannot read it",
                     "Run grub-install, as when this GRUB was installed")


def _esp(facts, verdict):
    """Checks that the GRUB on the ESP reads the menu in /boot: its directory there holds a stub that leads to the menu,
    or a menu of its own."""
    menus, lines = {}, []
    for line in facts.lines("esp-menus"):
        if line.startswith("file "):
            lines = menus.setdefault(line[5:], [])
        else:
            lines.append(line)
    booted = re.search(r"\\EFI\\([^\\]+)\\", facts.text("boot-current"), re.IGNORECASE)
    of_booted = [path for path in menus if booted and path.split("/")[-2].lower() == booted[1].lower()]
    ours = facts.text("grub-fs_uuid").strip()
    for path in of_booted or menus:
        text = "\n".join(menus[path])
        found = re.search(r"search\S*\s(?:.*\s)?([0-9a-fA-F]{4,8}-[0-9a-fA-F-]+)\b", text)
        if re.search(r"^\s*(menuentry|blscfg)", text, re.MULTILINE):
            verdict.stop(f"GRUB's menu is {path} on the ESP, and not {facts.text('grub-directory')}/grub.cfg",
                         "Reinstall the distribution's GRUB, which leaves only a stub there")
        elif found and ours and found[1].lower() != ours.lower():
            verdict.stop(f"{path} on the ESP leads GRUB to another menu, on the file system {found[1]}, and not to the "
                         f"one in /boot ({ours})", "Run grub-install, or remove what another system left on the ESP")


def _default(facts, verdict, default, accept_changes):
    if default.blscfg:
        verdict.stop("GRUB takes its entries from /boot/loader/entries (BLS), where this program cannot prove that "
                     "Linux stays the default", "There the kernel starts by kexec alone")
    if default.edited and not default.blscfg:
        verdict.stop(f"grub.cfg sets the default to {default.wanted!r}; install makes it again, and GRUB_DEFAULT="
                     f"{default.edited} names another entry", f"Run {make_menu(facts)}, reboot, and check again")
    if default.custom:
        verdict.stop(f"a line of its own in grub.cfg or custom.cfg sets the default to {default.custom!r} after "
                     f"grub.cfg has looked at next_entry, so grub-reboot has no effect",
                     "Set GRUB_DEFAULT in /etc/default/grub instead")
    if counter := facts.words("grub-environment").get("boot_counter"):
        verdict.stop(
            f"GRUB counts boots (boot_counter={counter}): the kernel's boot reports no success, and GRUB may then "
            "boot another entry than the default",
            f"Run {facts.text('grub-tools').strip()}-editenv {facts.text('grub-directory')}/grubenv unset boot_counter")
    linux = [e for e in default.entries if e.kind == "menuentry"]
    first = default.entries[0] if default.entries else default.entry
    if first is not default.entry and not default.blscfg and not KERNEL_NAME.search(first.kernel):
        verdict.stop(
            f"the first entry {first.title!r} starts no Linux by itself, and GRUB goes there if it cannot load the "
            f"kernel", "Let the entries of Linux come first (the numbers of the scripts in /etc/grub.d); then run "
            f"{make_menu(facts)}")
    elif first is not default.entry and (first := restricted(facts, first)):
        verdict.stop(
            f"GRUB asks for a password before it starts {first.title!r}, to which it goes if it cannot load the kernel",
            "Add --unrestricted to the menu entries of Linux (CLASS= in /etc/grub.d/10_linux); then run "
            f"{make_menu(facts)}")
    listed = [e.kernel for e in linux if KERNEL_NAME.search(e.kernel)]
    missing = [kernel for kernel in installed_kernels(facts) if kernel not in listed]
    if missing and listed and not default.blscfg and not accept_changes:
        verdict.stop(f"{', '.join(missing)} in /boot {'is' if len(missing) == 1 else 'are'} not in GRUB's menu; "
                     f"install makes the menu again, and another kernel than now could become the default",
                     f"Run {make_menu(facts)}, reboot, and check again")
    if not default.saved and facts.holds("grub-default-overridden"):
        verdict.stop(f"GRUB_DEFAULT is set in {', '.join(facts.lines('grub-default-overridden'))}, which overrides "
                     f"/etc/default/grub",
                     f"Set GRUB_DEFAULT=saved there, run grub-set-default 0 and {make_menu(facts)}")


def _boot(facts, verdict, image_bytes):
    free = facts.text("boot-free-kib").strip()
    if number(free) is not None:
        verdict.say("/boot", f"{int(free) // 1024} MiB free on {facts.text('boot-device')}")
        needed = (image_bytes or 0) // 1024 + SPARE_KIB
        if image_bytes is not None and int(free) < needed:
            verdict.stop(f"/boot is full: {free} KiB free, {needed} KiB needed",
                         "Remove an old kernel of Linux")
    if not facts.holds("boot-writable"):
        verdict.stop("/boot is mounted read-only", "Mount it for writing: mount -o remount,rw /boot")
    if facts.has("boot-room") and not facts.holds("boot-room"):
        verdict.stop("the folder /boot may have no room for one more name: it would change its form, and GRUB find no "
                     "Linux if the power goes while that is written",
                     "Remove an old kernel of Linux, or put the folder in order while it is not mounted: e2fsck -D")
    if others_may(facts.text("settings-mode")):
        verdict.stop(f"others on the machine can read the installed settings with their key (mode "
                     f"{facts.text('settings-mode')})",
                     "Put /boot on a file system that keeps modes, install again, and use another key")


def _boot_protocol(facts, verdict, linux_protocol):
    modules = facts.lines("grub-modules")
    if "multiboot2" in modules:
        verdict.protocol = "multiboot2"
    elif linux_protocol and ("linux" in modules or facts.holds("grub-signed")):
        verdict.protocol = "linux"
    names = {"multiboot2": "Multiboot2", "linux": "Linux boot protocol (this GRUB has no multiboot2)"}
    verdict.say("boot by", names.get(verdict.protocol, "none"))
    if not verdict.protocol:
        platform = "x86_64-efi" if facts.text("firmware") == "uefi" else "i386-pc"
        package = "grub-efi-amd64-bin" if platform == "x86_64-efi" else "grub-pc-bin"
        verdict.stop(
            f"{facts.text('grub-directory')}/{platform} holds no multiboot2.mod, so GRUB cannot start the kernel",
            f"{install(facts, package)}, then copy /usr/lib/grub/{platform}/multiboot2.mod there (the same version as "
            "the other modules), or give a kernel with a Linux boot protocol header (--bzimage)")
