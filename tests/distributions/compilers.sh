#!/usr/bin/env bash
# tests/distributions/compilers.sh [RELEASE...] builds images, hosted programs and C tests with gcc and clang of each
# Debian release. A warning is a failure. By default the releases are the three that carry the oldest, the current and
# the newest compilers. Transcripts: build/distributions/RELEASE-COMPILER.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/distributions/bare.sh
. tests/distributions/bare.sh

failed=0
rows=()
[ $# -gt 0 ] || set -- bookworm trixie sid
for release in "$@"; do
    make_root "$release" binutils ca-certificates clang gcc git grub-common libc6-dev libclang-rt-dev libcmocka-dev \
        libgmp-dev make nasm python3 xz-utils
    copy_tree peregrine
    for compiler in gcc clang; do
        log=build/distributions/$release-$compiler.log
        version=$(inside network root "$compiler --version | head -n 1")
        say "$release: $version, transcript in $log"
        inside network root "cd /peregrine && tools/workshop/fetch-lwip.sh build/$compiler/lwip" >"$log" 2>&1 ||
            die "lwIP could not be fetched in $release: $(tail -n 1 "$log")"
        result='builds without a warning'
        inside offline root "cd /peregrine && make -s -k -j$(nproc) CC=$compiler BUILD=build/$compiler WERROR=1 \
            all host needs IN='unit wire sim matcher hosted netlib transport flood linux guest e2e'" >>"$log" 2>&1 ||
            { failed=1; result="FAILS: $(grep -m 1 -E 'error:|Error ' "$log")"; }
        rows+=("$(printf '%-9s %-44s %s' "$release" "$version" "$result")")
        say "${rows[-1]}"
    done
done
printf '%s\n' "${rows[@]}"
exit $failed
