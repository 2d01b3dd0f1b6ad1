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
# The new file and the link lie in /boot/peregrine/work, and not beside the old file. A new name may change the form of
# a folder: XFS moves the names from the inode to a block, ext4 from one block to an index and two others. These blocks
# are written in any order, and GRUB finds no name of the folder meanwhile. A rename onto a name changes the number of
# its inode alone. So a folder that GRUB needs to find Linux gets one name, /boot/peregrine, and only if its form stays
# (new_name).
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
# Prints the name of a file's next version or of its last one. FILE new|old|gone
beside() {
    folder=${1%/*}
    case $folder in "$ROOT"/boot*)
        [ ! -d "$home" ] || [ "$(stat -c %d "$home")" != "$(stat -c %d "$folder")" ] || folder=$home/work
        mkdir -p "$folder" ;;
    esac
    printf '%s/.%s.peregrine-%s\n' "$folder" "${1##*/}" "$2"
}
kind_of() { stat -f -c %T "$1"; }

# new_name FOLDER NAME COMMAND: makes a file or a folder by COMMAND, and takes it back if it changes FOLDER's form.
new_name() {
    [ ! -e "$1/$2" ] || return 0
    case $(kind_of "$1") in
    ext*) has_room "$1" "$2" || { say "  $1 may have no room for one more name"; return 1; } ;;
    esac
    blocks=$(stat -c %b "$1")
    "$3" "$1/$2" || return 1
    # XFS keeps both changes in memory, and neither reaches the disk.
    [ "$(kind_of "$1")" != xfs ] || [ "$(stat -c %b "$1")" = "$blocks" ] || {
        rm -rf "${1:?}/$2"
        say "  $1 has no room for one more name"
        return 1
    }
}
# has_room FOLDER NAME: returns true if each block of a folder of ext4 certainly has room for the name. An entry has 8
# bytes and the name, rounded up to 4; each entry may be followed by a gap (Linux, fs/ext4/namei.c). A gap that is too
# small has at most `need` - 4 bytes. debugfs shows all gaps.
has_room() {
    need=$(((8 + ${#2} + 3) / 4 * 4))
    block=$(stat -f -c %S "$1")
    if [ "$(stat -c %s "$1")" -le "$block" ]; then
        room=$((block - 36)) names=2            # . and .., and a checksum
        for path in "$1"/* "$1"/.[!.]* "$1"/..?*; do
            [ -e "$path" ] || [ -L "$path" ] || continue
            path=${path##*/}
            room=$((room - (8 + ${#path} + 3) / 4 * 4)) names=$((names + 1))
        done
        [ "$room" -le $(((need - 4) * names)) ] || return 0
    fi
    device=$(df -P "$1" | sed -n '2s/ .*//p')
    debugfs -R "ls <$(stat -c %i "$1")>" "$device" 2>/dev/null | tr -s ' \n' '\n\n' | (
        sum=0 size='' gap=0 blocks=0
        while IFS= read -r word; do
            case $size$word in
            '('[0-9]*')') size=${word#?} size=${size%?} ;;
            "$size"?*)
                [ -n "$size" ] || continue      # an inode's number
                sum=$((sum + size))
                [ $((size - (8 + ${#word} + 3) / 4 * 4)) -lt "$need" ] || gap=1
                size=''
                [ $((block - sum)) -ne 0 ] && [ $((block - sum)) -ne 12 ] || {
                    [ $gap = 1 ] || exit 1
                    sum=0 gap=0 blocks=$((blocks + 1))
                } ;;
            esac
        done
        [ $sum = 0 ] && [ $blocks != 0 ]
    )
}

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
    kind=$(kind_of "$1")
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
        new_name "${target%/*}" "${target##*/}" touch && "$prefix-editenv" "$new" create && chmod 644 "$new"
    fi &&
        "$prefix-editenv" "$new" "$@" && place "$new" "$target" && return 0
    rm -f "$new"
    return 1
}
