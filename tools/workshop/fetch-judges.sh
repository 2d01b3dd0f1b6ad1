#!/usr/bin/env bash
# Fetches the libraries that judge the exchange in tests/exchange into build/third-party/judges/ and judges-java/ beside
# it. Instant and silent when they are there.
#
# tests/exchange/judges.txt and judges-java.txt pin them by version and SHA-256. pip and Maven fetch them from the
# indexes that this machine is configured with. Java's are left out without a JDK or without Maven. Nothing is
# installed, nothing of them is committed.
set -euo pipefail
cd "$(dirname "$0")/../.."

case ${1-} in ?*) echo "fetch-judges.sh: '$1' is no argument; there is none" >&2; exit 2 ;; esac

fetch_java() {
    local pins=tests/exchange/judges-java.txt target=build/third-party/judges-java sum coordinates artifact version
    [ -n "$(command -v mvn)" ] && [ -n "$(command -v javac)" ] && ! cmp -s "$pins" "$target/.fetched" || return 0
    rm -rf "$target"
    mkdir -p "$target"
    while read -r sum coordinates; do
        [ "$sum" != "#" ] || continue
        IFS=: read -r _ artifact version <<<"$coordinates"
        if ! timeout 300 mvn -q -B dependency:copy -Dartifact="$coordinates" -DoutputDirectory="$PWD/$target" \
            </dev/null >"$target/log" 2>&1 \
            || ! sha256sum --check --quiet <<<"$sum  $target/$artifact-$version.jar" >&2; then
            echo "fetch-judges: Maven could not fetch $coordinates as $pins has it: $target/log" >&2
            return 1
        fi
    done <"$pins"
    rm -f "$target/log"
    cp "$pins" "$target/.fetched"
    echo "fetch-judges: Java's judges of tests/exchange are in $target"
}

failed=0
fetch_java || failed=1
pins=tests/exchange/judges.txt
target=build/third-party/judges
stamp=$target/.fetched
sum="$(sha256sum <"$pins") $(/usr/bin/python3 --version)"
if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$sum" ]; then
    exit $failed
fi

mkdir -p build/third-party
part=$(mktemp -d build/third-party/.judges.XXXXXX)
trap 'rm -rf "$part"' EXIT
if ! /usr/bin/python3 -m pip install --quiet --no-input --disable-pip-version-check --no-deps --no-compile \
    --only-binary :all: --require-hashes --requirement "$pins" --target "$part" --timeout 15 --retries 1 \
    >"$part.log" 2>&1; then
    tail -n 1 "$part.log" | sed 's/^/    /' >&2
    rm -f "$part.log"
    echo "fetch-judges: the libraries of $pins could not be fetched; the end of pip's message stands above" >&2
    exit 1
fi
rm -f "$part.log"
printf '%s' "$sum" >"$part/.fetched"
rm -rf "$target"
mv "$part" "$target"
chmod 755 "$target"
echo "fetch-judges: the judges of tests/exchange are in $target"
exit $failed
