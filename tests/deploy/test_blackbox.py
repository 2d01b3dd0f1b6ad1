"""The crash record: byte vectors of docs/blackbox.md, every kind of damage, and reading from /proc/kcore by
remote/record.sh."""
import os
import random
import re
import struct
import subprocess
import zlib

import pytest

from tests.deploy.fakehost import FakeHost

from deploy import blackbox, commands

# A record with a cause of two bytes and a log, written by hand from the table, not by the packer of this file.
VECTOR = bytes.fromhex(
    "50455245 47424f58"             # PEREGBOX
    "01000000" "70000000"           # version 1, 112 bytes
    "00000000" "02000000"           # CRC (filled in below), state 2
    "0700000000000000"              # sequence 7
    "00ca9a3b00000000"              # uptime 1 s
    "0000a0dec5adc935"              # wall clock 3875820019684212736 ns
    "000102030405060708090a0b0c0d0e0f"
    "01000000" "02000000" "4747" "000000000000"      # cause "GG"
    "05000000" "0c000000" "5b312e305d2068656c6c6f0a" "00000000"      # log "[1.0] hello\n"
    "63000000" "00000000".replace(" ", ""))


def seal(data):
    """Fills in the length and the checksum."""
    data = bytearray(data)
    struct.pack_into("<I", data, 12, len(data))
    struct.pack_into("<I", data, 16, zlib.crc32(bytes(8) + data[8:16] + bytes(4) + data[20:]))
    return bytes(data)


def make(sequence=1, state=1, sections=()):
    data = bytearray(struct.pack("<8sIIIIQQQ16s", b"PEREGBOX", 1, 0, 0, state, sequence, 5 * 10**9, 0, bytes(16)))
    for kind, payload in sections:
        data += struct.pack("<II", kind, len(payload)) + payload + bytes(-len(payload) % 8)
    return seal(data)


def region(first=b"", second=b"", size=32768):
    return first.ljust(size // 2, b"\xaa") + second.ljust(size // 2, b"\x55")


def test_the_checksum_is_the_known_one():
    """CRC-32 of "123456789" is 0xcbf43926, the check value of CRC-32/ISO-HDLC. So zlib's function is the right one."""
    assert zlib.crc32(b"123456789") == 0xcbf43926


def test_a_vector_is_read():
    record, reason = blackbox.read_slot(seal(VECTOR).ljust(4096, b"\xff"))
    assert reason is None
    assert (record.state, record.sequence, record.uptime_ns) == (2, 7, 10**9)
    assert record.build_id == "000102030405060708090a0b0c0d0e0f"
    assert record.cause == "GG" and record.log == "[1.0] hello\n"


def test_a_trap_is_described_with_function_names(tmp_path):
    registers = b"".join(struct.pack("<Q", 0x1000 + i) for i in range(26))
    backtrace = struct.pack("<QQ", 0x100010, 0x100123)
    record, _ = blackbox.read_slot(make(state=2, sections=[(1, b"page fault"), (2, registers), (3, backtrace),
                                                           (4, b"answers 3\nearly 0\n")]))
    lines = blackbox.describe(record, lambda address, returned_to: f"f.c:{address & 0xff:#x} {returned_to}")
    assert lines[0] == "why it came back: page fault (came back because something failed)"
    assert ("  rax    0000000000001000  rbx    0000000000001001  rcx    0000000000001002  rdx    0000000000001003"
            in lines)
    assert "  #0 0x100010 f.c:0x10 False" in lines and "  #1 0x100123 f.c:0x23 True" in lines
    assert "  answers       3" in lines and "  answers 3" in blackbox.describe(record, everything=True)


def test_the_version_of_the_release_is_read():
    record, _ = blackbox.read_slot(make(sections=[(1, b"GG"), (6, b"1.2.3\x1b")]))
    assert record.version == "1.2.3\x1b" and ", version 1.2.3\\x1b, build" in blackbox.describe(record)[1]
    assert ", version unknown, build" in blackbox.describe(blackbox.read_slot(make(sections=[(1, b"GG")]))[0])[1]


def test_an_address_is_named_by_line_and_function_of_the_same_build(tmp_path, monkeypatch):
    source = tmp_path / "one.c"
    source.write_text("static inline __attribute__((always_inline)) int add(int *x)\n{\n    return *x + 1;\n}\n"
                      "int one(int *x) { return add(x); }\n")

    def build(name, *flags):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-Wl,--build-id=sha1", *flags, "-o", tmp_path / name,
                        source], check=True)
        return blackbox.DebugFile(tmp_path / name)
    other, mine = build("peregrine.debug", "-Dadd=plus"), build("time/peregrine.debug")
    line = subprocess.run(["nm", mine.path], capture_output=True, text=True).stdout
    address = int(re.search(r"(\w+) T one", line)[1], 16)
    record, _ = blackbox.read_slot(make(sections=[(1, b"x")]))
    assert mine(address).endswith("one.c:5 one")
    inlined = re.compile(r"\S*one.c:3 add, inlined into \S*one.c:5 one")
    assert any(inlined.fullmatch(mine(address + at, returned_to=True)) for at in range(1, 9))
    record.build_id = mine.build_id
    assert blackbox.debug_file_of(record, other.path)[0].path == mine.path
    record.build_id = "00" * 16
    reason = f"the record is of build {'00' * 16}, {other.path} is of {other.build_id}"
    assert blackbox.debug_file_of(record, other.path) == (None, reason)
    assert blackbox.debug_file_of(record, tmp_path / "gone/x.debug")[1].startswith("there is no debug file")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "of the package binutils, are not here" in blackbox.debug_file_of(record, other.path)[1]


def test_control_bytes_do_not_reach_the_terminal():
    record, _ = blackbox.read_slot(make(sections=[(1, b"x\x1b[2Jy"), (5, b"a\x07b\n")]))
    assert "\x1b" not in "\n".join(blackbox.describe(record)) and "\x07" not in "\n".join(blackbox.describe(record))


def test_every_broken_byte_is_noticed():
    good = make(sections=[(1, b"GG"), (5, b"line\n")])
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << (at % 8)
        assert blackbox.read_slot(bytes(bad).ljust(4096, b"\0"))[0] is None, at
    for size in range(len(good)):
        assert blackbox.read_slot(good[:size])[0] is None


def test_sections_that_lie_about_their_size_are_refused():
    data = bytearray(make(sections=[(5, b"12345678")]))
    for count in (9, 1000, 0xffffffff):
        struct.pack_into("<I", data, 68, count)
        assert blackbox.read_slot(seal(data))[1] == f"a section of {count} bytes does not fit"


def test_the_newest_of_all_slots_counts():
    old, new = make(3, sections=[(1, b"old")]), make(4, sections=[(1, b"new")])
    for regions in ([region(old, new)], [region(new, old)], [region(old), region(new)],
                    [bytes(32768), region(b"", new)]):
        assert blackbox.newest(regions)[0].cause == "new"


def test_a_slot_torn_while_written_leaves_the_other():
    old, new = make(3, sections=[(1, b"old")]), make(4, sections=[(5, b"x" * 999)])
    torn = bytes(8) + new[8:500]
    found, reasons = blackbox.newest([region(old, torn)])
    assert found.cause == "old" and reasons == ["region 0: no record"]


def test_of_equals_the_longer_log_counts():
    small, large = make(9, sections=[(5, b"tail\n")]), make(9, sections=[(5, b"head\ntail\n")])
    assert blackbox.newest([region(small), region(large, size=131072)])[0].log == "head\ntail\n"


def test_a_region_of_one_page_has_two_halves():
    assert [len(s) for s in blackbox.slots(bytes(4096))] == [2048, 2048]
    assert [len(s) for s in blackbox.slots(bytes(12288))] == [4096, 4096]
    assert [len(s) for s in blackbox.slots(bytes(32768))] == [16384, 16384]


def test_random_bytes_are_no_record():
    rng = random.Random(os.environ.get("SEED", "20261122"))
    good = make(sections=[(1, b"GG"), (2, bytes(208)), (5, b"line\n" * 20)])
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        assert bytes(data) == good or blackbox.read_slot(bytes(data))[0] is None


# ---- reading from memory

def kcore(memory):
    """Builds an ELF core as /proc/kcore is: PT_NOTE, one text segment with no physical address, and blocks of RAM.
    `memory`: {physical address: bytes}."""
    headers, body = [struct.pack("<IIQQQQQQ", 4, 0, 0x300, 0, 0, 0, 8, 0),
                     struct.pack("<IIQQQQQQ", 1, 7, 0x7fffff600000, 0xffffffffff600000, 2**64 - 1, 4096, 4096,
                                 4096)], b""
    begin = 4096
    for physical, data in memory.items():
        headers.append(struct.pack("<IIQQQQQQ", 1, 7, begin + len(body), 0xffff888000000000 + physical, physical,
                                   len(data), len(data), 4096))
        body += data
    elf = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 4, 62, 1, 0, 64, 0, 0, 64, 56, len(headers), 0, 0, 0)
    return (elf + b"".join(headers)).ljust(begin, b"\0") + body


@pytest.fixture
def host(tmp_path):
    return FakeHost(tmp_path / "host")


def test_the_record_is_found_by_its_physical_address(host, capsys):
    low = bytearray(0x9f000 - 0x1000)
    low[0x8f000:0x8f000 + 32768] = region(make(5, sections=[(1, b"deadline")]))
    high = bytearray(0x40000)
    high[0x20000:0x40000] = region(make(6, sections=[(1, b"gg"), (5, b"log\n")]), size=131072)
    host.file("/proc/kcore", kcore({0x1000: bytes(low), 0x10000000: bytes(high)}))
    host.file("/boot/peregrine/settings", "user=u\nblackbox=0x90000,32768,0x10020000,131072,0x70000000,131072\n", 0o600)
    regions = commands.fetch_regions(host)
    assert [len(r) for r in regions] == [32768, 131072]      # the third lies outside all RAM
    assert commands.record(host) == 0
    said = capsys.readouterr().out
    assert "why it came back: gg (came back as ordered)" in said and "it stands in 1 of the 2 regions read" in said
    assert [len(r) for r in commands.fetch_regions(host, [(0x90000, 32768)])] == [32768]


def block(text):
    """Builds a block as pcapng has them: type, length, body, length."""
    return struct.pack("<II", 6, 12 + len(text)) + text + struct.pack("<I", 12 + len(text))


def test_frames_are_written_with_the_oldest_first(host, capsys, tmp_path):
    frames = b"".join(map(block, (b"head", b"link", b"new ", b"mid ", b"old ")))
    assert blackbox.blocks_of(frames[:-1]) == blackbox.blocks_of(frames)[:-1]
    assert blackbox.blocks_of(frames[:20] + struct.pack("<I", 0) * 9) == [block(b"head")]
    file, raw = tmp_path / "x.pcapng", tmp_path / "raw"
    file.write_bytes(bytes(1000))
    host.file("/boot/peregrine/settings", "blackbox=0x90000,32768\n", 0o600)
    for section, said in (((blackbox.FRAMES, frames), f"3 frames to {file}"),
                          ((blackbox.LOG, b"log\n"), f"{file} is not written")):
        host.file("/proc/kcore", kcore({0x90000: region(make(6, sections=[(1, b"gg"), section]))}))
        assert commands.record(host, capture=file, raw=raw) == 0
        assert said in capsys.readouterr().out
    assert {path.stat().st_mode & 0o777 for path in (file, raw)} == {0o600}, "frames and memory are the owner's alone"
    assert file.read_bytes() == b"".join(map(block, (b"head", b"link", b"old ", b"mid ", b"new ")))


def test_a_missing_record_is_reported_with_the_reason(host, capsys):
    host.file("/proc/kcore", kcore({0x1000: bytes(0x9e000)}))
    host.file("/boot/peregrine/settings", "blackbox=0x90000,32768\n", 0o600)
    assert commands.record(host) == 5
    assert "there is no crash record: region 0: no record" in capsys.readouterr().out
