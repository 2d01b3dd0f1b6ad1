"""Reads a crash record, docs/blackbox.md. Bytes in, a Record or None out; where the bytes are is
remote/record.sh's."""
import dataclasses
import datetime
import os
import re
import shutil
import struct
import subprocess
import zlib

from . import statistics
from .text import printable

MAGIC = b"PEREGBOX"
VERSION = 1
HEADER = struct.Struct("<8sIIIIQQQ16s")
SECTION = struct.Struct("<II")
CAUSE, REGISTERS, BACKTRACE, STATISTICS, LOG, RELEASE, FRAMES = 1, 2, 3, 4, 5, 6, 7
HEAD_BLOCKS = 2                         # a capture begins with section and interface
STATES = {0: "still running when this was written", 1: "came back as ordered", 2: "came back because something failed"}
REGISTER_NAMES = ("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip rflags cs ss vector error "
                  "cr0 cr2 cr3 cr4").split()
PAGE_BYTES = 4096


@dataclasses.dataclass
class Record:
    state: int
    sequence: int
    uptime_ns: int
    wall_ns: int
    build_id: str
    cause: str = ""
    version: str = ""           # the release's; empty before 1.0.0
    registers: dict = dataclasses.field(default_factory=dict)
    backtrace: list = dataclasses.field(default_factory=list)
    statistics: str = ""
    log: str = ""
    frames: bytes = b""                 # blocks of pcapng


def slots(region):
    """Returns a region's two slots; whole pages if it has more than one page."""
    half = len(region) // 2
    if half >= PAGE_BYTES:
        half -= half % PAGE_BYTES
    return region[:half], region[half:2 * half]


def read_slot(slot):
    """Returns (Record, None), or (None, the reason why there is none)."""
    if len(slot) < HEADER.size:
        return None, "too small"
    magic, version, size, crc, state, sequence, uptime, wall, build = HEADER.unpack_from(slot)
    if magic != MAGIC:
        return None, "no record"
    if version != VERSION:
        return None, f"version {version}, not {VERSION}"
    if not HEADER.size <= size <= len(slot):
        return None, f"a length of {size} bytes"
    if zlib.crc32(bytes(8) + slot[8:16] + bytes(4) + slot[20:size]) != crc:
        return None, "the checksum does not fit"
    record = Record(state, sequence, uptime, wall, build.hex() if any(build) else "")
    at = HEADER.size
    while at + SECTION.size <= size:
        kind, count = SECTION.unpack_from(slot, at)
        at += SECTION.size
        if count > size - at:
            return None, f"a section of {count} bytes does not fit"
        _take(record, kind, slot[at:at + count])
        at += (count + 7) & ~7
    return record, None


def _take(record, kind, payload):
    if kind in (CAUSE, RELEASE, STATISTICS, LOG):
        name = {CAUSE: "cause", RELEASE: "version", STATISTICS: "statistics", LOG: "log"}[kind]
        setattr(record, name, payload.decode("utf-8", "replace").rstrip("\0"))
    elif kind == FRAMES:
        record.frames = payload
    elif kind in (REGISTERS, BACKTRACE):
        numbers = [number for number, in struct.iter_unpack("<Q", payload[:len(payload) & ~7])]
        if kind == REGISTERS:
            record.registers = dict(zip(REGISTER_NAMES, numbers))
        else:
            record.backtrace = numbers


def newest(regions):
    """Returns the newest record of all regions, of equals the one with the most log, and the reasons of the others."""
    found, reasons = [], []
    for index, region in enumerate(regions):
        for slot in slots(region):
            record, reason = read_slot(slot)
            if record:
                found.append(record)
            else:
                reasons.append(f"region {index}: {reason}")
    best = max(found, key=lambda r: (r.sequence, len(r.log)), default=None)
    return best, reasons


def describe(record, name=None, everything=False):
    """Describes the record as lines of text. `name` is a DebugFile or the like, or None. `everything`: all statistics,
    not the table of those that are not 0."""
    lines = [f"why it came back: {printable(record.cause) or 'not said'} "
             f"({STATES.get(record.state, f'state {record.state}')})",
             f"after {record.uptime_ns / 1e9:.3f} s, record {record.sequence}, "
             f"version {printable(record.version) or 'unknown'}, build {record.build_id or 'unknown'}"]
    if record.wall_ns:
        written = datetime.datetime.fromtimestamp(record.wall_ns / 1e9, datetime.timezone.utc)
        lines.append(f"written {written:%Y-%m-%d %H:%M:%S} UTC")
    if record.registers:
        lines.append("registers:")
        items = [f"{key:6} {value:016x}" for key, value in record.registers.items()]
        lines += ["  " + "  ".join(items[i:i + 4]) for i in range(0, len(items), 4)]
    if record.backtrace:
        lines.append("backtrace:")
        lines += [f"  #{i} 0x{address:x} {name(address, i > 0) if name else ''}".rstrip()
                  for i, address in enumerate(record.backtrace)]
    if blocks := blocks_of(record.frames):
        lines.append(f"frames: the last {len(blocks) - HEAD_BLOCKS} (--capture FILE writes them)")
    if record.statistics:
        text = printable(record.statistics)
        text = text if everything else statistics.table(text)
        lines += ["statistics:"] + ["  " + line for line in text.splitlines()]
    if record.log:
        lines += ["log:"] + ["  " + line for line in printable(record.log).splitlines()]
    return lines


def blocks_of(frames):
    """Returns the blocks of a record's frames: draft-ietf-opsawg-pcapng, "General Block Structure"."""
    blocks, at = [], 0
    while at + 12 <= len(frames):
        size = struct.unpack_from("<I", frames, at + 4)[0]
        if not 12 <= size <= len(frames) - at:
            break
        blocks.append(frames[at:at + size])
        at += size
    return blocks


def in_order(blocks):
    """Returns the blocks as a file, the oldest frame first. A record has the newest first."""
    return b"".join(blocks[:HEAD_BLOCKS] + blocks[:HEAD_BLOCKS - 1:-1])


class DebugFile:
    """The debug file of a build: names an address as `FILE:LINE FUNCTION`, through addr2line (binutils)."""

    def __init__(self, path):
        self.path = path
        notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
        found = re.search(r"Build ID: ([0-9a-f]{32})", notes)       # the kernel knows the first 16 bytes of its own
        self.build_id = found[1] if found else ""

    def __call__(self, address, returned_to=False):
        """Names the instruction at an address, or the call that returns to it. Inlined functions stand before those
        that they are part of."""
        done = subprocess.run(["addr2line", "-e", self.path, "-f", "-i", f"{address - returned_to:#x}"],
                              capture_output=True, text=True)
        lines = done.stdout.splitlines()
        names = [f"{os.path.normpath(place)} {function}" if not place.startswith("??") else function
                 for function, place in zip(lines[::2], lines[1::2]) if function != "??"]
        return ", inlined into ".join(re.sub(r" \(discriminator \d+\)", "", name) for name in names)


def debug_file_of(record, path):
    """Returns (the debug file of the record's build, None), or (None, the reason). Looks at `path`, then in the folders
    beside it, where the builds of other programs lie."""
    if not (shutil.which("readelf") and shutil.which("addr2line")):
        return None, "readelf and addr2line, of the package binutils, are not here"
    found = [DebugFile(file) for file in (path, *sorted(path.parent.glob("*/*.debug"))) if file.is_file()]
    for file in found:
        if file.build_id and file.build_id == record.build_id:
            return file, None
    if not found:
        return None, f"there is no debug file {path}"
    return None, f"the record is of build {record.build_id or 'unknown'}, {path} is of {found[0].build_id or 'none'}"
