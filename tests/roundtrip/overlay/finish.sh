# shellcheck shell=sh
# Runs once in the booted guest: lets Debian's own package install GRUB for BIOS and UEFI on this disk. /root/disk names
# the kind of disk. With lvm and raid, /boot or the root moves there first, and grub-install puts GRUB there, for BIOS
# alone. The package does not look below a logical volume or an array.
set -e
mountpoint /boot/efi                    # systemd has mounted it: the unit asks for it
disk=$(cat /root/disk)
rm -f /root/finish.sh /root/disk /etc/systemd/system/peregrine-finish.service
touch /etc/grub.d/enable_cloud          # set by Debian's cloud images: then the package acts
for_bios='grub-install --target=i386-pc /dev/vda && update-grub'

case $disk in
grub)
    sh /var/lib/dpkg/info/grub-cloud-amd64.postinst configure '' ;;
blscfg)
    version=$(uname -r)
    mkdir -p /boot/loader/entries
    printf '%s\n' 'title Debian' "version $version" "linux /boot/vmlinuz-$version" \
        "initrd /boot/initrd.img-$version" 'options root=LABEL=root ro console=ttyS0 quiet norandmaps' \
        > /boot/loader/entries/debian.conf
    chmod -x /etc/grub.d/10_linux
    printf '%s\n' '#!/bin/sh' 'echo insmod blsuki' 'echo blscfg --path /boot/loader/entries' > /etc/grub.d/10_bls
    chmod +x /etc/grub.d/10_bls
    sh -c "$for_bios" ;;
lvm)
    modprobe dm_mod
    pvcreate -qq /dev/vda4
    vgcreate -qq vg0 /dev/vda4
    lvcreate -qq -y -L 400M -n boot vg0
    mkfs.ext4 -q /dev/vg0/boot
    echo '/dev/vg0/boot /boot ext4 defaults 0 1' >> /etc/fstab
    umount /boot/efi
    mount /dev/vg0/boot /mnt
    cp -a /boot/. /mnt/
    umount /mnt
    mount /dev/vg0/boot /boot
    mount /boot/efi
    sh -c "$for_bios"
    umount /boot/efi
    umount /boot
    rm -rf /boot/[!e]*                  # the copy below the mount point
    mount /boot/efi ;;
raid)
    modprobe raid1
    mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 --assume-clean /dev/vda4 /dev/vda5
    mkfs.ext4 -q -L mirror /dev/md0
    mount /dev/md0 /mnt
    sed -i 's/LABEL=root/LABEL=mirror/' /etc/fstab
    mdadm --detail --scan >> /etc/mdadm/mdadm.conf
    cp -ax /. /mnt/
    umount /boot/efi
    for directory in dev proc sys; do mount --bind /$directory /mnt/$directory; done
    mount LABEL=ESP /mnt/boot/efi
    chroot /mnt update-initramfs -u
    chroot /mnt sh -c "$for_bios"
    umount /mnt/boot/efi /mnt/dev /mnt/proc /mnt/sys /mnt
    mount /boot/efi ;;
esac
sync
echo 'peregrine-finish: done'
umount /boot/efi
sync
