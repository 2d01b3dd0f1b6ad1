# Puts the kernel and its settings into /boot and one entry into GRUB's menu. Data on standard input: the settings as a
# line (ssh.py), then the kernel.
# Arguments (after common.sh's): protocol kernel_bytes kernel_sha256 settings_bytes settings_sha256 accept_changes
need_grub
take_line() { IFS= read -r line && printf %s "$line" | tr '\001' '\012'; }
protocol=$1 kernel_bytes=$2 kernel_hash=$3 settings_bytes=$4 settings_hash=$5 accept=$6
case $protocol in
multiboot2) kernel=$home/peregrine.elf ;;
linux) kernel=$home/peregrine.bz ;;
*) fail "no such boot protocol: $protocol" ;;
esac

# ---- Before anything is changed: read the data, and see that this is still the machine that was checked.
if [ "$dry" = 0 ]; then
    # Beside the place where the files go: /boot holds them once, and what a killed run left is swept by the next one.
    new_name "$ROOT/boot" peregrine mkdir ||
        fail "GRUB needs /boot in its present form; by kexec (fly --by kexec) nothing is installed; nothing was changed"
    sweep && mkdir "$work" || fail "/boot cannot be written; nothing was changed"
    trap 'rm -rf "$work"; [ -d "$before" ] || rm -rf "$home"' EXIT
    trap 'exit 1' HUP INT TERM
    take_line > "$work/settings" && cat > "$work/kernel" &&
        [ "$(hash_of "$work/kernel")" = "$kernel_hash" ] &&
        [ "$(hash_of "$work/settings")" = "$settings_hash" ] ||
        fail "the files arrived damaged, or /boot is full; nothing was changed"
    point
fi
for f in "$grub/grub.cfg" "$defaults"; do [ -r "$f" ] || fail "$f cannot be read; nothing was changed"; done
for tool in editenv probe mkrelpath script-check reboot; do
    command -v "$prefix-$tool" >/dev/null || fail "$prefix-$tool is missing; nothing was changed"
done
uuid=$("$prefix-probe" --target=fs_uuid "$ROOT/boot") && relative=$("$prefix-mkrelpath" "$ROOT/boot") &&
    system=$("$prefix-probe" --target=fs "$ROOT/boot") && partitions=$("$prefix-probe" --target=partmap "$ROOT/boot") ||
    fail "grub-probe does not find /boot's disk; nothing was changed"
[ "$relative" != / ] || relative=
[ -z "$("$prefix-probe" --target=abstraction "$ROOT/boot")" ] ||
    fail "/boot lies on LVM, RAID or encryption; nothing was changed"

# Copies that are left when somebody has taken the entry out by hand show another menu and another default than now.
is_outdated() {
    [ ! -e "$entry" ] && [ "$(setting GRUB_DEFAULT)" != saved ] && ! grep -q -e '--id peregrine' "$grub/grub.cfg" &&
        ! { cmp -s "$defaults" "$before/default-grub" && cmp -s "$grub/grub.cfg" "$before/grub.cfg"; }
}
copy_before() {
    [ ! -d "$before" ] || is_outdated || { say "  kept from the first time"; return 0; }
    mkdir -p "$home" && rm -rf "$before.new" && mkdir "$before.new" &&
        copy "$defaults" "$before.new/default-grub" &&
        copy "$grub/grub.cfg" "$before.new/grub.cfg" || return 1
    [ ! -e "$environment" ] || copy "$environment" "$before.new/grubenv" || return 1
    settle "$home" && point && rm -rf "$before" && mv "$before.new" "$before" && settle "$home"
}
is_private() {  # FAT keeps no modes: there chmod succeeds and changes nothing
    case $(stat -c %a "$1") in *00) return 0 ;; esac
    say "  others can read $1 (mode $(stat -c %a "$1")): this file system keeps no modes"
    return 1
}
copy_in() {     # FROM TO
    if cmp -s "$1" "$2" && [ "$(stat -c %a "$2")" = 600 ]; then say "  already so"; return 0; fi
    chmod 600 "$1" && is_private "$1" && place "$1" "$2"
}
keep_default() {
    if [ "$(variable saved_entry)" = "$default" ] && [ -z "$(variable next_entry)" ]; then
        say "  already so"
        return 0
    fi
    with_environment set "saved_entry=$default" || return 1
    ! "$prefix-editenv" "$environment" list | grep -q '^next_entry=' || with_environment unset next_entry
}
set_saved() {
    with_saved "$defaults" > "$work/defaults" || return 1
    replace "$defaults" < "$work/defaults" && [ "$(setting GRUB_DEFAULT)" = saved ]
}
write_entry() {
    {
        cat <<'END'
#!/bin/sh
# Written by `peregrine install`, removed by `peregrine uninstall`. The number puts it after every entry of Linux, so
# that entries named by number stay what they are.
cat <<'ENTRY'
menuentry 'Peregrine: once, then Linux' --class peregrine --unrestricted --id peregrine {
    # Should anything here fail, GRUB goes on with Linux by itself.
    set fallback=0
END
        for p in $partitions; do printf '    insmod part_%s\n' "$p"; done
        printf '    insmod %s\n    search --no-floppy --fs-uuid --set=root %s\n' "$system" "$uuid"
        case $protocol in
        multiboot2) printf '    insmod multiboot2\n    multiboot2 %s/peregrine/peregrine.elf\n' "$relative"
                    printf '    module2 %s/peregrine/settings settings\n' "$relative" ;;
        linux)      printf '    linux %s/peregrine/peregrine.bz\n' "$relative"
                    printf '    initrd %s/peregrine/settings\n' "$relative" ;;
        esac
        printf '}\nENTRY\n'
    } > "$work/entry" || return 1
    if cmp -s "$work/entry" "$entry" && [ -x "$entry" ]; then say "  already so"; entry_kept=1; return 0; fi
    rm -f "$entry"          # GRUB's menu is not made again before the new one is there
    replace "$entry" 755 < "$work/entry"
}
# The new grub.cfg may differ from the old one in our entry and in the line that sets the default. The part that boots
# Linux must be the same to the byte, or the machine would be trusted to something that never booted it.
update() {
    # The menu that an earlier install proved, of the same entry and settings: a new kernel or new settings need no
    # other.
    if [ "${entry_kept-}" = 1 ] && [ "$(hash_of "$grub/grub.cfg")" = "$(installed grub.cfg)" ] &&
            [ "$(hash_of "$defaults")" = "$(installed default-grub)" ]; then
        say "  already so"
        return 0
    fi
    generate || return 1
    say "  proving that Linux stays the default"
    [ "$(grep -c -e '--id peregrine' "$made")" = 1 ] || { say "  the entry is not listed exactly once"; return 1; }
    first=$(sed -n "s/^[[:blank:]]*menuentry .*/&/p" "$made" | sed -n 1p)
    case $first in *'--id peregrine'*|'') say "  Peregrine would be the first entry"; return 1 ;; esac
    grep -q 'set default="${saved_entry}"' "$made" && grep -q 'set default="${next_entry}"' "$made" ||
        { say "  grub.cfg would not take saved_entry and next_entry"; return 1; }
    case $(variable saved_entry) in peregrine*) say "  saved_entry names Peregrine"; return 1 ;; esac
    if [ "$accept" = 0 ] && [ "$(linux_part "$made")" != "$(linux_part "$before/grub.cfg")" ] &&
            [ "$(linux_part "$made")" != "$(linux_part "$grub/grub.cfg")" ]; then
        linux_part "$made" > "$work/new"; linux_part "$grub/grub.cfg" > "$work/old"
        diff "$work/old" "$work/new" | sed -n 's/^[<>]/    &/p' | sed -n 1,10p >&2
        say "  grub-mkconfig would change how Linux itself is booted, as above: grub.cfg is older than its sources."
        say "  Run update-grub, reboot to see that Linux still comes up, and install again" \
            "(or say --accept-grub-changes)"
        return 1
    fi
    if cmp -s "$made" "$grub/grub.cfg"; then
        rm -f "$made"
        say "  already so"
    else
        # If others have made the menu since the copies were taken, uninstall must not put the old one back.
        now=$(hash_of "$grub/grub.cfg") new=$(hash_of "$made")
        [ "$now" = "$(hash_of "$before/grub.cfg")" ] || [ "$now" = "$(installed grub.cfg)" ] || new=of-others
        printf 'grub.cfg %s\ndefault-grub %s\n' "$new" "$(hash_of "$defaults")" > "$work/installed" &&
            replace "$home/installed" < "$work/installed" &&
            replace "$grub/grub.cfg" < "$made" && rm -f "$made"
    fi
}
# The menu could not be made: no file of ours may stay for the next update-grub to find.
withdraw() {
    rm -f "$entry" "$work"/grub.cfg*
    fail "the entry is withdrawn and grub.cfg is as it was; peregrine uninstall takes back the rest"
}
verify() {
    grep -q -e '--id peregrine' "$grub/grub.cfg" || { say "  grub.cfg does not list the entry"; return 1; }
    [ "$(setting GRUB_DEFAULT)" = saved ] && [ -z "$(variable next_entry)" ] || {
        say "  Linux is not the default"
        return 1
    }
    is_private "$home/settings" || return 1
    [ "$(hash_of "$kernel")" = "$kernel_hash" ] && [ "$(hash_of "$home/settings")" = "$settings_hash" ] ||
        { say "  /boot/peregrine does not hold what was sent"; return 1; }
    say "  default: ${default:-first entry} (Linux); peregrine is listed and not armed"
}

# ---- The steps. Until the last but one no menu names the kernel; from then on all that it needs is there.
default=$(setting GRUB_DEFAULT)
[ "$default" != saved ] || default=$(variable saved_entry)
[ -n "$default" ] || default=0
case $default in peregrine*) fail "the default entry is Peregrine; nothing was changed" ;; esac

step "disarm grub-reboot" disarm
step "keep copies of grub.cfg, /etc/default/grub and grubenv in /boot/peregrine/before" copy_before
step "copy the kernel ($kernel_bytes bytes) to ${kernel#"$ROOT"}" copy_in "$work/kernel" "$kernel"
step "copy the settings ($settings_bytes bytes, mode 0600) to /boot/peregrine/settings" \
    copy_in "$work/settings" "$home/settings"
if [ "$(setting GRUB_DEFAULT)" = saved ]; then
    say "- /etc/default/grub says GRUB_DEFAULT=saved already"
else
    # First what `saved` will mean, then `saved`: a stale saved_entry must not become the default.
    step "grub-editenv: saved_entry=$default, the present default" keep_default
    step "/etc/default/grub: GRUB_DEFAULT=saved" set_saved
fi
step "write GRUB's entry to /etc/grub.d/42_peregrine" write_entry
say "- update GRUB"
[ "$dry" = 1 ] || update || withdraw
point
step "verify" verify
say "points: $points"
