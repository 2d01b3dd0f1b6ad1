#!/usr/bin/env bash
# tests/distributions/stranger.sh plays somebody who has the packages alone: makes a program, tests, runs, debugs and
# boots it by the installed pages, as an ordinary user, without a network. HOST is in ~/host (stranger_host.py).
set -euo pipefail
cd
pages=/usr/share/doc/peregrine-dev/docs
log=$HOME/log
MAKEFLAGS=-j$(nproc)
export MAKEFLAGS

step() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
fail() { step "$*" >&2; exit 1; }
says() { grep -q -e "$1" "$log" || { tail -n 40 "$log"; fail "there is no: $1"; }; }
end_jobs() { mapfile -t jobs < <(jobs -p); [ ${#jobs[@]} = 0 ] || kill "${jobs[@]}"; }
trap end_jobs EXIT

# wait_for WORDS FILE: waits until the file holds them.
wait_for() {
    local tries
    for ((tries = 0; tries < 1200; tries++)); do
        ! grep -qs -e "$1" "$2" || return 0
        sleep 0.1
    done
    tail -n 40 "$2"
    fail "$2 does not say: $1"
}

# echoes PORT: says hello there, and hears it.
echoes() { [ "$(exec 3<>"/dev/tcp/127.0.0.1/$1" && printf hello >&3 && head -c 5 <&3)" = hello ]; }

# page FILE HEADING: the commands of a page's section, for the program bark in this folder.
page() {
    awk -v heading="## $2" '/^## / { here = $0 == heading } /^```/ { code = here && $0 == "```sh"; next } code' "$1" |
        sed 's/PROGRAM=echo //; s/echo/bark/g'
}

step "a program of one's own, in an empty folder"
mkdir work
cd work
peregrine new-program bark
cd bark
timeout 1200 make test >"$log" 2>&1 || fail "make test: $(tail -n 20 "$log")"
says 'PASSED'
timeout 1200 make >"$log" 2>&1 || fail "make: $(tail -n 20 "$log")"
sed -i 's/assert_string_equal(/assert_string_not_equal(/; s/assert_int_equal(/assert_int_not_equal(/' bark_test.c
! make test >"$log" 2>&1 || fail "a wrong test passes"
says 'FAILED'

step "in QEMU, by make run"
make run SETTINGS='port=7007 http.port=7008' >run.log 2>&1 & run=$!
wait_for 'ends bark' run.log
echoes 7007 || fail "no echo from QEMU"
curl -s http://127.0.0.1:7008/metrics >"$log"
says '^peregrine_bark_'
peregrine bench tcp 127.0.0.1:7007 --warmup 0 --duration 1 >"$log" 2>&1 || fail "bench: $(cat "$log")"
says 'p99.99 us'
status=$(sed -n 's/^run: \(.*peregrine status .*\)   and log.*/\1/p' run.log)
$status >"$log" || fail "$status"
says '^bark .* bytes '
gg=$(sed -n 's/^run: \(.*gg 127.* --key-file .*\)   or Ctrl-C.*/\1/p' run.log)
$gg >"$log" 2>&1 || fail "$gg: $(cat "$log")"
wait "$run" || fail "make run: $(tail -n 20 run.log)"

step "the tutorial's store, by its page"
cd ..
peregrine new-program store
cp "$pages"/tutorial/store/* store
timeout 1200 make -C store test all >"$log" 2>&1 || fail "store: $(tail -n 20 "$log")"
store/build/host/store-linux port=6379 deadline=60 2>store.log & store=$!
wait_for 'running' store.log
[ "$(redis-cli set greeting hello; redis-cli get greeting)" = "OK"$'\n'"hello" ] || fail "redis-cli"
kill "$store"
wait "$store" || fail "store: $(tail store.log)"

step "debugging, by its page"
cd bark
page $pages/debugging.md 'An image for gdb' >commands
page $pages/debugging.md 'The kernel under gdb' >>commands
page $pages/debugging.md 'A loop that hangs, a trap, a failed assertion' >>commands
timeout 1800 bash -e commands >"$log" 2>&1 || fail "debugging.md: $(tail -n 40 "$log")"
says '^#0  tcp_input .* at net/tcp/input.c:'
says ' at .*/app/bark/program.c:'
says 'trap_hang at selftest.c:'

step "on HOST: check, install, fly, gg, uninstall"
host=(fake --ssh "$HOME/host/bin/ssh $HOME/host")
printf 'port=7\ncontrol.port=40404\n' >bark.conf
peregrine key bark.conf
peregrine check "${host[@]}" --program . >"$log"
says 'the kernel can be booted here by GRUB or by kexec'
peregrine install "${host[@]}" --program . --config bark.conf
cmp build/bark/peregrine.elf ~/host/root/boot/peregrine/peregrine.elf || fail "another image"
peregrine fly "${host[@]}" --no-follow >"$log" 2>&1 || fail "fly: $(cat "$log" ~/host/root/fake/serial)"
says 'the kernel answers at'
echoes 7007 || fail "no echo from HOST"
peregrine gg "${host[@]}" --config bark.conf >"$log" 2>&1 || [ $? = 5 ] || fail "gg: $(cat "$log")"     # 5: no record
grep -q 'back to Linux: gg' ~/host/root/fake/serial || fail "$(tail ~/host/root/fake/serial)"
peregrine uninstall "${host[@]}"
[ ! -e ~/host/root/boot/peregrine ] || fail "uninstall left files"
step "passed"
