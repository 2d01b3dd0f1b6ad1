#!/usr/bin/python3
"""One round trip: `trip.py NAME`, in a network namespace of its own. A real Debian boots from its disk in QEMU,
tools/peregrine boots the kernel on it over ssh, and the disk is compared at the end. Prints the transcript; exits 0 if
all of it went as it should. The table TRIPS has the machines; make_image.sh tells the kinds of disks.

  by GRUB   check, install, fly, play, status, gg, Linux back, record; uninstall; /etc and /boot are what they were
  by kexec  the same without install and uninstall: nothing is installed

Some trips hold more:

  bios      a kernel that traps in the middle of a game
  uefi      a kernel that GRUB cannot load
  power     the power goes while install runs; Linux boots, install runs again
  kexec     ssh is lost between load and jump; the installed system, by fly --kexec; the bzImage by kexec_file_load and
            by kexec_load
  survey    survey --fly, two CPUs: the table of the measurements"""
import contextlib
import dataclasses
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time

from workshop.vm import machine
from workshop.vm import qemu
from tests.bench import bench_rows
from tests.hosted.test_survey import udp_echo
from tests.roundtrip import translations
from servers.contest import rounds
from workshop.vm.game import Game, outcome
from deploy import ways
from deploy.ssh import Host

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Machine:
    release: str
    disk: str
    firmware: str
    way: str                                # by which `fly` goes, unless it is asked for another
    reason: str = ""                        # for which `check` refuses the way by GRUB


TRIPS = {
    "bios": Machine("bookworm", "grub", "bios", "grub"),
    "uefi": Machine("bookworm", "grub", "uefi", "grub"),
    "btrfs": Machine("trixie", "btrfs", "bios", "kexec", "there is no GRUB here"),
    "power": Machine("bookworm", "grub", "uefi", "grub"),
    "kexec": Machine("bookworm", "grub", "bios", "grub"),
    "survey": Machine("bookworm", "grub", "bios", "grub"),
    "trixie-bios": Machine("trixie", "grub", "bios", "grub"),
    "trixie-uefi": Machine("trixie", "grub", "uefi", "grub"),
    "systemd-boot": Machine("trixie", "systemd-boot", "uefi", "kexec", "the machine is booted by systemd-boot"),
    "blscfg": Machine("sid", "blscfg", "bios", "kexec", "GRUB takes its entries from /boot/loader/entries (BLS)"),
    "lvm": Machine("bookworm", "lvm", "bios", "kexec", "/boot lies on LVM"),
    "raid": Machine("bookworm", "raid", "bios", "kexec", "/boot lies on RAID"),
}
SURVEY_SECONDS = 20

BUILD = (qemu.BUILD / "roundtrip").resolve()       # a disk names its backing file as seen from the disk
MAC = "52:54:00:70:65:02"               # overlay/setup.sh gives it 10.77.0.2
USER = "swift"
BOOT_SECONDS = 450                      # Linux under TCG: 30 to 50 s, several times that when busy
GAME_SECONDS = 8
TRAP_SECONDS = 4                        # play before the trap
CUT_AT = 23                             # a point of install: grub.cfg is renamed, not yet on disk


class Trouble(AssertionError):
    pass


def need(condition, text):
    if not condition:
        raise Trouble(text)


class Trip:
    def __init__(self, name, directory, stack):
        self.name, self.directory, self.stack = name, pathlib.Path(directory), stack
        self.flown_from = flown_from = TRIPS[name]
        self.begun = time.monotonic()
        words = [ROOT / "tests/roundtrip/make_image.sh", BUILD, flown_from.release, flown_from.disk]
        self.image = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        self.disk = self.directory / "disk.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", self.image, "-F", "qcow2", self.disk],
                       check=True)
        # The default key exchange takes half a second more under TCG. Without files of settings: in a namespace of
        # an ordinary user nobody owns them, and OpenSSH of Debian 13 refuses that.
        ssh = (f"ssh -F none -i {BUILD}/id_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
               "-o LogLevel=ERROR -o KexAlgorithms=curve25519-sha256")
        self.host = Host(f"pilot@{machine.TAP_GUEST}", tuple(ssh.split()))
        self.environment = {**os.environ, "PEREGRINE_SSH": ssh, "XDG_STATE_HOME": str(self.directory / "state")}
        self.key = "0x" + secrets.token_hex(16)
        self.guest = None
        works, why = machine.probe_kvm()
        self.accelerator = "kvm" if works else "tcg"
        self.say(f"# {flown_from.release}, {flown_from.disk}, {flown_from.firmware}, {self.accelerator} ({why})")

    # ---- output and commands

    def say(self, text):
        print(f"[{time.monotonic() - self.begun:6.1f}] {text}", flush=True)

    def ssh(self, command, check=True):
        done = subprocess.run(self.host.command(command), capture_output=True, text=True, timeout=300)
        need(not check or done.returncode == 0, f"ssh {command}: exit status {done.returncode}: {done.stderr}")
        return done.stdout

    def peregrine(self, *words, expect=0, environment=None):
        """Runs a command of the program under test. Returns its output. `expect` is its exit status, or several."""
        shown = [str(w).replace(str(self.directory) + "/", "") for w in words]
        self.say("$ peregrine " + " ".join(shown))
        done = subprocess.run([sys.executable, ROOT / "tools/peregrine", words[0], self.host.name,
                               *map(str, words[1:])],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=2 * BOOT_SECONDS,
                              env={**self.environment, **(environment or {})})
        self.quote(done.stdout)
        expected = expect if isinstance(expect, tuple) else (expect,)
        need(done.returncode in expected, f"peregrine {words[0]}: exit status {done.returncode}, not {expect}")
        return done.stdout

    @staticmethod
    def quote(text):
        """Prints text without the statistics that are 0, which are most of them."""
        print("".join(f"         | {line}\n" for line in text.splitlines()
                      if not re.search(r"\b[a-z]+\.[a-z._]+ 0$", line)),
              end="", flush=True)

    # ---- the machine

    def power_on(self, memory="1G", more=(), cpus=1):
        # cache=unsafe: QEMU calls no fsync. Data that the guest has written to its disk outlives QEMU nevertheless.
        options = ["-action", "reboot=reset", "-device", "virtio-rng-pci",
                   "-drive", f"file={self.disk},if=virtio,format=qcow2,cache=unsafe",
                   "-netdev", f"tap,id=net0,ifname={machine.TAP},script=no,downscript=no",
                   "-device", f"virtio-net-pci,netdev=net0,mac={MAC}"]
        gdb = self.directory / "gdb"
        options += ["-gdb", f"unix:{gdb},server=on,wait=off"]
        if self.flown_from.firmware == "uefi":
            need(qemu.OVMF, "no OVMF firmware here: package ovmf")
            options += ["-bios", qemu.OVMF]
        if self.flown_from.disk == "btrfs":             # no boot loader: the host starts Linux, after each reset again
            stem = self.image.removesuffix(".qcow2")
            options += ["-kernel", f"{stem}.vmlinuz", "-initrd", f"{stem}.initrd",
                        "-append", "root=LABEL=root ro console=ttyS0 quiet norandmaps"]
        self.guest = qemu.Machine([*options, *more], machine="q35", memory=memory, cpus=cpus,
                                  accelerator=self.accelerator, cpu="host" if self.accelerator == "kvm" else "max")
        self.stack.callback(self.guest.close)
        if self.accelerator == "tcg":
            threading.Thread(target=self.forget_old_code, args=(self.guest, gdb), daemon=True).start()
        return self.wait_linux(None)

    def forget_old_code(self, guest, gdb):
        """Drops TCG's old translations after each reset, for the reason in translations.py."""
        seen = 0
        while guest.process.poll() is None:
            resets = sum(event["event"] == "RESET" for event in guest._events)
            if resets > seen:
                try:
                    translations.drop(gdb)
                except OSError as error:
                    self.say(f"# old translations were not dropped: {error}")
                seen = resets
            time.sleep(0.1)

    def power_off_at_once(self):
        """Cuts the power as if the plug were pulled: data that the guest had not brought to its disk is lost."""
        self.guest.process.kill()
        self.guest.process.wait()
        self.guest.close()

    def wait_linux(self, before):
        """Waits until ssh answers from another boot than `before`; returns that boot's id."""
        begun = time.monotonic()
        while time.monotonic() - begun < BOOT_SECONDS:
            now = self.host.answers()
            if now and now != before:
                self.say(f"Linux answers on ssh after {time.monotonic() - begun:.0f} s")
                return now
            if self.guest.process.poll() is not None:
                break
            time.sleep(1)
        raise Trouble("Linux did not come up" + self.guest._describe())

    def guest_state(self):
        """Returns the guest's state and the end of its log, to find the cause of a failure."""
        if not self.guest or self.guest.process.poll() is not None:
            return ""
        commands = "info status", "info registers"
        texts = [self.guest.qmp("human-monitor-command", **{"command-line": command}) for command in commands]
        return "\n" + "".join(texts) + self.guest._describe()

    def boot_id(self):
        return self.host.answers()

    def files(self):
        """Returns {path: mode and hash} of everything below /etc and /boot."""
        text = self.ssh("sudo find /etc /boot -xdev -type f -exec sha256sum {} + ; sudo find /etc /boot -xdev -printf "
                        "'%m %u %g  %p\\n'")
        found = {}
        for line in text.splitlines():
            value, _, path = line.partition("  ")
            found.setdefault(path, []).append(value)
        return found

    def wait_for_game(self, game, begun=False):
        end = time.monotonic() + GAME_SECONDS + 120
        while time.monotonic() < end:
            board = game.board()
            if board["begun"] if begun else board["over"]:
                return board
            time.sleep(0.2)
        raise Trouble(f"the game did not {'begin' if begun else 'end'}" + self.guest._describe())


# ---- the parts of a trip

def start_game(trip, seed):
    words = ["--begin", "player", "--duration", str(GAME_SECONDS), "--round", "online", "--seed", seed, "--rate", "4",
             "--burst", "20-150", "--interval", "0.05-0.2"]
    return trip.stack.enter_context(Game(machine.TAP_HOST, words))


def write_config(trip, game, name, more=()):
    contest_round = rounds.ROUNDS["online"]
    path = trip.directory / name
    path.touch(0o600)
    path.write_text("\n".join([*game.endpoints(machine.TAP_HOST), f"user={USER} passwd={USER}", f"n={contest_round.n}",
                               f"m={','.join(map(str, contest_round.constants))}", f"key={trip.key}   # shared with gg",
                               *more]) + "\n")
    return path


def check(trip):
    text = trip.peregrine("check")
    need(f"booted here by {'GRUB or by kexec' if trip.flown_from.way == 'grub' else 'kexec'}" in text,
         "check is wrong about the ways")
    need(f"not by GRUB: {trip.flown_from.reason}" in text if trip.flown_from.reason else "Multiboot2" in text,
         "check does not find why GRUB is no way")
    need(("UEFI, Secure Boot off" if trip.flown_from.firmware == "uefi" else "BIOS") in text,
         "check is wrong about the firmware")
    need(f"gwmac={machine.tap_mac()}" in text and f"ip={machine.TAP_GUEST}/24" in text,
         "check is wrong about the network")


def install(trip, config):
    trip.peregrine("install", "--config", config)
    need("peregrine" not in trip.ssh("sudo grub-editenv list"), "the entry is armed after install")


def statistic(text, name):
    found = re.search(rf"^ *{re.escape(name)} (\d+)$", text, re.MULTILINE)
    need(found, f"no {name} in the statistics")
    return int(found[1])


def build_id(image=qemu.IMAGE):
    """Returns the build id of a kernel, as a record has it: the first 16 bytes."""
    notes = subprocess.run(["readelf", "-n", image], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]{32})", notes)[1]


def boot_and_play(trip, game, config, more=()):
    """Makes one run of the kernel. `fly` runs beside the other commands, as in a second terminal."""
    before, begun = trip.boot_id(), time.monotonic()
    trip.say(" ".join(["$ peregrine fly", *map(str, more), "  (in a second terminal; its output stands below)"]))
    fly = subprocess.Popen([sys.executable, ROOT / "tools/peregrine", "fly", trip.host.name, "--wait",
                               str(BOOT_SECONDS), *map(str, more)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=trip.environment)
    said = []
    reader = threading.Thread(target=lambda: said.extend(fly.stdout), daemon=True)
    reader.start()
    trip.stack.callback(fly.kill)
    try:
        end = time.monotonic() + BOOT_SECONDS
        while not game.board()["begun"]:
            need(fly.poll() is None and time.monotonic() < end, "the game did not begin: " + "".join(said))
            time.sleep(0.2)
        playing = time.monotonic()
        trip.say("the kernel plays")
        trip.wait_for_game(game)
        text = trip.peregrine("status", "--config", config, "--all")
        need(statistic(text, "control.commands_status") > 0, "status does not show the statistics")
        text = trip.peregrine("gg", "--config", config, "--wait", BOOT_SECONDS)
        need("Linux is back" in text, "gg does not say that Linux is back")
        need(trip.boot_id() not in (None, before), "Linux is not back")
        need(fly.wait(BOOT_SECONDS) == 0, f"fly ended with {fly.returncode}")
    finally:
        reader.join(5)
        trip.say("what fly said:")
        trip.quote("".join(said))
    text = "".join(said)
    trip.say(f"the kernel plays {playing - begun:.1f} s after `fly` was called")
    if os.environ.get("ROUNDTRIP"):         # `make check-roundtrip`: docs/performance.md
        rows = bench_rows.Rows(qemu.BUILD / f"bench/roundtrip-{trip.name}.json")
        way = "kexec" if "by kexec" in text else "grub"
        rows.keep(f"roundtrip/{way}/{trip.name}/fly-to-playing", "s", 1, round(playing - begun, 1), None,
                  "make check-roundtrip")
    need("the kernel answers at" in text and "Linux is back" in text, "fly did not report the run from begin to end")
    need("playing with simd=" in text, "fly did not show the log")
    result = outcome(game.stop(), USER)
    trip.say(f"offered {len(result['offered'])}, submitted {len(result['submitted'])}, missed {len(result['missed'])}, "
             f"wrong {len(result['wrong'])}")
    need(len(result["offered"]) >= 10, "too few answers were offered for this to show anything")
    need(not result["missed"] and not result["wrong"], f"missed {result['missed'][:3]}, wrong {result['wrong'][:3]}")
    text = trip.peregrine("record", "--all")
    need("why it came back: gg (came back as ordered)" in text, "the record does not name the GG")
    need(statistic(text, "player.answers") == len(result["submitted"]) and statistic(text, "control.commands_gg") == 1,
         "the record's statistics are not those of this run")
    need("input stream 1: HTTP 200" in text and "back to Linux: gg" in text,
         "the record's log is not that of this run")
    need(f"build {build_id()}" in text, "the record is not of this kernel")


def boot_a_trap(trip, game):
    """Boots a kernel that fails in the middle of the game. Linux comes back by itself. The record names the cause and
    the place."""
    config = write_config(trip, game, "trap.conf", ["test.trap=null", f"test.after={TRAP_SECONDS}"])
    trip.peregrine("install", "--config", config)
    before = trip.boot_id()
    text = trip.peregrine("fly", "--wait", BOOT_SECONDS)
    need(trip.boot_id() not in (None, before), "Linux is not back")
    need("the kernel answers at" in text and "playing with simd=" in text, "fly did not report that the kernel runs")
    need("trap: page fault" in trip.guest.log, "the kernel did not trap")
    need("why it came back: page fault (came back because something failed)" in text,
         "the record does not name the trap")
    rip = re.search(r"  rip    ([0-9a-f]{16})", text)
    need(rip and "  cr2    0000000000000000" in text, "the record does not show the registers")
    need(f"rip {rip[1]}" in trip.guest.log, "the record's registers are not those of the dump")
    names = re.findall(r"^  #\d+ 0x[0-9a-f]+ (?:.* )?([a-z0-9_]+)$", text, re.MULTILINE)
    need(names[:2] == ["trap_null", "selftest_trap"] and "kernel_main" in names, f"the backtrace names {names}")
    need(statistic(trip.peregrine("record", "--all"), "player.answers") > 0, "the record shows no game")


def boot_a_broken_kernel(trip):
    """Boots an image that GRUB cannot load. GRUB boots Linux instead, in the same boot."""
    trip.ssh("sudo truncate -s 4096 /boot/peregrine/peregrine.elf && sudo grub-reboot peregrine")
    before, said = trip.boot_id(), len(trip.guest.log)
    trip.say("the image is cut to 4096 bytes, and armed; reboot")
    trip.ssh("sudo systemctl reboot", check=False)
    trip.wait_linux(before)
    need("error:" in trip.guest.log[said:], "GRUB did not report an error in the image")
    trip.say("GRUB said: " + re.search(r"error: [^\r\n]*", trip.guest.log[said:])[0])


# kexec_file_load enters the image in 64-bit mode, at any address (Debian here runs on 5-level paging). `fly --kexec`
# uses kexec_load if the image has the Linux boot protocol.
KEXEC_BZIMAGE = ("kexec -s -l", "kexec -l --type=bzImage")


def kexec_the_bzimage(trip, how):
    for name, data in (("image", qemu.IMAGE.with_suffix(".bzImage").read_bytes()), ("settings", b"test.trap=panic\n")):
        subprocess.run(trip.host.command(f"cat > /tmp/{name}"), input=data, check=True, timeout=300)
    before, said = trip.boot_id(), len(trip.guest.log)
    trip.say(f"$ {how} image --initrd=settings; kexec -e")
    trip.ssh(f"sudo {how} /tmp/image --initrd=/tmp/settings --command-line=n=3 && "
             "{ (sleep 1; sudo kexec -e) >/dev/null 2>&1 </dev/null & }")
    trip.wait_linux(before)
    need("started by Linux boot protocol" in trip.guest.log[said:]
         and "panic: test.trap=panic" in trip.guest.log[said:],
         "the image did not start")


def lose_the_connection(trip, config):
    """Loads the kernel by kexec, and loses ssh before the order to leave. Linux stays, and unloads the kernel."""
    before = trip.boot_id()
    wrapper = trip.directory / "lossy-ssh"
    wrapper.write_text('#!/bin/sh\ncase "$*" in *" leave" | *" unload") exit 255 ;; esac\nexec "$@"\n')
    wrapper.chmod(0o755)
    text = trip.peregrine("fly", "--by", "kexec", "--config", config, expect=3,
                          environment={"PEREGRINE_SSH": f"{wrapper} {trip.environment['PEREGRINE_SSH']}"})
    need("unloads the kernel by itself" in text, "fly does not say what becomes of the kernel")
    need(trip.ssh("cat /sys/kernel/kexec_loaded").strip() == "1", "the kernel is not loaded")
    end = time.monotonic() + 2 * ways.UNLOAD_SECONDS
    while trip.ssh("cat /sys/kernel/kexec_loaded; ls -d /run/peregrine", check=False).strip() != "0":
        need(time.monotonic() < end, "the kernel is still loaded")
        time.sleep(5)
    need(trip.boot_id() == before, "the machine did not stay in Linux")
    trip.say("the machine stayed in Linux and has unloaded the kernel")


def cut_the_power(trip, config):
    """Cuts the power while install runs."""
    trip.peregrine("install", "--config", config, expect=3, environment={"PEREGRINE_TEST_STOP_AT": str(CUT_AT)})
    trip.power_off_at_once()
    trip.say("the power is gone; power on")
    trip.power_on()
    need("peregrine" not in trip.ssh("sudo grub-editenv list"), "the entry is armed")


def uninstall_and_compare(trip, before, installed=True):
    text = trip.peregrine("uninstall")
    need(installed or "nothing is installed" in text, "something is installed")
    after = trip.files()
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    need(not changed, f"these are not as they were: {[(p, before.get(p), after.get(p)) for p in changed[:5]]}")
    trip.say(f"{len(after)} files and directories of /etc and /boot are as they were")


def survey(trip):
    """Surveys the machine from inside. A UDP echo on this host answers the round trips."""
    trip.power_on(cpus=2)
    before = trip.files()
    echo = trip.stack.enter_context(udp_echo(machine.TAP_HOST))
    text = trip.peregrine("survey", "--fly", "--echo", f"{machine.TAP_HOST}:{echo}", "--seconds", SURVEY_SECONDS,
                          "--wait", BOOT_SECONDS)
    need("Linux is back" in text and "back to Linux: finished" in trip.guest.log, "the survey did not end by itself")
    rows = {words[0]: words[1:] for words in map(str.split, text.partition("\nns ")[2].splitlines()) if words}
    for name in ("exit", "port_write", "notification", "line_transfer", "wake_ipi", "gap", "matcher_scalar", "echo",
                 "echo_asleep", "wake_msi", "ring_to_ring"):
        need(name in rows and rows[name][0].isdecimal(), f"{name} was not measured: {rows.get(name)}")
    need(f"build {build_id(qemu.BUILD / 'survey/peregrine.elf')}" in text, "the record is not of this kernel")
    uninstall_and_compare(trip, before)


def go(name, trip):
    if name == "survey":
        survey(trip)
        return
    game = start_game(trip, f"round trip {name}")
    config = write_config(trip, game, "game.conf")
    trip.power_on()
    before = trip.files()
    if name == "power":
        cut_the_power(trip, config)
    check(trip)
    by_grub = trip.flown_from.way == "grub"
    if by_grub:
        install(trip, config)
    if name != "power":
        boot_and_play(trip, game, config, ["--kexec"] if name == "kexec" else [] if by_grub else ["--config", config])
    if name == "uefi":
        boot_a_broken_kernel(trip)
    if name == "kexec":
        lose_the_connection(trip, config)
        for how in KEXEC_BZIMAGE:
            kexec_the_bzimage(trip, how)
    if name == "bios":
        boot_a_trap(trip, start_game(trip, "round trip, the trap"))
    uninstall_and_compare(trip, before, by_grub)


def main():
    with contextlib.ExitStack() as stack:
        BUILD.mkdir(parents=True, exist_ok=True)
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="trip-", dir=BUILD))
        name = sys.argv[1]
        machine.set_up_namespace()
        trip = Trip(name, directory, stack)
        try:
            go(name, trip)
        except (Trouble, AssertionError, subprocess.SubprocessError, OSError) as error:
            reason = (str(error).splitlines() or [repr(error)])[0]
            sys.exit(f"trip: {error}{trip.guest_state()}\ntrip: {reason}")      # the reason last: states are long
        trip.say("all as it should be")


if __name__ == "__main__":
    main()
