#!/usr/bin/env bash
# tests/distributions/newcomer.sh RELEASE plays somebody who has never seen this project, on a bare Debian with git,
# make, ca-certificates and sudo. An ordinary user runs README's two commands, then both again without sudo and without
# a network. T=NAME: of `make check` only the tests whose names match. Transcripts: build/distributions/RELEASE-*.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/distributions/bare.sh
. tests/distributions/bare.sh

case ${1-} in
bookworm | trixie | forky | sid) ;;
*) die "RELEASE=${1-}: must be bookworm, trixie, forky or sid" ;;
esac
release=$1
make_root "$release" ca-certificates git make sudo
inside network root 'useradd --create-home --shell /bin/bash newcomer'
echo 'newcomer ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/newcomer"
copy_tree home/newcomer/peregrine
inside network root 'chown -R newcomer: /home/newcomer/peregrine'

failed=0
rows=()

# play NETWORK COMMAND: runs one command as the newcomer and adds its row to the table.
play() {
    local log="build/distributions/$release-$1-${2%% T=*}.log" begin=$SECONDS status=0
    log=${log// /-}
    say "$2 ($1), transcript in $log"
    inside "$1" newcomer "cd peregrine && $2" >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || failed=1
    rows+=("$(printf '%-9s %-8s %-24s %6d s  exit %d  %s' "$release" "$1" "$2" $((SECONDS - begin)) "$status" \
        "$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)")")
    say "${rows[-1]}"
}

check="make check${T:+ T=$T}"
play network 'make run'
play network "$check"
rm "$root/etc/sudoers.d/newcomer"
play offline 'make run'
play offline "$check"
printf '%s\n' "${rows[@]}"
exit $failed
