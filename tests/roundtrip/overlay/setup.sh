# shellcheck shell=sh
# Runs in the new tree, in a chroot: users, network, services started at boot. Argument: the kind of disk.
set -e
disk=$1

echo peregrine-trip > /etc/hostname
printf '127.0.0.1 localhost peregrine-trip\n' > /etc/hosts
if [ "$disk" = btrfs ]; then
    printf 'LABEL=root / btrfs defaults 0 0\n' > /etc/fstab
else
    printf 'LABEL=root / ext4 errors=remount-ro 0 0\nLABEL=ESP /boot/efi vfat umask=0077,nofail 0 0\n' > /etc/fstab
    mkdir -p /boot/efi
fi

# The user of the test: sudo without a password, as cloud images have it. Root has no login.
useradd -m -s /bin/bash -p '*' pilot            # no password, yet not locked: sshd without PAM refuses locked accounts
install -d -m 700 -o pilot -g pilot /home/pilot/.ssh
install -m 600 -o pilot -g pilot /root/key.pub /home/pilot/.ssh/authorized_keys
echo 'pilot ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/pilot
chmod 440 /etc/sudoers.d/pilot

# On the TAP of the tests the address is fixed; anywhere else (QEMU's user network) it comes by DHCP.
cat > /etc/systemd/network/10-tap.network <<'END'
[Match]
MACAddress=52:54:00:70:65:02
[Network]
Address=10.77.0.2/24
Gateway=10.77.0.1
LinkLocalAddressing=no
IPv6AcceptRA=no
END
cat > /etc/systemd/network/20-dhcp.network <<'END'
[Match]
Name=en*
[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no
END
systemctl enable -q systemd-networkd

# A boot under TCG is slow; none of these is looked at by the tests.
systemctl mask -q systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer dpkg-db-backup.timer systemd-update-utmp.service systemd-journal-flush.service \
    kexec.service kexec-load.service getty@tty1.service systemd-pcrphase.service systemd-pcrphase-sysinit.service \
    systemd-binfmt.service systemd-hwdb-update.service systemd-journal-catalog-update.service systemd-logind.service \
    modprobe@drm.service modprobe@fuse.service modprobe@configfs.service modprobe@efi_pstore.service \
    modprobe@dm_mod.service modprobe@loop.service sys-kernel-debug.mount sys-kernel-tracing.mount \
    sys-kernel-config.mount sys-fs-fuse-connections.mount \
    dev-hugepages.mount dev-mqueue.mount systemd-tmpfiles-clean.timer systemd-rfkill.socket
printf 'blacklist %s\n' kvm kvm_amd powernow_k8 pcspkr psmouse ghash_clmulni_intel aesni_intel sr_mod \
    > /etc/modprobe.d/trip.conf
printf 'UseDNS no\nUsePAM no\nPrintMotd no\nHostKey /etc/ssh/ssh_host_ed25519_key\n' > /etc/ssh/sshd_config.d/trip.conf

# udev goes through all devices at boot: here only through those that a server without a screen needs. Masked as well:
# the generators of units that nobody here has asked for.
mkdir -p /etc/systemd/system/systemd-udev-trigger.service.d /etc/systemd/system-generators
cat > /etc/systemd/system/systemd-udev-trigger.service.d/trip.conf <<'END'
[Service]
ExecStart=
ExecStart=-udevadm trigger --type=devices --action=add --subsystem-match=pci --subsystem-match=virtio \
    --subsystem-match=block --subsystem-match=net
END
for name in bless-boot cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run system-update sysv \
    veritysetup; do
    ln -s /dev/null "/etc/systemd/system-generators/systemd-$name-generator"
done

# Two of Debian's settings of GRUB; the rest stays as shipped. The menu waits 5 s on clouds, which no test needs. And
# TCG (QEMU 7.2) finds its translations by virtual address, too. With libraries at another place in every process it
# translates them again in each: 600000 blocks a boot and 52 s of CPU. With norandmaps it is 320000 blocks and 36 s.
[ -e /etc/default/grub ] || { rm -f /root/setup.sh /root/finish.sh /root/key.pub; exit 0; }
echo "$disk" > /root/disk
sed -i -e 's/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' -e 's/^GRUB_CMDLINE_LINUX="/&norandmaps /' /etc/default/grub
grep -q norandmaps /etc/default/grub

cat > /etc/systemd/system/peregrine-finish.service <<'END'
[Unit]
Description=Install GRUB, then stop
DefaultDependencies=yes
Requires=basic.target
After=basic.target
RequiresMountsFor=/boot/efi
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/sh /root/finish.sh
StandardOutput=journal+console
StandardError=journal+console
TimeoutStartSec=900
END
rm -f /root/setup.sh /root/key.pub
