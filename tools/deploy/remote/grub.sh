# Boots the installed kernel by GRUB. Argument: load, leave or unload, or look: prints the installed settings and
# changes nothing. `load` arms GRUB's entry for one boot.
for directory in /boot/grub /boot/grub2; do
    [ ! -e "$ROOT$directory/grub.cfg" ] || { grub=$ROOT$directory; break; }
done
for tool in grub-mkconfig grub2-mkconfig; do command -v $tool >/dev/null && { prefix=${tool%-mkconfig}; break; }; done
home=$ROOT/boot/peregrine
[ -s "$home/settings" ] && [ -n "${grub-}" ] && [ -n "${prefix-}" ] && grep -q -e '--id peregrine' "$grub/grub.cfg" ||
    fail "nothing is installed: peregrine install first"
armed() { "$prefix-editenv" "$grub/grubenv" list | sed -n 's/^next_entry=//p'; }

case $1 in
look)
    cat "$home/settings" ;;
load)
    "$prefix-reboot" ${ROOT:+--boot-directory="$ROOT/boot"} peregrine || fail "grub-reboot failed"
    [ "$(armed)" = peregrine ] || fail "grub-reboot did not arm the entry"
    sync ;;
leave)
    if has_systemd; then later 1 systemctl reboot; else later 1 reboot; fi ;;
unload)
    ! stopping || { echo leaving; exit 0; }
    case $(armed) in
    peregrine*)
        "$prefix-editenv" "$grub/grubenv" unset next_entry && sync || fail "grub-editenv could not disarm the entry" ;;
    esac ;;
esac
