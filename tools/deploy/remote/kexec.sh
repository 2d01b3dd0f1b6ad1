# Boots the kernel by kexec. Nothing is written outside of /run. Argument: load, leave or unload.
#
# load SECONDS SHA256 SHA256, the sums of image and settings. On standard input: the settings as a line (ssh.py), then
# the image. The settings are the initrd: a command line would be seen by all in ps. Linux copies both, so the files go
# as soon as they are loaded.
#
# A kernel that is loaded waits for `leave`. If that does not come within SECONDS, as when the connection is lost, the
# kernel is unloaded: systemd's next reboot would start it (systemctl(1), SYSTEMCTL_SKIP_AUTO_KEXEC).
home=$ROOT/run/peregrine
mine=$home/loaded                           # while a kernel is loaded that we loaded: the process that did
loaded() { [ "$(cat "$ROOT/sys/kernel/kexec_loaded" 2>/dev/null)" = 1 ]; }
unload() { kexec -u >&2; rm -rf "$home"; }
unload_unless_left() { stopping || [ "$(cat "$mine")" != "$1" ] || unload; }
# u remounts all file systems read-only, after its own time (Linux, Documentation/admin-guide/sysrq.rst).
jump() { sync; echo u > "$ROOT/proc/sysrq-trigger"; sleep 1; kexec -e; }
take_line() { IFS= read -r line && printf %s "$line" | tr '\001' '\012'; }
is_whole() { [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "$2" ]; }        # FILE SHA256
discard() { rm -rf "$home"; fail "$*"; }

case $1 in
load)
    ! loaded || fail "another kernel is loaded for kexec already: kexec -u unloads it"
    rm -rf "$home"
    mkdir "$home" && echo $$ > "$mine" || discard "/run cannot be written"
    later "$2" unload_unless_left $$
    take_line > "$home/settings" && cat > "$home/image" && is_whole "$home/image" "$3" &&
        is_whole "$home/settings" "$4" ||
        discard "image and settings arrived damaged, or /run is full"
    # kexec_file_load first: where signatures are asked for, it is the only one allowed.
    by_file=$(kexec -s -l "$home/image" --initrd="$home/settings" 2>&1) ||
        by_segments=$(kexec -l "$home/image" --type=bzImage --initrd="$home/settings" 2>&1) ||
        discard "Linux does not load the kernel: by kexec_file_load: ${by_file:-no reason given}; by kexec_load:" \
            "${by_segments:-no reason given}"
    rm -f "$home/image" "$home/settings"
    loaded || discard "kexec reports no failure, and /sys/kernel/kexec_loaded is not 1" ;;
leave)
    [ -e "$mine" ] && loaded || fail "the kernel is not loaded any more"
    if has_systemd; then
        later 1 aloud systemctl kexec
    else
        later 1 aloud jump
    fi ;;
unload)
    ! stopping || { echo leaving; exit 0; }
    [ ! -e "$mine" ] || unload
    say_why ;;
esac
