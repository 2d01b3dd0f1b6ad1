"""The machine that main.c finds: every boot protocol, sizes of memory, rights of pages, time, screens."""
import re
import subprocess
import time

import pytest
from workshop.vm import linux_guest
from workshop.vm import qemu
from tests.guest import screen

WAIT = "test.trap=wait"
WAITING = "waiting for the host"
HANG = "watchdog=1 test.trap=hang"
BZIMAGE = qemu.BUILD / "peregrine.bzImage"


@pytest.fixture(scope="session")
def isos(tmp_path_factory):
    """Makes an ISO for each boot protocol, by its image. Settings come half from the command line, half from a module.
    """
    directory = tmp_path_factory.mktemp("iso")
    (directory / "settings").write_text("# from the module\n" + HANG.replace(" ", "\n") + "\n")
    return {image: qemu.make_iso(directory / f"{image.name}.iso", "n=3", directory / "settings", image)
            for image in (qemu.IMAGE, BZIMAGE)}


def by_kexec(directory, firmware):
    """Returns options of a Linux that starts the image by kexec, and does nothing else."""
    program, module = directory / "kexec", directory / "settings"
    subprocess.run(["gcc", "-static", "-o", program, qemu.ROOT / "tests/guest/kexec.c"], check=True, timeout=60)
    module.write_text(HANG)
    files = {"kexec": program, "image": BZIMAGE, "module": module}
    (directory / "initramfs").write_bytes(linux_guest.initramfs(files, ""))
    linux = next(linux_guest.kernel_tree().glob("boot/vmlinuz-*"))
    by_firmware = ["-bios", qemu.OVMF] if firmware == "uefi" else []
    return qemu.kernel("quiet rdinit=/kexec", directory / "initramfs", linux) + by_firmware


# The start: options, machine, the start's name in the log, the function that reads the screen. SeaBIOS enters a bzImage
# in real mode.
STARTS = {
    "pvh-pc": (lambda *_: qemu.kernel(HANG), "pc", "PVH; VGA text 80x25", screen.text_screen),
    "pvh-q35": (lambda *_: qemu.kernel(HANG), "q35", "PVH.*", None),
    "pvh-microvm": (lambda *_: qemu.kernel(HANG), "microvm", "PVH; no screen", None),
    "bzimage-pc": (lambda *_: qemu.kernel(HANG, image=BZIMAGE), "pc", "Linux boot protocol; VGA text 80x25",
                   screen.text_screen),
    "bzimage-q35": (lambda *_: qemu.kernel(HANG, image=BZIMAGE), "q35", "Linux boot protocol.*", None),
    "iso-bios": (lambda isos, _: qemu.iso(isos[qemu.IMAGE]), "pc", "Multiboot2, GRUB.*; framebuffer .*",
                 screen.framebuffer_screen),
    "iso-uefi": (lambda isos, _: qemu.iso(isos[qemu.IMAGE], "uefi"), "q35", "Multiboot2, GRUB.*; framebuffer .*",
                 screen.framebuffer_screen),
    "iso-linux-bios": (lambda isos, _: qemu.iso(isos[BZIMAGE]), "pc", "Linux boot protocol, GRUB; VGA text 80x25",
                       screen.text_screen),
    "iso-linux-uefi": (lambda isos, _: qemu.iso(isos[BZIMAGE], "uefi"), "q35",
                       "Linux boot protocol, GRUB; framebuffer .*", screen.framebuffer_screen),
    "kexec-bios": (lambda _, directory: by_kexec(directory, "bios"), "pc",
                   "Linux boot protocol; VGA text 80x25", screen.text_screen),
    "kexec-uefi": (lambda _, directory: by_kexec(directory, "uefi"), "q35",
                   "Linux boot protocol; framebuffer .*", screen.framebuffer_screen),
}


@pytest.mark.parametrize("start", STARTS)
def test_start_has_screen_acpi_and_all_cpus_and_a_hang_ends(start, isos, tmp_path):
    options, machine, started, read_screen = STARTS[start]
    options = options(isos, tmp_path) + ["-action", "shutdown=pause"]
    with qemu.Machine(options, machine=machine, memory="512M", cpus=2) as guest:
        guest.wait_reset(120)
        lines = "".join(read_screen(guest, tmp_path / "screen")) if read_screen else ""
    button = "no" if machine == "microvm" else "a"
    for pattern in (rf"started by {started}$", r"clock: TSC [1-9]\d{5,6} kHz by ", r"memory: 4\d\d MiB of RAM",
                    rf"acpi: 2 CPUs, .*, {button} power button$", "worker 1: APIC id 1 is up",
                    "back to Linux: watchdog: the loop stood still$"):
        assert re.search(pattern, guest.log, re.MULTILINE), f"nothing like {pattern!r} in:\n{guest.log}"
    assert not read_screen or "watchdog: the loop stood still" in lines, lines + "\n---\n" + guest.log


def test_machine_without_acpi_starts():
    with qemu.Machine(qemu.kernel(WAIT), machine="microvm,acpi=off", cpus=2) as guest:
        guest.wait_for(WAITING)
    assert "started by PVH; no screen" in guest.log
    assert "acpi: no tables" in guest.log


def test_module_of_a_pvh_loader_is_read(tmp_path):
    module = tmp_path / "settings"
    module.write_text("test.trap=opcode\n")
    with qemu.Machine(qemu.kernel("n=3", module) + ["-vga", "none"]) as guest:
        guest.wait_for(r"trap: invalid opcode")


@pytest.mark.parametrize("memory_mib", [128, 1024, 3072, 8192])
def test_all_memory_is_found(memory_mib):
    with qemu.Machine(qemu.kernel(WAIT), memory=f"{memory_mib}M") as guest:
        found = int(guest.wait_for(r"memory: (\d+) MiB of RAM").group(1))
        guest.wait_for(WAITING)
    symbols = qemu.symbols()
    rest_mib = memory_mib - (symbols["image_end"] - symbols["image_begin"] >> 20)
    assert rest_mib - 4 <= found <= rest_mib


PLAY = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=40 m=7"


@pytest.mark.parametrize("cpu", ["qemu64", "kvm64", "max", "max,-xsave", "max,-pdpe1gb,-smep,-smap,-umip", "Nehalem",
                                 "EPYC"])
def test_cpu_is_good_enough_for_the_player(cpu):
    options = [*qemu.kernel(PLAY), "-netdev", "hubport,id=n,hubid=0", "-device", "virtio-net-pci,netdev=n"]
    with qemu.Machine(options, cpu=cpu, network=True) as guest:
        guest.wait_for(r"playing with simd=|trap:")
        assert "trap:" not in guest.log, guest.log


@pytest.mark.parametrize("cpu, reason", [
    ("486", "no time-stamp counter"), ("qemu64,-lm", "no 64-bit mode"), ("qemu64,-nx", "no NX pages"),
    ("qemu64,-sse2", "SSE2"), ("qemu64,-pae", "PAE"),
])
def test_cpu_without_a_needed_feature_is_named_and_the_machine_reset(cpu, reason):
    with qemu.Machine(qemu.kernel(), cpu=cpu) as guest:
        guest.wait_for(rf"peregrine: this CPU .*{reason}")
        guest.wait_reset()


def workers(words, cpus):
    """Returns the log's lines about workers."""
    with qemu.Machine(qemu.kernel(f"{words} {WAIT}"), cpus=cpus) as guest:
        guest.wait_for(WAITING)
    return re.findall(r"\] (workers?(?: \d+)?: .*?)\r?$", guest.log, re.MULTILINE)


@pytest.mark.parametrize("cpus, messages", [
    ("1", ["workers: 1 wanted, CPUs besides the first: 0"]),
    ("2,sockets=1,cores=2,threads=1", ["worker 1: APIC id 1 is up"]),
    ("2,sockets=1,cores=1,threads=2", ["worker 1: APIC id 1 is up, a hyperthread of a core that is in use"]),
    ("4,sockets=1,cores=2,threads=2", ["worker 1: APIC id 2 is up"]),
    ("6,sockets=2,cores=3,threads=1", ["worker 1: APIC id 1 is up"]),
])
def test_second_cpu_is_on_another_core_than_the_first_if_there_is_one(cpus, messages):
    assert workers("cpus=2", cpus) == messages


def test_all_cpus_start_and_hyperthreads_come_last():
    """The ids have holes: three cores of two threads take eight numbers a socket."""
    sibling = "is up, a hyperthread of a core that is in use"
    assert workers("cpus=all", "12,sockets=2,cores=3,threads=2") == [
        *[f"worker {n}: APIC id {apic} is up" for n, apic in enumerate((2, 4, 8, 10, 12), 1)],
        *[f"worker {n}: APIC id {apic} {sibling}" for n, apic in enumerate((1, 3, 5, 9, 11, 13), 6)]]


def test_64_cpus_start():
    assert workers("cpus=64", 64) == [f"worker {n}: APIC id {n} is up" for n in range(1, 64)]


def test_more_cpus_than_there_are_are_counted():
    assert workers("cpus=64", 2) == ["workers: 63 wanted, CPUs besides the first: 1", "worker 1: APIC id 1 is up"]


def test_scalar_setting_keeps_newer_instructions_off():
    with qemu.Machine(qemu.kernel("simd=scalar " + WAIT), cpu="max") as guest:
        guest.wait_for(WAITING)
    assert re.search(r"cpu: .* xcr0 0x0, 1 GiB pages$", guest.log, re.MULTILINE), guest.log
    assert "random: seeded by timing jitter" in guest.log


# ---- page rights in the CPU's page tables

IMAGE_BEGIN = 0x1000000


@pytest.fixture(scope="module", params=["qemu64", "max"])
def pages(request):
    """Returns (address, physical, writable, executable, uncached) of every entry of the guest's page tables."""
    with qemu.Machine(qemu.kernel(WAIT), memory="5G", cpu=request.param) as guest:
        guest.wait_for(WAITING)
        lines = guest.qmp("human-monitor-command", **{"command-line": "info tlb"}).split("\r\n")
    entries = [(int(line[:16], 16), int(line[18:34], 16), line[35:]) for line in lines
               if re.match(r"[0-9a-f]{16}: ", line)]
    assert entries
    return [(virtual, physical, "W" in flags, "X" not in flags, "C" in flags) for virtual, physical, flags in entries]


def test_nothing_is_writable_and_executable(pages):
    assert not [hex(virtual) for virtual, _, writable, executable, _ in pages if writable and executable]


def test_only_the_image_is_executable_and_once(pages):
    executable = [(virtual, physical) for virtual, physical, _, x, _ in pages if x]
    assert executable
    assert min(executable)[0] == IMAGE_BEGIN
    assert max(executable)[0] < IMAGE_BEGIN + (4 << 20)
    frames = [physical for _, physical in executable]
    assert not [hex(p) for _, p, _, x, _ in pages if p in frames and not x]


def test_addresses_are_their_own_frames_and_page_zero_is_missing(pages):
    assert all(virtual == physical for virtual, physical, *_ in pages)
    assert min(virtual for virtual, *_ in pages) >= 4096


def test_guard_pages_are_missing(pages):
    symbols = qemu.symbols()
    present = {virtual for virtual, *_ in pages}
    sizes = [65536] * 5 + [28672, 8192] * 63        # kernel/cpu/stacks.h
    guard = symbols["stacks"]
    for size in sizes:
        assert guard not in present
        assert all(guard + offset in present for offset in range(4096, 4096 + size, 4096))
        guard += 4096 + size


def test_the_local_apic_is_uncached(pages):
    assert [uncached for virtual, _, _, _, uncached in pages if virtual == 0xFEE00000] == [True]


# ---- time

def test_guest_seconds_are_real_seconds():
    """A wrong frequency would be off by far more than 15 %. A busy host reads a line late. Then the seconds before the
    line seem longer, and those after it shorter. So one span of three seconds suffices."""
    stamps, ratios = [], []
    with qemu.Machine(qemu.kernel(WAIT)) as guest:
        for left in range(60, 20, -1):
            line = guest.wait_for(rf"\[ *([\d.]+)\].*waiting for the host to do something, {left} s left")
            stamps.append((float(line.group(1)), time.monotonic()))
            if left <= 57:
                (guest_from, real_from), (guest_to, real_to) = stamps[-4], stamps[-1]
                ratios.append((guest_to - guest_from) / (real_to - real_from))
                if 0.85 < ratios[-1] < 1.15:
                    return
    raise AssertionError(f"seconds in the guest to real ones: {ratios}")


# The kernel takes a frequency that Linux measured if it is plausible. Without a NIC the run ends right after.
GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3"


def test_frequency_setting_of_another_machine_is_refused():
    with qemu.Machine(qemu.kernel(GAME + " tsc.khz=123456") + ["-vga", "none"]) as guest:
        guest.wait_for(r"clock: tsc\.khz=123456 is not this machine's, keeping \d+")
        guest.wait_reset()
