#!/usr/bin/env bash
# Makes a disk with a real Debian: its own kernel, sshd, a sudo user and a serial console.
#
#   make_image.sh DIRECTORY [RELEASE [DISK]]      prints the image's path; by default bookworm and grub
#
# DISK is one of these:
#
#   grub          GPT, ext4; GRUB as in Debian's cloud images (grub-cloud-amd64: BIOS and UEFI on one disk)
#   blscfg        the same, with entries in /boot/loader/entries, which GRUB 2.14 or later reads
#   lvm           the same, with /boot on a logical volume
#   raid          the same, with root and /boot on a RAID1 of two partitions
#   btrfs         btrfs and nothing else; no boot loader: the host starts IMAGE.vmlinuz with IMAGE.initrd
#   systemd-boot  GPT, ext4; systemd-boot, kernel and initrd on the ESP
#
# It needs neither root nor mounts nor loop devices. mmdebstrap makes the tree, mke2fs -d or mkfs.btrfs --rootdir the
# file system. If there is a GRUB, the guest installs it by itself, booted once with QEMU's -kernel. The same boot makes
# volumes and arrays, for which the host may lack a driver. The result's name holds the hash of this script and of the
# files that it copies. So a change here makes a new image and nothing else does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?make_image.sh DIRECTORY [RELEASE [DISK]]}
suite=${2:-bookworm}
disk_kind=${3:-grub}

packages=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,dbus,openssh-server,sudo
packages+=,iproute2,iputils-ping,e2fsprogs,kexec-tools,zstd,lz4,kmod
modules='virtio_pci virtio_blk ext4 crc32c_generic'
case $disk_kind in
grub | blscfg) packages+=,grub-cloud-amd64 ;;
lvm) packages+=,grub-cloud-amd64,lvm2 modules+=' dm_mod' ;;
raid) packages+=,grub-cloud-amd64,mdadm modules+=' raid1' ;;
btrfs) packages+=,btrfs-progs modules+=' btrfs' ;;
systemd-boot) packages+=,systemd-boot,systemd-boot-efi ;;
*) echo "make_image: '$disk_kind' is no kind of disk: grub, blscfg, lvm, raid, btrfs or systemd-boot" >&2; exit 2 ;;
esac

hash=$(cat "$0" "$here"/overlay/* | sha256sum | cut -c1-12)
name=$suite-$disk_kind
image=$out/$name-$hash.qcow2
if [ -f "$image" ]; then echo "$image"; exit 0; fi

mkdir -p "$out"
PATH=$PATH:/usr/sbin:/sbin      # an ordinary user lacks them; for sgdisk and others
exec 9>"$out/.lock-$name"
flock -w 1500 9
if [ -f "$image" ]; then echo "$image"; exit 0; fi
work=$(mktemp -d "$out/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
say() { echo "make_image: $*" >&2; }

(   # one key for all disks
    flock 8
    [ -f "$out/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C 'peregrine round trip' -f "$out/id_ed25519"
) 8>"$out/.lock"

# The mirror is the one this machine's own apt uses, also for another release. On a machine that is no Debian,
# mmdebstrap's default.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
    while read -r uri release component origin; do
        [ "$suite" != sid ] || [ "$release" = "${release%%-*}" ] || continue      # the release has no updates
        case $origin:$component in
        Debian:main) echo "deb [signed-by=$keyring] $uri $suite${release#"${release%%-*}"} main" ;;
        esac
    done | sort -u
}
mirror > "$work/sources.list"
sources=("$work/sources.list")
grep -q " $suite " "$work/sources.list" || sources=()

[ "$(id -u)" = 0 ] || grep -q "^$(id -un):" /etc/subuid || {
    say "mmdebstrap needs user ids beside $(id -un)'s: sudo usermod --add-subuids 100000-165535 --add-subgids" \
        "100000-165535 $(id -un)"
    exit 1
}

# 1. The tree. The kernel is the one Debian gives to clouds. Modules for the initrd are listed, because a guest under
# TCG spends most of its boot unpacking what it does not need.
# A mirror that stands still for some weeks will do.
say "debootstrapping $suite"
# Before any package is configured: the initrd is made small from the first. The hook is a text, because the user of
# mmdebstrap's namespace may not enter a home directory.
# shellcheck disable=SC2016 # The hook's shell expands $1.
small_initrd='cd "$1/etc" && mkdir -p initramfs-tools/conf.d &&
printf "MODULES=list\nCOMPRESS=lz4\n" >initramfs-tools/conf.d/peregrine &&
printf "%s\n" '$modules' >initramfs-tools/modules'
mmdebstrap --quiet --variant=minbase --include="$packages" \
    --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --extract-hook="$small_initrd" \
    --customize-hook="upload $here/overlay/setup.sh /root/setup.sh" \
    --customize-hook="upload $here/overlay/finish.sh /root/finish.sh" \
    --customize-hook="upload $out/id_ed25519.pub /root/key.pub" \
    --customize-hook="chroot \"\$1\" sh /root/setup.sh $disk_kind" \
    "$suite" "$work/root.tar" "${sources[@]}" >&2

# 2. The disk, written at its offsets: nothing is mounted.
say "writing the disk"
disk=$work/disk.raw
mkdir "$work/tree"
# An ordinary user is root of a namespace with the user ids of mmdebstrap. There are no device nodes to be made there:
# the guest's kernel makes its own. fakeroot would not do: mkfs.btrfs of Debian 13 looks past it.
as_root() {
    if [ "$(id -u)" = 0 ]; then sh "$@"; else
        no_nodes='--exclude=./dev/*' unshare --user --map-root-user --map-auto sh "$@"
    fi
}
cat > "$work/fill" <<'FILL'
# fill DIRECTORY COMMAND...: the command sees the tree with its owners.
set -e
work=$1
shift
tar -C "$work/tree" --numeric-owner ${no_nodes-} -xpf "$work/root.tar"
cp "$work"/tree/boot/vmlinuz-* "$work/vmlinuz"
cp "$work"/tree/boot/initrd.img-* "$work/initrd"
find "$work/tree/usr/lib/systemd" -name systemd-bootx64.efi -exec cp {} "$work/" ';'
"$@"
rm -rf "$work/tree"
FILL
esp_mib=48
[ "$disk_kind" != systemd-boot ] || esp_mib=160
root_at=$((4096 + esp_mib * 2048))              # in sectors of 512 bytes
esp=$disk@@$((4096 * 512))                      # as mtools name it

partition() {
    truncate -s 4G "$disk"
    sgdisk -Z "$disk" >/dev/null 2>&1 || true
    sgdisk -a 2048 -n 1:2048:+1M -t 1:ef02 -n "2:4096:+${esp_mib}M" -t 2:ef00 -n "3:$root_at:+1600M" -t 3:8300 \
        -n 4:0:+1100M -n 5:0:+1100M "$disk" >/dev/null
    mkfs.vfat -F 16 -n ESP -i 5045524e --offset 4096 "$disk" $((esp_mib * 1024)) >/dev/null
    as_root "$work/fill" "$work" mke2fs -q -F -t ext4 -U 7065726e-6567-4269-8e65-000000000001 -L root \
        -E "offset=$((root_at * 512)),lazy_itable_init=1,nodiscard" -d "$work/tree" "$disk" 1600M
}

# The guest itself does what needs its kernel's drivers, and lets Debian's own package install GRUB.
finish_inside() {
    say "booting it once to install GRUB"
    timeout 1200 qemu-system-x86_64 -M q35 -accel tcg -cpu max -smp 2 -m 1024 -nodefaults -nographic \
        -drive "file=$disk,if=virtio,format=raw,cache=unsafe" -no-reboot \
        -serial "file:$out/making-$name.log" -device virtio-rng-pci \
        -kernel "$work/vmlinuz" -initrd "$work/initrd" \
        -append "root=LABEL=root rw console=ttyS0 quiet norandmaps systemd.unit=peregrine-finish.service \
systemd.mask=ssh.service" >&2
    grep -q 'peregrine-finish: done' "$out/making-$name.log" ||
        { say "GRUB was not installed; see $out/making-$name.log"; exit 1; }
}

case $disk_kind in
grub | blscfg | lvm | raid)
    partition
    finish_inside ;;
systemd-boot)
    partition
    export MTOOLS_SKIP_CHECK=1
    mmd -i "$esp" ::/EFI ::/EFI/BOOT ::/EFI/systemd ::/EFI/Linux ::/loader ::/loader/entries
    mcopy -i "$esp" "$work/systemd-bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
    mcopy -i "$esp" "$work/systemd-bootx64.efi" ::/EFI/systemd/
    mcopy -i "$esp" "$work/vmlinuz" "$work/initrd" ::/
    printf 'timeout 0\n' | mcopy -i "$esp" - ::/loader/loader.conf
    printf '%s\n' 'title Debian' 'linux /vmlinuz' 'initrd /initrd' \
        'options root=LABEL=root ro console=ttyS0 quiet norandmaps' | mcopy -i "$esp" - ::/loader/entries/debian.conf ;;
btrfs)
    truncate -s 4G "$disk"
    as_root "$work/fill" "$work" mkfs.btrfs -q -L root --rootdir "$work/tree" "$disk" ;;
esac

rm -f "$out/$name"-*
mv "$work/vmlinuz" "${image%.qcow2}.vmlinuz"
mv "$work/initrd" "${image%.qcow2}.initrd"
qemu-img convert -q -O qcow2 "$disk" "$work/disk.qcow2"
mv "$work/disk.qcow2" "$image"
echo "$image"
