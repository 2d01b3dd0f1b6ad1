"""The commands that talk to the running kernel: fly, status, slow, log, capture, gg."""
import dataclasses
import json
import sys
import time

from command_line import words_of
from deploy import control

from . import commands, preflight, programs, settings, state, statistics, ways
from .commands import OK, REFUSED, REMOTE, SILENT, USAGE, Refused, say
from .ssh import RemoteError
from .text import printable
from .verdict import GRUB, KEXEC, NAMES

LOG_FULL = 9000                             # characters of an answer that has no room for another line
FOLLOW_SECONDS = 0.5                        # between two looks at the log
SILENCE_SECONDS = 8                         # without an answer on the control channel: the kernel counts as gone
LEAVING_SECONDS = 60                        # for a reboot to end sshd: then Linux has not been left
SSH_SECONDS = 10                            # between two tries whether Linux is back already
REJECTED_MAX = 5                            # commands in a row; then the kernel has another key


def run(host, options):
    return {"fly": fly, "status": status, "slow": slow, "log": log, "capture": capture,
            "gg": gg}[options.command](host, options)


def guarded(command, *arguments):
    """Returns the exit code of a command. Prints its failure."""
    try:
        return command(*arguments)
    except (Refused, settings.SettingsError) as error:
        text, code = error, REFUSED
    except RemoteError as error:
        text, code = error, REMOTE
    except control.ControlError as error:
        text, code = error, SILENT if isinstance(error, (control.NoAnswer, control.StillThere)) else REMOTE
    except BrokenPipeError:
        raise
    except OSError as error:
        text, code = words_of(error), USAGE
    print(f"peregrine: {printable(str(text))}", file=sys.stderr)
    return code


def client_of(host, options, words, *, timeout_s=1.0, attempts=5):
    if "key" not in words:
        raise Refused("there is no key=, so there is no control channel")
    try:
        key = control.key_from_text(words["key"])
    except ValueError as error:
        raise Refused(f"key=: {error}") from None
    port = options.port or settings.control_port(words)
    try:
        return control.Client(options.address or host.address(), key, port, timeout_s, attempts)
    except control.NoAnswer as error:
        address = words.get("ip", "").partition("/")[0]
        raise Refused(f"{error}. The kernel answers by IPv4 alone: say where, by --address "
                      f"{address if settings.is_address(address) else 'ADDRESS'}") from None


def client_from_config(host, options, **how):
    if not options.config:
        raise Refused("which key? Say --config FILE, or set PEREGRINE_CONFIG: the file that was installed")
    return client_of(host, options, settings.load(options.config, settings.parse_key), **how)


def status(host, options):
    text = client_from_config(host, options).status()
    say(json.dumps(control.parse(text), indent=2) if options.json else shown(text, options))
    return OK


def shown(text, options):
    """Returns statistics as `status` and `gg` print them. The commands that also call this have no --all."""
    return text.rstrip("\n") if getattr(options, "all", False) else statistics.table(text)


def slow_table(text):
    """Returns the lines `slow.*` as rows of words, the names of the columns first."""
    rows = [line.split()[1:] for line in text.splitlines() if line.startswith("slow.")]
    return rows if len(rows) > 1 and len({len(row) for row in rows}) == 1 else []


def slow(host, options):
    rows = slow_table(client_from_config(host, options).status())
    if not rows:
        say("no slow way is kept yet, or the program keeps none")
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        say("  ".join(word.rjust(width) for word, width in zip(row, widths)))
    return OK


def log(host, options):
    client = client_from_config(host, options)
    client.log()                            # is anybody there at all?
    _follow(client)
    return OK


def capture(host, options):
    if sys.stdout.isatty():
        raise Refused("a capture is no text: say > FILE.pcapng, or | tshark -r -")
    for part in client_from_config(host, options).capture():
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    return OK


def record(host, options):
    return commands.record(host, debug=options.debug, everything=getattr(options, "all", False))


@dataclasses.dataclass
class Boot:
    """One boot of the kernel: by which way, with which settings, from which boot of Linux."""
    way: object                             # a way of ways.py
    text: str                               # the settings that the kernel gets
    before: str                             # the id of the boot of Linux
    image: bytes = b""                      # by kexec; by GRUB it is installed

    @property
    def words(self):
        return settings.parse(self.text, "the settings of this boot")

    @property
    def regions(self):
        """Returns the places of the record; none if the settings that HOST has installed name them wrongly."""
        try:
            numbers = [int(word, 0) for word in self.words.get("blackbox", "").split(",") if word]
        except ValueError:
            return []
        return list(zip(numbers[::2], numbers[1::2]))


def prepare(host, options, by=None, words=None, source="", program=None):
    """Looks at HOST and chooses the way, unless `by` names it. Raises Refused.

    `words`: the settings, read from `source`; None: those that are installed. `program`: None is the installed one.
    HOST may have changed since `install`: another kernel of Linux, another default, another disk, another address.
    `install` has made the menu, and `fly` does not make it again: a new entry that is not in the menu does no harm."""
    say(f"reading {host.name}")
    facts = commands.probe(host, settings.host_names(words or {}))
    text = ""
    if facts.holds("installed"):
        text = host.run(["way", "grub"], ["look"], timeout=60).decode(errors="replace")
    if words is None and not text:
        raise Refused(f"nothing is installed: peregrine install {host.name} first, to boot by GRUB; or say "
                      f"--config FILE, to boot by kexec, which needs no install")
    installed, installed_program = settings.own(text), settings.program_of(text)
    program = program or installed_program
    bzimage = options.bzimage or programs.image_of(program, "peregrine.bzImage")
    verdict = preflight.judge(facts, kexec_bytes=commands.image_bytes(bzimage), return_to=options.return_to,
                              accept_changes=True, given=installed if words is None else words,
                              installed=settings.handed_over(text))
    with verdict.only(GRUB):
        if not text:
            verdict.stop("nothing is installed", f"Run peregrine install {host.name}")
        elif programs.name_of(program) != installed_program:
            verdict.stop(f"the installed program is {installed_program}, not {programs.name_of(program)}",
                         f"Run peregrine install {host.name}{programs.option_of(program)}")
        elif words is not None and not settings.alike(words, installed):
            verdict.stop(f"the installed settings are not those of {source}", f"Run peregrine install {host.name}")
    way = by or next(iter(verdict.ways), "")
    for line in verdict.finding_lines(way, with_words=False):
        say("  " + line)
    if not way or verdict.stops(way):
        raise Refused(f"not by {NAMES[way] if way else 'GRUB and not by kexec'}: nothing was changed")
    say(f"by {NAMES[way]}" + ("" if by or way == GRUB else ", not by GRUB: " + "; ".join(
        finding.text for finding in verdict.stops(GRUB))))
    boot = Boot(ways.WAYS[way], text, facts.text("boot-id"))
    if way == KEXEC:
        boot.image = commands.kernel_for("linux", None, bzimage, program)
        boot.text = commands.settings_for(facts, verdict, source or "the installed settings", program)
    return boot


def fly(host, options, report=record):
    """Boots the kernel once, and follows it. `report` reads the record at the end; its exit code is ours."""
    program = options.program or (programs.PLAYER if options.config else None)
    words = commands.read_config(options.config, program) if options.config else None
    return go(host, options, prepare(host, options, options.by, words, options.config, program), report)


def go(host, options, boot, report):
    way, before = boot.way, boot.before
    client = client_of(host, options, boot.words, attempts=1)
    say(f"{'would do' if options.dry_run else 'booting'} on {host.name}:")
    for step in way.steps:
        say(f"  - {step}")
    say(f"  - wait for the kernel's first status at {client.where}, and follow its log")
    if options.dry_run:
        return OK
    state.remember(host.name, boot.regions)
    try:
        ways.leave(way, host, boot)
        say(f"{way.done}; {host.name} is leaving Linux")
        begun = time.monotonic()
        first = _wait_first_status(host, client, boot, options.wait)
    except KeyboardInterrupt:
        say(f"{host.name}: {way.uncertain}")
        raise
    if not first:
        return _after(host, options, before, report)
    say(f"the kernel answers at {client.where}, {time.monotonic() - begun:.0f} s after Linux was left")
    say(shown(first, options))
    if options.no_follow:
        return OK
    position, code = 0, None
    try:
        while code is None:
            position = _follow(client, position)
            say("the kernel is silent")
            code = _after(host, options, before, report, client)
    except KeyboardInterrupt:
        say(f"\nthe kernel runs on. peregrine status, log and gg {host.name} reach it")
        return OK
    return code


def _wait_first_status(host, client, boot, seconds):
    """Returns the first status text, or None if Linux came up instead. Raises NoAnswer, or RemoteError if Linux was
    never left."""
    begun, rejected = time.monotonic(), 0
    next_look = begun + min(2 * SSH_SECONDS, seconds)
    while True:
        try:
            return client.status()
        except control.NoAnswer:
            rejected = 0                    # a busy kernel answers now and then; another key never
            time.sleep(0.2)
        except control.NotAuthenticated:    # another key, or a lost answer
            rejected += 1
            if rejected == REJECTED_MAX:
                raise
        passed = time.monotonic() - begun
        if time.monotonic() < next_look:
            continue
        now = host.answers(connect_seconds=3)
        if now and now != boot.before:
            # A power cut may have come after the entry was armed and before GRUB was asked: it would boot later.
            disarmed = f"; {ways.unload(boot.way, host)}" if boot.way.name == GRUB else ""
            say(f"Linux came up, and no status was seen{disarmed}")
            return None
        if now and passed >= min(LEAVING_SECONDS, seconds) and (undone := ways.unload(boot.way, host)):
            raise RemoteError(f"{host.name}: the reboot did not happen: the boot of Linux that was to end still "
                              f"answers after {passed:.0f} s; {undone}")
        if passed >= seconds:
            raise control.NoAnswer(f"{client.where}: no status within {seconds:g} s, and no Linux. If the kernel runs, "
                                   f"it ends by itself (net.timeout=, server.timeout=, deadline=). {boot.way.ended}")
        next_look = time.monotonic() + min(SSH_SECONDS, max(seconds - passed, 1))


def _follow(client, position=0):
    """Prints the log from `position` on as it comes, until nobody answers any more. Returns the position reached.

    The kernel has obeyed the key before."""
    answered = time.monotonic()
    client.attempts = 1
    while time.monotonic() - answered < SILENCE_SECONDS:
        try:
            begin, (position, text) = position, client.log(position)
            answered = time.monotonic()
            lost = position - begin - len(text)
            if begin and lost > 0:      # the machine's ring was faster
                print(f"peregrine log: {lost} bytes of the log are lost here", file=sys.stderr, flush=True)
            if text:
                print(text, end="", flush=True)
            if len(text) > LOG_FULL:
                continue                # there is more
        except (control.Busy, control.NotAuthenticated):    # the answer, or a part of it, was lost
            answered = time.monotonic()
        except control.NoAnswer:
            pass
        time.sleep(FOLLOW_SECONDS)
    return position


def gg(host, options):
    client = client_from_config(host, options)
    say(f"{'would do' if options.dry_run else 'calling back'} {host.name}:")
    say("  - send the GG packet; wait until ssh answers; read the crash record")
    if options.dry_run:
        return OK
    try:
        text = client.gg()
        say("the kernel ends. Its last statistics:")
        say(shown(text, options))
        client.wait_gone(30)
    except control.NoAnswer:
        if not host.answers():
            raise
        say(f"{host.name} is in Linux already")
    finally:
        if client.left_open:
            say(f"the exchange has not confirmed the cancellations:\n{client.left_open}")
    return _after(host, options, None, record)


def _after(host, options, before, report, client=None):
    """Waits for Linux, then has the crash record reported. `before` is the boot that does not count as being back. If a
    client is given and the kernel answers again first, as it may after a flood, returns None."""
    begun = time.monotonic()
    while time.monotonic() - begun < options.wait:
        now = host.answers()
        if now and now != before:
            say(f"Linux is back ({time.monotonic() - begun:.0f} s)")
            return report(host, options)
        if client and client.answers():
            say("the kernel answers again")
            return None
        time.sleep(1)
    print(f"peregrine: {host.name}: ssh does not answer within {options.wait:g} s. {ways.Kexec.ended}", file=sys.stderr)
    return SILENT
