"""Who may include whom, and what the objects of net/ and app/ may ask of the rest.

The directions: net includes kernel/base only; app includes net's public headers and kernel/base; drivers include
kernel, and of net only the device interface; kernel includes none of them, save kernel/main.c; nobody includes tests
or tools. host/ and kernel/main.c put the parts together and may include them all."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
if not BUILD.is_absolute():
    BUILD = ROOT / BUILD

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
FOLDERS = ("kernel", "drivers", "net", "app", "host")

# What net/ offers to applications: the socket-like interface, HTTP text, and checksums and hashes of bytes.
NET_PUBLIC = ("net/transport.h", "net/netdev.h", "net/http.h", "net/checksum.h", "net/siphash.h")

# What the freestanding platform owes to everybody: kernel/libc.c, and where a failed assertion goes.
PLATFORM = {"assert_failed"}
PLATFORM_OBJECTS = ("kernel/libc.o",)


def allowed(source, header):
    """Whether the file `source` may include `header`; both as paths from the root."""
    folder, target = source.split("/")[0], header.split("/")[0]
    if source == "kernel/main.c" or folder == "host":
        return target in FOLDERS
    if source.startswith("kernel/base/"):
        return header.startswith("kernel/base/")
    if folder == "kernel":
        return target == "kernel"
    if folder == "drivers":
        return target in ("kernel", "drivers") or header == "net/netdev.h"
    if folder == "net":
        return target == "net" or header.startswith("kernel/base/")
    if folder == "app":
        return target == "app" or header in NET_PUBLIC or header.startswith("kernel/base/")
    return False


def sources():
    return [p.relative_to(ROOT).as_posix() for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.[ch]"))]


def includes(source):
    """The headers of ours that a file includes; lwIP's own (which its port includes) are not ours."""
    found = INCLUDE.findall((ROOT / source).read_text())
    if source.startswith("net/lwip/"):
        found = [h for h in found if not re.match(r"(lwip|netif|arch)/", h) and "/" in h]
    return found


@pytest.mark.parametrize("source", sources())
def test_includes_go_the_allowed_ways(source):
    for header in includes(source):
        assert (ROOT / header).exists(), f"{source} includes {header}: write the full path from the root"
        assert allowed(source, header), f"{source} must not include {header}"


@pytest.mark.parametrize("source, header", [
    ("net/tcp.c", "kernel/clock.h"), ("net/tcp.c", "app/player.h"), ("app/player.c", "net/tcp.h"),
    ("app/player.c", "kernel/clock.h"), ("drivers/pci.c", "net/transport.h"), ("drivers/pci.c", "app/stats.h"),
    ("kernel/cpu.c", "drivers/pci.h"), ("kernel/base/log.c", "kernel/clock.h"), ("host/main.c", "tests/x.h"),
    ("kernel/main.c", "tools/x.h")])
def test_the_rules_forbid(source, header):
    assert not allowed(source, header)


def symbols(objects, undefined):
    """The names that objects define, or leave undefined."""
    if not objects:
        return set()
    flag = "--undefined-only" if undefined else "--defined-only"
    done = subprocess.run(["nm", "-A", "-g", "-P", flag, *objects], capture_output=True, text=True, check=True)
    return {line.split(": ", 1)[1].split(" ")[0] for line in done.stdout.splitlines()}


def objects(*folders):
    return [p for folder in folders for p in sorted((BUILD / "kernel" / folder).rglob("*.o"))]


def current(paths):
    """Objects whose source is still there: a build directory may be older than the tree."""
    return [p for p in paths if (ROOT / p.relative_to(BUILD / "kernel")).with_suffix(".c").exists()]


def test_objects_of_net_ask_for_kernel_base_alone():
    net, third_party = current(objects("net")), objects("build/lwip")
    assert len(net) >= 3, "the kernel's objects are not built: make"
    offered = symbols([*net, *third_party, *objects("kernel/base")], undefined=False) | platform()
    foreign = symbols([*net, *third_party], undefined=True) - offered
    assert not foreign, f"objects of net/ ask for {sorted(foreign)}"


def test_objects_of_app_ask_for_net_and_kernel_base_alone():
    app = current(objects("app"))
    assert len(app) >= 3, "the kernel's objects are not built: make"
    net = [*current(objects("net")), *objects("build/lwip")]
    offered = symbols([*app, *net, *objects("kernel/base")], undefined=False) | platform()
    foreign = symbols(app, undefined=True) - offered
    assert not foreign, f"objects of app/ ask for {sorted(foreign)}"


# Objects that may use vectors: chosen by CPUID, or by a setting.
VECTORS = ("app/matcher_avx2.o", "app/matcher_avx512.o", "app/span_chance.o")


def vector_instructions(path):
    """Lines of a disassembly that name a vector register, but for plain 16-byte moves."""
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    return [line for line in code.splitlines() if re.search(r"%[xyz]?mm\d", line) and not re.search(r"\tmov([au]ps|dq[au]) ", line)]


def test_the_kernel_uses_vectors_only_where_they_were_chosen():
    """Some KVMs interpret the kernel's instructions, and know general registers and plain 16-byte moves only."""
    plain = [p for p in current(objects("app", "kernel", "drivers", "net"))
             if p.relative_to(BUILD / "kernel").as_posix() not in VECTORS]
    assert any(p.name == "matcher_scalar.o" for p in plain), "the kernel's objects are not built: make"
    found = {p.name: lines[:3] for p in plain if (lines := vector_instructions(p))}
    assert not found, found
    assert vector_instructions(BUILD / "kernel" / VECTORS[0]), "the disassembly is not understood"


def platform():
    return PLATFORM | symbols([BUILD / "kernel" / p for p in PLATFORM_OBJECTS], undefined=False)


def test_the_answer_s_way_lies_in_the_section_that_idle_time_fetches():
    """kernel/base/hot.h. Its ends are weak symbols: were the section named otherwise, nothing would be fetched."""
    names = ("__start_hot_text", "rx_borrow", "http_response_step", "matcher_next", "player_turn", "tx_publish",
             "__stop_hot_text")
    listing = subprocess.run(["nm", BUILD / "peregrine.elf"], capture_output=True, text=True, check=True).stdout
    at = {name: int(re.search(rf"^(\w+) \w {name}$", listing, re.MULTILINE)[1], 16) for name in names}
    assert max(at.values()) - min(at.values()) < 32 * 1024, "too much to fetch every millisecond"
    assert min(at, key=at.get) == names[0] and max(at, key=at.get) == names[-1]
