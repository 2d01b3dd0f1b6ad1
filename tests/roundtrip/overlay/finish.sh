# shellcheck shell=sh
# Runs once in the booted guest: lets Debian's own package install GRUB for BIOS and UEFI on this disk.
set -e
mountpoint /boot/efi                    # systemd has mounted it: the unit asks for it
touch /etc/grub.d/enable_cloud          # set by Debian's cloud images: then the package acts
sh /var/lib/dpkg/info/grub-cloud-amd64.postinst configure ''
rm -f /root/finish.sh /etc/systemd/system/peregrine-finish.service
sync
echo 'peregrine-finish: done'
umount /boot/efi
sync
