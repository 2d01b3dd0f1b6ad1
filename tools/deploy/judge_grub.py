"""Judges a HOST for a boot by GRUB: if GRUB can start the kernel once, forget that, and come back to Linux by itself."""
import re

from . import facts as f
from .verdict import others_may

# File systems of which GRUB can rewrite a block in place, by grub-probe's names (ext2 is ext2 to ext4). save_env works
# on block lists: copy-on-write file systems (btrfs, zfs) and layered disks (LVM, RAID, LUKS) cannot be written so.
GRUB_WRITABLE = {"ext2", "xfs", "fat"}


def judge(facts, verdict, *, linux_protocol, return_to, accept_changes):
    if _grub(facts, verdict):
        _grub_once(facts, verdict)
        _grub_default(facts, verdict, return_to, accept_changes)
        _grub_waits(facts, verdict)
        _boot_protocol(facts, verdict, linux_protocol)


def _grub(facts, verdict):
    if not facts.holds("grub-directory"):
        verdict.stop("there is no GRUB here: neither /boot/grub/grub.cfg nor /boot/grub2/grub.cfg",
                     "The machine must be booted by GRUB 2; a container or a directly booted kernel will not do")
        return False
    if not facts.holds("grub-tools"):
        verdict.stop("there is no grub-mkconfig", "Install GRUB's tools: apt-get install grub2-common")
        return False
    version = f.grub_version(facts)
    written = ".".join(f"{n:02}" if i else str(n) for i, n in enumerate(version)) if version else "unknown"
    verdict.say("GRUB", f"{written} in {facts.text('grub-directory')}")
    if version and version < (2, 0):
        verdict.stop("this GRUB is older than 2.00", "Upgrade it")
    if facts.lines("grub-tools-missing"):
        verdict.stop(f"missing: {', '.join(facts.lines('grub-tools-missing'))}",
                     "Install them: apt-get install grub2-common")
    return True


def _grub_once(facts, verdict):
    """Checks that GRUB itself can forget grub-reboot: else the machine would boot into the kernel for ever."""
    layers, system = facts.text("grub-abstraction").split(), facts.text("grub-fs").strip()
    where = f"{facts.text('grub-device').strip() or 'unknown device'}, {system or 'unknown'}"
    verdict.say("boot disk", f"{where}{', ' + '+'.join(layers) if layers else ''}, partition table "
                             f"{facts.text('grub-partmap').strip() or 'none'}")
    reason = ("GRUB cannot write there, so it could not forget grub-reboot, "
              "and the machine would never come back to Linux")
    if layers:
        names = {"lvm": "LVM", "mdraid1x": "RAID", "mdraid09": "RAID", "cryptodisk": "encryption", "luks": "encryption"}
        verdict.stop(f"/boot lies on {' and '.join(sorted({names.get(x, x) for x in layers}))}: {reason}",
                     "A plain partition with ext4 for /boot is needed")
    elif system not in GRUB_WRITABLE:
        verdict.stop(f"/boot is on {system or 'a file system that GRUB does not know'}: {reason}",
                     "A partition with ext4 for /boot is needed")
    elif system == "fat" and others_may(facts.text("grub-mode")):
        verdict.stop("/boot is on FAT, which keeps no modes of files: everybody on the machine could read the key in "
                     "the settings",
                     "Mount /boot with umask=0077 (in /etc/fstab), or use a partition with ext4")
    if facts.text("grub-once").strip() in ("", "0"):
        verdict.stop("grub.cfg does not look at next_entry, so grub-reboot has no effect", "Run update-grub")


def resolve_default(entries, wanted):
    """Returns the entry that GRUB takes for a value of `default`, or None: by number, title or id.

    A `>` stands between the levels of submenus (GRUB manual, "default")."""
    entry = None
    for part in (wanted or "0").split(">"):
        level = [e for e in entries if e.inside is entry]
        if re.fullmatch("[0-9]+", part):
            entry = level[int(part)] if len(part) < 6 and int(part) < len(level) else None
        else:
            entry = next((e for e in level if part in (e.title, e.id)), None)
        if entry is None:
            return None
    return entry


# Names of files that 10_linux makes entries of (grub-mkconfig_lib, grub_file_is_not_garbage), and other usual names of
# a kernel. memtest86+x64.bin, ipxe.lkrn and the like are left out, although `linux` loads them as well.
KERNEL_GARBAGE = re.compile(r"\.(old|sig|rpmsave|rpmnew|dpkg-.*)$")
KERNEL_NAME = re.compile(r"vmlinu[xz]|linux|kernel|bzimage", re.IGNORECASE)


def _grub_default(facts, verdict, return_to, accept_changes):
    words = facts.words("grub-settings")
    environment = facts.words("grub-environment")
    verdict.default = words.get("GRUB_DEFAULT", "")
    entries = [e for e in f.grub_entries(facts.lines("grub-entries")) if e.id != "peregrine"]
    linux = [e for e in entries if e.kind == "menuentry"]
    saved = verdict.default == "saved"
    wanted = environment.get("saved_entry", "") if saved else verdict.default
    entry = resolve_default(entries, wanted)
    verdict.needs_default_saved = not saved
    kernels = [k for k in facts.lines("kernels") if k != "vmlinuz" and not KERNEL_GARBAGE.search(k)]
    listed = [e.kernel for e in linux if KERNEL_NAME.search(e.kernel)]
    verdict.say("kernels", ", ".join(kernels) or "none named vmlinuz-*")
    verdict.say("default", f"GRUB_DEFAULT={verdict.default or 'unset'}"
                           f"{', saved_entry=' + (wanted or 'unset') if saved else ''}: "
                           f"{entry.title if entry else 'no such entry'}"
                           f"{', ' + entry.kernel if entry and entry.kernel else ''}")
    set_it = "Run grub-set-default with" if saved else "In /etc/default/grub set GRUB_DEFAULT to"
    if words.get("GRUB_ENABLE_BLSCFG") == "true":
        verdict.stop("GRUB takes its entries from /boot/loader/entries (GRUB_ENABLE_BLSCFG), where this program "
                     "cannot prove "
                     "that Linux stays the default", "Set GRUB_ENABLE_BLSCFG=false and run grub2-mkconfig, or use "
                                                     "Debian or Ubuntu")
    elif not linux:
        verdict.stop("grub.cfg lists no entry at all", "Run update-grub")
    elif not entry:
        verdict.stop(f"the default entry {wanted!r} is not in grub.cfg, so it cannot be proved that Linux stays the "
                     f"default",
                     f"{set_it} one of the entries ('SUBMENU>ENTRY' for one in a submenu), or 0; then run update-grub")
    elif entry.kind == "submenu":
        verdict.stop(f"the default entry {entry.title!r} is a submenu, so it cannot be told which kernel the machine "
                     f"would come back to",
                     f"{set_it} one entry of it, 'SUBMENU>ENTRY', or 0; then run update-grub")
    elif not KERNEL_NAME.search(entry.kernel):
        verdict.stop(f"the default entry {entry.title!r} starts no Linux, so the machine would not come back to it",
                     f"{set_it} an entry of Linux; then run update-grub")
    else:
        _password(facts, verdict, entry, linux[0])
        _kernel_to_return_to(facts, verdict, entry, sorted({*kernels, *listed}), return_to)
        missing = [kernel for kernel in kernels if kernel not in listed]
        if missing and not accept_changes:
            verdict.stop(f"{', '.join(missing)} in /boot {'is' if len(missing) == 1 else 'are'} not in GRUB's menu; "
                         f"install makes the "
                         "menu again, and another kernel than now could become the default",
                         "Run update-grub, reboot, and check again")
    armed = environment.get("next_entry", "")
    if armed.startswith("peregrine"):
        verdict.warn("one boot of the kernel is armed already: the next boot of this machine starts it",
                     f"install and uninstall disarm it; so does grub-editenv {facts.text('grub-directory')}/grubenv "
                     f"unset next_entry")
    elif armed:
        verdict.stop(f"one boot of {armed!r} is armed already (grub-reboot), and arming the kernel would forget that",
                     f"Reboot first, or run grub-editenv {facts.text('grub-directory')}/grubenv unset next_entry")
    if not saved and facts.holds("grub-default-overridden"):
        verdict.stop(f"GRUB_DEFAULT is set in {', '.join(facts.lines('grub-default-overridden'))}, which overrides "
                     f"/etc/default/grub",
                     "Set GRUB_DEFAULT=saved there, run grub-set-default 0 and update-grub")


def _kernel_to_return_to(facts, verdict, entry, kernels, return_to):
    """Checks that the default entry boots a kernel to return to.

    With several kernels the default must be the running one, which is known to boot here, or the one that the user
    names. `return_to`: its release or its file's name."""
    loaded = re.search(r"(?:^|\s)BOOT_IMAGE=(\S+)", facts.text("cmdline"))     # set by GRUB's `linux`
    running = {f"vmlinuz-{facts.text('kernel')}", *([loaded[1].rpartition("/")[2]] if loaded else ())}
    release = entry.kernel.removeprefix("vmlinuz-")
    if return_to and return_to not in (entry.kernel, release):
        verdict.stop(f"the machine would come back to {release}, the default, not to {return_to}",
                     "Make that the default (grub-set-default, or GRUB_DEFAULT and update-grub), or name the default")
    elif return_to or len(kernels) < 2:
        return
    elif entry.kernel in running:
        verdict.note(f"of {len(kernels)} kernels the machine comes back to {release}, "
                     "which is the default and runs now")
    else:
        verdict.stop(f"several kernels are installed, and the machine would come back to {release}, the default, while "
                     f"{facts.text('kernel')} runs: that the default boots here has not been seen",
                     f"Reboot into it and check again, or, if you know that it boots, say --return-to {release}")


def _password(facts, verdict, *entries):
    """Checks GRUB's password. With superusers GRUB starts only unrestricted entries without a password (GRUB manual,
    "Authentication")."""
    if not any(line.strip("'\" ") for line in facts.lines("grub-superusers")):
        return
    for entry in entries:
        while entry and entry.unrestricted:
            entry = entry.inside
        if entry:
            verdict.stop(f"GRUB asks for a password before it starts {entry.title!r}: after the run the machine "
                         f"would wait for a person",
                         "Add --unrestricted to the menu entries of Linux (CLASS= in /etc/grub.d/10_linux); then run "
                         "update-grub")
            return


def _grub_waits(facts, verdict):
    """Checks that GRUB goes on by itself, without a person at the keyboard.

    Its menu waits for ever if `timeout` is negative, unset, or no number (GRUB, grub-core/normal/menu.c)."""
    made = [line.partition("=")[2].strip("'\" ") for line in facts.lines("grub-timeouts")]
    words = facts.words("grub-settings")
    asked = {key: words.get(key, "") for key in ("GRUB_TIMEOUT", "GRUB_RECORDFAIL_TIMEOUT")}
    for key, value in asked.items():
        if value.startswith("-"):
            verdict.stop(f"{key}={value}: after the run GRUB would wait at its menu for a person",
                         f"Set {key}=5 in /etc/default/grub; then run update-grub")
            return
    if not made or not all(re.fullmatch(r"[0-9]+|.*\$.*", value) for value in made):
        verdict.stop("grub.cfg sets no timeout, or a negative one: after the run GRUB would wait at its menu for a "
                     "person",
                     "Set GRUB_TIMEOUT=5 in /etc/default/grub; then run update-grub")


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
        verdict.stop(f"{facts.text('grub-directory')}/{platform} holds no multiboot2.mod, so GRUB cannot start the "
                     f"kernel",
                     f"apt-get install {package}, then copy /usr/lib/grub/{platform}/multiboot2.mod there (the same "
                     f"version as the "
                     "other modules), or give a kernel with a Linux boot protocol header (--bzimage)")
