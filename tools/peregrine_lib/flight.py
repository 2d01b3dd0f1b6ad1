"""The commands that talk to the kernel while it flies: fly, status, log, gg."""
import json
import sys
import time

import peregrine_control as control

from . import commands, settings
from .commands import OK, REMOTE, SILENT, Refused, say
from .remote import RemoteError

FOLLOW_SECONDS = 0.5                        # between two looks at the log
SILENCE_SECONDS = 8                         # of the control channel, after which the kernel counts as gone
SSH_SECONDS = 10                            # between two tries whether Linux is back already


def run(host, options):
    try:
        return {"fly": fly, "status": status, "log": log, "gg": gg}[options.command](host, options)
    except control.ControlError as error:
        print(f"peregrine: {error}", file=sys.stderr)
        return SILENT if isinstance(error, (control.NoAnswer, control.StillThere)) else REMOTE


def client_of(host, options, words, *, timeout_s=1.0, attempts=5):
    if "key" not in words:
        raise Refused("there is no key=, so there is no control channel")
    try:
        key = control.key_from_text(words["key"])
    except ValueError as error:
        raise Refused(f"key=: {error}") from None
    port = options.port or settings.control_port(words)
    return control.Client(options.address or host.address(), key, port, timeout_s, attempts)


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
    return _follow(client)


def fly(host, options):
    how = "kexec" if options.kexec else "grub-reboot"
    before = host.answers()
    if not before:
        raise RemoteError(f"{host.name}: ssh does not answer")
    commands.look_again(host, options.return_to)
    say(f"{'would do' if options.dry_run else 'flying'} on {host.name}:")
    say("  - " + ("kexec: load the kernel and start it, without the firmware" if options.kexec else
                  "grub-reboot peregrine: the next boot is the kernel's, the one after it Linux's; then reboot"))
    say("  - wait for the kernel's first status, and follow its log")
    if options.dry_run:
        return OK
    text = host.run(["arm"], ["kexec" if options.kexec else "once"], timeout=60).decode(errors="replace")
    client = client_of(host, options, settings.parse(text, "/boot/peregrine/settings"), attempts=1)
    say(f"{how}: done; {host.name} is leaving Linux")
    begun = time.monotonic()
    first = _wait_first_status(host, client, before, options.wait)
    if not first:
        return _after(host, options, before)
    say(f"the kernel answers at {client.where}, {time.monotonic() - begun:.0f} s after Linux was left")
    _say_statistics(first)
    if options.no_follow:
        return OK
    try:
        _follow(client)
    except KeyboardInterrupt:
        say(f"\nit flies on. peregrine status, log and gg {host.name} reach it")
        return OK
    say("the kernel is silent")
    return _after(host, options, before)


def _say_statistics(text):
    """Without the zeros, which are most of them; `status` has them all."""
    for line in text.splitlines():
        if not line.endswith(" 0"):
            say("  " + line)


def _wait_first_status(host, client, before, seconds):
    """Its text, or None if Linux came up instead. Raises NoAnswer."""
    deadline = time.monotonic() + seconds
    next_look = time.monotonic() + 2 * SSH_SECONDS
    while time.monotonic() < deadline:
        try:
            return client.status()
        except control.NoAnswer:
            time.sleep(0.2)
        if time.monotonic() >= next_look:
            now = host.answers(connect_seconds=3)
            if now and now != before:
                say("Linux came up, and no status was seen")
                return None
            next_look = time.monotonic() + SSH_SECONDS
    raise control.NoAnswer(f"{client.where}: no status within {seconds:g} s. If it does not answer, it comes back by "
                           "itself (net.timeout=, server.timeout=, deadline=)")


def _follow(client):
    """Prints the log as it comes, until nobody answers any more."""
    position, heard = 0, time.monotonic()
    client.attempts = 1
    while time.monotonic() - heard < SILENCE_SECONDS:
        try:
            position, text = client.log(position)
            heard = time.monotonic()
            if text:
                print(commands.blackbox.printable(text), end="", flush=True)
        except control.NoAnswer:
            pass
        except control.NotAuthenticated:
            if position == 0:
                raise
        time.sleep(FOLLOW_SECONDS)
    return OK


def gg(host, options):
    client = client_from_config(host, options)
    say(f"{'would do' if options.dry_run else 'calling back'} {host.name}:")
    say("  - send the GG packet; wait until ssh answers; read the flight record")
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
    return _after(host, options, None)


def _after(host, options, before):
    """Waits for Linux, then prints the flight record. `before` is the boot that does not count as being back."""
    begun = time.monotonic()
    while time.monotonic() - begun < options.wait:
        now = host.answers()
        if now and now != before:
            say(f"Linux is back ({time.monotonic() - begun:.0f} s)")
            return commands.record(host, elf=options.elf)
        time.sleep(1)
    print(f"peregrine: {host.name}: ssh does not answer within {options.wait:g} s", file=sys.stderr)
    return SILENT
