# Shared by grub.sh and kexec.sh, the two ways to the kernel; runs on HOST as root. Both take `load`, `leave`, which
# leaves Linux, and `unload`, for a boot that did not happen. `unload` prints `leaving` if Linux is still on its way
# down, else the words of the program that should have left it.
export LC_ALL=C PATH="$PATH:${ROOT-}/usr/sbin:${ROOT-}/sbin"
ROOT=${ROOT-}
umask 077
say() { printf '%s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
has_systemd() { [ -d "$ROOT/run/systemd/system" ]; }       # sd_booted(3)
stopping() { has_systemd && [ "$(systemctl is-system-running 2>/dev/null)" = stopping ]; }
# later SECONDS COMMAND...: runs the command when this script has answered, and its connection may be closed.
said=$ROOT/run/peregrine-said
aloud() { "$@" > "$said" 2>&1; }
say_why() { [ ! -e "$said" ] || { cat "$said"; rm -f "$said"; }; }
later() { (trap '' HUP; sleep "$1"; shift; "$@") >/dev/null 2>&1 </dev/null & }
