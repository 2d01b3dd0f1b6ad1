#!/usr/bin/env bash
# iso.sh IMAGE ISO COMMAND_LINE [MODULE]: wraps the image so that GRUB starts it at once, on BIOS and on UEFI. GRUB
# boots an ELF by Multiboot2, a bzImage by the Linux boot protocol.
set -euo pipefail -o noglob
if [ $# -lt 3 ] || [ $# -gt 4 ]; then echo "iso.sh IMAGE ISO COMMAND_LINE [MODULE]" >&2; exit 2; fi
image=$1 iso=$2 command_line=$3 module=${4:-}

tree=$(mktemp -d "$iso.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/boot/grub"
name=peregrine.${image##*.}
cp "$image" "$tree/boot/$name"
loads=multiboot2 loads_module=module2
[ "${image##*.}" != bzImage ] || loads=linux loads_module=initrd
[ -z "$module" ] || cp "$module" "$tree/boot/settings"

# Each word in single quotes, in which GRUB's script language leaves everything alone.
words=
for word in $command_line; do words+=" '${word//\'/\'\\\'\'}'"; done
cat >"$tree/boot/grub/grub.cfg" <<END
set timeout=0
insmod all_video
menuentry peregrine {
  $loads /boot/$name$words
  ${module:+$loads_module /boot/settings}
}
END
log=$(grub-mkrescue -o "$iso" "$tree" 2>&1) || { printf '%s\n' "$log" >&2; exit 1; }
