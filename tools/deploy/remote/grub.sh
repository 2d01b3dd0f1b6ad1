# Boots the installed kernel by GRUB. Argument: load, leave or unload, or look: prints the installed settings and
# changes nothing. `load` arms GRUB's entry for one boot. Runs after way.sh and place.sh.
for directory in /boot/grub /boot/grub2; do
    [ ! -e "$ROOT$directory/grub.cfg" ] || { grub=$ROOT$directory; break; }
done
for tool in grub-mkconfig grub2-mkconfig; do command -v $tool >/dev/null && { prefix=${tool%-mkconfig}; break; }; done
home=$ROOT/boot/peregrine
[ -s "$home/settings" ] && [ -n "${grub-}" ] && [ -n "${prefix-}" ] && grep -q -e '--id peregrine' "$grub/grub.cfg" ||
    fail "nothing is installed: peregrine install first"
environment=$grub/grubenv

case $1 in
look)
    cat "$home/settings" ;;
load)
    # As grub-reboot does, which would write over the only copy of grubenv.
    with_environment set next_entry=peregrine && [ "$(variable next_entry)" = peregrine ] ||
        fail "grub-editenv did not arm the entry"
    rm -rf "$home/work" ;;
leave)
    # systemctl(1), reboot: it would start what another program has loaded for kexec, or another root.
    export SYSTEMCTL_SKIP_AUTO_KEXEC=1 SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1
    if has_systemd; then later 1 aloud systemctl reboot; else later 1 aloud reboot; fi ;;
unload)
    ! stopping || { echo leaving; exit 0; }
    case $(variable next_entry) in
    peregrine*) with_environment unset next_entry && [ -z "$(variable next_entry)" ] ||
        fail "grub-editenv could not disarm the entry"
        rm -rf "$home/work" ;;
    esac
    say_why ;;
esac
