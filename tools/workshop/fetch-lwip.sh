#!/usr/bin/env bash
# Fetches lwIP's source from the distribution's mirror into build/lwip/. Instant and silent when it is there.
#
# The file is the upstream part of the Debian and Ubuntu source package `lwip`, by its version and SHA-256 below. The
# mirrors are the ones this machine's apt is configured with (read, never changed), and apt's own downloader fetches
# it, so proxies and credentials hold as they do for apt. No root needed, no package lists needed.
#
# None of the package's patches is applied: at this version they concern its sockets API, PPP and its Unix port, and
# none of that is built here.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=2.1.3+dfsg1
sha256=0a8276d09fc4e97bbba2f953d74af2388fc2195ea156be9d7589e297a68fde24     # hash of lwip_$version.orig.tar.xz

case ${1-} in -*) echo "fetch-lwip.sh [DIRECTORY]: fetches lwIP into build/lwip, or there" >&2; exit 2 ;; esac
target=${1:-build/lwip}
stamp=$target/.fetched
if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$sha256" ]; then
    exit 0
fi

command -v xz >/dev/null || { echo "fetch-lwip: there is no xz here: apt-get install xz-utils" >&2; exit 1; }
helper=/usr/lib/apt/apt-helper
if [ ! -x "$helper" ]; then
    echo "fetch-lwip: $helper is missing; this needs a Debian or Ubuntu machine (package apt)" >&2
    exit 1
fi

# Repositories as apt sees them, `URI component`, without duplicates. --no-release-info: also where no list of
# packages was ever fetched. Debian keeps lwip in main, Ubuntu in universe.
repositories() {
    apt-get indextargets --no-release-info --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
        awk '($2 == "main" || $2 == "universe") && !seen[$0]++'
}

mkdir -p "$target"
part=$(mktemp -d "$target/.part.XXXXXX")
trap 'rm -rf "$part"' EXIT
name=lwip_$version.orig.tar.xz
tried=
while read -r uri component; do
    from=${uri%/}/pool/$component/l/lwip/$name
    tried+="  $from"$'\n'
    if "$helper" download-file "$from" "$part/$name" "SHA256:$sha256" >"$part/log" 2>&1; then
        break
    fi
    tried+="$(sed -n 's/^E: /    /p' "$part/log")"$'\n'
done < <(repositories | head -n 8)

if [ ! -f "$part/$name" ]; then
    {
        echo "fetch-lwip: lwIP $version could not be fetched. Tried, as this machine's apt is configured:"
        printf '%s' "${tried:-  nothing: apt-get indextargets lists no repository with a main or universe component
}"
        echo "If the mirror has dropped that version, put $name (SHA-256 $sha256)"
        echo "at a repository this machine's apt knows, or set another version and its SHA-256 in $0."
    } >&2
    exit 1
fi
echo "$sha256  $part/$name" | sha256sum --quiet --check -

mkdir "$part/unpacked"
tar -xf "$part/$name" -C "$part/unpacked" --strip-components=1 --no-same-owner --touch
rm -rf "$target/src"
mv "$part/unpacked/src" "$part/unpacked/COPYING" "$target/"
printf '%s' "$sha256" >"$stamp"
echo "fetch-lwip: lwIP $version from ${from%/pool/*} in $target"
