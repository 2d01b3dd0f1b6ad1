#!/usr/bin/env bash
# progress.sh MAKE [OPTION]... TARGET...: runs make, and says how many files are compiled instead of printing each
# command. Says each PROGRESS_S seconds how far the build is, and the newest line of make, of a compiler's the file that
# it makes. Silent if nothing is to be compiled and make ends earlier. Errors and warnings go to standard error.
#
# Bash reads the lines, since Debian's awk waits for whole blocks.
set -uo pipefail
tick_s=${PROGRESS_S-10}
compiles='^(gcc|cc|clang|nasm|[^ ]*/gcc|g\+\+) .* -o ([^ ]+)'
# Several makes may name one file, which the first of them compiles.
total=$("$@" -n 2>/dev/null | sed -nE "s,$compiles.*,\\2,p" | sort -u | wc -l)
terminal=
[ ! -t 1 ] || terminal=1
[ "$total" = 0 ] || echo "build: $total files to compile"

count=0 newest='' due_s=$tick_s
say() {
    local text="$SECONDS s${newest:+: $newest}"
    [ "$count" = 0 ] || text="$count of $total, $text"      # `make -s` prints no commands
    if [ -n "$terminal" ]; then printf '\rbuild: %.70s\e[K' "$text"; else printf 'build: %.110s\n' "$text"; fi
}
"$@" | {
    while :; do
        read -r -t 1 line
        status=$?
        [ "$status" != 1 ] || break
        if [ "$status" = 0 ] && [[ $line =~ $compiles ]]; then
            ((count += count < total))
            newest=${BASH_REMATCH[2]}
            [ -z "$terminal" ] || say
        elif [ "$status" = 0 ]; then
            newest=$line
        fi
        if ((SECONDS >= due_s)); then say; due_s=$((SECONDS + tick_s)); fi
    done
    [ -z "$terminal" ] || [ "$count" = 0 ] || echo
}
