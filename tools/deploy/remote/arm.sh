# Arms one boot of the kernel and leaves Linux. Argument: once, kexec, look or disarm. `look` prints the installed
# settings and changes nothing. `disarm` is for a reboot that did not happen: prints `leaving` if Linux is still on its
# way down.
export LC_ALL=C PATH="$PATH:${ROOT-}/usr/sbin:${ROOT-}/sbin"
ROOT=${ROOT-}
how=$1
say() { printf '%s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
for directory in /boot/grub /boot/grub2; do
    [ ! -e "$ROOT$directory/grub.cfg" ] || { grub=$ROOT$directory; break; }
done
for tool in grub-mkconfig grub2-mkconfig; do command -v $tool >/dev/null && { prefix=${tool%-mkconfig}; break; }; done
home=$ROOT/boot/peregrine
[ -s "$home/settings" ] && [ -n "${grub-}" ] && [ -n "${prefix-}" ] && grep -q -e '--id peregrine' "$grub/grub.cfg" ||
    fail "nothing is installed: peregrine install first"

if [ "$how" = look ]; then
    cat "$home/settings"
    exit
elif [ "$how" = disarm ]; then
    [ "$(systemctl is-system-running 2>/dev/null)" != stopping ] || { echo leaving; exit 0; }
    case $("$prefix-editenv" "$grub/grubenv" list | sed -n 's/^next_entry=//p') in
    peregrine*)
        "$prefix-editenv" "$grub/grubenv" unset next_entry && sync || fail "grub-editenv could not disarm the entry" ;;
    esac
    [ ! -e "$ROOT/sys/kernel/kexec_loaded" ] || [ "$(cat "$ROOT/sys/kernel/kexec_loaded")" != 1 ] || kexec -u >&2
    exit
elif [ "$how" = once ]; then
    "$prefix-reboot" ${ROOT:+--boot-directory="$ROOT/boot"} peregrine || fail "grub-reboot failed"
    "$prefix-editenv" "$grub/grubenv" list | grep -q '^next_entry=peregrine$' ||
        fail "grub-reboot did not arm the entry"
    sync
    command=reboot
else
    command -v kexec >/dev/null || fail "there is no kexec here: apt-get install kexec-tools"
    if [ -e "$home/peregrine.elf" ]; then
        kexec -l "$home/peregrine.elf" --type=multiboot2-x86 --module="$home/settings settings" >&2
    else
        kexec -l "$home/peregrine.bz" --type=bzImage --initrd="$home/settings" >&2
    fi || fail "kexec could not load the kernel (for the multiboot2 image it must be 2.0.21 or later)"
    command=kexec
fi
# The answer must leave before the machine does.
if command -v systemctl >/dev/null; then
    (sleep 1; exec systemctl $command) >/dev/null 2>&1 </dev/null &
elif [ $command = reboot ]; then
    (sleep 1; exec reboot) >/dev/null 2>&1 </dev/null &
else
    (sleep 1; sync; exec kexec -e) >/dev/null 2>&1 </dev/null &
fi
