# Shared by install.sh and uninstall.sh; runs on HOST as root, after place.sh.
#
# Every step obeys one rule: a file is written under another name and placed (place.sh); a power cut leaves the old one
# or the new one. The order of the steps is the proof that Linux boots in both cases.
# $ROOT is empty, or a directory that stands for / in the tests.
export LC_ALL=C PATH="$PATH:${ROOT-}/usr/sbin:${ROOT-}/sbin"
set -u
umask 077
dry=${1:?}              # 1: say the steps, do none
stop_at=${2:?}          # tests: be killed at this point; 0: never
shift 2

fail() { say "stopped: $*"; exit 1; }

# step WHAT COMMAND...: says what it does, does it, and is a point at which the tests cut the power.
points=0
point() {
    points=$((points + 1))
    [ "$points" != "$stop_at" ] || kill -9 $$
}
step() {
    say "- $1"
    shift
    [ "$dry" = 1 ] || "$@" || fail "that did not work; $(next_boot)"
    point
}
next_boot() {
    case $(variable next_entry) in
    peregrine*)
        echo "one boot of the kernel is STILL ARMED. Disarm it: $prefix-editenv $environment unset next_entry" ;;
    *) echo "the machine boots Linux as before, and the command can be repeated" ;;
    esac
}

installed() { sed -n "s/^$1 //p" "$home/installed" 2>/dev/null; }     # the hash of a file as install left it
hash_of() { if [ -e "$1" ]; then sha256sum < "$1" | cut -d' ' -f1; else echo none; fi; }

# Copies a file with its mode, owner and time. cp alone shares the blocks of the two on XFS: GRUB, which writes grubenv
# in place, would write into the copy as well.
copy() { cp -p "$1" "$2" && dd if="$1" of="$2" bs=64k 2>/dev/null && touch -r "$1" "$2"; }
# replace FILE < contents: with FILE's mode and owner if it exists, else mode $2.
replace() {
    target=$(real "$1") || return 1
    new=$(beside "$target" new)
    if [ -e "$target" ]; then
        cp -p "$target" "$new" && cat > "$new"
    else
        cat > "$new" && chmod "${2:-600}" "$new"
    fi &&
        place "$new" "$target" && return 0
    rm -f "$new"
    return 1
}
# restore FILE COPY: the copy's bytes, mode, owner and time.
restore() {
    target=$(real "$1") || return 1
    new=$(beside "$target" new)
    copy "$2" "$new" && place "$new" "$target" && return 0
    rm -f "$new"
    return 1
}

# ---- where things are
grub='' prefix=''
for directory in /boot/grub /boot/grub2; do
    [ ! -e "$ROOT$directory/grub.cfg" ] || { grub=$ROOT$directory; break; }
done
for tool in grub-mkconfig grub2-mkconfig; do command -v $tool >/dev/null && { prefix=${tool%-mkconfig}; break; }; done
need_grub() {
    [ -n "$grub" ] || fail "there is no GRUB here"
    [ -n "$prefix" ] || fail "there is no grub-mkconfig"
}
home=$ROOT/boot/peregrine
entry=$ROOT/etc/grub.d/42_peregrine
defaults=$ROOT/etc/default/grub
environment=$grub/grubenv
before=$home/before
work=$home/work                             # holds the settings with their key: root alone may read it

# Removes the files that a run that was cut off may have left.
sweep() {
    sweep_away "$work" || return 1
    for file in "$grub/grub.cfg" "$environment" "$defaults" "$entry" "$home" "$home/installed" "$home/settings" \
            "$home/peregrine.elf" "$home/peregrine.bz"; do
        file=$(real "$file") || return 1
        for name in new old gone; do sweep_away "${file%/*}/.${file##*/}.peregrine-$name" || return 1; done
    done
    rm -rf "$grub"/.grub.cfg.peregrine-made* "$home"/*.new "$ROOT/boot/.peregrine-incoming"
}

# ---- GRUB's settings and environment
setting() ( set +u; . "$defaults"; for f in "$ROOT"/etc/default/grub.d/*.cfg; do [ ! -e "$f" ] || . "$f"; done
            eval "printf '%s\n' \"\$$1\"" )
# Prints a file of settings with GRUB_DEFAULT=saved, as install writes it.
with_saved() {
    sed 's/^\([[:blank:]]*\)GRUB_DEFAULT=.*/\1GRUB_DEFAULT=saved/' "$1" || return 1
    grep -q '^[[:blank:]]*GRUB_DEFAULT=' "$1" || {
        [ -z "$(tail -c 1 "$1")" ] || echo
        echo GRUB_DEFAULT=saved
    }
}
# The environment without what arms one boot, and without empty variables, which are as good as absent.
lasting() { [ ! -s "$1" ] || "$prefix-editenv" "$1" list | grep -v -e '^next_entry=' -e '=$'; }

disarm() {
    case $(variable next_entry) in
    peregrine*) with_environment unset next_entry ;;
    *) say "  not armed" ;;
    esac
}

# ---- grub.cfg
# Prints the part that boots Linux: 10_linux's own, or every entry except ours if GRUB's scripts have other names.
linux_part() {
    if grep -q '^### BEGIN .*/10_linux ###$' "$1"; then
        sed -n '/^### BEGIN .*\/10_linux ###$/,/^### END .*\/10_linux ###$/p' "$1"
    else
        sed -n "s/^[[:blank:]]*\(menuentry\|submenu\) .*/&/p" "$1" | grep -v -e '--id peregrine'
    fi
}
# Makes a new grub.cfg beside the old one. grub-mkconfig itself overwrites the old one: not while power may go.
generate() {
    mkdir -p "$work"
    made=$work/grub.cfg
    rm -f "$made" "$made.new"
    "$prefix-mkconfig" -o "$made" >/dev/null 2>&1 && [ -s "$made" ] || {
        rm -f "$made" "$made.new"
        say "  grub-mkconfig failed"
        return 1
    }
    "$prefix-script-check" "$made" || {
        rm -f "$made"
        say "  grub-mkconfig made a grub.cfg that GRUB cannot read"
        return 1
    }
}
