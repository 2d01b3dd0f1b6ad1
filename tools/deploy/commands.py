"""The commands of tools/peregrine that change HOST or look at it: check, install, uninstall, record. boot_once.py has
those that talk to the kernel while it runs."""
import hashlib
import os
import secrets
import stat
import struct

import command_line

from . import blackbox, preflight, programs, settings, state
from .facts import Facts
from .ssh import OUTPUT_BYTES_MAX, RemoteError, as_line
from .text import printable
from .verdict import GRUB, KEXEC, NAMES

# Exit codes, as in the man page.
OK, REFUSED, USAGE, REMOTE, SILENT, BAD_RECORD = 0, 1, 2, 3, 4, 5


class Refused(Exception):
    """The command cannot be carried out; the lines say why. Nothing was changed."""


def say(text=""):
    """Prints text, in which a host's words may stand."""
    command_line.say(printable(text))


def probe(host, names=()):
    """Reads the facts of HOST; changes nothing there."""
    return Facts(host.run(["probe"], list(names), timeout=180).decode(errors="replace"))


def judge(host, kernel=None, bzimage=None, **how):
    """Reads HOST and returns the verdict on it."""
    say(f"reading {host.name} (nothing is changed)")
    facts = probe(host, settings.host_names(how.get("given", {})))
    return preflight.judge(facts, image_bytes=image_bytes(kernel, bzimage), kexec_bytes=image_bytes(bzimage),
                           linux_protocol=bool(bzimage and bzimage.exists()), **how)


def check(host, kernel=None, bzimage=None, *, return_to="", program=programs.PLAYER):
    verdict = judge(host, kernel, bzimage, return_to=return_to)
    for line in verdict.lines():
        say(line)
    ways = verdict.ways
    if not ways:
        say("the kernel cannot be booted here, neither by GRUB nor by kexec, for the reasons above")
        return REFUSED
    say(f"the kernel can be booted here by {' or by '.join(NAMES[way] for way in ways)}")
    if ways == [KEXEC]:
        say(f"    peregrine fly --by kexec {host.name} --config FILE{programs.option_of(program)}")
    return OK


def image_bytes(*images):
    """Returns the size of the largest of the images; a usual size if none is built."""
    return max((path.stat().st_size for path in images if path and path.exists()), default=1 << 20)


def make_key(path):
    """Adds a fresh key to a configuration, which nobody else may read from then on."""
    if path.exists() and not path.is_file():            # readable by you alone, a device serves nobody else
        raise Refused(f"{path}: is no file")
    if path.exists() and "key" in settings.read(path):
        raise Refused(f"{path}: there is a key= already")
    bytes_before = path.stat().st_size if path.exists() else None
    try:
        with open(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.seek(0)
            text = file.read()
            file.write(("\n" if text and not text.endswith("\n") else "") + f"key=0x{secrets.token_hex(32)}\n")
    except OSError as error:                # a full disk: the file is left as it was
        if bytes_before is None:
            path.unlink(missing_ok=True)
        elif path.stat().st_size > bytes_before:
            os.truncate(path, bytes_before)
        raise OSError(error.errno, error.strerror, str(path)) from None
    say(f"a key was added to {path}, which is readable by you alone")
    return OK


def read_config(path, program):
    words = settings.load(path)
    settings.check(words, str(path), program)
    return words


def kernel_for(protocol, kernel, bzimage, program):
    """Returns the image for a boot protocol, after a check of its first bytes."""
    path = kernel if protocol == "multiboot2" else bzimage
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}; build it with `{programs.make_of(program)}`") from None
    if len(data) < bytes_of(data):
        raise Refused(f"{path} is cut off: {len(data)} bytes of {bytes_of(data)}")
    if protocol == "multiboot2":
        # Multiboot2 specification §3.1.1: the header lies in the first 32 KiB, on an 8 byte boundary.
        magic = struct.pack("<I", 0xE85250D6)
        if data[:4] != b"\x7fELF" or not any(data[at:at + 4] == magic for at in range(0, 32768, 8)):
            raise Refused(f"{path} is no ELF with a Multiboot2 header")
    elif data[0x202:0x206] != b"HdrS":      # Linux Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header"
        raise Refused(f"{path} has no Linux boot protocol header")
    return data


def bytes_of(data):
    """Returns the size that an image's own header gives; 0 for no image."""
    if data[:5] == b"\x7fELF\x02" and len(data) >= 64:       # ELF-64 Object File Format, "Program Header"
        table, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
        ends = [table + 56 * count]
        if len(data) >= ends[0]:
            ends += [sum(struct.unpack_from("<Q", data, table + 56 * i + at)[0] for at in (8, 32))
                     for i in range(count)]
        return max(ends)
    if data[0x202:0x206] == b"HdrS":        # "The Real-Mode Kernel Header": setup_sects and syssize
        return ((data[0x1f1] or 4) + 1) * 512 + struct.unpack_from("<I", data, 0x1f4)[0] * 16
    return 0


def install(host, config, kernel, bzimage, *, dry_run=False, accept_changes=False, return_to="", stop_at=0,
            program=programs.PLAYER):
    words = read_config(config, program)
    say(f"reading {host.name}")
    facts = probe(host, settings.host_names(words))
    verdict = preflight.judge(facts, image_bytes=image_bytes(kernel, bzimage), linux_protocol=bzimage.exists(),
                              return_to=return_to, accept_changes=accept_changes, given=words)
    for line in verdict.finding_lines(GRUB):
        say("  " + line)
    if verdict.stops(GRUB):
        if not verdict.stops(KEXEC):
            say(f"  kexec needs no install: peregrine fly --by kexec {host.name} --config {config}"
                f"{programs.option_of(program)}")
        raise Refused("nothing was changed")
    data = kernel_for(verdict.protocol, kernel, bzimage, program)
    text = settings_for(facts, verdict, config, program).encode()
    say(f"{'would do' if dry_run else 'installing'} on {host.name}:")
    arguments = ["1" if dry_run else "0", str(stop_at), verdict.protocol,
                 str(len(data)), hashlib.sha256(data).hexdigest(), str(len(text)), hashlib.sha256(text).hexdigest(),
                 "1" if accept_changes else "0"]
    host.run(["common", "install"], arguments, b"" if dry_run else as_line(text) + data, timeout=600, show=_show_step)
    say("nothing was changed" if dry_run else f"installed; Linux stays the default. Next: peregrine fly {host.name}")
    return OK


def settings_for(facts, verdict, source, program):
    """Returns the text of the settings that the kernel gets: the user's words, names resolved, and those of Linux.
    Raises Refused, or SettingsError if the kernel would refuse them."""
    names = settings.host_names(verdict.given)
    addresses = {name: (facts.text(f"resolve {name}").split() or [""])[0] for name in names}
    if wrong := [name for name, address in addresses.items() if not settings.is_address(address)]:
        raise Refused(f"{wrong[0]} is resolved to {addresses[wrong[0]]!r}, which is no IPv4 address")
    for name, address in addresses.items():
        say(f"  {name} is {address}")
    text = settings.compose(verdict.given, addresses, verdict.added, program)
    if len(text.encode()) > settings.BYTES_MAX:
        raise Refused(f"the settings are longer than the kernel takes ({settings.BYTES_MAX} bytes)")
    settings.ask_the_kernel(text, str(source), program)
    return text


def uninstall(host, *, dry_run=False, stop_at=0):
    say(f"{'would do' if dry_run else 'uninstalling'} on {host.name}:")
    host.run(["common", "uninstall"], ["1" if dry_run else "0", str(stop_at)], timeout=600, show=_show_step)
    say("nothing was changed" if dry_run else "everything is as it was before install")
    return OK


def _show_step(line):
    if not line.startswith(("points: ", "ssh: ")):      # ssh's own lines are shown with the failure
        say("  " + line)


def fetch_regions(host, regions=()):
    """Returns the bytes of HOST's black box, region by region; an empty list if none could be read.

    `regions`: (address, bytes) pairs; else those of the last boot from here, else those of the installed settings."""
    regions = regions or state.regions_of(host.name)
    arguments = [str(number) for region in regions for number in region]
    most = max(OUTPUT_BYTES_MAX, 4 * sum(size for _, size in regions))      # od writes three characters a byte
    text = host.run(["record"], arguments, timeout=120, output_bytes_max=most).decode(errors="replace")
    found, part = [], None
    for line in text.splitlines():
        if line.startswith("region "):
            part = []
        elif line == "end" and part is not None:
            found.append(b"".join(part))
            part = None
        elif part is not None:
            try:
                part.append(bytes.fromhex(line))
            except ValueError:
                raise RemoteError(f"{host.name}: memory did not come as hexadecimal: {line[:60]!r}") from None
    return found


def record(host, *, debug=None, regions=(), raw=None, capture=None, everything=False):
    regions = fetch_regions(host, regions)
    if raw:
        write_private(raw, b"".join(regions))
        say(f"{sum(map(len, regions))} bytes to {raw}")
    found, reasons = blackbox.newest(regions)
    if not found:
        return no_record(reasons)
    if capture:
        keep_frames(found, capture)
    alike = [best for best, _ in (blackbox.newest([region]) for region in regions) if best
             and best.sequence == found.sequence]
    describe(found, debug, everything)
    say(f"it stands in {len(alike)} of the {len(regions)} regions read")
    return OK


def write_private(path, data):
    """Writes a file that its owner alone may read, also if it is there already."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)
            file.truncate()
        file.write(data)


def keep_frames(found, path):
    """Writes a record's frames to a file."""
    blocks = blackbox.blocks_of(found.frames)
    if not blocks:
        say(f"the record has no frames (capture= was not set): {path} is not written")
        return
    write_private(path, blackbox.in_order(blocks))
    say(f"{len(blocks) - blackbox.HEAD_BLOCKS} frames to {path}")


def describe(found, debug, everything=False):
    """Prints a record, with source lines in its backtrace if the debug file of its build is there. `everything`: with
    all statistics."""
    file, reason = blackbox.debug_file_of(found, debug) if debug and found.backtrace else (None, None)
    for line in blackbox.describe(found, file, everything):
        say(line)
    if reason:
        say(f"the backtrace has no source lines: {reason} (--debug FILE names another)")


def no_record(reasons):
    say("there is no crash record: " + ("; ".join(dict.fromkeys(reasons)) or "no region could be read"))
    say("RAM did not survive the reset, the kernel never ran, or Linux has used the memory since "
        "(read it soon after the return; log=IP:PORT sends the log while the kernel runs)")
    return BAD_RECORD


__all__ = ["check", "install", "uninstall", "record", "RemoteError", "Refused"]
