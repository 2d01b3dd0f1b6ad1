#!/usr/bin/env bash
# Fetches the libraries that judge the exchange in tests/exchange into build/third-party/judges/. Instant and silent
# when they are there.
#
# tests/exchange/judges.txt pins them by version and SHA-256. pip fetches them from the index that this machine is
# configured with. Nothing is installed, nothing of them is committed.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1-} in ?*) echo "fetch-judges.sh: '$1' is no argument; there is none" >&2; exit 2 ;; esac
pins=tests/exchange/judges.txt
target=build/third-party/judges
stamp=$target/.fetched
sum="$(sha256sum <"$pins") $(/usr/bin/python3 --version)"
if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$sum" ]; then
    exit 0
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
