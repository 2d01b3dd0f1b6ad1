# Puts a file in another one's place, for GRUB's eyes as well. Runs on HOST as root, before common.sh or grub.sh.
#
# GRUB reads ext4 and XFS without their journal. For GRUB a rename has happened when its blocks are written where they
# belong: up to half a minute after fsync has returned, which waits for the journal alone. In between the folder on the
# disk still names the old inode. If Linux has freed that inode, its blocks are trimmed (mount option discard) or belong
# to another file, and GRUB reads NUL bytes or foreign text. So:
#
#   1. The new file lies under another name, and a hard link keeps the old file's inode.
#   2. settle: the new file and its inode are where GRUB reads them.
#   3. rename. From now on GRUB finds the old file or the new one, whichever folder block it reads. Both are whole.
#   4. settle: GRUB finds the new one. Only then the link goes.
#
# A cut or a killed shell leaves the link; the next run settles, then removes it. FAT has no hard links: there an open
# descriptor keeps the old file's clusters through step 4. A killed shell closes it, and Linux writes FAT within half a
# minute: a power cut in that time as well is the case that is left.
#
# settle freezes the file system and thaws it at once, which empties the journal (Linux, ext4_freeze, xfs_log_quiesce).
# `sync -f` alone does not. XFS then still holds the folder in its log. ext4 leaves out a block that another program has
# changed again: 12 to 28 of 40 renames beside a busy writer, Linux 6.18.
ROOT=${ROOT-}

say() { printf '%s\n' "$*" >&2; }
point() { :; }          # common.sh has a point at which the tests cut the power

# Prints where a file lies: links are followed, as GRUB follows them.
real() {
    if [ -L "$1" ] && [ ! -e "$1" ]; then
        say "  $1 is a link that leads nowhere: is the file system mounted that holds its target?"
        return 1
    fi
    readlink -f "$1" || printf '%s\n' "$1"
}
beside() { printf '%s/.%s.peregrine-%s\n' "${1%/*}" "${1##*/}" "$2"; }     # FILE new|old|gone

# Freezes the file system of a folder and thaws it. A second process thaws it if this one is killed in between.
freeze() (
    (sleep 10; exec fsfreeze --unfreeze "$1") >/dev/null 2>&1 </dev/null &
    trap '' HUP INT TERM
    fsfreeze --freeze "$1" && fsfreeze --unfreeze "$1"
    status=$?
    kill -9 $!
    exit $status
)
# Brings the file system of a folder to the disk, where GRUB reads it; /etc, where GRUB reads nothing, to the journal.
settle() {
    sync -f "$1" 2>/dev/null || sync || return 1
    case $1 in "$ROOT"/etc/*) return 0 ;; esac
    kind=$(stat -f -c %T "$1")
    case $kind in
    ext*|xfs) ! command -v fsfreeze >/dev/null || { freeze "$1"; return; } ;;
    esac
    [ "$kind" != xfs ] || { say "  there is no fsfreeze (package util-linux), which XFS needs"; return 1; }
    # FAT has no journal, so all data is written. On ext4 without fsfreeze this covers all except the changes of this
    # moment.
    sync
}

# place FROM TARGET: FROM, on the same file system, takes the place of TARGET, which is no link.
place() {
    old=$(beside "$2" old)
    sweep_away "$old" || return 1
    [ ! -e "$2" ] || ln "$2" "$old" 2>/dev/null || exec 9<"$2"
    settle "${2%/*}" && point && mv -f "$1" "$2" && point && settle "${2%/*}" || return 1
    exec 9<&-
    rm -f "$old"
}
# Removes what a run that was cut off has kept of a file or a folder.
sweep_away() { [ ! -e "$1" ] || { settle "${1%/*}" && rm -rf "$1"; }; }
# displace TARGET: takes TARGET, a file or a folder, out of GRUB's sight, then removes it.
displace() {
    gone=$(beside "$1" gone)
    sweep_away "$gone" && mv "$1" "$gone" && point && settle "${1%/*}" && rm -rf "$gone"
}

# ---- GRUB's environment block: $environment, of which grub-editenv would write over the only copy
# grub-editenv makes the file even for `list`, so it is not asked where there is none.
variable() { [ ! -s "$environment" ] || "$prefix-editenv" "$environment" list 2>/dev/null | sed -n "s/^$1=//p"; }
# with_environment ARGUMENTS of grub-editenv: on a copy, which then takes the file's place.
with_environment() {
    target=$(real "$environment") || return 1
    new=$(beside "$target" new)
    if [ -s "$target" ]; then
        cp -p "$target" "$new"
    else
        "$prefix-editenv" "$new" create && chmod 644 "$new"
    fi &&
        "$prefix-editenv" "$new" "$@" && place "$new" "$target" && return 0
    rm -f "$new"
    return 1
}
