"""The allowed includes, and the symbols that the objects of net/ and app/ may leave undefined.

tools/workshop/lints/rooms.py has the directions between rooms; here are the rules within them. app includes of net
its public headers alone. host/ and image/ put the parts together: they include app/program.h, app/machine.h and
app/service/ of app, and no program; host/replay/ is the market of one, app/trade/. No program includes another's files.
Nobody includes tests or tools."""
import functools
import re
import subprocess

import pytest

from tests.lib.paths import BUILD, ROOT
from workshop import figures
from workshop.lints import rooms

# The order of kernel's rooms, from the bottom: each may include itself and those before it. The files in kernel/ itself
# (libc, panic, the build id) lie below all rooms. Any file may panic, so panic includes none, and
# kernel/rescue/failure.c, at the top, registers the actions of a panic. cpu gets functions from above as parameters: to
# map, to wait, to claim a page. memory gets the loader's map as a list. time comes above firmware, whose tables name
# timers.
KERNEL_ROOMS = ("", "cpu", "memory", "firmware", "time", "rescue")

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
FOLDERS = tuple(rooms.MAY_INCLUDE)

# The headers that net/ offers to applications: the socket-like interface, HTTP text, checksums and hashes of bytes.
NET_PUBLIC = ("net/transport.h", "net/transport_path.h", "net/netdev.h", "net/http/response.h", "net/http/request.h",
              "net/http/body.h", "net/ip/checksum.h", "net/capture/capture.h", "net/capture/pcapng.h", "net/settings.h")

# The names that any object may leave undefined: those of kernel/libc.c, and the receiver of failed assertions.
PLATFORM = {"assert_failed"}
PLATFORM_OBJECTS = ("kernel/libc.o",)


# The seams between programs and the layers below them, in addition to net/transport.h.
SEAMS = ("app/program.h", "app/machine.h")


def allowed(source, header):
    """Returns true if the file `source` may include `header`; both are paths from the root."""
    room, target = source.split("/")[0], header.split("/")[0]
    if not rooms.may_include(room, header):
        return False
    if source.startswith("host/replay/") and header.startswith(("app/trade/", "app/nasdaq/")):
        return True
    if room in ("image", "host"):
        return target != "app" or header in SEAMS or header.startswith("app/service/")
    if room == "kernel" and target == "kernel":
        return kernel_floor(header) <= kernel_floor(source)
    if room == "net" and target == "net":
        return allowed_in_net(source, header)
    if room == "app" and target != "base":
        return app_allows(source, header) if target == "app" else header in NET_PUBLIC
    return True


# The rooms of net/. These headers at the top of net/ include no room. Any file in net/ may include them.
NET_LEAVES = ("net/netdev.h", "net/counters.h", "net/secret.h")
# The stack's object holds both layers: TCP's functions take it, IP's take `struct net_ip`.
NET_STACK = ("net/stack.h", "net/stack_state.h")
NET_TRANSPORT = ("net/transport.h", "net/transport_path.h")


def allowed_in_net(source, header):
    """Returns true if a file of net/ may include a header of net/: IP knows no TCP, HTTP knows no network."""
    room = "/".join(source.split("/")[:2])
    if source in NET_LEAVES or room == "net/secret.c":
        return header in NET_LEAVES
    if room == "net/capture":
        return header.startswith("net/capture/") or header in NET_LEAVES
    if room == "net/http":
        return header.startswith("net/http/")
    if room == "net/ip":
        return header.startswith("net/ip/") or header in NET_LEAVES
    if room == "net/tcp":
        return header.startswith(("net/tcp/", "net/ip/")) or header in NET_LEAVES + NET_STACK
    if room == "net/lwip":
        return header.startswith(("net/lwip/", "net/ip/")) or header in NET_LEAVES + NET_TRANSPORT
    return not header.startswith(("net/lwip/", "net/http/"))


def kernel_floor(path):
    """Returns the place of a kernel file's room in the order."""
    return KERNEL_ROOMS.index(path.split("/")[1] if path.count("/") > 1 else "")


# The libraries of app/ beside the service, and the programs that use them. They know neither service nor program.
LIBRARIES = {"matcher": ("player", "survey"), "nasdaq": ("trade",)}


def app_allows(source, header):
    """Returns true if a file of app/ may include a header of app/: its own room, the seams, the service, a library. No
    program sees another, the service sees none."""
    room, target = source.split("/")[1], header.split("/")[1]
    if header in SEAMS or target == room:
        return True
    if room in LIBRARIES:
        return False
    return target == "service" and f"app/{room}" not in SEAMS or room in LIBRARIES.get(target, ())


def sources(folder):
    return [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / folder).rglob("*.[ch]"))]


def includes(source):
    """Returns the project's headers that a file includes, without lwIP's own, which its port includes."""
    found = INCLUDE.findall((ROOT / source).read_text())
    if source.startswith("net/lwip/"):
        found = [h for h in found if not re.match(r"(lwip|netif|arch)/", h) and "/" in h]
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_includes_go_the_allowed_ways(folder):
    pairs = [(source, header) for source in sources(folder) for header in includes(source)]
    assert pairs
    for source, header in pairs:
        assert (ROOT / header).exists(), f"{source} includes {header}: write the full path from the root"
        assert allowed(source, header), f"{source} must not include {header}"


@pytest.mark.parametrize("source, header", [
    ("net/tcp.c", "kernel/time/clock.h"), ("net/tcp.c", "app/player/player.h"),
    ("app/player/player.c", "net/tcp/tcp.h"),
    ("app/player/player.c", "kernel/time/clock.h"), ("drivers/pci/pci.c", "net/transport.h"),
    ("drivers/pci/pci.c", "app/service/stats.h"),
    ("kernel/cpu/cpu.c", "drivers/pci/pci.h"),
    ("kernel/cpu/apic.c", "kernel/memory/memory.h"), ("kernel/memory/memory.c", "kernel/firmware/boot_info.h"),
    ("kernel/firmware/acpi.c", "kernel/time/clock.h"), ("kernel/time/clock.c", "kernel/rescue/reset.h"),
    ("kernel/panic.c", "kernel/rescue/reset.h"), ("kernel/panic.c", "kernel/cpu/cpu.h"),
    ("base/log.c", "kernel/time/clock.h"), ("host/main.c", "tests/x.h"),
    ("image/main.c", "tools/x.h"), ("net/ip/arp.c", "net/tcp/connection.h"), ("net/ip/arp.c", "net/stack_state.h"),
    ("net/http/request.c", "net/ip/ip.h"), ("net/tcp/input.c", "net/transport.h"), ("net/secret.h", "net/ip/ip.h"),
    ("image/main.c", "app/player/player.h"), ("host/main.c", "app/matcher/matcher.h"),
    ("app/echo/echo.c", "app/player/session.h"), ("app/echo/echo.c", "app/matcher/matcher.h"),
    ("app/service/stats.c", "app/player/player.h"), ("app/matcher/matcher.c", "app/service/stats.h"),
    ("app/nasdaq/link.c", "app/service/service.h"), ("app/nasdaq/mold.c", "app/trade/book.h"),
    ("app/echo/echo.c", "app/nasdaq/mold.h"),
    ("app/program.h", "app/service/stats.h"), ("app/machine.h", "app/service/stats.h"),
    ("app/survey/rows.c", "app/player/session.h"), ("app/survey/rows.c", "image/machine.c"),
    ("host/main.c", "kernel/time/clock.h"), ("host/main.c", "drivers/pci/pci.h"), ("image/main.c", "host/sockets.h"),
    ("app/machine.h", "kernel/cpu/workers.h")])
def test_the_rules_forbid(source, header):
    assert not allowed(source, header)


def symbols(objects, undefined):
    """Returns the names that objects define, or leave undefined."""
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
    offered = symbols([*net, *third_party, *objects("base")], undefined=False) | platform()
    foreign = symbols([*net, *third_party], undefined=True) - offered
    assert not foreign, f"objects of net/ ask for {sorted(foreign)}"


@pytest.mark.parametrize("room, not_from", [
    ("capture", ["ip", "tcp", "http", "stack.o", "own"]),
    ("ip", ["tcp", "http", "stack.o", "own"]),
    ("http", ["ip", "tcp", "stack.o", "own", "secret.o"]),
    ("tcp", ["http", "stack.o", "own"])])
def test_rooms_of_net_ask_for_nothing_above_them(room, not_from):
    net = BUILD / "kernel" / "net"
    above = [p for name in not_from for p in ([net / name] if name.endswith(".o") else (net / name).glob("*.o"))]
    missing = symbols(current(objects(f"net/{room}")), undefined=True) & symbols(current(above), undefined=False)
    assert not missing, f"objects of net/{room} ask for {sorted(missing)} of {not_from}"


def test_objects_of_app_ask_for_net_and_kernel_base_alone():
    app = current(objects("app"))
    assert len(app) >= 3, "the kernel's objects are not built: make"
    net = [*current(objects("net")), *objects("build/lwip")]
    machine = symbols([BUILD / "kernel/image/machine.o"], undefined=False)
    offered = symbols([*app, *net, *objects("base")], undefined=False) | machine | platform()
    foreign = symbols(app, undefined=True) - offered
    assert not foreign, f"objects of app/ ask for {sorted(foreign)}"


def test_contributing_names_the_c_library_of_a_kernel():
    said = re.search(r"The C library of a kernel is ([^.]*), no more\.", (ROOT / "CONTRIBUTING.md").read_text())
    assert set(re.findall(r"`(\w+)`", said[1])) == platform() - PLATFORM - {"__popcountdi2"}     # gcc's own


def circle(arrows):
    """Returns a circle of a graph {node: set of nodes} as a list of nodes, or None."""
    done, way = set(), []

    def visit(node):
        if node in way:
            return way[way.index(node):] + [node]
        if node in done:
            return None
        way.append(node)
        found = next(filter(None, map(visit, sorted(arrows.get(node, ())))), None)
        way.pop()
        done.add(node)
        return found

    return next(filter(None, map(visit, sorted(arrows))), None)


def test_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) is None
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


@functools.cache
def calls(folder, deep=False):
    """Returns {file of a folder: files whose symbols it uses}, without suffixes, by the objects' symbols. An inline
    function of a header is no symbol: what it calls is used by the file that calls it."""
    built = {str(p): p.relative_to(BUILD / "kernel").with_suffix("").as_posix() for p in current(objects(folder))
             if deep or p.parent == BUILD / "kernel" / folder}
    done = subprocess.run(["nm", "-A", "-g", "-P", *built], capture_output=True, text=True, check=True)
    rows = [re.fullmatch(r"(.*?): (\S+) (\S).*", line).groups() for line in done.stdout.splitlines()] if built else []
    owners = {name: built[path] for path, name, kind in rows if kind not in "UwvW"}
    found = {module: set() for module in built.values()}
    for path, name, kind in rows:
        if kind in "Uwv" and owners.get(name, built[path]) != built[path]:
            found[built[path]].add(owners[name])
    return found


def modules_included(folder):
    """Returns {file of a folder: files of the folder that it or its header includes}, without suffixes."""
    arrows = {}
    for source in sources(folder):
        targets = {h.rsplit(".", 1)[0] for h in includes(source) if h.startswith(folder + "/")}
        module = source.rsplit(".", 1)[0]
        arrows.setdefault(module, set()).update(targets - {module})
    return arrows


def test_kernel_has_no_circle_of_includes():
    assert circle(modules_included("kernel")) is None


def test_kernel_has_no_circle_of_calls():
    found = calls("kernel", deep=True)
    assert len(found) >= 20, "the kernel's objects are not built: make"
    assert circle(found) is None
    upwards = [(a, b) for a in found for b in found[a] if kernel_floor(b + ".c") > kernel_floor(a + ".c")]
    assert not upwards, "a room of the kernel uses one above it"


# The folders of the product that have objects in build/kernel.
CALLING = sorted({p.parent.relative_to(ROOT).as_posix() for folder in FOLDERS for p in (ROOT / folder).rglob("*.c")}
                 - {"host", "host/library", "host/replay", "net/lwip"})


@pytest.mark.parametrize("folder", [*CALLING, pytest.param("net/lwip", marks=pytest.mark.slow)])
def test_files_of_a_folder_call_in_no_circle(folder):
    found = calls(folder)
    assert len(found) == len(list((ROOT / folder).glob("*.c"))), f"objects of {folder} are not built: make"
    assert circle(found) is None


# The floors of net/tcp, in the head of connection.h: a floor's number, a file, its work.
TCP_FLOOR = re.compile(r"^ \*\s+(\d+) (\w+)\.[ch] ", re.MULTILINE)


def tcp_floors():
    """Returns {file of net/tcp: its floor}, without suffixes, as connection.h lists them."""
    head = (ROOT / "net/tcp/connection.h").read_text().split("*/")[0]
    return {"net/tcp/" + name: int(floor) for floor, name in TCP_FLOOR.findall(head)}


def test_every_file_of_tcp_has_a_floor():
    assert set(tcp_floors()) == {source[:-2] for source in sources("net/tcp")}


def test_files_of_tcp_use_files_on_lower_floors_alone():
    """By calls and by includes: no header lets a file see a floor above its own either."""
    floors, called, included = tcp_floors(), calls("net/tcp"), modules_included("net/tcp")
    assert called, "objects of net/tcp are not built: make"
    arrows = {(a, b) for graph in (called, included) for a in graph for b in graph[a]}
    upwards = sorted(f"{a} -> {b}" for a, b in arrows if floors.get(b, 0) >= floors.get(a, 0))
    assert not upwards, f"{len(upwards)} of {len(arrows)} arrows go up or stay on their floor: {upwards}"


# Members of a connection, or the end of a struct of them, and the files that write them: in connection.h.
TCP_PART = re.compile(r"^ +(?:\}|\w[\w ]*?)[ *]+(\w+(?:, \w+)*)(?:\[\w+\])?; +/\* (?:.*; )?written by (.*) alone \*/$",
                      re.MULTILINE)


def writes(source, part):
    """Returns the lines of a file that write a part of a connection, or that take its address."""
    member = rf"c->{part}\b(?:\.\w+|\[[^\]]*\])*"
    write = re.compile(rf"(\+\+|--|&){member}|{member}\s*(\+\+|--|([-+*/%&|^]|<<|>>)?=(?!=))")
    return [line.strip() for line in (ROOT / source).read_text().splitlines() if write.search(line)]


def test_parts_of_a_connection_are_written_by_their_owners_alone():
    head = (ROOT / "net/tcp/connection.h").read_text()
    found = TCP_PART.findall(head)
    assert len(found) == head.count("written by") > 0, "a line with an owner is not understood"
    for part, owners in ((part, owners) for names, owners in found for part in names.split(", ")):
        written = {source: lines for source in sources("net") if (lines := writes(source, part))}
        writers = {source[:-2] for source in written}
        assert writers == {f"net/tcp/{owner}" for owner in re.findall(r"(\w+)\.c", owners)}, f"{part}: {written}"


# Objects that may use vectors: chosen by CPUID or a setting.
VECTORS = ("app/matcher/avx2.o", "app/matcher/avx512.o")
VECTORS_OF_DIGEST = re.compile(r"app/digest/\w+_(avx2|avx512|shani|aesni|vaes)\.o")


def vector_instructions(path):
    """Returns the lines of a disassembly that name a vector register, except for plain 16-byte moves."""
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True,
                          check=True).stdout
    return [line for line in code.splitlines() if re.search(r"%[xyz]?mm\d", line)
            and not re.search(r"\tmov([au]ps|dq[au]) ", line)]


def test_the_kernel_uses_vectors_only_in_chosen_variants():
    """Some KVMs interpret the kernel's instructions, and know general registers and plain 16-byte moves only."""
    plain = [p for p in current(objects("image", "base", "app", "kernel", "drivers", "net"))
             if (name := p.relative_to(BUILD / "kernel").as_posix()) not in VECTORS
             and not VECTORS_OF_DIGEST.fullmatch(name)]
    assert any(p.name == "scalar.o" for p in plain), "the kernel's objects are not built: make"
    found = {p.name: lines[:3] for p in plain if (lines := vector_instructions(p))}
    assert not found, found
    assert vector_instructions(BUILD / "kernel" / VECTORS[0]), "the disassembly is not understood"


def platform():
    return PLATFORM | symbols([BUILD / "kernel" / p for p in PLATFORM_OBJECTS], undefined=False)


def test_the_answer_s_way_lies_in_the_section_that_idle_time_fetches():
    """base/hot_section.h. The section's ends are weak symbols: under another name nothing would be fetched."""
    names = ("__start_hot_text", "rx_borrow", "http_response_step", "matcher_next", "player_turn", "tx_publish",
             "__stop_hot_text")
    listing = subprocess.run(["nm", BUILD / "peregrine.debug"], capture_output=True, text=True, check=True).stdout
    at = {name: int(re.search(rf"^(\w+) \w {name}$", listing, re.MULTILINE)[1], 16) for name in names}
    assert max(at.values()) - min(at.values()) < 32 * 1024, "too much to fetch every millisecond"
    assert min(at, key=at.get) == names[0] and max(at, key=at.get) == names[-1]


def groups_of_counters(*folders):
    """Returns the modules whose counters the sources of these folders define: {the path's first word}."""
    text = "".join(p.read_text() for folder in folders for p in sorted(ROOT.glob(f"{folder}/**/*.c")))
    return set(re.findall(r'COUNTER_GROUP\w*\(\s*"(\w+)\.', text))


def test_no_name_decides_what_a_counter_is():
    """A counter has a kind (base/counters.h). The service names no module of a program."""
    product = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.[ch]"))]
    assert not [p for p in product if re.search(r"\bstr(case)?str\(", p.read_text())]
    programs = groups_of_counters("app/[!s]*", "app/survey") - groups_of_counters("app/service", "kernel", "drivers")
    assert {"player", "mold", "echo", "ntp"} <= programs
    service = "".join(p.read_text() for p in sorted((ROOT / "app/service").glob("*.[ch]")))
    assert not [name for name in sorted(programs) if f'"{name}.' in service]


def test_the_picture_of_the_rooms_shows_the_rules():
    """docs/rooms.svg is drawn from tools/workshop/lints/rooms.py: `make report`."""
    assert (ROOT / "docs/rooms.svg").read_text() == figures.rooms()


def test_the_arrows_are_the_fewest_that_give_the_rules():
    arrows = rooms.arrows()

    def leads(upper):
        below = {lower for start, lower in arrows if start == upper}
        return below.union(*map(leads, below))

    assert {room: leads(room) for room in rooms.MAY_INCLUDE} == {r: set(t) for r, t in rooms.MAY_INCLUDE.items()}
    assert ("image", "base") not in arrows
