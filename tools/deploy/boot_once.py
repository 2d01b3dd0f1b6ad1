"""The commands that talk to the kernel while it flies: fly, status, log, gg."""
import json
import sys
import time

from deploy import control

from . import commands, settings
from .commands import OK, REFUSED, REMOTE, SILENT, USAGE, Refused, say
from .remote import RemoteError

FOLLOW_SECONDS = 0.5                        # between two looks at the log
SILENCE_SECONDS = 8                         # without an answer on the control channel: the kernel counts as gone
LEAVING_SECONDS = 60                        # for a reboot to end sshd: then Linux has not been left
SSH_SECONDS = 10                            # between two tries whether Linux is back already
UNHEEDED_MAX = 5                            # commands that the kernel did not obey: then the key is another one


def run(host, options):
    return {"fly": fly, "status": status, "log": log, "gg": gg}[options.command](host, options)


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
    except OSError as error:
        text, code = f"{error.filename}: {error.strerror}" if error.filename else error, USAGE
    print(f"peregrine: {text}", file=sys.stderr)
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
    return client_of(host, options, settings.load(options.config), **how)


def status(host, options):
    text = client_from_config(host, options).status()
    print(json.dumps(control.parse(text), indent=2) if options.json else text.rstrip("\n"))
    return OK


def log(host, options):
    client = client_from_config(host, options)
    client.log()                            # is anybody there at all?
    _follow(client)
    return OK


def record(host, options):
    return commands.record(host, elf=options.elf)


def fly(host, options, report=record):
    """Boots the installed kernel once, and follows it. `report` reads the record at the end; its exit code is ours."""
    facts, text = commands.look_again(host, options.return_to)
    before = facts.text("boot-id")
    client = client_of(host, options, settings.parse(text, "/boot/peregrine/settings"), attempts=1)
    say(f"{'would do' if options.dry_run else 'flying'} on {host.name}:")
    say("  - " + ("kexec: load the kernel and start it, without the firmware" if options.kexec else
                  "grub-reboot peregrine: the next boot is the kernel's, the one after it Linux's; then reboot"))
    say(f"  - wait for the kernel's first status at {client.where}, and follow its log")
    if options.dry_run:
        return OK
    _arm(host, options.kexec)
    begun = time.monotonic()
    first = _wait_first_status(host, client, before, options.wait)
    if not first:
        return _after(host, options, before, report)
    say(f"the kernel answers at {client.where}, {time.monotonic() - begun:.0f} s after Linux was left")
    _say_statistics(first)
    if options.no_follow:
        return OK
    position, code = 0, None
    try:
        while code is None:
            position = _follow(client, position)
            say("the kernel is silent")
            code = _after(host, options, before, report, client)
    except KeyboardInterrupt:
        say(f"\nit flies on. peregrine status, log and gg {host.name} reach it")
        return OK
    return code


def _arm(host, kexec):
    try:
        host.run(["arm"], ["kexec" if kexec else "once"], timeout=60)
    except RemoteError as error:
        raise RemoteError(f"{error}; {_disarm(host)}", error.status) from None
    say(f"{'kexec' if kexec else 'grub-reboot'}: done; {host.name} is leaving Linux")


def _disarm(host):
    """Takes an armed boot back; says in words what came of it. Empty: Linux is on its way down, nothing was done."""
    try:
        done = host.run(["arm"], ["disarm"], timeout=60)
    except RemoteError as error:
        return f"one boot of the kernel may still be armed ({error}); peregrine uninstall disarms it"
    return "" if done.strip() == b"leaving" else "the kernel is not armed any more"


def _say_statistics(text):
    """Prints the statistics that are not zero; `status` has them all."""
    for line in text.splitlines():
        if not line.endswith(" 0"):
            say("  " + line)


def _wait_first_status(host, client, before, seconds):
    """Returns the first status text, or None if Linux came up instead. Raises NoAnswer, or RemoteError if Linux was
    never left."""
    begun, unheeded = time.monotonic(), 0
    next_look = begun + min(2 * SSH_SECONDS, seconds)
    while True:
        try:
            return client.status()
        except control.NoAnswer:
            time.sleep(0.2)
        except control.NotAuthenticated:    # or a part of the answer was lost
            unheeded += 1
            if unheeded == UNHEEDED_MAX:
                raise
        passed = time.monotonic() - begun
        if time.monotonic() < next_look:
            continue
        now = host.answers(connect_seconds=3)
        if now and now != before:
            say("Linux came up, and no status was seen")
            return None
        if now and passed >= min(LEAVING_SECONDS, seconds) and (told := _disarm(host)):
            raise RemoteError(f"{host.name}: the reboot did not happen: the boot of Linux that was to end still "
                              f"answers after "
                              f"{passed:.0f} s; {told}. See there what systemctl reboot says")
        if passed >= seconds:
            raise control.NoAnswer(f"{client.where}: no status within {seconds:g} s, and no Linux. If the kernel runs, "
                                   f"it ends "
                                   "by itself (net.timeout=, server.timeout=, deadline=)")
        next_look = time.monotonic() + min(SSH_SECONDS, max(seconds - passed, 1))


def _follow(client, position=0):
    """Prints the log from `position` on as it comes, until nobody answers any more. Returns the position reached.

    The kernel has obeyed the key before."""
    heard = time.monotonic()
    client.attempts = 1
    while time.monotonic() - heard < SILENCE_SECONDS:
        try:
            position, text = client.log(position)
            heard = time.monotonic()
            if text:
                print(commands.blackbox.printable(text), end="", flush=True)
        except control.NoAnswer:
            pass
        except control.NotAuthenticated:    # a part of the answer was lost
            heard = time.monotonic()
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
    except control.NoAnswer:
        if not host.answers():
            raise
        say(f"{host.name} is in Linux already")
    else:
        say("it goes. Its last statistics:")
        _say_statistics(text)
        client.wait_gone(30)
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
    print(f"peregrine: {host.name}: ssh does not answer within {options.wait:g} s", file=sys.stderr)
    return SILENT
