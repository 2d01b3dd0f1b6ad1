#!/usr/bin/env bash
# tests/distributions/installed.sh FOLDER installs the folder's packages on this system, uses them, upgrades them while
# a contest runs, and removes them without a trace. It is for a system that is thrown away: release.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=$1 version=$(<VERSION) older=0.9.0
export DEBIAN_FRONTEND=noninteractive
store=/var/lib/peregrine-contest/contest.db

step() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
fail() { step "$*" >&2; exit 1; }
apt() { apt-get -q -y --no-install-recommends "$@" </dev/null; }

# wait_for WORD ADDRESS: waits until the page holds the word.
wait_for() {
    local tries
    for ((tries = 0; tries < 60; tries++)); do
        ! curl -sf "$2" | grep -e "$1" >/dev/null || return 0
        sleep 0.5
    done
    fail "$2 does not show $1"
}

# page_has COMMAND WORDS: fails if the manual page lacks the words.
page_has() { man "$1" | tr -s ' ' | grep -F "$2" >/dev/null || fail "man $1 does not say: $2"; }

# Lists everything that a package could leave, without the package manager's own books and caches.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /root \
        -o -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort
    cat /etc/passwd /etc/group
}

# serve: starts the contest and waits for its board. Sets `server`.
serve() {
    peregrine-contest serve >/tmp/serve.log 2>&1 &
    server=$!
    wait_for 'Spring Cup' http://127.0.0.1:10000/board.json
}
end_server() { kill "$server" && wait "$server"; }

step "what the packages depend on"
apt update
mapfile -t needed < <(apt-get -s --no-install-recommends install "$packages"/*.deb |
    sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -v '^peregrine')
[ ${#needed[@]} -gt 0 ] || fail "apt cannot install the packages"
apt install "${needed[@]}"
files >/tmp/before

step "packages of an older version, with a contest that runs"
mkdir /tmp/older
for package in "$packages"/*.deb; do
    rm -rf /tmp/parts
    dpkg-deb -R "$package" /tmp/parts
    sed -i "s/^Version: .*/Version: $older/" /tmp/parts/DEBIAN/control
    find /tmp/parts -name VERSION -exec sh -c 'echo "$1" >"$2"' sh "$older" {} \;
    dpkg-deb -Zgzip -z1 -b /tmp/parts /tmp/older
done
apt install /tmp/older/*.deb
[ "$(peregrine --version)" = "peregrine $older" ] || fail "this is not the older version"
peregrine-contest init --name 'Spring Cup'
[ -s $store ] || fail "init did not write where the service looks"
install -d -o games /tmp/theirs
peregrine-contest init /tmp/theirs/contest.db
[ "$(stat -c %U /tmp/theirs/contest.db)" = games ] || fail "a store does not belong to the owner of its folder"
serve
curl -sf -d 123 'http://127.0.0.1:10002/submit?user=alice&passwd=a' >/dev/null
wait_for alice http://127.0.0.1:10000/board.txt

step "upgrade while it runs"
apt install "$packages"/*.deb
for command in peregrine gg peregrine-contest peregrine-linux peregrine-time-linux; do
    [ "$($command --version)" = "$command $version" ] || fail "$command --version: $($command --version)"
done
wait_for alice http://127.0.0.1:10000/board.txt
end_server
serve
wait_for alice http://127.0.0.1:10000/board.txt
end_server
peregrine-contest replay | grep alice >/dev/null || fail "the store lost alice"

step "use"
page_has peregrine 'boot the Peregrine kernel once'
page_has gg 'command a Peregrine machine'
page_has peregrine-contest 'peregrine-contest init'
page_has peregrine-linux 'Runs over Linux sockets'
bash -c '. /usr/share/bash-completion/completions/peregrine && complete -p peregrine' || fail "completion"
mkdir /tmp/host
PYTHONPATH=.:tools python3 -B -c 'from tests.deploy.fakehost import FakeHost; FakeHost("/tmp/host")'
peregrine check fake --ssh '/tmp/host/bin/ssh /tmp/host' | tee /tmp/check
grep -q 'the kernel can be booted here by GRUB or by kexec' /tmp/check || fail "peregrine check"
cp docs/example.conf /tmp/game.conf
peregrine key /tmp/game.conf
peregrine install fake --ssh '/tmp/host/bin/ssh /tmp/host' --config /tmp/game.conf
cmp /usr/lib/peregrine/images/peregrine.elf /tmp/host/root/boot/peregrine/peregrine.elf || fail "another image"
printf 'port=7\n' >/tmp/echo.conf
peregrine key /tmp/echo.conf
peregrine install fake --ssh '/tmp/host/bin/ssh /tmp/host' --program echo --config /tmp/echo.conf
cmp /usr/lib/peregrine/images/echo/peregrine.elf /tmp/host/root/boot/peregrine/peregrine.elf || fail "no echo"
for image in peregrine.elf echo/peregrine.elf lwip/peregrine.elf echo-lwip/peregrine.elf digest/peregrine.elf; do
    [ -s "/usr/lib/peregrine/images/$image" ] || fail "there is no image $image"
done

step "remove"
apt remove peregrine peregrine-contest
[ -s $store ] || fail "removing the package deleted the contest"
[ ! -e /usr/lib/peregrine-contest ] && [ ! -e /usr/bin/peregrine ] || fail "remove left files"
apt purge peregrine peregrine-contest
files >/tmp/after
diff /tmp/before /tmp/after || fail "these files are left"
step "passed"
