#!/usr/bin/env bash
# iso.sh IMAGE ISO COMMAND_LINE [MODULE]: wraps the image so that GRUB starts it at once, on BIOS and on UEFI.
set -euo pipefail -o noglob
image=$1 iso=$2 command_line=$3 module=${4:-}

tree=$(mktemp -d "$iso.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/boot/grub"
cp "$image" "$tree/boot/peregrine.elf"
[ -z "$module" ] || cp "$module" "$tree/boot/settings"

# Each word in single quotes, in which GRUB's script language leaves everything alone.
words=
for word in $command_line; do words+=" '${word//\'/\'\\\'\'}'"; done
cat >"$tree/boot/grub/grub.cfg" <<END
set timeout=0
insmod all_video
menuentry peregrine {
  multiboot2 /boot/peregrine.elf$words
  ${module:+module2 /boot/settings settings}
}
END
log=$(grub-mkrescue -o "$iso" "$tree" 2>&1) || { printf '%s\n' "$log" >&2; exit 1; }
