"""The Linux boot protocol from the loader linux_loader.asm. The image lies at another address than pref_address, over
its destination, or above 4 GiB. struct boot_params lies in the destination. GRUB and QEMU make no maps of this kind
and tables."""
import re
import struct
import subprocess
import uuid

import pytest
from workshop.vm import qemu

BZIMAGE = qemu.BUILD / "peregrine.bzImage"
WAITING = "waiting for the host"
LOW_PARAMS = 0x90000


TABLES_AT = 0x110000000


def loader(directory, kernel_at, params_at=LOW_PARAMS, enter_64=0, hole=(0x10000000, 0x10001000), tables=b"",
           rsdp_at=TABLES_AT, efi_at=0, line="test.trap=wait", enter_16=0):
    path = directory / "loader"
    (directory / "tables").write_bytes(tables)
    words = {"BZIMAGE": f'"{BZIMAGE}"', "KERNEL_AT": kernel_at, "PARAMS_AT": params_at, "ENTER_64": enter_64,
             "HOLE_BEGIN": hole[0], "HOLE_END": hole[1], "TABLES": f'"{directory / "tables"}"', "TABLES_AT": TABLES_AT,
             "RSDP_AT": rsdp_at if tables else 0, "EFI_AT": efi_at, "ENTER_16": enter_16, "COMMAND_LINE": f'"{line}"'}
    subprocess.run(["nasm", "-f", "bin", *(f"-D{name}={value}" for name, value in words.items()), "-o", path,
                    qemu.ROOT / "tests/guest/linux_loader.asm"], check=True, timeout=60)
    return ["-kernel", str(path)]


PLACES = {          # KERNEL_AT, PARAMS_AT
    "overlaps-from-below": (0xfe0000, LOW_PARAMS), "where-the-image-goes": (0x1000000, LOW_PARAMS),
    "in-the-bss": (0x1200000, LOW_PARAMS), "behind-the-image": (0x4000000, LOW_PARAMS),
    "params-where-the-image-goes": (0x4000000, 0x1001000), "params-in-the-bss": (0x1200000, 0x1800000),
}


def test_real_mode_entry_takes_its_segment_from_ds(tmp_path):
    """kvmtool enters with CS = DS and IP 0x200; boot.rst fixes DS alone."""
    with qemu.Machine(loader(tmp_path, 0x4000000, enter_16=1), memory="512M") as guest:
        guest.wait_for(WAITING, 60)
    assert "started by Linux boot protocol; " in guest.log, guest.log


@pytest.mark.parametrize("enter_64", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_image_starts_at_any_address(place, enter_64, tmp_path):
    with qemu.Machine(loader(tmp_path, *PLACES[place], enter_64), memory="512M") as guest:
        guest.wait_for(WAITING, 60)
    assert "started by Linux boot protocol; " in guest.log, guest.log


def test_image_starts_from_above_4_gib(tmp_path):
    with qemu.Machine(loader(tmp_path, 0x110000000, 0x120000000, 1), memory="5G") as guest:
        guest.wait_for(WAITING, 60)


@pytest.mark.parametrize("hole", [(0xf00000, 0x1000000), (0x102000, 0x103000)])
def test_hole_below_the_image_is_no_obstacle(hole, tmp_path):
    """The ISA hole of old chipsets: 15 MiB to 16 MiB, up to pref_address. Page tables fill all below the other."""
    line = "test.trap=wait blackbox=0x6000000,4096"
    with qemu.Machine(loader(tmp_path, 0x1000000, hole=hole, line=line), memory="512M") as guest:
        guest.wait_for(WAITING, 60)


def test_image_that_does_not_lie_in_ram_is_refused(tmp_path):
    """Memory that the loader calls reserved may be a device, or memory that a device or firmware writes."""
    with qemu.Machine(loader(tmp_path, 0x4000000, hole=(0x1800000, 0x1900000)), memory="512M") as guest:
        guest.wait_reset()
    assert re.search(r"memory: the image, 0x1000000-0x\w+, does not lie in RAM", guest.log), guest.log


def checked(table, at):
    """Returns the table with the byte `at` such that all add up to 0: ACPI 6.5 §5.2.2."""
    return table[:at] + bytes([-sum(table) % 256]) + table[at + 1:]


def acpi_table(signature, body):
    return checked(struct.pack("<4sIBx6s8sIII", signature, 36 + len(body), 1, b"TESTER", b"LOADER", 1, 0, 1) + body, 9)


EFI_AT = TABLES_AT + 0xc00


def acpi_tables_above_4_gib(reset=b""):
    """Returns tables that no 32-bit pointer reaches: RSDP, XSDT, an FADT that names the PM timer of QEMU's pc, a MADT
    of two CPUs. At EFI_AT lies UEFI's system table, which names the RSDP."""
    fadt = acpi_table(b"FACP", bytes(76 - 36) + struct.pack("<I", 0x608) + bytes(91 - 80) + b"\x04"
                      + (bytes(112 - 92) + reset).ljust(244 - 92, b"\0"))
    cpus = b"".join(struct.pack("<BBBBI", 0, 8, number, apic_id, 1) for number, apic_id in enumerate((0, 7)))
    madt = acpi_table(b"APIC", struct.pack("<II", 0xfee00000, 1) + cpus)
    places = {0x400: fadt, 0x800: madt}
    xsdt = acpi_table(b"XSDT", b"".join(struct.pack("<Q", TABLES_AT + at) for at in places))
    rsdp = checked(struct.pack("<8sx6sBI", b"RSD PTR ", b"TESTER", 2, 0), 8)
    rsdp = checked(rsdp + struct.pack("<IQB3x", 36, TABLES_AT + 0x40, 0), 32)
    image = bytearray(4096)
    efi = struct.pack("<8s96xQQ", b"IBI SYST", 1, EFI_AT + 0x100).ljust(0x100, b"\0")
    efi += uuid.UUID("8868e871-e4f1-11d3-bc22-0080c73c8881").bytes_le + struct.pack("<Q", TABLES_AT)
    for at, table in {0: rsdp, 0x40: xsdt, 0xc00: efi, **places}.items():
        image[at:at + len(table)] = table
    return bytes(image)


@pytest.mark.parametrize("reported", [{}, {"rsdp_at": 0, "efi_at": EFI_AT},
                                      {"rsdp_at": 0, "line": f"test.trap=wait acpi_rsdp={TABLES_AT:#x}"}],
                         ids=["boot_params", "uefi", "command-line"])
def test_acpi_tables_above_4_gib_are_read(reported, tmp_path):
    options = loader(tmp_path, 0x100000, tables=acpi_tables_above_4_gib(), **reported)
    with qemu.Machine(options, memory="5G") as guest:
        guest.wait_for(WAITING, 60)
    assert re.search(r"acpi: 2 CPUs, 0 ECAM segments, 0 virtio-mmio devices, a PM timer, no reset register, "
                     r"no power button$", guest.log, re.MULTILINE), guest.log
    assert "by acpi pm timer" in guest.log


def test_cpu_that_does_not_come_up_is_named_and_the_loop_goes_on(tmp_path):
    """The tables list a CPU with the APIC id 7, which this machine does not have."""
    with qemu.Machine(loader(tmp_path, 0x100000, tables=acpi_tables_above_4_gib()), memory="5G") as guest:
        guest.wait_for(WAITING, 60)
    assert "worker 1: APIC id 7 did not start" in guest.log


def test_reset_register_out_of_reach_is_passed_over(tmp_path):
    """A write to it is a fault on the way home, and each fault leads there again."""
    tables = acpi_tables_above_4_gib(struct.pack("<IB3xQ", 1 << 10, 0, 1 << 63))     # RESET_REG_SUP; in memory
    with qemu.Machine(loader(tmp_path, 0x100000, tables=tables), memory="5G") as guest:
        guest.wait_reset()
