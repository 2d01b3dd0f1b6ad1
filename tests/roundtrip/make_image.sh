#!/usr/bin/env bash
# Makes build/roundtrip/debian.qcow2: a real Debian with its own kernel, sshd, a sudo user and a serial console. GRUB is
# installed as in Debian's cloud images (grub-cloud-amd64: BIOS and UEFI on one disk).
#
# It needs neither root nor mounts nor loop devices. mmdebstrap makes the tree, mke2fs -d the file system, and the guest
# itself installs GRUB, booted once with QEMU's -kernel. The result's name holds the hash of this script and of the
# files that it copies. So a change here makes a new image and nothing else does.
#
#   make_image.sh [DIRECTORY]      prints the image's path; DIRECTORY is build/roundtrip by default
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/roundtrip}
suite=bookworm

hash=$(cat "$0" "$here"/overlay/* | sha256sum | cut -c1-12)
image=$out/debian-$hash.qcow2
if [ -f "$image" ]; then echo "$image"; exit 0; fi

mkdir -p "$out"
exec 9>"$out/.lock"
flock -w 900 9
if [ -f "$image" ]; then echo "$image"; exit 0; fi
work=$(mktemp -d "$out/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
say() { echo "make_image: $*" >&2; }

[ -f "$out/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C 'peregrine round trip' -f "$out/id_ed25519"

# The mirror is the one this machine's own apt uses. On a machine that is no Debian, mmdebstrap's default.
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
    while read -r uri release component origin; do
        case $origin:$release:$component in
        Debian:"$suite":main | Debian:"$suite"-security:main | Debian:"$suite"-updates:main)
            echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $release $component" ;;
        esac
    done | sort -u
}
mirror > "$work/sources.list"
sources=("$work/sources.list")
grep -q " $suite " "$work/sources.list" || sources=()

# 1. The tree. The kernel is the one Debian gives to clouds. Modules for the initrd are listed, because a guest under
# TCG spends most of its boot unpacking what it does not need.
packages=linux-image-cloud-amd64,grub-cloud-amd64,initramfs-tools,systemd-sysv,udev,dbus,openssh-server,sudo
packages+=,iproute2,iputils-ping,e2fsprogs,kexec-tools,zstd,lz4,kmod
say "debootstrapping $suite"
mkdir "$work/hooks"
cat > "$work/hooks/extract" <<'HOOK'
#!/bin/sh
# Before any package is configured: the initrd is made small from the first.
set -e
mkdir -p "$1/etc/initramfs-tools/conf.d"
printf 'MODULES=list\nCOMPRESS=lz4\n' > "$1/etc/initramfs-tools/conf.d/peregrine"
printf '%s\n' virtio_pci virtio_blk ext4 crc32c_generic > "$1/etc/initramfs-tools/modules"
HOOK
chmod +x "$work/hooks/extract"
mmdebstrap --quiet --variant=minbase --include="$packages" \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --extract-hook="$work/hooks/extract" \
    --customize-hook="upload $here/overlay/setup.sh /root/setup.sh" \
    --customize-hook="upload $here/overlay/finish.sh /root/finish.sh" \
    --customize-hook="upload $out/id_ed25519.pub /root/key.pub" \
    --customize-hook='chroot "$1" sh /root/setup.sh' \
    "$suite" "$work/root.tar" "${sources[@]}" >&2

# 2. The disk: GPT, a BIOS boot partition, an ESP, ext4. Written at their offsets, so nothing is mounted.
say "writing the disk"
disk=$work/disk.raw
truncate -s 1600M "$disk"
sgdisk -Z "$disk" >/dev/null 2>&1 || true
sgdisk -a 2048 -n 1:2048:+1M -t 1:ef02 -n 2:4096:+48M -t 2:ef00 -n 3:102400:0 -t 3:8300 "$disk" >/dev/null
last=$(sgdisk -i 3 "$disk" | sed -n 's/^Last sector: \([0-9]*\).*/\1/p')
mkfs.vfat -F 16 -n ESP -i 5045524e --offset 4096 "$disk" $((48 * 1024)) >/dev/null
mkdir "$work/tree"
cat > "$work/fill" <<'FILL'
set -e
tar -C "$1/tree" --numeric-owner -xpf "$1/root.tar"
cp "$1"/tree/boot/vmlinuz-* "$1/vmlinuz"
cp "$1"/tree/boot/initrd.img-* "$1/initrd"
mke2fs -q -F -t ext4 -U 7065726e-6567-4269-8e65-000000000001 -L root \
    -E offset=$((102400 * 512)),lazy_itable_init=1,nodiscard -d "$1/tree" "$1/disk.raw" "$2"
rm -rf "$1/tree"
FILL
kib=$(((last - 102400 + 1) / 2))k
if [ "$(id -u)" = 0 ]; then sh "$work/fill" "$work" "$kib"; else fakeroot sh "$work/fill" "$work" "$kib"; fi

# 3. GRUB, by the guest itself: Debian's own maintainer script, on its own disk.
say "booting it once to install GRUB"
timeout 420 qemu-system-x86_64 -M q35 -accel tcg -cpu max -smp 2 -m 1024 -nodefaults -nographic \
    -drive "file=$disk,if=virtio,format=raw,cache=unsafe" -no-reboot \
    -serial "file:$out/making.log" -device virtio-rng-pci \
    -kernel "$work/vmlinuz" -initrd "$work/initrd" \
    -append "root=LABEL=root rw console=ttyS0 quiet norandmaps systemd.unit=peregrine-finish.service \
systemd.mask=ssh.service" >&2
grep -q 'peregrine-finish: done' "$out/making.log" || { say "GRUB was not installed; see $out/making.log"; exit 1; }

qemu-img convert -q -O qcow2 "$disk" "$work/disk.qcow2"
rm -f "$out"/debian-*.qcow2
mv "$work/disk.qcow2" "$image"
echo "$image"
