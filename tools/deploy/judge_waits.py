"""Judges if Linux boots without a person at its console: by either way the reset after a run leads to such a boot.

    what waits                                          known from
    an encrypted device that asks for its passphrase    crypttab, the kernel's command line, the mappings in use
    GRUB, or ZFS, that asks for one                     grub-probe, `zfs get keylocation`
    emergency mode: a device of fstab that is gone      fstab, /dev/disk, findfs
    fsck, for a file system with errors                 the counter of ext4
    a unit that asks for a password                     the units, and the agent's last start
    a loader's menu without timeout                     its configuration; GRUB's is judge_return.py's

A password of the firmware cannot be seen from Linux."""
import re

from . import facts as f
from .judge_return import boots_by_grub

WAITS = "after the run Linux would wait for a person"
UNLOCK = ("Let a key file in the initramfs, clevis, or a TPM (tpm2-device=) open it; or put dropbear into the "
          "initramfs, and open it over ssh after the run")
# systemd waits for local file systems alone (fstype_is_network in its source).
NETWORK_KIND = re.compile(r"(fuse\.)?(afs|ceph|cifs|davfs|gfs2?|glusterfs|lustre|ncpfs?|nfs4?|ocfs2|orangefs|pvfs2|"
                          r"smb3?|smbfs|sshfs)")
# Key scripts of Debian's cryptsetup that ask at the console, or want a card and its PIN.
ASKING_SCRIPT = re.compile(r"decrypt_(keyctl|gnupg|gnupg-sc|opensc|openct|ssl)|askpass")
# Words of the kernel's command line by which Linux stops at a shell (bootparam(7), kernel-command-line(7),
# dracut.cmdline(7), initramfs-tools(7)).
SHELL_WORD = re.compile(r"single|s|S|1|emergency|rescue|-b|-s|(rd\.)?break(=\S*)?|(rd)?init=\S*/(ba|da)?sh|"
                        r"systemd\.confirm_spawn(=(?!no|false|0)\S*)?|(rd\.)?systemd\.unit=(rescue|emergency)\.target")
# Targets that come before sshd.
EARLY_TARGET = re.compile(r"\b(sysinit|basic|local-fs|local-fs-pre|cryptsetup|sockets|network|network-pre|"
                          r"network-online|sshd?)\.(target|service|socket)")


def judge(facts, verdict):
    devices, mounts = f.encrypted(facts), f.fstab(facts)
    for device in devices.values():
        _encrypted(facts, verdict, device, mounts)
    _encrypted_menu(facts, verdict, devices)
    _zfs(facts, verdict)
    _fstab(facts, verdict, mounts)
    _fsck(facts, verdict)
    _asking(facts, verdict, devices)
    _shell(facts, verdict)
    _loader(facts, verdict)


def _needed(mount):
    """Returns true if Linux's boot ends in emergency mode without this line of fstab."""
    return mount.point.startswith("/") and mount.kind != "swap" and not NETWORK_KIND.fullmatch(mount.kind) and \
        not {"noauto", "nofail", "_netdev", "x-systemd.automount"} & set(mount.options)


def _encrypted(facts, verdict, device, mounts):
    known = any(line.startswith("/ ") for line in facts.lines("encrypted"))     # sysfs shows the devices below /
    root = re.search(r"(?:^|\s)root=(\S+)", facts.text("cmdline"))
    early = device.by == "cmdline" or {"/", "/usr"} & set(device.points) or {"initramfs", "x-initrd.attach"} & \
        set(device.options) or not known and root and root[1].startswith("/dev/") and "/mapper/" in root[1]
    needed = [mount for mount in mounts if _needed(mount)
              and (mount.point in device.points or mount.device == f"/dev/mapper/{device.name}")]
    if not early and not needed and (device.by != "crypttab" or {"noauto", "nofail"} & set(device.options)):
        return
    opened, sure = _opened_by(facts, device, early)
    if opened and sure:
        verdict.note(f"the encrypted device {device.name} is opened at boot by {opened}")
    elif opened:
        verdict.warn(f"the encrypted device {device.name} is opened at boot by {opened}, if the initramfs has what "
                     f"that needs, which could not be seen",
                     "See that Linux boots without a passphrase: reboot it once")
    elif early and (server := _ssh_in_initramfs(facts)):
        verdict.warn(f"Linux waits at boot until somebody gives the passphrase of {device.name} over ssh ({server} in "
                     f"the initramfs)", "Give it after the run, as after any reboot")
    else:
        verdict.stop(f"Linux asks for the passphrase of the encrypted device {device.name} when it boots: {WAITS}",
                     UNLOCK)


def _opened_by(facts, device, early):
    """Returns (what opens a device without a person, or an empty text; if that is certain)."""
    listed, names, tokens = facts.holds("initramfs"), facts.lines("initramfs"), f.key_tokens(facts).get(device.name)
    certain = not early or listed
    holds = lambda text: not certain or not early or any(text in name for name in names)
    if script := device.options.get("keyscript", "").rpartition("/")[2]:
        return ("", True) if ASKING_SCRIPT.fullmatch(script) else (f"its key script {script}", True)
    if re.fullmatch(r"/dev/u?random", device.key):
        return "a random key", True
    if {"fido2-device", "pkcs11-uri"} & set(device.options):
        return "", True
    of_tpm = [token for token in tokens or [] if "systemd-tpm2" in token]
    pin = device.options.get("tpm2-pin") in ("yes", "true", "1", "on") or \
        any(re.search("tpm2-pin: *(true|yes)", token) for token in tokens or [])
    if (of_tpm or tokens is None and "tpm2-device" in device.options) and not pin and holds("systemd-cryptsetup"):
        return "the TPM (systemd-cryptsetup)", certain and bool(of_tpm)
    if any("clevis" in token for token in tokens or []) and holds("clevis"):
        return "clevis", certain
    if tokens is None and any("clevis" in name for name in names):
        return "clevis", True
    return _key_file(facts, device, early, names if listed else None)


def _key_file(facts, device, early, names):
    """Looks for the file of a device's key: in the initramfs (`names`; None: not listed), or else on the disk."""
    path, of_device, _ = device.key.removeprefix("rootfs:").partition(":")
    path = path or f"/etc/cryptsetup-keys.d/{device.name}.key"
    if of_device:
        return f"the key file of another disk ({device.key})", False
    there = path in facts.lines("key-files")
    if not early or names is None:
        return (f"the key file {path}", not early) if there else ("", True)
    found = [name for name in names if name.endswith((path.lstrip("/"), f"keyfiles/{device.name}.key"))]
    return (f"the key file {path}", True) if found else ("", True)


def _ssh_in_initramfs(facts):
    for server in ("dropbear", "tinyssh", "sshd"):
        if any(server in name for name in facts.lines("initramfs")):
            return server
    return "dropbear" if not facts.holds("initramfs") and facts.holds("initramfs-ssh") else ""


def _encrypted_menu(facts, verdict, devices):
    """Checks that GRUB itself asks for no passphrase: it does if its menu lies on an encrypted device."""
    layers = {"cryptodisk", "luks", "luks2"} & set(facts.text("grub-abstraction").split())
    if not boots_by_grub(facts) or not layers and not any("/boot" in device.points for device in devices.values()):
        return
    if "tpm2_key_protector_init" in facts.text("esp-menus"):
        verdict.note("GRUB's menu lies on an encrypted device, which GRUB opens by the TPM")
    else:
        verdict.stop("GRUB's menu lies on an encrypted device, for which GRUB asks for a passphrase: after the run "
                     "GRUB would wait for a person", "Use a partition with ext4 for /boot that is not encrypted")


def _zfs(facts, verdict):
    for line in facts.lines("zfs-keys"):
        point, _, place = line.partition(" ")
        if place.startswith("file://") and not place.startswith("file:///run/"):
            verdict.note(f"the encrypted file system {point} is opened at boot by {place}")
        elif point == "/":
            verdict.stop(f"Linux asks for the passphrase of its root on ZFS (keylocation {place}) when it boots: "
                         f"{WAITS}", "Set keylocation to a file that the initramfs holds")
        else:
            verdict.warn(f"{point} on ZFS is encrypted (keylocation {place}): Linux may ask for its passphrase when it "
                         f"boots", "See that Linux boots without a passphrase: reboot it once")


def _fstab(facts, verdict, mounts):
    mounted = [words[1] for words in (line.split(" ") for line in facts.lines("mounts")) if len(words) > 1]
    missing = {f.plain(device) for device in facts.lines("fstab-missing")}
    for mount in mounts:
        there = (mount.point.rstrip("/") or "/") in map(f.plain, mounted)
        if not _needed(mount) or mount.point == "/" and there:
            continue
        # At its point another may be mounted, by hand. For a path of no device, as mergerfs', Linux does not wait.
        if mount.device in missing and (not there or re.match("/dev/|[A-Z]+=", mount.device)):
            verdict.stop(f"{mount.device}, which /etc/fstab mounts on {mount.point}, is not there: Linux would stop in "
                         f"emergency mode, and wait for a person", "Add nofail to its options, or take the line out")
        elif not there and (mount.device.startswith("/") or "=" in mount.device):
            verdict.warn(f"{mount.point} of /etc/fstab is not mounted: if that fails at boot, Linux stops in "
                         f"emergency mode, and waits for a person", "Mount it once, or add nofail to its options")


def _fsck(facts, verdict):
    if re.search(r"(^|\s)(fsck\.repair=yes|fsck\.mode=skip|fsckfix(=yes)?)(\s|$)", facts.text("cmdline")):
        return
    for line in facts.lines("ext4-errors"):
        device, _, count = line.partition(" ")
        verdict.stop(f"the file system on {device} has errors ({count} counted since its last check): at the next boot "
                     f"fsck may ask for a person", "Reboot Linux first, with fsck.repair=yes on its command line")


def _asking(facts, verdict, devices):
    for line in facts.lines("asking-units"):
        unit, _, where = line.partition(" ")
        if EARLY_TARGET.search(where):
            verdict.stop(f"the unit {unit} asks for a password when Linux boots, before ssh answers: {WAITS}",
                         f"Let it take the password from a file, or run systemctl disable {unit}")
        else:
            verdict.warn(f"the unit {unit} asks for a password when Linux boots",
                         "After the run it waits until somebody gives it")
    if not devices and re.search("=[1-9]", facts.text("asked")):
        verdict.warn("somebody asked for a password at the console while this Linux booted (systemd-ask-password)",
                     "See who: journalctl -b -u 'systemd-ask-password-*'; after the run it would ask again")


def _shell(facts, verdict):
    for word in facts.text("cmdline").split():
        if SHELL_WORD.fullmatch(word):
            verdict.stop(f"Linux was booted with {word}, which stops at a shell: {WAITS}",
                         "Take it out of the boot loader's configuration, reboot, and check again")
    target = facts.text("default-target").rpartition("/")[2]
    if target in ("rescue.target", "emergency.target"):
        verdict.stop(f"Linux boots into {target}: {WAITS}", "Run systemctl set-default multi-user.target")


def _loader(facts, verdict):
    if boots_by_grub(facts):
        return
    if "menu-force" in facts.text("loader-timeout"):
        verdict.stop("the menu of systemd-boot has no timeout (menu-force): after the run it would wait for a person",
                     "Run bootctl set-timeout 5, and set timeout 5 in loader.conf")
    words = {line[0].lower(): line[1].lower() for line in
             (line.split() for line in facts.lines("syslinux")) if len(line) > 1}
    menu = "ui" in words or words.get("default", "").endswith(".c32")       # menu.c32, vesamenu.c32
    if (menu or words.get("prompt", "0") != "0") and not {words.get("timeout", "0"),
                                                          words.get("totaltimeout", "0")} - {"0"}:
        verdict.stop("the menu of syslinux has no timeout: after the run it would wait for a person",
                     "Set TIMEOUT 50 in extlinux.conf or syslinux.cfg")
