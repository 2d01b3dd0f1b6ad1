#!/usr/bin/env bash
# tests/distributions/release.sh [RELEASE...] proves what a release ships, on bare Debian systems; by default bookworm
# and trixie. On each, the source archive is unpacked where there is no git. `make test` passes there, packages are
# built and checked by lintian. On a second bare system installed.sh installs, uses, upgrades and removes them. At last
# stranger.sh is an ordinary user with the packages alone and without a network, who makes and boots a program.
# Transcripts: build/distributions/RELEASE-STEP.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/distributions/bare.sh
. tests/distributions/bare.sh

version=$(<VERSION)
archive=build/peregrine-$version.tar.gz
rows=()

# play NETWORK USER STEP COMMAND: runs one command in `root` and adds its row to the table.
play() {
    local log=build/distributions/$release-$3.log begin=$SECONDS
    say "$release: $3, transcript in $log"
    inside "$1" "$2" "$4" >"$log" 2>&1 || die "$release: $3 failed: $(tail -n 5 "$log")"
    rows+=("$(printf '%-9s %-9s %6d s  passed' "$release" "$3" $((SECONDS - begin)))")
    say "${rows[-1]}"
}

# The archive is the same in another folder, under another umask.
make -s dist
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
git -c safe.directory='*' clone --quiet "file://$PWD" "$again/clone"
(umask 077 && make -s -C "$again/clone" dist)
cmp "$archive" "$again/clone/$archive" || die "two archives of one commit differ"

[ $# -gt 0 ] || set -- bookworm trixie
for release in "$@"; do
    make_root "$release" build-essential ca-certificates debhelper dh-python grub-common help2man lintian nasm \
        python3 python3-shtab xz-utils
    mkdir "$root/build" "$root/tests"
    tar -xf "$archive" -C "$root/build"
    tar -xf "$archive" -C "$root/tests"
    play network root packages "cd /build/peregrine-$version && dpkg-buildpackage -b -us -uc && cd .. &&
        lintian --fail-on error *.changes"
    rm -rf "build/distributions/$release-deb"
    mkdir "build/distributions/$release-deb"
    cp "$root"/build/*.deb "build/distributions/$release-deb"
    play network root tests "cd /tests/peregrine-$version && ! command -v git && make test"

    make_root "$release" ca-certificates curl grub-common man-db
    cp -r "build/distributions/$release-deb" "$root/root/deb"
    mkdir "$root/root/source"
    tar -xf "$archive" -C "$root/root/source" --strip-components=1
    play network root installed "cd source && tests/distributions/installed.sh /root/deb"
    play network root again "apt-get -q -y --no-install-recommends install /root/deb/*.deb gdb redis-tools &&
        useradd --create-home --shell /bin/bash stranger && cp source/tests/distributions/stranger.sh /home/stranger &&
        cd source && PYTHONPATH=.:tools python3 -B tests/distributions/stranger_host.py /home/stranger/host &&
        chown -R stranger: /home/stranger"
    play offline stranger stranger ./stranger.sh
done
printf '%s\n' "${rows[@]}"
