#!/usr/bin/env bash
# Installs what the build and the tests need, and says what and why. Silent, and quick, when nothing is missing.
#
# Plain bash and dpkg: it runs before anything else is there. Made for and tested on Debian 12; the names also cover
# Ubuntu 22.04 and 24.04 (universe enabled), where it is untested. Changes nothing but packages: no service is
# installed, no source list is touched; what only the tests need and would start a daemon is unpacked below build/.
set -euo pipefail
cd "$(dirname "$0")/.."

# package — reason. A line a package; `a|b`: either will do, the first that the distribution has is installed.
packages='
gcc — compiles the kernel and the hosted programs
libc6-dev — C headers of the hosted programs
make — drives the build
binutils — links the image, archives, reads symbols
nasm — assembles boot/
python3 — contest server, run driver, tests
qemu-system-x86 — the machine that the kernel plays in
ovmf — UEFI firmware for QEMU
grub-common — grub-mkrescue, for the ISO
grub-pc-bin — GRUB for BIOS, on the ISO
grub-efi-amd64-bin — GRUB for UEFI, on the ISO
mtools — grub-mkrescue writes the EFI partition with it
xorriso — grub-mkrescue writes the ISO with it
iproute2 — network namespaces and TAP devices of NET=tap and of the tests
xz-utils — unpacks the source of lwIP
libcmocka-dev — C unit tests
clang — libFuzzer targets
libclang-rt-dev|libclang-rt-14-dev|libfuzzer-14-dev — run-time libraries of libFuzzer and its sanitizers
python3-pytest — runs every test
python3-pytest-xdist — on both cores
python3-prometheus-client — its parser reads the status page in the tests
libgmp-dev — exact arithmetic of the matcher oracle and the benchmarks
valgrind — counts instructions
openssh-client — ssh and keys of tools/peregrine and its tests
mmdebstrap — makes the Debian of tests/roundtrip
fakeroot — the same without root
debian-archive-keyring — checks the packages of that Debian
gdisk — partitions its disk
dosfstools — makes its EFI partition
e2fsprogs — makes its root file system
qemu-utils — qemu-img, for disks that are thrown away after a test
'

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

command -v dpkg-query >/dev/null || die "this needs Debian 12 or Ubuntu: there is no dpkg here"
[ "$(dpkg --print-architecture)" = amd64 ] || die "this needs an amd64 machine, not $(dpkg --print-architecture)"

installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p' | tr '\n' ' ')"

missing=()      # the lines of the table of which no alternative is installed
while IFS= read -r line; do
    [ -n "$line" ] || continue
    found=
    IFS='|' read -ra names <<<"${line%% *}"
    for name in "${names[@]}"; do
        [[ $installed == *" $name "* ]] && found=1
    done
    [ -n "$found" ] || missing+=("$line")
done <<<"$packages"

# Extra steps, each silent when its work is done: `needed` asks, `run` does.
nginx=build/third-party/nginx/usr/sbin/nginx    # a foreign server for tests/e2e; installed, it would listen on port 80
nginx_needed() { ! command -v nginx >/dev/null && [ ! -x /usr/sbin/nginx ] && [ ! -x $nginx ]; }

run_as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else die "not root, and no sudo here; as root: $*"
    fi
}

apt_get() {
    run_as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

updated=
apt_update() {
    [ -z "$updated" ] || return 1
    updated=1
    say "apt-get update: the package lists are missing or old"
    apt_get update >/dev/null || die "apt-get update failed (network? see its message above)"
}

has_candidate() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[!\(]* ]]; }

# Puts into `choice` the first alternative of the line that the distribution has.
choose() {
    local names name
    IFS='|' read -ra names <<<"${1%% *}"
    for name in "${names[@]}"; do
        if has_candidate "$name"; then choice=$name; return 0; fi
    done
    return 1
}

install_missing() {
    local line wanted
    say "to be installed:"
    for line in "${missing[@]}"; do
        choose "$line" || { apt_update && choose "$line"; } ||
            die "no source of packages has ${line%% *} (${line#* — }); on Ubuntu: add-apt-repository universe"
        say "  $choice — ${line#* — }"
        wanted+=("$choice")
    done
    apt_get install -y --no-install-recommends "${wanted[@]}" >/dev/null && return
    # Lists older than the archive name files that it no longer has.
    apt_update && apt_get install -y --no-install-recommends "${wanted[@]}" >/dev/null && return
    die "apt-get install failed; what it said stands above. By hand: apt-get install ${wanted[*]}"
}

# The program alone, out of its package, into build/: nothing is installed, nothing is started.
nginx_unpack() {
    local package at=build/third-party/nginx
    say "unpacking nginx below build/ — a server others wrote, which the end-to-end tests play against"
    mkdir -p $at
    has_candidate nginx || apt_update || true
    for package in nginx nginx-core; do     # Debian; Ubuntu
        (cd $at && apt-get -q download $package >/dev/null 2>&1) ||
            { apt_update && (cd $at && apt-get -q download $package >/dev/null); } || continue
        dpkg-deb -x $at/${package}_*.deb $at
        rm -f $at/${package}_*.deb
        [ ! -x $nginx ] || return 0
    done
    die "could not get nginx out of its package"
}

[ ${#missing[@]} = 0 ] || install_missing
! nginx_needed || nginx_unpack
[ ! -x tools/fetch-lwip.sh ] || tools/fetch-lwip.sh
