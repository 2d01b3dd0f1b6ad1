#!/usr/bin/env bash
# progress.sh MAKE [OPTION]... TARGET...: runs make, and says how many files are compiled instead of printing each
# command. Silent when nothing is to be compiled. Errors and warnings stand on standard error as ever.
set -euo pipefail
compiles='^(gcc|cc|clang|nasm|[^ ]*/gcc) .* -o '
total=$("$@" -n 2>/dev/null | grep -cE "$compiles") || total=0
terminal=
[ ! -t 1 ] || terminal=1
"$@" | awk -v total="$total" -v terminal="$terminal" -v compiles="$compiles" '
    BEGIN { if (total) { print "build: " total " files to compile"; fflush() } }
    $0 ~ compiles {
        count++
        if (terminal) { printf "\rbuild: %d of %d", count, total; fflush() }
        else if (int(count * 4 / total) > quarter) {
            quarter = int(count * 4 / total); print "build: " quarter * 25 "%"; fflush()
        }
    }
    END { if (terminal && count) print "" }'
