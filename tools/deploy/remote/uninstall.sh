# Takes back what install.sh did, in the opposite order, and leaves the files as they were, byte for byte. If others
# have changed them since, only our part is taken out.
# Linux alone is in the menu now, so GRUB misses nothing of the folder. `before` goes first and at once: without it
# there is nothing that a next run could restore.
remove_home() {
    sweep || return 1
    [ ! -d "$home" ] || { mkdir "$work" && { [ ! -d "$before" ] || mv "$before" "$work"; } && settle "$home" &&
        rm -rf "$home" && settle "$ROOT/boot"; }
}

if [ ! -e "$entry" ] && [ ! -d "$before" ] &&
        ! { [ -n "$grub" ] && grep -q -e '--id peregrine' "$grub/grub.cfg"; }; then
    [ "$dry" = 1 ] || remove_home
    say "- nothing is installed"
    say "points: $points"
    exit 0
fi

need_grub
remove_entry() { rm -f "$entry" && settle "$ROOT/etc/grub.d"; }
restore_defaults() {
    [ -e "$before/default-grub" ] || { say "  no copy: left as it is"; return 0; }
    now=$(hash_of "$defaults") was=$(hash_of "$before/default-grub")
    if [ "$now" = "$was" ]; then say "  already so"; return 0; fi
    if [ "$now" = "$(with_saved "$before/default-grub" | sha256sum | cut -d' ' -f1)" ]; then
        restore "$defaults" "$before/default-grub"
        return
    fi
    say "  changed by others since; only GRUB_DEFAULT is put back"
    line=$(sed -n '/^[[:blank:]]*GRUB_DEFAULT=/p' "$before/default-grub" | tail -n 1)
    {
        grep -v '^[[:blank:]]*GRUB_DEFAULT=saved$' "$defaults"
        [ -z "$line" ] || printf '%s\n' "$line"
    } > "$home/defaults.new" &&
        replace "$defaults" < "$home/defaults.new" && rm -f "$home/defaults.new"
}
restore_menu() {
    now=$(hash_of "$grub/grub.cfg")
    if [ "$now" = "$(hash_of "$before/grub.cfg")" ]; then say "  already so"; return 0; fi
    if [ "$now" = "$(installed grub.cfg)" ]; then
        restore "$grub/grub.cfg" "$before/grub.cfg"
        return
    fi
    say "  others have made grub.cfg again since; it is made once more, without the entry"
    generate || return 1
    ! grep -q -e '--id peregrine' "$made" && grep -q '^[[:blank:]]*menuentry ' "$made" ||
        { rm -f "$made"; say "  the new grub.cfg is not what it should be"; return 1; }
    [ "$(linux_part "$made")" = "$(linux_part "$grub/grub.cfg")" ] || {
        rm -f "$made"
        say "  grub-mkconfig would change how Linux itself is booted. Run update-grub, and uninstall again"
        return 1
    }
    replace "$grub/grub.cfg" < "$made" && rm -f "$made"
}
restore_environment() {
    [ -d "$before" ] || return 0
    if [ ! -e "$before/grubenv" ]; then
        # There was none. Only ours may be in it now.
        [ ! -e "$environment" ] || [ -n "$(lasting "$environment" | grep -v '^saved_entry=')" ] ||
            displace "$environment"
        return
    fi
    was=$(lasting "$before/grubenv") now=$(lasting "$environment")
    # With `saved` in the settings before, install has changed nothing here.
    if [ "$was" != "$now" ] && [ "$(setting GRUB_DEFAULT)" = saved ]; then
        say "  changed by others since; left as it is"
        return 0
    fi
    saved=$(printf '%s\n' "$was" | sed -n 's/^saved_entry=//p')
    others() { printf '%s\n' "$1" | grep -v '^saved_entry='; }
    if [ "$(others "$was")" = "$(others "$now")" ]; then
        cmp -s "$environment" "$before/grubenv" && { say "  already so"; return 0; }
        restore "$environment" "$before/grubenv"
    elif [ -n "$saved" ]; then
        say "  changed by others since; only saved_entry is put back"
        with_environment set "saved_entry=$saved"
    else
        say "  changed by others since; only saved_entry is taken out"
        with_environment unset saved_entry
    fi
}

verify() {
    [ ! -e "$entry" ] && [ ! -e "$home" ] && ! grep -q -e '--id peregrine' "$grub/grub.cfg" && return 0
    say "  not all is removed"
    return 1
}

step "disarm grub-reboot" disarm
step "remove GRUB's entry /etc/grub.d/42_peregrine" remove_entry
step "restore /etc/default/grub" restore_defaults
step "restore grub.cfg" restore_menu
step "restore GRUB's environment" restore_environment
step "remove /boot/peregrine" remove_home
step "verify" verify
say "points: $points"
