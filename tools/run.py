#!/usr/bin/env python3
"""`make run`: the kernel plays against our contest server in QEMU, before your eyes, and hands the machine back.

Exits 0 only if every offered answer was submitted, none was wrong, and the machine was seen to reset. The offer ends
DURATION seconds after the first burst; the last answers then have GRACE_S to arrive. The kernel's settings hold a
round's hidden moduli here: finding them is another program's job.

With PROGRAM=NAME the kernel of that program runs instead, its ports forwarded, until Ctrl-C or GG (vm/serve.py). Exits
0 if the program left by an order or of itself."""
import argparse
import os
import signal
import secrets
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

from command_line import add_version, until_enough, words_of
from workshop.vm import machine
from workshop.vm import qemu
from workshop.vm import serve
from servers.contest import rounds
from workshop.vm.game import Game, outcome
from workshop.vm.guest_log import Log, end_of, say, shown_statistics

USER = "peregrine"
GRACE_S = 2.0
BOOT_S_MAX = {"kvm": 60, "tcg": 120}        # until the first connection; UEFI under TCG takes 20 s
UEFI_BYTES_MIN = 96 << 20                   # with 64M, GRUB on OVMF is out of memory too early
LAST_WORDS = 8                              # lines of the guest's log, after the game
IN_NAMESPACE = "PEREGRINE_RUN_IN_NAMESPACE"

# The keys of the player's settings that a game sets itself.
GAME_KEYS = ("feed", "submit", "user", "passwd", "n", "m", "key")
PROGRAMS = tuple(sorted(path.parent.name for root in (machine.ROOT, qemu.BUILD / "outside")
                        for path in root.glob("app/*/program.c")))
CHECK_S_MAX = 60

# Variable: (default, allowed values or a check, what for).
VARIABLES = {
    "PROGRAM": ("player", PROGRAMS, "a folder of app/ with a program.c, or the path of one; the player plays a game"),
    "NET": ("user", ("user", "tap"), "network: QEMU's own, or TAP in a namespace of its own"),
    "FIRMWARE": ("bios", ("bios", "uefi"), "for BOOT=iso"),
    "BOOT": (None, machine.BOOTS, "direct start of the ELF or of the bzImage, ISO with GRUB, or QEMU's microvm"),
    "NIC": (None, tuple(machine.NICS), "how virtio-net presents itself"),
    "STACK": ("own", ("own", "lwip"), "chosen at link time"),
    "DURATION": ("30", lambda v: v.replace(".", "", 1).isdecimal() and 1 <= float(v) <= 1e6,
                 "a number of seconds, 1 to 1000000"),
    "CPUS": ("1", lambda v: v.isdecimal() and 1 <= int(v) <= 64,
             "a number, 1 to 64; more than one sets cpus= as well, unless SETTINGS does"),
    "MEMORY": ("256M", lambda v: (machine.memory_bytes(v) or 0) >= 64 << 20, "a size such as 256M or 8G, 64M at least"),
    "ROUND": ("online", lambda v: v in rounds.ROUNDS or os.path.isfile(v),
              "online, onsite, qualification or a file that exists"),
    "SEED": ("1", lambda v: v != "", "any text: it decides the digits"),
    "STATISTICS": ("table", ("table", "all"), "at the end: those that are not 0, or all, a line each"),
    "SETTINGS": ("", lambda v: True,
                 "further words of docs/settings.md for the kernel, such as 'cpus=2 http.port=8080'"),
}
GAME_VARIABLES = ("DURATION", "ROUND", "SEED")


class BadValue(Exception):
    pass


def read_variables(environment):
    """Returns the run's settings; raises BadValue with the value quoted."""
    values = {}
    for name, (default, allowed, what) in VARIABLES.items():
        value = environment.get(name) or default
        good = value is None or (value in allowed if isinstance(allowed, tuple) else allowed(value))
        if not good:
            choice = "one of " + ", ".join(allowed) if isinstance(allowed, tuple) else what
            raise BadValue(f"{name}='{value}': it must be {choice}")
        values[name] = value
    if values["PROGRAM"] != "player":
        for name in GAME_VARIABLES:
            if environment.get(name):
                raise BadValue(f"{name}='{environment[name]}': PROGRAM={values['PROGRAM']} plays no game")
    values["BOOT"] = values["BOOT"] or ("iso" if values["FIRMWARE"] == "uefi" else "kernel")
    if values["FIRMWARE"] == "uefi" and values["BOOT"] != "iso":
        raise BadValue(f"FIRMWARE='uefi': BOOT='{values['BOOT']}' starts without firmware; use BOOT=iso")
    if values["FIRMWARE"] == "uefi" and machine.memory_bytes(values["MEMORY"]) < UEFI_BYTES_MIN:
        raise BadValue(f"MEMORY='{values['MEMORY']}': FIRMWARE='uefi' needs 96M at least")
    on_mmio = values["BOOT"] == "microvm"
    values["NIC"] = values["NIC"] or ("mmio" if on_mmio else "transitional")
    if values["NIC"].startswith("mmio") != on_mmio:
        raise BadValue(f"NIC='{values['NIC']}': BOOT='{values['BOOT']}' has "
                       + ("virtio-mmio only: mmio, mmio-legacy" if on_mmio else "PCI only"))
    if values["PROGRAM"] == "player":
        check_keys(values)
    try:
        values["ROUND"] = rounds.load_round(values["ROUND"])
    except rounds.RoundError as error:
        raise BadValue(f"ROUND: {error}") from error
    if not is_playable(values["ROUND"]):
        raise BadValue(
            f"ROUND='{values['ROUND'].name}': the kernel plays n up to 1024 and 8 moduli of up to 512 bits")
    return values


def check_keys(values):
    """Raises BadValue for a key in SETTINGS= that the game sets itself."""
    ours = [*GAME_KEYS, *(["ip", "gw"] if values["NET"] == "tap" else [])]
    for word in values["SETTINGS"].split():
        if (key := word.partition("=")[0]) in ours:
            raise BadValue(f"SETTINGS: {key}=: `make run` sets {', '.join(ours[:-1])} and {ours[-1]} itself; "
                           f"n and m are those of ROUND=")


def check_settings(settings):
    """Raises BadValue if the player's own parser refuses the kernel's settings. `make run` builds it for SETTINGS=."""
    program = qemu.BUILD / "host/check-settings"
    if not program.exists():
        return
    done = subprocess.run([program, "make run"], input=settings, capture_output=True, text=True, timeout=CHECK_S_MAX)
    if done.returncode:
        raise BadValue(done.stderr.strip())


def is_playable(contest_round):
    """Returns true if the kernel can play the round (docs/settings.md, n and m)."""
    constants = contest_round.constants
    return contest_round.n <= 1024 and len(constants) <= 8 and all(m.bit_length() <= 512 for m in constants)


def enter_namespace():
    """Runs us again in a network namespace of our own, with a TAP device and loopback up."""
    if os.environ.get(IN_NAMESPACE):
        try:
            machine.set_up_namespace()
        except OSError as error:
            sys.exit(f"run: NET=tap: {words_of(error)}")
        return
    unshare = machine.unshare_words()
    done = subprocess.run([*unshare, "true"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"run: NET=tap needs root, or a system that lets its users make namespaces ({done.stderr.strip()})")
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, IN_NAMESPACE: "1"})


def start_game(setup, values):
    words = ["--name", f"Peregrine, {values['ROUND'].name.rsplit('/', 1)[-1]}", "--round", values["ROUND"].name,
             "--seed", values["SEED"], "--duration", values["DURATION"],
             "--begin", "player"]
    try:
        return Game(setup.bind, words, port_base=10000, has_board=True)
    except OSError:
        return Game(setup.bind, words, has_board=True)          # the contest's own ports are taken here: any others


class LiveBoard:
    """The board while it goes: drawn over itself on a terminal, one line every 5 s elsewhere."""

    def __init__(self, duration_s):
        self.duration_s = duration_s
        self.on_terminal = sys.stdout.isatty()
        self.lines_drawn = 0
        self.begun_at = self.line_due = None

    def show(self, board, last=False):
        now = time.monotonic()
        if board["begun"] and self.begun_at is None:
            self.begun_at = self.line_due = now
        seconds = min(now - self.begun_at, self.duration_s) if self.begun_at else 0
        user = next((u for u in board["users"] if u["name"] == USER), None)
        line = f"{seconds:5.1f} s of {self.duration_s:g}   {one_line(board, user)}"
        if not self.on_terminal:
            if self.begun_at and (now >= self.line_due or last):
                self.line_due = now + 5
                say(line)
            return
        counts, _, latency = line.partition("  latency")
        recent = [f"  {shorten(answer['digits'])}  {delay_text(answer)}" for answer in board["recent"][:10]]
        lines = [counts, f"latency{latency}", "", *recent]
        width = shutil.get_terminal_size().columns - 1
        up = f"\x1b[{self.lines_drawn}A" if self.lines_drawn else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{text[:width]}\n" for text in lines))
        sys.stdout.flush()
        self.lines_drawn = max(self.lines_drawn, len(lines))


def one_line(board, user):
    if user is None:
        return f"offered {board['offered']}, nothing submitted yet"
    latency = user["latency_us"]
    return (f"offered {board['offered']}  found {user['found']} (early {user['early']})  wrong {user['wrong']}  "
            f"dup {user['dup']}  score {user['score']}  latency us p50 {latency['p50']:.0f} p90 {latency['p90']:.0f}")


def shorten(digits):
    return digits if len(digits) <= 40 else f"{digits[:18]}..{digits[-18:]}"


def delay_text(answer):
    if not answer["submissions"]:
        return "sent"
    delay_us = (float(answer["submissions"][0]["at"]) - float(answer["sent"])) * 1e6
    return f"{delay_us:+.0f} us" if delay_us >= 0 else f"{-delay_us:.0f} us before it was sent"


def play(host, log, game, duration_s, accelerator):
    """Plays until the last digits have been sent and answered. Returns false if it did not come to that."""
    board_shown = LiveBoard(duration_s)
    deadline = time.monotonic() + BOOT_S_MAX[accelerator]
    playing = False
    while True:
        board = game.board()
        if not playing:
            log.show()
            if board["begun"]:
                playing, deadline = True, time.monotonic() + duration_s + 30
        if playing:
            board_shown.show(board, last=board["over"])
        if board["over"]:
            return True
        if host.process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.25)


def wait_for_last_answers(game):
    for _ in range(round(GRACE_S / 0.1)):       # looks, not seconds: the machine may stand still for some
        board = game.board()
        if any(u["name"] == USER and u["found"] == board["offered"] for u in board["users"]):
            return
        time.sleep(0.1)


def final_board(result):
    summary = result["summary"] or {"found": 0, "early": 0, "wrong": 0, "dup": 0, "late": 0, "submits": 0, "score": 0,
                                    "latency_us": {k: 0 for k in ("count", "p10", "p50", "p90", "p99", "mean", "std")}}
    latency = summary["latency_us"]
    quantiles = "  ".join(f"{name} {latency[name]:.0f}" for name in ("p10", "p50", "p90", "p99"))
    return textwrap.dedent(f"""\
        offered   {len(result['offered'])} whole over one connection
        found     {summary['found']}, of these early: {summary['early']}
        missed    {len(result['missed'])}
        wrong     {len(result['wrong'])}
        dup       {summary['dup']}, late: {summary['late']}, submissions: {summary['submits']}
        score     {summary['score']}: a submission costs a point
        latency   {quantiles} us
                  mean {latency['mean']:.0f}, std {latency['std']:.0f} (n {latency['count']}, early ones left out)""")


def failures(result, over, statistics, reset, log=""):
    """Returns the failures in words; empty when all is well."""
    cause, reason = end_of(log)
    found = []
    if cause not in (None, "gg"):
        found.append(f"the machine has left: {cause}: {reason}")
    if not over:
        found.append("the game did not come to its end")
    elif not result["offered"]:
        found.append("no answer was offered: play longer (DURATION=)")
    found += [f"missed: {shorten(digits)}" for digits in result["missed"]]
    found += [f"wrong: {shorten(line['digits'])} ({line['verdict']})" for line in result["wrong"]]
    if over and statistics is None:
        found.append("the GG packet brought no statistics")
    if not reset:
        found.append("the machine was not seen to reset")
    return found


def setup_of(values, accelerator="tcg"):
    return machine.Setup(boot=values["BOOT"], firmware=values["FIRMWARE"], nic=values["NIC"], net=values["NET"],
                         cpus=int(values["CPUS"]), memory=values["MEMORY"], accelerator=accelerator)


def run(values):
    words = values["SETTINGS"].split()
    words += machine.cpus_words(setup_of(values), words)
    if values["SETTINGS"]:
        endpoints = ["feed=10.0.2.2:1", "submit=10.0.2.2:1"]
        check_settings(machine.settings_text(setup_of(values), values["ROUND"], endpoints, USER, "a-key-to-check",
                                             words))
    kvm, finding = machine.probe_kvm(say=lambda text: say(f"peregrine: {text}"))
    setup = setup_of(values, "kvm" if kvm else "tcg")
    say(f"peregrine: {'KVM' if kvm else 'no KVM, so QEMU emulates the processor (TCG)'} ({finding})")
    say(f"peregrine: boot {setup.boot}, firmware {setup.firmware}, virtio-net {setup.nic}, network {setup.net}, "
        f"{machine.cpus_text(setup.cpus)}, {setup.memory}, stack {values['STACK']}, round {values['ROUND'].name}, "
        f"seed {values['SEED']}")
    key = "0x" + secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="peregrine-run-") as directory, start_game(setup, values) as game:
        say(f"peregrine: the contest's board: http://{game.bind}:{game.ports['pages']}/")
        settings = machine.settings_text(setup, values["ROUND"], game.endpoints(setup.host), USER, key, words)
        host, control = machine.start(setup, settings, directory)
        with host:
            log = Log(host)
            over = play(host, log, game, float(values["DURATION"]), setup.accelerator)
            if over:
                wait_for_last_answers(game)
            numbers = None
            if host.process.poll() is None:
                numbers, error = machine.send_gg(control, key)
                if error:
                    say(f"GG: {error}")
            try:
                host.wait_reset()
                reset = True
            except AssertionError as error:
                reset = False
                say(str(error))
            say("\n---- the machine's last words ----")
            log.show(LAST_WORDS)
            text = host.log
        result = outcome(game.stop(), USER)
    say("\n---- the kernel's own statistics ----\n"
        + shown_statistics(numbers or "none\n", values["STATISTICS"] == "all"))
    say("\n---- the board at the end ----\n" + final_board(result))
    wrong = failures(result, over, numbers, reset, text)
    for line in wrong[1:20]:
        say(f"peregrine: {line}")
    say("peregrine: " + (f"FAILED: {wrong[0]}" if wrong else
                         "every offered answer was submitted, none wrong; the machine has reset"))
    return 1 if wrong else 0


def run_program(values):
    program = serve.Program(values["PROGRAM"], setup_of(values), values["SETTINGS"].split(),
                            values["STATISTICS"] == "all")
    if values["NET"] == "tap":
        if not os.environ.get(IN_NAMESPACE):
            serve.listen(program)
        enter_namespace()
    return serve.run(program)


def read_words():
    """Reads the command line, which has no words except options: settings are variables, from `make run NAME=value`
    or from the environment."""
    rows = []
    for name, (default, allowed, what) in VARIABLES.items():
        choice = f"{', '.join(allowed)}: {what}" if isinstance(allowed, tuple) else what
        rows.append(f"  {name:10} {choice}" + (f" ({default})" if default else ""))
    parser = argparse.ArgumentParser(description="Plays a game in QEMU: `make run` without the set-up and the build.",
                                     epilog="variables (and their defaults):\n" + "\n".join(rows),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say if the variables are good")
    add_version(parser)
    return parser.parse_args()


def end(number, _):
    """Ends the run at a signal as an error does: the machine, the server and the temporary files are cleaned up."""
    sys.exit(f"run: ended by {signal.Signals(number).name}")


def main():
    words = read_words()
    try:
        values = read_variables(os.environ)
    except BadValue as error:
        sys.exit(f"run: {error}")
    if words.check:
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        if values["PROGRAM"] != "player":
            sys.exit(run_program(values))
        if values["NET"] == "tap":
            enter_namespace()
        sys.exit(run(values))
    except (BadValue, serve.Refused) as error:
        sys.exit(f"run: {error}")
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.exit(f"run: {words_of(error)}")
    except (qemu.Timeout, subprocess.TimeoutExpired) as error:
        sys.exit(f"run: {error}")
    except KeyboardInterrupt:
        sys.exit("run: interrupted")


if __name__ == "__main__":
    sys.exit(until_enough(main))
