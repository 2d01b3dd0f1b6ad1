# Runs on HOST as root. Reads, changes nothing, and prints facts:
#
#   #fact NAME STATUS        one header a fact, STATUS the command's exit status
#    text                    its output, each line after one blank
#
# POSIX sh and what a minimal Linux has; a fact whose tool is missing has status 127. Judging is the caller's job.
# $ROOT is empty, or a directory that stands for / in the tests. Arguments: host names to resolve.
export LC_ALL=C PATH="$PATH:${ROOT-}/usr/sbin:${ROOT-}/sbin"
umask 077

# No process is started that can be done without: a machine under emulation takes 0.1 s for each.
indent() { while IFS= read -r line || [ -n "$line" ]; do printf ' %s\n' "$line"; done; }
fact() {
    name=$1
    shift
    text=$("$@" 2>/dev/null)
    printf '#fact %s %s\n' "$name" $?
    # Bash before 5.1 needs room in /tmp for a here-document, so there is none. Empty lines are left out.
    set -f; IFS='
'
    [ -z "$text" ] || printf ' %s\n' $text
    unset IFS; set +f
}
file() {
    if [ -r "$ROOT$2" ]; then
        printf '#fact %s 0\n' "$1"
        indent 2>/dev/null < "$ROOT$2"
    else
        printf '#fact %s 1\n' "$1"
    fi
}
first() { for path; do [ ! -e "$ROOT$path" ] || { printf '%s\n' "$path"; return 0; }; done; return 1; }
has() { command -v "$1" >/dev/null; }

# ---- the system
fact arch uname -m
fact kernel uname -r
file os-release /etc/os-release
file cmdline /proc/cmdline
file boot-id /proc/sys/kernel/random/boot_id
file vendor /sys/class/dmi/id/sys_vendor
file product /sys/class/dmi/id/product_name
fact virtualisation systemd-detect-virt --vm

# The tools of the other scripts; a BusyBox may be built without one of them.
missing() {
    for t in cat chmod cmp cp cut dd diff grep head ls mkdir mv od readlink rm sed sha256sum stat tail touch tr; do
        has $t || echo $t
    done
}
fact tools-missing missing

# ---- the firmware
firmware() { if [ -d "$ROOT/sys/firmware/efi" ]; then echo uefi; else echo bios; fi; }
fact firmware firmware
variables=$ROOT/sys/firmware/efi/efivars
if [ -d "$variables" ]; then
    # UEFI 2.10 §3.3: four bytes of attributes, then the value
    global=8be4df61-93ca-11d2-aa0d-00e098032b8c
    efi_byte() { od -An -tu1 -j4 -N1 "$variables/$1-$global"; }
    fact secure-boot efi_byte SecureBoot
    fact boot-next test -e "$variables/BootNext-$global"
    # The entry that the firmware has booted names the loader's file, in UTF-16 among other bytes (§3.1.3).
    boot_current() {
        number=$(od -An -tu2 -j4 -N2 "$variables/BootCurrent-$global") &&
            tr -cd '\040-\176' < "$variables/Boot$(printf %04X $((number)))-$global"
    }
    fact boot-current boot_current
    # the loader's name, UTF-16 of ASCII letters, after the attributes
    efi_text() { tr -d '\000-\037' < "$variables/$1-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"; }
    fact efi-loader efi_text LoaderInfo
    fact efi-one-shot efi_text LoaderEntryOneShot
    fact efi-selected efi_text LoaderEntrySelected
    loader_word() {
        ! efi_text "$2" || echo
        cat "$ROOT"/boot/loader/loader.conf "$ROOT"/efi/loader/loader.conf "$ROOT"/boot/efi/loader/loader.conf |
            sed -n "s/^[[:blank:]]*$1[[:blank:]]*//p"
    }
    fact loader-timeout loader_word timeout LoaderConfigTimeout
    fact loader-default loader_word default LoaderEntryDefault
    # A GRUB in a directory of the ESP reads this first: its whole menu, or a stub that leads to the menu in /boot.
    esp_menus() {
        for f in "$ROOT"/boot/efi/EFI/*/grub.cfg "$ROOT"/efi/EFI/*/grub.cfg; do
            [ ! -e "$f" ] || { printf 'file %s\n' "${f#"$ROOT"}"
                grep -E '^[[:blank:]]*(search|configfile|set prefix|menuentry|blscfg|tpm2_key_protector_init)' \
                    "$f"; }
        done
    }
    fact esp-menus esp_menus
fi
file lockdown /sys/kernel/security/lockdown

# ---- GRUB
grub=$(first /boot/grub/grub.cfg /boot/grub2/grub.cfg) && grub=${grub%/grub.cfg}
mkconfig=
for tool in grub-mkconfig grub2-mkconfig; do has $tool && { mkconfig=$tool; break; }; done
prefix=${mkconfig%-mkconfig}
fact grub-directory test -n "$grub"
[ -z "$grub" ] || echo " $grub"
fact grub-tools test -n "$mkconfig"
[ -z "$mkconfig" ] || echo " $prefix"
if [ -n "$grub" ]; then
    # Prints the lines that show which kernel an entry loads and which submenu it stands in.
    entries() {
        words='menuentry|submenu|function|linux|linux16|linuxefi'
        grep -E "^[[:blank:]]*(($words)[[:blank:]]|}[[:blank:]]*\$)" "$ROOT$grub/grub.cfg"
    }
    fact grub-entries entries
    fact grub-blscfg grep -E '^[[:blank:]]*blscfg' "$ROOT$grub/grub.cfg"
    fact grub-once grep -c 'next_entry' "$ROOT$grub/grub.cfg"
    assign='\(set[[:blank:]]\{1,\}\)\{0,1\}'        # GRUB assigns without this word as well
    fact grub-timeouts sed -n "s/^[[:blank:]]*$assign\(timeout=\)/\2/p" "$ROOT$grub/grub.cfg"
    # 00_header sets it in an `if`, indented.
    fact grub-defaults sed -n "s/^\([[:blank:]]*\)$assign\(default=\)/\1\3/p" "$ROOT$grub/grub.cfg"
    # 41_custom reads custom.cfg after all that grub.cfg has set.
    fact grub-custom sed -n "s/^[[:blank:]]*$assign\(default=.*\|timeout=.*\)/\2/p" "$ROOT$grub/custom.cfg"
    # 01_users of RHEL's family sets them only if user.cfg holds a password.
    superusers() {
        grep -q GRUB2_PASSWORD "$ROOT$grub/grub.cfg" && ! grep -q '^GRUB2_PASSWORD=.' "$ROOT$grub/user.cfg" ||
            cat "$ROOT$grub/grub.cfg" "$ROOT$grub/custom.cfg" | sed -n "s/^[[:blank:]]*${assign}superusers=//p"
    }
    fact grub-superusers superusers
    # A block of text, without its head and its filling. grub-editenv would make the file even for `list`.
    fact grub-environment sed '/^#/d' "$ROOT$grub/grubenv"
    if [ -L "$ROOT$grub/grubenv" ]; then
        target() { readlink -f "$ROOT$grub/grubenv" | sed "s|^$ROOT||"; [ -e "$ROOT$grub/grubenv" ]; }
        fact grub-environment-link target
        fact grub-environment-fs "$prefix-probe" --target=fs "$ROOT$grub/grubenv"
    fi
    grub_settings() (
        . "$ROOT/etc/default/grub"
        for f in "$ROOT"/etc/default/grub.d/*.cfg; do [ ! -e "$f" ] || . "$f"; done
        printf 'GRUB_DEFAULT=%s\nGRUB_SAVEDEFAULT=%s\n' "$GRUB_DEFAULT" "$GRUB_SAVEDEFAULT"
        printf 'GRUB_TIMEOUT=%s\n' "$GRUB_TIMEOUT"
        printf 'GRUB_RECORDFAIL_TIMEOUT=%s\n' "$GRUB_RECORDFAIL_TIMEOUT"
        printf 'GRUB_DISABLE_SUBMENU=%s\nGRUB_ENABLE_BLSCFG=%s\n' "$GRUB_DISABLE_SUBMENU" "$GRUB_ENABLE_BLSCFG"
    )
    fact grub-settings grub_settings
    drop_ins() { grep -l '^[[:blank:]]*\(export \)\{0,1\}GRUB_DEFAULT=' "$ROOT"/etc/default/grub.d/*.cfg; }
    fact grub-default-overridden drop_ins
fi
if [ -n "$grub" ] && [ -n "$mkconfig" ]; then
    fact grub-version "$mkconfig" --version
    missing_tools() {
        for t in editenv reboot probe mkrelpath script-check; do has "$prefix-$t" || echo "$prefix-$t"; done
    }
    fact grub-tools-missing missing_tools
    platform=i386-pc
    [ "$(firmware)" = bios ] || platform=x86_64-efi
    modules() { cd "$ROOT$grub/$platform" && ls | sed -n 's/\.mod$//p'; }
    fact grub-modules modules
    # grub-install puts modules and core image there at the same time: this one names the version of both.
    core_version() { tr -c '\040-\176' '\n' < "$ROOT$grub/$platform/normal.mod" | grep -m 1 -E '^[0-9]+\.[0-9]+'; }
    fact grub-core-version core_version
    signed() { [ "$platform" = x86_64-efi ] && first /usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed; }
    fact grub-signed signed
    for target in device fs abstraction partmap fs_uuid; do
        fact "grub-$target" "$prefix-probe" --target=$target "$ROOT$grub"
    done
    fact xfs xfs_info "$ROOT/boot"
    fact grub-mode stat -L -c %a "$ROOT$grub/grub.cfg"
fi
# Entries by the Boot Loader Specification, in files of their own: blscfg of GRUB and systemd-boot read them.
bls_entries() {
    folder=$ROOT$(first /boot/loader/entries /efi/loader/entries /boot/efi/loader/entries)
    for f in "$folder"/*.conf; do
        [ ! -e "$f" ] || { f=${f##*/}; printf 'entry %s\n' "${f%.conf}"
            grep -E '^(title|version|linux|grub_users|grub_arg)[[:blank:]]' "$folder/$f"; }
    done
}
fact bls-entries bls_entries
kernels() { cd "$ROOT/boot" && ls -d vmlinuz* ; }
fact kernels kernels
# Prints NAME and RELEASE of each kernel whose name does not say that it is the running one (Linux,
# Documentation/arch/x86/boot.rst, kernel_version).
kernel_releases() {
    running=vmlinuz-$(uname -r)
    for f in "$ROOT"/boot/vmlinuz*; do
        [ -f "$f" ] && [ "${f##*/}" != "$running" ] && at=$(od -An -tu2 -j526 -N2 "$f") || continue
        text=$(dd if="$f" bs=1 skip=$((at + 512)) count=64)
        case $text in [0-9]*' '*) printf '%s %s\n' "${f##*/}" "${text%% *}" ;; esac
    done
}
fact kernel-releases kernel_releases
free_kib() { df -Pk "$ROOT$1" | sed -n '2p' | { read -r a b c free e; echo "$free"; }; }
fact boot-free-kib free_kib /boot
mount_of() { df -Pk "$ROOT/boot" | sed -n '2p' | { read -r device rest; echo "$device"; }; }
fact boot-device mount_of
writable() {
    [ -w "$ROOT/boot" ] && ! grep -q '^[^ ]* /boot [^ ]* ro[, ]' "$ROOT/proc/mounts" &&
        ! grep -q '^[^ ]* / [^ ]* ro[, ]' "$ROOT/proc/mounts"
}
fact boot-writable writable
room() {
    [ -e "$ROOT/boot/peregrine" ] ||
        case $(kind_of "$ROOT/boot") in ext*) has_room "$ROOT/boot" peregrine ;; esac
}
fact boot-room room
fact fsfreeze command -v fsfreeze
installed() { [ -s "$ROOT/boot/peregrine/settings" ] && grep -q -e '--id peregrine' "$ROOT$grub/grub.cfg"; }
fact installed installed
settings_mode() { stat -c %a "$ROOT/boot/peregrine/settings"; }
[ ! -e "$ROOT/boot/peregrine/settings" ] || fact settings-mode settings_mode

# ---- for what the next boot of Linux may wait: a passphrase, a device, a person
file crypttab /etc/crypttab
file fstab /etc/fstab
mounts() { cut -d' ' -f1-3 "$ROOT/proc/mounts"; }
fact mounts mounts
# Prints the path of what fstab and crypttab name; nothing if it is not there.
found() {
    case $1 in *\\040*) set -- "$(printf '%s\n' "$1" | sed 's/\\040/ /g')" ;; esac
    case $1 in
    /*) [ ! -e "$ROOT$1" ] || printf '%s\n' "$1"; return ;;
    UUID=*) by=uuid ;; LABEL=*) by=label ;; PARTUUID=*) by=partuuid ;; PARTLABEL=*) by=partlabel ;; ID=*) by=id ;;
    *) return ;;
    esac
    value=$(printf '%s\n' "${1#*=}" | tr -d '"')
    if [ -e "$ROOT/dev/disk/by-$by/$value" ]; then
        printf '/dev/disk/by-%s/%s\n' $by "$value"
    else
        findfs "${1%%=*}=$value" 2>/dev/null
    fi
}
fstab_missing() {
    while read -r device point rest || [ -n "$device" ]; do
        case $device in /*|[A-Z]*=*) [ -n "$(found "$device")" ] || printf '%s\n' "$device" ;; esac
    done < "$ROOT/etc/fstab"
}
fact fstab-missing fstab_missing
# Prints NAME and DEVICE of each encrypted mapping that a block device lies on.
below() (
    block=$ROOT/sys/class/block/$1
    case $(cat "$block/dm/uuid" 2>/dev/null) in
    CRYPT-*) set -- "$block"/slaves/*
             printf '%s /dev/%s\n' "$(cat "$block/dm/name")" "${1##*/}" ;;
    esac
    for slave in "$block"/slaves/*; do [ ! -e "$slave" ] || below "${slave##*/}"; done
)
encrypted() {
    grep -q '^CRYPT-' "$ROOT"/sys/class/block/dm-*/dm/uuid || return 0
    { grep '^/dev/' "$ROOT/proc/mounts"; sed -n 's|^\(/dev/[^ ]*\) .*|\1 swap|p' "$ROOT/proc/swaps"; } |
        while read -r device point rest; do
            device=$(readlink -f "$ROOT$device") &&
                below "${device##*/}" | while read -r mapping; do printf '%s %s\n' "$point" "$mapping"; done
        done
}
mappings=$(encrypted 2>/dev/null)
fact encrypted printf '%s\n' "$mappings"
if [ -n "$mappings" ] || grep -q '^[^#]' "$ROOT/etc/crypttab" 2>/dev/null; then
    # Prints a line `header NAME STATUS`, then the holders of keys that the header names: clevis, systemd.
    headers() {
        { printf '%s\n' "$mappings" | cut -d' ' -f2,3; grep '^[^#]' "$ROOT/etc/crypttab"; } | sort -u |
            while read -r name device rest; do
                [ -n "$device" ] && device=$ROOT$(found "$device") || continue
                text=$(cryptsetup luksDump "$device" < /dev/null)
                printf 'header %s %s\n' "$name" $?
                printf '%s\n' "$text" | grep -E 'clevis|systemd-|-pin:'
                ! has clevis || clevis luks list -d "$device" < /dev/null | sed 's/^/clevis /'
            done
    }
    fact headers headers
    # crypttab(5): without a key's file, one in cryptsetup-keys.d that is named after the device is taken.
    key_names() {
        grep '^[^#]' "$ROOT/etc/crypttab" | while read -r name device key rest; do
            case $key in /*) ;; *) key=/etc/cryptsetup-keys.d/$name.key ;; esac
            printf '%s\n' "$key"
        done
        # dracut.cmdline(7); the encrypt hook of mkinitcpio; mkinitfs-bootparam(7)
        ! grep -q -w -e cryptkey -e cryptdevice "$ROOT/proc/cmdline" || echo /crypto_keyfile.bin
        tr ' ' '\n' < "$ROOT/proc/cmdline" |
            sed -n 's/^\(rd\.luks\.key=\|cryptkey=\(rootfs:\)\{0,1\}\)\(\/[^:]*\).*/\3/p'
    }
    key_files() { key_names | while read -r key; do [ ! -s "$ROOT$key" ] || printf '%s\n' "$key"; done; }
    fact key-files key_files
    initramfs() {
        image=$(first "/boot/initrd.img-$(uname -r)" "/boot/initramfs-$(uname -r).img" "/boot/initrd-$(uname -r)" \
            /boot/initramfs-linux.img) || return
        for tool in lsinitramfs lsinitrd lsinitcpio; do
            ! has $tool || { $tool "$ROOT$image" | sed 's/.* //' | grep -F -e dropbear -e tinyssh -e sshd -e clevis \
                -e systemd-cryptsetup -e "$(echo keyfile; key_names | sed 's|.*/||')"; return 0; }
        done
        return 127
    }
    fact initramfs initramfs
    remote_keys() { first /etc/dropbear/initramfs/authorized_keys /etc/dropbear-initramfs/authorized_keys; }
    fact initramfs-ssh remote_keys
fi
if grep -q ' zfs ' "$ROOT/proc/mounts"; then
    zfs_keys() {
        sed -n 's/^\([^ ]*\) \([^ ]*\) zfs .*/\1 \2/p' "$ROOT/proc/mounts" | while read -r dataset point; do
            root=$(zfs get -H -o value encryptionroot "$dataset" < /dev/null)
            case $root in -|'') ;; *)
                printf '%s %s\n' "$point" "$(zfs get -H -o value keylocation "$root" < /dev/null)" ;;
            esac
        done
    }
    fact zfs-keys zfs_keys
fi
ext4_errors() {
    for f in "$ROOT"/sys/fs/ext4/*/errors_count; do
        [ ! -r "$f" ] || { read -r count < "$f"; [ "$count" = 0 ] || { f=${f%/*}; echo "${f##*/} $count"; }; }
    done
}
fact ext4-errors ext4_errors
# These run only when somebody asks for a password before the machine is up (systemd-ask-password-console.service(8)).
asked() {
    systemctl show -p ActiveEnterTimestampMonotonic systemd-ask-password-console.service \
        systemd-ask-password-plymouth.service
}
fact asked asked
asking_units() {
    for f in $(grep -lE '^Exec.*(systemd-ask-password|plymouth ask)' "$ROOT"/etc/systemd/system/*.service \
            "$ROOT"/usr/lib/systemd/system/*.service); do
        for link in "$ROOT"/etc/systemd/system/*.wants/"${f##*/}" "$ROOT"/etc/systemd/system/*.requires/"${f##*/}"; do
            [ ! -L "$link" ] || { link=${link%/*}
                printf '%s %s %s\n' "${f##*/}" "${link##*/}" "$(sed -n 's/^Before=//p' "$f" | tr '\n' ' ')"; }
        done
    done
}
fact asking-units asking_units
fact default-target readlink "$ROOT/etc/systemd/system/default.target"
# The menus of syslinux and extlinux.
fact syslinux grep -hiE '^[[:blank:]]*(default|prompt|timeout|totaltimeout|ui)[[:blank:]]' "$ROOT/boot/extlinux.conf" \
    "$ROOT/boot/extlinux/extlinux.conf" "$ROOT/boot/syslinux/syslinux.cfg"

# ---- kexec
fact kexec command -v kexec
file kexec-loaded /sys/kernel/kexec_loaded
file kexec-disabled /proc/sys/kernel/kexec_load_disabled
file kexec-limit /proc/sys/kernel/kexec_load_limit_reboot
fact run-free-kib free_kib /run

# ---- the network
if has ip; then
    fact route ip -j -4 route show
    device=$(ip -4 route show default 2>/dev/null | sed -n '1s/.* dev \([^ ]*\).*/\1/p')
    gateway=$(ip -4 route show default 2>/dev/null | sed -n '1s/.* via \([^ ]*\).*/\1/p')
    [ -z "$gateway" ] || has ping && ping -c 1 -W 1 "$gateway" >/dev/null 2>&1     # so that its address is known
    fact address ip -j -4 address show
    fact neighbours ip -j -4 neigh show
    link=$ROOT/sys/class/net/$device
    if [ -n "$device" ] && [ -d "$link" ]; then
        printf '#fact nic 0\n name=%s\n' "$device"
        content() { text=; [ ! -r "$2" ] || IFS= read -r text < "$2"; printf ' %s=%s\n' "$1" "$text"; }
        for property in address addr_assign_type mtu; do content $property "$link/$property"; done
        path=$(readlink -f "$link/device" 2>/dev/null)
        printf ' path=%s\n' "${path#"$ROOT"}"
        printf ' driver=%s\n' "$(basename "$(readlink -f "$link/device/driver" 2>/dev/null)")"
        content features "$link/device/features"
        # A virtio device is a child of the bus's device; others are that device themselves.
        at=${path%/*}
        [ "$(basename "$(readlink -f "$path/subsystem" 2>/dev/null)")" != pci ] || at=$path
        for property in vendor device revision; do content pci_$property "$at/$property"; done
        printf ' bus=%s\n' "$(basename "$(readlink -f "$at/subsystem" 2>/dev/null)")"
        printf ' queues=%s\n' "$(ls "$link/queues" 2>/dev/null | grep -c '^rx-')"
        printf ' slaves=%s\n' "$(ls -d "$link"/lower_* 2>/dev/null | sed 's/.*lower_//' | tr '\n' ' ')"
    else
        printf '#fact nic 1\n'
    fi
    nics() { for d in "$ROOT"/sys/bus/virtio/drivers/virtio_net/virtio* "$ROOT"/sys/bus/pci/drivers/gve/????:*; do
        [ ! -d "$d" ] || printf '%s %s\n' "$(ls "$d/net" 2>/dev/null)" "$(readlink -f "$d" | sed "s|^$ROOT||")"; done; }
    fact nics nics
fi
fact acpi-tables ls "$ROOT/sys/firmware/acpi/tables"
leases() {
    for f in "$ROOT"/run/systemd/netif/leases/* "$ROOT"/var/lib/dhcp/dhclient*.leases \
             "$ROOT"/var/lib/dhclient/*.lease* "$ROOT"/run/dhclient*.lease* "$ROOT"/var/lib/NetworkManager/*.lease; do
        [ ! -s "$f" ] || { printf 'file %s\n' "$f"; grep '^default-duid ' "$f"; tail -n 60 "$f"; }
    done
    # NetworkManager's files lack the server, and dhcpcd's are packets: the clients print what they hold.
    [ -n "${device-}" ] || return 0
    ! has nmcli || { printf 'file NetworkManager\n'; nmcli -t -f DHCP4 device show "$device"; }
    ! has dhcpcd || { printf 'file dhcpcd\n'; dhcpcd -4 -U "$device" < /dev/null; }
}
fact dhcp leases
file host-name /proc/sys/kernel/hostname
# Prints the settings of Linux's clients that say which options they send. A line `file NAME` begins those of one.
dhcp_clients() {
    [ -n "${device-}" ] || return 0
    link=$ROOT/run/systemd/netif/links/$(cat "$ROOT/sys/class/net/$device/ifindex" 2>/dev/null)
    network=$(sed -n 's/^NETWORK_FILE=//p' "$link" 2>/dev/null)
    if [ -n "$network" ]; then
        printf 'file systemd-networkd\n'
        name=${network##*/}
        for f in "$ROOT$network" "$ROOT"/usr/lib/systemd/network/"$name".d/*.conf \
                 "$ROOT"/run/systemd/network/"$name".d/*.conf "$ROOT"/etc/systemd/network/"$name".d/*.conf; do
            grep -hE '^(SendHostname|Hostname|VendorClassIdentifier)[[:blank:]]*=' "$f"
        done
    fi
    if has nmcli; then
        printf 'file NetworkManager\n'
        nmcli -t -f ipv4 connection show "$(nmcli -g GENERAL.CON-UUID device show "$device")"
        printf 'file NetworkManager.conf\n'
        grep -h '^ipv4\.dhcp-client-id=' "$ROOT"/usr/lib/NetworkManager/conf.d/*.conf \
            "$ROOT"/etc/NetworkManager/NetworkManager.conf "$ROOT"/etc/NetworkManager/conf.d/*.conf
    fi
    for f in "$ROOT"/run/dhclient*.pid "$ROOT"/run/NetworkManager/dhclient*.pid; do
        [ -s "$f" ] && words=$(tr '\0' ' ' < "$ROOT/proc/$(cat "$f")/cmdline") || continue
        case " $words " in *" $device "*) ;; *) continue ;; esac
        config=$(printf '%s\n' "$words" | sed -n 's/.* -cf \([^ ]*\).*/\1/p')
        printf 'file dhclient\n%s\n' "$words"
        cat "$ROOT${config:-$(first "/etc/dhcp/dhclient-$device.conf" /etc/dhcp/dhclient.conf /etc/dhclient.conf)}"
    done
    if has dhcpcd; then
        printf 'file dhcpcd\n'
        cat "$ROOT/etc/dhcpcd.conf"
        printf 'file dhcpcd.version\n'
        dhcpcd --version
        printf 'file dhcpcd.duid\n'
        cat "$ROOT$(first /var/lib/dhcpcd/duid /var/db/dhcpcd/duid /etc/dhcpcd.duid)"
    fi
}
fact dhcp-clients dhcp_clients
for name; do fact "resolve $name" getent ahostsv4 "$name"; done

# ---- the processor, the clock, memory
processor() { sed '/^$/q' "$ROOT/proc/cpuinfo"; }
fact processor processor
fact processors grep -c '^processor' "$ROOT/proc/cpuinfo"
file clocksource /sys/devices/system/clocksource/clocksource0/current_clocksource
file clocksources /sys/devices/system/clocksource/clocksource0/available_clocksource
kernel_log() {
    { dmesg; journalctl -k -b -o cat --no-pager; } 2>/dev/null | grep -E '(^|\] )tsc: |Marking TSC unstable' |
        sed 's/^\[[^]]*\] //' | sort -u
}
fact tsc kernel_log
fact memory grep -E '^(MemTotal|MemAvailable):' "$ROOT/proc/meminfo"
fact memory-map grep -E '^[0-9a-f]' "$ROOT/proc/iomem"
kcore() { dd if="$ROOT/proc/kcore" bs=4 count=1 2>/dev/null | od -An -tx1; }
fact kcore kcore
printf '#end\n'
