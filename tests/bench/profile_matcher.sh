#!/usr/bin/env bash
# Prints the matcher's instructions by function, and its vector code's cycles. See `make profile-matcher`.
set -eu
build=$1
bench=$build/host/tests/bench/bench_matcher
out=$build/bench
mkdir -p "$out"

echo "Instructions a digit by function, valgrind, online, N=256, 1000 bursts of 100 digits (and 200 to warm up):"
for simd in scalar avx2; do
    valgrind --tool=callgrind --callgrind-out-file="$out/matcher-$simd.callgrind" --toggle-collect=matcher_begin \
        --toggle-collect=matcher_next "$bench" online $simd 256 100 warm 1000 1 >/dev/null 2>"$out/matcher-$simd.log"
    echo "$simd:"
    callgrind_annotate --threshold=100 "$out/matcher-$simd.callgrind" 2>/dev/null |
        awk '$1 ~ /^[0-9,]+$/ && /:/ { n = $1; gsub(",", "", n); name = $0; sub(/.*:/, "", name); sub(/ .*/, "", name)
             if (n + 0 > 12000) printf "  %8.1f  %s\n", n / 120000, name }' | head -12
done

echo "The vector operations on two processors, every instruction of a function once, by llvm-mca:"
for simd in avx2 avx512; do
    for function in probe candidates; do
        objdump -d --no-show-raw-insn --no-addresses "$build/host/app/matcher/$simd.o" |
            awk -v name="<lanes_$function>:" '$0 ~ name { on = 1; next }
                on && /^$/ { exit }
                on { sub(/^\t/, ""); sub(/ *#.*/, ""); gsub(/<[^>]*>/, ""); print }' |
            grep -v -E '^(j|call|ret|nop|cs|data16|xchg|endbr)' > "$out/$function-$simd.s"
        for cpu in skylake-avx512 znver3; do
            [ "$simd $cpu" = "avx512 znver3" ] && continue
            llvm-mca -mcpu=$cpu -iterations=100 "$out/$function-$simd.s" 2>/dev/null |
                awk -v what="$simd $function $cpu" \
                    '/^Instructions:|^Total Cycles|^Block RThroughput/ { line = line "  " $0 }
                     END { print "  " what ":" line " (100 iterations)" }'
        done
    done
done
