#!/usr/bin/env bash
# tools/setup.sh [run|test|check|prove]: installs what `make run`, `make test`, `make check` (the default) or
# `make prove` needs, and says what and why. Silent, quick and without the network when nothing is missing.
#
# Plain bash and dpkg: it runs before anything else is there. Made for and tested on Debian 12 and 13; the names also
# cover Ubuntu 22.04 and 24.04 (universe enabled), where it is untested. Changes nothing but packages: no service is
# installed, no source list is touched; what only the tests need and would start a daemon is unpacked below build/.
set -euo pipefail
cd "$(dirname "$0")/.."

# group package — reason. `make test` needs the group run as well, `make check` all but prove. `a|b`: either will do,
# the first that the distribution has is installed. A `#` stands for a version in the name, a whole number.
packages='
run gcc — compiles the kernel and the hosted programs
run libc6-dev — C headers of the hosted programs
run make — drives the build
run binutils — links the image, archives, reads symbols
run nasm — assembles boot/
run python3 — contest server, run driver, tests
run qemu-system-x86 — the machine that the kernel plays in
run ovmf — UEFI firmware for QEMU
run grub-common — grub-mkrescue, for the ISO; the font of the console
run grub-pc-bin — GRUB for BIOS, on the ISO
run grub-efi-amd64-bin — GRUB for UEFI, on the ISO
run mtools — grub-mkrescue writes the EFI partition with it
run xorriso — grub-mkrescue writes the ISO with it
run iproute2 — network namespaces and TAP devices of NET=tap and of the tests
run libjs-dygraphs — curves over time on the contest'\''s board
run libjs-chart.js|node-chart.js — bars and distributions on the contest'\''s board
lwip xz-utils — unpacks the source of lwIP
test g++ — the headers of programs are C++, too; the queue of boost that `make bench-base` measures
test libcmocka-dev — C unit tests
test python3-pytest — runs every test
test python3-pytest-xdist — on both cores
test python3-pytest-rerunfailures — plays a test that goes by the clock once more if it fails
test python3-hypothesis — sends the contest server every malformed request
test python3-prometheus-client — its parser reads the status page in the tests
test libgmp-dev — exact arithmetic of the matcher oracle and the benchmarks
test python3-sympy — `contest explain-m` factors with it
test clang-format — lint: how C is laid out
test cppcheck — lint: mistakes in C
test python3-flake8 — lint: mistakes in Python
test shellcheck — lint: mistakes in shell scripts
test codespell — lint: misspelt words
test man-db — formats the manual page in its test
check gcovr — table of `make coverage`
test openssh-client — ssh and keys of tools/peregrine and its tests
check clang — libFuzzer targets
check libclang-rt-dev|libclang-rt-14-dev|libfuzzer-14-dev — run-time libraries of libFuzzer and its sanitizers
check python3-matplotlib — plots of the contest'\''s board
check chromium — the browser that the tests of the contest'\''s board drive
check chromium-driver — drives it
check python3-selenium — speaks to the driver
check valgrind — counts instructions
check gdb — plays docs/debugging.md
check tshark — reads the frames that `capture=` keeps, and those of the exchange
check python3-pip — fetches the judges of the exchange below build/
check python3-numpy — arrays of one of them
check libssl-dev — OpenSSL beside our hashes in `make bench-digest`
check libopentracing-c-wrapper0t64|libopentracing-c-wrapper0 — a library of haproxy, which is unpacked below
check liblua5.3-0 — Lua, a library of haproxy on Debian 12
check liblua5.4-0 — Lua, a library of haproxy on Debian 13
check libjemalloc2 — a library of haproxy on Debian 13
check wrk — load over HTTP in that test, and in `make bench-load`
check redis-tools — redis-cli, which asks the store of docs/tutorial
check libboost-dev — that queue
check liburcu-dev — what the sequence lock is measured beside
check mmdebstrap — makes the Debian of tests/roundtrip
check uidmap — the same without root: more than one user id
check fakeroot — writes its file system without root
check debian-archive-keyring — checks the packages of that Debian
check gdisk — partitions its disk
check dosfstools — makes its EFI partition
check e2fsprogs — makes its root file system
check btrfs-progs — makes that of another Debian there
check xfsprogs — XFS, on which the power is cut in tests/deploy
check busybox — shell and tools of a small Linux, under the scripts of tools/peregrine
check rust-coreutils — tools of another kind, under the same scripts
check qemu-utils — qemu-img, for disks that are thrown away after a test
check dpdk-dev — testpmd, a network device that others wrote, for the games of tests/e2e
check librte-net-vhost# — its vhost-user port, where the guest is plugged in
check librte-net-tap# — its TAP, where the contest is plugged in
check ntpsec-ntpdate — ntpdate and ntpdig, which ask the time program; the libraries of ntpq
check libbsd0 — a library of ntpd, which is unpacked below
check libedit2 — a library of chronyd, which is unpacked below
check libseccomp2 — a library of chronyd, too
prove frama-c-base — Frama-C, which proves parsers: `make prove`
prove why3 — hands the goals of Frama-C to a prover
prove z3 — the prover
'

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

case ${1-check} in
run) groups=run ;;
test) groups='run test' ;;
check) groups='run test check lwip' ;;
prove) groups='run prove' ;;
*) die "'$1' is nothing to set up for: tools/setup.sh [run|test|check|prove]" ;;
esac
[ "${STACK-}" != lwip ] || groups+=' lwip'
wants() { [[ " $groups " == *" $1 "* ]]; }

command -v dpkg-query >/dev/null || die "this needs Debian or Ubuntu: there is no dpkg here"
[ "$(dpkg --print-architecture)" = amd64 ] || die "this needs an amd64 machine, not $(dpkg --print-architecture)"

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p')
newline=$'\n'

# has LIST NAME: succeeds if the list, a package a line, holds the name. Sets `match` to the package.
has() {
    match=$2
    case $2 in
    *'#'*) match=$(grep -xE "${2//#/[0-9]+}" <<<"$1" | sort -V | tail -n 1) && [ -n "$match" ] ;;
    *) [[ "$newline$1$newline" == *"$newline$2$newline"* ]] ;;
    esac
}

missing=()      # the table's lines, without group, of which nothing is installed
while read -r group line; do
    [ -n "$group" ] && wants "$group" || continue
    found=
    IFS='|' read -ra names <<<"${line%% *}"
    for name in "${names[@]}"; do
        ! has "$installed" "$name" || found=1
    done
    [ -n "$found" ] || missing+=("$line")
done <<<"$packages"

# Programs for tests alone whose packages would start a daemon: tools/setup.sh unpacks them, and installs nothing.
haproxy=build/third-party/haproxy/usr/sbin/haproxy
nginx=build/third-party/nginx/usr/sbin/nginx
promtool=build/third-party/promtool/usr/bin/promtool # in a package of its own from Debian 13 on
prometheus=build/third-party/prometheus/usr/bin/prometheus
chronyd=build/third-party/chrony/usr/sbin/chronyd
ntpd=build/third-party/ntpsec/usr/sbin/ntpd
lacks() { ! command -v "$(basename "$1")" >/dev/null && [ ! -x "/usr/sbin/$(basename "$1")" ] && [ ! -x "$1" ]; }

run_as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# apt gives dpkg a terminal of its own, so that a Ctrl-C does not kill dpkg between two files.
apt_get() {
    run_as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

updated=
apt_update() {
    local said
    [ -z "$updated" ] || return 1
    updated=1
    say "apt-get update: the package lists are missing or old"
    said=$(apt_get update 2>&1) || die "apt-get update failed; is there a network? $(grep -m 1 '^E:' <<<"$said")"
    # apt-get is content with old lists, or with none.
    grep -qE '^(Hit|Get):' <<<"$said" ||
        die "apt-get update reached no server; is there a network? $(grep -m 1 '^W:' <<<"$said")"
}

# Prints those of the packages that the distribution has, a line each. `#` in a name stands for a whole number.
find_candidates() {
    local name names=()
    for name in "$@"; do
        case $name in
        *'#'*) mapfile -t -O ${#names[@]} names < <(apt-cache pkgnames "${name%%#*}" 2>/dev/null) ;;
        *) names+=("$name") ;;
        esac
    done
    apt-cache policy "${names[@]}" 2>/dev/null | awk '/^[^ ]/ { sub(":.*", ""); name = $0 }
        $1 == "Candidate:" && $2 != "(none)" { print name }'
}

# Sets `chosen`: of each missing line the first alternative that the distribution has. Fails with `unknown` set to the
# line of which it has none.
choose() {
    local line name names candidates
    IFS='|' read -ra names <<<"$(printf '%s|' "${missing[@]%% *}")"
    candidates=$(find_candidates "${names[@]}")
    chosen=()
    for line in "${missing[@]}"; do
        unknown=$line
        IFS='|' read -ra names <<<"${line%% *}"
        for name in "${names[@]}"; do
            ! has "$candidates" "$name" || { chosen+=("$match"); unknown=; break; }
        done
        [ -z "$unknown" ] || return 1
    done
}

# Shows apt's output in few lines: the sizes, the progress, at most three errors. On a terminal the progress is one line
# that is written over and over; elsewhere it is a line each quarter. Bash, since awk may read whole blocks. Reads on
# after a Ctrl-C, or when the terminal has gone: dpkg would die of a broken pipe.
show_progress() {
    local line word total=0 shown='' errors=0 terminal=''
    declare -A done_count
    trap '' HUP QUIT
    trap 'printf "\nsetup: interrupted; dpkg ends what it has begun\n"' INT
    [ ! -t 1 ] || terminal=1
    while read -r line; do
        word=
        case $line in
        *' newly installed, '*)
            [[ ! $line =~ ^([0-9]+)' upgraded, '([0-9]+) ]] || total=$((BASH_REMATCH[1] + BASH_REMATCH[2])) ;;
        'Need to get '* | 'After this operation'*) say "  $line" ;;
        'Get:'*) word=fetching ;;
        'Unpacking '*) word=unpacking ;;
        'Setting up '*) word=installing ;;
        'E: '*)
            [ -z "$terminal" ] || [ -z "$shown" ] || echo
            shown=
            [ $((++errors)) -gt 3 ] || printf '%s\n' "$line" >&2 ;;
        esac
        [ -n "$word" ] && [ "$total" -gt 0 ] || continue
        done_count[$word]=$((${done_count[$word]:-0} + 1))
        if [ -n "$terminal" ]; then
            printf '\rsetup: %-40s' "$word ${done_count[$word]} of $total"
        else
            word="$word $((done_count[$word] * 4 / total * 25))%"
            [ "$word" = "$shown" ] || say "$word"
        fi
        shown=$word
    done
    [ -z "$terminal" ] || [ -z "$shown" ] || echo
}

install_missing() {
    local line
    say "to be installed, for make ${1-check}:"
    for line in "${missing[@]}"; do say "  $line"; done
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "not root, and no sudo here; as root: tools/setup.sh ${1-check}"
        sudo true || die "sudo does not let this user in; as root: tools/setup.sh ${1-check}"
    fi
    choose || { apt_update && choose; } || {
        ! grep -qs '^ID=ubuntu' /etc/os-release || hint='; add-apt-repository universe adds one'
        die "no source of packages has ${unknown%% *} (${unknown#* — })${hint-}"
    }
    trap 'exit 130' INT         # once apt has ended
    apt_get install -y --no-install-recommends "${chosen[@]}" 2>&1 | show_progress && return
    # Lists older than the archive name files that it no longer has.
    apt_update && apt_get install -y --no-install-recommends "${chosen[@]}" 2>&1 | show_progress && return
    die "apt-get install failed; its message stands above. By hand: apt-get install ${chosen[*]}"
}

# unpack PROGRAM REASON PACKAGE...: the program alone, out of the first package that has it, into build/. Nothing is
# installed, nothing is started.
unpack() {
    local program=$1 package at
    at=$(cut -d/ -f1-3 <<<"$program")
    say "unpacking $(basename "$program") below build/ — $2"
    mkdir -p "$at"
    package=$(find_candidates "${@:3}" | head -n 1)
    (cd "$at" && [ -n "$package" ] && apt-get -q download "$package" >/dev/null 2>&1) ||
        { apt_update && package=$(find_candidates "${@:3}" | head -n 1) &&
            (cd "$at" && apt-get -q download "$package" >/dev/null); } ||
        die "could not download a package that holds $(basename "$program"): $(printf '%s\n' "${@:3}" | paste -sd ' ')"
    rm -rf "$at.part"
    dpkg-deb -x "$at/${package}"_*.deb "$at.part"
    rm -rf "$at"
    mv "$at.part" "$at"
    [ -x "$program" ] || die "the package $package holds no $(basename "$program")"
}

[ ${#missing[@]} = 0 ] || install_missing "$@"
if wants check; then
    # Debian's package of nginx, and Ubuntu's.
    ! lacks $nginx || unpack $nginx "a server others wrote, which the end-to-end tests play against" nginx nginx-core
    ! lacks $haproxy || unpack $haproxy "the balancer of docs/balance.md, which its test plays" haproxy
    ! lacks $promtool || unpack $promtool "Prometheus' own linter reads the status page in the tests" promtool \
        prometheus
    ! lacks $prometheus || unpack $prometheus "it scrapes each program by share/monitoring" prometheus
    ! lacks $chronyd || unpack $chronyd "an NTP server and client, which the time program meets" chrony
    ! lacks $ntpd || unpack $ntpd "another one, with ntpq" ntpsec
fi
# Python's package index and Maven's have the judges. Not every machine reaches them.
! wants check || tools/workshop/fetch-judges.sh || echo "setup: tests/exchange skips what needs them" >&2
! wants lwip || tools/workshop/fetch-lwip.sh
