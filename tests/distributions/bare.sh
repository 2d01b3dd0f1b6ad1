# shellcheck shell=bash
# Bare Debian systems below build/distributions/, for newcomer.sh and compilers.sh, which source this file. Needs root,
# mmdebstrap and a network.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() { say "$*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "this makes system roots, so it needs root: sudo make check-$(basename "$0" .sh)"
command -v mmdebstrap >/dev/null || die "there is no mmdebstrap here: apt-get install mmdebstrap"
command -v pivot_root >/dev/null || die "there is no pivot_root here: apt-get install util-linux"

# make_root RELEASE PACKAGE...: makes a new minimal system of the release with the packages. Sets `root` to its
# folder, which has the release's name, or NAME. Proxies and other settings of this machine's apt hold there, too.
make_root() {
    root=$PWD/build/distributions/${NAME:-$1}
    say "making a bare $1 in ${root#"$PWD"/}"
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    apt-config dump Acquire >"$root.apt"
    # shellcheck disable=SC2086 # MIRROR may be empty.
    mmdebstrap --quiet --variant=minbase --aptopt="$root.apt" --include="$(IFS=,; echo "${*:2}")" \
        "$1" "$root" ${MIRROR-} >"$root.log" 2>&1 || die "mmdebstrap failed: $(tail -n 3 "$root.log")"
    cp --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
}

# copy_tree FOLDER: clones the commit that is checked out into a folder of `root`.
copy_tree() {
    git -c safe.directory='*' clone --quiet --no-hardlinks "file://$PWD" "$root/$1"
}

# inside NETWORK USER COMMAND: runs a shell command in `root`, with processes and mounts of its own. NETWORK is
# `network`, or `offline` for a network that has nothing but loopback. `root` becomes the root by pivot_root: Linux
# refuses user namespaces to a process in a chroot.
inside() {
    local net=()
    [ "$1" = network ] || net=(--net)
    # shellcheck disable=SC2016 # The inner shell expands them.
    unshare --mount --pid --fork --kill-child "${net[@]}" bash -c '
        root=$1 user=$2 command=$3
        set -e
        mount --make-rprivate /
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        [ '"$1"' = network ] || ip link set lo up
        cd "$root"
        pivot_root . mnt
        umount -l /mnt
        exec su - "$user" -c "export LANG=C.UTF-8; $command"
    ' bash "$root" "$2" "$3" </dev/null
}
