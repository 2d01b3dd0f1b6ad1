"""The commands of tools/peregrine that change HOST or look at it: check, install, uninstall, record. flight.py has those
that talk to the kernel while it flies."""
import hashlib
import pathlib
import struct

from . import blackbox, judge, settings
from .facts import Facts
from .remote import RemoteError

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Exit codes, as the man page tells them.
OK, REFUSED, USAGE, REMOTE, SILENT, BAD_RECORD = 0, 1, 2, 3, 4, 5


class Refused(Exception):
    """The command cannot be carried out; the lines say why. Nothing was changed."""


def say(text=""):
    print(text, flush=True)


def probe(host, names=()):
    """Reads the facts of HOST; changes nothing there."""
    return Facts(host.run(["probe"], list(names), timeout=180).decode(errors="replace"))


def check(host, kernel=None, bzimage=None, *, return_to=""):
    say(f"reading {host.name} (nothing is changed)")
    needed = max((path.stat().st_size for path in (kernel, bzimage) if path and path.exists()), default=4 << 20)
    verdict = judge.judge(probe(host), bytes_needed=needed, linux_door=bool(bzimage and bzimage.exists()),
                          return_to=return_to)
    for line in judge.text(verdict):
        say(line)
    stops = len(verdict.stops)
    say("it can be flown" if not stops else f"it cannot be flown: {stops} reason{'s' if stops > 1 else ''} above")
    return REFUSED if stops else OK


def read_config(path):
    words = settings.load(path)
    settings.check(words, str(path))
    return words


def kernel_for(door, kernel, bzimage):
    """The image that enters through the door, after a look at its first bytes."""
    path = kernel if door == "multiboot2" else bzimage
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}; build it with `make`") from None
    if door == "multiboot2":
        # Multiboot2 specification §3.1.1: the header lies in the first 32 KiB, on an 8 byte boundary.
        magic = struct.pack("<I", 0xE85250D6)
        if data[:4] != b"\x7fELF" or not any(data[at:at + 4] == magic for at in range(0, 32768, 8)):
            raise Refused(f"{path} is no ELF with a Multiboot2 header")
    elif data[0x202:0x206] != b"HdrS":      # Linux Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header"
        raise Refused(f"{path} has no Linux boot protocol header")
    return data


def install(host, config, kernel, bzimage, *, dry_run=False, accept_changes=False, return_to="", stop_at=0):
    words = read_config(config)
    names = settings.host_names(words)
    say(f"reading {host.name}")
    facts = probe(host, names)
    verdict = judge.judge(facts, bytes_needed=2 * kernel.stat().st_size if kernel.exists() else 4 << 20,
                          linux_door=bzimage.exists(), return_to=return_to, accept_changes=accept_changes)
    for line in judge.text_of_findings(verdict):
        say("  " + line)
    addresses = {name: facts.text(f"resolve {name}").split()[0] for name in names if facts.text(f"resolve {name}")}
    for name in names:
        if name not in addresses:
            verdict.stop(f"{host.name} cannot resolve {name}")
            say(f"  stop: {host.name} cannot resolve {name}")
    if verdict.stops:
        raise Refused("nothing was changed")
    data = kernel_for(verdict.door, kernel, bzimage)
    text = settings.compose(words, addresses, verdict.handed_over).encode()
    if len(text) > 16383:
        raise Refused("the settings are longer than the kernel takes (16383 bytes)")
    for name, address in addresses.items():
        say(f"  {name} is {address}")
    say(f"{'would do' if dry_run else 'installing'} on {host.name}:")
    arguments = ["1" if dry_run else "0", str(stop_at), verdict.door, str(len(data)), hashlib.sha256(data).hexdigest(),
                 str(len(text)), hashlib.sha256(text).hexdigest(), "1" if accept_changes else "0"]
    host.run(["common", "install"], arguments, b"" if dry_run else data + text, timeout=600, show=_show_step)
    say("nothing was changed" if dry_run else f"installed; Linux stays the default. Next: peregrine fly {host.name}")
    return OK


def look_again(host, return_to=""):
    """Before a flight: HOST may have changed since `install`, by another kernel of Linux, another default, another
    disk. `install` has made the menu, and fly does not make it anew; so what is not in it does no harm. Raises Refused."""
    say(f"reading {host.name}")
    verdict = judge.judge(probe(host), bytes_needed=0, return_to=return_to, accept_changes=True)
    for line in judge.text_of_findings(verdict, with_words=False):
        say("  " + line)
    if verdict.stops:
        raise Refused("it was not armed; nothing was changed")


def uninstall(host, *, dry_run=False, stop_at=0):
    say(f"{'would do' if dry_run else 'uninstalling'} on {host.name}:")
    host.run(["common", "uninstall"], ["1" if dry_run else "0", str(stop_at)], timeout=600, show=_show_step)
    say("nothing was changed" if dry_run else "everything is as it was before install")
    return OK


def _show_step(line):
    if not line.startswith(("points: ", "ssh: ")):      # what ssh says is told with the failure
        say("  " + line)


def fetch_regions(host, regions=()):
    """The bytes of HOST's black box, region by region; an empty list if none could be read. `regions`: (address, bytes)
    pairs, or those of the installed settings."""
    arguments = [str(number) for region in regions for number in region]
    text = host.run(["record"], arguments, timeout=120).decode(errors="replace")
    found, part = [], None
    for line in text.splitlines():
        if line.startswith("region "):
            part = []
        elif line == "end" and part is not None:
            found.append(bytes.fromhex("".join(part)))
            part = None
        elif part is not None:
            part.append(line)
    return found


def record(host, *, elf=None, regions=(), raw=None):
    regions = fetch_regions(host, regions)
    if raw:
        raw.write_bytes(b"".join(regions))
        say(f"{sum(map(len, regions))} bytes to {raw}")
    found, reasons = blackbox.newest(regions)
    if not found:
        say("there is no flight record: " + ("; ".join(dict.fromkeys(reasons)) or "no region could be read"))
        say("RAM did not survive the reset, the kernel never ran, or Linux has used the memory since "
            "(read it soon after the return; log=IP:PORT sends the log while flying)")
        return BAD_RECORD
    alike = [best for best, _ in (blackbox.newest([region]) for region in regions) if best and best.sequence == found.sequence]
    for line in blackbox.describe(found, blackbox.Symbols(elf) if elf and elf.exists() else None):
        say(line)
    say(f"it stands in {len(alike)} of the {len(regions)} regions read")
    return OK


__all__ = ["check", "install", "uninstall", "record", "RemoteError", "Refused"]
