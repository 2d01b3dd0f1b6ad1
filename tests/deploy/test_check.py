"""check: its report, and every machine that it refuses. Each refusal comes before anything is changed."""
import os
import subprocess

import pytest

from tests.deploy.fakehost import ADDRESSES, LINUX, NEIGHBOUR, ROUTES, UUID, FakeHost

from deploy import commands, facts, judge_grub, judge_machine, preflight
from tests.deploy.test_install import LINUX_ID, Deployment

IMAGE_BYTES = 300 << 10


@pytest.fixture
def host(tmp_path):
    return FakeHost(tmp_path / "host")


def verdict(host, **how):
    return preflight.judge(commands.probe(host), **how)


def stops(host, **how):
    return [f.text for f in verdict(host, image_bytes=IMAGE_BYTES, **how).stops("grub")]


def test_no_text_of_a_fact_makes_another_fact():
    """A name from a DHCP lease or a title from a menu may hold what Python takes for the end of a line."""
    for end in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        found = facts.Facts(f"#fact dhcp 0\n name{end}#fact secure-boot 0{end} 0\n#end\n")
        assert found.complete and not found.holds("secure-boot") and len(found.lines("dhcp")) == 1


def test_a_good_machine_is_reported_whole(host):
    with host.unchanged():
        found = verdict(host)
        report = dict(found.report)
        assert not found.findings, found.lines()
        assert report["system"] == "Debian GNU/Linux 12 (bookworm), Linux 6.1.0-1-amd64"
        assert report["firmware"] == "BIOS"
        assert report["GRUB"] == "2.06 in /boot/grub"
        assert report["default"] == "GRUB_DEFAULT=0: Debian GNU/Linux, with Linux 6.1.0-1-amd64, vmlinuz-6.1.0-1-amd64"
        assert report["boot by"] == "Multiboot2"
        assert report["NIC"] == ("eth0: virtio_net, PCI, transitional, 1af4:1000 rev 0, 52:54:00:12:34:56, MTU 1500, "
                                 "1 receive queue(s)")
        assert report["address"] == "10.0.2.15/24"
        assert report["gateway"] == "10.0.2.2 52:55:0a:00:02:02"
        assert report["clock"] == "kvm-clock, TSC 2399998 kHz"
        assert found.handed_over["tsc.khz"] == "2399998"


def test_check_changes_nothing_even_without_an_environment_block(host):
    (host.grub / "grubenv").unlink()
    with host.unchanged():
        assert commands.check(host) == 0


def put(path, text, **how):
    return lambda host: host.file(path, text, **how)


def secure_boot(host):
    host.file("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\0\0\0\x01")
    host.file("/boot/grub/x86_64-efi/multiboot2.mod")


def no_multiboot2(host):
    (host.grub / "i386-pc/multiboot2.mod").unlink()


def no_grub(host):
    (host.grub / "grub.cfg").unlink()


def full(where, kib):
    return lambda host: host.program("df", f"case $2 in */{where}) free={kib} ;; *) free=99999 ;; esac\n"
                                           "echo Filesystem\necho x 9 9 $free 9%\n")


def default_overridden(host):
    host.file("/etc/default/grub.d/50-cloud.cfg", "GRUB_DEFAULT=2\n")
    host.file("/boot/vmlinuz-5.10.0-1-amd64")
    host.file("/boot/vmlinuz-5.10.0-2-amd64")
    host.update_grub()


def newer_kernel(host):
    host.file("/boot/vmlinuz-6.1.0-2-amd64")


def never_booted(host):
    newer_kernel(host)
    host.update_grub()


# Debian's own menu of two kernels: the first entry outside, all of them in a submenu.
DEBIAN = r"""#!/bin/sh
entry() {
  printf "%smenuentry '$2' --class gnu \$menuentry_id_option '$3' {\n" "$1"
  printf "%s\tlinux\t/boot/vmlinuz-$4 root=/dev/vda1 ro\n%s}\n" "$1" "$1"
}
tab=$(printf '\t')
entry '' 'Debian GNU/Linux' gnulinux-simple 6.1.0-2-amd64
printf "submenu 'Advanced options' \$menuentry_id_option 'gnulinux-advanced' {\n"
entry "$tab" 'Debian, with Linux 6.1.0-2' gnulinux-2 6.1.0-2-amd64
entry "$tab" 'Debian, with Linux 6.1.0-1' gnulinux-1 6.1.0-1-amd64
printf '}\n'
"""


def upgraded(host):
    (host.root / "boot/vmlinuz-6.1.0-1-amd64").unlink()
    never_booted(host)
    host.file("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.1.0-1-amd64 root=/dev/vda1\n")


def debian_menu(default):
    def spoil(host):
        newer_kernel(host)
        host.file("/etc/grub.d/10_linux", DEBIAN, 0o755)
        host.file("/etc/default/grub", f"GRUB_DEFAULT='{default}'\n")
        host.update_grub()
    return spoil


def windows_first(host):
    host.file("/etc/grub.d/05_other", "#!/bin/sh\nprintf \"menuentry 'Windows' {\\n\\tchainloader +1\\n}\\n\"\n", 0o755)
    host.update_grub()


def old_menu(host):
    path = host.grub / "grub.cfg"
    path.write_text("set timeout=5\nmenuentry 'Linux' --id linux {\n\tlinux /boot/vmlinuz-6.1.0-1-amd64\n}\n")


def on_fat(mode):
    def spoil(host):
        host.file("/fake/fs", "fat\n")
        (host.grub / "grub.cfg").chmod(mode)
    return spoil


def defaults(text):
    """Spoils GRUB's defaults as if the user had written them and run update-grub."""
    def spoil(host):
        host.file("/etc/default/grub", text)
        host.update_grub()
    return spoil


def own_line(line="superusers=root", linux_script=None):
    def spoil(host):
        host.file("/etc/grub.d/40_custom", f"#!/bin/sh\necho '{line}'\n", 0o755)
        if linux_script:
            host.file("/etc/grub.d/10_linux", linux_script, 0o755)
        host.update_grub()
    return spoil


def blscfg(host):
    path = host.grub / "grub.cfg"
    path.write_text("set timeout=1\ninsmod blscfg\nblscfg\n# next_entry\n")


def environment(word):
    return lambda host: subprocess.run(["grub-editenv", host.grub / "grubenv", "set", word], check=True)


def esp(text):
    def spoil(host):
        (host.root / "sys/firmware/efi/efivars").mkdir(parents=True)
        for module in ("multiboot2", "normal"):
            host.file(f"/boot/grub/x86_64-efi/{module}.mod")
        host.file("/boot/efi/EFI/debian/grub.cfg", text)
    return spoil


def new_xfs(host):
    host.file("/fake/fs", "xfs\n")
    host.program("xfs_info", "echo meta-data=/dev/vda1\necho '    =    reflink=1  bigtime=1 inobtcount=1 nrext64=1'\n")
    host.file("/boot/grub/i386-pc/normal.mod", b"\x7fELF\0GNU GRUB  version %s\0" + b"2.06-13+deb12u1\0")


def insisting_nic(table="FACP", flag="fpu"):
    """Returns the change to a host: its NIC insists on ACCESS_PLATFORM; an ACPI table, a flag of the processor."""
    def change(host):
        host.nic(features="1" * 34)
        host.file(f"/sys/firmware/acpi/tables/{table}")
        host.file("/proc/cpuinfo", f"model name\t: Test CPU\nflags\t\t: fpu lm {flag} constant_tsc avx2 bmi2\n\n"
                                   "processor\t: 1\n")
    return change


KERNEL = "6.1.0-1-amd64"
CRYPTTAB = "vda2_crypt UUID=0a1b2c3d-1111-4000-8000-00000000beef none luks,discard\n"
ASKS = "Linux asks for the passphrase of the encrypted device vda2_crypt"


def encrypted(crypttab=CRYPTTAB, *, root="/dev/mapper/vda2_crypt", cmdline="", initramfs=None, header=None, clevis="",
              files=()):
    """Returns the change to a host: Linux's root is encrypted. `initramfs`: the names that lsinitramfs prints.
    `header`: the text of cryptsetup luksDump."""
    def change(host):
        host.file("/etc/crypttab", crypttab)
        host.file("/dev/disk/by-uuid/0a1b2c3d-1111-4000-8000-00000000beef")
        host.file("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz-{KERNEL} root={root} ro {cmdline}\n")
        host.file(f"/boot/initrd.img-{KERNEL}")
        for name in files:
            host.file(name, "x")
        for tool, said in (("lsinitramfs", initramfs), ("cryptsetup", header), ("clevis", clevis)):
            if said:
                host.program(tool, f"cat <<'END'\n{said}\nEND\n")
    return change


def mapped(point="/", name="vda2_crypt"):
    """Returns the change to a host: a mount point lies on LVM, on an encrypted device, by sysfs alone."""
    def change(host):
        host.file("/proc/mounts", f"/dev/vda1 /boot ext4 rw 0 0\n/dev/mapper/vg-x {point} ext4 rw 0 0\n")
        host.link("/dev/mapper/vg-x", "../dm-1")
        host.file("/dev/dm-1")
        host.file("/sys/class/block/dm-1/dm/uuid", "LVM-abc\n")
        host.file("/sys/class/block/dm-1/slaves/dm-0/x")
        host.file("/sys/class/block/dm-0/dm/uuid", f"CRYPT-LUKS2-abc-{name}\n")
        host.file("/sys/class/block/dm-0/dm/name", name + "\n")
        host.file("/sys/class/block/dm-0/slaves/vda2/x")
    return change


def both(*changes):
    return lambda host: [change(host) for change in changes]


def asking_unit(target):
    def change(host):
        host.file("/etc/systemd/system/vault.service", "[Service]\nExecStart=/usr/bin/systemd-ask-password vault\n")
        host.link(f"/etc/systemd/system/{target}.wants/vault.service", "../vault.service")
    return change


KEY_LINE = "vda2_crypt UUID=0a1b2c3d-1111-4000-8000-00000000beef /etc/keys/root.key luks\n"
TPM_LINE = CRYPTTAB.replace("discard", "tpm2-device=auto")
TPM_TOKEN = "LUKS header\nTokens:\n  0: systemd-tpm2\n\ttpm2-pin:         false"
NO_TOKEN = "LUKS header\nTokens:"

WAITS_FOR_A_PERSON = {
    "a root on LUKS": (encrypted(), ASKS),
    "a root on LVM on LUKS": (encrypted(root="/dev/mapper/vg-root"), ASKS),
    "a root on LVM on LUKS, by sysfs": (both(encrypted("", root="UUID=1"), mapped()), ASKS),
    "a root on LUKS by dracut": (encrypted("", cmdline="rd.luks.name=0a1b2c3d-1111-4000-8000-00000000beef=vda2_crypt"),
                                 ASKS),
    "a root on LUKS by mkinitcpio": (encrypted("", cmdline="cryptdevice=UUID=0a1b2c3d:vda2_crypt"), ASKS),
    "a key file that is not in the initramfs": (
        encrypted(KEY_LINE, initramfs="usr/bin/busybox", files=["/etc/keys/root.key"]), ASKS),
    "a key file that is gone": (encrypted(KEY_LINE), ASKS),
    "a script that asks": (encrypted(CRYPTTAB.strip() + ",keyscript=/lib/cryptsetup/scripts/decrypt_keyctl\n"), ASKS),
    "a token that somebody touches": (encrypted(CRYPTTAB.strip() + ",fido2-device=auto\n", header=NO_TOKEN), ASKS),
    "a TPM with a PIN": (encrypted(TPM_LINE, header=TPM_TOKEN.replace("false", "true")), ASKS),
    "a TPM that the initramfs does not ask": (encrypted(TPM_LINE, header=TPM_TOKEN, initramfs="usr/bin/busybox"), ASKS),
    "a TPM that holds no key": (encrypted(TPM_LINE, header=NO_TOKEN), ASKS),
    "clevis that is not in the initramfs": (encrypted(header=NO_TOKEN, clevis="1: tang '{}'", initramfs="bin/sh"),
                                            ASKS),
    "another encrypted disk": (encrypted(root="/dev/vda1", initramfs="usr/sbin/dropbear"), ASKS),
    "an encrypted disk of fstab": (both(
        encrypted(CRYPTTAB.replace("discard", "noauto"), root="/dev/vda1"),
        put("/etc/fstab", "/dev/mapper/vda2_crypt /srv ext4 defaults 0 2\n")), ASKS),
    "a menu on LUKS": (put("/fake/abstraction", "cryptodisk luks\n"), "GRUB's menu lies on an encrypted device"),
    "a root on ZFS": (both(put("/proc/mounts", "rpool/root / zfs rw 0 0\n"), lambda host: host.program(
        "zfs", "case $4 in encryptionroot) echo rpool ;; *) echo prompt ;; esac\n")),
        "the passphrase of its root on ZFS (keylocation prompt)"),
    "a disk of fstab that is gone": (put("/etc/fstab", "UUID=12-34\t/srv\\040x ext4 defaults 0 2\n"),
                                     "UUID=12-34, which /etc/fstab mounts on /srv x, is not there"),
    "a disk of fstab in whose place another is mounted": (
        both(put("/etc/fstab", "UUID=12-34 /srv ext4 defaults 0 2"), put("/proc/mounts", "/dev/vdb /srv ext4 rw\n")),
        "UUID=12-34, which /etc/fstab mounts on /srv, is not there"),
    "a folder of fstab that is gone": (put("/etc/fstab", "/gone /srv none bind\n"), "/gone, which /etc/fstab mounts"),
    "errors that fsck may ask about": (put("/sys/fs/ext4/vda1/errors_count", "3\n"), "vda1 has errors (3 counted"),
    "a unit that asks": (asking_unit("sysinit.target"), "the unit vault.service asks for a password"),
    "a shell": (put("/proc/cmdline", "root=/dev/vda1 rd.break=mount ro\n"), "Linux was booted with rd.break=mount"),
    "rescue": (lambda host: host.link("/etc/systemd/system/default.target", "/lib/systemd/system/rescue.target"),
               "Linux boots into rescue.target"),
    "a menu of systemd-boot": (both(
        put("/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
            b"\x06\0\0\0" + "systemd-boot 252".encode("utf-16-le")), put("/boot/loader/loader.conf",
                                                                          "timeout menu-force\n")),
        "the menu of systemd-boot has no timeout"),
    "a menu of extlinux": (both(no_grub, put("/boot/extlinux.conf", "UI menu.c32\nPROMPT 1\nTIMEOUT 0\n")),
                           "the menu of syslinux has no timeout"),
    "a menu of Alpine": (both(no_grub, put("/boot/extlinux.conf", "DEFAULT menu.c32\nPROMPT 0\nTIMEOUT\t0\n")),
                         "the menu of syslinux has no timeout"),
}

GOES_ON = {
    "a key file in the initramfs": (encrypted(KEY_LINE, initramfs="cryptroot/keyfiles/vda2_crypt.key"),
                                    "note: the encrypted device vda2_crypt is opened at boot by the key file /etc/k"),
    "a key file, by dracut": (encrypted(KEY_LINE, initramfs="etc/keys/root.key"), "by the key file /etc/keys/root.key"),
    "a key file in an initramfs that cannot be listed": (
        encrypted(KEY_LINE, files=["/etc/keys/root.key"]), "warning: the encrypted device vda2_crypt is opened at boot "
                                                           "by the key file /etc/keys/root.key, if the initramfs has"),
    "a key file on the encrypted root": (both(
        encrypted("data UUID=0a1b2c3d-1111-4000-8000-00000000beef none luks\n", root="/dev/vda1",
                  files=["/etc/cryptsetup-keys.d/data.key"])), "data is opened at boot by the key file /etc/crypt"),
    "a key file, by mkinitcpio": (both(encrypted(
        "", cmdline="cryptdevice=UUID=0a1b2c3d:vda2_crypt cryptkey=rootfs:/etc/luks.key", initramfs="etc/luks.key"),
        mapped()), "by the key file /etc/luks.key"),
    "a key file, by mkinitfs": (both(encrypted(
        "", cmdline="cryptroot=UUID=0a1b2c3d cryptdm=vda2_crypt cryptkey=yes", files=["/crypto_keyfile.bin"]),
        mapped()), "by the key file /crypto_keyfile.bin, if"),
    "a key script": (encrypted(CRYPTTAB.strip() + ",keyscript=/bin/fetch\n"), "by its key script fetch"),
    "a TPM": (encrypted(TPM_LINE, header=TPM_TOKEN, initramfs="usr/lib/systemd/systemd-cryptsetup"), "by the TPM"),
    "clevis": (encrypted(header=NO_TOKEN, clevis="1: tang '{}'", initramfs="bin/clevis"), "opened at boot by clevis"),
    "dropbear": (encrypted(initramfs="usr/sbin/dropbear\nroot/.ssh/authorized_keys"),
                 "warning: Linux waits at boot until somebody gives the passphrase of vda2_crypt over ssh (dropbear"),
    "swap with a random key": (encrypted("swap /dev/vda3 /dev/urandom swap,cipher=aes\n", root="/dev/vda1"),
                               "swap is opened at boot by a random key"),
    "an encrypted disk that may be missing": (encrypted(CRYPTTAB.replace("discard", "nofail"), root="/dev/vda1"), ""),
    "an encrypted disk that somebody opened": (both(encrypted("", root="/dev/vda1"), mapped("/mnt")), ""),
    "ZFS with a key file": (both(put("/proc/mounts", "rpool/root / zfs rw 0 0\n"), lambda host: host.program(
        "zfs", "case $4 in encryptionroot) echo rpool ;; *) echo file:///etc/key ;; esac\n")), "by file:///etc/key"),
    "lines of fstab that stop nothing": (both(
        put("/etc/fstab", "# UUID=1 /a ext4\nUUID=2 /b ext4 nofail\nUUID=3 /c ext4 noauto\nUUID=4 none swap sw\n"
                          "//server/share /d cifs x\nserver:/e /e nfs defaults\nUUID=5 /f ext4 x-systemd.automount\n"
                          "UUID=6 / ext4 errors=remount-ro 0 1\ntmpfs /tmp tmpfs defaults\n/mnt/d* /g fuse.mergerfs x\n"
                          "/dev/g\\040h /h ext4 x"), put("/dev/g h", ""),
        put("/proc/mounts", "/dev/vda1 / ext4 rw 0 0\nd1 /g fuse.mergerfs rw 0 0\n/dev/dm-1 /h ext4 rw 0 0\n")), ""),
    "a line of fstab that is not mounted": (both(
        put("/etc/fstab", 'LABEL="data" /srv ext4 defaults\n'), put("/dev/disk/by-label/data", "")),
        "warning: /srv of /etc/fstab is not mounted"),
    "an fsck that repairs": (both(put("/sys/fs/ext4/vda1/errors_count", "3\n"),
                                  put("/proc/cmdline", "root=/dev/vda1 fsck.repair=yes\n")), ""),
    "a unit that asks late": (asking_unit("multi-user.target"), "warning: the unit vault.service asks for a password"),
    "a password that was asked for": (
        lambda host: host.program("systemctl", "echo ActiveEnterTimestampMonotonic=7000\n"),
        "warning: somebody asked for a password at the console"),
}

BOTH_REFUSED = {
    **WAITS_FOR_A_PERSON,
    "a menu that waits for ever": (defaults("GRUB_TIMEOUT=-1\n"), "GRUB_TIMEOUT=-1: after the run GRUB would wait"),
    "a menu that waits after a failed boot": (defaults("GRUB_TIMEOUT=5\nGRUB_RECORDFAIL_TIMEOUT=-1\n"),
                                              "GRUB_RECORDFAIL_TIMEOUT=-1"),
    "an empty timeout": (defaults("GRUB_TIMEOUT=\n"), "grub.cfg sets no timeout"),
    "a menu that waits by one's own line": (own_line("set  timeout=-1"), "sets no timeout, or a negative one"),
    "a password": (own_line(), "GRUB asks for a password before it starts 'Debian GNU/Linux, with Linux 6.1.0-1-amd"),
    "another boot armed": (environment("next_entry=memtest"), "one boot of 'memtest' is armed already"),
    "another processor": (lambda host: host.program("uname", "echo aarch64\n"), "the processor is aarch64"),
    "Secure Boot": (secure_boot, "Secure Boot is on"),
    "default never booted": (never_booted, "the machine would come back to 6.1.0-2-amd64, the default, while "
                                           "6.1.0-1-amd64 runs"),
    "default never booted, which GRUB's settings hide": (
        both(never_booted, put("/etc/default/grub", "GRUB_DEFAULT=1\n")), "would come back to 6.1.0-2-amd64"),
    "the only kernel never booted": (upgraded, "the machine would come back to 6.1.0-2-amd64, the default, while"),
    "default is a submenu": (debian_menu("1"), "the default entry 'Advanced options' is a submenu"),
    "default in a submenu, without it": (debian_menu("gnulinux-1"),
                                         "the default entry 'gnulinux-1' is not in grub.cfg"),
    "default in a submenu, never booted": (debian_menu("1>0"), "the machine would come back to 6.1.0-2-amd64"),
    "another system first": (windows_first, "the default entry 'Windows' starts no Linux"),
    "default overridden": (default_overridden, "GRUB_DEFAULT is set in "),
    "another NIC": (lambda host: host.nic("ena"), "eth0 is driven by ena"),
    "an ip without JSON": (lambda host: host.program("ip", '[ "$1" != -j ] || exit 1\n'
                                                           "echo default via 10.0.2.2 dev eth0\n"),
                           "the `ip` here cannot print JSON (ip -j), as BusyBox's cannot"),
    "no ip": (lambda host: (host.bin / "ip").unlink(), "there is no `ip` here"),
    "a tool missing": (lambda host: (host.bin / "sha256sum").unlink(), "missing here: sha256sum"),
    "no NIC": (lambda host: host.network([], [], []), "no interface carries an IPv4 default route"),
    "no address": (lambda host: host.network(ROUTES, [], []), "eth0 has no IPv4 address"),
    "IOMMU": (insisting_nic(table="DMAR"), "insists on ACCESS_PLATFORM, and this machine has an IOMMU or encrypted "
                                           "memory: DMAR"),
    "virtio-iommu": (insisting_nic(table="VIOT"), "encrypted memory: VIOT"),
    "SEV": (insisting_nic(flag="sev"), "encrypted memory: SEV"),
    "TDX": (insisting_nic(flag="tdx_guest"), "encrypted memory: TDX"),
}


@pytest.mark.parametrize("table, features", [("FACP", "1" * 34), ("DMAR", "1" * 33)])
def test_nic_is_taken_unless_it_insists_and_there_is_an_iommu(table, features, tmp_path):
    host = Deployment(tmp_path).host
    host.nic(features=features)
    host.file(f"/sys/firmware/acpi/tables/{table}")
    assert not stops(host)


GRUB_REFUSED = {
    "FAT": (on_fat(0o755), "/boot is on FAT, which keeps no modes"),
    "a menu that is going to wait": (put("/etc/default/grub", "GRUB_TIMEOUT=-1\n"), "GRUB_TIMEOUT=-1"),
    "no GRUB": (no_grub, "there is no GRUB here"),
    "no GRUB tools": (lambda host: (host.bin / "grub-mkconfig").unlink(), "there is no grub-mkconfig"),
    "a GRUB tool missing": (lambda host: (host.bin / "grub-reboot").unlink(), "missing: grub-reboot"),
    "systemd-boot": (put("/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
                         b"\x06\0\0\0" + "systemd-boot 252".encode("utf-16-le")), "booted by systemd-boot 252"),
    "LVM": (put("/fake/abstraction", "lvm\n"), "/boot lies on LVM: GRUB cannot write there"),
    "RAID": (put("/fake/abstraction", "diskfilter mdraid1x\n"), "/boot lies on RAID: GRUB cannot write"),
    "btrfs": (put("/fake/fs", "btrfs\n"), "/boot is on btrfs: GRUB cannot write there"),
    "zfs": (put("/fake/fs", "zfs\n"), "/boot is on zfs"),
    "read-only": (put("/proc/mounts", "/dev/vda1 / ext4 rw 0 0\n/dev/vda2 /boot ext4 ro,relatime 0 0\n"),
                  "mounted read-only"),
    "full": (full("boot", 1000), "/boot is full"),
    "no multiboot2": (no_multiboot2, "holds no multiboot2.mod"),
    "default unknown": (defaults("GRUB_DEFAULT='Long ago'\n"), "the default entry 'Long ago' is not in grub.cfg"),
    "no Linux to fall back to": (lambda host: (windows_first(host), defaults("GRUB_DEFAULT=1\nGRUB_TIMEOUT=5\n")(host)),
                                 "the first entry 'Windows' starts no Linux by itself"),
    "default edited": (put("/etc/default/grub", "GRUB_DEFAULT=1\n"), "GRUB_DEFAULT=1 names another entry"),
    "default by an own line": (own_line(f"default={LINUX_ID}"), "a line of its own in grub.cfg or custom.cfg sets"),
    "kernel not in the menu": (newer_kernel, "vmlinuz-6.1.0-2-amd64 in /boot is not in GRUB's menu"),
    "BLS": (defaults("GRUB_DEFAULT=saved\nGRUB_ENABLE_BLSCFG=true\n"), "GRUB takes its entries from "),
    "old menu": (old_menu, "does not look at next_entry"),
    "blscfg in grub.cfg": (blscfg, "GRUB takes its entries from /boot/loader/entries (BLS)"),
    "custom.cfg": (put("/boot/grub/custom.cfg", "set default='gnulinux-6.1.0-1-amd64'\n"),
                   "custom.cfg sets the default to 'gnulinux-6.1.0-1-amd64'"),
    "boots counted": (environment("boot_counter=2"), "GRUB counts boots (boot_counter=2)"),
    "another's stub on the ESP": (esp("search.fs_uuid 00000000-1111-2222-3333-444444444444 root\n"),
                                  "EFI/debian/grub.cfg on the ESP leads GRUB to another menu, on the file system 0000"),
    "a menu on the ESP": (esp("menuentry 'Fedora' {\n}\n"), "GRUB's menu is /boot/efi/EFI/debian/grub.cfg on the ESP"),
    "XFS newer than GRUB": (new_xfs, "/boot is XFS with nrext64, newer than the GRUB 2.06-13+deb12u1"),
}

KEXEC_REFUSED = {
    "no kexec-tools": (lambda host: (host.bin / "kexec").unlink(), "there is no kexec here"),
    "a Linux without kexec": (lambda host: (host.root / "sys/kernel/kexec_loaded").unlink(), "this Linux has no kexec"),
    "loaded by another": (put("/sys/kernel/kexec_loaded", "1\n"), "another kernel is loaded for kexec already"),
    "disabled": (put("/proc/sys/kernel/kexec_load_disabled", "1\n"), "kernel.kexec_load_disabled is 1"),
    "limited": (put("/proc/sys/kernel/kexec_load_limit_reboot", "0\n"), "kernel.kexec_load_limit_reboot is 0"),
    "locked down": (put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"), "Linux is locked down"),
    "/run full": (full("run", 100), "/run is full: 100 KiB free"),
}


def refused(machine, spoil, reason, *ways):
    """Judges a machine that was spoilt; returns the lines of `check`. Each fault comes with advice."""
    spoil(machine.host)
    found = verdict(machine.host, linux_protocol=False, image_bytes=IMAGE_BYTES)
    assert all(found.stops(way) for way in ways) and any(reason in f.text for f in found.stops(ways[0])), found.lines()
    assert all(f.advice or "processor" in f.text for f in found.findings if f.level == "stop")
    return "\n".join(found.lines())


@pytest.mark.parametrize("name", BOTH_REFUSED)
def test_refused_by_both_ways(name, machine):
    spoil, reason = BOTH_REFUSED[name]
    assert "stop: " in refused(machine, spoil, reason, "grub", "kexec")
    with machine.host.unchanged():
        done = machine.run("fly", "--config", machine.config)
        assert done.returncode == 1 and reason in done.stdout
        assert "not by GRUB and not by kexec: nothing was changed" in done.stderr


@pytest.mark.parametrize("name", GOES_ON)
def test_what_waits_for_nobody_is_told_and_stops_nothing(name, host):
    change, said = GOES_ON[name]
    change(host)
    found = verdict(host, image_bytes=IMAGE_BYTES)
    assert not found.stops("grub") and not found.stops("kexec"), found.lines()
    assert said in "\n".join(found.lines()) and (said or not found.findings), found.lines()


@pytest.mark.parametrize("name", GRUB_REFUSED)
def test_refused_by_grub_alone(name, machine):
    spoil, reason = GRUB_REFUSED[name]
    lines = refused(machine, spoil, reason, "grub")
    assert "note: not by GRUB: " in lines and "stop: " not in lines
    with machine.host.unchanged():
        done = machine.run("install")
        assert done.returncode == 1 and reason in done.stdout and "nothing was changed" in done.stderr
        assert f"peregrine fly --by kexec host --config {machine.config}" in done.stdout


@pytest.mark.parametrize("name", KEXEC_REFUSED)
def test_refused_by_kexec_alone(name, machine):
    spoil, reason = KEXEC_REFUSED[name]
    assert f"note: not by kexec: {reason}" in refused(machine, spoil, reason, "kexec")
    before = machine.host.tree()
    done = machine.run("fly", "--by", "kexec", "--config", machine.config)
    assert done.returncode == 1 and reason in done.stdout and "not by kexec: nothing was changed" in done.stderr
    assert machine.host.tree() == before and not (machine.host.root / "run/peregrine").exists()


@pytest.mark.parametrize("spoil, code, said", [
    (lambda host: None, 0, "the kernel can be booted here by GRUB or by kexec\n"),
    (put("/fake/fs", "btrfs\n"), 0, "here by kexec\n    peregrine fly --by kexec host --config FILE\n"),
    (lambda host: (host.bin / "kexec").unlink(), 0, "the kernel can be booted here by GRUB\n"),
    (lambda host: host.nic("ena"), 1, "cannot be booted here, neither by GRUB nor by kexec"),
])
def test_check_names_the_ways_that_are_open(machine, spoil, code, said):
    spoil(machine.host)
    before = machine.host.tree()
    done = machine.run("check")
    assert done.returncode == code and said in done.stdout and machine.host.tree() == before


@pytest.mark.parametrize("system, kexec, grub", [
    ("ID=debian", "apt-get install kexec-tools", "apt-get install grub2-common"),
    ("ID=ubuntu\nID_LIKE=debian", "apt-get install kexec-tools", "apt-get install grub2-common"),
    ("ID=fedora", "dnf install kexec-tools", "dnf install grub2-tools"),
    ('ID="alinux"\nID_LIKE="rhel fedora centos anolis"', "dnf install kexec-tools", "dnf install grub2-tools"),
    ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', "zypper install kexec-tools", "zypper install grub2"),
    ("ID=arch", "pacman -S kexec-tools", "pacman -S grub"),
])
def test_a_missing_package_comes_with_the_distribution_s_own_command(host, system, kexec, grub):
    host.file("/etc/os-release", system + "\n")
    for tool in ("kexec", "grub-reboot"):
        (host.bin / tool).unlink()
    advice = [finding.advice for finding in verdict(host).findings]
    assert f"Install it: {kexec}" in advice and f"Install them: {grub}" in advice


@pytest.mark.parametrize("files, return_to, stop", [
    ({}, "", None),
    ({"newer": "6.1.0-2-amd64"}, "", "come back to 6.1.0-2-amd64, the default, while 6.1.0-1-amd64 runs"),
    ({"newer": "6.1.0-2-amd64", "saved": "id-6.1.0-1-amd64"}, "", None),
    ({"newer": "6.1.0-2-amd64"}, "6.1.0-2-amd64", None),
    ({"newer": "6.1.0-2-amd64", "saved": "gone"}, "", "it is not known which one GRUB boots by default"),
    ({"newer": "6.1.0-2-amd64", "saved": "gone"}, "6.1.0-2-amd64", None),
    ({"newer": "0-rescue-0123", "saved": "id-6.1.0-1-amd64"}, "", None),
])
def test_the_default_among_entries_by_bls_is_known_to_kexec(host, files, return_to, stop):
    defaults("GRUB_DEFAULT=saved\nGRUB_TIMEOUT=1\n")(host)
    blscfg(host)
    for version in ("6.1.0-1-amd64", *([files["newer"]] if "newer" in files else ())):
        host.file(f"/boot/vmlinuz-{version}")
        host.file(f"/boot/loader/entries/id-{version}.conf",
                  f"title Linux {version}\nversion {version}\nlinux /vmlinuz-{version}\n")
    if "saved" in files:
        environment(f"saved_entry={files['saved']}")(host)
    found = [f.text for f in verdict(host, return_to=return_to).stops("kexec")]
    assert found == [] if stop is None else any(stop in text for text in found)


# The parts of Fedora's grub.cfg that could mislead. A password is set only if there is one. The menu is hidden after a
# boot that reported success. The entries are in other files.
FEDORA = """set pager=1
if [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   save_env next_entry
else
   set default="${saved_entry}"
fi
set timeout_style=menu
set timeout=5
if [ -f ${prefix}/user.cfg ]; then
  source ${prefix}/user.cfg
  if [ -n "${GRUB2_PASSWORD}" ]; then
    set superusers="root"
  fi
fi
insmod blscfg
blscfg
if [ "${boot_success}" = "1" ]; then
  set timeout_style=hidden
  set timeout=1
fi
"""


def fedora(machine, *words):
    host, kernel = machine.host, "6.1.0-1-amd64"
    host.file("/etc/os-release", 'PRETTY_NAME="Fedora Linux 41"\nID=fedora\n')
    host.file("/etc/default/grub", "GRUB_TIMEOUT=5\nGRUB_DEFAULT=saved\nGRUB_ENABLE_BLSCFG=true\n")
    host.file("/boot/grub2/grub.cfg", FEDORA)
    for version in (kernel, "0-rescue-5a1b"):
        host.file(f"/boot/vmlinuz-{version}")
        host.file(f"/boot/loader/entries/5a1b-{version}.conf", f"title Fedora {version}\nversion {version}\n"
                  f"linux /vmlinuz-{version}\n" + "".join(f"{word}\n" for word in words))
    for word in (f"saved_entry=5a1b-{kernel}", "boot_success=1", "menu_auto_hide=1"):
        subprocess.run(["grub-editenv", host.grub / "grubenv", "set", word], check=True)


def test_fedora_is_flown_from_by_kexec(tmp_path):
    machine = Deployment(tmp_path, grub="grub2")
    fedora(machine)
    with machine.host.unchanged():
        done = machine.run("fly", "--config", machine.config, "--dry-run")
        assert done.returncode == 0 and "by kexec, not by GRUB: GRUB takes its entries from" in done.stdout
        assert "of 2 kernels the machine comes back to 6.1.0-1-amd64" in done.stdout
        assert "BLSCFG=false" not in machine.run("install").stdout


@pytest.mark.parametrize("words, asks", [((), False), (("grub_users $grub_users", "grub_arg --unrestricted"), False),
                                         (("grub_users root",), True)])
def test_a_password_of_fedora_counts_if_there_is_one_and_the_entry_asks_for_it(tmp_path, words, asks):
    machine = Deployment(tmp_path, grub="grub2")
    fedora(machine, *words)
    assert not verdict(machine.host).stops("kexec")
    machine.host.file("/boot/grub2/user.cfg", "GRUB2_PASSWORD=grub.pbkdf2.sha512.10000.0\n")
    assert [f.text for f in verdict(machine.host).stops("kexec") if "asks for a password" in f.text] or not asks
    assert bool(verdict(machine.host).stops("kexec")) == asks


def test_a_machine_without_grub_must_have_one_kernel_or_the_user_names_it(host):
    no_grub(host)
    assert not verdict(host).stops("kexec")
    newer_kernel(host)
    assert "it is not known which one boots by default" in verdict(host).stops("kexec")[0].text
    assert not verdict(host, return_to="6.1.0-2-amd64").stops("kexec")
    assert "/boot holds no kernel 7" in verdict(host, return_to="7").stops("kexec")[0].text


@pytest.mark.parametrize("word, fault", [("", 1), ("default old*\n", 0), ("default @saved\n", 0)])
def test_systemd_boot_must_come_back_to_the_entry_that_it_has_booted(host, word, fault):
    for name, text in (("Info", "systemd-boot 257"), ("EntrySelected", "old.conf")):
        host.file(f"/sys/firmware/efi/efivars/Loader{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
                  b"\6\0\0\0" + text.encode("utf-16-le"))
    host.file("/efi/loader/loader.conf", word)
    for number, name in enumerate(("old", "new+3")):
        host.file(f"/efi/loader/entries/{name}.conf", f"version {number}\nlinux /{name}/linux\n")
    assert len(verdict(host).stops("kexec")) == fault and not verdict(host, return_to=KERNEL).stops("kexec")


@pytest.mark.parametrize("variable, reason", [("BootNext-8be4df61-93ca-11d2-aa0d-00e098032b8c", "BootNext"),
                                              ("LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", "old.conf")])
def test_a_boot_that_the_firmware_or_its_loader_has_armed_is_noticed(host, variable, reason):
    secure_boot(host)
    host.file("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\0\0\0\0")
    assert not verdict(host).stops("grub")
    host.file(f"/sys/firmware/efi/efivars/{variable}", b"\x07\0\0\0" + "old.conf".encode("utf-16-le"))
    for way in ("grub", "kexec"):
        assert reason in verdict(host).stops(way)[0].text


def test_of_several_stubs_on_the_esp_the_one_that_was_booted_counts(host):
    esp(f"search.fs_uuid {UUID} root hd0,gpt3\n")(host)
    host.file("/boot/efi/EFI/ubuntu/grub.cfg", "search.fs_uuid 00000000-1111-2222-3333-444444444444 root\n")
    assert stops(host)
    variables = "/sys/firmware/efi/efivars/{}-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    host.file(variables.format("BootCurrent"), b"\x06\0\0\0\x0a\0")
    path = "\\EFI\\debian\\grubx64.efi".encode("utf-16-le")
    host.file(variables.format("Boot000A"), b"\x07\0\0\0\x01\0\0\0" + path)
    assert not stops(host)


def test_a_host_that_may_end_at_a_reset_is_named(host):
    host.file("/sys/class/dmi/id/sys_vendor", "KubeVirt\n")
    assert any("machines of KubeVirt may end at a reset" in f.text for f in verdict(host).findings)


def test_a_user_without_root_is_refused(machine):
    with machine.host.unchanged():
        done = machine.run("install", FAKE_ID="1000")
        assert done.returncode == 3 and "there is no sudo" in done.stderr
        machine.host.program("sudo", "exit 1\n")
        done = machine.run("install", FAKE_ID="1000")
        assert done.returncode == 3 and "sudo asks for a password" in done.stderr


def test_sudo_without_a_password_will_do(machine):
    machine.host.program("sudo", '[ "$1" = -n ] && shift\nexec "$@"\n')
    done = machine.run("check", FAKE_ID="1000")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_grub_without_multiboot2_takes_the_linux_protocol(machine):
    no_multiboot2(machine.host)
    machine.bzimage.write_bytes(bytes(0x202) + b"HdrS" + bytes(4000))
    with machine.host.unchanged():
        machine.install()
        text = (machine.host.grub / "grub.cfg").read_text()
        assert "linux /boot/peregrine/peregrine.bz\n    initrd /boot/peregrine/settings\n" in text
        machine.uninstall()


@pytest.mark.parametrize("default", ["1>1", "gnulinux-advanced>gnulinux-1",
                                     "Advanced options>Debian, with Linux 6.1.0-1"])
def test_several_kernels_are_no_obstacle_if_the_default_is_the_one_that_runs(host, default):
    debian_menu(default)(host)
    found = verdict(host)
    assert not found.stops("grub"), found.lines()
    assert dict(found.report)["kernels"] == "vmlinuz-6.1.0-1-amd64, vmlinuz-6.1.0-2-amd64"
    assert dict(found.report)["default"].endswith("Debian, with Linux 6.1.0-1, vmlinuz-6.1.0-1-amd64")
    assert [finding.text for finding in found.findings] == [
        "of 2 kernels the machine comes back to 6.1.0-1-amd64, which is the default and runs now"]


def test_what_grub_loaded_counts_before_the_release(host):
    host.file("/boot/vmlinuz-lts")
    host.update_grub()
    assert stops(host)                      # nothing says which of the two runs
    host.file("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-lts root=/dev/vda1\n")
    assert not stops(host)
    for release, count in (("6.1.0-1-amd64", 0), ("6.1.0-2-amd64", 1)):         # an upgrade, and no reboot
        host.file("/boot/vmlinuz-lts", bytes(0x20e) + b"\0\3" + bytes(0x2f0) + f"{release} (root@host) #1\0".encode())
        assert len(stops(host)) == count
    assert "come back to 6.1.0-2-amd64, the default, while 6.1.0-1-amd64 runs" in stops(host)[0]
    assert not verdict(host, return_to="6.1.0-2-amd64").stops("grub")
    no_grub(host)
    (host.root / "boot/vmlinuz-6.1.0-1-amd64").unlink()
    assert "come back to 6.1.0-2-amd64 (vmlinuz-lts)" in verdict(host).stops("kexec")[0].text
    assert not verdict(host, return_to="lts").stops("kexec")


def test_the_kernel_to_return_to_can_be_named(machine):
    never_booted(machine.host)
    before = machine.host.tree()
    refused = machine.run("install")
    assert refused.returncode == 1 and "--return-to 6.1.0-2-amd64\n" in refused.stdout
    assert machine.run("check").returncode == 1 and machine.run("check", "--return-to", "6.1.0-2-amd64").returncode == 0
    another = machine.run("install", "--return-to", "6.1.0-1-amd64")
    assert another.returncode == 1 and "not to 6.1.0-1-amd64" in another.stdout
    assert machine.host.tree() == before
    assert machine.run("install", "--return-to", "vmlinuz-6.1.0-2-amd64").returncode == 0
    assert machine.host.next_boot() == "gnulinux-6.1.0-2-amd64"
    machine.uninstall()
    assert machine.host.tree() == before


def test_memory_testers_and_left_overs_are_no_kernels(host):
    own_line('menuentry "Memory test" {\n\tlinux /boot/memtest86+x64.bin\n}')(host)
    host.file("/boot/vmlinuz-6.1.0-1-amd64.dpkg-new")
    host.file("/boot/vmlinuz")
    assert not verdict(host).findings


def test_a_host_route_lease_as_in_gcp(host):
    host.network([{"dst": "default", "gateway": "10.128.0.1", "dev": "eth0", "prefsrc": "10.128.0.7", "metric": 100},
                  {"dst": "10.128.0.1", "dev": "eth0", "scope": "link"}],
                 [{"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.128.0.7", "prefixlen": 32,
                                                    "scope": "global",
                                                    "dynamic": True, "valid_life_time": 86000}]}],
                 [{"dst": "10.128.0.1", "dev": "eth0", "lladdr": "42:01:0a:80:00:01", "state": ["REACHABLE"]}])
    host.file("/run/systemd/netif/leases/2", "ADDRESS=10.128.0.7\nNETMASK=255.255.255.255\nMTU=1460\n"
                                             "ROUTES=10.128.0.1/32,0.0.0.0 0.0.0.0/0,10.128.0.1\n")
    found = verdict(host)
    assert {k: found.handed_over[k] for k in ("ip", "gw", "gwmac")} == {
        "ip": "10.128.0.7/32", "gw": "10.128.0.1", "gwmac": "42:01:0a:80:00:01"}
    report = dict(found.report)
    assert report["gateway"].endswith("outside the subnet")
    assert "classless routes 10.128.0.1/32,0.0.0.0" in report["DHCP"] and "mtu 1460" in report["DHCP"]
    assert any("leased for 1433 more minutes" in f.text for f in found.findings)


def second_nic_first(host):
    """Puts another virtio NIC, eth1, before the one with the default route."""
    pci = "/sys/devices/pci0000:00/0000:00:02.0"
    host.file(f"{pci}/virtio1/net/eth1/address", "52:54:00:12:34:57\n")
    for number, name in ((0, "03"), (1, "02")):
        target = host.root / f"sys/devices/pci0000:00/0000:00:{name}.0/virtio{number}"
        host.link(f"/sys/bus/virtio/drivers/virtio_net/virtio{1 - number}", target)


def test_the_nic_with_the_default_route_is_handed_over(host):
    assert verdict(host).handed_over["nic"] == "52:54:00:12:34:56"
    second_nic_first(host)
    found = verdict(host)
    assert found.handed_over["nic"] == "52:54:00:12:34:56" and not found.stops("kexec")
    assert [f.level for f in found.findings if "NICs that it has drivers for" in f.text] == ["note"]
    assert any("of 2 NICs that it has drivers for the kernel takes eth0" in f.text for f in found.findings)


def test_a_nic_whose_address_was_set_in_linux_is_not_handed_over(host):
    """After a reset it has the host's address again."""
    host.file("/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/addr_assign_type", "3\n")
    assert "nic" not in verdict(host).handed_over
    second_nic_first(host)
    found = verdict(host)
    assert "nic" not in found.handed_over
    assert any("takes the first it finds: eth1" in f.text and "nic=" in f.advice for f in found.findings)


NETWORKD = "ADDRESS={address}\nNETMASK=255.255.255.0\nROUTER=10.0.2.2\nSERVER_ADDRESS={server}\nLIFETIME=86400\n"
DHCLIENT = ("lease {{\n  interface \"eth0\";\n  fixed-address 10.0.2.99;\n"
            "  option dhcp-server-identifier 10.0.2.9;\n}}\n"
            "lease {{\n  interface \"eth0\";\n  fixed-address {address};\n  option subnet-mask 255.255.255.0;\n"
            "  option dhcp-lease-time 86400;\n  option dhcp-server-identifier {server};\n}}\n")
NMCLI = ("DHCP4.OPTION[1]:dhcp_lease_time = 86400\nDHCP4.OPTION[2]:dhcp_server_identifier = {server}\n"
         "DHCP4.OPTION[5]:ip_address = {address}\nDHCP4.OPTION[6]:requested_broadcast_address = 1\n")
DHCPCD = "dhcp_lease_time='86400'\ndhcp_server_identifier='{server}'\nip_address='{address}'\nnetwork_number='1'\n"


def leased(seconds):
    return [{**ADDRESSES[0], "addr_info": [{**ADDRESSES[0]["addr_info"][0], "dynamic": True,
                                            "valid_life_time": seconds}]}]


@pytest.mark.parametrize("where, text", [("/run/systemd/netif/leases/2", NETWORKD), ("nmcli", NMCLI),
                                         ("/var/lib/dhcp/dhclient.eth0.leases", DHCLIENT), ("dhcpcd", DHCPCD)])
def test_a_lease_is_handed_over_with_its_server(host, where, text):
    holds_lease(host, {where: text})
    found = verdict(host)
    assert found.handed_over["lease"] == "1800@10.0.2.2"
    assert not any("leased" in finding.text for finding in found.findings)


# A client's files and programs, and the options that it sends. A capture has shown those of dhclient 4.4.3 and dhcpcd
# 9.4.1. The MAC is 52:54:00:12:34:56, the host's name vm1.
IDENTITIES = {
    "networkd": ({"/run/systemd/netif/leases/2": NETWORKD + "CLIENTID=ffca53095a000200\n"},
                 "61:ffca53095a000200,12:766d31"),
    "networkd, a file of settings": (
        {"/run/systemd/netif/leases/2": NETWORKD + "CLIENTID=01525400123456\n",
         "/sys/class/net/eth0/ifindex": "2\n",
         "/run/systemd/netif/links/2": "NETWORK_FILE=/run/systemd/network/10-netplan-eth0.network\n",
         "/run/systemd/network/10-netplan-eth0.network": "[DHCPv4]\nHostname=a.b\nVendorClassIdentifier=old\n",
         "/etc/systemd/network/10-netplan-eth0.network.d/x.conf": "[DHCPv4]\nVendorClassIdentifier=ven dor\n"},
        "61:01525400123456,81:0500000161016200,60:76656e20646f72"),
    "networkd, no name": (
        {"/run/systemd/netif/leases/2": NETWORKD + "CLIENTID=01525400123456\n",
         "/sys/class/net/eth0/ifindex": "2\n", "/run/systemd/netif/links/2": "NETWORK_FILE=/etc/x.network\n",
         "/etc/x.network": "[DHCPv4]\nSendHostname=no\n"}, "61:01525400123456"),
    "NetworkManager": ({"nmcli": NMCLI}, "61:01525400123456,12:766d31"),
    "NetworkManager, echoed": ({"nmcli": NMCLI + "DHCP4.OPTION[9]:dhcp_client_identifier = ff:00:01:02\n"
                                "ipv4.dhcp-client-id:stable\n"}, "61:ff000102,12:766d31"),
    "NetworkManager, a name": ({"nmcli": NMCLI + "ipv4.dhcp-client-id:box\nipv4.dhcp-hostname:web\n"
                                "ipv4.dhcp-vendor-class-identifier:v\n"}, "61:00626f78,12:776562,60:76"),
    "NetworkManager, bytes": ({"nmcli": NMCLI + "ipv4.dhcp-client-id:01:0a:0b\nipv4.dhcp-send-hostname:no\n"},
                              "61:010a0b"),
    "NetworkManager, none": ({"nmcli": NMCLI + "ipv4.dhcp-client-id:\nipv4.dhcp-send-hostname:no\n",
                              "/etc/NetworkManager/conf.d/x.conf": "[connection]\nipv4.dhcp-client-id=none\n"}, None),
    "dhclient, ifupdown": (
        {"/var/lib/dhcp/dhclient.eth0.leases":
         'default-duid "\\000\\001\\000\\0012\\2358\\036RT\\000\\0224V";\n' + DHCLIENT + "# old\n" * 60 + DHCLIENT,
         "/run/dhclient.eth0.pid": "7\n", "/proc/7/cmdline": "/sbin/dhclient\0-4\0-v\0-i\0eth0\0",
         "/etc/dhcp/dhclient.conf": "# send dhcp-client-identifier 1:2;\nsend host-name = gethostname();\n"},
        "61:ff0012345600010001329d381e525400123456,12:766d31"),
    "dhclient": ({"/var/lib/dhcp/dhclient.eth0.leases": DHCLIENT,
                  "/run/dhclient.pid": "7\n", "/proc/7/cmdline": "dhclient\0-cf\0/x.conf\0eth0\0",
                  "/x.conf": 'send dhcp-client-identifier "a\\"b";\nsend vendor-class-identifier "v w";\n'
                             'send host-name "x";\n'}, "61:612262,12:78,60:762077"),
    "dhclient, hardware": ({"/var/lib/dhcp/dhclient.eth0.leases": DHCLIENT,
                            "/run/dhclient.pid": "7\n", "/proc/7/cmdline": "dhclient\0eth0\0",
                            "/etc/dhclient.conf": "send dhcp-client-identifier = hardware;\n"}, "61:01525400123456"),
    "dhclient, nothing": ({"/var/lib/dhcp/dhclient.eth0.leases": DHCLIENT}, None),
    "dhcpcd": ({"dhcpcd": DHCPCD, "/etc/dhcpcd.conf": "#hostname\nduid\npersistent\nvendorclassid\n",
                "/var/lib/dhcpcd/duid": "00:01:00:01:32:9d:38:2d:52:54:00:12:34:56\n"},
               "61:ff0012345600010001329d382d525400123456"),
    "dhcpcd, clientid": ({"dhcpcd": DHCPCD, "/etc/dhcpcd.conf": "clientid\nhostname\nvendorclassid v\n"
                          "interface eth1\nclientid x\n"}, "61:01525400123456,12:766d31,60:76"),
    "dhcpcd, a name": ({"dhcpcd": DHCPCD, "/etc/dhcpcd.conf": "vendorclassid\ninterface eth0\nclientid ab cd\n"},
                       "61:006162206364"),
    "dhcpcd, its own vendor class": ({"dhcpcd": DHCPCD + "dhcpcd 9.4.1\n", "/etc/dhcpcd.conf": "hostname web\n"},
                                     "12:776562,60:" + b"dhcpcd-9.4.1:Linux-6.1.0-1-amd64:x86_64".hex()),
}


def holds_lease(host, files):
    """Gives the host files, and programs that print theirs whatever they are asked."""
    host.network(ROUTES, leased(3600), NEIGHBOUR)
    host.file("/proc/sys/kernel/hostname", "vm1\n")
    for name, text in files.items():
        text = text.replace("{address}", "10.0.2.15").replace("{server}", "10.0.2.2").replace("{{", "{") \
            .replace("}}", "}")
        if name.startswith("/"):
            host.file(name, text)
        else:
            host.program(name, f"cat <<'END'\n{text}END\n")


@pytest.mark.parametrize("files, sent", IDENTITIES.values(), ids=IDENTITIES)
def test_the_client_s_identity_is_handed_over(host, files, sent):
    """A server that knows Linux by its identifier refuses a renewal without it."""
    holds_lease(host, files)
    found = verdict(host)
    assert found.handed_over["lease"] == "1800@10.0.2.2"
    assert found.handed_over.get("dhcp.send") == sent
    assert not any("identifier" in finding.text for finding in found.findings)


@pytest.mark.parametrize("files, reason", [
    ({"/run/systemd/netif/leases/2": NETWORKD}, "has no CLIENTID="),
    ({"nmcli": NMCLI + "ipv4.dhcp-client-id:stable\n"}, "makes it by ipv4.dhcp-client-id=stable"),
    ({"dhcpcd": DHCPCD, "/etc/dhcpcd.conf": "duid\n"}, "the DUID of dhcpcd was not found"),
    ({"/var/lib/dhcp/dhclient.eth0.leases": DHCLIENT, "/run/dhclient.pid": "7\n",
      "/proc/7/cmdline": "dhclient\0-i\0eth0\0"}, "has no default-duid")])
def test_an_identifier_that_is_not_known_is_said(host, files, reason):
    holds_lease(host, files)
    found = verdict(host)
    assert "61:" not in found.handed_over.get("dhcp.send", "")
    assert [f.level for f in found.findings if reason in f.text] == ["warning"]
    assert not verdict(host, given={"dhcp.send": "61:00"}).findings


def test_an_identity_is_never_longer_than_the_kernel_takes(host):
    holds_lease(host, {"/run/systemd/netif/leases/2": NETWORKD + "CLIENTID=" + "ff" * 130 + "\n",
                       "/proc/sys/kernel/hostname": "h" * 200 + "\n"})
    assert verdict(host).handed_over["dhcp.send"] == "61:" + "ff" * 130


@pytest.mark.parametrize("seconds, text", [
    (3600, NETWORKD.format(address="10.0.2.99", server="10.0.2.2")),        # leases another address
    (3600, "ADDRESS=10.0.2.15\nNETMASK=255.255.255.0\n"), (3600, ""),       # no server
    (3600, NETWORKD.format(address="10.0.2.15", server="10.0.2.256")),
    (3600, NETWORKD.format(address="10.0.2.15", server="224.0.0.1")),
    (1, NETWORKD.format(address="10.0.2.15", server="10.0.2.2"))])          # as good as over
def test_a_lease_that_cannot_be_renewed_is_said(host, seconds, text):
    host.network(ROUTES, leased(seconds), NEIGHBOUR)
    host.file("/run/systemd/netif/leases/2", text)
    found = verdict(host)
    assert "lease" not in found.handed_over
    assert any("leased for" in finding.text for finding in found.findings)


def test_a_lease_for_ever_and_an_address_of_the_machine_s_own_are_no_lease(host):
    host.file("/run/systemd/netif/leases/2", NETWORKD.format(address="10.0.2.15", server="10.0.2.2"))
    for addresses in leased(0xffffffff), ADDRESSES:
        host.network(ROUTES, addresses, NEIGHBOUR)
        found = verdict(host)
        assert "lease" not in found.handed_over
        assert not any("leased" in finding.text for finding in found.findings)


def test_a_gateway_that_does_not_answer_is_not_handed_over(host):
    host.network(ROUTES, ADDRESSES, [{**NEIGHBOUR[0], "state": ["FAILED"]}])
    found = verdict(host)
    assert "gwmac" not in found.handed_over and found.handed_over["gw"] == "10.0.2.2"
    assert any("did not answer ARP" in f.text for f in found.findings)


def test_the_report_names_the_virtio_interface_of_the_nic(host):
    host.nic(device="0x1041")
    assert "PCI, modern, 1af4:1041" in dict(verdict(host).report)["NIC"]
    host.nic(features="1" * 30)
    assert "PCI, legacy, 1af4:1000" in dict(verdict(host).report)["NIC"]


def test_a_gvnic_is_driven_and_said_to_be_untried_at_google(host):
    host.gvnic()
    found = verdict(host)
    assert dict(found.report)["NIC"].startswith("eth0: gve, PCI, 1ae0:0042 rev 0, 52:54:00:12:34:56, MTU 1500")
    assert not found.stops("kexec") and found.handed_over["nic"] == "52:54:00:12:34:56"
    assert any("has not been seen on Google's machines" in f.text and "survey --fly" in f.advice
               for f in found.findings if f.level == "warning")
    host.file("/sys/firmware/acpi/tables/DMAR")
    assert any("the NIC is a gVNIC, and this machine has an IOMMU" in f.text for f in verdict(host).stops("kexec"))


def test_an_unstable_tsc_is_not_handed_over(host):
    host.program("dmesg", "echo '[0.1] tsc: Detected 2500.000 MHz processor'\necho '[0.2] tsc: Marking TSC unstable'\n")
    found = verdict(host)
    assert "tsc.khz" not in found.handed_over and "unstable" in dict(found.report)["clock"]


def test_black_box_regions_lie_in_ram_and_only_there():
    rows = [(0x1000, 0x9fbff, "System RAM"), (0x100000, 0x3fffffff, "System RAM"),
            (0x100000000, 0x1ffffffff, "System RAM")]
    assert judge_machine.black_box_regions(rows) == [(0x90000, 0x8000), (0x10000000, 0x20000), (0x18000000, 0x20000),
                                                 (0x20000000, 0x20000)]
    hole = [(0x1000, 0x8ffff, "System RAM"), (0x100000, 0x17ffffff, "System RAM"),
            (0x18100000, 0x3fffffff, "System RAM")]
    assert judge_machine.black_box_regions(hole) == [(0x10000000, 0x20000), (0x20000000, 0x20000)]
    low = [(0x1000, 0x9fbff, "System RAM"), (0x100000, 0x7ffffff, "System RAM")]
    assert judge_machine.black_box_regions(low)[1:] == [(0x4000000, 0x20000)]


def test_truncated_facts_are_refused(host):
    text = host.run(["probe"]).decode()
    found = preflight.judge(facts.Facts(text[:len(text) // 2]))
    assert [f.text for f in found.stops("kexec")] == ["the facts arrived cut off"]


@pytest.mark.parametrize("change", [
    on_fat(0o700), own_line(linux_script=LINUX.replace("--class debian", "--class debian --unrestricted"))])
def test_fat_for_root_alone_and_entries_without_a_password_will_do(change, host):
    change(host)
    assert not stops(host)


@pytest.mark.parametrize("missing_kib, code", [(0, 0), (1, 1)])
def test_check_and_install_ask_for_the_same_space(machine, missing_kib, code):
    free = machine.kernel.stat().st_size // 1024 + judge_grub.SPARE_KIB - missing_kib
    machine.host.program("df", f"echo Filesystem blocks Used Available\necho /dev/vda1 100000 99000 {free} 99% /boot\n")
    for command in ("check", "install", "install"):
        assert machine.run(command).returncode == code


def test_installed_settings_that_others_can_read_are_noticed(machine):
    machine.install()
    (machine.host.root / "boot/peregrine/settings").chmod(0o755)
    for command, code in (("check", 0), ("fly --by grub", 1)):
        done = machine.run(*command.split())
        assert done.returncode == code and "others on the machine can read the installed settings" in done.stdout


def test_only_words_that_are_really_added_are_printed(machine):
    machine.host.file("/proc/kcore", b"no")
    machine.config.write_text(machine.config.read_text() + "ip=10.0.2.16/24 mtu=1400 log=192.0.2.9:514\n")
    said = machine.install().stdout
    assert "hand over  tsc.khz=2399998 nic=52:54:00:12:34:56 gw=10.0.2.2 gwmac=52:55:0a:00:02:02\n" in said
    assert "no crash record in memory" in said and "Add log=" not in said


@pytest.mark.parametrize("word, left_out", [("ip=dhcp", "gw"), ("gw=10.0.2.3", "gwmac")])
def test_a_lease_and_a_gateway_of_the_user_s_own_have_other_hardware_addresses(machine, word, left_out):
    machine.config.write_text(f"{machine.config.read_text()}{word}\n")
    machine.install()
    assert left_out not in (machine.host.root / "boot/peregrine/settings").read_text()


def test_a_lease_goes_with_linux_s_address_alone(machine):
    machine.host.network(ROUTES, leased(3600), NEIGHBOUR)
    machine.host.file("/run/systemd/netif/leases/2",
                      NETWORKD.format(address="10.0.2.15", server="10.0.2.2") + "CLIENTID=01525400123456\n")
    machine.install()
    settings, own = machine.host.root / "boot/peregrine/settings", machine.config.read_text()
    assert {"lease=1800@10.0.2.2", "dhcp.send=61:01525400123456"} <= set(settings.read_text().split())
    machine.config.write_text(own + "ip=10.0.2.16/24\n")
    machine.install()
    assert "lease=" not in settings.read_text() and "dhcp.send=" not in settings.read_text()
    machine.config.write_text(own + "ip=dhcp\n")
    machine.install()
    assert "lease=" not in settings.read_text() and "dhcp.send=61:01525400123456" in settings.read_text()
    machine.config.write_text(own + "dhcp.send=61:00\n")
    machine.install()
    assert "dhcp.send=61:00\n" in settings.read_text() and "lease=1800@10.0.2.2" in settings.read_text()


def test_a_missing_watchdog_is_reported(machine):
    assert "a hang" in machine.run("check").stdout
    machine.config.write_text(machine.config.read_text() + "watchdog=0\n")
    assert "if the kernel hangs, the machine stands until somebody resets it" in machine.install().stdout


def test_hostile_facts_do_not_confuse_the_preflight():
    """Any text from the host gives a verdict, and no exception."""
    import random
    rng = random.Random(os.environ.get("SEED", "20261122"))
    names = ["route", "address", "neighbours", "nic", "tsc", "processor", "memory-map", "grub-entries", "grub-settings",
             "secure-boot", "grub-defaults",
             "grub-version", "boot-free-kib", "dhcp", "nics", "os-release", "grub-directory", "grub-tools",
             "kcore", "efi-loader"]
    pieces = ["[]", "{", "[{}]", '[{"dst":"default","dev":"x"}]', "name=", "name=x", "=", "mtu=z", "'", '"',
              "menuentry", "menuentry 'x' {",
              "1", "-1", "ffffffff-0 : System RAM", "00000000-ffffffff : System RAM", "GRUB_DEFAULT=9>9", "}",
              "submenu x {", "function f {", "linux", "linux /x", "tsc: Detected .1 MHz", "\x1b[2J", ""]
    for _ in range(300):
        text = "".join(f"#fact {n} {rng.choice('01')}\n"
                       + "".join(f" {rng.choice(pieces)}\n" for _ in range(rng.randrange(3)))
                       for n in rng.sample(names, rng.randrange(len(names))))
        preflight.judge(facts.Facts(text + "#end\n")).lines()


@pytest.mark.parametrize("text, reason", [
    ("feed=1.2.3.4:1 submit=1.2.3.4:2 user=u passwd=p n=1 m=3", "there is no key="),
    ("feed=1.2.3.4:1 key=longenough", "submit= is missing"),
    ("feed=1.2.3.4:1 submit=1.2.3.4:2 user=u passwd=p n=1 m=3 key=longenough ip=10.0.2.15/32 gw=10.0.2.15",
     "this machine is not its own gateway"),
    ("feed=1.2.3.4:1 feed=1.2.3.4:1", "feed= is given twice"),
    ("nonsense", "a word (8 characters, not shown) is not a key=value word"),
    ("passwd=correct hunter2", "the word after passwd= (7 characters, not shown) is not"),
    ("feed=nowhere submit=1.2.3.4:2 user=u passwd=p n=1 m=3 key=longenough", "'nowhere' is not HOST:PORT"),
    ("feed=$(reboot):1 submit=1.2.3.4:2 user=u passwd=p n=1 m=3 key=longenough", "is not HOST:PORT"),
    ("feed=-x:1 submit=1.2.3.4:2 user=u passwd=p n=1 m=3 key=longenough", "is not HOST:PORT"),
    ("feed=unknown.example:1 submit=1.2.3.4:2 user=u passwd=p n=1 m=3 key=longenough",
     "cannot resolve unknown.example"),
])
def test_bad_configurations_are_refused_first(machine, text, reason):
    machine.config.write_text(text)
    with machine.host.unchanged():
        done = machine.run("install")
        assert done.returncode == 1 and reason in done.stdout + done.stderr and "hunter2" not in done.stderr


def test_an_image_that_is_none_is_refused(machine):
    machine.kernel.write_bytes(b"\x7fELF" + bytes(4096))
    with machine.host.unchanged():
        done = machine.run("install")
        assert done.returncode == 1 and "no ELF with a Multiboot2 header" in done.stderr
        machine.kernel.unlink()
        assert "No such file" in machine.run("install").stderr
