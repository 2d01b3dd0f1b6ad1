"""Reads a crash record, docs/blackbox.md. Bytes in, a Record or None out; where the bytes are is
remote/record.sh's."""
import bisect
import dataclasses
import datetime
import struct
import subprocess
import zlib

from .text import printable

MAGIC = b"PEREGBOX"
VERSION = 1
HEADER = struct.Struct("<8sIIIIQQQ16s")
SECTION = struct.Struct("<II")
CAUSE, REGISTERS, BACKTRACE, STATISTICS, LOG = 1, 2, 3, 4, 5
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
    registers: dict = dataclasses.field(default_factory=dict)
    backtrace: list = dataclasses.field(default_factory=list)
    statistics: str = ""
    log: str = ""


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
    if kind in (CAUSE, STATISTICS, LOG):
        name = {CAUSE: "cause", STATISTICS: "statistics", LOG: "log"}[kind]
        setattr(record, name, payload.decode("utf-8", "replace").rstrip("\0"))
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


def describe(record, symbols=None):
    """Describes the record as lines of text. `symbols` names an address, or is None."""
    name = symbols or (lambda address: "")
    lines = [f"why it came back: {printable(record.cause) or 'not said'} "
             f"({STATES.get(record.state, f'state {record.state}')})",
             f"after {record.uptime_ns / 1e9:.3f} s, record {record.sequence}, build {record.build_id or 'unknown'}"]
    if record.wall_ns:
        written = datetime.datetime.fromtimestamp(record.wall_ns / 1e9, datetime.timezone.utc)
        lines.append(f"written {written:%Y-%m-%d %H:%M:%S} UTC")
    if record.registers:
        lines.append("registers:")
        items = [f"{key:6} {value:016x}" for key, value in record.registers.items()]
        lines += ["  " + "  ".join(items[i:i + 4]) for i in range(0, len(items), 4)]
    if record.backtrace:
        lines.append("backtrace:")
        lines += [f"  #{i} 0x{address:x} {name(address)}".rstrip() for i, address in enumerate(record.backtrace)]
    if record.statistics:
        lines += ["statistics:"] + ["  " + line for line in printable(record.statistics).splitlines()]
    if record.log:
        lines += ["log:"] + ["  " + line for line in printable(record.log).splitlines()]
    return lines


class Symbols:
    """Names for addresses from an ELF, through nm (binutils)."""

    def __init__(self, path):
        done = subprocess.run(["nm", "-n", "-C", str(path)], capture_output=True, text=True)
        self._table = []
        for line in done.stdout.splitlines():
            parts = line.split(None, 2)
            if len(parts) == 3 and parts[1] in "tT":
                self._table.append((int(parts[0], 16), parts[2]))

    def __call__(self, address):
        index = bisect.bisect_right(self._table, (address, "\U0010ffff")) - 1
        if index < 0 or address - self._table[index][0] > 1 << 20:
            return ""
        return f"{self._table[index][1]}+0x{address - self._table[index][0]:x}"
