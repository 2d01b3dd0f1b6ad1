# Prints the memory of the black box. Arguments: ADDRESS BYTES pairs, decimal; none: those of the installed settings.
# Output: for each region a line `region ADDRESS BYTES`, then its bytes in hexadecimal as od prints them, then `end`.
#
# /proc/kcore is an ELF core of all memory: the program header of a stretch of RAM names its physical address, and the
# bytes lie at its offset (Linux, fs/proc/kcore.c). /dev/mem would show zeros for RAM (CONFIG_STRICT_DEVMEM).
export LC_ALL=C
ROOT=${ROOT-}
core=$ROOT/proc/kcore
fail() { printf '%s\n' "$*" >&2; exit 1; }

if [ $# = 0 ]; then
    words=$(sed -n 's/^blackbox=//p' "$ROOT/boot/peregrine/settings" 2>/dev/null | tr ',' ' ')
    [ -n "$words" ] || fail "no boot from here is remembered, and no installed settings name a place: say --regions"
    for word in $words; do set -- "$@" $((word)); done
fi

u16() { od -An -tu2 -j"$1" -N2 "$core" | tr -d ' '; }
phoff=$(od -An -tu8 -j32 -N8 "$core" 2>/dev/null | tr -d ' ') && [ -n "$phoff" ] ||
    fail "/proc/kcore cannot be read (locked down, or not built in)"
size=$(u16 54) count=$(u16 56)

# The headers, one a line: type flags, offset, vaddr, paddr, filesz, memsz, align (ELF-64 Object File Format, "Program
# Header"). p_offset and p_paddr of RAM are below 2^63, so the shell can reckon with them; others are left as text.
headers() { od -An -v -w"$size" -tu8 -j"$phoff" -N$((size * count)) "$core"; }

while [ $# -ge 2 ]; do
    address=$1 bytes=$2
    shift 2
    headers | while read -r type offset virtual physical filesz rest; do
        [ $((type & 4294967295)) = 1 ] && [ ${#physical} -lt 19 ] && [ ${#filesz} -lt 19 ] || continue
        if [ "$address" -ge "$physical" ] && [ $((address + bytes)) -le $((physical + filesz)) ]; then
            printf 'region %s %s\n' "$address" "$bytes"
            dd if="$core" bs=4096 skip=$(((offset + address - physical) / 4096)) count=$((bytes / 4096)) 2>/dev/null |
                od -An -v -tx1 -w64
            echo end
            break
        fi
    done
done
